//! Open connections: how many there may be, what their requests may hold in memory, and which answers their clients may
//! not have heard. A client has heard an answer if it sends its next request on the connection, or closes it in order.
//! If the connection ends otherwise, such answers are *in doubt*: the index gives them again to the same questions.

use super::locked::LockedIndex;
use simflip::seen::{GivenAnswers, LATEST};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Bytes of a request's body that each connection may hold. A longer body takes the rest from the budget of all.
const OWN: usize = 32 << 10;

/// The unit of that budget, in bytes.
const UNIT: usize = 1 << 10;

/// Time that a body which takes from the budget may make no progress.
const STALL: Duration = Duration::from_secs(5);

/// All connections of the service, with the bounds on them.
pub(super) struct Connections {
    most: AtomicUsize,
    open: Mutex<OpenConnections>,
    /// Notified when a connection has ended, and when one can be cut off.
    room: Notify,
    /// The shared budget of bodies, in [`UNIT`]s.
    bodies: Arc<Semaphore>,
    units: usize,
    cut_off: AtomicU64,
}

#[derive(Default)]
struct OpenConnections {
    /// The number of the last connection, and the last turn that was given.
    number: u64,
    turns: u64,
    connections: usize,
    /// Connections that wait for their client, the one that has waited longest first.
    waiting: BTreeMap<u64, Arc<Connection>>,
    /// The numbers of those that have neither ended nor been cut off.
    staying: HashSet<u64>,
}

/// A connection of a client. To indexes it is the reader of the answers that are sent on it.
pub(super) struct Connection {
    all: Arc<Connections>,
    /// The connection's number in this process, from 1: the number of the reader.
    pub(super) number: u64,
    /// Its key in [`OpenConnections::waiting`]; 0 while it is worked for. Changed with [`Connections::open`] locked.
    turn: AtomicU64,
    cut_off: Notify,
    unheard: Mutex<Unheard>,
}

/// Answers that a client may not have heard, and those that it has heard and whose indexes do not know that yet.
#[derive(Default)]
struct Unheard {
    /// The answers of a request or of a part of one, with the index.
    answers: VecDeque<(Arc<LockedIndex>, GivenAnswers)>,
    /// The client has heard this number of these, the first ones.
    heard: usize,
    gone: bool,
}

/// An open connection, as long as this lives. Dropped, it makes room for another.
pub(super) struct Admitted(Arc<Connection>);

impl std::ops::Deref for Admitted {
    type Target = Arc<Connection>;

    fn deref(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.all.open();
        open.waiting.remove(&self.turn.load(Relaxed));
        open.staying.remove(&self.number);
        open.connections -= 1;
        self.all.room.notify_one();
    }
}

impl Connections {
    /// No connection yet, and at most `most`. All bodies may take `bodies` bytes, beyond 32 KiB that each has.
    pub(super) fn new(most: usize, bodies: usize) -> Self {
        Self {
            most: AtomicUsize::new(most),
            open: Mutex::default(),
            room: Notify::new(),
            bodies: Arc::new(Semaphore::new(bodies / UNIT)),
            units: bodies / UNIT,
            cut_off: AtomicU64::new(0),
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bound on connections, the number of open ones, and the number of those cut off to make room.
    pub(super) fn counts(&self) -> (usize, usize, u64) {
        (self.most(), self.open().connections, self.cut_off.load(Relaxed))
    }

    fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// Changes the bound on connections. If more are open, those are cut off that have waited for their client longest.
    pub(super) fn bound(&self, most: usize) {
        let mut open = self.open();
        self.most.store(most, Relaxed);
        self.make_room(&mut open, most);
        self.room.notify_one();
    }

    /// Cuts off connections that wait, those first that have waited longest, until `left` stay.
    fn make_room(&self, open: &mut OpenConnections, left: usize) {
        while open.staying.len() > left
            && let Some((_, oldest)) = open.waiting.pop_first()
        {
            open.staying.remove(&oldest.number);
            self.cut_off.fetch_add(1, Relaxed);
            oldest.cut_off.notify_one();
        }
    }

    /// Bytes of the budget of bodies that are taken.
    pub(super) fn held(&self) -> usize {
        (self.units - self.bodies.available_permits()) * UNIT
    }

    /// Opens a connection when there is room for one more. If there is none, the connection is cut off that has waited
    /// for its client longest.
    pub(super) async fn admit(self: &Arc<Self>) -> Admitted {
        loop {
            let room = self.room.notified();
            if let Some(admitted) = self.try_admit() {
                return admitted;
            }
            room.await;
        }
    }

    fn try_admit(self: &Arc<Self>) -> Option<Admitted> {
        let mut open = self.open();
        if open.connections >= self.most() {
            self.make_room(&mut open, self.most().saturating_sub(1));
            return None;
        }
        open.connections += 1;
        open.number += 1;
        let number = open.number;
        open.staying.insert(number);
        let connection = Arc::new(Connection {
            all: Arc::clone(self),
            number,
            turn: AtomicU64::new(0),
            cut_off: Notify::new(),
            unheard: Mutex::default(),
        });
        drop(open);
        connection.waits();
        Some(Admitted(connection))
    }

    /// Takes from the budget what a body of so many bytes needs beyond `held`, and adds it there. Waits for room, at
    /// most for `wait`; `None` if there is none by then.
    pub(super) async fn hold(&self, held: &mut Held, bytes: usize, wait: Duration) -> Option<()> {
        let units = units(bytes);
        let more = units.saturating_sub(held.units);
        if more == 0 {
            return Some(());
        }
        let taken = tokio::time::timeout(wait, Arc::clone(&self.bodies).acquire_many_owned(more)).await;
        let Ok(Ok(permit)) = taken else { return None };
        held.units = units;
        held.since.get_or_insert_with(Instant::now);
        match &mut held.permit {
            Some(all) => all.merge(permit),
            none => *none = Some(permit),
        }
        Some(())
    }
}

/// The units of the budget that a body of so many bytes takes.
fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.saturating_sub(OWN).div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// A body's part of the budget, as long as this lives.
#[derive(Default)]
pub(super) struct Held {
    permit: Option<OwnedSemaphorePermit>,
    units: u32,
    /// When it took the first part.
    since: Option<Instant>,
}

impl Held {
    /// The time that the next part of the body may take, at most `deadline`. A body that takes from the budget must go
    /// on every 5 seconds, and be whole by `deadline` from when it began to take.
    pub(super) fn patience(&self, deadline: Duration) -> Duration {
        self.since.map_or(deadline, |since| deadline.saturating_sub(since.elapsed()).min(STALL))
    }
}

impl Connection {
    /// Notes that it waits for its client from now on: for a request, for more of it, or to take an answer.
    pub(super) fn waits(self: &Arc<Self>) {
        let mut open = self.all.open();
        open.turns += 1;
        let turn = open.turns;
        open.waiting.remove(&self.turn.swap(turn, Relaxed));
        // The work for one that was cut off or has ended may still be under way.
        if open.staying.contains(&self.number) {
            open.waiting.insert(turn, Arc::clone(self));
        }
        if open.connections >= self.all.most() {
            self.all.room.notify_one();
        }
    }

    /// Notes that its client waits for the service: it is not cut off meanwhile.
    pub(super) fn works(&self) {
        let mut open = self.all.open();
        open.waiting.remove(&self.turn.swap(0, Relaxed));
    }

    /// Waits until it is cut off, to make room for another.
    pub(super) async fn cut_off(&self) {
        self.cut_off.notified().await;
    }

    fn unheard(&self) -> MutexGuard<'_, Unheard> {
        self.unheard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes answers of an index that its client has not heard yet. If it has ended, they are in doubt at once.
    pub(super) fn answered(&self, index: &Arc<LockedIndex>, answers: GivenAnswers) {
        if answers.is_empty() {
            return;
        }
        let mut unheard = self.unheard();
        unheard.answers.push_back((Arc::clone(index), answers));
        // The index remembers no more.
        let mut number: usize = unheard.answers.iter().map(|(_, answers)| answers.len()).sum();
        while number > LATEST
            && let Some((_, oldest)) = unheard.answers.pop_front()
        {
            number -= oldest.len();
            unheard.heard = unheard.heard.saturating_sub(1);
        }
        let gone = unheard.gone;
        drop(unheard);
        if gone {
            self.settle(false);
        }
    }

    /// Marks the connection as ended: an answer that comes later, of work that was under way, is not heard.
    pub(super) fn end(&self) {
        self.unheard().gone = true;
    }

    /// True if there are answers that its client may not have heard, or whose indexes do not know yet that it has.
    pub(super) fn has_answers(&self) -> bool {
        !self.unheard().answers.is_empty()
    }

    /// Notes that its client has heard all answers so far. [`take_heard`](Self::take_heard) reports that to the
    /// indexes.
    pub(super) fn hears(&self) {
        let mut unheard = self.unheard();
        unheard.heard = unheard.answers.len();
    }

    /// Reports the answers that its client has heard to their indexes. Those of `index` are given instead, for a caller
    /// that locks it in any case and reports them itself.
    pub(super) fn take_heard(&self, index: Option<&Arc<LockedIndex>>) -> Vec<GivenAnswers> {
        let mut unheard = self.unheard();
        let heard = std::mem::take(&mut unheard.heard);
        let answers: Vec<_> = unheard.answers.drain(..heard).collect();
        drop(unheard);
        let mut taken = Vec::new();
        for (of, answers) in answers {
            match index.is_some_and(|it| Arc::ptr_eq(it, &of)) {
                true => taken.push(answers),
                false => of.became_of(self.number, true, answers),
            }
        }
        taken
    }

    /// Reports all its answers to their indexes. Those that its client is not known to have heard count as heard if
    /// `heard` is true, and are in doubt otherwise.
    pub(super) fn settle(&self, heard: bool) {
        self.take_heard(None);
        let answers = std::mem::take(&mut self.unheard().answers);
        answers.into_iter().for_each(|(of, answers)| of.became_of(self.number, heard, answers));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_that_leave_make_room_for_others() {
        let all = Arc::new(Connections::new(4, 0));
        let mut open = Vec::new();
        for _ in 0..4 {
            open.push(all.admit().await);
        }
        all.bound(3);
        all.bound(2);
        assert_eq!(all.counts(), (2, 4, 2));
        // One that was cut off may still come to wait for its client.
        let first = Arc::clone(&open[0]);
        first.waits();
        for _ in 0..3 {
            assert!(all.try_admit().is_none());
        }
        assert_eq!(all.counts(), (2, 4, 3));
        open.drain(..3);
        first.waits();
        open.extend(all.try_admit());
        assert_eq!((all.counts(), open.len()), ((2, 2, 3), 2));
        // Of those that are open, the second has waited longest.
        open[0].waits();
        assert!(all.try_admit().is_none());
        assert_eq!(all.counts(), (2, 2, 4));
        tokio::time::timeout(Duration::ZERO, open[1].cut_off()).await.unwrap();
    }
}
