//! A replacement for the reader of Parquet and Arrow files, for a build without it: such files are damage.

use std::path::Path;

use super::damage::{DamageCause, DamageKind, FileReading, TooLong};
use super::document::Document;
use super::filetype::Format;
use super::inputs::Input;
use super::kept::Kept;
use super::options::ReadOptions;
use super::reader::ReadInput;
use super::write::KeptJob;
use crate::document::{DocId, Place};
use crate::{Error, Result};

const ABSENT: &str =
    "Parquet or Arrow, which this build of simflip does not read; build it with the feature `parquet`";

pub(crate) fn column_names(_: &Input) -> Vec<String> {
    Vec::new()
}

pub(crate) fn held(_: &Input) -> u64 {
    0
}

/// Rows that are never read: there is no such reader.
#[derive(Debug)]
pub(crate) enum Rows {}

impl Rows {
    pub fn open(_: &Input, _: &ReadOptions) -> Result<Self, DamageCause> {
        Err((DamageKind::UnknownFormat, ABSENT.to_owned()))
    }

    pub fn claimed(&self) -> (u64, u64) {
        match *self {}
    }

    pub fn next_block(&mut self, _: &mut Batch, _: &mut FileReading) -> bool {
        match *self {}
    }
}

/// No rows.
#[derive(Debug, Default)]
pub(crate) struct Batch;

impl Batch {
    pub fn process(
        &mut self,
        _: ReadInput<'_>,
        _: u64,
        _: &mut FileReading,
        _: &mut impl FnMut(Document<'_>),
    ) -> Option<TooLong> {
        None
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

/// Nothing is copied.
pub(crate) const GROUP_BYTES: u64 = 0;

pub(crate) fn write_kept(
    _: Format,
    _: &KeptJob<'_>,
    _: &[String],
    _: &Path,
    _: &rayon::ThreadPool,
) -> Result<Kept> {
    Ok(Kept::default())
}
