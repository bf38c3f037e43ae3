//! Indexes of earlier versions: a single file of hashes, digests and names. They are read once, and converted.

use super::SeenParams;
use crate::error::Result;
use crate::format;
use crate::hash::FeatureHash;
use crate::inspection::Inspection;
use crate::settings::{Judge, Net, Recall, Settings, Sketches, USUAL_DISTANCE};
use crate::simhash::BITS;
use crate::simhash::quantised::QuantisedWeights;
use crate::sketch::{Facts, Hashed, SketchValue};
use crate::text::{FeatureKind, TOKENIZER};
use crate::weight::Weighting;
use serde::Deserialize;
use std::path::Path;

/// What stands in front of such a file, as far as it still matters.
#[derive(Deserialize)]
struct Header {
    hash: String,
    tokenizer: String,
    features: FeatureKind,
    /// Files of before there was a choice do not say, and mean MurmurHash3.
    #[serde(default)]
    feature_hash: FeatureHash,
    weighting: Weighting,
    min_features: usize,
    frequencies: Option<String>,
    documents: u64,
    distinct_hashes: u64,
    name_bytes: u64,
}

/// An index of an earlier version.
pub(super) struct Old {
    pub(super) params: SeenParams,
    pub(super) pages: Vec<OldPage>,
}

/// A page as it was kept: without the weights behind its hash.
pub(super) struct OldPage {
    pub(super) facts: Facts,
    pub(super) value: Option<SketchValue>,
    pub(super) name: String,
}

const NO_HASH: u32 = u32::MAX;

/// Reads an index of version 1 or 2.
///
/// # Errors
/// If it cannot be read, is damaged, or was made with other hashes than this program's.
pub(super) fn read(path: &Path) -> Result<Old> {
    let (header, body): (Header, Vec<u8>) = format::read(path, format::SEEN)?;
    for (field, expected, got) in [
        ("the feature hash", header.feature_hash.name(), &header.hash),
        ("the tokenizer", TOKENIZER, &header.tokenizer),
    ] {
        if expected != got {
            return Err(format::wrong(
                path,
                field,
                expected,
                got.clone(),
                "make the index again with this simflip",
            ));
        }
    }
    let damaged = |field, expected: &str, got: String| {
        format::wrong(path, field, expected, got, "the file is not one that simflip made; make it again")
    };
    let (n, distinct) = (header.documents, header.distinct_hashes);
    let length = (distinct.saturating_mul(8))
        .saturating_add(n.saturating_mul(16 + 8 + 4))
        .saturating_add(header.name_bytes);
    if length != body.len() as u64 {
        return Err(damaged("the body's length", &length.to_string(), body.len().to_string()));
    }
    let (hashes, rest) = body.split_at(distinct as usize * 8);
    let (digests, rest) = rest.split_at(n as usize * 16);
    let (ends, rest) = rest.split_at(n as usize * 8);
    let (slots, names) = rest.split_at(n as usize * 4);
    let names = std::str::from_utf8(names).map_err(|e| damaged("the names", "UTF-8", e.to_string()))?;
    let (digests, ends, slots) = (digests.as_chunks().0, ends.as_chunks().0, slots.as_chunks().0);
    let (mut pages, mut start) = (Vec::new(), 0);
    for ((&digest, &end), &slot) in digests.iter().zip(ends).zip(slots) {
        let end = u64::from_le_bytes(end) as usize;
        let name = names.get(start..end);
        let name =
            name.ok_or_else(|| damaged("the end of a name", "one after the other", end.to_string()))?;
        start = end;
        let slot = u32::from_le_bytes(slot);
        let hash = hashes.as_chunks().0.get(slot as usize);
        if hash.is_none() && slot != NO_HASH {
            return Err(damaged("a document's hash", "one of those listed", slot.to_string()));
        }
        let value = hash.map(|&hash| {
            let weights = QuantisedWeights::from_bytes([0; BITS]);
            SketchValue::SimHash(Hashed { hash: u64::from_le_bytes(hash), weights })
        });
        // How many features a page has was not kept; with a hash it had enough of them.
        let features = if value.is_some() { header.min_features.max(1) as u32 } else { 0 };
        let facts = Facts { digest: u128::from_le_bytes(digest), features, text_bytes: 0 };
        pages.push(OldPage { facts, value, name: name.to_owned() });
    }
    let settings = Settings::simhash().with(|settings| {
        settings.features = header.features;
        settings.feature_hash = header.feature_hash;
        settings.min_features = header.min_features;
        settings.sketches = Sketches::SimHash { weighting: header.weighting };
        settings.net = Net::Dial { distance: USUAL_DISTANCE, recall: Recall::Exact, key_bits: None };
        settings.judge = Judge::Net;
    });
    Ok(Old { params: SeenParams { settings, frequencies: header.frequencies }, pages })
}

/// Checks an index of an earlier version whose envelope and checksum are right already.
pub(crate) fn check(path: &Path, header: serde_json::Value) -> Inspection {
    let mut inspection = Inspection::default();
    if let serde_json::Value::Object(header) = header {
        header.iter().for_each(|(name, value)| inspection.header_field(name.clone(), value));
    }
    match read(path) {
        Ok(_) => inspection.fact("earlier version", "simflip seen converts it to a folder when it is used"),
        Err(error) => inspection.problem(error.to_string()),
    }
    inspection
}
