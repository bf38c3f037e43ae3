//! MinHash signatures of many documents in one list, and the distinct ones among them.

use super::check_permutations;
use crate::error::{Error, Result};
use crate::hash::{SHINGLE_START, extend_shingle};
use crate::id::{Document, Id, Lists, Slot};
use rayon::prelude::*;

/// A list of MinHash signatures of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Signatures {
    permutations: usize,
    values: Vec<u32>,
}

impl Signatures {
    /// No signatures yet, of `permutations` positions each.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the number of permutations is 0 or above [`MAX_PERMUTATIONS`](super::MAX_PERMUTATIONS).
    pub fn new(permutations: usize) -> Result<Self> {
        Self::from_values(permutations, Vec::new())
    }

    /// The signatures that lie one after the other in `values`.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if `values` does not end with a whole signature.
    pub(crate) fn from_values(permutations: usize, values: Vec<u32>) -> Result<Self> {
        check_permutations(permutations)?;
        if !values.len().is_multiple_of(permutations) {
            let got = format!("{permutations} for {} values", values.len());
            return Err(Error::parameter("permutations", got, "a divisor of the number of values"));
        }
        Ok(Self { permutations, values })
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

    /// The number of positions of each signature.
    pub fn permutations(&self) -> usize {
        self.permutations
    }

    /// Number of signatures.
    pub fn len(&self) -> usize {
        self.values.len() / self.permutations
    }

    /// True if there is no signature.
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

    /// Keeps only the signatures at these places, which must be distinct, in this order. It works in place: a second
    /// list would take as much memory again.
    fn take(&mut self, places: Vec<u32>) {
        let m = self.permutations;
        // First to the front, in the order that they are in; so each only ever moves forward,
        // over what is not wanted.
        let mut slots: Vec<u32> = (0..places.len() as u32).collect();
        slots.par_sort_unstable_by_key(|&slot| places[slot as usize]);
        let mut now = vec![0u32; places.len()];
        for (to, &slot) in slots.iter().enumerate() {
            let from = places[slot as usize] as usize * m;
            self.values.copy_within(from..from + m, to * m);
            now[slot as usize] = to as u32;
        }
        self.values.truncate(places.len() * m);
        // Then cycle by cycle to their slots: a slot gets what is at `now[slot]`. A slot
        // that has its own is done.
        let mut first = vec![0; m];
        for start in 0..now.len() {
            if now[start] as usize == start {
                continue;
            }
            first.copy_from_slice(self.get(start));
            let mut slot = start;
            while now[slot] as usize != start {
                let from = std::mem::replace(&mut now[slot], slot as u32) as usize;
                self.values.copy_within(from * m..(from + 1) * m, slot * m);
                slot = from;
            }
            now[slot] = slot as u32;
            self.values[slot * m..(slot + 1) * m].copy_from_slice(&first);
        }
    }
}

/// A 64-bit hash of the values at some positions of a signature. Each `label`, such as the number of a band, gives
/// hashes of its own.
#[inline]
pub(crate) fn hash_positions(label: u64, positions: &[u32]) -> u64 {
    let words = positions.chunks_exact(2);
    let odd = words.remainder().iter().map(|&last| u64::from(last));
    let words = words.map(|w| u64::from(w[1]) << 32 | u64::from(w[0]));
    let start = extend_shingle(extend_shingle(SHINGLE_START, label), positions.len() as u64);
    words.chain(odd).fold(start, extend_shingle)
}

/// The distinct signatures of a list, and for each its members: the ids, of type `K`, of the documents or texts that
/// have it. The order of the signatures follows from their values alone.
///
/// A slot is a place in [`signatures`](Self::signatures). A join that cannot compare all pairs of an oversized bucket
/// chooses by slots, so that the order of the documents has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct DistinctSignatures<K = Document> {
    /// By hash, those of equal hashes by their values.
    signatures: Signatures,
    members: Lists<Slot, K>,
}

impl DistinctSignatures {
    /// The distinct ones of `signatures`, where `signatures.get(i)` is that of the document `i`. This needs little
    /// memory beyond the argument's.
    ///
    /// # Panics
    /// If there are 2³² signatures or more; a run is split into parts well before.
    pub fn new(signatures: Signatures) -> Self {
        let documents: Vec<Document> = Document::all(signatures.len()).collect();
        Self::of(signatures, &documents)
    }
}

impl<K: Copy + Ord + Send + Sync> DistinctSignatures<K> {
    /// The distinct ones of `signatures`, where `ids[i]` is the member that has `signatures.get(i)`.
    ///
    /// # Panics
    /// If there are 2³² signatures or more, and if there are not as many ids.
    pub fn of(mut signatures: Signatures, ids: &[K]) -> Self {
        let n = signatures.len();
        assert!(u32::try_from(n).is_ok(), "more than 2^32 signatures in one index");
        assert_eq!(ids.len(), n, "an id for each signature");
        let mut order: Vec<(u64, u32)> =
            (0..n).into_par_iter().map(|i| (hash_positions(0, signatures.get(i)), i as u32)).collect();
        order.par_sort_unstable();
        let values = |place: u32| signatures.get(place as usize);
        // Where in the list the signature of each slot is.
        let mut places: Vec<u32> = Vec::new();
        let mut members = Lists::with_capacity(0, n);
        for run in order.chunk_by_mut(|a, b| a.0 == b.0) {
            // Equal hashes of different signatures are possible, if hardly ever seen.
            if run[1..].iter().any(|&(_, place)| values(place) != values(run[0].1)) {
                run.sort_by(|a, b| values(a.1).cmp(values(b.1)));
            }
            for same in run.chunk_by(|a, b| values(a.1) == values(b.1)) {
                places.push(same[0].1);
                let mut group: Vec<K> = same.iter().map(|&(_, place)| ids[place as usize]).collect();
                group.sort_unstable();
                members.push(group);
            }
        }
        drop(order);
        signatures.take(places);
        Self { signatures, members }
    }

    /// The distinct signatures, by slot.
    pub fn signatures(&self) -> &Signatures {
        &self.signatures
    }

    /// The members that have the signature of a slot, ascending.
    pub fn members(&self, slot: Slot) -> &[K] {
        self.members.get(slot)
    }

    /// The members of every slot.
    pub fn groups(&self) -> &Lists<Slot, K> {
        &self.members
    }

    /// All slots, ascending.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Slot> + use<K> {
        Slot::all(self.len())
    }

    /// Number of distinct signatures.
    pub fn len(&self) -> usize {
        self.signatures.len()
    }

    /// True if there is no signature at all.
    pub fn is_empty(&self) -> bool {
        self.signatures.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minhash::MAX_PERMUTATIONS;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn equal_signatures_share_a_slot(values in prop::collection::vec(0u32..3, 0..120), m in 1usize..4) {
            let values = values[..values.len() / m * m].to_vec();
            let signatures = Signatures::from_values(m, values).unwrap();
            let mut naive: BTreeMap<(u64, &[u32]), Vec<Document>> = BTreeMap::new();
            for i in 0..signatures.len() {
                let signature = signatures.get(i);
                naive.entry((hash_positions(0, signature), signature)).or_default().push(Document::at(i));
            }
            let naive: Vec<(Vec<Document>, &[u32])> = naive.into_iter().map(|((_, s), d)| (d, s)).collect();
            let distinct = DistinctSignatures::new(signatures.clone());
            let slots: Vec<(Vec<Document>, &[u32])> = distinct
                .slots()
                .map(|slot| (distinct.members(slot).to_vec(), distinct.signatures().get(slot.index())))
                .collect();
            prop_assert_eq!(slots, naive);
        }

        #[test]
        fn slots_follow_from_content(
            documents in prop::collection::vec(prop::collection::vec(0u32..3, 3), 0..60).prop_shuffle(), turn: prop::sample::Index,
        ) {
            let of = |documents: &[(Vec<u32>, u32)]| {
                let values = documents.iter().flat_map(|(document, _)| document.iter().copied()).collect();
                let ids: Vec<u32> = documents.iter().map(|&(_, id)| id).collect();
                DistinctSignatures::of(Signatures::from_values(3, values).unwrap(), &ids)
            };
            let mut documents: Vec<(Vec<u32>, u32)> = documents.into_iter().zip(0..).collect();
            let distinct = of(&documents);
            let n = documents.len();
            documents.rotate_left(if n > 0 { turn.index(n) } else { 0 });
            documents[n / 2..].reverse();
            prop_assert_eq!(of(&documents), distinct);
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
