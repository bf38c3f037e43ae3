//! The arguments by which an index of seen pages is made, opened and asked: `seen` and `serve` share them.

use super::arguments::{FeatureArgs, name_of};
use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use simflip::display::{printable, printable_json};
use simflip::format;
use simflip::seen::{Access, AnswerKind, Reply, Request, Seen, SeenParams};
use simflip::settings::{
    Generator, Recall, Settings, Sketches, USUAL_DISTANCE, USUAL_SIMILARITY, Verification,
};
use simflip::sketch::Sketcher;
use simflip::tables::cell::guarded;
use simflip::weight::frequencies::Frequencies;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Parses the age from which on pages expire, such as `30d`.
///
/// # Errors
/// For text that is no length of time, and for less than a millisecond: every page is older.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    const ALL: &str = "this would remove every page. To empty an index, remove its folder; give 1s for all that is older \
                       than a second";
    let age = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if age.as_millis() == 0 { Err(ALL.to_owned()) } else { Ok(age) }
}

/// The arguments that name an index of seen pages, and for a new one the settings by which pages are compared.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct IndexArgs {
    /// Folder of the index; made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub index: PathBuf,

    /// Wait until what is remembered is on the disk before it is answered, so that it outlives a failure of
    /// power; without, it outlives the end of the process
    #[arg(long)]
    pub fsync: bool,

    /// Call a page stale that was last seen longer ago than this, such as 30d or 12h: neither it nor any other
    /// that is near was seen since
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub fresh: Option<Duration>,

    /// What is kept of a page: both sketches, as dedup has them by default, or a SimHash with its weights,
    /// searched by the dial [default: both]
    #[arg(long, value_enum, help_heading = "A new index")]
    method: Option<IndexMethod>,

    /// Two pages are near if their Jaccard similarity is at least this (simhash: from the cosine) [default: 0.8]
    #[arg(long, value_name = "SHARE", help_heading = "A new index")]
    similarity: Option<f64>,

    /// simhash: two hashes are compared if at most this many of their 64 bits differ [default: 10]
    #[arg(long, value_name = "BITS", help_heading = "A new index")]
    distance: Option<u32>,

    /// simhash: find this share of the pairs within the distance with as few probes as that takes, measured on
    /// the pages of the index from 4,096 on, and again whenever they have doubled [default: 1, exact]
    #[arg(long, value_name = "SHARE", value_parser = parsed_recall, help_heading = "A new index")]
    recall: Option<f64>,

    #[command(flatten)]
    features: FeatureArgs,

    /// Compare pages with fewer distinct features than this by their exact text only [default: 1; simhash 8]
    #[arg(long, value_name = "N", help_heading = "Features")]
    min_features: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IndexMethod {
    Both,
    Simhash,
}

fn parsed_recall(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|&share: &f64| share > 0.0 && share <= 1.0);
    share.ok_or_else(|| "expected a share above 0 and at most 1".to_owned())
}

/// An index of seen pages that was opened by [options](super::options::of_seen).
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The index. Its [notes](Seen::notes) say how it was opened.
    pub seen: Seen,
    /// The document frequencies by which features of its sketches are weighted; empty ones if it has none.
    pub frequencies: Arc<Frequencies>,
    /// Pages last seen longer ago than this are stale; `None` if no page is.
    pub fresh: Option<Duration>,
}

impl Opened {
    /// A new sketcher for pages of the index.
    pub(crate) fn sketcher(&self) -> simflip::Result<Sketcher> {
        Ok(Sketcher::new(&self.seen.params().settings, Some(Arc::clone(&self.frequencies)))?)
    }
}

impl IndexArgs {
    /// Refuses arguments that have no meaning or no effect, before anything is read.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.features.check()?;
        self.settings_of_new().map(|_| ())
    }

    /// These arguments for the index of this name in the folder that they name.
    #[cfg(feature = "serve")]
    pub(crate) fn within(&self, name: &str) -> Self {
        Self { index: self.index.join(name), ..self.clone() }
    }

    /// Opens the index as [`open_silently`](Self::open_silently) does, and writes its notes on standard error.
    pub(crate) fn open(&self, reads: bool) -> anyhow::Result<Opened> {
        let opened = self.open_silently(reads)?;
        for note in opened.seen.notes() {
            super::note(&printable(note));
        }
        Ok(opened)
    }

    /// Opens the index: to ask alone if `reads` is true, else to write, and makes it if there is none. An index that
    /// was made with other settings than those given is an error.
    pub(crate) fn open_silently(&self, reads: bool) -> anyhow::Result<Opened> {
        self.check()?;
        let settings = self.settings_of_new()?;
        let path = self.features.frequencies.as_deref();
        let frequencies =
            path.map(|path| simflip::frequencies::load(path, settings.extraction())).transpose()?;
        let checksum = path.map(format::checksum).transpose()?;
        let access = if reads { Access::Read } else { Access::Write { fsync: self.fsync } };
        let new = SeenParams { settings, frequencies: checksum };
        if !self.index.exists() && new.settings.needs_frequencies() && path.is_none() {
            anyhow::bail!(
                "--weighting tf-idf needs --frequencies FILE, as simflip dedup --save-frequencies makes it; without, use \
                 --weighting tf or binary"
            );
        }
        let seen = Seen::open(&self.index, access, Some(&new))?;
        self.fits(&new, seen.params())?;
        let frequencies =
            frequencies.unwrap_or_else(|| Frequencies::new(seen.params().settings.extraction()));
        Ok(Opened { seen, frequencies: Arc::new(frequencies), fresh: self.fresh })
    }

    fn settings_of_new(&self) -> anyhow::Result<Settings> {
        let similarity = self.similarity.unwrap_or(USUAL_SIMILARITY);
        let [_, _, (weighting, weighted), _] = self.features.given();
        let mut settings = match self.method.unwrap_or(IndexMethod::Both) {
            IndexMethod::Both => {
                for (name, given) in [
                    ("distance", self.distance.is_some()),
                    ("recall", self.recall.is_some()),
                    (weighting, weighted),
                ] {
                    // An index that is there may be one of hashes.
                    anyhow::ensure!(
                        !given || self.index.exists(),
                        "--{name} applies to SimHash only. Use --method simhash, or drop it."
                    );
                }
                Settings::both(similarity)
            }
            IndexMethod::Simhash => Settings::simhash().with(|settings| {
                let recall = match self.recall {
                    None | Some(1.0) => Recall::Exact,
                    Some(share) => Recall::AtLeast(share),
                };
                let distance = self.distance.unwrap_or(USUAL_DISTANCE);
                settings.generator = Generator::Dial { distance, recall, key_bits: None };
                settings.sketches = Sketches::SimHash { weighting: self.features.weighting() };
                if self.similarity.is_some() {
                    // The cosine of binary weights that two sets of one size and this coefficient have.
                    settings.verification = Verification::Weights(2.0 * similarity / (1.0 + similarity));
                }
            }),
        };
        settings.features = self.features.features();
        settings.feature_hash = self.features.hash_or(settings.feature_hash);
        settings.min_features = self.min_features.unwrap_or(settings.min_features);
        settings.check()?;
        Ok(settings)
    }

    /// Refuses options that were given (`new`) and differ from the settings that the index has (`made`).
    fn fits(&self, new: &SeenParams, made: &SeenParams) -> anyhow::Result<()> {
        let fixed = |what: &str, differs: bool, made: String| -> anyhow::Result<()> {
            let index = printable(&self.index.display().to_string()).into_owned();
            anyhow::ensure!(
                !differs,
                "{index}: {what} is {made} in this index, and cannot be changed. Drop the option, or create another index"
            );
            Ok(())
        };
        let (wanted, settings) = (&new.settings, &made.settings);
        let [(_, features), (_, hash), (_, weighting), _] = self.features.given();
        let differs = features && wanted.features != settings.features;
        fixed("the kind of features", differs, settings.features.to_string())?;
        let differs = hash && wanted.feature_hash != settings.feature_hash;
        fixed("the feature hash", differs, settings.feature_hash.to_string())?;
        let is = match settings.sketches {
            Sketches::SimHash { .. } => IndexMethod::Simhash,
            _ => IndexMethod::Both,
        };
        fixed("the method", self.method.is_some_and(|method| method != is), name_of(&is))?;
        if let Sketches::SimHash { weighting: made } = settings.sketches {
            let differs = weighting && made != self.features.weighting();
            fixed("the weighting", differs, made.name().to_owned())?;
        } else {
            let differs = weighting || self.distance.is_some() || self.recall.is_some();
            fixed("the method", differs, "both, which has no distance, recall or weighting,".to_owned())?;
        }
        let least = settings.min_features;
        let differs = self.min_features.is_some_and(|wanted| wanted != least);
        fixed("the least number of features", differs, least.to_string())?;
        if let (Some(distance), Some(made)) = (self.distance, settings.generator.distance()) {
            fixed("the distance", distance != made, made.to_string())?;
        }
        if let (Some(wanted), Some(made)) = (self.recall, settings.generator.recall()) {
            let made = made.share().unwrap_or(1.0);
            fixed("the recall", wanted != made, made.to_string())?;
        }
        if let Some(wanted) = self.similarity {
            let made = settings.verification.threshold();
            let wanted = match is {
                IndexMethod::Both => wanted,
                IndexMethod::Simhash => 2.0 * wanted / (1.0 + wanted),
            };
            let shown = made.map_or("none".to_owned(), |made| made.to_string());
            fixed("the least similarity", made != Some(wanted), shown)?;
        }
        let differs = made.frequencies != new.frequencies;
        match &made.frequencies {
            Some(_) if new.frequencies.is_none() => anyhow::bail!(
                "{}: this index weighs features by document frequencies. Give --method simhash --weighting tf-idf --frequencies FILE, \
                 with the file and the --features that it was made with; simflip mcp cannot ask it",
                printable(&self.index.display().to_string())
            ),
            Some(made) => fixed("the checksum of --frequencies", differs, made.clone()),
            None => fixed("the weighting", differs, "one without document frequencies".to_owned()),
        }
    }
}

/// A request, without names, about a page that is seen at a time in milliseconds since 1970. Stored pages last seen
/// more than `fresh` before that are stale; without it none is.
pub(crate) fn request(seen: u64, fresh: Option<Duration>) -> Request<'static> {
    let fresh_from = fresh.map_or(0, |fresh| seen.saturating_sub(millis_of(fresh)));
    Request { seen, fresh_from, ..Request::default() }
}

/// The milliseconds from 1970 to a time; 0 for an earlier one.
pub(crate) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, millis_of)
}

/// The milliseconds of a duration.
pub(crate) fn millis_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The text of a time in milliseconds since 1970 (RFC 3339, to the millisecond).
pub(crate) fn written(millis: u64) -> String {
    // Years beyond 9999 have no such form.
    let time = UNIX_EPOCH + Duration::from_millis(millis.min(253_402_300_799_000));
    humantime::format_rfc3339_millis(time).to_string()
}

/// An answer as a line of JSON: a [`Reply`] with the names that the request had. Fields of the earlier page are `None`
/// for a new page. `earlier` is also `None` in an answer that is given again once that page was removed.
#[derive(Serialize)]
pub(crate) struct JsonAnswer<'a> {
    /// The name of the page that was asked about.
    pub page: &'a str,
    /// The name of the [`AnswerKind`].
    pub answer: &'static str,
    /// Bits in which the SimHash of the earlier page differs.
    pub distance: Option<u32>,
    /// The name of the earlier page.
    pub earlier: Option<&'a str>,
    /// The similarity of the earlier page, 0 to 1, to four decimals.
    pub similarity: Option<f32>,
    /// When the earlier page was last seen before this request (RFC 3339).
    pub last_seen: Option<String>,
    /// The number of stored pages that are near.
    pub near_pages: u32,
    /// True if more pages than `near_pages` may be near.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The name of the request, as it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<&'a str>,
    /// True if the answer was given, or may have been given, before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

impl<'a> JsonAnswer<'a> {
    /// The line for an answer about the page of this name, to the request of this name if it has one.
    pub(crate) fn new(page: &'a str, request: Option<&'a str>, reply: &'a Reply) -> Self {
        let found = reply.kind != AnswerKind::New;
        // Four decimals, as everywhere.
        let similarity = (f64::from(reply.similarity) * 1e4).round() / 1e4;
        Self {
            page,
            answer: reply.kind.name(),
            distance: found.then_some(reply.distance),
            earlier: reply.earlier.as_deref(),
            similarity: found.then_some(similarity as f32),
            last_seen: found.then(|| written(reply.seen)),
            near_pages: reply.near,
            at_least: reply.more,
            request,
            again: reply.again,
        }
    }
}

/// The form of lines of answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// True for JSON, false for a table in CSV. A table lacks `at_least`, `request` and `again`.
    pub json: bool,
    /// True if a table goes to a terminal, which would obey orders in the names of pages: they are escaped then.
    pub terminal: bool,
}

impl Form {
    /// Appends to `lines` the line of an answer.
    pub(crate) fn answer(
        self,
        lines: &mut Vec<u8>,
        page: &str,
        request: Option<&str>,
        reply: &Reply,
    ) -> anyhow::Result<()> {
        let answer = JsonAnswer::new(page, request, reply);
        if self.json {
            return line(lines, &serde_json::to_string(&answer)?);
        }
        let similarity = answer.similarity.map(|_| format!("{:.4}", reply.similarity));
        let distance = answer.distance.map(|distance| distance.to_string());
        let (last_seen, near) = (answer.last_seen, reply.near.to_string());
        let found = [distance, answer.earlier.map(|it| self.safe(it)), similarity, last_seen];
        self.row(lines, page, answer.answer, found.map(Option::unwrap_or_default), &near)
    }

    /// Appends the line of an input that is no page, which `page` names. JSON alone has the text `error`.
    pub(crate) fn error(self, lines: &mut Vec<u8>, page: &str, error: &str) -> anyhow::Result<()> {
        if self.json {
            let error = serde_json::json!({ "page": page, "answer": "error", "error": error });
            return line(lines, &error.to_string());
        }
        self.row(lines, page, "error", Default::default(), "")
    }

    /// A cell that is no formula and gives a terminal no orders.
    fn safe(self, cell: &str) -> String {
        match self.terminal {
            true => guarded(&printable(cell)).into_owned(),
            false => guarded(cell).into_owned(),
        }
    }

    /// Appends a row of the table. `found` has the cells of the earlier page, in the order of columns.
    fn row(
        self,
        lines: &mut Vec<u8>,
        page: &str,
        answer: &str,
        found: [String; 4],
        near: &str,
    ) -> anyhow::Result<()> {
        let mut table = csv::Writer::from_writer(lines);
        let found = found.iter().map(String::as_str);
        table.write_record([&*self.safe(page), answer].into_iter().chain(found).chain([near]))?;
        table.flush().context("a line of the table")
    }
}

/// Appends a line of JSON that gives a terminal no orders.
fn line(lines: &mut Vec<u8>, json: &str) -> anyhow::Result<()> {
    lines.extend_from_slice(printable_json(json).as_bytes());
    lines.push(b'\n');
    Ok(())
}
