//! `simflip plan`

use super::arguments::{FeatureArgs, FieldArgs, refuse, threads};
use super::progress::Bars;
use super::{Done, print_json, print_text};
use simflip::corpus::expand_patterns;
use simflip::display::counted;
use simflip::pipeline::{self, Job, Plan, PlanRow, Purpose};
use simflip::plan::{Choice, IndexKind};
use simflip::report::figures::scaled;
use simflip::settings::{Generator, Settings, Sketches, USUAL_DISTANCE, USUAL_RECALL};
use simflip::staged::{self, JobPlan, PlanJob};
use std::path::PathBuf;

/// Estimate memory, disk and time for N documents.
///
/// With --method both, the default: what dedup, or its stages, take for so many documents. Hours come from about a
/// second of measuring this machine; ids, URLs and texts are taken to be as long as in your files, or as usual;
/// shares of documents that are near others are assumed.
///
/// With --method simhash, an index that is probed: tables, key bits, probes, memory and speed. Recall and probes are
/// estimated from near pairs of a sample of your documents, if you give files, otherwise from a built-in model. `dedup`
/// chooses its index by the same rule where it probes with the dial (--method dial, or beyond distance
/// 10); up to distance 10 it joins all hashes by default, without an index.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip plan --documents 3e9 --memory 8GiB --disk 2TB
  simflip plan crawl/00*.warc.wet.gz --documents 1e9 --threads 16
  simflip plan --method simhash crawl/00*.warc.wet.gz --documents 1e9 --distance 6 --recall 0.9 --memory 64G
  simflip plan --method simhash --documents 1e9 --queries 1e6 --json

Exit code: 0 done; 1 done, but corrupt input was skipped; 2 failed.")]
pub(crate) struct PlanArgs {
    /// Sample documents, like those to come: WET, JSONL, CSV, Parquet and Arrow files, or folders of them
    #[arg(value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    #[command(flatten)]
    names: FieldArgs,

    /// Number of documents to plan for, such as 60000000 or 6e7 [default: those of the files]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    documents: Option<u64>,

    /// What is planned: both, a run of dedup or of its stages; simhash, an index that is probed
    #[arg(long, value_enum, default_value_t = PlanMethod::Both)]
    method: PlanMethod,

    /// both: how candidate pairs are generated
    #[arg(long, value_enum, default_value_t = PlanSearch::Keys)]
    search: PlanSearch,

    /// Two hashes are near if at most this many of their 64 bits differ [default: 10]
    #[arg(long, value_name = "BITS")]
    distance: Option<u32>,

    /// simhash: target recall, the share of the pairs within the distance to find; 1 is exact [default: 0.95]
    #[arg(long, value_name = "SHARE")]
    recall: Option<f64>,

    /// Memory limit, such as 500M or 64G, of the run, or with simhash of the index [default: half of what the machine
    /// or container has, or what is free; simhash no limit]
    #[arg(long, value_name = "BYTES", value_parser = super::arguments::bytes)]
    memory: Option<u64>,

    /// both: disk that may be taken beside the input and the kept documents, such as 2TB [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = super::arguments::bytes)]
    disk: Option<u64>,

    /// simhash: number of documents to search for that are not stored [default: every stored document is searched for]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    queries: Option<u64>,

    /// simhash: bits of a lookup key [default: chosen by the number of documents]
    #[arg(long, value_name = "BITS")]
    key_bits: Option<u32>,

    #[command(flatten)]
    features: FeatureArgs,

    /// Number of threads (0 = one per core)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads())]
    threads: usize,

    /// simhash: seed of the sample of documents [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Show no progress on standard error
    #[arg(long, short)]
    quiet: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PlanMethod {
    /// A run with both sketches, in memory or in stages
    Both,
    /// An index of SimHashes
    Simhash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PlanSearch {
    /// By the keys that they share
    Keys,
    /// By an exact join of SimHashes within --distance
    Join,
}

/// Numbers of documents for which an index is planned besides the one that is asked for.
const SIZES: [u64; 5] = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];

impl PlanArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        match self.method {
            PlanMethod::Both => self.job(),
            PlanMethod::Simhash => self.index(),
        }
    }

    fn job(self) -> anyhow::Result<Done> {
        let is_idle = self.distance.is_some() && self.search == PlanSearch::Keys;
        let why =
            "documents share keys at any distance. Leave it out, or give --search join or --method simhash";
        refuse(&[("distance", is_idle)], "with --search keys", why)?;
        let given = [
            ("recall", self.recall.is_some()),
            ("queries", self.queries.is_some()),
            ("key-bits", self.key_bits.is_some()),
            ("seed", self.seed.is_some()),
        ];
        let why = "an index of SimHashes is planned with it. Leave it out, or give --method simhash";
        refuse(&given, "with --method both", why)?;
        refuse(&self.features.given(), "with --method both", why)?;
        if self.inputs.is_empty() {
            let why =
                "ids, URLs and texts are taken to be as usual then. Leave it out, or name files of documents";
            refuse(&self.names.given(), "without INPUT", why)?;
        }
        let job = PlanJob {
            inputs: expand_patterns(&self.inputs)?,
            options: self.names.options(),
            documents: self.documents,
            memory: self.memory,
            disk: self.disk,
            threads: self.threads,
            settings: Settings::default().with(|settings| {
                if self.search == PlanSearch::Join {
                    settings.generator =
                        Generator::Join { distance: self.distance.unwrap_or(USUAL_DISTANCE) };
                }
            }),
        };
        let plan = staged::plan(&job, &Bars::new(self.quiet))?;
        if self.json { print_json(&plan) } else { print_text(&show_job(&plan)) }
    }

    fn index(self) -> anyhow::Result<Done> {
        let why =
            "an index is planned, which is held in memory and probed. Leave it out, or give --method both";
        let given = [("disk", self.disk.is_some()), ("search", self.search != PlanSearch::Keys)];
        refuse(&given, "with --method simhash", why)?;
        self.features.check()?;
        if self.inputs.is_empty() {
            let why = "a built-in model stands for the documents then. Leave it out, or name files of documents to count on";
            refuse(&self.names.given(), "without INPUT", why)?;
            refuse(&self.features.given(), "without INPUT", why)?;
            refuse(&[("seed", self.seed.is_some())], "without INPUT", why)?;
        }
        let mut settings = Settings::simhash();
        settings.features = self.features.features();
        settings.feature_hash = self.features.hash_or(settings.feature_hash);
        settings.sketches = Sketches::SimHash { weighting: self.features.weighting() };
        settings.seed = self.seed.unwrap_or(0);
        let job = Job {
            inputs: expand_patterns(&self.inputs)?,
            fields: self.names.fields(),
            longest_document: self.names.longest_document(),
            rules: self.names.rules(),
            threads: self.threads,
            settings,
            frequencies: self.features.frequencies,
            ..Job::default()
        };
        let purpose = Purpose {
            documents: self.documents,
            // The size that is asked for has a row of its own.
            sizes: SIZES.into_iter().filter(|&size| self.documents != Some(size)).collect(),
            memory: self.memory,
            distance: self.distance.unwrap_or(USUAL_DISTANCE),
            recall: self.recall.unwrap_or(USUAL_RECALL),
            key_bits: self.key_bits,
            queries: self.queries,
        };
        let plan = pipeline::plan(&job, &purpose, &Bars::new(self.quiet))?;
        match self.json {
            true => print_json(&plan)?,
            false => print_text(&show(&plan, self.queries.is_none(), purpose.memory))?,
        };
        Ok(if plan.corrupt > 0 { Done::WithCorruption } else { Done::Well })
    }
}

fn show_job(plan: &JobPlan) -> String {
    let mut text = String::new();
    let documents = counted(plan.documents, "document", "documents");
    let [of_text, of_names] = [plan.text_bytes, plan.name_bytes].map(f64::round);
    let sizes = if plan.sampled { "as in the files" } else { "as usual; give files to count on" };
    let (memory, threads) = (bytes(plan.memory), counted(plan.threads, "thread", "threads"));
    text +=
        &format!("{documents}, of {of_text} bytes of text and {of_names} of ids and URLs each ({sizes}); ");
    text += &format!("{memory} of memory, {threads}.\n");
    let [least, held] = [plan.least_memory, plan.held_bytes].map(bytes);
    text += &match plan.on_disk {
        true => format!(
            "The run goes in stages on disk; {least} of memory are the least that does. In memory it would take {held}.\n\n"
        ),
        false => "They are held in memory.\n\n".to_owned(),
    };
    // The first column is aligned to the left.
    let row = |cells: [&str; 7]| {
        let [name, reads, bytes, cpu, all, memory, leaves] = cells;
        format!("{name:<8}  {reads:>22}  {bytes:>9}  {cpu:>10}  {all:>10}  {memory:>9}  {leaves:>9}\n")
    };
    text += &row(["stage", "reads", "bytes", "CPU", "all, here", "memory", "leaves"]);
    for stage in &plan.stages {
        let times = match stage.passes {
            2.. => format!("{}, {} times", stage.reads, stage.passes),
            _ => stage.reads.clone(),
        };
        let [cpu, all] = [stage.cpu_seconds, stage.hours * 3600.0].map(duration);
        let [read, memory, left] =
            [stage.read_bytes as u64, stage.memory_bytes, stage.disk_bytes as u64].map(bytes);
        text += &row([&stage.name, &times, &read, &cpu, &all, &memory, &left]);
    }
    if plan.on_disk {
        let (disk, most) = (&plan.disk_bytes, bytes(plan.most_disk_bytes));
        let [sketches, names, joined, tables] =
            [disk.sketches, disk.names, disk.joined, disk.looked_up].map(|of| bytes(of as u64));
        text += &format!(
            "\nDisk beside input and kept documents: {most} at most (sketches {sketches}, names {names}, "
        );
        text += &format!("edges and assignments {joined}, tables {tables}).\n");
    }
    let documents = counted(plan.rates.documents, "document", "documents");
    text += &format!(
        "Times are counted from {documents} made up here and now, and say nothing of waiting for disks. "
    );
    text += "What pairs take depends on the documents.\n";
    text + &plan.too_little.as_ref().map_or_else(String::new, |why| format!("{why}.\n"))
}

fn show(plan: &Plan, join: bool, memory: Option<u64>) -> String {
    let mut text = String::new();
    let recall = 100.0 * plan.recall;
    let (pairs, near) = (plan.pairs, counted(plan.pairs, "near pair", "near pairs"));
    let documents = counted(plan.sampled_documents, "document", "documents");
    text += &match plan.measured {
        true => format!("Recall and candidates: counted on {near} of {documents}.\n"),
        false => format!(
            "Recall and candidates: of a built-in model, normally distributed weights and evenly spread hashes ({pairs} pairs).\n\
             Real documents take more; give files of them to count on.\n"
        ),
    };
    if plan.measured && pairs < 100 {
        text += "That is too few pairs to rely on.\n";
    }
    let lines: Vec<String> = plan.machine.line.iter().map(|ns| format!("{ns:.1}")).collect();
    let (lines, candidate) = (lines.join(", "), plan.machine.candidate);
    text += &format!(
        "Speed: measured on this machine. A random cache line takes {lines} ns in 0.5, 16, 128 and 512 MiB, "
    );
    text += &format!("a candidate {candidate:.2} ns.\n");
    let whom = if join {
        "every document searched for among all"
    } else {
        "documents searched for that are not stored"
    };
    let bits = counted(u64::from(plan.distance), "bit", "bits");
    text += &format!("Task: pairs within {bits}, {recall} % of them; {whom}.\n\n");
    let head =
        ["tables", "key bits", "flips", "probes", "recall", "memory", "candidates", "queries/s", "all, here"];
    text += &line("documents", "index", head);
    for row in &plan.rows {
        text += &match &row.choice {
            Some(choice) => line_of(row, choice),
            None => {
                let (documents, memory) = (row.documents, bytes(memory.unwrap_or(0)));
                format!("{documents:>14}  nothing fits {memory}: {}\n", way_out(row))
            }
        };
    }
    let threads = counted(plan.threads, "thread", "threads");
    text += &format!(
        "\nDocuments are those with different hashes. Queries a second are one thread's at best, without writing down what is found; the last\n\
         column is for {threads}. Speed in more than 512 MiB is taken to be that in 512 MiB.\n"
    );
    if plan.rows.iter().any(|row| row.choice.is_some_and(|choice| choice.parts > 1)) {
        text += "One index holds fewer than 2^32 documents in all its tables together; more are several indexes, each asked every query.\n";
    }
    text
}

fn way_out(row: &PlanRow) -> String {
    match &row.smallest {
        Some(choice) => format!("the smallest, a {}, takes {}", describe(choice), bytes(choice.bytes)),
        None => "nothing does it at all".to_owned(),
    }
}

fn describe(choice: &Choice) -> String {
    match choice.kind {
        IndexKind::Linear => choice.kind.name().to_owned(),
        IndexKind::Dial => {
            format!("{} of {}", choice.kind.name(), counted(u64::from(choice.tables), "table", "tables"))
        }
    }
}

fn line(documents: &str, index: &str, cells: [&str; 9]) -> String {
    let [tables, key_bits, flips, probes, recall, memory, candidates, queries, all] = cells;
    format!(
        "{documents:>14}  {index:<11}  {tables:>6}  {key_bits:>8}  {flips:>5}  {probes:>6}  {recall:>6}  {memory:>9}  \
         {candidates:>10}  {queries:>11}  {all:>10}\n"
    )
}

fn line_of(row: &PlanRow, choice: &Choice) -> String {
    let (mut index, [mut key_bits, mut flips]) =
        (choice.kind.name().to_owned(), [choice.key_bits, choice.flips].map(|n| n.to_string()));
    if choice.kind == IndexKind::Linear {
        (key_bits, flips) = ("-".into(), "-".into());
    }
    if choice.parts > 1 {
        index = format!("{} × {index}", choice.parts);
    }
    let probes = match choice.probes < choice.all_probes {
        true => choice.probes.to_string(),
        false => format!("all {}", choice.probes),
    };
    let [documents, tables] = [row.documents, u64::from(choice.tables)].map(|n| n.to_string());
    let [candidates, queries] = [choice.candidates, row.queries_per_second].map(number);
    let (recall, memory) = (format!("{:.3}", choice.recall), bytes(choice.bytes));
    let (probes, all) = (&probes, &duration(row.seconds));
    let cells = [&tables, &key_bits, &flips, probes, &recall, &memory, &candidates, &queries, all];
    line(&documents, &index, cells.map(|cell| &**cell))
}

fn number(value: f64) -> String {
    scaled(value, &["", "k", "M", "G"])
}

fn bytes(value: u64) -> String {
    scaled(value as f64, &[" B", " kB", " MB", " GB", " TB"])
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{} s", scaled(s, &[""])),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// A whole number, also as 6e7.
fn parse_count(text: &str) -> Result<u64, String> {
    if let Ok(number) = text.replace('_', "").parse() {
        return Ok(number);
    }
    match text.parse::<f64>() {
        Ok(number) if (0.0..1e18).contains(&number) && number.fract() == 0.0 => Ok(number as u64),
        _ => Err("expected a whole number, such as 60000000 or 6e7".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_people_write_them() {
        assert_eq!(parse_count("60_000_000"), Ok(60_000_000));
        assert_eq!(parse_count("6e7"), Ok(60_000_000));
        assert!(parse_count("1.5").is_err() && parse_count("-1").is_err() && parse_count("x").is_err());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [number(0.123), number(12.34), number(999.7), number(1.5e9)],
            ["0.12", "12.3", "1.00k", "1.50G"]
        );
        assert_eq!(bytes(12_200_000), "12.2 MB");
        assert_eq!(
            [duration(3.0), duration(600.0), duration(9e4), duration(1e6)],
            ["3.00 s", "10 min", "25.0 h", "11.6 days"]
        );
    }
}
