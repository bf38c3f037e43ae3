//! VOSH, the volatility-ordered set heap (Sood & Loguinov 2011): sets of bits to flip, the likeliest
//! first, found one at a time.
//!
//! Ranks are 1, 2, … from the lowest-margin bit on. The sets of one size k form a tree. Its root is {1, …, k}.
//! The left child raises the last element by one. For the right child, take the highest gap between
//! neighbouring elements; if exactly one rank is missing there, the element below the gap is raised by one,
//! otherwise there is no right child. (The idea is the paper's; the exact rule was derived from its
//! figures.) Every set is reached once, and a child never costs less than its parent, whatever the weights.
//! Which of two siblings is better is known only with the weights of the query: a heap holds the frontier,
//! the likeliest set on top.

use std::ops::RangeInclusive;

use binary_heap_plus::{BinaryHeap, MinComparator, PeekMut};

use crate::simhash::BITS;
use crate::simhash::volatility::{FixedCost, FlipCost, Volatility};

/// A set of ranks: bit `r` is set if rank `r + 1` of the text above, the bit at place `r` of a
/// [`Volatility`], is in the set.
#[doc(hidden)]
pub type Ranks = u64;

/// A set of bits of a hash that are flipped together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    /// The bits to flip, as a mask of positions in the hash.
    pub mask: u64,
    /// The bits to flip, as a set of places in the order of volatility.
    pub ranks: Ranks,
    /// The summed cost of the bits, in a unit of the query's own: it can be compared within a query only.
    pub cost: FixedCost,
}

/// A node of a set tree. Ordered by cost, then size, then ranks as a number. A child is above its parent in
/// this order even when it costs the same, so the frontier yields exactly the sorted list of all sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    /// Cost · 2⁸ + size: a cost stays below 2⁴⁹ and a size below 2⁸.
    cost_and_size: u64,
    ranks: Ranks,
}

impl Node {
    /// The likeliest set of a size.
    fn root(size: u32, costs: &[FixedCost]) -> Self {
        let cost: FixedCost = costs[..size as usize].iter().sum();
        let ranks = if size == 0 { 0 } else { Ranks::MAX >> (Ranks::BITS - size) };
        Self { cost_and_size: (cost << 8) + u64::from(size), ranks }
    }

    /// The node with element `rank` raised by one.
    #[inline]
    fn raise(self, rank: u32, costs: &[FixedCost]) -> Self {
        let more = costs[rank as usize + 1] - costs[rank as usize];
        Self { cost_and_size: self.cost_and_size + (more << 8), ranks: self.ranks ^ (3 << rank) }
    }

    /// Raises the last element, if there is a rank above it.
    #[inline]
    fn left(self, costs: &[FixedCost]) -> Option<Self> {
        let last = Ranks::BITS.checked_sub(self.ranks.leading_zeros() + 1)?;
        ((last as usize) + 1 < costs.len()).then(|| self.raise(last, costs))
    }

    /// Raises the element below the highest gap, if that gap misses exactly one rank.
    #[inline]
    fn right(self, costs: &[FixedCost]) -> Option<Self> {
        let zeros = self.ranks.leading_zeros();
        let run = self.ranks.checked_shl(zeros)?.leading_ones();
        // The gap starts just below the highest run of consecutive ranks.
        let below = Ranks::BITS.checked_sub(zeros + run + 2)?;
        (self.ranks >> below & 1 == 1).then(|| self.raise(below, costs))
    }

    fn flip(self, order: &Volatility) -> Flip {
        Flip { mask: order.mask(self.ranks), ranks: self.ranks, cost: self.cost_and_size >> 8 }
    }
}

/// The sets of bits to flip for one query, cheapest first, as an iterator.
///
/// Equal costs come in order of size, then of the ranks read as a binary number. N sets cost O(N log N) time
/// and O(N) space. [`start`](Self::start) begins a new query in the space of the last one.
#[derive(Clone, Debug)]
pub struct Vosh {
    order: Volatility,
    /// A max-heap by likelihood, which is a min-heap by cost.
    frontier: BinaryHeap<Node, MinComparator>,
}

impl Default for Vosh {
    fn default() -> Self {
        Self { order: Volatility::default(), frontier: BinaryHeap::new_min() }
    }
}

impl Vosh {
    /// All sets of the given sizes over the bits of `order`.
    ///
    /// One size alone is the paper's heap; a range of sizes is our joint frontier, which starts from the
    /// roots of all sizes. Sizes above the number of bits have no sets.
    pub fn new(order: Volatility, sizes: RangeInclusive<u32>) -> Self {
        let mut vosh = Self { order, ..Self::default() };
        vosh.plant(sizes);
        vosh
    }

    /// Starts over for another query: with sets of the given sizes over the bits that are set in `among`, ranked by
    /// `weights`. The first `limit` sets are right; behind them some may be missing.
    ///
    /// With size 1 among the sizes, `limit` lowest-margin bits suffice. A set with the bit of rank r comes after the r
    /// sets of one bit of smaller margin each.
    #[doc(hidden)]
    pub fn start(
        &mut self,
        weights: &[f32; BITS],
        among: u64,
        cost: FlipCost,
        sizes: RangeInclusive<u32>,
        limit: usize,
    ) {
        let bits = if sizes.contains(&1) { limit.min(BITS) } else { BITS };
        self.order.rank(weights, among, cost, bits);
        self.plant(sizes);
    }

    fn plant(&mut self, sizes: RangeInclusive<u32>) {
        self.frontier.clear();
        let costs = self.order.costs();
        let last = (*sizes.end()).min(costs.len() as u32);
        self.frontier.extend((*sizes.start()..=last).map(|size| Node::root(size, costs)));
    }
}

impl Iterator for Vosh {
    type Item = Flip;

    #[inline]
    fn next(&mut self) -> Option<Flip> {
        let costs = self.order.costs();
        let mut top = self.frontier.peek_mut()?;
        let node = *top;
        // The left child takes its parent's place in the heap: one sift instead of two.
        match node.left(costs) {
            Some(left) => {
                *top = left;
                drop(top);
            }
            None => drop(PeekMut::pop(top)),
        }
        if let Some(right) = node.right(costs) {
            self.frontier.push(right);
        }
        Some(node.flip(&self.order))
    }
}

impl std::iter::FusedIterator for Vosh {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn weights_of(values: &[f32]) -> [f32; BITS] {
        std::array::from_fn(|j| values.get(j).copied().unwrap_or(0.0))
    }

    fn low_bits(b: usize) -> u64 {
        if b == 0 { 0 } else { u64::MAX >> (64 - b) }
    }

    /// Every set of the sizes over the ranked bits, sorted: what VOSH must yield.
    fn full_enumeration(order: &Volatility, sizes: RangeInclusive<u32>) -> Vec<Flip> {
        let b = order.bits().len();
        assert!(b <= 16);
        let mut sets: Vec<Flip> = (0u64..1 << b)
            .filter(|ranks| sizes.contains(&ranks.count_ones()))
            .map(|ranks| Flip {
                mask: (0..b).filter(|r| ranks >> r & 1 == 1).map(|r| 1u64 << order.bits()[r]).sum(),
                ranks,
                cost: (0..b).filter(|r| ranks >> r & 1 == 1).map(|r| order.costs()[r]).sum(),
            })
            .collect();
        sets.sort_by_key(|flip| (flip.cost, flip.ranks.count_ones(), flip.ranks));
        sets
    }

    /// The sets of a level of the tree as lists of ranks from 1, children found by the node's own rule.
    fn levels(size: u32, depth: usize) -> Vec<Vec<Vec<u32>>> {
        let costs = [0; BITS];
        let mut level = vec![Node::root(size, &costs)];
        let mut out = Vec::new();
        for _ in 0..depth {
            let mut sets: Vec<Vec<u32>> = level
                .iter()
                .map(|n| (0..64).filter(|r| n.ranks >> r & 1 == 1).map(|r| r + 1).collect())
                .collect();
            sets.sort();
            out.push(sets);
            level = level.iter().flat_map(|n| [n.left(&costs), n.right(&costs)]).flatten().collect();
        }
        out
    }

    #[test]
    fn top_levels_of_the_trees() {
        let pairs: [&[&[u32]]; 5] =
            [&[&[1, 2]], &[&[1, 3]], &[&[1, 4], &[2, 3]], &[&[1, 5], &[2, 4]], &[&[1, 6], &[2, 5], &[3, 4]]];
        assert_eq!(levels(2, 5), pairs);
        let triples: [&[&[u32]]; 5] = [
            &[&[1, 2, 3]],
            &[&[1, 2, 4]],
            &[&[1, 2, 5], &[1, 3, 4]],
            &[&[1, 2, 6], &[1, 3, 5], &[2, 3, 4]],
            &[&[1, 2, 7], &[1, 3, 6], &[1, 4, 5], &[2, 3, 5]],
        ];
        assert_eq!(levels(3, 5), triples);
    }

    #[test]
    fn every_set_once() {
        for (b, k, count) in
            [(64, 0, 1), (64, 1, 64), (64, 2, 2_016), (64, 3, 41_664), (64, 64, 1), (64, 63, 64)]
        {
            let order = Volatility::new(&[0.0; BITS], low_bits(b), FlipCost::Abs);
            let masks: Vec<u64> = Vosh::new(order, k..=k).map(|flip| flip.mask).collect();
            assert_eq!(masks.len(), count, "({b},{k})");
            assert!(masks.iter().all(|m| m.count_ones() == k));
            assert_eq!(masks.iter().collect::<HashSet<_>>().len(), count);
        }
    }

    #[test]
    fn sizes_without_sets_are_empty() {
        let none = Volatility::default();
        assert_eq!(Vosh::new(none.clone(), 1..=3).count(), 0);
        assert_eq!(Vosh::new(none, 0..=3).map(|f| f.mask).collect::<Vec<_>>(), [0]);
        let two = Volatility::new(&[1.0; BITS], 0b11, FlipCost::Abs);
        assert_eq!(Vosh::new(two.clone(), 3..=64).count(), 0);
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = 2..=1;
        assert_eq!(Vosh::new(two, reversed).count(), 0);
    }

    #[test]
    fn the_golden_vector_flips_its_weakest_bits() {
        // The paper's example: W = (−.15, +.05, −.01, +.09) written left to right; the left bit is bit 3
        // here.
        let weights = weights_of(&[0.09, -0.01, 0.05, -0.15]);
        let order = Volatility::new(&weights, 0b1111, FlipCost::Abs);
        assert_eq!(order.bits(), [1, 2, 0, 3]);
        let vosh = Vosh::new(order, 1..=2);
        let masks: Vec<u64> = vosh.take(4).map(|flip| flip.mask).collect();
        // .01, .05, .06 (both), .09
        assert_eq!(masks, [0b0010, 0b0100, 0b0110, 0b0001]);
    }

    proptest! {
        #[test]
        fn the_frontier_yields_the_sorted_full_enumeration(
            // Few distinct values: many ties.
            values in prop::collection::vec(prop_oneof![(0u8..4).prop_map(f32::from), -2f32..2.0], 10),
            among in 0u64..1 << 10,
            from in 0u32..4,
            more in 0u32..8,
            cost in prop_oneof![
                Just(FlipCost::Abs),
                Just(FlipCost::Square),
                (0.5f64..80.0).prop_map(|cot_theta| FlipCost::LogOdds { cot_theta }),
            ],
        ) {
            let order = Volatility::new(&weights_of(&values), among, cost);
            let sizes = from..=from + more;
            let expected = full_enumeration(&order, sizes.clone());
            let got: Vec<Flip> = Vosh::new(order, sizes.clone()).collect();
            prop_assert_eq!(&got, &expected);
            // A used heap starts over cleanly.
            let mut vosh = Vosh::new(Volatility::new(&[1.0; BITS], u64::MAX, cost), 0..=5);
            vosh.by_ref().take(50).for_each(drop);
            vosh.start(&weights_of(&values), among, cost, sizes.clone(), usize::MAX);
            prop_assert_eq!(&vosh.by_ref().collect::<Vec<_>>(), &expected);
            // Few sets need few bits.
            for limit in 0..12 {
                vosh.start(&weights_of(&values), among, cost, sizes.clone(), limit);
                let first: Vec<Flip> = vosh.by_ref().take(limit).collect();
                prop_assert_eq!(&first[..], &expected[..expected.len().min(limit)]);
            }
        }
    }
}
