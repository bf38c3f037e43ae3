//! The directory of the dial's tables: it says where the group of each key, the hashes that have it, stands in the list
//! of rests. The rest of a hash is its bits outside of the key. A cell is the entry of one key of one table, two bytes.
//! Cells are numbered through all tables; so are positions in the list.

use crate::kernel::{huge_pages::HugeList, prefetch};

/// The number of cells in a line of the directory. A table begins with a line, so that its last line may have empty
/// cells at the end.
pub(super) const CELLS: usize = 30;

/// A line of a directory, one cache line.
///
/// In lines whose cells together hold 65,535 hashes or more, `base` is a place in [`Directory::wide`] instead, and the
/// last end is [`WIDE`].
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct DirectoryLine {
    /// The position where the first cell begins.
    base: u32,
    /// Where each cell ends, counted from `base`.
    ends: [u16; CELLS],
}

/// The last end of a line with wide entries.
const WIDE: u16 = u16::MAX;

/// The directory of all tables of a dial.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    lines: HugeList<DirectoryLine>,
    /// For each line with wide entries, where its cells begin, and where the last one ends.
    wide: Vec<[u32; CELLS + 1]>,
}

impl Directory {
    /// Makes `tables` tables of `cells` cells each, all of them empty.
    pub fn new(tables: usize, cells: usize) -> Self {
        let empty = DirectoryLine { base: 0, ends: [0; CELLS] };
        Self { lines: HugeList::filled(tables * cells.div_ceil(CELLS), empty), wide: Vec::new() }
    }

    /// Fills in the `cells` cells of the table number `table`, from 0, for its ascending values. A value is the key of
    /// a hash above its rest of `width` bits, and the key is the cell. The first value has position `offset`.
    pub fn fill(&mut self, table: usize, cells: usize, sorted: &[u64], width: u32, offset: usize) {
        let Self { lines, wide } = self;
        let each = cells.div_ceil(CELLS);
        let mut at = 0;
        for (first, line) in (0..).step_by(CELLS).zip(&mut lines[table * each..(table + 1) * each]) {
            let mut starts = [0u32; CELLS + 1];
            starts[0] = (offset + at) as u32;
            for (cell, end) in (first..).zip(&mut starts[1..]) {
                while at < sorted.len() && sorted[at] >> width == cell as u64 {
                    at += 1;
                }
                *end = (offset + at) as u32;
            }
            if starts[CELLS] - starts[0] < u32::from(WIDE) {
                let ends = std::array::from_fn(|cell| (starts[cell + 1] - starts[0]) as u16);
                *line = DirectoryLine { base: starts[0], ends };
            } else {
                *line = DirectoryLine { base: wide.len() as u32, ends: [WIDE; CELLS] };
                wide.push(starts);
            }
        }
    }

    /// Prefetches the line of a cell, given by its number among all tables' cells.
    #[inline]
    pub fn prefetch(&self, cell: u32) {
        prefetch::read(&self.lines, cell as usize / CELLS);
    }

    /// The position where the hashes of a cell begin, and their number. The number of a cell counts the cells of all
    /// tables before, those included that fill their last lines.
    #[inline]
    pub fn range(&self, cell: u32) -> (u32, u32) {
        let (line, place) = (&self.lines[cell as usize / CELLS], cell as usize % CELLS);
        if line.ends[CELLS - 1] == WIDE {
            return self.wide_range(line.base, place);
        }
        let start = if place == 0 { 0 } else { line.ends[place - 1] };
        (line.base + u32::from(start), u32::from(line.ends[place] - start))
    }

    #[cold]
    fn wide_range(&self, base: u32, place: usize) -> (u32, u32) {
        let starts = &self.wide[base as usize];
        (starts[place], starts[place + 1] - starts[place])
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.lines[..]) + size_of_val(&self.wide[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_full_cells() {
        // Cells 0 and 31 hold more than two bytes can count, cell 1 a few, the others nothing.
        let sorted: Vec<u64> = [(0u64, 70_000u64), (1, 5), (31, 65_535)]
            .iter()
            .flat_map(|&(c, n)| (0..n).map(move |i| c << 40 | i))
            .collect();
        let mut directory = Directory::new(1, 256);
        directory.fill(0, 256, &sorted, 40, 0);
        assert_eq!(
            (directory.range(0), directory.range(1), directory.range(2)),
            ((0, 70_000), (70_000, 5), (70_005, 0))
        );
        assert_eq!((directory.range(29), directory.range(30)), ((70_005, 0), (70_005, 0)));
        assert_eq!((directory.range(31), directory.range(32)), ((70_005, 65_535), (135_540, 0)));
        assert_eq!((directory.range(255), directory.wide.len()), ((135_540, 0), 2));
        // Nine lines of 64 bytes, and two with a place for each of 31 ends.
        assert_eq!(directory.bytes(), 9 * 64 + 2 * 31 * 4);
    }

    #[test]
    fn a_line_is_as_full_as_its_last_end_can_say() {
        for (n, wide) in [(65_534, 0), (65_535, 1)] {
            let mut directory = Directory::new(1, 30);
            directory.fill(0, 30, &vec![29 << 8; n], 8, 0);
            assert_eq!((directory.wide.len(), directory.range(29)), (wide, (0, n as u32)));
        }
    }

    #[test]
    fn cells_of_tables_one_after_the_other() {
        let mut rng = crate::hash::SplitMix64::new(3);
        // Three lines a table, of which the last is not full.
        let (cells, n, width) = (64, 1_000, 8);
        let mut directory = Directory::new(2, cells);
        let tables = [0, 1].map(|table| {
            let mut sorted: Vec<u64> = (0..n).map(|_| rng.below((cells as u64) << width)).collect();
            sorted.sort_unstable();
            directory.fill(table, cells, &sorted, width, table * n);
            sorted
        });
        for (table, sorted) in tables.iter().enumerate() {
            for cell in 0..90 {
                let of =
                    |is: &dyn Fn(u64) -> bool| sorted.iter().filter(|&&value| is(value >> width)).count();
                let want = (table * n + of(&|key| key < cell), of(&|key| key == cell));
                let (start, len) = directory.range(table as u32 * 90 + cell as u32);
                assert_eq!((start as usize, len as usize), want, "table {table}, cell {cell}");
            }
        }
    }
}
