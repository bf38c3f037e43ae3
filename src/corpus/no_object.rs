//! A replacement for the module `object` in a build without the feature `stores`: every address is an error.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// An object in a store, of which no value exists in this build.
#[derive(Debug)]
pub(crate) enum Object {}

/// A reader of an object, of which no value exists.
pub(crate) type ObjectReader = Object;

/// An address that is written to, of which no value exists.
pub(crate) type PutTarget = Object;

fn absent<T>(what: &str) -> io::Result<T> {
    let message = format!(
        "this build has no object-store support, the feature `stores`: in a clone of the repository, \
         cargo install --path . --features html,serve,stores makes one that has it, or copy the {what}"
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

/// False for any address, so that [`Object::find`] reports it.
pub(crate) fn is_folder(_: &Path) -> bool {
    false
}

/// An error that names the feature.
pub(crate) fn list(_: &Path) -> io::Result<Vec<Arc<Object>>> {
    absent("file here")
}

/// Methods of the module `object` that are never called, since no object exists.
macro_rules! never {
    ($($name:ident($($of:ty),*) -> $result:ty;)*) => {
        $(pub fn $name(&self, $(_: $of),*) -> $result { match *self {} })*
    };
}

impl Object {
    /// An error that names the feature, for an input.
    pub fn find(_: &Path) -> io::Result<Arc<Self>> {
        absent("file here")
    }

    /// An error that names the feature, for a result that is to be written.
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
        move_to(u64) -> ();
        head(u64) -> io::Result<Vec<u8>>;
        try_out() -> io::Result<()>;
        put(&Path, &dyn Fn(u64)) -> io::Result<()>;
        remove() -> io::Result<()>;
    }
}

impl Read for Object {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}
