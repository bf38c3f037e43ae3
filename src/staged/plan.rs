//! What a job of so many pages will take: stages, hours, memory and disk, from rates that were measured.

use super::estimate::sketch_bytes;
use flipside_core::settings::{Settings, Sketches};
use serde::{Deserialize, Serialize};

/// Bytes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Files of sketches.
    pub sketches: f64,
    /// Files of names.
    pub names: f64,
    /// Pairs, copies and company.
    pub joined: f64,
    /// What sorting a band takes besides, while it is joined.
    pub sorted: f64,
    /// Names that are looked up, once all is clustered; tables alone take them.
    pub looked_up: f64,
}

impl Disk {
    /// The most that there is at once, tables included.
    pub fn most(&self) -> f64 {
        self.sketches + self.names + self.joined + self.sorted.max(self.looked_up)
    }
}

/// What pages come to that is not known before they are joined: as it is in the generated crawl whose rows are in
/// `experiments/results/stages`.
mod usual {
    /// Of a page, the share that shares a key of a band with others.
    pub const COMPANY: f64 = 0.3;
    /// Pairs of a page, over all bands.
    pub const PAIRS: f64 = 0.25;
}

/// What a run of so many pages takes on disk, of which ids and URLs have so many bytes, as they are and compressed, if
/// `memory` bytes are sorted in memory.
pub fn disk_bytes(pages: f64, [names, packed]: [f64; 2], settings: &Settings, memory: f64) -> Disk {
    /// Bytes of a page's place, compressed, and as it is.
    const PLACE: [f64; 2] = [4.0, 20.0];
    let Sketches::Both { banding, .. } = settings.sketches else { return Disk::default() };
    let width = sketch_bytes(settings) as f64;
    let sorted = pages * usual::COMPANY * (width + 5.0);
    Disk {
        sketches: pages * width,
        names: pages * (packed + PLACE[0]),
        joined: pages * (banding.bands as f64 / 8.0 + 16.0 * usual::PAIRS),
        sorted: if sorted > memory / 2.0 { sorted } else { 0.0 },
        looked_up: pages * (names + PLACE[1]),
    }
}
