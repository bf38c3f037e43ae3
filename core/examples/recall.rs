//! The number of probes that find 95 % of the near-duplicates, measured on the hashes that are searched, for the
//! paper's PSM and for the dial.
//!
//! `cargo run --release -p simflip-core --example recall`

// The prints of an example are as short as a first program's.
#![allow(clippy::print_stdout)]

use simflip_core::calibrate::{SampleParams, recall};
use simflip_core::search::Probing;
use simflip_core::search::dial::{Dial, DialParams};
use simflip_core::search::distinct::DistinctHashes;
use simflip_core::search::psm::{FlippedBits, Psm, PsmParams};
use simflip_core::{Settings, Sketcher};

fn main() -> simflip_core::Result<()> {
    // Documents of 120 words in versions of which each has some words of its own.
    let text = |document: usize, version: usize| -> String {
        let word = |at: usize| match (at + 7 * version) % 120 < 3 * version {
            true => format!("version{version}of{document}word{at} "),
            false => format!("document{document}word{at} "),
        };
        (0..120).map(word).collect()
    };
    let mut sketcher = Sketcher::new(&Settings::simhash(), None)?;
    let sketches: Vec<_> =
        (0..8_000).map(|number| sketcher.simhash(&text(number / 4, number % 4)).0).collect();
    let distinct = DistinctHashes::new(&sketches.iter().map(|sketch| sketch.hash).collect::<Vec<_>>());
    let weights = |slot| sketches[distinct.members(slot)[0].0 as usize].weights;
    let psm = Psm::new(
        distinct.hashes(),
        PsmParams { radius: 6, flipped_bits: FlippedBits::Key { key_bits: None }, ..PsmParams::default() },
    )?;
    let dial = Dial::new(distinct.hashes(), DialParams { radius: 6, tables: 3, ..DialParams::default() })?;
    let indexes: [Box<dyn Probing>; 2] = [Box::new(psm), Box::new(dial)];
    for mut index in indexes {
        // One sample answers for any recall.
        let wanted = [0.8, 0.95, 0.99];
        let measured = recall(&*index, distinct.hashes(), weights, &wanted, SampleParams::default())?;
        println!("{}, within {} bits, {} probes in all", index.name(), index.radius(), index.all_probes());
        for (wanted, found) in wanted.iter().zip(&measured) {
            let probes = found.budget.map_or("all".to_owned(), |budget| budget.to_string());
            let (reached, low, high) = (found.reached, found.low, found.high);
            println!(
                "  {wanted}: {probes} probes, {reached:.3} [{low:.3}, {high:.3}] of {} held-out pairs",
                found.held_out
            );
        }
        index.set_budget(measured[1].budget);
        assert!(measured[1].high >= 0.95);
    }
    Ok(())
}
