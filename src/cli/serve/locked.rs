//! An index that many requests share.

use super::event;
use simflip::seen::{GivenAnswers, Seen};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// An index behind a lock: many threads ask it at a time, or one writes.
pub(super) struct LockedIndex(RwLock<Seen>);

impl LockedIndex {
    pub(super) fn new(seen: Seen) -> Self {
        Self(RwLock::new(seen))
    }

    /// Locks the index to ask it.
    pub(super) fn reading(&self) -> RwLockReadGuard<'_, Seen> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the index to write.
    pub(super) fn writing(&self) -> RwLockWriteGuard<'_, Seen> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the index can be locked now without waiting: to write if `to_write` is true, or else to ask it. Another
    /// may lock it in the next moment.
    pub(super) fn is_free(&self, to_write: bool) -> bool {
        let is_held = if to_write {
            matches!(self.0.try_write(), Err(TryLockError::WouldBlock))
        } else {
            matches!(self.0.try_read(), Err(TryLockError::WouldBlock))
        };
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
