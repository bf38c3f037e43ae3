//! The file of seen pages: read, written and checked.

use super::{FEWEST_EXPECTED, NO_HASH, Seen, SeenParams, chosen, exact};
use crate::error::{Error, Result};
use crate::format;
use crate::inspection::Inspection;
use crate::search::online::Online;
use crate::text::TOKENIZER;
use flipside_core::internal::keys::Keys;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What stands in front of a file of seen pages.
#[derive(Serialize, Deserialize)]
struct Header {
    hash: String,
    tokenizer: String,
    #[serde(flatten)]
    params: SeenParams,
    documents: u64,
    distinct_hashes: u64,
    name_bytes: u64,
    /// None, or nothing in files of version 1: leading bits.
    #[serde(default)]
    keys: Option<Keys>,
}

impl Seen {
    /// Writes the index to a file, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let keys = match &self.keys {
            Some(keys) => Some(keys.clone()),
            None => chosen(self.index.hashes(), self.index.params().tables)?,
        };
        let header = Header {
            hash: self.params.feature_hash.name().to_owned(),
            tokenizer: TOKENIZER.to_owned(),
            params: self.params.clone(),
            documents: self.slots.len() as u64,
            distinct_hashes: self.index.len() as u64,
            name_bytes: self.names.len() as u64,
            keys,
        };
        let hashes: Vec<u8> = self.index.hashes().iter().flat_map(|hash| hash.to_le_bytes()).collect();
        let digests: Vec<u8> = self.digests.iter().flat_map(|digest| digest.to_le_bytes()).collect();
        let ends: Vec<u8> = self.ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        let slots: Vec<u8> = self.slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
        format::write(path, format::SEEN, &header, &[&hashes, &digests, &ends, &slots, self.names.as_bytes()])
    }

    /// How the pages of an index in a file are sketched.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn params_of(path: &Path) -> Result<SeenParams> {
        let (header, _): (Header, Vec<u8>) = format::read(path, format::SEEN)?;
        Ok(header.params)
    }

    /// Reads an index of pages that were sketched with `params`, to look for pages within `distance` bits.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or holds pages sketched in another way; and
    /// for a distance above 15.
    pub fn load(path: &Path, params: &SeenParams, distance: u32) -> Result<Self> {
        let wrong = |field, expected: String, got: String, advice| Error::Format {
            path: path.to_path_buf(),
            field,
            expected,
            got,
            advice,
        };
        let (header, body): (Header, Vec<u8>) = format::read(path, format::SEEN)?;
        let fits = |field, expected: String, got: String| match expected == got {
            true => Ok(()),
            false => Err(wrong(field, expected, got, "ask with the settings that the index was made with")),
        };
        let (wanted, made) = (params, &header.params);
        let frequencies =
            |params: &SeenParams| params.frequencies.clone().unwrap_or_else(|| "none".to_owned());
        fits("the feature hash", wanted.feature_hash.name().to_owned(), header.hash)?;
        fits("the tokenizer", TOKENIZER.to_owned(), header.tokenizer)?;
        fits("the kind of features", wanted.features.to_string(), made.features.to_string())?;
        fits("the weighting", wanted.weighting.name().to_owned(), made.weighting.name().to_owned())?;
        fits("the least number of features", wanted.min_features.to_string(), made.min_features.to_string())?;
        fits("the checksum of the document frequencies", frequencies(wanted), frequencies(made))?;
        let damaged = |field, expected: &str, got: String| {
            wrong(field, expected.to_owned(), got, "the file is not one that flipside made; make it again")
        };
        // Each count is at most the body's length, or the sum is another.
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
        let words = |bytes: &[u8]| -> Vec<u64> {
            bytes.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect()
        };
        let (hashes, dial) = (words(hashes), exact(distance));
        let keys = match header.keys.filter(|keys| keys.tables() == dial.tables) {
            Some(keys) => Some(keys),
            None => chosen(&hashes, dial.tables)?,
        };
        let expected = FEWEST_EXPECTED.max(2 * distinct as usize);
        let index = match &keys {
            Some(keys) => Online::with_keys(dial, keys.clone(), expected)?,
            None => Online::new(dial, expected)?,
        };
        let mut seen = Self::of(header.params, keys, index.filled(hashes)?);
        seen.digests = digests.as_chunks().0.iter().map(|&bytes| u128::from_le_bytes(bytes)).collect();
        seen.ends = words(ends);
        seen.slots = slots.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
        seen.names = String::from_utf8(names.to_vec())
            .map_err(|e| damaged("the names", "UTF-8", e.utf8_error().to_string()))?;
        let mut start = 0;
        for &end in &seen.ends {
            if end < start || !seen.names.is_char_boundary(end as usize) {
                return Err(damaged("the end of a name", "one after the other", end.to_string()));
            }
            start = end;
        }
        for (document, &slot) in (0..).zip(&seen.slots) {
            // Slots are given to hashes as documents bring them.
            match slot as usize {
                _ if slot == NO_HASH => {}
                slot if slot < seen.first.len() => {}
                slot if slot == seen.first.len() && slot < seen.index.len() => seen.first.push(document),
                slot => return Err(damaged("a document's hash", "one of those listed", slot.to_string())),
            }
        }
        if seen.first.len() != seen.index.len() {
            let (expected, got) = (seen.index.len().to_string(), seen.first.len().to_string());
            return Err(damaged("the number of hashes with documents", &expected, got));
        }
        seen.by_digest = seen.digests.iter().copied().zip(0..).collect();
        if seen.by_digest.len() != seen.digests.len() {
            let got = seen.by_digest.len().to_string();
            return Err(damaged("the number of different texts", &seen.digests.len().to_string(), got));
        }
        Ok(seen)
    }
}

/// Checks an index of seen pages whose envelope and checksum are right already: what its header says, and
/// whether the pages can be used.
pub(crate) fn check(path: &Path, header: serde_json::Value) -> Inspection {
    let mut inspection = Inspection::default();
    if let serde_json::Value::Object(header) = header {
        for (name, value) in header {
            match serde_json::from_value::<Option<Keys>>(value.clone()) {
                Ok(Some(keys)) if name == "keys" => tell_keys(&keys, &mut inspection),
                Ok(None) if name == "keys" => inspection.fact(name, "leading bits"),
                _ => inspection.header_field(name, &value),
            }
        }
    }
    if let Err(error) = Seen::params_of(path).and_then(|params| Seen::load(path, &params, 0)) {
        inspection.problem(error.to_string());
    }
    inspection
}

fn tell_keys(keys: &Keys, inspection: &mut Inspection) {
    for (bits, number) in keys.bits().iter().zip(1..) {
        let bits: Vec<String> = bits.iter().map(u32::to_string).collect();
        inspection.fact(format!("key {number}, bits as they were chosen"), bits.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{filled, naive, params, uneven};
    use super::super::{Answer, Page};
    use super::*;
    use crate::hash::FeatureHash;
    use crate::text::FeatureKind;
    use crate::weight::Weighting;
    use flipside_core::internal::keys;

    #[test]
    fn keys_are_chosen_once_and_answers_do_not_depend_on_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let header_keys = || format::read::<Header>(&path, format::SEEN).unwrap().0.keys;
        let pages = uneven(12_000, 7);
        let (before, after) = pages.split_at(8_000);
        for radius in [3, 10] {
            let mut leading = filled(before, radius);
            leading.save(&path).unwrap();
            let keys = header_keys().expect("hashes enough");
            assert_eq!(keys.tables(), exact(radius).tables);
            // The order of the pages does not matter.
            let mut backwards = before.to_vec();
            backwards.reverse();
            filled(&backwards, radius).save(&path).unwrap();
            assert_eq!(header_keys().as_ref(), Some(&keys));

            leading.save(&path).unwrap();
            let mut seen = Seen::load(&path, &params(), radius).unwrap();
            let used = seen.index.params();
            let p = used.key_bits.unwrap();
            assert_eq!((used.keys.clone(), &leading.index.params().keys), (keys.masks(p).ok(), &None));
            let mut near = 0;
            for (i, page) in after.iter().enumerate() {
                let answer = seen.ask(page);
                near += usize::from(matches!(answer, Answer::Near { .. }));
                assert_eq!(answer, leading.ask(page));
                if i % 400 == 0 {
                    assert_eq!(answer, naive(&pages[..before.len() + i], page, radius));
                }
                for seen in [&mut seen, &mut leading] {
                    seen.add(page, "later").unwrap();
                }
            }
            assert!(near > 1_000, "{near}");
            // More pages change nothing.
            seen.save(&path).unwrap();
            assert_eq!(header_keys().as_ref(), Some(&keys));
            // Within another distance there are other tables, and other keys.
            let mut wider = Seen::load(&path, &params(), 6).unwrap();
            assert_eq!(wider.keys.as_ref().map(Keys::tables), Some(4));
            for page in after.iter().step_by(500) {
                assert_eq!(
                    wider.ask(&Page { digest: 0, ..*page }),
                    naive(&pages, &Page { digest: 0, ..*page }, 6)
                );
            }
        }
    }

    #[test]
    fn few_hashes_have_leading_bits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let (mut pages, mut hashes) = (Vec::new(), std::collections::HashSet::new());
        for page in uneven(9_000, 3) {
            if hashes.insert(page.hash) {
                pages.push(page);
            }
        }
        let keys = |n: usize| {
            filled(&pages[..n], 3).save(&path).unwrap();
            Seen::load(&path, &params(), 3).unwrap().keys
        };
        assert!(keys(keys::FEWEST_SAMPLED - 1).is_none());
        assert!(keys(keys::FEWEST_SAMPLED).is_some());
    }

    /// Writes a saved index again with another header, and as another version.
    fn rewrite(
        path: &Path,
        version: u32,
        change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>),
    ) {
        let (envelope, body) = format::read_any(path).unwrap();
        let serde_json::Value::Object(mut header) = envelope.header else { panic!("an object") };
        change(&mut header);
        format::write(path, format::Kind { version, ..format::SEEN }, &header, &[&body]).unwrap();
    }

    #[test]
    fn files_of_version_1_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let pages = uneven(500, 5);
        filled(&pages, 3).save(&path).unwrap();
        rewrite(&path, 1, |header| drop(header.remove("keys")));
        let mut seen = Seen::load(&path, &params(), 3).unwrap();
        assert!(seen.keys.is_none());
        assert_eq!(seen.ask(&pages[77]), Answer::Same { document: 77 });
        seen.save(&path).unwrap();
        assert_eq!(format::read_any(&path).unwrap().0.version, 2);
    }

    #[test]
    fn keys_that_cannot_be_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let seen = filled(&uneven(5_000, 5), 3);
        let refused = |change: fn(&mut Vec<Vec<u32>>), told: &str| {
            seen.save(&path).unwrap();
            rewrite(&path, 2, |header| {
                let mut bits = serde_json::from_value(header["keys"].clone()).unwrap();
                change(&mut bits);
                header["keys"] = serde_json::json!(bits);
            });
            // Within another distance, too, where they are not used.
            for distance in [3, 10] {
                let message = Seen::load(&path, &params(), distance).unwrap_err().to_string();
                assert!(message.contains("the header") && message.contains(told), "{message}");
            }
            assert!(
                crate::inspect::inspect(&path).is_err()
                    || !crate::inspect::inspect(&path).unwrap().problems.is_empty()
            );
        };
        refused(|bits| bits[0][0] = bits[1][0], "twice");
        refused(|bits| bits[0][0] = 64, "bit 64 of a key");
        refused(|bits| bits[0].truncate(18), "a key of 18 bits: expected 32 for 2 tables");
        refused(|bits| bits.truncate(1), "a key of 32 bits: expected 64 for 1 table");
        refused(|bits| bits.clear(), "0 keys");
    }

    #[test]
    fn inspect_tells_the_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let told = |pages: usize| {
            let seen = filled(&uneven(pages, 5), 3);
            seen.save(&path).unwrap();
            let inspection = crate::inspect::inspect(&path).unwrap();
            assert!(inspection.problems.is_empty(), "{inspection:?}");
            let facts = inspection.facts.into_iter().filter(|(name, _)| name.starts_with("key"));
            facts.collect::<Vec<_>>()
        };
        assert_eq!(told(50), [("keys".to_owned(), "leading bits".to_owned())]);
        let facts = told(5_000);
        let keys = Seen::load(&path, &params(), 3).unwrap().keys.unwrap();
        let bits: Vec<String> = keys.bits()[1].iter().map(u32::to_string).collect();
        assert_eq!(facts.len(), 2);
        assert_eq!(facts[1], ("key 2, bits as they were chosen".to_owned(), bits.join(" ")));
    }

    #[test]
    fn an_index_of_other_pages_is_refused_by_what_differs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let mut seen = Seen::new(params(), 3).unwrap();
        seen.add(&Page { digest: 1, hash: Some(5) }, "a").unwrap();
        seen.save(&path).unwrap();
        let refused = |params: SeenParams, field: &str| {
            let message = Seen::load(&path, &params, 3).unwrap_err().to_string();
            assert!(message.contains(field), "{message}");
        };
        refused(SeenParams { features: FeatureKind::Shingles(3), ..params() }, "shingles:3");
        refused(SeenParams { feature_hash: FeatureHash::Product, ..params() }, "the feature hash is murmur3");
        refused(SeenParams { weighting: Weighting::Tf, ..params() }, "the weighting is binary");
        refused(SeenParams { min_features: 4, ..params() }, "the least number of features");
        refused(
            SeenParams { frequencies: Some("0a".into()), ..params() },
            "the document frequencies is none",
        );
        assert!(Seen::load(&path, &params(), 16).is_err());
        let inspection = crate::inspect::inspect(&path).unwrap();
        assert_eq!(inspection.what, "index of seen pages");
        assert!(inspection.facts.contains(&("documents".to_owned(), "1".to_owned())), "{inspection:?}");
    }

    #[test]
    fn bodies_that_do_not_hang_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        let load = |documents: u64,
                    distinct: u64,
                    hashes: &[u64],
                    ends: [u64; 2],
                    slots: [u32; 2],
                    digests: [u128; 2]| {
            let header = Header {
                hash: params().feature_hash.name().to_owned(),
                tokenizer: TOKENIZER.to_owned(),
                params: params(),
                documents,
                distinct_hashes: distinct,
                name_bytes: 3,
                keys: None,
            };
            let bytes: Vec<u8> = hashes
                .iter()
                .flat_map(|h| h.to_le_bytes())
                .chain(digests.iter().flat_map(|d| d.to_le_bytes()))
                .chain(ends.iter().flat_map(|e| e.to_le_bytes()))
                .chain(slots.iter().flat_map(|s| s.to_le_bytes()))
                .chain("éx".bytes())
                .collect();
            format::write(&path, format::SEEN, &header, &[&bytes]).unwrap();
            Seen::load(&path, &params(), 3).map(|seen| seen.len()).map_err(|e| e.to_string())
        };
        assert_eq!(load(2, 2, &[5, 9], [2, 3], [0, 1], [1, 2]), Ok(2));
        assert_eq!(load(2, 2, &[5, 9], [0, 3], [0, 1], [1, 2]), Ok(2));
        for refused in [
            load(3, 2, &[5, 9], [2, 3], [0, 1], [1, 2]),
            load(u64::MAX, 2, &[5, 9], [2, 3], [0, 1], [1, 2]),
            load(2, 2, &[5, 5], [2, 3], [0, 1], [1, 2]),
            load(2, 2, &[5, 9], [1, 3], [0, 1], [1, 2]),
            load(2, 2, &[5, 9], [3, 2], [0, 1], [1, 2]),
            load(2, 2, &[5, 9], [2, 4], [0, 1], [1, 2]),
            load(2, 2, &[5, 9], [2, 3], [1, 0], [1, 2]),
            load(2, 2, &[5, 9], [2, 3], [0, 0], [1, 2]),
            load(2, 2, &[5, 9], [2, 3], [0, 7], [1, 2]),
            load(2, 2, &[5, 9], [2, 3], [0, 1], [1, 1]),
        ] {
            assert!(refused.is_err());
        }
    }
}
