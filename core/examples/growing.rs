//! A growing index: has a page, or nearly this page, been met before?
//!
//! `cargo run -p simflip-core --example growing`

// The prints of an example are as short as a first program's.
#![allow(clippy::print_stdout)]

use simflip_core::search::dial::DialParams;
use simflip_core::search::online::Online;
use simflip_core::search::{HammingIndex, Mode, Query, Scratch};
use simflip_core::{Settings, Sketcher};

fn main() -> simflip_core::Result<()> {
    let bus = "Timetable of the night bus: it leaves the station at one, at two and at three, calls at the old harbour, \
               at the theatre and at the university, and waits there for the last train from the south. Tickets are sold \
               by the driver; dogs travel free, bicycles only when there is room. On the nights before holidays";
    let pages = [
        format!("{bus} it runs every half hour."),
        "A recipe for bread with rye flour, water, salt and a spoon of honey, baked for an hour.".to_owned(),
        format!("{bus} it runs every hour."),
    ];
    let mut sketcher = Sketcher::new(&Settings::simhash(), None)?;
    let params = DialParams { radius: 12, tables: 7, ..DialParams::default() };
    let mut index = Online::new(params, 1 << 16)?;
    let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
    let mut near = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        let (page, _) = sketcher.simhash(page);
        hits.clear();
        let query = Query { hash: page.hash, weights: &page.weights };
        index.search(query, Mode::All, &mut scratch, &mut hits);
        match hits.iter().min_by_key(|hit| hit.distance) {
            Some(hit) => {
                println!("page {number}: near an earlier one, {} bits away", hit.distance);
                near.push(number);
            }
            None => println!("page {number}: new"),
        }
        index.insert(page.hash)?;
    }
    assert_eq!(near, [2]);
    Ok(())
}
