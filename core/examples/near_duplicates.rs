//! Near-duplicates of texts in memory.
//!
//! `cargo run -p simflip-core --example near_duplicates`

// The prints of an example are as short as a first program's.
#![allow(clippy::print_stdout)]

use simflip_core::{Deduper, Settings};

fn main() -> simflip_core::Result<()> {
    let texts = vec![
        "Opening hours: Monday to Friday from nine to five, Saturday from ten to two. Closed on Sunday.",
        "The harbour is deep enough for ships of every size, and open to them all year round.",
        "Opening hours: Monday to Friday from nine to five, Saturday from ten to two; closed on Sunday!",
    ];
    let mut deduper = Deduper::new(Settings::both(0.8))?;
    deduper.extend(&texts);
    let outcome = deduper.run()?;
    for pair in &outcome.pairs {
        println!("{} ~ {}: {} bits differ, similarity {:.3}", pair.a, pair.b, pair.distance, pair.similarity);
    }
    outcome.kept().for_each(|kept| println!("kept: {}", texts[kept.0 as usize]));
    assert_eq!(outcome.pairs.len(), 1);
    assert_eq!(outcome.removed(), 1);
    Ok(())
}
