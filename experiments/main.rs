//! The paper and the seeds reproduced: one runner per figure or table. See `experiments/README.md`.
//!
//! `cargo run --release --example experiments -- <name> [--corpus PATH]… [--quick]`. A run measures and appends rows to
//! CSV files; `draw` draws figures from CSV alone; `check` compares CSV with what was published. The three never mix.

mod all_pairs_cost;
mod band_scores;
mod batch;
mod check;
mod corpus;
mod feature_choice;
mod figure;
mod flips_vs_recall;
mod generate;
mod online_throughput;
mod results;
mod scalability;
mod sketches;
mod throughput;
mod truth;

use anyhow::{Result, bail};
use check::Verdict;
use clap::Parser;
use results::Row;
use std::path::PathBuf;

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
    /// Small sizes, a few seconds each; results go to target/experiments unless told otherwise.
    #[arg(long)]
    pub quick: bool,
    /// Stored hashes, where they are generated.
    #[arg(long, value_name = "N")]
    pub stored: Option<usize>,
    /// Queries, where they are generated.
    #[arg(long, value_name = "M")]
    pub queries: Option<usize>,
    /// Seed of whatever is random.
    #[arg(long, default_value_t = 2011)]
    pub seed: u64,
    /// Folder of result files.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "experiments/results",
        default_value_if("quick", "true", "target/experiments/results")
    )]
    pub results: PathBuf,
    /// Folder of figures.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "figures",
        default_value_if("quick", "true", "target/experiments/figures")
    )]
    pub figures: PathBuf,
}

impl Config {
    /// The corpora of this run.
    pub fn corpora(&self) -> Vec<PathBuf> {
        if self.corpora.is_empty() { vec![corpus::SMALL.into()] } else { self.corpora.clone() }
    }

    /// One size or the other.
    pub fn size(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
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
    batch::EXPERIMENT,
    all_pairs_cost::EXPERIMENT,
    band_scores::EXPERIMENT,
    sketches::EXPERIMENT,
    feature_choice::EXPERIMENT,
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
    println!("{}: {}", experiment.name, experiment.about);
    let clock = results::Clock::start();
    (experiment.run)(config)?;
    let (cpu, wall) = clock.read();
    println!("{}: {wall:.1} s, {cpu:.1} s of processor time", experiment.name);
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
