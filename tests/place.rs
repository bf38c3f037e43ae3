//! What tests of the command line share: a folder of their own, documents, and compression.

use super::cli::simflip;
use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The names of what is in a folder, sorted.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

/// A folder of its own for a test, and commands that run there.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Writes a file, and the folders above it.
    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A command; its arguments stand between single blanks.
    pub fn run(&self, arguments: &str) -> Command {
        let mut command = simflip();
        command.current_dir(self.folder()).args(arguments.split(' '));
        command
    }

    /// Runs it, and gives what it said on standard error.
    pub fn reported(&self, arguments: &str, code: i32) -> String {
        let run = self.run(arguments).assert().code(code);
        String::from_utf8(run.get_output().stderr.clone()).unwrap()
    }

    /// The report in a folder of results.
    pub fn report(&self, folder: &str) -> Value {
        serde_json::from_slice(&fs::read(self.at(folder).join("report.json")).unwrap()).unwrap()
    }
}

/// A file without its compression, and what that is.
pub fn unpacked(path: &Path) -> (Vec<u8>, &'static str) {
    let bytes = fs::read(path).unwrap();
    let mut plain = Vec::new();
    match bytes[..] {
        [0x1f, 0x8b, ..] => {
            flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
            (plain, "gzip")
        }
        [0x28, 0xb5, ..] => (zstd::stream::decode_all(&bytes[..]).unwrap(), "zstd"),
        _ => (bytes, "plain"),
    }
}

/// A text of so many words, none of which another document has.
pub fn words(document: usize, words: usize) -> String {
    (0..words).map(|at| format!("word{} ", document * 1_000 + at)).collect()
}

pub fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).unwrap()
}

/// Whether a process was asked to ignore a signal.
#[cfg(unix)]
fn is_ignored(process: u32, signal: i32) -> bool {
    has_signal(process, "SigIgn:", signal)
}

/// Whether a process does something of its own on a signal.
#[cfg(unix)]
pub fn is_caught(process: u32, signal: i32) -> bool {
    has_signal(process, "SigCgt:", signal)
}

/// Sends a signal as a terminal or another program does; false if the process ignores it, as in the background of a
/// shell or under `nohup`, where tests may run: then it is killed and gone.
#[cfg(unix)]
pub fn ends_by(child: &mut std::process::Child, signal: &str, number: i32) -> bool {
    if is_ignored(child.id(), number) {
        child.kill().unwrap();
        child.wait().unwrap();
        return false;
    }
    let status = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(status.unwrap().success());
    true
}

#[cfg(unix)]
fn has_signal(process: u32, mask: &str, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(mask));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1)
}
