//! An index that grows: has something like this signature been seen before?

use anyhow::{Result, ensure};
use hashbrown::HashMap;
use simflip::hash::fmix64;
use simflip::minhash::Signatures;
use simflip::search::Cost;
use simflip::search::bands::Banding;
use simflip_core::internal::Level;

/// End of a chain.
const NONE: u32 = u32::MAX;

/// A stored signature that is like the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignatureHit {
    /// Number of the signature, counted from 0 in the order of insertion.
    pub slot: u32,
    /// Number of positions equal to the query's.
    pub matches: u32,
}

/// What a query found and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The signatures that are like the query, by slot ascending, each once.
    pub hits: Vec<SignatureHit>,
    /// Buckets looked up, signatures compared, hits.
    pub cost: Cost,
    /// Buckets of which only the newest signatures were looked at.
    pub limited: u32,
}

/// Signatures under the hashes of their bands. Insertion order is the only order; nothing is ever removed.
///
/// Takes 4 bytes per position, 4 per band and about 16 per distinct band of each signature.
#[derive(Clone, Debug)]
pub struct BandIndex {
    banding: Banding,
    /// Signatures of a bucket that a query looks at, newest first.
    newest: usize,
    signatures: Signatures,
    /// The newest signature of each bucket.
    heads: HashMap<u64, u32>,
    /// `older[slot · bands + band]`: the signature inserted before `slot` into the same bucket.
    older: Vec<u32>,
}

impl BandIndex {
    /// An empty index for signatures of `permutations` positions.
    ///
    /// A query looks at the `newest` signatures of a bucket only, so that a template with a million pages
    /// cannot make every query slow; the answer says how often it was cut short.
    ///
    /// # Errors
    /// If the banding does not fit, or `newest` is 0.
    pub fn new(permutations: usize, banding: Banding, newest: usize) -> Result<Self> {
        banding.check(permutations)?;
        ensure!(newest > 0, "a query must look at the newest signature of a bucket at least");
        let signatures = Signatures::new(permutations)?;
        Ok(Self { banding, newest, signatures, heads: HashMap::new(), older: Vec::new() })
    }

    /// Stores a signature and returns its slot. Equal signatures are stored again.
    ///
    /// # Errors
    /// If the signature has another length than the index, or the index holds 2³² − 1 already.
    pub fn insert(&mut self, signature: &[u32]) -> Result<u32> {
        let slot = u32::try_from(self.signatures.len()).unwrap_or(NONE);
        ensure!(slot != NONE, "an index holds 2^32 - 1 signatures");
        self.signatures.push(signature)?;
        for band in 0..self.banding.bands {
            let older = self.heads.insert(self.key(band, signature), slot);
            self.older.push(older.unwrap_or(NONE));
        }
        Ok(slot)
    }

    /// The bucket of a band: a hash of its rows and of its number.
    fn key(&self, band: usize, signature: &[u32]) -> u64 {
        let rows = &signature[band * self.banding.rows..][..self.banding.rows];
        rows.iter().fold(band as u64, |key, &value| fmix64(key.rotate_left(32) ^ u64::from(value)))
    }

    /// All stored signatures that share a band with the query and agree in at least `min_matches` positions.
    ///
    /// # Errors
    /// If the query has another length than the index.
    pub fn query(&self, signature: &[u32], min_matches: usize) -> Result<Answer> {
        let (own, others) = (self.signatures.permutations(), signature.len());
        ensure!(own == others, "a query of {others} positions, and signatures of {own}");
        let (mut slots, mut limited) = (Vec::new(), 0);
        let rows = self.banding.rows;
        for band in 0..self.banding.bands {
            let mut next = self.heads.get(&self.key(band, signature)).copied().unwrap_or(NONE);
            let mut seen = 0;
            while next != NONE && seen < self.newest {
                // Different rows may have equal hashes.
                let range = band * rows..(band + 1) * rows;
                if self.signatures.get(next as usize)[range.clone()] == signature[range] {
                    slots.push(next);
                }
                seen += 1;
                next = self.older[next as usize * self.banding.bands + band];
            }
            limited += u32::from(next != NONE);
        }
        slots.sort_unstable();
        slots.dedup();
        let kernel = Level::in_use();
        let hits: Vec<SignatureHit> = slots
            .iter()
            .map(|&slot| (slot, kernel.matches(self.signatures.get(slot as usize), signature)))
            .filter(|&(_, matches)| matches >= min_matches)
            .map(|(slot, matches)| SignatureHit { slot, matches: matches as u32 })
            .collect();
        let (probes, candidates) = (self.banding.bands as u64, slots.len() as u64);
        let cost = Cost { probes, candidates, verified: hits.len() as u64 };
        Ok(Answer { hits, cost, limited })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_query_is_the_comparison_with_all(
            values in prop::collection::vec(0u32..3, 0..400), query in prop::collection::vec(0u32..3, 8), least in 0usize..9,
        ) {
            let banding = Banding { bands: 3, rows: 2 };
            let mut index = BandIndex::new(8, banding, 1000).unwrap();
            let mut naive = Vec::new();
            for (slot, signature) in values.chunks_exact(8).enumerate() {
                prop_assert_eq!(index.insert(signature).unwrap(), slot as u32);
                let matches = (0..8).filter(|&i| signature[i] == query[i]).count();
                let candidate = (0..3).any(|k| signature[2 * k..2 * k + 2] == query[2 * k..2 * k + 2]);
                if candidate && matches >= least {
                    naive.push(SignatureHit { slot: slot as u32, matches: matches as u32 });
                }
            }
            let answer = index.query(&query, least).unwrap();
            prop_assert_eq!(answer.cost.verified, naive.len() as u64);
            prop_assert_eq!((answer.hits, answer.limited), (naive, 0));
            prop_assert_eq!(index.signatures.len(), values.len() / 8);
        }
    }

    #[test]
    fn a_large_bucket_shows_its_newest_and_says_so() {
        let mut index = BandIndex::new(4, Banding { bands: 2, rows: 2 }, 3).unwrap();
        for i in 0..10 {
            index.insert(&[1, 1, i, i]).unwrap();
        }
        let answer = index.query(&[1, 1, 2, 2], 2).unwrap();
        // Of the first band the last three, of the second the one.
        assert_eq!(answer.hits.iter().map(|h| h.slot).collect::<Vec<_>>(), [2, 7, 8, 9]);
        assert_eq!((answer.limited, answer.cost.candidates, answer.cost.probes), (1, 4, 2));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let banding = Banding { bands: 2, rows: 2 };
        assert!(BandIndex::new(3, banding, 1).is_err());
        assert!(BandIndex::new(4, banding, 0).is_err());
        let mut index = BandIndex::new(4, banding, 1).unwrap();
        assert!(
            index.signatures.is_empty() && index.insert(&[1; 5]).is_err() && index.query(&[1; 3], 0).is_err()
        );
        // A refused signature leaves nothing behind.
        assert_eq!((index.signatures.len(), index.query(&[1; 4], 0).unwrap().hits), (0, vec![]));
    }
}
