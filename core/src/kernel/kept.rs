//! Lists that are written without a branch that depends on what is written.

/// A list of which the next place is always written, and kept or not: where nobody can foresee which, this is faster
/// than a branch.
#[derive(Clone, Debug, Default)]
pub struct Kept<T> {
    /// The rows; those behind `len` have no meaning.
    rows: Vec<T>,
    len: usize,
}

impl<T: Copy + Default> Kept<T> {
    /// The rows that were kept.
    #[inline(always)]
    pub fn rows(&self) -> &[T] {
        &self.rows[..self.len]
    }

    /// The rows, to be changed.
    #[inline(always)]
    pub fn rows_mut(&mut self) -> &mut [T] {
        &mut self.rows[..self.len]
    }

    /// Removes all rows.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes room for so many calls of [`write`](Self::write).
    #[inline(always)]
    pub fn make_room(&mut self, count: usize) {
        if self.rows.len() <= self.len + count {
            self.grow(count);
        }
    }

    #[cold]
    fn grow(&mut self, count: usize) {
        self.rows.resize((self.len + count + 1).next_power_of_two(), T::default());
    }

    /// Writes a row, for which there must be room, and keeps it or not.
    #[inline(always)]
    pub fn write(&mut self, row: T, kept: bool) {
        self.rows[self.len] = row;
        self.len += usize::from(kept);
    }
}

/// Neighbours in a run, some of which are near.
#[derive(Clone, Copy, Debug, Default)]
pub struct NearMask {
    /// The position that bit 0 stands for. It may lie before the run, and then wraps around.
    at: u32,
    tag: u32,
    near: u32,
}

/// Positions of what a scan found near, in order, each with the tag of its run.
pub type NearList = Kept<NearMask>;

impl NearList {
    /// Positions and tags.
    #[inline(always)]
    pub fn positions(&self) -> impl Iterator<Item = (u32, u32)> {
        self.rows().iter().flat_map(|row| {
            let mut near = row.near;
            std::iter::from_fn(move || {
                let bit = (near != 0).then(|| near.trailing_zeros())?;
                near &= near - 1;
                Some((row.at.wrapping_add(bit), row.tag))
            })
        })
    }

    /// Number of positions.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.rows().iter().map(|row| row.near.count_ones() as usize).sum()
    }

    /// Adds the positions `at` + i for the bits i of `near`, if there are any.
    #[inline(always)]
    pub(super) fn add(&mut self, at: u32, tag: u32, near: u32) {
        self.write(NearMask { at, tag, near }, near != 0);
    }
}
