//! Clusters from a stream of near pairs, for more pages than memory holds anything of but a bit: each pair once,
//! in order of its later page. The page that comes first is the one to keep.

use crate::clusters::{Partition, SAME};
use crate::id::{Document, Id};
use std::ops::Range;

/// A bit for each page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
}

const WORD: u64 = u64::BITS as u64;

impl Bits {
    /// So many bits, all unset.
    pub fn new(pages: u64) -> Self {
        Self { words: vec![0; pages.div_ceil(WORD) as usize] }
    }

    /// Bits that were stored, 64 to a word, the first one lowest.
    pub fn from_words(words: Vec<u64>) -> Self {
        Self { words }
    }

    /// The bits, 64 to a word, the first one lowest.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Whether a page's bit is set; pages beyond the last have none.
    #[inline]
    pub fn get(&self, page: u64) -> bool {
        self.words.get((page / WORD) as usize).is_some_and(|word| word >> (page % WORD) & 1 == 1)
    }

    /// Sets a page's bit.
    ///
    /// # Panics
    /// If there is no such page.
    #[inline]
    pub fn set(&mut self, page: u64) {
        self.words[(page / WORD) as usize] |= 1 << (page % WORD);
    }

    /// How many bits are set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// How many bits of these pages are set; pages beyond the last have none.
    pub fn count_in(&self, pages: Range<u64>) -> u64 {
        let words = (pages.start / WORD)..pages.end.div_ceil(WORD);
        let of = |at: u64| {
            // Those from a page on, of a word.
            let from = |page: u64| u64::MAX.checked_shl(page.saturating_sub(at * WORD) as u32).unwrap_or(0);
            let word = self.words.get(at as usize).copied().unwrap_or(0);
            u64::from((word & from(pages.start) & !from(pages.end)).count_ones())
        };
        words.map(of).sum()
    }

    /// Sets the bits that are set in others.
    ///
    /// # Panics
    /// If there are not as many of them.
    pub fn add(&mut self, others: &Self) {
        assert_eq!(self.words.len(), others.words.len(), "bits of as many pages");
        self.words.iter_mut().zip(&others.words).for_each(|(word, other)| *word |= other);
    }
}

/// Star clusters: a page leads unless an earlier page that leads is near it, and otherwise belongs to the
/// leader that it is most like, the earlier one among equals. Where pages of similarity 1 are the same, as
/// [`Judge::ones_are_same`](crate::settings::Judge::ones_are_same) says, a page that is near no leader goes with the
/// earliest one that it is the same as. One bit a page.
///
/// ```
/// use simflip_core::streamed::{Place, Star};
///
/// let mut star = Star::new(6, true);
/// assert_eq!(star.place(1, [(0, 0.9)]), Place::Follows(0, 0.9));
/// // Page 1 does not lead, so that page 2 does.
/// assert_eq!(star.place(2, [(1, 0.9)]), Place::Leads);
/// assert_eq!(star.place(3, [(0, 0.8), (1, 0.95), (2, 0.9)]), Place::Follows(2, 0.9));
/// // Page 4 is near no page that leads, but the same as page 3, which belongs to page 2; and page 5 is the same as it.
/// assert_eq!(star.place(4, [(1, 0.9), (3, 1.0)]), Place::SameAs(3));
/// assert_eq!(star.place(5, [(4, 1.0)]), Place::SameAs(4));
/// ```
#[derive(Clone, Debug)]
pub struct Star {
    /// Pages that belong to another.
    follow: Bits,
    ones_are_same: bool,
}

/// Where a page of a star belongs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// Nowhere: it leads.
    Leads,
    /// To this leader, with this similarity.
    Follows(u64, f32),
    /// To the leader of this page, which is the same: near that leader, or with one that is the same in turn.
    SameAs(u64),
}

impl Star {
    /// So many pages, each of which leads.
    pub fn new(pages: u64, ones_are_same: bool) -> Self {
        Self { follow: Bits::new(pages), ones_are_same }
    }

    /// Where a page belongs that is near these `earlier` ones, each with the similarity.
    /// Pages come in ascending order; those near no earlier page need not come.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn place(&mut self, page: u64, earlier: impl IntoIterator<Item = (u64, f32)>) -> Place {
        let mut best: Option<(u64, f32)> = None;
        let mut first_same: Option<u64> = None;
        for (other, similarity) in earlier {
            if self.follow.get(other) {
                let is_same = self.ones_are_same && similarity == SAME;
                if is_same && first_same.is_none_or(|first| other < first) {
                    first_same = Some(other);
                }
            } else if best
                .is_none_or(|(first, most)| most.total_cmp(&similarity).then(other.cmp(&first)).is_lt())
            {
                best = Some((other, similarity));
            }
        }
        let place = match (best, first_same) {
            (Some((leader, similarity)), _) => Place::Follows(leader, similarity),
            (None, Some(other)) => Place::SameAs(other),
            (None, None) => return Place::Leads,
        };
        self.follow.set(page);
        place
    }
}

/// Connected clusters: all that hang together by any chain of pairs. Four bytes for each page that has a pair,
/// and a fifth of a byte for every page.
#[derive(Clone, Debug)]
pub struct Chains {
    /// Pages that have a pair.
    paired: Bits,
    /// How many bits are set before each block of words.
    before: Vec<u32>,
    partition: Partition<Document>,
}

/// Words whose bits are counted anew for each rank.
const BLOCK: usize = 8;

impl Chains {
    /// The most pages that may have a pair.
    pub const MOST: u64 = 1 << 32;

    /// No pair yet, of pages of which `paired` will have one. None if those are more than
    /// [`MOST`](Self::MOST).
    pub fn new(paired: Bits) -> Option<Self> {
        let (mut before, mut sum) = (Vec::with_capacity(paired.words.len().div_ceil(BLOCK)), 0u64);
        for block in paired.words.chunks(BLOCK) {
            before.push(u32::try_from(sum).ok()?);
            sum += block.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        (sum <= Self::MOST).then(|| Self { partition: Partition::singletons(sum as usize), paired, before })
    }

    /// The place of a page among those that have a pair.
    fn rank(&self, page: u64) -> Document {
        let word = (page / WORD) as usize;
        let block = word / BLOCK;
        let between =
            self.paired.words[block * BLOCK..word].iter().map(|word| word.count_ones()).sum::<u32>();
        let within = self.paired.words[word] & ((1 << (page % WORD)) - 1);
        Document::new(self.before[block] + between + within.count_ones())
    }

    /// The page of a place.
    fn page(&self, rank: Document) -> u64 {
        let block = self.before.partition_point(|&before| before <= rank.number()) - 1;
        let mut left = rank.number() - self.before[block];
        for (at, &word) in (block * BLOCK..).zip(&self.paired.words[block * BLOCK..]) {
            if left < word.count_ones() {
                let lowest_gone = (0..left).fold(word, |word, _| word & (word - 1));
                return at as u64 * WORD + u64::from(lowest_gone.trailing_zeros());
            }
            left -= word.count_ones();
        }
        unreachable!("a rank is below the number of bits")
    }

    /// Joins two pages that are near.
    ///
    /// # Panics
    /// If one of them was not said to have a pair.
    pub fn join(&mut self, a: u64, b: u64) {
        let (a, b) = (self.rank(a), self.rank(b));
        self.partition.join(a, b);
    }

    /// The first page of the cluster that a page is in: itself, where it comes first or has no pair.
    pub fn first(&mut self, page: u64) -> u64 {
        if !self.paired.get(page) {
            return page;
        }
        let root = self.partition.find(self.rank(page));
        self.page(root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::Linkage;
    use crate::id::Group;
    use proptest::prelude::*;

    #[test]
    fn bits_are_counted_between_pages() {
        let mut bits = Bits::new(200);
        [0, 3, 63, 64, 127, 128, 199].into_iter().for_each(|page| bits.set(page));
        for start in 0..300 {
            for end in 0..300 {
                let counted = (start..end).filter(|&page| bits.get(page)).count();
                assert_eq!(bits.count_in(start..end), counted as u64, "{start}..{end}");
            }
        }
        let mut others = Bits::new(200);
        others.set(5);
        others.add(&bits);
        assert!((0..200).all(|page| others.get(page) == (page == 5 || bits.get(page))));
    }

    proptest! {
        #[test]
        fn streams_make_the_clusters_that_lists_make(
            n in 1u64..700,
            drawn in prop::collection::btree_map((0u64..700, 0u64..700), 0u8..2, 0..900),
        ) {
            let mut edges: Vec<(u64, u64, f32)> = drawn
                .iter()
                .filter(|((later, earlier), _)| earlier < later && *later < n)
                .map(|(&(later, earlier), &s)| (later, earlier, f32::from(s)))
                .collect();
            edges.sort_by_key(|edge| (edge.0, edge.1));
            let order: Vec<Group> = Group::all(n as usize).collect();
            let pairs: Vec<_> = edges.iter().map(|&(b, a, s)| (Group(a as u32), Group(b as u32), s)).collect();

            for ones_are_same in [false, true] {
                let leaders = Linkage::Star.link_all(&order, pairs.iter().copied(), ones_are_same);
                let mut star = Star::new(n, ones_are_same);
                let mut placed: Vec<u64> = (0..n).collect();
                for of_page in edges.chunk_by(|a, b| a.0 == b.0) {
                    let page = of_page[0].0;
                    match star.place(page, of_page.iter().map(|e| (e.1, e.2))) {
                        Place::Leads => (),
                        Place::Follows(leader, _) => placed[page as usize] = leader,
                        Place::SameAs(other) => {
                            prop_assert!(ones_are_same && placed[other as usize] != other);
                            placed[page as usize] = placed[other as usize];
                        }
                    }
                }
                prop_assert_eq!(&placed, &leaders.iter().map(|l| u64::from(l.0)).collect::<Vec<_>>());
            }

            let roots = Linkage::Connected.link(&order, &pairs);
            let mut paired = Bits::new(n);
            edges.iter().for_each(|e| { paired.set(e.0); paired.set(e.1); });
            let with_pairs = paired.count();
            let mut chains = Chains::new(paired).unwrap();
            edges.iter().for_each(|e| chains.join(e.0, e.1));
            for page in 0..n {
                prop_assert_eq!(chains.first(page), u64::from(roots[page as usize].0));
            }
            for rank in Document::all(with_pairs as usize) {
                prop_assert_eq!(chains.rank(chains.page(rank)), rank);
            }
        }
    }

    #[test]
    fn bits_are_stored_as_words() {
        let mut bits = Bits::new(65);
        [0, 63, 64].into_iter().for_each(|page| bits.set(page));
        assert_eq!((bits.words(), bits.count()), (&[1 | 1 << 63, 1][..], 3));
        let again = Bits::from_words(bits.words().to_vec());
        assert!(again.get(64) && !again.get(1) && !again.get(1 << 40));
    }
}
