//! An index that many requests share.

use super::event;
use simflip::seen::{GivenAnswers, Seen};
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use tokio::sync::Notify;

/// An index behind a lock: many threads ask it at a time, or one writes.
pub(super) struct LockedIndex {
    index: RwLock<Seen>,
    /// Wakes who waits for the index each time that it is unlocked.
    unlocked: Notify,
}

/// A locked index. Its end unlocks the index.
pub(super) struct Locked<'a, G> {
    // Fields end in their order: the lock is free when others are woken.
    guard: G,
    _waking: Waking<'a>,
}

struct Waking<'a>(&'a Notify);

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

impl<G: Deref<Target = Seen>> Deref for Locked<'_, G> {
    type Target = Seen;

    fn deref(&self) -> &Seen {
        &self.guard
    }
}

impl<G: DerefMut<Target = Seen>> DerefMut for Locked<'_, G> {
    fn deref_mut(&mut self) -> &mut Seen {
        &mut self.guard
    }
}

/// The number of times that a request looks at the lock before it waits to be woken, which takes longer than to store
/// a page: some ten microseconds in all.
const LOOKS: usize = 256;

/// The number of times that a request finds the index locked before it is handed to a thread that waits its turn.
const TRIES: usize = 8;

impl LockedIndex {
    pub(super) fn new(seen: Seen) -> Self {
        Self { index: RwLock::new(seen), unlocked: Notify::new() }
    }

    /// Locks the index to ask it.
    pub(super) fn reading(&self) -> Locked<'_, RwLockReadGuard<'_, Seen>> {
        let guard = self.index.read().unwrap_or_else(PoisonError::into_inner);
        Locked { guard, _waking: Waking(&self.unlocked) }
    }

    /// Locks the index to write.
    pub(super) fn writing(&self) -> Locked<'_, RwLockWriteGuard<'_, Seen>> {
        let guard = self.index.write().unwrap_or_else(PoisonError::into_inner);
        Locked { guard, _waking: Waking(&self.unlocked) }
    }

    /// Waits until the index [is free](Self::is_free), and takes no thread meanwhile. False if others were faster each
    /// time that it was unlocked.
    pub(super) async fn becomes_free(&self, to_write: bool) -> bool {
        if (0..LOOKS).any(|_| self.is_free(to_write)) {
            return true;
        }
        for _ in 0..TRIES {
            // Listens before it looks, so that it misses no end of a lock.
            let unlocked = self.unlocked.notified();
            if self.is_free(to_write) {
                return true;
            }
            unlocked.await;
        }
        false
    }

    /// True if the index can be locked now without waiting: to write if `to_write` is true, or else to ask it. Another
    /// may lock it in the next moment.
    fn is_free(&self, to_write: bool) -> bool {
        let is_held = if to_write {
            matches!(self.index.try_write(), Err(TryLockError::WouldBlock))
        } else {
            matches!(self.index.try_read(), Err(TryLockError::WouldBlock))
        };
        if is_held {
            std::hint::spin_loop();
        } else {
            // It was locked for this moment, and who found it so waits.
            self.unlocked.notify_waiters();
        }
        !is_held
    }

    /// Notes what became of some answers: their reader has heard them if `heard` is true, or else they are in doubt. An
    /// error is reported as an event.
    pub(super) fn became_of(&self, reader: u64, heard: bool, answers: GivenAnswers) {
        if heard {
            self.writing().heard(reader, answers);
        } else if let Err(error) = self.writing().unheard(reader, answers) {
            event("failed", &[("error", &error.to_string())]);
        }
    }
}
