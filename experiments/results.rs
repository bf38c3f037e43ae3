//! Rows of measurements: appended one by one, each with everything that is needed to understand it alone.

use crate::{Options, root};
use anyhow::{Context, Result, ensure};
use simflip_core::kernel_choice;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

/// A file of results in the making. An abort loses the row that was being measured.
pub struct Table {
    /// None before the first row: an experiment that has nothing to say leaves no file.
    writer: Option<csv::Writer<File>>,
    path: PathBuf,
    common: Vec<(&'static str, String)>,
    header: Vec<String>,
}

/// One field of a row.
pub type Field<'a> = (&'static str, &'a dyn Display);

impl Table {
    /// Begins `results/<experiment>/<corpus>.csv` anew.
    pub fn create(options: &Options, experiment: &str, corpus: &str, digest: &str) -> Result<Self> {
        Self::part(options, experiment, corpus, digest, "")
    }

    /// Begins `results/<experiment>/<corpus><part>.csv` anew: rows of a corpus that are measured apart.
    pub fn part(options: &Options, experiment: &str, corpus: &str, digest: &str, part: &str) -> Result<Self> {
        let folder = options.results().join(experiment);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let path = folder.join(format!("{corpus}{part}.csv"));
        if path.exists() {
            fs::remove_file(&path).with_context(|| format!("replacing {}", path.display()))?;
        }
        let common = vec![
            ("corpus", corpus.to_owned()),
            ("corpus_hash", digest.to_owned()),
            ("seed", options.seed.to_string()),
            ("revision", revision()),
            ("machine", machine()),
            ("kernel", kernel_choice().level.to_owned()),
            ("command", command(options, experiment, corpus)),
        ];
        Ok(Self { writer: None, path, common, header: Vec::new() })
    }

    /// Appends a row; all rows of a file have the same fields.
    pub fn row(&mut self, fields: &[Field<'_>]) -> Result<()> {
        let names = self.common.iter().map(|(name, _)| *name).chain(fields.iter().map(|(name, _)| *name));
        let names: Vec<String> = names.map(str::to_owned).collect();
        let writing = || format!("writing {}", self.path.display());
        let writer = match &mut self.writer {
            Some(writer) => {
                ensure!(self.header == names, "{}: {names:?} after {:?}", self.path.display(), self.header);
                writer
            }
            None => {
                let writer = self.writer.insert(csv::Writer::from_path(&self.path).with_context(writing)?);
                writer.write_record(&names)?;
                self.header = names;
                writer
            }
        };
        let values = self.common.iter().map(|(_, value)| value.clone());
        let values = values.chain(fields.iter().map(|(_, value)| value.to_string()));
        writer.write_record(values)?;
        writer.flush().with_context(writing)
    }
}

/// What makes the rows again, after `cargo run --release -p simflip-experiments --`. Of files and folders only the
/// names are reported: where they are is each machine's own.
fn command(options: &Options, experiment: &str, corpus: &str) -> String {
    let name = |path: &str| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut words = vec![experiment.to_owned()];
    let mut flag = |given: bool, flag: &str| given.then(|| words.push(flag.to_owned()));
    flag(options.quick, "--quick");
    flag(options.near_pairs, "--near-pairs");
    let mut value = |flag: &str, values: Vec<String>| {
        if !values.is_empty() {
            words.push(flag.to_owned());
            words.extend(values);
        }
    };
    if !options.near_pairs {
        // Of several corpora the one that the rows are of; all of them where the rows are of none.
        let paths = options.corpora();
        let own: Vec<&PathBuf> =
            paths.iter().filter(|path| corpus.starts_with(&*crate::corpus::name_of(path))).collect();
        let paths = if own.is_empty() { paths.iter().collect() } else { own };
        value("--corpus", paths.iter().map(|path| name(&path.to_string_lossy())).collect());
    }
    value(
        "--truth",
        options
            .truths
            .iter()
            .filter(|truth| truth.starts_with(&format!("{corpus}=")))
            .map(|truth| match truth.split_once('=') {
                Some((corpus, file)) => format!("{corpus}={}", name(file)),
                None => truth.clone(),
            })
            .collect(),
    );
    value("--rivals", options.rivals.iter().map(|path| name(&path.to_string_lossy())).collect());
    value("--stored", options.stored.iter().map(usize::to_string).collect());
    value("--queries", options.queries.iter().map(usize::to_string).collect());
    value("--seed", vec![options.seed.to_string()]);
    words.join(" ")
}

/// The revision that is measured; a plus sign stands for changes on top of it.
fn revision() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(head) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".into() };
    let changed = git(&["status", "--porcelain", "src", "core", "experiments/*.rs", "experiments/configs"])
        .is_some_and(|s| !s.is_empty());
    head + if changed { "+" } else { "" }
}

/// Processor and number of threads.
fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model);
    format!("{model} x{}", rayon::current_num_threads())
}

/// A row read back.
#[derive(Clone, Debug)]
pub struct Row {
    /// The place of each column of the file, which all of its rows share.
    columns: Arc<HashMap<String, usize>>,
    values: csv::StringRecord,
}

impl Row {
    /// A field's text; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.columns.get(name).and_then(|&at| self.values.get(at)).unwrap_or("")
    }

    /// A field's number; not a number if there is none.
    pub fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(f64::NAN)
    }
}

/// All rows of a CSV file.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    let mut reader = csv::Reader::from_path(path).with_context(|| format!("reading {}", path.display()))?;
    let context = || path.display().to_string();
    let header = reader.headers().with_context(context)?;
    let columns: HashMap<String, usize> = (0..).zip(header).map(|(at, name)| (name.to_owned(), at)).collect();
    let columns = Arc::new(columns);
    let row =
        |values: csv::Result<_>| Ok(Row { columns: columns.clone(), values: values.with_context(context)? });
    reader.records().map(row).collect()
}

/// The published figures that an experiment is held against; none if nothing was published.
pub fn expected(experiment: &str) -> Result<Vec<Row>> {
    let path = root().join("experiments/expected").join(format!("{experiment}.csv"));
    if path.exists() { read(&path) } else { Ok(Vec::new()) }
}

/// All rows of an experiment, files in order of name; none if it has not been run.
pub fn read_all(options: &Options, experiment: &str) -> Result<Vec<Row>> {
    let folder = options.results().join(experiment);
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "csv"));
    paths.sort();
    Ok(paths.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Processor and wall time since the start.
pub struct Clock {
    cpu: f64,
    wall: Instant,
}

impl Clock {
    /// Starts now.
    pub fn start() -> Self {
        Self { cpu: simflip::resources::cpu_seconds().unwrap_or(f64::NAN), wall: Instant::now() }
    }

    /// Processor seconds over all threads, and wall seconds.
    pub fn read(&self) -> (f64, f64) {
        let cpu = simflip::resources::cpu_seconds().unwrap_or(f64::NAN) - self.cpu;
        (cpu, self.wall.elapsed().as_secs_f64())
    }
}

/// Describes a workload by the name of its rows, `BASE-SOURCE-DOCUMENTS`: a corpus as it is, documents generated from
/// it, or uniform hashes. Names without a source are of generated documents.
pub fn described(workload: &str) -> String {
    let parts = workload.rsplit_once('-').filter(|(_, documents)| documents.parse::<u64>().is_ok());
    let (named, of) = parts.map_or((workload, String::new()), |(named, documents)| {
        (named, format!(" ({} documents)", crate::figure::short(documents.parse().unwrap_or_default())))
    });
    match named.rsplit_once('-') {
        Some((base, "real")) => format!("{base}{of}"),
        Some((_, "pairs")) => "uniform hashes".into(),
        Some((base, "generated")) => format!("documents generated from {base}{of}"),
        _ => format!("documents generated from {workload}"),
    }
}

/// The values of a field in order of first occurrence.
pub fn distinct<'a>(rows: impl IntoIterator<Item = &'a Row>, field: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let values = rows.into_iter().map(|row| row.text(field));
    values.filter(|&value| seen.insert(value)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn generated_documents_are_called_so() {
        for (workload, text) in [
            ("a-b-generated-60000162", "documents generated from a-b (60M documents)"),
            ("a-b-real-938947", "a-b (939k documents)"),
            ("uniform-near-pairs-1000000", "uniform hashes"),
            ("debian-docs", "documents generated from debian-docs"),
            ("news-2026", "documents generated from news-2026"),
        ] {
            assert_eq!(described(workload), text);
        }
    }

    #[test]
    fn a_row_knows_its_command_but_not_where_files_are() {
        let reported = |flags: &[&str]| {
            let flags = [&["experiments", "all"], flags].concat();
            command(&Options::parse_from(flags), "batch", "a")
        };
        assert_eq!(reported(&[]), "batch --corpus data --seed 2011");
        assert_eq!(
            reported(&[
                "--quick",
                "--corpus",
                "/some/where/a.warc.wet.gz",
                "b",
                "--stored",
                "7",
                "--seed",
                "3"
            ]),
            "batch --quick --corpus a.warc.wet.gz --stored 7 --seed 3"
        );
        assert_eq!(
            reported(&["--truth", "a=/some/where/a.csv,0.8,all", "b=b.csv", "--queries", "9"]),
            "batch --corpus data --truth a=a.csv,0.8,all --queries 9 --seed 2011"
        );
        assert_eq!(reported(&["--near-pairs"]), "batch --near-pairs --seed 2011");
    }
}
