//! Numbers for documents, texts and other things inside a run. Each space of numbers has a type of its own, so that a
//! number of one cannot be taken for a number of another.
//!
//! ```
//! use simflip_core::id::{Document, Slot};
//!
//! let names = ["first", "second", "third"];
//! let (document, slot) = (Document(2), Slot(0));
//! assert!(names[document.0 as usize] == "third" && names[slot.0 as usize] == "first");
//! ```
//!
//! ```compile_fail
//! # use simflip_core::id::{Document, Slot};
//! assert!(Document(2) != Slot(0));
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// A number in a space of its own, counted from 0.
#[doc(hidden)]
pub trait Id: Copy + Ord {
    /// The id of this number.
    fn new(number: u32) -> Self;

    /// The number.
    fn number(self) -> u32;

    /// The number, as a place in a list.
    #[inline]
    fn index(self) -> usize {
        self.number() as usize
    }

    /// The id of a place in a list.
    ///
    /// # Panics
    /// For 2³² and above.
    #[inline]
    fn at(index: usize) -> Self {
        Self::new(u32::try_from(index).expect("fewer than 2^32 of them"))
    }

    /// The first `count` ids, ascending.
    ///
    /// # Panics
    /// If there are more than 2³².
    fn all(count: usize) -> impl ExactSizeIterator<Item = Self> + DoubleEndedIterator + Clone {
        (0..count).map(|index| Self::at(index))
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl Id for $name {
            #[inline]
            fn new(number: u32) -> Self {
                Self(number)
            }

            #[inline]
            fn number(self) -> u32 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// A document, numbered from 0 in the order in which documents were added to a run or an index. An index gives the
    /// numbers of removed documents again.
    Document;
    /// A distinct text, numbered in the order of the first documents that have it.
    #[doc(hidden)]
    Text;
    /// A distinct sketch among those that an index is built over or a join compares. SimHashes ascend; for a dial with
    /// keys of its own, by the first key. Signatures are in the order of their hashes. In an index that grows the order
    /// is that in which they were added.
    Slot;
    /// A document, by its place in keep order: of two near-duplicates the lesser rank is kept. A run in memory ranks
    /// distinct texts.
    #[doc(hidden)]
    Rank;
    /// Documents that count as one when clusters are made: the copies of a text, or, without verification, the
    /// documents of one sketch.
    #[doc(hidden)]
    Group;
    /// A cluster of an outcome, numbered in the order of the clusters' first documents.
    #[doc(hidden)]
    Cluster;
}

/// Lists of `V`, one for each `K` from 0, in one block of memory.
///
/// ```
/// use simflip_core::id::{Cluster, Document, Lists};
///
/// let clusters: Lists<Cluster, Document> = [vec![Document(0), Document(2)], vec![Document(1)]].into_iter().collect();
/// assert_eq!(clusters.get(Cluster(0)), [Document(0), Document(2)]);
/// assert_eq!(clusters.iter().map(<[_]>::len).collect::<Vec<_>>(), [2, 1]);
/// ```
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists<K, V> {
    /// Where each list ends in `values`; it starts where the one before ends.
    ends: Vec<u32>,
    values: Vec<V>,
    key: PhantomData<K>,
}

impl<K, V> Default for Lists<K, V> {
    fn default() -> Self {
        Self { ends: Vec::new(), values: Vec::new(), key: PhantomData }
    }
}

impl<K: Id, V> Lists<K, V> {
    /// Makes an empty collection with room for `lists` lists, and for `values` values in all lists together.
    pub fn with_capacity(lists: usize, values: usize) -> Self {
        Self { ends: Vec::with_capacity(lists), values: Vec::with_capacity(values), key: PhantomData }
    }

    /// Makes the lists that stand one after the other in `values`, each with the place behind its last value in `ends`.
    pub(crate) fn from_parts(ends: Vec<u32>, values: Vec<V>) -> Self {
        debug_assert!(ends.is_sorted() && ends.last().copied().unwrap_or_default() as usize == values.len());
        Self { ends, values, key: PhantomData }
    }

    /// Adds a list behind the last one, and gives its key.
    ///
    /// # Panics
    /// If all lists together have 2³² values or more.
    pub fn push(&mut self, list: impl IntoIterator<Item = V>) -> K {
        self.values.extend(list);
        self.ends.push(u32::try_from(self.values.len()).expect("fewer than 2^32 values"));
        K::at(self.ends.len() - 1)
    }

    /// The list of a key.
    #[inline]
    pub fn get(&self, key: K) -> &[V] {
        &self.values[self.range(key.index())]
    }

    fn range(&self, at: usize) -> Range<usize> {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        start..self.ends[at] as usize
    }

    /// Number of lists.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no list.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The values of all lists, one after the other.
    pub fn values(&self) -> &[V] {
        &self.values
    }

    /// All lists in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[V]> + DoubleEndedIterator + Clone {
        (0..self.len()).map(|at| &self.values[self.range(at)])
    }
}

impl<K: Id, V, L: IntoIterator<Item = V>> FromIterator<L> for Lists<K, V> {
    fn from_iter<I: IntoIterator<Item = L>>(lists: I) -> Self {
        let mut all = Self::default();
        lists.into_iter().for_each(|list| {
            all.push(list);
        });
        all
    }
}

/// Lists of `V`, one for each `K` from 0, each with one of its values as its leader: the copies of each text, say, and
/// the one that is compared. A list of one value takes no more memory than that value.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct LedLists<K, V> {
    leaders: Vec<V>,
    /// The keys of lists of several values, ascending, and these lists in the same order.
    several: Vec<K>,
    lists: Lists<K, V>,
}

impl<K, V> Default for LedLists<K, V> {
    fn default() -> Self {
        Self { leaders: Vec::new(), several: Vec::new(), lists: Lists::default() }
    }
}

impl<K: Id, V: Copy> LedLists<K, V> {
    /// Adds `list` behind the last one, with its value `leader` as the leader, and gives its key.
    ///
    /// # Panics
    /// If there are 2³² lists already, or lists of several values have 2³² values together.
    pub fn push(&mut self, leader: V, list: &[V]) -> K {
        let key = K::at(self.leaders.len());
        self.leaders.push(leader);
        if list.len() != 1 {
            self.several.push(key);
            self.lists.push(list.iter().copied());
        }
        key
    }

    /// The leader of the list of a key.
    #[inline]
    pub fn leader(&self, key: K) -> V {
        self.leaders[key.index()]
    }

    /// The list of a key.
    pub fn get(&self, key: K) -> &[V] {
        match self.several.binary_search(&key) {
            Ok(place) => self.lists.get(K::at(place)),
            Err(_) => std::slice::from_ref(&self.leaders[key.index()]),
        }
    }

    /// Number of lists.
    pub fn len(&self) -> usize {
        self.leaders.len()
    }

    /// True if there is no list.
    pub fn is_empty(&self) -> bool {
        self.leaders.is_empty()
    }

    /// All lists in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[V]> {
        let mut several = self.several.iter().zip(self.lists.iter()).peekable();
        K::all(self.len()).map(move |key| match several.next_if(|&(&next, _)| next == key) {
            Some((_, list)) => list,
            None => std::slice::from_ref(&self.leaders[key.index()]),
        })
    }
}

/// The list in which each document stands and its place there, for documents that are put together from several lists.
/// A list is a part of a collection, or a file and its records. Neighbours mostly stand side by side, so runs of them
/// are held: hardly any bytes a document.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Places {
    runs: Vec<PlaceRun>,
    /// The run of each document whose number is a multiple of [`Places::STEP`].
    steps: Vec<u32>,
    documents: usize,
}

/// Documents that stand side by side: the first of them, its list, and its place there.
#[derive(Clone, Copy, Debug)]
struct PlaceRun {
    first: Document,
    list: u32,
    at: u32,
}

impl Places {
    /// Documents between two of which the run is known without a search.
    const STEP: usize = 256;

    /// Adds a document that stands at place `at` of list `list`, and gives its number.
    ///
    /// # Panics
    /// If there are 2³² documents already.
    pub fn push(&mut self, list: u32, at: u32) -> Document {
        let document = Document::at(self.documents);
        let goes_on = |run: &PlaceRun| {
            run.list == list && at.checked_sub(run.at) == Some(document.number() - run.first.number())
        };
        if !self.runs.last().is_some_and(goes_on) {
            self.runs.push(PlaceRun { first: document, list, at });
        }
        if self.documents.is_multiple_of(Self::STEP) {
            self.steps.push(self.runs.len() as u32 - 1);
        }
        self.documents += 1;
        document
    }

    /// The list that a document stands in, and its place there.
    ///
    /// # Panics
    /// If there is no such document.
    #[inline]
    pub fn get(&self, document: Document) -> (u32, u32) {
        debug_assert!(document.index() < self.documents, "a document that is there");
        let step = document.index() / Self::STEP;
        let mut run = self.steps[step] as usize;
        // Nearly always this is the only one.
        if self.runs.get(run + 1).is_some_and(|next| next.first <= document) {
            let last = self.steps.get(step + 1).map_or(self.runs.len() - 1, |&next| next as usize);
            run += self.runs[run + 1..=last].partition_point(|run| run.first <= document);
        }
        let PlaceRun { first, list, at } = self.runs[run];
        (list, at + (document.number() - first.number()))
    }

    /// The runs of documents that stand side by side: their list, the place of the first there, and their numbers.
    pub fn runs(&self) -> impl Iterator<Item = (u32, u32, Range<u32>)> {
        let ends = self.runs.iter().skip(1).map(|next| next.first.number()).chain([self.documents as u32]);
        self.runs.iter().zip(ends).map(|(run, end)| (run.list, run.at, run.first.number()..end))
    }

    /// The number of documents that stand before place `at` of list `list`. It is the number of the document that
    /// stands there, if one does. Documents must have been added in ascending order of list and place.
    pub fn before(&self, list: u32, at: u32) -> usize {
        let Some(run) = self.runs.partition_point(|run| (run.list, run.at) <= (list, at)).checked_sub(1)
        else {
            return 0;
        };
        let end = self.runs.get(run + 1).map_or(self.documents, |next| next.first.index());
        match self.runs[run] {
            run if run.list == list => end.min(run.first.index() + (at - run.at) as usize),
            _ => end,
        }
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.documents
    }

    /// True if there is no document.
    pub fn is_empty(&self) -> bool {
        self.documents == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_with_leaders_are_those_that_were_pushed(
            naive in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..4), 0..9)
        ) {
            let mut lists = LedLists::default();
            for (text, list) in Text::all(naive.len()).zip(&naive) {
                prop_assert_eq!(lists.push(list[list.len() - 1], list), text);
            }
            prop_assert_eq!((lists.len(), lists.is_empty()), (naive.len(), naive.is_empty()));
            prop_assert!(lists.iter().eq(naive.iter().map(Vec::as_slice)));
            for (text, list) in Text::all(naive.len()).zip(&naive) {
                prop_assert_eq!((lists.get(text), Some(&lists.leader(text))), (&list[..], list.last()));
            }
        }

        #[test]
        fn places_are_those_that_were_pushed(
            runs in prop::collection::vec((0u32..3, 0u32..9, prop_oneof![0u32..4, 200u32..600]), 0..40)
        ) {
            let naive: Vec<(u32, u32)> =
                runs.into_iter().flat_map(|(list, at, length)| (at..at + length).map(move |at| (list, at))).collect();
            let mut places = Places::default();
            let documents: Vec<Document> = naive.iter().map(|&(list, at)| places.push(list, at)).collect();
            prop_assert_eq!((places.len(), places.is_empty()), (naive.len(), naive.is_empty()));
            prop_assert!(documents.iter().copied().eq(Document::all(naive.len())));
            prop_assert!(documents.into_iter().map(|document| places.get(document)).eq(naive.iter().copied()));
            let runs = places.runs();
            let of_runs = runs.flat_map(|(list, at, run)| (at..).zip(run).map(move |(at, _)| (list, at)));
            prop_assert!(of_runs.eq(naive.iter().copied()));
            // Each place once, ascending.
            let ascending: std::collections::BTreeSet<(u32, u32)> = naive.into_iter().collect();
            let mut places = Places::default();
            for &(list, at) in &ascending {
                places.push(list, at);
            }
            for (list, at) in (0..4).flat_map(|list| [0, 1, 5, 9, 300, u32::MAX].map(|at| (list, at))) {
                prop_assert_eq!(places.before(list, at), ascending.range(..(list, at)).count());
            }
        }

        #[test]
        fn lists_are_those_that_were_pushed(naive in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 0..9)) {
            let lists: Lists<Text, u8> = naive.iter().cloned().collect();
            prop_assert_eq!((lists.len(), lists.is_empty()), (naive.len(), naive.is_empty()));
            prop_assert_eq!(lists.values(), naive.concat());
            prop_assert!(lists.iter().eq(naive.iter().map(Vec::as_slice)));
            for text in Text::all(naive.len()) {
                prop_assert_eq!(lists.get(text), &naive[text.index()][..]);
            }
        }
    }
}
