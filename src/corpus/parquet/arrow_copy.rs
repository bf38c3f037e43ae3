//! Kept rows of Arrow, as a stream of record batches: the form that Hugging Face keeps data sets in.
//!
//! Its schema, with all that it says, and its compression are those of the first input.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::SchemaRef;
use parquet::errors::ParquetError;

use super::arrow::Messages;
use super::copy::{Family, changed, synced};
use super::guard::guarded;
use super::layout::{Contents, Layout};
use super::ranges;
use super::stored::Stored;
use crate::Error;
use crate::corpus::damage::{Damage, DamageCause, DamageKind};
use crate::corpus::filetype::Format;
use crate::corpus::kept::{KeptFile, path_of, unnamed};
use crate::corpus::write::KeptJob;

/// Bytes of the mark that ends a stream.
const END: u64 = 8;

/// Counts what is written.
struct Counted<W>(W, u64);

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.0.write(bytes)?;
        self.1 += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

type ArrowFileWriter = StreamWriter<Counted<BufWriter<File>>>;

/// A file in the making, or, where a size is set, the last of several.
struct ArrowOutput<'a> {
    path: &'a Path,
    size: Option<u64>,
    schema: SchemaRef,
    options: IpcWriteOptions,
    writer: ArrowFileWriter,
    documents: u64,
    /// The inputs of which rows are in the file.
    shards: Vec<u32>,
    /// Files that are whole and have not their names yet.
    whole: Vec<KeptFile>,
}

impl<'a> ArrowOutput<'a> {
    fn create(path: &'a Path, size: Option<u64>, first: &Messages) -> Result<Self, ParquetError> {
        let (schema, options) = (first.schema.clone(), IpcWriteOptions::default());
        let options = options.try_with_compression(first.compression)?;
        let writer = file(&path_of(path, size, 1), &schema, &options)?;
        Ok(Self { path, size, schema, options, writer, documents: 0, shards: Vec::new(), whole: Vec::new() })
    }

    /// Adds rows of an input, or first one half of them and then the other, if they are more than a file may have.
    fn add(&mut self, shard: u32, rows: RecordBatch) -> Result<(), ParquetError> {
        let mut left = VecDeque::from([rows]);
        while let Some(rows) = left.pop_front() {
            if let Some(size) = self.size {
                let mut alone = StreamWriter::try_new_with_options(
                    Counted(io::sink(), END),
                    &self.schema,
                    self.options.clone(),
                )?;
                let before = alone.get_ref().1;
                alone.write(&rows)?;
                let bytes = alone.get_ref().1;
                if bytes > size && rows.num_rows() > 1 {
                    let half = rows.num_rows() / 2;
                    left.push_front(rows.slice(half, rows.num_rows() - half));
                    left.push_front(rows.slice(0, half));
                    continue;
                }
                if self.documents > 0 && self.writer.get_ref().1 + END + bytes - before > size {
                    self.next_file()?;
                }
            }
            self.writer.write(&rows)?;
            self.documents += rows.num_rows() as u64;
            self.shards.push(shard);
            self.shards.dedup();
        }
        Ok(())
    }

    /// Ends the file and begins the next one.
    fn next_file(&mut self) -> Result<(), ParquetError> {
        let next = file(&path_of(self.path, self.size, self.whole.len() + 2), &self.schema, &self.options)?;
        let writer = std::mem::replace(&mut self.writer, next);
        let path = path_of(self.path, self.size, self.whole.len() + 1);
        let (documents, shards) = (std::mem::take(&mut self.documents), std::mem::take(&mut self.shards));
        self.whole.push(ended(writer, path, documents, shards)?);
        Ok(())
    }

    /// Gives the files their names.
    fn finish(self) -> Result<Vec<KeptFile>, ParquetError> {
        let Self { path, size, writer, documents, shards, mut whole, .. } = self;
        whole.push(ended(writer, path_of(path, size, whole.len() + 1), documents, shards)?);
        whole.iter().try_for_each(|file| fs::rename(unnamed(&file.path), &file.path))?;
        Ok(whole)
    }
}

/// A file that is whole and has not its name yet.
fn ended(
    writer: ArrowFileWriter,
    path: PathBuf,
    documents: u64,
    shards: Vec<u32>,
) -> Result<KeptFile, ParquetError> {
    // This writes the mark that ends it.
    let stored_bytes = synced(writer.into_inner()?.0)?;
    Ok(KeptFile { path, format: Format::Arrow, documents, stored_bytes, shards })
}

fn file(path: &Path, schema: &SchemaRef, options: &IpcWriteOptions) -> Result<ArrowFileWriter, ParquetError> {
    let file = BufWriter::with_capacity(1 << 20, File::create(unnamed(path))?);
    Ok(StreamWriter::try_new_with_options(Counted(file, 0), schema, options.clone())?)
}

/// Writes the kept rows of a family of Arrow inputs.
///
/// # Errors
/// As [`super::write_kept`].
pub(super) fn write_family(
    family: &Family<'_>,
    job: &KeptJob<'_>,
    path: &Path,
) -> crate::Result<(Vec<KeptFile>, Vec<Damage>)> {
    let size = job.files.size();
    let failed = |error: ParquetError| Error::io(path, io::Error::other(error));
    let (mut output, mut lost): (Option<ArrowOutput<'_>>, Vec<Damage>) = (None, Vec::new());
    for &(shard, input) in &family.inputs {
        let of_file = job.kept.of_file(shard)?;
        // If nothing is kept the first input still says how an empty file is written.
        if of_file.is_empty() && (family.kept > 0 || output.is_some()) {
            continue;
        }
        let layout = Layout::of(input, job.options).map_err(|(_, got)| changed(input, got))?;
        let Contents::Arrow(messages) = &layout.contents else { continue };
        let output = match &mut output {
            Some(output) => output,
            None => output.insert(ArrowOutput::create(path, size, messages).map_err(failed)?),
        };
        let stored = Stored::open(input).map_err(|error| Error::io(&input.path, error))?;
        let mut decoder = messages.decoder(None).map_err(failed)?;
        for (batch, here) in layout.by_group(&of_file) {
            let batch = batch.ok_or_else(|| changed(input, "fewer rows"))?;
            let here_rows = ranges(here, layout.groups[batch].rows.start);
            let chosen: Result<RecordBatch, DamageCause> =
                guarded(DamageKind::Corrupt, || decoder.batch(&stored, batch, Some(&here_rows)));
            match chosen {
                Ok(rows) => output.add(shard, rows).map_err(failed)?,
                Err(flaw) => {
                    let (row, documents) = (u64::from(here[0].0.row), here.len() as u64);
                    lost.push(layout.not_kept(&input.path, batch, row, documents, flaw));
                }
            }
        }
    }
    let Some(output) = output else { return Ok((Vec::new(), lost)) };
    let mut files = output.finish().map_err(failed)?;
    if let ([file], None) = (&mut files[..], size) {
        file.shards = family.inputs.iter().map(|&(shard, _)| shard).collect();
    }
    Ok((files, lost))
}
