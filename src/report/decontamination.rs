//! The report of `simflip decontaminate`, which finds items of benchmarks in documents: the content of its
//! `report.json`, from which its page is drawn. An *item* is a row of a benchmark's file, such as a question of a test.

use super::model::{DocumentSample, Tool};
use crate::display::{counted, plural, printable_path};
use serde::{Deserialize, Serialize};
use simflip_core::contamination::Rules;
use std::path::Path;

/// Most items that a report lists of each benchmark; `items.csv` has all.
pub const SHOWN_ITEMS: usize = 20;

/// Most items of all benchmarks that a report shows with a passage.
pub const SHOWN_PASSAGES: usize = 100;

/// The treatment of documents that have an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Removal {
    /// They are left out of the kept documents.
    #[default]
    Documents,
    /// They are written without the passages of items to `cut.jsonl.gz`, apart from the kept documents.
    Passages,
    /// No documents are written, only the tables and the report.
    Nothing,
}

/// The report of a decontamination, as `report.json` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecontaminationReport {
    /// The program that wrote it.
    pub tool: Tool,
    /// When the run began, RFC 3339.
    pub created: String,
    /// The command as typed, one argument each.
    pub command_line: Vec<String>,
    /// The rules by which an item counts as found in a document.
    pub rules: Rules,
    /// The treatment of documents with items.
    pub removal: Removal,
    /// Documents that were read.
    pub documents: u64,
    /// Documents that have items.
    pub with_items: u64,
    /// Pairs of an item and a document that has it: the rows of `matches.csv`.
    #[serde(default)]
    pub matches: u64,
    /// Corrupt sections in the input.
    pub corrupt: u64,
    /// The files of items, in the order of their paths.
    pub benchmarks: Vec<Benchmark>,
}

/// The counts of one benchmark: a file of items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// The path of the file.
    pub file: String,
    /// Number of its items.
    pub items: u64,
    /// Number of its items that have too few words to be looked for.
    pub too_short: u64,
    /// Number of its items that stand in a document.
    pub found: u64,
    /// Number of documents that have one of its items.
    pub documents: u64,
    /// The items that most documents have, at most [`SHOWN_ITEMS`], those of the most documents first.
    #[serde(default)]
    pub most: Vec<FoundItem>,
}

/// An item that stands in documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundItem {
    /// Its id, or its row if it has none.
    pub item: String,
    /// Number of its words.
    pub words: u64,
    /// Number of documents that have it.
    pub documents: u64,
    /// The largest share of its n-grams, 0 to 1, that one of these documents has.
    pub share: f64,
    /// The first of these documents, with the passage as its excerpt, which may be empty. None if [`SHOWN_PASSAGES`]
    /// others are shown.
    pub example: Option<DocumentSample>,
}

impl DecontaminationReport {
    /// A few lines on the result, for a person: the summary that the command prints.
    pub fn text(&self) -> String {
        let has = counted(self.with_items, "has an item", "have items");
        let kept = match self.removal {
            Removal::Documents => ", and are left out of what is kept",
            Removal::Passages => ", and are kept in cut.jsonl.gz without the passages",
            Removal::Nothing => "",
        };
        let mut text = format!("{}, of which {has}{kept}.", counted(self.documents, "document", "documents"));
        for Benchmark { file, items, too_short, found, documents, .. } in &self.benchmarks {
            let (file, items) = (printable_path(Path::new(file)), counted(*items, "item", "items"));
            let documents = counted(*documents, "document", "documents");
            let were = plural(*found, "was", "were");
            text += &format!("\n{file}: {found} of {items} {were} found, in {documents}");
            if *too_short > 0 {
                let items = counted(*too_short, "item has", "items have");
                let (least, were) = (self.rules.min_words, plural(*too_short, "was", "were"));
                text += &format!("; {items} fewer than {least} words and {were} not looked for");
            }
        }
        text
    }
}
