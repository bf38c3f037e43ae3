//! A growing index: has this document, or nearly this document, been seen before?
//!
//! `cargo run -p simflip-core --example growing`

// The prints of an example are as short as a first program's.
#![allow(clippy::print_stdout)]

use simflip_core::Sketcher;
use simflip_core::index::{Index, IndexSettings};

fn main() -> simflip_core::Result<()> {
    let bus = "Timetable of the night bus: it leaves the station at one, at two and at three, calls at the old harbour, \
               at the theatre and at the university, and waits there for the last train from the south. Tickets are sold \
               by the driver; dogs travel free, bicycles only when there is room. On the nights before holidays";
    let texts = [
        format!("{bus} it runs every half hour."),
        "A recipe for bread with rye flour, water, salt and a spoon of honey, baked for an hour.".to_owned(),
        format!("{bus} it runs every hour."),
    ];
    let settings = IndexSettings::both(0.8);
    let (mut sketcher, mut index) = (Sketcher::new(&settings, None)?, Index::new(&settings)?);
    let mut near = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let sketch = sketcher.sketch(text);
        match index.ask(&sketch)?.near.first() {
            Some(found) => {
                println!(
                    "document {number}: near document {}, similarity {:.2}",
                    found.document, found.similarity
                );
                near.push(number);
            }
            None => println!("document {number}: new"),
        }
        index.add(&sketch)?;
    }
    assert_eq!(near, [2]);
    Ok(())
}
