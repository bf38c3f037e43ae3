//! What a job of so many pages will take: stages, hours, memory and disk, from rates that were measured.

use super::estimate::{Estimate, in_memory, sketch_bytes};
use flipside_core::settings::Settings;
use serde::{Deserialize, Serialize};

/// Bytes on disk, stage by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Files of sketches and of names.
    pub sketches: f64,
    /// Pairs, copies and company, which stay.
    pub joined: f64,
    /// What sorting takes besides, at most.
    pub sorted: f64,
}

impl Disk {
    /// All of it together.
    pub fn most(&self) -> f64 {
        self.sketches + self.joined + self.sorted
    }
}

/// What pages come to that are not known yet: shares and sizes of the generated crawl whose rows are in
/// `experiments/results/stages`.
mod usual {
    /// Of a page's names, the share that is left of them compressed, with its place.
    pub const NAMES: f64 = 0.35;
    /// Pages that share a key of a band with another.
    pub const COMPANY: f64 = 0.3;
    /// Pairs of a page, each in one band.
    pub const PAIRS: f64 = 0.6;
}

/// What a run of so many pages with names of so many bytes takes on disk.
pub fn disk_bytes(pages: f64, names: f64, settings: &Settings) -> Disk {
    let width = sketch_bytes(settings) as f64;
    let bands = match settings.sketches {
        flipside_core::settings::Sketches::Both { banding, .. } => banding.bands as f64,
        _ => 0.0,
    };
    Disk {
        sketches: pages * (width + usual::NAMES * names),
        joined: pages * (bands / 8.0 + 16.0 * usual::PAIRS),
        sorted: pages * usual::COMPANY * (width + 5.0),
    }
}
