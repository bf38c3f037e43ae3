//! The report of a decontamination: what `report.json` holds, and what its page is drawn from.

use super::model::{DocumentSample, Tool};
use crate::display::{counted, plural, printable_path};
use serde::{Deserialize, Serialize};
use simflip_core::contamination::Rules;
use std::path::Path;

/// Most items of a benchmark that a report lists; `items.csv` has all.
pub const SHOWN_ITEMS: usize = 20;

/// Most passages that a report shows of all benchmarks.
pub const SHOWN_PASSAGES: usize = 100;

/// The treatment of a document that has an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Removal {
    /// A document with an item is not kept.
    #[default]
    Documents,
    /// The document is kept without the passages, in a file of its own.
    Passages,
    /// Nothing is written but the tables.
    Nothing,
}

/// The outcome: `report.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecontaminationReport {
    /// The program that wrote it.
    pub tool: Tool,
    /// When the run began.
    pub created: String,
    /// The command.
    pub command_line: Vec<String>,
    /// When an item counted as found.
    pub rules: Rules,
    /// The treatment of documents with items.
    pub removal: Removal,
    /// Documents that were read.
    pub documents: u64,
    /// Documents that have items.
    pub with_items: u64,
    /// Items in documents: the rows of `matches.csv`.
    #[serde(default)]
    pub matches: u64,
    /// Corrupt sections in the input.
    pub corrupt: u64,
    /// The files of items.
    pub benchmarks: Vec<Benchmark>,
}

/// A file of items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// The file.
    pub file: String,
    /// Its items.
    pub items: u64,
    /// Of these, items that have too few words to be looked for.
    pub too_short: u64,
    /// Of these, items that stand in a document.
    pub found: u64,
    /// Documents that have one.
    pub documents: u64,
    /// The items that most documents have, [`SHOWN_ITEMS`] at most.
    #[serde(default)]
    pub most: Vec<FoundItem>,
}

/// An item that stands in documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundItem {
    /// Its id, or its row if it has none.
    pub item: String,
    /// Its words.
    pub words: u64,
    /// Documents that have it.
    pub documents: u64,
    /// The largest share of its n-grams in one of them.
    pub share: f64,
    /// The first of these documents, and the passage in it; none where enough others are shown.
    pub example: Option<DocumentSample>,
}

impl DecontaminationReport {
    /// A few lines on what came of it.
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
