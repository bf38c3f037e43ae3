//! Marks of a result's documents, as other programs read them: datatrove's lists of documents to drop, Dolma's
//! attributes, NumPy's arrays.
//!
//! The first two count what they read by themselves, so the files of the result are read once more, in order. A
//! document's row ([`crate::corpus::Document::id`]) counts lines that are corrupt or have no text, which these programs
//! pass over.

use crate::corpus::{
    self, DiscoverOptions, Discovered, Document, Format, Input, ReadOptions, discover_all, pack, split_name,
};
use crate::display::counted;
use crate::error::{Error, Result};
use crate::pipeline::output::OutputFolder;
use crate::pipeline::{Progress, with_threads};
use crate::report::model::{FileRow, Report};
use crate::tables::{self, ClustersReader, TableRow};
use rayon::prelude::*;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The program that the marks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// datatrove's `MinhashDedupFilter`: each file is a task. `000000.remove` lists the removed documents (32 bits
    /// each, little-endian, counted from 0 among the documents with a text). `000000.clusters` and `000000.sizes` each
    /// document of a cluster with the number of the cluster and of its documents. `tasks.csv` says which file is which
    /// task: the files in the order of their names' bytes, as datatrove deals them out to as many tasks as files.
    Datatrove,
    /// NumPy: for each file, in the same order, `000000.npy`, an array of truth values up to the last document. Each is
    /// for a row as our tables count them. It is true if the document is kept, and false for a row that is no document.
    Numpy,
    /// Dolma's mixer: for each file of lines of JSON one of the same name under `attributes/simflip/`, with the id of
    /// every document. Removed documents have the attribute `simflip_duplicate`, from 0 to the length of the text in
    /// characters.
    Dolma,
}

/// The result to mark, and the folder for the marks.
#[derive(Clone, Debug)]
pub struct MarkJob {
    /// A folder that [`dedup`](crate::pipeline::dedup()) has written.
    pub result: PathBuf,
    /// The program that the marks are for.
    pub filter: Filter,
    /// The options by which the run read its documents. A text field that the report names counts where none is given
    /// here.
    pub options: ReadOptions,
    /// The folder to make.
    pub out: PathBuf,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
}

/// The outcome of marking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Input files of the result, each of which has marks now.
    pub files: u64,
    /// Documents in these files.
    pub documents: u64,
    /// Removed documents among them.
    pub removed: u64,
}

/// A document of a cluster.
struct ClusterMember {
    row: u32,
    cluster: u32,
    size: u32,
    kept: bool,
}

/// A file of the result, with its documents that are in clusters, in order.
struct Marks<'r> {
    input: Input,
    /// The row of the file in the report.
    row: &'r FileRow,
    members: Vec<ClusterMember>,
}

/// Writes the marks of all documents of a result into a new folder.
///
/// The files of the result must be where they were, and as they were.
///
/// # Errors
/// If the folder is no result, or is of an earlier version whose clusters do not say where a document stands. If an
/// input file is gone or has changed, or for Dolma is not JSONL. If `out` is there already, or the marks cannot be
/// written. Then there is no new folder.
pub fn mark(job: &MarkJob, progress: &dyn Progress) -> Result<Marked> {
    let report = Report::of_result(&job.result)?;
    OutputFolder::must_be_new("out", &job.out)?;
    if report.settings.is_none() {
        return Err(earlier(&job.result.join("report.json")));
    }
    let mut options = ReadOptions { threads: 1, ..job.options.clone() };
    options.fields = report.fields(options.fields);
    let marks = marks(job, &report.files, &options)?;
    let folder = OutputFolder::begin(&job.out, false)?;
    let bytes: u64 = marks.iter().map(|file| file.input.stored_bytes()).sum();
    progress.during("mark", bytes.max(1), "bytes", |_| {
        with_threads(job.threads, || match job.filter {
            Filter::Datatrove => tasks(&marks, folder.path(), |file| of_datatrove(file, &options, progress)),
            Filter::Numpy => tasks(&marks, folder.path(), |file| of_numpy(file, &options, progress)),
            Filter::Dolma => attributes(&marks, &options, folder.path(), progress),
        })
    })??;
    folder.finish()?;
    let members = marks.iter().flat_map(|file| &file.members);
    Ok(Marked {
        files: marks.len() as u64,
        documents: marks.iter().map(|file| file.row.documents).sum(),
        removed: members.filter(|member| !member.kept).count() as u64,
    })
}

fn earlier(path: &Path) -> Error {
    Error::Format {
        path: path.to_path_buf(),
        field: "version",
        expected: "one that says where each document stands".to_owned(),
        got: "earlier".to_owned(),
        advice: "run simflip dedup again",
    }
}

/// The files of a result in its order, each with its documents that are in clusters.
fn marks<'r>(job: &MarkJob, files: &'r [FileRow], options: &ReadOptions) -> Result<Vec<Marks<'r>>> {
    let found = |row: &'r FileRow| -> Result<Marks<'r>> {
        let path = PathBuf::from(&row.path);
        let discovery = DiscoverOptions { fields: options.fields.clone(), ..DiscoverOptions::default() };
        if let Some(why) = corpus::gone(&path) {
            let expected = format!("a result whose input files are there as they were; {why}");
            return Err(Error::parameter("result", job.result.display(), expected));
        }
        let Discovered { inputs, .. } = discover_all(&[path], &discovery)?;
        let [input] = <[Input; 1]>::try_from(inputs).map_err(|_| changed(row, row.documents))?;
        if job.filter == Filter::Dolma && input.format != Format::Jsonl {
            let expected =
                format!("a result of lines of JSON, as Dolma has; {} is none", input.path.display());
            return Err(Error::parameter("result", job.result.display(), expected));
        }
        Ok(Marks { input, row, members: Vec::new() })
    };
    // A file that could not be opened has no documents, and may still not be there.
    let files: Vec<&FileRow> = files.iter().filter(|row| !row.is_dispensable()).collect();
    let mut marks: Vec<Marks<'_>> = files.iter().copied().map(found).collect::<Result<_>>()?;
    let places: HashMap<&str, usize> =
        files.iter().enumerate().map(|(at, row)| (&row.path[..], at)).collect();
    let path = job.result.join("clusters.csv");
    let mut table = ClustersReader::open(&path)?;
    let mut clusters: HashMap<String, u32> = HashMap::new();
    while let Some(line) = table.next_row()? {
        if line.is_reference() {
            continue;
        }
        let Some((file, row)) = line.at() else { return Err(earlier(&path)) };
        let (Some(&place), Some(row), Some(kept), Some(size)) =
            (places.get(file), row, line.kept(), line.size())
        else {
            return Err(
                line.error(format!("a document of {file:?}"), "a document of a file that report.json names")
            );
        };
        let next = clusters.len() as u32;
        let cluster = *clusters.entry(line.cluster().to_owned()).or_insert(next);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        marks[place].members.push(ClusterMember { row, cluster, size, kept });
    }
    marks.iter_mut().for_each(|file| file.members.sort_unstable_by_key(|member| member.row));
    Ok(marks)
}

/// The error for an input file that has changed since the result, and has `now` documents.
fn changed(row: &FileRow, now: u64) -> Error {
    let got = match now == row.documents {
        true => "other texts, or in another order".to_owned(),
        false => counted(now, "document", "documents"),
    };
    Error::Format {
        path: PathBuf::from(&row.path),
        field: "content",
        expected: format!("what the run read, {},", counted(row.documents, "document", "documents")),
        got,
        advice: "run simflip dedup again, or give the options of reading that it was given",
    }
}

/// Reads a file in order and calls `each` with every document, and with its cluster if it is in one.
fn each_document(
    file: &Marks<'_>,
    options: &ReadOptions,
    progress: &dyn Progress,
    mut each: impl FnMut(&Document<'_>, Option<&ClusterMember>) + Send,
) -> Result<()> {
    let mut members = file.members.iter().peekable();
    let reading = {
        // Only one thread reads; the reader asks for what several could share.
        let hand_on = Mutex::new(|document: Document<'_>| {
            each(&document, members.next_if(|member| member.row == document.id.row));
        });
        corpus::read_and_sum(
            std::slice::from_ref(&file.input),
            options,
            || (),
            |(), document| (hand_on.lock().unwrap_or_else(PoisonError::into_inner))(document),
            &|bytes| progress.advance(bytes),
        )
    };
    let [now] = &reading.files[..] else { return Err(changed(file.row, 0)) };
    match members.next() {
        None if file.row.is_same(now) => Ok(()),
        _ => Err(changed(file.row, now.documents)),
    }
}

/// A row of `tasks.csv`.
#[derive(Serialize)]
struct Task<'a> {
    task: usize,
    file: Cow<'a, str>,
}

impl TableRow for Task<'_> {
    const COLUMNS: &'static [&'static str] = &["task", "file"];

    fn guard(&mut self) {
        tables::guard(&mut self.file);
    }
}

/// The ending of a file's name, and what is in it.
type Ended = (&'static str, Vec<u8>);

/// Writes files for each file of documents, called by its place in the order of names, and which file that is.
fn tasks<const FILES: usize>(
    marks: &[Marks<'_>],
    folder: &Path,
    of_file: impl Fn(&Marks<'_>) -> Result<[Ended; FILES]> + Sync,
) -> Result<()> {
    let mut order: Vec<(&Path, &Marks<'_>)> = marks.iter().map(|file| (&*file.input.path, file)).collect();
    order.sort_by_key(|(path, _)| path.as_os_str().as_encoded_bytes());
    let rows = order.iter().enumerate();
    let rows = rows.map(|(task, (path, _))| Ok(Task { task, file: path.to_string_lossy() }));
    tables::write(&folder.join("tasks.csv"), rows)?;
    order.par_iter().enumerate().try_for_each(|(task, (_, file))| {
        for (ending, bytes) in of_file(file)? {
            let path = folder.join(format!("{task:06}.{ending}"));
            fs::write(&path, bytes).map_err(|error| Error::io(&path, error))?;
        }
        Ok(())
    })
}

/// Writes the mark of a file for datatrove.
fn of_datatrove(file: &Marks<'_>, options: &ReadOptions, progress: &dyn Progress) -> Result<[Ended; 3]> {
    let [mut remove, mut clusters, mut sizes] = [const { Vec::new() }; 3];
    let mut place = 0u32;
    each_document(file, options, progress, |document, member| {
        // datatrove passes over a document without a text.
        if document.text.is_empty() {
            return;
        }
        if let Some(member) = member {
            let at = place.to_le_bytes();
            if !member.kept {
                remove.extend(at);
            }
            clusters.extend([at, member.cluster.to_le_bytes()].as_flattened());
            sizes.extend([at, member.size.to_le_bytes()].as_flattened());
        }
        place += 1;
    })?;
    Ok([("remove", remove), ("clusters", clusters), ("sizes", sizes)])
}

/// Writes the mark of a file for NumPy.
fn of_numpy(file: &Marks<'_>, options: &ReadOptions, progress: &dyn Progress) -> Result<[Ended; 1]> {
    /// Magic, and version 1.0 of the format.
    const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
    let mut kept = Vec::new();
    each_document(file, options, progress, |document, member| {
        kept.resize(document.id.row as usize, 0);
        kept.push(u8::from(member.is_none_or(|member| member.kept)));
    })?;
    let header = format!("{{'descr': '|b1', 'fortran_order': False, 'shape': ({},), }}", kept.len());
    // The array begins at a multiple of 64 bytes, behind a line end.
    let length = (MAGIC.len() + 2 + header.len() + 1).next_multiple_of(64) - MAGIC.len() - 2;
    let header = format!("{header:<width$}\n", width = length - 1);
    let bytes = [MAGIC, &(length as u16).to_le_bytes(), header.as_bytes(), &kept].concat();
    Ok([("npy", bytes)])
}

/// Writes what Dolma reads.
fn attributes(
    marks: &[Marks<'_>],
    options: &ReadOptions,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<()> {
    let paths: Vec<&Path> = marks.iter().map(|file| &*file.input.path).collect();
    let names = below(&paths);
    let folder = folder.join("attributes/simflip");
    let mut taken = HashSet::new();
    if let Some(name) = names.iter().find(|name| !taken.insert(*name)) {
        let expected = "files of different names below their folders of documents";
        return Err(Error::parameter("result", name.display(), expected));
    }
    marks.par_iter().zip(&names).try_for_each(|(file, name)| {
        let path = folder.join(name);
        let io = |error| Error::io(&path, error);
        fs::create_dir_all(path.parent().unwrap_or(&folder)).map_err(io)?;
        let mut out = File::create(&path).map_err(io)?;
        let (_, compression) = split_name(name);
        let mut lines = Vec::new();
        let mut write = |lines: &mut Vec<u8>| -> Result<()> {
            out.write_all(&pack(lines, compression)?).map_err(io)?;
            lines.clear();
            Ok(())
        };
        let mut lengths = Vec::new();
        each_document(file, options, progress, |document, member| {
            if member.is_some_and(|member| !member.kept) {
                lengths.push((document.id.row, document.text.chars().count()));
            }
        })?;
        // Dolma wants attributes for each document, one without a text too, and ids as they stand there.
        let mut lengths = lengths.into_iter().peekable();
        corpus::each_record(&file.input, options, |row, line| {
            let Ok(object) = serde_json::from_slice::<serde_json::Value>(line) else { return Ok(()) };
            let spans = match lengths.next_if(|&(of, _)| of == row) {
                Some((_, characters)) => serde_json::json!([[0, characters, 1.0]]),
                None => serde_json::json!([]),
            };
            let id = &object[&options.fields.id];
            let line = serde_json::json!({"id": id, "attributes": {"simflip_duplicate": spans}});
            lines.extend_from_slice(line.to_string().as_bytes());
            lines.push(b'\n');
            match lines.len() > 1 << 20 {
                true => write(&mut lines),
                false => Ok(()),
            }
        })?;
        write(&mut lines)
    })
}

/// The names of files for Dolma: their paths below the folder `documents`, or else below the folder that all are in.
fn below(paths: &[&Path]) -> Vec<PathBuf> {
    let folders = |path: &Path| path.parent().map_or(0, |folder| folder.components().count());
    let in_both = |two: &[&Path]| {
        two[0].components().zip(two[1].components()).take_while(|(one, other)| one == other).count()
    };
    let alone = paths.iter().map(|path| folders(path));
    let shared = paths.windows(2).map(in_both).chain(alone).min().unwrap_or(0);
    let name = |path: &&Path| {
        let of_documents = path.components().take(folders(path)).collect::<Vec<_>>();
        let documents = of_documents.iter().rposition(|part| part.as_os_str() == "documents");
        let parts = path.components().skip(documents.map_or(shared, |at| at + 1));
        parts.filter(|part| matches!(part, Component::Normal(_))).collect()
    };
    paths.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_by_their_paths_below_what_all_share() {
        let names = |paths: &[&str]| -> Vec<String> {
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            below(&paths).iter().map(|path| path.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&["/data/x.jsonl"]), ["x.jsonl"]);
        assert_eq!(names(&["/data/a/x.jsonl", "/data/b/x.jsonl"]), ["a/x.jsonl", "b/x.jsonl"]);
        assert_eq!(names(&["a/x.jsonl", "../b/x.jsonl"]), ["a/x.jsonl", "b/x.jsonl"]);
        assert_eq!(names(&["w/documents/a/x.gz", "v/documents/b/c/x.gz"]), ["a/x.gz", "b/c/x.gz"]);
        assert_eq!(names(&["documents", "x/documents"]), ["documents", "x/documents"]);
    }
}
