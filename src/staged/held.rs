//! The sketches of the pages that have company in some bands, held in memory for all of these bands: each sketch is
//! read once, and a band only puts its pages in order.

use super::join::{Gathered, Shape};
use super::sketches::{CHUNK, Folder, Span};
use super::sorter::{Place, begins, put_in_order};
use crate::error::Result;
use rayon::prelude::*;
use simflip_core::internal::memory::{prefetch, untouched, with_room};
use simflip_core::streamed::Bits;

/// Records of pages, in order of the pages.
pub(super) struct Held {
    /// That of the first band, which all records have.
    shape: Shape,
    pages: Bits,
    records: Vec<u8>,
}

impl Held {
    /// Bytes that the records of so many pages take.
    pub(super) fn bytes(pages: u64, shape: Shape) -> u64 {
        pages * shape.width() as u64
    }

    /// Bytes that so many threads hold while records of so many pages are read.
    pub(super) fn read_bytes(pages: u64, threads: u64, shape: Shape) -> u64 {
        Self::bytes(pages.min(threads * CHUNK), shape)
    }

    /// Bytes that the order of so many pages of a band takes.
    pub(super) fn order_bytes(pages: u64) -> u64 {
        pages * size_of::<Place>() as u64
    }

    /// How many pages may be held, however large memory is.
    pub(super) const MOST: u64 = u32::MAX as u64;

    /// Reads the sketches of these pages, of which there are at most [`Held::MOST`], in the shape of the first band.
    pub(super) fn read(
        folder: &Folder,
        pages: Bits,
        shape: Shape,
        advance: &(dyn Fn(u64) + Sync),
    ) -> Result<Self> {
        let width = shape.width();
        let mut records = untouched(pages.count() as usize * width);
        let (mut parts, mut rest) = (Vec::new(), &mut records[..]);
        for span in folder.spans() {
            let (part, behind) = rest.split_at_mut(pages.count_in(folder.numbers(&span)) as usize * width);
            parts.push((span, part));
            rest = behind;
        }
        let read = |(span, part): (Span, &mut [u8])| {
            let mut part = part.chunks_exact_mut(width);
            let mut gathered = Gathered::default();
            folder.scan_span(span, advance, |columns, page, from, count| {
                let numbers = page..page + count as u64;
                if pages.count_in(numbers.clone()) == 0 {
                    return Ok(());
                }
                gathered.read(columns, from, count, shape)?;
                let asked = numbers.enumerate().filter(|&(_, page)| pages.get(page));
                // First, for a record that is taken for nothing is not filled.
                asked.zip(&mut part).for_each(|((at, page), record)| gathered.write(at, page, shape, record));
                Ok(())
            })
        };
        parts.into_par_iter().try_for_each(read)?;
        Ok(Self { shape, pages, records })
    }

    fn record(&self, at: u32) -> &[u8] {
        let width = self.shape.width();
        &self.records[at as usize * width..][..width]
    }

    /// The records of some of the pages, those with company in a band, as the band sorts them.
    pub(super) fn of_band(&self, band: usize, company: &Bits) -> OfBand<'_> {
        let shape = Shape { band, ..self.shape };
        let mut order: Vec<Place> = with_room(company.count() as usize);
        let mut before = 0;
        for (held, of_band) in self.pages.words().iter().zip(company.words()) {
            let mut left = of_band & held;
            while left != 0 {
                let lower = (left & left.wrapping_neg()) - 1;
                order.push((0, 0, before + (held & lower).count_ones()));
                left &= left - 1;
            }
            before += held.count_ones();
        }
        order.par_iter_mut().for_each(|place| {
            (place.0, place.1) = begins(shape.turned(self.record(place.2))[0]);
        });
        put_in_order(&mut order, |a, b| {
            let [a, b] = [a, b].map(|at| shape.turned(self.record(at)));
            a.cmp(&b)
        });
        OfBand { held: self, shape, order, next: 0, record: Vec::new() }
    }
}

/// The records of a band, in order.
pub(super) struct OfBand<'a> {
    held: &'a Held,
    shape: Shape,
    order: Vec<Place>,
    next: usize,
    record: Vec<u8>,
}

impl OfBand<'_> {
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        /// Records that are asked for ahead.
        const AHEAD: usize = 16;
        /// Bytes that come from memory at once.
        const LINE: usize = 64;
        let (held, width) = (self.held, self.shape.width());
        if let Some(&(_, _, ahead)) = self.order.get(self.next + AHEAD) {
            let start = ahead as usize * width;
            (start..start + width).step_by(LINE).for_each(|at| prefetch(&held.records, at));
            prefetch(&held.records, start + width - 1);
        }
        let &(_, _, at) = self.order.get(self.next)?;
        self.next += 1;
        self.record.clear();
        self.shape.turned(held.record(at)).iter().for_each(|part| self.record.extend_from_slice(part));
        Some(&self.record)
    }
}

#[cfg(test)]
mod tests {
    use super::super::join::Joiner;
    use super::super::sketch::sketched;
    use super::*;
    use crate::pipeline::Silent;
    use crate::settings::Settings;
    use simflip_core::hash::SplitMix64;
    use std::fs;

    #[test]
    fn records_that_are_held_come_as_those_that_are_sorted() {
        let mut rng = SplitMix64::new(7);
        let mut text = |at: usize| {
            let mut of_family = SplitMix64::new(at as u64 / 3);
            let mut words: Vec<String> = (0..50).map(|_| format!("w{}", of_family.below(9000))).collect();
            words[at % 50] = format!("w{}", rng.below(9000));
            words.join(" ")
        };
        let top = tempfile::tempdir().unwrap();
        let old = sketched(top.path(), "old", (0..500).map(&mut text), Settings::default());
        let new = sketched(top.path(), "new", (200..900).map(&mut text), Settings::default());
        let folder = Folder::open_against(&new, &[old]).unwrap();
        let joiner = Joiner::new(&folder, 1 << 30, &Silent).unwrap();
        fs::create_dir_all(folder.joined()).unwrap();
        joiner.all_company(&Bits::new(folder.pages())).unwrap();
        let bands = [0, 3, folder.files[0].layout.bands - 1];
        let mut pages = Bits::new(folder.pages());
        bands.iter().for_each(|&band| pages.add(&joiner.read_company(band).unwrap()));
        let held = Held::read(&folder, pages, joiner.shape(0), &|_| ()).unwrap();
        for band in bands {
            let mut sorted = joiner.sorted_records(band, top.path(), &|_| ()).unwrap();
            let (mut records, mut number) = (held.of_band(band, &joiner.read_company(band).unwrap()), 0);
            while let Some(record) = sorted.next().unwrap() {
                assert_eq!(records.next(), Some(record), "{number} of band {band}");
                number += 1;
            }
            assert!(records.next().is_none() && number > 200, "{number}");
        }
    }
}
