//! The curve of earlier runs: how fast the searches were in each committed measurement. `keep` goes through the
//! versions of the rows that git has, and adds to `results/history.csv` what is not there; `draw` draws it.

use crate::figure::{self, Axis, Look, Panel, Series};
use crate::progress::say;
use crate::results::{Row, distinct, read};
use crate::{Options, root};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Experiments that measure queries a second.
const EXPERIMENTS: [&str; 3] = ["dial", "online-throughput", "scalability"];

/// The recall from which on, and the distance within which, a search is kept.
const RECALL: f64 = 0.95;
const DISTANCE: f64 = 3.0;

/// Of an experiment over many sizes, the one that is nearest to this is kept.
const SIZE: f64 = 1e6;

/// The columns of `history.csv`. `revision` is that of what was measured, `date` that of the first commit with its
/// rows, in UTC.
const COLUMNS: [&str; 10] = [
    "date",
    "revision",
    "machine",
    "experiment",
    "corpus",
    "stored",
    "method",
    "recall",
    "queries_per_cpu_second",
    "bytes",
];

/// Methods of which the fastest variant is kept, by how their names begin. What is called the dial was called half
/// tables when it could do less.
const METHODS: [&str; 7] = ["dial", "half tables", "PSM-key", "BPHS 4", "BPHS 10", "BPHS 16", "mih-rs"];

fn path(options: &Options) -> PathBuf {
    options.results().join("history.csv")
}

/// The key figures of one version of the rows of a corpus: for each method its fastest search on one thread, for every
/// match, that reaches the recall.
fn key_figures(experiment: &str, date: &str, rows: &[Row]) -> Vec<[String; 10]> {
    let off = |row: &&Row| (row.number("stored") / SIZE).ln().abs();
    let size = rows.iter().min_by(|a, b| off(a).total_cmp(&off(b))).map_or("", |row| row.text("stored"));
    let fits = |row: &&Row| {
        row.text("stored") == size
            && row.number("radius") == DISTANCE
            && row.text("mode") == "all"
            && row.number("threads") == 1.0
            && row.number("recall") >= RECALL
    };
    let fastest = |method: &&str| {
        // A method may have a number behind its name, and a longer number is another method.
        let named = |row: &&Row| {
            let rest = row.text("method").strip_prefix(method);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
        };
        let speed = |row: &Row| row.number("queries_per_cpu_second");
        let row = rows.iter().filter(fits).filter(named).max_by(|a, b| speed(a).total_cmp(&speed(b)))?;
        let of_row = |column: &str| match column {
            "date" => date.to_owned(),
            "experiment" => experiment.to_owned(),
            column => row.text(column).to_owned(),
        };
        Some(COLUMNS.map(of_row))
    };
    METHODS.iter().filter_map(fastest).collect()
}

/// What a key figure is of: the experiment, the corpus, the method's family and the revision.
fn key(row: &[String; 10]) -> [String; 4] {
    let family = METHODS.iter().find(|method| row[6].starts_with(**method)).unwrap_or(&"");
    [row[3].clone(), row[4].clone(), (*family).to_owned(), row[1].clone()]
}

fn git(arguments: &[&str]) -> Result<String> {
    let output =
        Command::new("git").args(arguments).env("TZ", "UTC").current_dir(root()).output().context("git")?;
    ensure!(
        output.status.success(),
        "git {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn of_text(text: &str) -> Result<Vec<Row>> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), text)?;
    read(file.path())
}

/// Adds to the history what git has of the experiments' rows, the oldest first: commit rows, then keep them. What is
/// there stays, also where a clone is shallow.
///
/// # Errors
/// If git cannot be asked, or a file cannot be read or written.
pub fn keep(options: &Options) -> Result<()> {
    let mut kept: BTreeMap<[String; 4], [String; 10]> = BTreeMap::new();
    if path(options).exists() {
        for row in read(&path(options))? {
            let row = COLUMNS.map(|column| row.text(column).to_owned());
            kept.insert(key(&row), row);
        }
    }
    let before = kept.len();
    for experiment in EXPERIMENTS {
        let folder = format!("experiments/results/{experiment}");
        let date = "--date=format-local:%Y-%m-%dT%H:%MZ";
        let commits = git(&["log", "--reverse", "--format=%H %cd", date, "--", &folder])?;
        for line in commits.lines() {
            let Some((commit, date)) = line.split_once(' ') else { bail!("git log says {line:?}") };
            let files = git(&["ls-tree", "--name-only", commit, &format!("{folder}/")])?;
            for file in files.lines().filter(|file| file.ends_with(".csv")) {
                let rows = of_text(&git(&["show", &format!("{commit}:{file}")])?)?;
                for row in key_figures(experiment, date, &rows) {
                    // A revision's rows stand where they first came in.
                    kept.entry(key(&row)).or_insert(row);
                }
            }
        }
    }
    let mut rows: Vec<&[String; 10]> = kept.values().collect();
    rows.sort_by_key(|row| (&row[3], &row[4], &row[0], &row[1], &row[6]));
    let mut writer = csv::Writer::from_path(path(options))?;
    writer.write_record(COLUMNS)?;
    rows.iter().try_for_each(|row| writer.write_record(*row))?;
    writer.flush()?;
    say(format_args!("{} key figures, {} of them new", rows.len(), rows.len() - before))?;
    Ok(())
}

/// Draws a panel for each corpus that was measured more than once.
pub fn draw(options: &Options) -> Result<()> {
    if !path(options).exists() {
        return Ok(());
    }
    let rows = read(&path(options))?;
    let mut panels = Vec::new();
    for experiment in EXPERIMENTS {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.text("experiment") == experiment).collect();
        for corpus in distinct(rows.iter().copied(), "corpus") {
            let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.text("corpus") == corpus).collect();
            let runs = distinct(rows.iter().copied(), "revision");
            if runs.len() < 2 {
                continue;
            }
            let of_method = |(colour, &method): (usize, &&str)| {
                let points: Vec<(f64, f64)> = rows
                    .iter()
                    .filter(|row| key(&COLUMNS.map(|column| row.text(column).to_owned()))[2] == method)
                    .filter_map(|row| {
                        let run = runs.iter().position(|run| run == row.text("revision"))?;
                        Some((run as f64 + 1.0, row.number("queries_per_cpu_second")))
                    })
                    .collect();
                Series::new(method, Look::Marked { colour, dashed: colour > 3 }, points)
            };
            panels.push(Panel {
                title: format!("{experiment}, {corpus}"),
                x: Axis::linear("committed measurement, the oldest first")
                    .between(0.8, runs.len() as f64 + 0.2),
                y: Axis::log("queries a second of processor time"),
                series: METHODS.iter().enumerate().map(of_method).filter(|s| !s.points.is_empty()).collect(),
            });
        }
    }
    if panels.is_empty() {
        return Ok(());
    }
    let note = "every match within 3 bits, recall .95 and above, one thread, the fastest variant; BPHS before 2026-11-27 with a slower scan; dates: results/history.csv";
    figure::draw(&options.figures().join("history.svg"), "Speed from run to run", note, 2, &panels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn of_each_method_the_fastest_search_that_finds_enough_is_kept() {
        let text =
            "revision,machine,corpus,stored,method,radius,mode,threads,recall,queries_per_cpu_second,bytes
r,m,c,1000,dial 2/1,3,all,1,0.96,10,5
r,m,c,1000,dial 3/1,3,all,1,0.95,20,6
r,m,c,1000,dial 4/1,3,all,1,0.94,90,7
r,m,c,1000,dial 4/1,3,first,1,0.99,90,7
r,m,c,1000,dial 4/1,3,all,2,0.99,90,7
r,m,c,1000,dial 4/1,6,all,1,0.99,90,7
r,m,c,10,dial 4/1,3,all,1,0.99,90,7
r,m,c,1000,BPHS 4,3,all,1,1,2,8
r,m,c,1000,BPHS 10,3,all,1,1,3,9
";
        let kept = key_figures("dial", "2026-01-02", &of_text(text).unwrap());
        let reported: Vec<String> = kept.iter().map(|row| row.join(" ")).collect();
        assert_eq!(
            reported,
            [
                "2026-01-02 r m dial c 1000 dial 3/1 0.95 20 6",
                "2026-01-02 r m dial c 1000 BPHS 4 1 2 8",
                "2026-01-02 r m dial c 1000 BPHS 10 1 3 9"
            ]
        );
        assert_eq!(key(&kept[2]), ["dial", "c", "BPHS 10", "r"]);
    }

    /// The key figures of the rows that are there.
    fn of_files(options: &Options) -> Result<Vec<[String; 10]>> {
        let mut found = Vec::new();
        for experiment in EXPERIMENTS {
            let Ok(entries) = std::fs::read_dir(options.results().join(experiment)) else { continue };
            let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            files.retain(|file| file.extension().is_some_and(|end| end == "csv"));
            files.sort();
            for file in files {
                found.extend(key_figures(experiment, "", &read(&file)?));
            }
        }
        Ok(found)
    }

    #[test]
    fn every_committed_measurement_is_in_the_history() {
        let options = Options::parse_from(["experiments", "keep"]);
        let history = read(&path(&options)).unwrap();
        let kept: Vec<_> =
            history.iter().map(|row| key(&COLUMNS.map(|column| row.text(column).to_owned()))).collect();
        let found = of_files(&options).unwrap();
        assert!(found.len() > 20);
        for row in found {
            assert!(kept.contains(&key(&row)), "{row:?}: run `experiments -- keep`");
        }
    }
}
