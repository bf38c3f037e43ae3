//! Files of document frequencies: for each feature, known by its hash, the number of documents that have it.

use crate::error::Result;
use crate::format::{self, FREQUENCIES};
use crate::hash::FeatureHash;
use crate::inspection::Inspection;
use crate::text::{Extraction, FeatureKind, TOKENIZER};
use crate::weight::frequencies::Frequencies;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The header of a file of frequencies.
#[derive(Serialize, Deserialize)]
struct FrequenciesHeader {
    hash: String,
    tokenizer: String,
    features: FeatureKind,
    documents: u64,
    distinct: u64,
}

/// Writes frequencies to a file; the same frequencies give the same bytes.
///
/// # Errors
/// If the file cannot be written; then there is none.
pub fn save(frequencies: &Frequencies, path: &Path) -> Result<()> {
    let entries = frequencies.entries();
    let features: Vec<u8> = entries.iter().flat_map(|(f, _)| f.to_le_bytes()).collect();
    let counts: Vec<u8> = entries.iter().flat_map(|(_, n)| n.to_le_bytes()).collect();
    let header = FrequenciesHeader {
        hash: frequencies.extraction().hash.name().to_owned(),
        tokenizer: TOKENIZER.to_owned(),
        features: frequencies.kind(),
        documents: frequencies.documents(),
        distinct: entries.len() as u64,
    };
    format::write(path, FREQUENCIES, &header, &[&features, &counts])
}

/// Reads frequencies from a file. `extraction` says which kind of features by which hash the file must have; a kind
/// alone stands for MurmurHash3.
///
/// # Errors
/// If the file cannot be read, is corrupt, or was made with another hash, other tokenising rules or
/// another kind of features.
pub fn load(path: &Path, extraction: impl Into<Extraction>) -> Result<Frequencies> {
    let extraction = extraction.into();
    let Extraction { kind, hash } = extraction;
    let (header, body): (FrequenciesHeader, _) = format::read(path, FREQUENCIES)?;
    let must = |field, expected: String, got: String| {
        if expected == got {
            return Ok(());
        }
        let advice = "count the frequencies again with the settings of this run";
        Err(format::wrong(path, field, expected, got, advice))
    };
    must("the feature hash", hash.name().to_owned(), header.hash)?;
    must("the tokenizer", TOKENIZER.to_owned(), header.tokenizer)?;
    must("the kind of features", kind.to_string(), header.features.to_string())?;
    must("the body's length", header.distinct.saturating_mul(12).to_string(), body.len().to_string())?;
    let (features, counts) = body.split_at(body.len() / 12 * 8);
    let features = features.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes));
    let counts = counts.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes));
    Ok(Frequencies::from_entries(extraction, header.documents, features.zip(counts)))
}

/// Checks a file of frequencies whose envelope and checksum are right already. Gives the fields of its `header` as
/// facts, and a problem if the frequencies cannot be used.
pub(crate) fn check(path: &Path, header: serde_json::Value) -> Inspection {
    let mut inspection = Inspection::default();
    let kind = serde_json::from_value::<FeatureKind>(header["features"].clone()).ok();
    let named = header["hash"].as_str().map(str::to_owned);
    let named = named.as_deref();
    if let serde_json::Value::Object(header) = header {
        header.into_iter().for_each(|(name, value)| inspection.header_field(name, &value));
    }
    // A hash that nobody knows is found by reading with any.
    let hash = FeatureHash::ALL.into_iter().find(|hash| named == Some(hash.name())).unwrap_or_default();
    if let Some(Err(error)) = kind.map(|kind| load(path, Extraction { kind, hash })) {
        inspection.problem(error.to_string());
    }
    inspection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_and_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frequencies");
        let kind = FeatureKind::Shingles(3);
        let saved = Frequencies::from_entries(kind, 2, [(1, 1), (2, 2), (u64::MAX, 1)]);
        save(&saved, &path).unwrap();
        let loaded = load(&path, kind).unwrap();
        assert_eq!((loaded.documents(), loaded.entries()), (2, saved.entries()));
        let message = load(&path, FeatureKind::Words).unwrap_err().to_string();
        assert!(message.contains("the kind of features is shingles:3, but words is needed"), "{message}");
        let other = Extraction { kind, hash: FeatureHash::Product };
        let message = load(&path, other).unwrap_err().to_string();
        assert!(message.contains("folded-product-v1 is needed"), "{message}");
        let saved = Frequencies::from_entries(other, 2, saved.entries());
        save(&saved, &path).unwrap();
        assert_eq!(load(&path, other).unwrap().extraction(), other);
        assert!(load(&path, kind).is_err());
        assert!(crate::inspect::inspect(&path).unwrap().problems.is_empty());
    }
}
