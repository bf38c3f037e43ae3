//! The short text beside the rows and figures of somebody's own corpora: published figures, what these corpora
//! show, and what was left out and why.

use crate::progress::say;
use crate::{Experiment, Options, results};
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The file, and the line that it begins with. A folder without it belongs to somebody else.
const FILE: &str = "summary.md";
const TITLE: &str = "# Experiments on your documents";
/// Before each section, one for each experiment.
const SECTION: &str = "\n## ";

/// The summary in a folder.
pub struct Summary {
    path: PathBuf,
}

impl Summary {
    /// Takes a folder that is new, empty, or of an earlier run, and begins its summary.
    ///
    /// # Errors
    /// If other files are in the folder, or it cannot be written.
    pub fn begin(folder: PathBuf) -> Result<Self> {
        let path = folder.join(FILE);
        let is_ours = is_ours(&path);
        let is_free = match fs::read_dir(&folder) {
            Ok(mut entries) => is_ours || entries.next().is_none(),
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if !is_free {
            let folder = folder.display();
            bail!(
                "--out {folder}: expected a new folder, or one that an experiment made, and it has other files; try --out {folder}/experiments"
            );
        }
        if !is_ours {
            fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
            let head = format!("{TITLE}\n\nRows are in rows/, figures in figures/.\n");
            fs::write(&path, head).with_context(|| format!("writing {}", path.display()))?;
        }
        say(format_args!("rows, figures and {FILE} go to {}", folder.display()))?;
        Ok(Self { path })
    }

    /// Adds what an experiment found and left out, in the place of what an earlier run of it had.
    pub fn add(&self, options: &Options, experiment: &Experiment) -> Result<()> {
        let Experiment { name, about, .. } = experiment;
        let rows = results::read_all(options, name)?;
        let mut section = format!("{name}\n\nIt measures: {about}.\n");
        if let Some(row) = rows.last() {
            writeln!(section, "\nCommand: `experiments {}`", row.text("command"))?;
        }
        let omitted = options.progress.take_omitted();
        if !omitted.is_empty() {
            writeln!(section, "\nLeft out:\n")?;
            omitted.iter().try_for_each(|reason| writeln!(section, "- {reason}"))?;
        }
        let expected = results::expected(name)?;
        let verdicts =
            if rows.is_empty() { Vec::new() } else { (experiment.verdicts)(options, &rows, &expected)? };
        if !verdicts.is_empty() {
            writeln!(section, "\n| figure | published | here |\n|---|---|---|")?;
            for verdict in verdicts {
                writeln!(section, "| {} | {} | {} |", verdict.item, verdict.paper, verdict.ours)?;
            }
        }
        let text =
            fs::read_to_string(&self.path).with_context(|| format!("reading {}", self.path.display()))?;
        let other = |section: &&str| section.lines().next() != Some(*name);
        let sections: Vec<&str> = text.split(SECTION).filter(other).chain([&*section]).collect();
        fs::write(&self.path, sections.join(SECTION))
            .with_context(|| format!("writing {}", self.path.display()))?;
        say(self.path.display())?;
        Ok(())
    }
}

/// True if an earlier run wrote this summary.
fn is_ours(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.starts_with(TITLE))
}
