//! Data sets that Hugging Face saved in a folder (`save_to_disk`, or its cache). A shard is one of their Arrow files
//! with documents; other files stand beside the shards and hold none.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::display::printable_path;
use crate::{Error, Result};

/// The file that names the shards of a data set.
pub(crate) const STATE: &str = "state.json";
/// The file that says where a data set comes from.
pub(crate) const INFO: &str = "dataset_info.json";
/// The most bytes of [`STATE`] and [`INFO`] that are read. A longer file is something else.
pub(crate) const LONGEST: u64 = 16 << 20;

#[derive(Debug, Deserialize)]
struct DataSetShard {
    filename: String,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// The data set in a folder, as its [`STATE`] or [`INFO`] describes it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct DataSet {
    #[serde(rename = "_data_files")]
    shards: Option<Vec<DataSetShard>>,
    /// Which of their rows are in the data set, and in which order, as versions before 2 wrote it.
    #[serde(default, rename = "_indices_data_files", alias = "_indices_files")]
    indices: Option<Vec<DataSetShard>>,
}

impl DataSet {
    /// The data set in a folder, if it is one. `read` returns the content of a file by its name, if it is there.
    ///
    /// # Errors
    /// If only some rows of the shards are in the data set, since all rows would be read.
    pub fn of(folder: &Path, mut read: impl FnMut(&str) -> Option<Vec<u8>>) -> Result<Option<Self>> {
        let state = read(STATE).and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        let Some(Self { shards: Some(shards), indices }) = state else {
            return Ok(read(INFO).map(|_| Self::default()));
        };
        let found = match indices.iter().flatten().next() {
            Some(chosen) => format!("the rows that {} chooses", chosen.filename),
            None if shards.iter().any(|shard| !shard.others.is_empty()) => "parts of its files".to_owned(),
            None => return Ok(Some(Self { shards: Some(shards), indices: None })),
        };
        let got = format!("{}, a data set of {found}", printable_path(folder));
        let expected = "a data set of whole files; load it by the version of datasets that wrote it, and save what its \
                        flatten_indices() gives";
        Err(Error::parameter("input", got, expected))
    }

    /// True if a file of the folder belongs to the data set, by its name, and is not a shard.
    pub fn is_beside(&self, name: &str) -> bool {
        match &self.shards {
            _ if name == INFO => true,
            Some(_) if name == STATE => true,
            Some(shards) => name.ends_with(".arrow") && shards.iter().all(|shard| shard.filename != name),
            // What `map` and `filter` made of the shards.
            None => name.ends_with(".arrow") && name.starts_with("cache-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(state: &str) -> Result<Option<DataSet>> {
        DataSet::of(Path::new("set"), |name| (name == STATE).then(|| state.into()))
    }

    #[test]
    fn shards_are_those_that_the_state_names() {
        let set =
            of(r#"{"_data_files": [{"filename": "data-0.arrow"}], "_split": "train"}"#).unwrap().unwrap();
        let names = ["data-0.arrow", "cache-1.arrow", "state.json", "dataset_info.json", "more.jsonl"];
        assert_eq!(names.map(|name| set.is_beside(name)), [false, true, true, true, false]);
        // Lines of JSON may be called so, too.
        assert!(of("{\"text\": \"a document\"}\n{\"text\": \"another\"}").unwrap().is_none());
        let cache = DataSet::of(Path::new("set"), |name| (name == INFO).then(Vec::new)).unwrap().unwrap();
        assert_eq!(names.map(|name| cache.is_beside(name)), [false, true, false, true, false]);
    }

    #[test]
    fn chosen_rows_are_refused() {
        let refused = |state: &str| of(state).unwrap_err().to_string();
        let shards = r#""_data_files": [{"filename": "dataset.arrow"}]"#;
        for indices in ["_indices_data_files", "_indices_files"] {
            let message =
                refused(&format!(r#"{{{shards}, "{indices}": [{{"filename": "indices.arrow"}}]}}"#));
            assert!(message.contains("flatten_indices") && message.contains("indices.arrow"), "{message}");
        }
        assert!(of(&format!(r#"{{{shards}, "_indices_data_files": []}}"#)).unwrap().is_some());
        assert!(of(&format!(r#"{{{shards}, "_indices_data_files": null}}"#)).unwrap().is_some());
        let message = refused(r#"{"_data_files": [{"filename": "dataset.arrow", "skip": 3, "take": 4}]}"#);
        assert!(message.contains("parts of its files"), "{message}");
    }
}
