//! Answers that an index can give again. Each stands under a key, which is made of the name of its request, or where
//! that has none, of the name of the page. A *reader* gets answers: a connection of a client, for example. An answer
//! is *heard* when its reader sends another request or ends in good order, as the answer has arrived then.

use super::Reply;
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of latest requests with names of their own whose answers are remembered. The number of answers in doubt
/// has the same bound, as more can come with each reader that goes away.
pub const REQUESTS: usize = 1 << 16;

/// The number of latest answers to requests without names that are remembered as given. If the index is not closed,
/// they come into doubt. As JSON so many answers fill a pipe of 1 MiB, by default the largest that Linux gives
/// to a process without privileges. So a reader that dies leaves no more of them unread in its pipe.
pub const LATEST: usize = 1 << 14;

/// The standing of an answer: who may be given it again. A page whose answer was lost would else be called the same as
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its request had a name of its own: sent again, it is answered as before.
    Named,
    /// The answer goes out to the reader of this number, and nothing says yet that it arrived. The number is 0 for a
    /// reader that cannot say so, such as a pipe's. Where the index is not closed in order, the answer is in doubt.
    Given(u64),
    /// It may not have arrived. Asked about the same text under the same name of the page, the index gives it again.
    /// From then on it stands as given.
    InDoubt,
}

/// An answer with the key that it is remembered under, as records of logs and snapshots have it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RememberedAnswer {
    pub(super) key: Arc<str>,
    pub(super) answer: Answer,
}

/// An answer that can be given again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// The digest of the text that was asked about. The answer is given again for this text alone.
    pub(super) digest: u128,
    /// The answer itself, with [`Reply::again`] false. A copy that is given again has it true.
    pub(super) reply: Reply,
    pub(super) standing: Standing,
}

/// The prefix of a key that is the name of a page. The key of a request with a name begins with `request `.
const PAGE: &str = "page ";

/// The key of the answer to a question about a page, where its request has no name.
pub(super) fn key_of_page(name: &str) -> String {
    [PAGE, name].concat()
}

impl Answer {
    /// The name of the page that was asked about, and the name of the earlier page. The first is `None` for a request
    /// with a name, whose `key` does not have it. By both, a removal of pages finds the answers that name them.
    pub(super) fn names<'a>(&'a self, key: &'a str) -> [Option<&'a str>; 2] {
        let page = key.strip_prefix(PAGE).filter(|_| self.standing != Standing::Named);
        [page, self.reply.earlier.as_deref()]
    }

    /// True if it is given again when this reader asks about the same text under the same key. The caller compares
    /// these.
    pub(super) fn is_for(&self, reader: u64) -> bool {
        match self.standing {
            Standing::Named | Standing::InDoubt => true,
            // Another reader may be a new connection of the same client, who did not hear the answer. The end of the
            // old connection may not have been noticed yet. A repeat on one connection is a new question.
            Standing::Given(to) => to != 0 && to != reader,
        }
    }
}

/// The latest answers of each standing, by their keys.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    by_key: HashMap<Arc<str>, (u64, Answer)>,
    /// The keys of the answers of each standing (named, given, in doubt), each with a number, in the order in which
    /// they came to stand so. An entry counts if the answer still has its number.
    queues: [VecDeque<(u64, Arc<str>)>; 3],
    /// The number of entries in each queue that count.
    counts: [usize; 3],
    numbers: u64,
    /// The last number that stands in a snapshot.
    written: u64,
    /// The number of answers of snapshots that were taken out, though the file has the names of their pages. An answer
    /// that [`doubt_given`](Self::doubt_given) puts in doubt counts as well. One that `insert` replaces does not.
    left_behind: u64,
    /// True if answers were heard and forgotten since the index was opened. The log still has them as given: they would
    /// be in doubt when it is opened again. So [`Seen::close`](super::Seen::close) must write
    /// [`Closed`](super::record::Record::Closed), which says that they arrived.
    pub(super) heard: bool,
}

/// The number of the queue for answers of a standing.
fn queue_of(standing: Standing) -> usize {
    match standing {
        Standing::Named => 0,
        Standing::Given(_) => 1,
        Standing::InDoubt => 2,
    }
}

/// The most answers that are remembered of each standing: named, given, in doubt.
const MOST: [usize; 3] = [REQUESTS, LATEST, REQUESTS];

/// A queue may have twice as many entries as count, and this number besides. From a longer one the entries that do not
/// count are taken out.
const SPARE: usize = 1 << 10;

impl Remembered {
    pub(super) fn get(&self, key: &str) -> Option<&Answer> {
        self.by_key.get(key).map(|(_, answer)| answer)
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Answer)> {
        self.by_key.iter().map(|(key, (_, answer))| (key, answer))
    }

    /// The answer of a key, whose reply may be changed. Its standing is changed by [`stand`](Self::stand) alone.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Answer> {
        self.by_key.get_mut(key).map(|(_, answer)| answer)
    }

    /// Notes that all answers so far stand in a snapshot. A new snapshot has no answers that were
    /// [left behind](Self::left_behind) before, but their count stays.
    pub(super) fn are_written(&mut self) {
        self.written = self.numbers;
    }

    /// The number of answers without names of their own that stood in a snapshot and are not remembered any more. It
    /// never falls. If it has grown since the last snapshot was begun, that file may have names which no page has. Then
    /// a removal of any name that no page has leads to a new snapshot.
    pub(super) fn left_behind(&self) -> u64 {
        self.left_behind
    }

    /// Remembers an answer as the latest of its standing, and forgets the oldest beyond the bound. Gives the answer
    /// that was remembered under its key before.
    pub(super) fn insert(&mut self, key: Arc<str>, answer: Answer) -> Option<Answer> {
        self.numbers += 1;
        let at = queue_of(answer.standing);
        self.queues[at].push_back((self.numbers, Arc::clone(&key)));
        self.counts[at] += 1;
        let was = self.by_key.insert(key, (self.numbers, answer));
        if let Some((_, was)) = &was {
            self.counts[queue_of(was.standing)] -= 1;
        }
        // An answer that was taken out is not counted any more, and so pushes out no other.
        while self.counts[at] > MOST[at]
            && let Some((number, oldest)) = self.queues[at].pop_front()
        {
            self.take(&oldest, |own, _| own == number);
        }
        if self.queues[at].len() > 2 * self.counts[at] + SPARE {
            let counts =
                |(number, key): &(u64, Arc<str>)| self.by_key.get(key).is_some_and(|(own, _)| own == number);
            self.queues[at].retain(counts);
        }
        was.map(|(_, was)| was)
    }

    /// Changes the standing of the answer of a key; gives the answer as it was, `None` if there is none.
    pub(super) fn stand(&mut self, key: &Arc<str>, standing: Standing) -> Option<Answer> {
        let (_, answer) = self.by_key.get_mut(key)?;
        let was = answer.clone();
        if queue_of(was.standing) == queue_of(standing) {
            // It keeps its place among the latest.
            answer.standing = standing;
        } else {
            self.insert(Arc::clone(key), Answer { standing, ..was.clone() });
        }
        Some(was)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Answer> {
        self.take(key, |_, _| true)
    }

    /// Removes the answer of a key if `is` is true of it, and gives it.
    pub(super) fn remove_if(&mut self, key: &str, is: impl FnOnce(&Answer) -> bool) -> Option<Answer> {
        self.take(key, |_, answer| is(answer))
    }

    /// Takes out the answer of a key if `is_wanted` is true of its number and itself.
    fn take(&mut self, key: &str, is_wanted: impl FnOnce(u64, &Answer) -> bool) -> Option<Answer> {
        let EntryRef::Occupied(entry) = self.by_key.entry_ref(key) else { return None };
        let (number, answer) = entry.get();
        if !is_wanted(*number, answer) {
            return None;
        }
        let (number, answer) = entry.remove();
        self.counts[queue_of(answer.standing)] -= 1;
        self.left_behind += u64::from(number <= self.written && answer.standing != Standing::Named);
        Some(answer)
    }

    /// Takes out all answers that stand as given, the oldest first. A close of the index says that they arrived.
    pub(super) fn take_given(&mut self) -> Vec<RememberedAnswer> {
        let queue = std::mem::take(&mut self.queues[queue_of(Standing::Given(0))]);
        let mut take = |(number, key): (u64, Arc<str>)| {
            self.take(&key, |own, _| own == number).map(|answer| RememberedAnswer { key, answer })
        };
        queue.into_iter().filter_map(&mut take).collect()
    }

    /// Puts all answers in doubt that stand as given, and gives their number: for an index that was not closed.
    pub(super) fn doubt_given(&mut self) -> usize {
        let given = self.take_given();
        let doubts = given.len();
        for RememberedAnswer { key, answer } in given {
            self.insert(key, Answer { standing: Standing::InDoubt, ..answer });
        }
        doubts
    }

    /// All answers for a snapshot: named, given, in doubt, the oldest of each first. Inserted one by one, they get this
    /// order again.
    pub(super) fn in_order(&self) -> Vec<RememberedAnswer> {
        let all = self.queues.iter().flatten().filter_map(|(number, key)| {
            let (own, answer) = self.by_key.get(key)?;
            (own == number).then(|| RememberedAnswer { key: Arc::clone(key), answer: answer.clone() })
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each standing with its latest keys, the latest last: what is remembered, counted anew for each change.
    #[derive(Default)]
    struct Naive(Vec<(Arc<str>, Answer)>);

    impl Naive {
        fn insert(&mut self, key: &Arc<str>, answer: &Answer) {
            self.0.retain(|(other, _)| other != key);
            self.0.push((Arc::clone(key), answer.clone()));
        }
    }

    proptest! {
        #[test]
        fn answers_stand_as_they_were_put_last(
            steps in prop::collection::vec((0u8..7, 0u8..12, 0u8..3), 1..200),
        ) {
            let (mut ours, mut naive) = (Remembered::default(), Naive::default());
            for (step, key, standing) in steps {
                let standing = [Standing::Named, Standing::Given(u64::from(key % 3)), Standing::InDoubt]
                    [usize::from(standing)];
                let answer = Answer { digest: u128::from(key), reply: Reply::default(), standing };
                let key: Arc<str> = key_of_page(&key.to_string()).into();
                match step {
                    0 | 1 => {
                        ours.insert(Arc::clone(&key), answer.clone());
                        naive.insert(&key, &answer);
                    }
                    2 => {
                        let was = ours.stand(&key, standing);
                        prop_assert_eq!(was.is_some(), naive.0.iter().any(|(other, _)| *other == key));
                        match naive.0.iter_mut().find(|(other, _)| *other == key) {
                            Some((_, own)) if queue_of(own.standing) == queue_of(standing) => own.standing = standing,
                            Some(_) => naive.insert(&key, &answer),
                            None => {}
                        }
                    }
                    3 => {
                        ours.remove(&key);
                        naive.0.retain(|(other, _)| *other != key);
                    }
                    6 => {
                        ours.remove_if(&key, |own| own.standing == Standing::Given(1));
                        naive.0.retain(|(other, own)| *other != key || own.standing != Standing::Given(1));
                    }
                    4 => {
                        let is_given = |(_, answer): &(Arc<str>, Answer)| matches!(answer.standing, Standing::Given(_));
                        let (given, others): (Vec<_>, Vec<_>) = naive.0.drain(..).partition(is_given);
                        prop_assert_eq!(ours.doubt_given(), given.len());
                        let doubted = given.into_iter().map(|(key, answer)| (key, Answer { standing: Standing::InDoubt, ..answer }));
                        naive.0 = others.into_iter().chain(doubted).collect();
                    }
                    _ => {
                        let given = ours.take_given().len();
                        let before = naive.0.len();
                        naive.0.retain(|(_, answer)| !matches!(answer.standing, Standing::Given(_)));
                        prop_assert_eq!(given, before - naive.0.len());
                    }
                }
                let of = |at: usize| naive.0.iter().filter(move |(_, answer)| queue_of(answer.standing) == at);
                let expected = (0..3).flat_map(of).map(|(key, answer)| RememberedAnswer { key: Arc::clone(key), answer: answer.clone() });
                prop_assert_eq!(ours.in_order(), expected.collect::<Vec<_>>());
                prop_assert_eq!(ours.len(), naive.0.len());
            }
        }
    }

    #[test]
    fn the_latest_answers_are_remembered_and_those_left_behind_counted() {
        let mut ours = Remembered::default();
        let key = |n: usize| -> Arc<str> { key_of_page(&n.to_string()).into() };
        let answer = Answer { digest: 0, reply: Reply::default(), standing: Standing::Given(0) };
        for n in 0..LATEST {
            ours.insert(key(n), answer.clone());
        }
        ours.are_written();
        for n in LATEST..LATEST + 9 {
            ours.insert(key(n), answer.clone());
        }
        assert_eq!((ours.len(), ours.left_behind()), (LATEST, 9));
        assert!((0..LATEST + 9).all(|n| ours.get(&key(n)).is_some() == (n >= 9)));
        // That one stands for another reader takes nobody's place.
        (9..LATEST + 9).for_each(|n| assert!(ours.stand(&key(n), Standing::Given(7)).is_some()));
        assert_eq!(ours.len(), LATEST);
    }

    #[test]
    fn answers_that_were_heard_take_nobodys_place() {
        let mut ours = Remembered::default();
        let key = |n: usize| -> Arc<str> { key_of_page(&n.to_string()).into() };
        let answer =
            |reader| Answer { digest: 0, reply: Reply::default(), standing: Standing::Given(reader) };
        ours.insert(key(0), answer(1));
        for n in 1..LATEST + 200 {
            ours.insert(key(n), answer(2));
            assert!(ours.remove_if(&key(n), |own| own.standing == Standing::Given(2)).is_some());
            assert!(ours.queues[1].len() <= SPARE + 4, "{}", ours.queues[1].len());
        }
        assert!(ours.get(&key(0)).is_some() && ours.len() == 1);
    }
}
