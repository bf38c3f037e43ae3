//! What an experiment measures, as data: the file `configs/NAME.toml`, read when it runs.

use crate::Options;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A number in a full run, and in one with `--quick`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    pub full: usize,
    pub quick: usize,
}

/// Reads the file of this name.
pub fn read<T: DeserializeOwned>(options: &Options, name: &str) -> Result<T> {
    let path = options.configs().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}
