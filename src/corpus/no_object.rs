//! A replacement for objects in stores, for a build that does not read them.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// An object that never is: there is no store.
#[derive(Debug)]
pub(crate) enum Object {}

/// Reads nothing.
pub(crate) type ObjectReader = Object;

/// An address to which nothing is put.
pub(crate) type Prefix = Object;

fn absent<T>(what: &str) -> io::Result<T> {
    let message = format!(
        "this build has no object-store support, the feature `stores`: cargo install simflip --features stores has it, \
         or copy the {what}"
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

pub(crate) fn is_folder(_: &Path) -> bool {
    false
}

pub(crate) fn list(_: &Path) -> io::Result<Vec<Object>> {
    absent("file here")
}

/// Methods that are never called.
macro_rules! never {
    ($($name:ident($($of:ty),*) -> $result:ty;)*) => {
        $(pub fn $name(&self, $(_: $of),*) -> $result { match *self {} })*
    };
}

impl Object {
    pub fn find(_: &Path) -> io::Result<Self> {
        absent("file here")
    }

    pub fn of(_: &Path) -> io::Result<Self> {
        absent("result there")
    }

    never! {
        address() -> &Path;
        length() -> u64;
        open() -> Box<ObjectReader>;
        within(u64, u64) -> Box<ObjectReader>;
        read_ahead() -> u64;
        is_as_found() -> bool;
        version() -> Option<String>;
        failure() -> Option<io::Error>;
        head(u64) -> io::Result<Vec<u8>>;
        address_of(&str) -> io::Result<PathBuf>;
        list() -> io::Result<Vec<(String, u64)>>;
        head_of(&str, u64) -> io::Result<Vec<u8>>;
        try_out() -> io::Result<()>;
        put(&str, &Path, &dyn Fn(u64)) -> io::Result<()>;
        remove(&str) -> io::Result<()>;
    }
}

impl Read for Object {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}

impl Seek for Object {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        match *self {}
    }
}
