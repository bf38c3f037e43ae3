//! `simflip gather`

use super::arguments::WorkArgs;
use super::progress::Bars;
use super::{Done, print_text};
use simflip::corpus::{GatherJob, expand_patterns, gather};
use simflip::display::{counted, printable_path};
use simflip::pipeline::Progress;
use std::path::PathBuf;

/// Convert a folder of text or HTML files to JSONL.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip gather site --out site.jsonl.gz && simflip dedup site.jsonl.gz --out result
  simflip gather www.example.org --url https://www.example.org/ --out site.jsonl   # as wget --mirror leaves it

Of folders, files called .txt, .text, .md, .markdown, .html, .htm or .xhtml are documents. A document's id is its path.

Exit code: 0 done; 1 done, but files that could not be read were skipped; 2 failed.")]
pub(crate) struct GatherArgs {
    /// Folders and files
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// File to create; its name ends in .jsonl, .jsonl.gz or .jsonl.zst
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// How a document's URL begins: its path below the folder named follows [default: documents have no URL]
    #[arg(long, value_name = "START")]
    url: Option<String>,

    /// Skip files longer than this, in MB, and report them as corrupt [default: 128]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=4000))]
    longest_document: Option<u32>,

    #[command(flatten)]
    work: WorkArgs,
}

impl GatherArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let job = GatherJob {
            inputs: expand_patterns(&self.inputs)?,
            out: self.out,
            url: self.url,
            longest_document: self.longest_document.map(|megabytes| megabytes as usize * 1_000_000),
            threads: self.work.threads,
        };
        let bars = Bars::new(self.work.quiet);
        let gathered = gather(&job, &|files, done| {
            files.iter().for_each(|&files| bars.begin("gather", files, "files"));
            bars.advance(done);
        });
        bars.end();
        let gathered = gathered?;
        gathered.passed_over.message().iter().for_each(|message| bars.note(message));
        let reading = gathered.reading;
        reading.corruption_messages().iter().for_each(|message| bars.note(message));
        let mut text = counted(reading.documents, "document", "documents");
        if reading.extracted > 0 {
            text += &format!(", {} of them HTML", reading.extracted);
        }
        if reading.repaired > 0 {
            text += &format!("; in {}, U+FFFD stands for what was not of its charset", reading.repaired);
        }
        if reading.corrupt > 0 {
            text += &format!("; {} could not be read", counted(reading.corrupt, "file", "files"));
        }
        print_text(&format!("{text}.\n{}\n", printable_path(&job.out)))?;
        Ok(if reading.corrupt > 0 { Done::WithCorruption } else { Done::Well })
    }
}
