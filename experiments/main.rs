//! The paper and the seeds reproduced: one runner per figure or table. See `experiments/README.md`.
//!
//! `cargo run --release -p simflip-experiments -- <name> [--corpus PATH]… [--quick]`. A run measures and
//! appends rows to CSV files; `draw` draws figures from CSV alone; `check` compares CSV with what was
//! published. The three never mix.

mod all_pairs_cost;
mod band_index;
mod band_join;
mod band_scores;
mod batch;
mod bounds;
mod check;
mod config;
mod corpus;
mod dial;
mod feature_choice;
mod figure;
mod flip_order;
mod flips_vs_recall;
mod generate;
mod history;
mod laws;
mod minhash_families;
mod modulo_sketch;
mod nearness;
mod online_throughput;
mod pairs;
#[cfg(test)]
mod paper;
mod plan;
mod progress;
mod quality;
mod results;
mod scalability;
mod sketches;
mod stages;
mod static_order;
mod summary;
mod throughput;
mod truth;

use anyhow::{Context, Result, bail};
use check::Verdict;
use clap::Parser;
use config::Size;
use progress::say;
use results::Row;
use simflip_core::{KERNEL_VARIABLE, kernel_choice};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use summary::Summary;

/// What is measured, on what, and where it goes.
#[derive(Clone, Debug, Parser)]
#[command(name = "experiments", about = "The published curves and tables, measured again")]
pub struct Options {
    /// An experiment, or: list, all, check (verdicts from results), draw (figures from results), keep (what earlier
    /// runs measured, from the versions that git has), rivals (what whole jobs of other tools cost; needs Python and
    /// its packages).
    what: String,
    /// Only with draw and check: the experiment; all if none is named.
    only: Option<String>,
    /// A corpus: a file, or a folder of files. May be given several times; by default the one in the
    /// repository.
    #[arg(long = "corpus", value_name = "PATH", num_args = 1..)]
    pub corpora: Vec<PathBuf>,
    /// Only with quality: what is right about a corpus, by its name; counted exactly where none is given.
    #[arg(long = "truth", value_name = "NAME=FILE[,MIN_SCORE[,SCOPE]]", num_args = 1..)]
    pub truths: Vec<String>,
    /// Only with quality: score what rivals found, files NAME.RIVAL.csv of this folder, instead of measuring.
    #[arg(long, value_name = "DIR")]
    pub rivals: Option<PathBuf>,
    /// Small sizes, a few seconds each; results and figures go to target/experiments unless others are named.
    #[arg(long)]
    pub quick: bool,
    /// Only with dial and flip-order: uniform hashes, and queries that each have one stored partner, instead of a
    /// corpus.
    #[arg(long, conflicts_with = "corpora")]
    pub near_pairs: bool,
    /// Stored hashes, where they are generated.
    #[arg(long, value_name = "N")]
    pub stored: Option<usize>,
    /// Queries, where they are generated.
    #[arg(long, value_name = "M")]
    pub queries: Option<usize>,
    /// With dial: a folder for the stored hashes and the queries as files of little-endian u64, for
    /// rivals in other languages.
    #[arg(long, value_name = "DIR")]
    pub dump: Option<PathBuf>,
    /// Seed of whatever is random.
    #[arg(long, default_value_t = 2011)]
    pub seed: u64,
    /// Folder of what the experiments measure [default: experiments/configs in the repository].
    #[arg(long, value_name = "DIR")]
    pub configs: Option<PathBuf>,
    /// Folder for rows, figures and a summary [default with --corpus: target/own-corpora/NAME in the repository].
    #[arg(long, value_name = "DIR", conflicts_with_all = ["results", "figures"])]
    pub out: Option<PathBuf>,
    /// Folder of result files, beside --figures, in the place of --out [default without --corpus:
    /// experiments/results in the repository].
    #[arg(long, value_name = "DIR", requires = "figures")]
    pub results: Option<PathBuf>,
    /// Folder of figures, beside --results [default without --corpus: figures in the repository].
    #[arg(long, value_name = "DIR", requires = "results")]
    pub figures: Option<PathBuf>,
    /// What is shown meanwhile.
    #[arg(skip)]
    pub progress: progress::Progress,
}

impl Options {
    /// The corpora of this run.
    pub fn corpora(&self) -> Vec<PathBuf> {
        if self.corpora.is_empty() { vec![root().join("data")] } else { self.corpora.clone() }
    }

    /// The folder of what the experiments measure.
    pub fn configs(&self) -> PathBuf {
        self.configs.clone().unwrap_or_else(|| root().join("experiments/configs"))
    }

    /// The folder for rows, figures and a summary of somebody's own corpora; none where rows go to the repository's
    /// folders or to those of --results and --figures.
    fn out(&self) -> Option<PathBuf> {
        let names = || self.corpora.iter().map(|path| corpus::name_of(path)).collect::<Vec<_>>().join("+");
        let usual = || (!self.corpora.is_empty()).then(|| root().join("target/own-corpora").join(names()));
        if self.results.is_some() { None } else { self.out.clone().or_else(usual) }
    }

    /// The folder of result files.
    pub fn results(&self) -> PathBuf {
        self.folder(&self.results, "rows", "experiments/results", "target/experiments/results")
    }

    /// The folder of figures.
    pub fn figures(&self) -> PathBuf {
        self.folder(&self.figures, "figures", "figures", "target/experiments/figures")
    }

    fn folder(&self, given: &Option<PathBuf>, own: &str, full: &str, quick: &str) -> PathBuf {
        let usual = if self.quick { quick } else { full };
        let out = || self.out().map_or_else(|| root().join(usual), |out| out.join(own));
        given.clone().unwrap_or_else(out)
    }

    /// One size or the other.
    pub fn size(&self, size: Size) -> usize {
        if self.quick { size.quick } else { size.full }
    }

    /// Numbers of stored hashes and of queries, those that were asked for first.
    pub fn sizes(&self, stored: Size, queries: Size) -> (usize, usize) {
        (self.stored.unwrap_or(self.size(stored)), self.queries.unwrap_or(self.size(queries)))
    }
}

/// The repository, where data, results and figures are, from wherever this is run.
pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// What verification says of an experiment's rows, beside what was published.
type Verification = fn(&Options, &[Row], &[Row]) -> Result<Vec<Verdict>>;

/// A figure or table: its runner, its picture and its verification.
struct Experiment {
    name: &'static str,
    about: &'static str,
    run: fn(&Options) -> Result<()>,
    draw: fn(&Options, &[Row]) -> Result<()>,
    verdicts: Verification,
}

const EXPERIMENTS: &[Experiment] = &[
    flips_vs_recall::EXPERIMENT,
    flip_order::EXPERIMENT,
    nearness::EXPERIMENT,
    online_throughput::EXPERIMENT,
    scalability::EXPERIMENT,
    dial::EXPERIMENT,
    plan::EXPERIMENT,
    batch::EXPERIMENT,
    all_pairs_cost::EXPERIMENT,
    band_scores::EXPERIMENT,
    sketches::EXPERIMENT,
    feature_choice::EXPERIMENT,
    quality::EXPERIMENT,
];

fn main() -> Result<()> {
    let options = Options::parse();
    let choice = kernel_choice();
    if let Some(refused) = choice.refused {
        bail!(
            "{KERNEL_VARIABLE}={refused}: expected one of this processor's levels, {}",
            choice.available.join(", ")
        );
    }
    run(&options)
}

fn run(options: &Options) -> Result<()> {
    let mut names: Vec<String> = options.corpora.iter().map(|path| corpus::name_of(path)).collect();
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!(
            "--corpus: two corpora are called {:?}, and the rows of one would replace the other's. Rename one, or name \
             the folder around both",
            twice[0]
        );
    }
    match options.what.as_str() {
        "list" => EXPERIMENTS.iter().try_for_each(|e| say(format_args!("{:18} {}", e.name, e.about)))?,
        "all" => {
            let summary = options.out().map(Summary::begin).transpose()?;
            for experiment in EXPERIMENTS {
                measure(options, experiment, summary.as_ref())?;
                laws::hold(experiment.name, &results::read_all(options, experiment.name)?)?;
            }
            check::check(options, &EXPERIMENTS.iter().collect::<Vec<_>>())?;
        }
        "check" => check::check(options, &chosen(options)?)?,
        "draw" => {
            for experiment in chosen(options)? {
                draw(options, experiment)?;
            }
            if options.only.is_none() {
                history::draw(options)?;
                stages::draw(options)?;
            }
        }
        "keep" => history::keep(options)?,
        "rivals" => rivals(options)?,
        name => {
            let experiment = find(name)?;
            measure(options, experiment, options.out().map(Summary::begin).transpose()?.as_ref())?;
        }
    }
    Ok(())
}

/// Builds simflip and hands it to the script that runs the others.
fn rivals(options: &Options) -> Result<()> {
    let run = |command: &mut Command| -> Result<()> {
        let status = command.current_dir(root()).status().with_context(|| format!("{command:?}"))?;
        if status.success() { Ok(()) } else { bail!("{command:?}: {status}") }
    };
    let corpora = options.corpora().iter().map(fs::canonicalize).collect::<Result<Vec<_>, _>>()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo).args(["build", "--release", "--bin", "simflip"]))?;
    // Where cargo has put this program, it puts that one.
    let simflip = std::env::current_exe()?.with_file_name(format!("simflip{}", std::env::consts::EXE_SUFFIX));
    let work = root().join("target/rivals");
    run(Command::new("python3")
        .arg("experiments/rivals/costs.py")
        .args([&simflip, &options.results().join("rivals/costs.csv"), &work])
        .args(corpora)
        .args(["--runs", if options.quick { "1" } else { "3" }]))
}

fn find(name: &str) -> Result<&'static Experiment> {
    match EXPERIMENTS.iter().find(|e| e.name == name) {
        Some(experiment) => Ok(experiment),
        None => bail!("there is no experiment {name:?}; list names them"),
    }
}

fn chosen(options: &Options) -> Result<Vec<&'static Experiment>> {
    match &options.only {
        Some(name) => Ok(vec![find(name)?]),
        None => Ok(EXPERIMENTS.iter().collect()),
    }
}

fn measure(options: &Options, experiment: &Experiment, summary: Option<&Summary>) -> Result<()> {
    options.progress.say(format!("{}: {}", experiment.name, experiment.about));
    let clock = results::Clock::start();
    (experiment.run)(options)?;
    let (cpu, wall) = clock.read();
    options.progress.say(format!("{}: {wall:.1} s, {cpu:.1} s of processor time", experiment.name));
    draw(options, experiment)?;
    summary.map_or(Ok(()), |summary| summary.add(options, experiment))
}

fn draw(options: &Options, experiment: &Experiment) -> Result<()> {
    let rows = results::read_all(options, experiment.name)?;
    if rows.is_empty() {
        say(format_args!("{}: no results", experiment.name))?;
        return Ok(());
    }
    (experiment.draw)(options, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(what: &str, folder: &Path) -> Options {
        let (results, figures) = (folder.join("results"), folder.join("figures"));
        let flags = ["experiments", what, "--quick", "--stored", "4000", "--queries", "200"];
        let mut options = Options::parse_from(flags);
        (options.results, options.figures) = (Some(results), Some(figures));
        options
    }

    #[test]
    fn the_cheap_experiments_run_and_are_drawn_again_from_their_results_alone() {
        let folder = tempfile::tempdir().unwrap();
        for what in ["online-throughput", "dial", "batch", "all-pairs-cost", "band-scores"] {
            let options = options(what, folder.path());
            run(&options).unwrap();
            let rows = results::read_all(&options, what).unwrap();
            assert!(!rows.is_empty() && rows.iter().all(|row| row.text("corpus_hash").len() == 16), "{what}");
            assert!(rows.iter().all(|row| !row.text("kernel").is_empty()), "{what}");
            laws::hold(what, &rows).unwrap();
            let figure = || {
                let mut drawn: Vec<PathBuf> = fs::read_dir(options.figures())
                    .unwrap()
                    .map(|entry| entry.unwrap().path())
                    .filter(|path| path.to_string_lossy().contains(what))
                    .collect();
                drawn.sort();
                drawn.iter().map(|path| fs::read_to_string(path).unwrap()).collect::<Vec<_>>()
            };
            let before = figure();
            assert!(!before.is_empty(), "{what}");
            run(&Options { what: "draw".into(), only: Some(what.into()), ..options.clone() }).unwrap();
            assert_eq!(before, figure(), "{what}");
        }
        let options = options("check", folder.path());
        run(&options).unwrap();
        let verdicts = fs::read_to_string(options.results().join("VERDICTS.md")).unwrap();
        assert!(verdicts.contains("PSM-key / BPHS 10") && verdicts.contains("1.024 billion"));
    }

    #[test]
    fn near_pairs_need_no_corpus_and_exact_methods_find_all_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { near_pairs: true, ..options("dial", folder.path()) };
        run(&options).unwrap();
        let rows = results::read_all(&options, "dial").unwrap();
        for (mode, least) in [("all", 14), ("first", 8)] {
            // The dial with two flips in one table ends before it has found every pair.
            let rows = rows.iter().filter(|row| row.text("budget").is_empty() && row.text("mode") == mode);
            let exact: Vec<&Row> = rows.filter(|row| !row.text("method").starts_with("dial")).collect();
            assert!(exact.len() >= least, "{mode}: {}", exact.len());
            for row in exact {
                assert_eq!(row.number("recall"), 1.0, "{mode}, {}", row.text("method"));
                let is_asked_both_ways = row.number("queries_per_cpu_second_one_by_one") > 0.0;
                let is_ours = !row.text("method").starts_with("mih-rs") && row.number("threads") == 1.0;
                assert_eq!(is_asked_both_ways, is_ours, "{mode}, {}", row.text("method"));
                // Each query has its partner, and strangers are near by chance alone.
                assert!(row.number("pairs") >= row.number("queries"), "{mode}, {}", row.text("method"));
            }
        }
        assert_eq!(fs::read_dir(options.figures()).unwrap().count(), 3, "a figure for each distance");
    }

    /// Copies the files of a folder, and of the folders in it.
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
            if path.is_dir() {
                copy(&path, &to);
            } else {
                fs::copy(&path, &to).unwrap();
            }
        }
    }

    /// Every file of a folder, and of the folders in it, is the same in another.
    fn assert_kept(new: &Path, kept: &Path) {
        for entry in fs::read_dir(new).unwrap() {
            let (path, kept) = (entry.as_ref().unwrap().path(), kept.join(entry.unwrap().file_name()));
            if path.is_dir() {
                assert_kept(&path, &kept);
            } else {
                assert!(
                    fs::read(&path).unwrap() == fs::read(&kept).unwrap(),
                    "{} is another",
                    kept.display()
                );
            }
        }
    }

    #[test]
    fn figures_and_verdicts_in_the_repository_are_those_of_its_rows() {
        let folder = tempfile::tempdir().unwrap();
        let (results, figures) = (folder.path().join("results"), folder.path().join("figures"));
        copy(&root().join("experiments/results"), &results);
        // At the highest level of kernels, and at a lower one.
        for (level, what) in [("", "draw"), ("", "check"), ("avx2", "draw"), ("avx2", "check")] {
            let mut options = Options::parse_from(["experiments", what]);
            (options.results, options.figures) = (Some(results.join(level)), Some(figures.join(level)));
            run(&options).unwrap();
        }
        assert_kept(&results, &root().join("experiments/results"));
        assert_kept(&figures, &root().join("figures"));
    }

    #[test]
    fn what_is_measured_on_own_documents_keeps_out_of_the_repository() {
        let parse = |flags: &[&str]| Options::try_parse_from([&["experiments", "dial"], flags].concat());
        let folders = |flags: &[&str]| {
            let options = parse(flags).unwrap();
            [options.results(), options.figures()].map(|folder| {
                folder
                    .strip_prefix(root())
                    .map_or(folder.clone(), Path::to_path_buf)
                    .to_str()
                    .unwrap()
                    .to_owned()
            })
        };
        assert_eq!(folders(&[]), ["experiments/results", "figures"]);
        assert_eq!(folders(&["--near-pairs"]), ["experiments/results", "figures"]);
        assert_eq!(folders(&["--quick"]), ["target/experiments/results", "target/experiments/figures"]);
        let usual = ["target/own-corpora/a+b/rows", "target/own-corpora/a+b/figures"];
        assert_eq!(folders(&["--corpus", "/x/a.jsonl.gz", "b"]), usual);
        assert_eq!(folders(&["--quick", "--corpus", "a", "b"]), usual);
        assert_eq!(folders(&["--corpus", "a", "--out", "/y"]), ["/y/rows", "/y/figures"]);
        assert_eq!(folders(&["--corpus", "a", "--results", "/r", "--figures", "/f"]), ["/r", "/f"]);
        assert!(parse(&["--results", "/r"]).is_err() && parse(&["--figures", "/f"]).is_err());
        assert!(parse(&["--out", "/y", "--results", "/r", "--figures", "/f"]).is_err());
    }

    #[test]
    fn a_summary_says_what_own_documents_show_and_what_was_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let (pages, out) = (folder.path().join("ships.jsonl"), folder.path().join("out"));
        // Too few documents for a curve of their own; what is generated from them has one.
        let page = |i: usize| {
            (0..60).map(|word| format!("ship{} ", (i * 31 + word * word) % 977)).collect::<String>()
        };
        let lines = (0..60).map(|i| format!("{{\"text\":\"{}\"}}\n", page(i)));
        let odd = "{\"text\":\"a ship\"}\n{\"text\":\n";
        fs::write(&pages, lines.collect::<String>() + odd).unwrap();
        let measured = |what: &str, out: &Path| {
            let flags = ["experiments", what, "--quick", "--corpus"].map(Path::new);
            run(&Options::parse_from(flags.iter().copied().chain([&*pages, Path::new("--out"), out])))
        };
        measured("flips-vs-recall", &out).unwrap();
        measured("flip-order", &out).unwrap();
        measured("flips-vs-recall", &out).unwrap();
        let text = fs::read_to_string(out.join("summary.md")).unwrap();
        for experiment in ["flips-vs-recall", "flip-order"] {
            assert_eq!(text.matches(&format!("## {experiment}\n")).count(), 1, "{text}");
        }
        for reported in [
            "- ships, h = 1: a curve takes 50 pairs, and there are 0",
            "- ships: a curve takes 50 pairs within 3 bits, and there are 0",
            "- ships: 1 of 61 distinct texts, with fewer than 8 different words",
            "- ships: corrupt sections of its files, 1 in all",
            "| h = 1, generated from ships | 30 % after 1 flips |",
            "| uniform near pairs, key of 15 bits: recall after 9 probes |",
        ] {
            assert!(text.contains(reported), "{reported}: {text}");
        }
        let names = |inside: &str| {
            let entries = fs::read_dir(out.join(inside)).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names("figures"), ["flip-order.svg", "flips-vs-recall-generated-ships.svg"]);
        assert_eq!(names("rows/flips-vs-recall"), ["ships-generated.csv"]);

        // A folder with other files is not written into.
        let refused = measured("flip-order", folder.path()).unwrap_err().to_string();
        assert!(refused.starts_with("--out ") && refused.contains("has other files"), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        // Documents of a few words have no hash.
        fs::write(&pages, "{\"text\":\"a ship\"}\n").unwrap();
        let refused = measured("flip-order", &out).unwrap_err().to_string();
        assert!(
            refused.ends_with("expected documents of 8 different words or more, and none of its 1 is one"),
            "{refused}"
        );
    }

    #[test]
    fn a_config_need_not_want_anything() {
        let folder = tempfile::tempdir().unwrap();
        copy(&root().join("experiments/configs"), folder.path());
        let usual = Options::parse_from(["experiments", "dial"]);
        let own = Options { configs: Some(folder.path().into()), ..usual.clone() };
        let path = folder.path().join("dial.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.split("[[aims]]").next().unwrap()).unwrap();
        let rows = results::read_all(&usual, "dial").unwrap();
        let verdicts = |options: &Options| (dial::EXPERIMENT.verdicts)(options, &rows, &[]).unwrap().len();
        assert!(verdicts(&usual) > 10);
        assert_eq!(verdicts(&own), 0);
    }

    #[test]
    fn every_experiment_says_what_it_measures() {
        let configs = root().join("experiments/configs");
        for experiment in EXPERIMENTS {
            assert!(configs.join(format!("{}.toml", experiment.name)).exists(), "{}", experiment.name);
        }
    }

    #[test]
    fn an_unknown_name_and_two_corpora_of_one_name_are_refused() {
        let options = Options::parse_from(["experiments", "nothing"]);
        assert!(run(&options).is_err());
        let options = Options::parse_from(["experiments", "dial", "--corpus", "a/crawl", "b/crawl.jsonl.gz"]);
        assert!(run(&options).unwrap_err().to_string().contains("two corpora are called \"crawl\""));
    }
}
