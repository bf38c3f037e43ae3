//! `flipside seen`

use super::arguments::{FeatureArgs, FieldArgs, threads};
use super::{Done, print};
use anyhow::Context;
use flipside::corpus::{
    self, DiscoverOptions, Discovered, Document, FileReading, Input, ReadOptions, discover_all,
};
use flipside::document::DocId;
use flipside::format;
use flipside::hash::FeatureHash;
use flipside::making::check_file;
use flipside::seen::{Answer, COLUMNS, Page, Seen, SeenParams};
use flipside::settings::{MAX_DISTANCE, Settings, USUAL_DISTANCE};
use flipside::tables::cell::guarded;
use flipside::text::Extraction;
use flipside::weight::frequencies::Frequencies;
use flipside::wording::{printable, printable_json, printable_path};
use serde::Serialize;
use std::borrow::Cow;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Check pages against an index of pages seen so far, then add them.
///
/// Prints one line per page, in the order of files and pages: same (an earlier page has the same text), near
/// (an earlier page's SimHash is within the distance; the nearest is named), or new. Later pages never change
/// an answer. Pages are stored under their URL, or their id if they have none; a page with the text of an
/// earlier one is not stored again. The index file is replaced at the end, and only if the run succeeds.
///
/// TF-IDF weights need fixed document frequencies: make them with `flipside dedup --save-frequencies FILE`
/// from a corpus like the one to come. An index can only be used with the settings it was made with; the
/// distance may change.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  flipside seen --index crawl.seen monday.warc.wet.gz > monday.csv
  flipside seen --index crawl.seen tuesday.warc.wet.gz > tuesday.csv
  flipside seen --index crawl.seen --ask-only page.jsonl --json
  flipside seen --index words.seen --features words --weighting tf-idf --frequencies words.freq monday.warc.wet.gz

Exit code: 0 done; 1 done, but damaged input was skipped; 2 failed.")]
pub(crate) struct Args {
    /// WET, JSONL and Parquet files, folders of them, or - for standard input, which is copied to the folder for
    /// temporary files first (TMPDIR, or /tmp) and answered at its end
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// Index file of the pages seen; created if it does not exist
    #[arg(long, value_name = "FILE")]
    index: PathBuf,

    /// Answer, but do not add the pages to the index
    #[arg(long)]
    ask_only: bool,

    /// Two hashes are near if at most this many of their 64 bits differ
    #[arg(long, value_name = "BITS", default_value_t = USUAL_DISTANCE)]
    distance: u32,

    /// Print one JSON object per line instead of CSV
    #[arg(long)]
    json: bool,

    /// Number of threads (0 = one per core); answers are identical
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads())]
    threads: usize,

    #[command(flatten)]
    names: FieldArgs,

    #[command(flatten)]
    features: FeatureArgs,

    /// Compare pages with fewer distinct features than this by their exact text only
    #[arg(long, value_name = "N", default_value_t = Settings::default().min_features, help_heading = "Features")]
    min_features: usize,
}

/// What tells whether a file is the one that was read; none where there is no file.
fn stamp(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// A line of the output.
#[derive(Serialize)]
struct Row<'a> {
    page: Cow<'a, str>,
    answer: &'static str,
    distance: Option<u32>,
    earlier: Option<Cow<'a, str>>,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        if self.distance > MAX_DISTANCE {
            anyhow::bail!("--distance {}: expected at most {MAX_DISTANCE} of 64 bits", self.distance);
        }
        let (params, frequencies) = self.params()?;
        // What it is shows when it is loaded.
        check_file("index", &self.index, "", |_| true)?;
        let mut seen = match self.index.try_exists().with_context(|| printable_path(&self.index))? {
            true => Seen::load(&self.index, &params, self.distance)?,
            false if self.ask_only => {
                anyhow::bail!("{}: there is no such index", printable_path(&self.index))
            }
            false => Seen::new(params.clone(), self.distance)?,
        };
        let (before, found) = (seen.len(), stamp(&self.index));
        // What cannot be printed does not keep pages from being remembered.
        let mut printed = Ok(Done::Well);
        let mut options =
            ReadOptions::new(self.names.fields(), self.names.longest_page(), self.names.rules());
        if self.threads > 0 {
            options.threads = self.threads;
        }
        let mut damaged = 0;
        if !self.json {
            printed = print((COLUMNS.join(",") + "\n").as_bytes());
        }
        let fields = DiscoverOptions { fields: self.names.fields(), ..DiscoverOptions::default() };
        let Discovered { inputs, passed_over } = discover_all(&self.inputs, &fields)?;
        if let Some(told) = passed_over.told() {
            eprintln!("flipside: {told}");
        }
        for input in inputs {
            let (pages, reading) = sketched(&input, &options, &params, &frequencies);
            for line in reading.damage_told() {
                eprintln!("flipside: {line}");
            }
            damaged += reading.damaged;
            let mut lines = Vec::new();
            for (_, name, page) in &pages {
                let answer = seen.ask(page);
                self.write(&mut lines, &seen, name, answer)?;
                if !self.ask_only {
                    seen.add(page, name)?;
                }
            }
            if printed.is_ok() {
                printed = print(&lines);
            }
        }
        if !self.ask_only && (seen.len() > before || before == 0) {
            if stamp(&self.index) != found {
                anyhow::bail!(
                    "{}: another run has changed the index meanwhile; nothing of this run was remembered: run it again",
                    printable_path(&self.index)
                );
            }
            seen.save(&self.index)?;
        }
        printed?;
        Ok(if damaged > 0 { Done::WithDamage } else { Done::Well })
    }

    /// How pages are sketched, and the frequencies for it.
    fn params(&self) -> anyhow::Result<(SeenParams, Arc<Frequencies>)> {
        self.features.check()?;
        let (kind, weighting) = (self.features.features(), self.features.weighting());
        let feature_hash = self.features.hash_or(FeatureHash::Murmur3);
        let extraction = Extraction { kind, hash: feature_hash };
        let (frequencies, checksum) = match &self.features.frequencies {
            Some(path) => (flipside::frequencies::load(path, extraction)?, Some(format::checksum(path)?)),
            None if weighting.needs_frequencies() => anyhow::bail!(
                "--weighting tf-idf needs --frequencies FILE, as flipside dedup --save-frequencies makes it; without, use \
                 --weighting tf or binary"
            ),
            None => (Frequencies::new(extraction), None),
        };
        let min_features = self.min_features;
        Ok((
            SeenParams { features: kind, feature_hash, weighting, min_features, frequencies: checksum },
            Arc::new(frequencies),
        ))
    }

    /// Appends the line of one answer.
    fn write(&self, lines: &mut Vec<u8>, seen: &Seen, page: &str, answer: Answer) -> anyhow::Result<()> {
        let (answer, distance, earlier) = match answer {
            Answer::New => ("new", None, None),
            Answer::Near { document, distance } => ("near", Some(distance), Some(document)),
            Answer::Same { document } => ("same", Some(0), Some(document)),
        };
        let mut row =
            Row { page: page.into(), answer, distance, earlier: earlier.map(|at| seen.name(at).into()) };
        if !self.json && std::io::stdout().is_terminal() {
            // A table in a file names pages as they are; a terminal would obey what a name says.
            row.page = printable(page);
            row.earlier = earlier.map(|at| printable(seen.name(at)));
        }
        if self.json {
            lines.extend_from_slice(printable_json(&serde_json::to_string(&row)?).as_bytes());
            lines.push(b'\n');
        } else {
            row.page = guarded(&row.page).into_owned().into();
            row.earlier = row.earlier.map(|earlier| guarded(&earlier).into_owned().into());
            let mut table = csv::WriterBuilder::new().has_headers(false).from_writer(lines);
            table.serialize(&row)?;
            table.flush()?;
        }
        Ok(())
    }
}

/// The pages of a file in their order, each with its name.
fn sketched(
    input: &Input,
    options: &ReadOptions,
    params: &SeenParams,
    frequencies: &Arc<Frequencies>,
) -> (Vec<(DocId, String, Page)>, FileReading) {
    let name = |document: &Document<'_>| {
        let own = document.url.or(document.record_id);
        own.map_or_else(|| input.name_of(document.id.row), str::to_owned)
    };
    let mut reading = corpus::read(
        std::slice::from_ref(input),
        options,
        || (params.sketcher(frequencies), Vec::new()),
        |(sketcher, pages), document| {
            pages.push((document.id, name(&document), params.page(&sketcher.sketch(document.text))));
        },
        &|_| (),
    );
    let mut pages: Vec<_> = reading.workers.into_iter().flat_map(|(_, pages)| pages).collect();
    pages.sort_unstable_by_key(|(id, ..)| *id);
    (pages, reading.files.pop().unwrap_or_default())
}
