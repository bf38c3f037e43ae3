//! `simflip hash`

use super::arguments::FeatureArgs;
use super::{Done, print_json, print_text};
use anyhow::Context;
use serde::Serialize;
use simflip::display::printable_path;
use simflip::hash::FeatureHash;
use simflip::simhash::volatility::{FlipCost, Volatility};
use simflip::simhash::vosh::Vosh;
use simflip::simhash::{BITS, SimHash};
use simflip::sketch::Sketcher;
use simflip::text::Extraction;
use simflip::weight::frequencies::Frequencies;
use std::fmt::Write;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// Show the SimHash of a document, its weights, and the bits likely to flip.
///
/// Reads one UTF-8 text. --weighting tf-idf without --frequencies counts every feature as equally rare, so
/// only the (sublinear) term frequency matters.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip hash document.txt
  echo 'a rose is a rose' | simflip hash - --features shingles:2 --json")]
pub(crate) struct HashArgs {
    /// A text file, or - for standard input
    #[arg(default_value = "-")]
    file: PathBuf,

    #[command(flatten)]
    features: FeatureArgs,

    /// Number of likeliest sets of flips to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    flips: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ShownHashes {
    hash: String,
    features: usize,
    /// Bit number (0 is the least significant), its value and weight, weakest first.
    order: Vec<Bit>,
    /// Sets of at most three bits, likeliest first.
    flips: Vec<Flip>,
}

#[derive(Serialize)]
struct Bit {
    bit: u32,
    value: u8,
    weight: f32,
}

#[derive(Serialize)]
struct Flip {
    bits: Vec<u32>,
    cost: f32,
    hash: String,
}

impl HashArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        self.features.check()?;
        let text = self.text()?;
        let hash = self.features.hash_or(FeatureHash::Murmur3);
        let extraction = Extraction { kind: self.features.features(), hash };
        let frequencies = match &self.features.frequencies {
            Some(path) => simflip::frequencies::load(path, extraction)?,
            None => Frequencies::new(extraction),
        };
        let weighting = self.features.weighting();
        let (simhash, features) =
            Sketcher::of_simhash(extraction, weighting, Some(Arc::new(frequencies))).simhash(&text);
        let shown = show(&simhash, features, self.flips);
        if self.json { print_json(&shown) } else { print_text(&table(&simhash, &shown)?) }
    }

    fn text(&self) -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        let name = printable_path(&self.file);
        if self.file.as_os_str() == "-" {
            std::io::stdin().lock().read_to_end(&mut bytes).context("standard input")?;
        } else {
            bytes = std::fs::read(&self.file).with_context(|| name.to_string())?;
        }
        String::from_utf8(bytes).map_err(|e| {
            anyhow::anyhow!(
                "{name}: byte {}: not UTF-8; convert the text first",
                e.utf8_error().valid_up_to()
            )
        })
    }
}

fn show(simhash: &SimHash, features: usize, flips: usize) -> ShownHashes {
    let mut order = Volatility::default();
    order.rank(&simhash.weights, u64::MAX, FlipCost::Abs, BITS);
    let bit = |&bit: &u8| Bit {
        bit: u32::from(bit),
        value: (simhash.hash >> bit & 1) as u8,
        weight: simhash.weights[usize::from(bit)],
    };
    let mut vosh = Vosh::default();
    vosh.start(&simhash.weights, u64::MAX, FlipCost::Abs, 1..=3, flips);
    let flips = vosh.take(flips).map(|flip| Flip {
        bits: (0..BITS as u32).filter(|&j| flip.mask >> j & 1 == 1).collect(),
        cost: (0..BITS).filter(|&j| flip.mask >> j & 1 == 1).map(|j| simhash.weights[j].abs()).sum(),
        hash: format!("{:016x}", simhash.hash ^ flip.mask),
    });
    ShownHashes {
        hash: format!("{:016x}", simhash.hash),
        features,
        flips: flips.collect(),
        order: order.bits().iter().map(bit).collect(),
    }
}

fn table(simhash: &SimHash, shown: &ShownHashes) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(text, "simhash   {}", shown.hash)?;
    writeln!(text, "bits      {:064b}  (63 … 0)", simhash.hash)?;
    writeln!(text, "features  {}\n", shown.features)?;
    writeln!(text, "bits in order of volatility, the likeliest to flip first")?;
    writeln!(text, "{:>5} {:>4} {:>6} {:>9}", "rank", "bit", "value", "weight")?;
    for (rank, bit) in (1..).zip(&shown.order) {
        writeln!(text, "{rank:>5} {:>4} {:>6} {:>+9.4}", bit.bit, bit.value, bit.weight)?;
    }
    writeln!(text, "\nlikeliest sets of at most three flips")?;
    writeln!(text, "{:>5}  {:<12} {:>9}  hash", "probe", "bits", "cost")?;
    for (probe, flip) in (1..).zip(&shown.flips) {
        let bits: Vec<String> = flip.bits.iter().map(ToString::to_string).collect();
        writeln!(text, "{probe:>5}  {:<12} {:>9.4}  {}", bits.join(" "), flip.cost, flip.hash)?;
    }
    Ok(text)
}
