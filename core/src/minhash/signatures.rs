//! Signatures of many documents, side by side, and the distinct ones among them.

use super::MAX_PERMUTATIONS;
use crate::error::{Error, Result};
use crate::hash::{SHINGLE_START, extend_shingle};
use rayon::prelude::*;

/// Signatures of equal length, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signatures {
    permutations: usize,
    values: Vec<u32>,
}

impl Signatures {
    /// No signatures yet, of `permutations` positions each.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the number of permutations is 0 or above [`MAX_PERMUTATIONS`].
    pub fn new(permutations: usize) -> Result<Self> {
        Self::from_values(permutations, Vec::new())
    }

    /// Signatures that lie one after the other in `values`.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the number of permutations is 0 or above [`MAX_PERMUTATIONS`], or the values are no
    /// whole number of signatures.
    pub fn from_values(permutations: usize, values: Vec<u32>) -> Result<Self> {
        if permutations == 0 || permutations > MAX_PERMUTATIONS || !values.len().is_multiple_of(permutations)
        {
            let got = format!("{permutations} for {} values", values.len());
            let expected = format!("1 to {MAX_PERMUTATIONS}, a divisor of the number of values");
            return Err(Error::parameter("permutations", got, expected));
        }
        Ok(Self { permutations, values })
    }

    /// The same for values known to be whole signatures.
    pub(super) fn from_whole(permutations: usize, values: Vec<u32>) -> Self {
        debug_assert!(values.len().is_multiple_of(permutations));
        Self { permutations, values }
    }

    /// No signatures, of as many positions as these have.
    pub(crate) fn none(&self) -> Self {
        Self { permutations: self.permutations, values: Vec::new() }
    }

    /// Appends a signature.
    ///
    /// # Errors
    /// [`Error::Parameter`] if it does not have the length of the others.
    pub fn push(&mut self, signature: &[u32]) -> Result<()> {
        if signature.len() != self.permutations {
            let expected = format!("{}, as in the other signatures", self.permutations);
            return Err(Error::parameter("permutations", signature.len(), expected));
        }
        self.values.extend_from_slice(signature);
        Ok(())
    }

    /// Positions of a signature.
    pub fn permutations(&self) -> usize {
        self.permutations
    }

    /// Number of signatures.
    pub fn len(&self) -> usize {
        self.values.len() / self.permutations
    }

    /// Whether there is no signature.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The signature at a place.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len).
    #[inline]
    pub fn get(&self, i: usize) -> &[u32] {
        &self.values[i * self.permutations..(i + 1) * self.permutations]
    }

    /// All values, signature after signature.
    pub fn values(&self) -> &[u32] {
        &self.values
    }
}

/// A 64-bit hash of some positions of a signature, told apart by `label`.
#[inline]
pub(crate) fn hash_positions(label: u64, positions: &[u32]) -> u64 {
    let words = positions.chunks_exact(2);
    let odd = words.remainder().iter().map(|&last| u64::from(last));
    let words = words.map(|w| u64::from(w[1]) << 32 | u64::from(w[0]));
    let start = extend_shingle(extend_shingle(SHINGLE_START, label), positions.len() as u64);
    words.chain(odd).fold(start, extend_shingle)
}

/// The distinct signatures in the order of their first documents, and for each the documents that have it.
///
/// A slot is a position in [`signatures`](Self::signatures); `documents(slot)` are positions in the original list,
/// ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinctSignatures {
    signatures: Signatures,
    /// `starts[s]..starts[s + 1]` is slot `s`'s part of `documents`; one entry more than there are slots.
    starts: Vec<u32>,
    documents: Vec<u32>,
}

impl DistinctSignatures {
    /// Groups equal signatures, `signatures.get(i)` being document `i`'s. Needs little memory beyond the argument's.
    ///
    /// # Panics
    /// If there are 2³² documents or more; a run is split into parts well before.
    pub fn new(mut signatures: Signatures) -> Self {
        let n = signatures.len();
        assert!(u32::try_from(n).is_ok(), "more than 2^32 documents in one index");
        let m = signatures.permutations;
        let mut order: Vec<(u64, u32)> =
            (0..n).into_par_iter().map(|i| (hash_positions(0, signatures.get(i)), i as u32)).collect();
        order.par_sort_unstable();
        // Each document with the first one of equal signature. Equal hashes of different signatures are possible,
        // if hardly ever seen, so a run of equal hashes may hold several groups.
        let mut firsts: Vec<(u32, u32)> = Vec::with_capacity(n);
        for run in order.chunk_by(|a, b| a.0 == b.0) {
            let mut found: Vec<u32> = Vec::new();
            for &(_, document) in run {
                let signature = signatures.get(document as usize);
                let first = found.iter().copied().find(|&f| signatures.get(f as usize) == signature);
                if first.is_none() {
                    found.push(document);
                }
                firsts.push((first.unwrap_or(document), document));
            }
        }
        drop(order);
        firsts.par_sort_unstable();
        let (mut starts, mut documents) = (Vec::new(), Vec::with_capacity(n));
        for (first, document) in firsts {
            if first == document {
                // Slots are ordered by their first documents, so a signature only ever moves towards the front.
                let (from, to) = (first as usize * m, starts.len() * m);
                signatures.values.copy_within(from..from + m, to);
                starts.push(documents.len() as u32);
            }
            documents.push(document);
        }
        signatures.values.truncate(starts.len() * m);
        starts.push(documents.len() as u32);
        Self { signatures, starts, documents }
    }

    /// The distinct signatures.
    pub fn signatures(&self) -> &Signatures {
        &self.signatures
    }

    /// The documents whose signature is the one of this slot, ascending.
    ///
    /// # Panics
    /// If `slot` is not below [`len`](Self::len).
    pub fn documents(&self, slot: u32) -> &[u32] {
        let slot = slot as usize;
        &self.documents[self.starts[slot] as usize..self.starts[slot + 1] as usize]
    }

    /// Number of distinct signatures.
    pub fn len(&self) -> usize {
        self.signatures.len()
    }

    /// Whether there is no signature at all.
    pub fn is_empty(&self) -> bool {
        self.signatures.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn equal_signatures_share_a_slot(values in prop::collection::vec(0u32..3, 0..120), m in 1usize..4) {
            let values = values[..values.len() / m * m].to_vec();
            let signatures = Signatures::from_values(m, values).unwrap();
            let mut naive: BTreeMap<&[u32], Vec<u32>> = BTreeMap::new();
            for i in 0..signatures.len() {
                naive.entry(signatures.get(i)).or_default().push(i as u32);
            }
            let mut naive: Vec<(Vec<u32>, &[u32])> = naive.into_iter().map(|(s, d)| (d, s)).collect();
            naive.sort();
            let distinct = DistinctSignatures::new(signatures.clone());
            let slots: Vec<(Vec<u32>, &[u32])> = (0..distinct.len() as u32)
                .map(|s| (distinct.documents(s).to_vec(), distinct.signatures().get(s as usize)))
                .collect();
            prop_assert_eq!(slots, naive);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Signatures::new(0).is_err());
        assert!(Signatures::new(MAX_PERMUTATIONS + 1).is_err());
        assert!(Signatures::from_values(2, vec![1, 2, 3]).is_err());
        let mut signatures = Signatures::new(2).unwrap();
        assert!(signatures.is_empty() && DistinctSignatures::new(signatures.clone()).is_empty());
        assert!(signatures.push(&[1]).is_err());
        signatures.push(&[1, 2]).unwrap();
        assert_eq!((signatures.len(), signatures.get(0)), (1, &[1, 2][..]));
    }

    #[test]
    fn the_hash_sees_every_position_the_length_and_the_label() {
        let base = hash_positions(1, &[1, 2, 3]);
        for other in [&[0, 2, 3][..], &[1, 0, 3], &[1, 2, 0], &[1, 2], &[1, 2, 3, 0], &[2, 1, 3]] {
            assert_ne!(hash_positions(1, other), base, "{other:?}");
        }
        assert_ne!(hash_positions(2, &[1, 2, 3]), base);
    }
}
