//! Items of benchmarks in texts.

use crate::errors::of_core;
use crate::run::{Ticker, run_part};
use crate::sketches::pool;
use crate::table::Table;
use crate::texts::{self, Repaired, Texts};
use arrow_array::{ArrayRef, Float32Array, UInt32Array, UInt64Array};
use pyo3::prelude::*;
use rayon::prelude::*;
use simflip::core::contamination::{Finder, FoundPassage, Items, Rules};
use simflip::pipeline::Progress;
use std::sync::Arc;

/// An item in a text.
struct Match {
    text: u32,
    item: u32,
    share: f64,
    /// Where it begins and ends, in characters.
    span: [u64; 2],
}

/// Which items stand in which texts: see the package's `decontaminate`. Texts and items come with the names of their
/// columns; rules are the words of an n-gram, the share of an item, and the words of the shortest item.
///
/// # Errors
/// `ValueError` for rules that have no meaning.
#[pyfunction]
#[pyo3(signature = (texts, items, rules, threads, progress=None))]
pub fn decontaminate<'py>(
    py: Python<'py>,
    texts: (Bound<'py, PyAny>, String),
    items: (Bound<'py, PyAny>, String),
    rules: (usize, f64, usize),
    threads: usize,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Table> {
    let (held_items, (texts, column)) = (Texts::new(&items.0, &items.1)?, texts);
    let items: Vec<&str> = held_items.rows()?.into_iter().map(Option::unwrap_or_default).collect();
    let (pool, ticker, (ngram, share, min_words)) = (pool(threads)?, Ticker::new(), rules);
    let items = pool.install(|| Items::new(&items, Rules { ngram, share, min_words })).map_err(of_core)?;
    let (mut stream, mut repaired) = (texts::Items::new(&texts)?, Repaired::default());
    let (mut found, mut before): (Vec<(u32, FoundPassage, [u64; 2])>, usize) = (Vec::new(), 0);
    while let Some(batch) = stream.take()? {
        let held = batch.repaired_texts("text", &column, &mut repaired)?;
        let texts = held.rows()?;
        if before == 0 {
            // A stream does not say how much there is.
            ticker.begin("decontaminate", if stream.is_stream() { 0 } else { texts.len() as u64 }, "texts");
        }
        let find = |finder: &mut Finder<'_>, (number, text): (usize, &Option<&str>)| {
            ticker.advance(1);
            let text = text.unwrap_or_default();
            // Python counts characters.
            let characters = |bytes: usize| text[..bytes].chars().count() as u64;
            let of = |found: FoundPassage| {
                let span = [found.bytes.start, found.bytes.end].map(characters);
                ((before + number) as u32, found, span)
            };
            finder.find(text).into_iter().map(of).collect::<Vec<_>>()
        };
        let in_part = run_part(py, &ticker, progress, |_| {
            let texts = texts.par_iter().enumerate();
            pool.install(|| texts.map_init(|| Finder::new(&items), find).flatten_iter().collect::<Vec<_>>())
        })?;
        found.extend(in_part);
        before += texts.len();
    }
    repaired.warn(py)?;
    let of = |(text, found, span): (u32, FoundPassage, [u64; 2])| {
        let share = items.share(&found, before as u64)?;
        Some(Match { text, item: found.item, share, span })
    };
    let matches: Vec<Match> = found.into_iter().filter_map(of).collect();
    let numbers = |of: fn(&Match) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(matches.iter().map(of)))
    };
    let places = |at: usize| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(matches.iter().map(|found| found.span[at])))
    };
    let shares = Float32Array::from_iter_values(matches.iter().map(|found| found.share as f32));
    Table::of(vec![
        ("text", numbers(|found| found.text), false),
        ("item", numbers(|found| found.item), false),
        ("share", Arc::new(shares), false),
        ("begin", places(0), false),
        ("end", places(1), false),
    ])
}
