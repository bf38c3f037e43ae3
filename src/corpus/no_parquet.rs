//! What stands in for the reader of Parquet files in a build without it: such files are damage.

use std::convert::Infallible;
use std::path::Path;

use super::block::Block;
use super::damage::DamageKind;
use super::inputs::Input;
use super::{Document, KeptFile, Place, ReadOptions};
use crate::document::DocId;
use crate::{Error, Result};

/// How a Parquet file starts.
pub(crate) const MAGIC: [u8; 4] = *b"PAR1";

const ABSENT: &str =
    "Parquet, which this build of flipside does not read; build it with the feature `parquet`";

pub(crate) fn panic_is_damage() -> bool {
    false
}

/// Rows that are never read.
#[derive(Debug)]
pub(crate) struct Rows(Infallible);

impl Rows {
    pub fn open(_: &Input, _: &ReadOptions) -> Result<Self, (DamageKind, String)> {
        Err((DamageKind::UnknownFormat, ABSENT.to_owned()))
    }

    pub fn next_block(&mut self, _: &mut Block) -> bool {
        match self.0 {}
    }
}

/// A row group that is never read.
#[derive(Debug)]
pub(crate) struct Group(Infallible);

impl Group {
    pub fn next(&mut self, _: &mut Block) -> bool {
        match self.0 {}
    }
}

/// A row that is never read.
#[derive(Debug)]
pub(crate) struct Row(Infallible);

impl Row {
    pub fn place(&self) -> (u64, u64) {
        match self.0 {}
    }

    pub fn document<T>(
        &self,
        _: u32,
        _: &ReadOptions,
        _: &mut dyn FnMut(DamageKind, String),
        _: impl FnOnce(Document<'_>) -> T,
    ) -> Option<T> {
        match self.0 {}
    }
}

pub(crate) fn fetch(
    _: &Input,
    _: &ReadOptions,
    wanted: &[(DocId, Place)],
    _: impl FnMut(Document<'_>),
    wrong: impl Fn(Place, String) -> Error,
) -> Result<()> {
    wanted.first().map_or(Ok(()), |&(_, place)| Err(wrong(place, ABSENT.to_owned())))
}

pub(crate) fn write_kept(
    _: &[Input],
    _: &ReadOptions,
    _: &[(DocId, Place)],
    _: &Path,
    _: &rayon::ThreadPool,
) -> Result<Vec<KeptFile>> {
    Ok(Vec::new())
}
