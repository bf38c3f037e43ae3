//! A list that kernels write whole registers of at a time, whether all of a register stays or not.

/// What may be written behind the end: the lanes of the widest register.
const BEHIND: usize = 16;

/// Positions in a packed list, in the order in which they came. Each has a tag that tells what it was found
/// for, and a `T`.
#[derive(Clone, Debug, Default)]
pub struct Listing<T> {
    /// Of those behind `len` nothing is asked.
    pub(super) positions: Vec<u32>,
    pub(super) tags: Vec<u32>,
    pub(super) with: Vec<T>,
    pub(super) len: usize,
}

impl<T: Copy + Default> Listing<T> {
    /// Number of positions.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Positions, tags, and what comes with them.
    #[inline(always)]
    pub(super) fn rows(&self) -> impl Iterator<Item = (u32, u32, T)> {
        let Self { positions, tags, with, len } = self;
        let rows = positions[..*len].iter().zip(&tags[..*len]).zip(&with[..*len]);
        rows.map(|((&position, &tag), &with)| (position, tag, with))
    }

    /// Writes a row, for which there must be room, and keeps it or not: where nobody can foresee which, this
    /// takes no branch.
    #[inline(always)]
    pub(super) fn write(&mut self, position: u32, tag: u32, with: T, kept: bool) {
        (self.positions[self.len], self.tags[self.len], self.with[self.len]) = (position, tag, with);
        self.len += usize::from(kept);
    }

    /// Makes room for so many more, and a register behind them.
    #[inline(always)]
    pub(super) fn make_room(&mut self, count: usize) {
        if self.positions.len() < self.len + count + BEHIND {
            self.grow(count);
        }
    }

    #[cold]
    fn grow(&mut self, count: usize) {
        let room = (self.len + count + BEHIND).next_power_of_two();
        self.positions.resize(room, 0);
        self.tags.resize(room, 0);
        self.with.resize(room, T::default());
    }
}
