//! find-simdoc on a file of one document a line:
//! `simdoc FILE cosine|jaccard WINDOW RADIUS` prints pairs as CSV.
//!
//! Sketches of 640 bits, as in its documentation; cosine with its standard TF and IDF.

use find_simdoc::tfidf::{Idf, Tf};
use find_simdoc::{CosineSearcher, JaccardSearcher};
use std::error::Error;
use std::io::Write;

const CHUNKS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, space, window, radius] = arguments.as_slice() else {
        return Err("FILE cosine|jaccard WINDOW RADIUS".into());
    };
    let text = std::fs::read_to_string(path)?;
    let documents: Vec<&str> = text.lines().collect();
    let (window, radius): (usize, f64) = (window.parse()?, radius.parse()?);
    let pairs = if space == "cosine" {
        let searcher = CosineSearcher::new(window, Some(' '), Some(42))?;
        let idf = Idf::new().build(documents.iter(), searcher.config())?;
        let searcher = searcher.tf(Some(Tf::new())).idf(Some(idf));
        searcher.build_sketches(documents.iter(), CHUNKS)?.search_similar_pairs(radius)
    } else {
        let searcher = JaccardSearcher::new(window, Some(' '), Some(42))?;
        searcher.build_sketches(documents.iter(), CHUNKS)?.search_similar_pairs(radius)
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    writeln!(out, "a,b,similarity")?;
    for (a, b, distance) in pairs {
        writeln!(out, "{a},{b},{}", 1.0 - distance)?;
    }
    Ok(out.flush()?)
}
