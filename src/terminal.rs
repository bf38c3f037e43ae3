//! Lines on standard output and standard error. Both may be closed, or their reader gone: a run whose messages nobody
//! reads still has a result to write.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Writes a line on standard error. Whatever goes wrong is ignored, for there is nowhere to report it.
pub fn note(line: impl Display) {
    // One call, so that lines of several threads and processes do not mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Writes a line on standard output.
///
/// # Errors
/// As [`print()`].
pub fn say(line: impl Display) -> io::Result<()> {
    print(format!("{line}\n").as_bytes())
}

/// Writes bytes on standard output. If its reader has gone, as `head` goes once it has enough, they are dropped.
///
/// # Errors
/// If they cannot be written for another reason, such as a full disk.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
