//! The paper and the seeds reproduced: one runner per figure or table. See `experiments/README.md`.
//!
//! `cargo run --release -p flipside-experiments -- <name> [--corpus PATH]… [--quick]`. A run measures and appends rows to
//! CSV files; `draw` draws figures from CSV alone; `check` compares CSV with what was published. The three never mix.

mod all_pairs_cost;
mod band_index;
mod band_scores;
mod batch;
mod bounds;
mod check;
mod corpus;
mod dial;
mod feature_choice;
mod figure;
mod flips_vs_recall;
mod generate;
mod modulo_sketch;
mod online_throughput;
mod plan;
mod progress;
mod psm_batch;
mod quality;
mod results;
mod scalability;
mod sketches;
mod throughput;
mod truth;

use anyhow::{Result, bail};
use check::Verdict;
use clap::Parser;
use results::Row;
use std::path::{Path, PathBuf};

/// What is measured, on what, and where it goes.
#[derive(Clone, Debug, Parser)]
#[command(name = "experiments", about = "The published curves and tables, measured again")]
pub struct Config {
    /// An experiment, or: list, all, check (verdicts from results), draw (figures from results).
    what: String,
    /// Only with draw and check: the experiment; all if none is named.
    only: Option<String>,
    /// A corpus: a file, or a folder of files. May be given several times; by default the one in the repository.
    #[arg(long = "corpus", value_name = "PATH", num_args = 1..)]
    pub corpora: Vec<PathBuf>,
    /// Only with quality: what is right about a corpus, by its name; counted exactly where none is given.
    #[arg(long = "truth", value_name = "NAME=FILE[,MIN_SCORE[,SCOPE]]", num_args = 1..)]
    pub truths: Vec<String>,
    /// Only with quality: score what rivals found, files NAME.RIVAL.csv of this folder, instead of measuring.
    #[arg(long, value_name = "DIR")]
    pub rivals: Option<PathBuf>,
    /// Small sizes, a few seconds each; results and figures go to target/experiments unless told otherwise.
    #[arg(long)]
    pub quick: bool,
    /// Stored hashes, where they are generated.
    #[arg(long, value_name = "N")]
    pub stored: Option<usize>,
    /// Queries, where they are generated.
    #[arg(long, value_name = "M")]
    pub queries: Option<usize>,
    /// With dial: a folder for the stored hashes and the queries as files of little-endian u64, for rivals in other
    /// languages.
    #[arg(long, value_name = "DIR")]
    pub dump: Option<PathBuf>,
    /// Seed of whatever is random.
    #[arg(long, default_value_t = 2011)]
    pub seed: u64,
    /// Folder of result files [default: experiments/results in the repository].
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Folder of figures [default: figures in the repository].
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
    /// What is shown meanwhile.
    #[arg(skip)]
    pub progress: progress::Progress,
}

impl Config {
    /// The corpora of this run.
    pub fn corpora(&self) -> Vec<PathBuf> {
        if self.corpora.is_empty() { vec![root().join("data")] } else { self.corpora.clone() }
    }

    /// The folder of result files.
    pub fn results(&self) -> PathBuf {
        self.folder(&self.results, "experiments/results", "target/experiments/results")
    }

    /// The folder of figures.
    pub fn figures(&self) -> PathBuf {
        self.folder(&self.figures, "figures", "target/experiments/figures")
    }

    fn folder(&self, given: &Option<PathBuf>, full: &str, quick: &str) -> PathBuf {
        let usual = if self.quick { quick } else { full };
        given.clone().unwrap_or_else(|| root().join(usual))
    }

    /// One size or the other.
    pub fn size(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// The repository, where data, results and figures are, from wherever this is run.
pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// A figure or table: its runner, its picture and its judge.
struct Experiment {
    name: &'static str,
    about: &'static str,
    run: fn(&Config) -> Result<()>,
    draw: fn(&Config, &[Row]) -> Result<()>,
    verdicts: fn(&[Row], &[Row]) -> Vec<Verdict>,
}

const EXPERIMENTS: &[Experiment] = &[
    flips_vs_recall::EXPERIMENT,
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
    run(&Config::parse())
}

fn run(config: &Config) -> Result<()> {
    match config.what.as_str() {
        "list" => EXPERIMENTS.iter().for_each(|e| println!("{:18} {}", e.name, e.about)),
        "all" => {
            for experiment in EXPERIMENTS {
                measure(config, experiment)?;
            }
            check::check(config, &EXPERIMENTS.iter().collect::<Vec<_>>())?;
        }
        "check" => check::check(config, &chosen(config)?)?,
        "draw" => {
            for experiment in chosen(config)? {
                draw(config, experiment)?;
            }
        }
        name => measure(config, find(name)?)?,
    }
    Ok(())
}

fn find(name: &str) -> Result<&'static Experiment> {
    match EXPERIMENTS.iter().find(|e| e.name == name) {
        Some(experiment) => Ok(experiment),
        None => bail!("there is no experiment {name:?}; list names them"),
    }
}

fn chosen(config: &Config) -> Result<Vec<&'static Experiment>> {
    match &config.only {
        Some(name) => Ok(vec![find(name)?]),
        None => Ok(EXPERIMENTS.iter().collect()),
    }
}

fn measure(config: &Config, experiment: &Experiment) -> Result<()> {
    config.progress.say(format!("{}: {}", experiment.name, experiment.about));
    let clock = results::Clock::start();
    (experiment.run)(config)?;
    let (cpu, wall) = clock.read();
    config.progress.say(format!("{}: {wall:.1} s, {cpu:.1} s of processor time", experiment.name));
    draw(config, experiment)
}

fn draw(config: &Config, experiment: &Experiment) -> Result<()> {
    let rows = results::read_all(config, experiment.name)?;
    if rows.is_empty() {
        println!("{}: no results", experiment.name);
        return Ok(());
    }
    (experiment.draw)(config, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn config(what: &str, folder: &Path) -> Config {
        let (results, figures) = (folder.join("results"), folder.join("figures"));
        let flags = ["experiments", what, "--quick", "--stored", "4000", "--queries", "200"];
        let mut config = Config::parse_from(flags);
        (config.results, config.figures) = (Some(results), Some(figures));
        config
    }

    #[test]
    fn the_cheap_experiments_run_and_are_drawn_again_from_their_results_alone() {
        let folder = tempfile::tempdir().unwrap();
        for what in ["online-throughput", "dial", "batch", "all-pairs-cost", "band-scores"] {
            let config = config(what, folder.path());
            run(&config).unwrap();
            let rows = results::read_all(&config, what).unwrap();
            assert!(!rows.is_empty() && rows.iter().all(|row| row.text("corpus_hash").len() == 16), "{what}");
            let figure = || {
                let mut drawn: Vec<PathBuf> = fs::read_dir(config.figures())
                    .unwrap()
                    .map(|entry| entry.unwrap().path())
                    .filter(|path| path.to_string_lossy().contains(what))
                    .collect();
                drawn.sort();
                drawn.iter().map(|path| fs::read_to_string(path).unwrap()).collect::<Vec<_>>()
            };
            let before = figure();
            assert!(!before.is_empty(), "{what}");
            run(&Config { what: "draw".into(), only: Some(what.into()), ..config.clone() }).unwrap();
            assert_eq!(before, figure(), "{what}");
        }
        let config = config("check", folder.path());
        run(&config).unwrap();
        let verdicts = fs::read_to_string(config.results().join("VERDICTS.md")).unwrap();
        assert!(verdicts.contains("PSM-P / BPHS 10") && verdicts.contains("1.024 billion"));
    }

    #[test]
    fn exact_methods_find_everything() {
        let folder = tempfile::tempdir().unwrap();
        let config = config("online-throughput", folder.path());
        run(&config).unwrap();
        let rows = results::read_all(&config, "online-throughput").unwrap();
        let exact = rows.iter().filter(|row| row.text("budget").is_empty());
        assert!(exact.clone().count() >= 9);
        assert!(
            exact
                .clone()
                .all(|row| row.number("recall") == 1.0 && row.number("recall_with_distance_0") == 1.0)
        );
    }

    #[test]
    fn an_unknown_name_is_refused() {
        let config = Config::parse_from(["experiments", "nothing"]);
        assert!(run(&config).is_err());
    }
}
