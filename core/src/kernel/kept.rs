//! Lists to which a row is written and then kept or not, without a branch; and the results of scans as such a list.

/// A list whose next place is always written, and then kept or not. Where a processor cannot foresee which, this is
/// faster than a branch.
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

    /// The rows that were kept, to be changed.
    #[inline(always)]
    pub fn rows_mut(&mut self) -> &mut [T] {
        &mut self.rows[..self.len]
    }

    /// Removes all rows.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes room for `count` more calls of [`write`](Self::write).
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

    /// Writes a row behind the kept ones, and keeps it if `kept` is true. Without room for it
    /// ([`make_room`](Self::make_room)) this panics.
    #[inline(always)]
    pub fn write(&mut self, row: T, kept: bool) {
        self.rows[self.len] = row;
        self.len += usize::from(kept);
    }
}

/// Up to 32 neighbouring positions that a scan compared, of which the set bits of `near` are near the query.
#[derive(Clone, Copy, Debug, Default)]
pub struct NearMask {
    /// The position that bit 0 stands for. It may lie before the run, and then wraps around.
    at: u32,
    tag: u32,
    near: u32,
}

/// The positions that a scan of several runs of hashes found near its query, in order. Each has the tag of its run, a
/// number by which the caller knows the run.
pub type NearList = Kept<NearMask>;

impl NearList {
    /// All positions, each with its tag.
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

    /// Adds the positions `at` + i, with this tag, for the set bits i of `near`. It takes room for one row.
    #[inline(always)]
    pub(super) fn add(&mut self, at: u32, tag: u32, near: u32) {
        self.write(NearMask { at, tag, near }, near != 0);
    }
}
