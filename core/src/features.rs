//! Exact similarities of two documents, counted feature by feature, because the truth may not depend on
//! sketches.
//!
//! A document is a list of (feature hash, number), by strictly ascending hash, as
//! [`FeatureExtractor::counts`](crate::text::FeatureExtractor::counts) gives it. The number is an occurrence
//! count for [`overlap`] (which ignores it) and a weight in any unit for [`cosine`]. Two features with the
//! same 64-bit hash are taken for one.
//!
//! The similarities of documents without features are our choice. Two empty documents are the same document, so each
//! similarity is 1. An empty document and one that is not share nothing, so each is 0.
//! Containment follows from its question instead: nothing is missing from an empty document, so its
//! containment in any other is 1.

use std::cmp::Ordering;

/// The sizes of two sets of features and of their intersection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Number of features that both documents have.
    pub shared: u64,
    /// Number of features that only the first document, A, has.
    pub only_a: u64,
    /// Number of features that only the second document, B, has.
    pub only_b: u64,
}

impl Overlap {
    /// The Jaccard similarity |A ∩ B| / |A ∪ B| (Broder's resemblance); 1 if both sets are empty.
    pub fn jaccard(self) -> f64 {
        ratio_or_one(self.shared, self.shared + self.only_a + self.only_b)
    }

    /// The share of A in B: |A ∩ B| / |A| (Broder's containment); 1 if A is empty.
    pub fn containment_of_a(self) -> f64 {
        ratio_or_one(self.shared, self.shared + self.only_a)
    }

    /// The share of B in A: |A ∩ B| / |B|; 1 if B is empty.
    pub fn containment_of_b(self) -> f64 {
        ratio_or_one(self.shared, self.shared + self.only_b)
    }
}

fn ratio_or_one(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// Walks two ascending lists at once and calls `each` with the two numbers of every feature of either. None stands for
/// a list without the feature.
fn merge<N: Copy + Default>(a: &[(u64, N)], b: &[(u64, N)], mut each: impl FnMut(Option<N>, Option<N>)) {
    debug_assert!(a.is_sorted_by(|x, y| x.0 < y.0) && b.is_sorted_by(|x, y| x.0 < y.0));
    let (mut i, mut j) = (0, 0);
    while let (Some(&(fa, na)), Some(&(fb, nb))) = (a.get(i), b.get(j)) {
        let order = fa.cmp(&fb);
        each((order != Ordering::Greater).then_some(na), (order != Ordering::Less).then_some(nb));
        i += usize::from(order != Ordering::Greater);
        j += usize::from(order != Ordering::Less);
    }
    a[i..].iter().for_each(|&(_, n)| each(Some(n), None));
    b[j..].iter().for_each(|&(_, n)| each(None, Some(n)));
}

/// Counts the features that both documents have, and those that only one has; the numbers in the lists are ignored.
pub fn overlap(a: &[(u64, u32)], b: &[(u64, u32)]) -> Overlap {
    let mut overlap = Overlap::default();
    merge(a, b, |a, b| match (a, b) {
        (Some(_), Some(_)) => overlap.shared += 1,
        (Some(_), None) => overlap.only_a += 1,
        _ => overlap.only_b += 1,
    });
    overlap
}

/// The Jaccard similarity of the two sets of features, see [`Overlap::jaccard`].
pub fn jaccard(a: &[(u64, u32)], b: &[(u64, u32)]) -> f64 {
    overlap(a, b).jaccard()
}

/// The cosine Σ aᵢ·bᵢ / (√Σ aᵢ² · √Σ bᵢ²) of two weight vectors, within [-1, 1]; 1 if both are 0, and 0 if
/// one is.
///
/// It does not depend on the scale of either vector, so weights need not be normalised first.
pub fn cosine(a: &[(u64, i64)], b: &[(u64, i64)]) -> f64 {
    // In floating point, because the square of a 64-bit weight leaves no room for a sum in 128 bits. The
    // lists are in order of hash, so the order of the sums is always the same.
    let (mut dot, mut square_a, mut square_b) = (0.0f64, 0.0f64, 0.0f64);
    merge(a, b, |a, b| {
        let (a, b) = (a.unwrap_or(0) as f64, b.unwrap_or(0) as f64);
        dot += a * b;
        square_a += a * a;
        square_b += b * b;
    });
    if square_a == 0.0 && square_b == 0.0 {
        return 1.0;
    }
    if square_a == 0.0 || square_b == 0.0 {
        return 0.0;
    }
    // One root of the product: the cosine of a vector with itself is then exactly 1.
    (dot / (square_a * square_b).sqrt()).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{FeatureExtractor, FeatureKind};
    use crate::weight::{Weigher, Weighting};
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }

    #[test]
    fn empty_documents() {
        let (empty, one): (&[(u64, u32)], _) = (&[], &[(7u64, 2u32)]);
        assert_eq!(jaccard(empty, empty), 1.0);
        assert_eq!(jaccard(empty, one), 0.0);
        assert_eq!(overlap(empty, one).containment_of_a(), 1.0);
        assert_eq!(overlap(empty, one).containment_of_b(), 0.0);
        assert_eq!(overlap(empty, empty).containment_of_b(), 1.0);
        let (empty, one): (&[(u64, i64)], _) = (&[], &[(7u64, 2i64)]);
        assert_eq!(cosine(empty, empty), 1.0);
        assert_eq!(cosine(empty, one), 0.0);
        assert_eq!(cosine(one, empty), 0.0);
        assert_eq!(cosine(&[(7, 0)], empty), 1.0, "a weight of 0 is no weight");
    }

    #[test]
    fn worked_by_hand() {
        let mut words = FeatureExtractor::new(FeatureKind::Words);
        let (a, b) = (words.counts("the cat sat on the mat"), words.counts("the cat lay"));
        let overlap = overlap(&a, &b);
        assert_eq!(overlap, Overlap { shared: 2, only_a: 3, only_b: 1 });
        near(overlap.jaccard(), 2.0 / 6.0);
        near(overlap.containment_of_a(), 2.0 / 5.0);
        near(overlap.containment_of_b(), 2.0 / 3.0);
        let weigh = |counts: &[(u64, u32)]| Weigher::new(Weighting::Tf).weights(counts, 2, |_| 1);
        let (a, b) = (weigh(&a), weigh(&b));
        near(cosine(&a, &b), 3.0 / (8f64.sqrt() * 3f64.sqrt()));
    }

    #[test]
    fn heavy_weights_do_not_overflow() {
        let heavy: Vec<(u64, i64)> = (0..1000).map(|f| (f, i64::MAX)).collect();
        assert_eq!(cosine(&heavy, &heavy), 1.0);
    }

    fn document(features: u64) -> impl Strategy<Value = Vec<(u64, u32)>> {
        prop::collection::btree_map(0..features, 1u32..5, 0..30).prop_map(|map| map.into_iter().collect())
    }

    fn signed(document: &[(u64, u32)]) -> Vec<(u64, i64)> {
        document.iter().map(|&(f, n)| (f, i64::from(n))).collect()
    }

    proptest! {
        // 4 features: nearly always shared; 1000: nearly never.
        #[test]
        fn sets_agree_with_hash_sets((a, b) in prop_oneof![
            (document(4), document(4)), (document(40), document(40)), (document(1000), document(1000)), (document(3), document(500)),
        ]) {
            let set = |d: &[(u64, u32)]| d.iter().map(|x| x.0).collect::<HashSet<_>>();
            let (sa, sb) = (set(&a), set(&b));
            let shared = sa.intersection(&sb).count();
            let got = overlap(&a, &b);
            prop_assert_eq!(got.shared as usize, shared);
            let share = |whole: usize| if whole == 0 { 1.0 } else { shared as f64 / whole as f64 };
            prop_assert_eq!(got.jaccard(), share(sa.union(&sb).count()));
            prop_assert_eq!(got.containment_of_a(), share(sa.len()));
            prop_assert_eq!(got.containment_of_b(), share(sb.len()));
            prop_assert_eq!(jaccard(&a, &b), jaccard(&b, &a));
        }

        #[test]
        fn cosines_agree_with_hash_maps((a, b) in prop_oneof![
            (document(4), document(4)), (document(40), document(40)), (document(3), document(500)),
        ]) {
            let (a, b) = (signed(&a), signed(&b));
            let map = |d: &[(u64, i64)]| d.iter().copied().collect::<HashMap<_, _>>();
            let (ma, mb) = (map(&a), map(&b));
            let all: HashSet<u64> = ma.keys().chain(mb.keys()).copied().collect();
            let at = |m: &HashMap<u64, i64>, f: &u64| m.get(f).copied().unwrap_or(0);
            let sum = |term: &dyn Fn(i64, i64) -> i64| all.iter().map(|f| term(at(&ma, f), at(&mb, f))).sum::<i64>() as f64;
            let (xx, yy) = (sum(&|x, _| x * x), sum(&|_, y| y * y));
            let want = match (xx == 0.0, yy == 0.0) {
                (true, true) => 1.0,
                (false, false) => sum(&|x, y| x * y) / (xx.sqrt() * yy.sqrt()),
                _ => 0.0,
            };
            prop_assert!((cosine(&a, &b) - want).abs() < 1e-12);
            prop_assert_eq!(cosine(&a, &a), 1.0);
        }

    }
}
