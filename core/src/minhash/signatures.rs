//! MinHash signatures of many documents in one list.

use super::check_permutations;
use crate::error::{Error, Result};
use crate::hash::{SHINGLE_START, extend_shingle};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minhash::MAX_PERMUTATIONS;

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Signatures::new(0).is_err());
        assert!(Signatures::new(MAX_PERMUTATIONS + 1).is_err());
        assert!(Signatures::from_values(2, vec![1, 2, 3]).is_err());
        let mut signatures = Signatures::new(2).unwrap();
        assert!(signatures.is_empty());
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
