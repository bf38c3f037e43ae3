//! Many queries at once: the stored hashes pass in blocks, here as a file would give them, and need no index.
//!
//! `cargo run --release -p simflip-core --example batch`

// The prints of an example are as short as a first program's.
#![allow(clippy::print_stdout)]

use simflip_core::search::batch::{Batch, PsmBatchParams};
use simflip_core::search::bphs::BphsParams;
use simflip_core::search::{Mode, Query};
use simflip_core::{Settings, Sketcher};

fn main() -> simflip_core::Result<()> {
    let text = |number: usize, edited: bool| -> String {
        let word = |at: usize| match edited && at == 60 {
            true => format!("edited{number} "),
            false => format!("document{number}word{at} "),
        };
        (0..120).map(word).collect()
    };
    let mut sketcher = Sketcher::new(&Settings::simhash(), None)?;
    let mut stored: Vec<u64> =
        (0..3_000).map(|number| sketcher.simhash(&text(number, false)).0.hash).collect();
    stored.sort_unstable();
    let asked: Vec<_> = (0..500).map(|number| sketcher.simhash(&text(number, true)).0).collect();
    let queries: Vec<_> =
        asked.iter().map(|asked| Query { hash: asked.hash, weights: &asked.weights }).collect();
    let psm = PsmBatchParams::new(6, stored.len());
    let mut found = Vec::new();
    for (name, batch) in [
        ("PSM, 20 probes a query", Batch::psm(&queries, PsmBatchParams { budget: Some(20), ..psm })?),
        ("PSM, all probes", Batch::psm(&queries, psm)?),
        ("BPHS, 7 tables", Batch::bphs(&queries, BphsParams { radius: 6, tables: 7 })?),
    ] {
        let (mut pass, mut hits) = (batch.pass(Mode::All), Vec::new());
        for block in stored.chunks(256) {
            pass.block(block, &mut hits)?;
        }
        let compared = pass.cost().candidates;
        println!("{name}: {} matches, {compared} comparisons, {} bytes", hits.len(), batch.bytes());
        hits.sort_unstable();
        found.push(hits);
    }
    // Both exact methods find the same, and the budget a part of it.
    assert!(!found[1].is_empty() && found[1] == found[2]);
    assert!(found[0].iter().all(|hit| found[1].contains(hit)));
    Ok(())
}
