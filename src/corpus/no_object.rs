//! What stands in for objects in stores in a build that does not read them.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const ABSENT: &str = "this build has no object-store support, the feature `stores`: cargo install simflip --features stores \
                      has it, or copy the file here";

/// An object that never is: there is no store.
#[derive(Debug)]
pub(crate) enum Object {}

impl Object {
    pub fn find(_: &Path) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, ABSENT))
    }

    pub fn address(&self) -> &Path {
        match *self {}
    }

    pub fn length(&self) -> u64 {
        match *self {}
    }

    pub fn open(&self) -> io::Result<Box<ObjectReader>> {
        match *self {}
    }

    pub fn read_ahead(&self) -> u64 {
        match *self {}
    }

    pub fn head(&self, _: u64) -> io::Result<Vec<u8>> {
        match *self {}
    }

    pub fn is_as_found(&self) -> bool {
        match *self {}
    }

    pub fn version(&self) -> Option<String> {
        match *self {}
    }

    pub fn failure(&self) -> Option<io::Error> {
        match *self {}
    }
}

/// An address to which nothing is put.
pub(crate) enum Prefix {}

impl Prefix {
    pub fn of(_: &Path) -> io::Result<Self> {
        let absent = "this build has no object-store support, the feature `stores`: cargo install simflip --features stores \
                      has it, or copy the result there";
        Err(io::Error::new(io::ErrorKind::Unsupported, absent))
    }

    pub fn address(&self, _: &str) -> io::Result<PathBuf> {
        match *self {}
    }

    pub fn list(&self) -> io::Result<Vec<(String, u64)>> {
        match *self {}
    }

    pub fn head(&self, _: &str, _: u64) -> io::Result<Vec<u8>> {
        match *self {}
    }

    pub fn try_out(&self) -> io::Result<()> {
        match *self {}
    }

    pub fn put(&self, _: &str, _: &Path, _: &dyn Fn(u64)) -> io::Result<()> {
        match *self {}
    }

    pub fn remove(&self, _: &str) -> io::Result<()> {
        match *self {}
    }
}

pub(crate) fn is_folder(_: &Path) -> bool {
    false
}

pub(crate) fn list(_: &Path) -> io::Result<Vec<Object>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, ABSENT))
}

/// Reads nothing.
#[derive(Debug)]
pub(crate) enum ObjectReader {}

impl ObjectReader {
    pub fn length(&self) -> u64 {
        match *self {}
    }

    pub fn within(&self, _: u64, _: u64) -> io::Result<Box<Self>> {
        match *self {}
    }
}

impl Read for ObjectReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        match *self {}
    }
}
