//! From hashes to neighbours: an index of SimHashes that probes where the likeliest flips lead,
//! and what fewer probes find.
//!
//! `cargo run -p simflip-core --example neighbours`

// The prints of an example are as short as a first program's.
#![allow(clippy::print_stdout)]

use simflip_core::search::dial::{Dial, DialParams};
use simflip_core::search::distinct::DistinctHashes;
use simflip_core::search::{Cost, HammingIndex, Mode, Query, Scratch};
use simflip_core::{Settings, Sketcher};

fn main() -> simflip_core::Result<()> {
    // Documents of one form each, with some of the words changed.
    let document = |number: usize, changed: usize| -> String {
        let word = |at: usize| match at % 40 < changed {
            true => format!("new{number}x{at} "),
            false => format!("document{number}word{at} "),
        };
        (0..120).map(word).collect()
    };
    let mut sketcher = Sketcher::new(&Settings::simhash(), None)?;
    let stored: Vec<u64> = (0..500).map(|number| sketcher.simhash(&document(number, 0)).0.hash).collect();
    let distinct = DistinctHashes::new(&stored);
    for budget in [None, Some(2)] {
        let params = DialParams { budget, radius: 6, tables: 4, ..DialParams::default() };
        let index = Dial::new(distinct.hashes(), params)?;
        let (mut scratch, mut hits, mut cost) = (Scratch::default(), Vec::new(), Cost::default());
        for number in 0..500 {
            let (asked, _) = sketcher.simhash(&document(number, 1));
            // The weights say which bits are the likeliest to differ.
            let query = Query { hash: asked.hash, weights: &asked.weights };
            cost += index.search(query, Mode::All, &mut scratch, &mut hits);
        }
        println!("{}: {} neighbours within 6 bits, {} probes", index.name(), hits.len(), cost.probes);
        assert!(hits.iter().all(|hit| hit.distance <= 6));
    }
    Ok(())
}
