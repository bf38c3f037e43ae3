//! Writes kept rows of Arrow as a stream of record batches, the form in which Hugging Face keeps data sets.
//!
//! The stream has the schema, metadata included, and the compression of the first input.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::SchemaRef;
use parquet::errors::ParquetError;
use parquet::file::writer::TrackedWrite;

use super::arrow::Messages;
use super::copy::{changed, kept_rows};
use super::guard::guarded;
use super::layout::Contents;
use super::ranges;
use super::stored::Stored;
use crate::Error;
use crate::corpus::corruption::Corruption;
use crate::corpus::kept::{Kept, NumberedFiles, Target};
use crate::corpus::write::KeptJob;

/// Bytes of the mark that ends a stream.
const END: u64 = 8;

/// A file in the making, or, where a size is set, the last of several.
struct ArrowOutput<'a> {
    files: NumberedFiles<'a>,
    schema: SchemaRef,
    options: IpcWriteOptions,
    writer: StreamWriter<TrackedWrite<BufWriter<File>>>,
}

fn stream<W: Write>(
    to: W,
    schema: &SchemaRef,
    options: &IpcWriteOptions,
) -> Result<StreamWriter<TrackedWrite<W>>, ParquetError> {
    Ok(StreamWriter::try_new_with_options(TrackedWrite::new(to), schema, options.clone())?)
}

impl<'a> ArrowOutput<'a> {
    fn create(files: NumberedFiles<'a>, first: &Messages) -> Result<Self, ParquetError> {
        let (schema, options) = (first.schema.clone(), IpcWriteOptions::default());
        let options = options.try_with_compression(first.compression)?;
        let writer = stream(files.create()?, &schema, &options)?;
        Ok(Self { files, schema, options, writer })
    }

    /// Adds rows of an input, or first one half of them and then the other, if they are more than a file may have.
    fn add(&mut self, shard: u32, rows: &RecordBatch) -> Result<(), ParquetError> {
        if let Some(size) = self.files.size {
            let mut alone = stream(io::sink(), &self.schema, &self.options)?;
            let before = alone.get_ref().bytes_written() as u64;
            alone.write(rows)?;
            let bytes = alone.get_ref().bytes_written() as u64;
            if bytes + END > size && rows.num_rows() > 1 {
                let half = rows.num_rows() / 2;
                self.add(shard, &rows.slice(0, half))?;
                return self.add(shard, &rows.slice(half, rows.num_rows() - half));
            }
            if self.files.documents > 0
                && self.writer.get_ref().bytes_written() as u64 + bytes - before + END > size
            {
                self.end_file()?;
                self.writer = stream(self.files.create()?, &self.schema, &self.options)?;
            }
        }
        self.writer.write(rows)?;
        self.files.add(shard, rows.num_rows() as u64);
        Ok(())
    }

    fn end_file(&mut self) -> Result<(), ParquetError> {
        // This writes the mark that ends it.
        self.writer.finish()?;
        Ok(self.files.end(self.writer.get_mut().inner_mut())?)
    }
}

/// Writes the kept rows of the Arrow inputs of a target. Those of a record batch that turns out to be corrupt are left
/// out, and named in [`Kept::lost`].
///
/// # Errors
/// As [`KeptJob::write`].
pub(crate) fn write_arrow(job: &KeptJob<'_>, target: &Target) -> crate::Result<Kept> {
    let failed = |error: ParquetError| Error::io(&target.path, io::Error::other(error));
    let (mut output, mut lost): (Option<ArrowOutput<'_>>, Vec<Corruption>) = (None, Vec::new());
    let is_empty = job.number_of(target)? == 0;
    for &shard in &target.shards {
        let Some((kept, layout)) = kept_rows(job, shard, is_empty && output.is_none(), &mut lost)? else {
            continue;
        };
        let input = &job.inputs[shard as usize];
        let Contents::Arrow(messages) = &layout.contents else { continue };
        let output = match &mut output {
            Some(output) => output,
            None => {
                let files = NumberedFiles::new(target, job.files.size());
                output.insert(ArrowOutput::create(files, messages).map_err(failed)?)
            }
        };
        let stored = Stored::open(input).map_err(|error| Error::io(&input.path, error))?;
        let all: Vec<usize> = (0..messages.schema.fields().len()).collect();
        let mut decoder = messages.decoder(&all).map_err(failed)?;
        for (batch, here) in layout.by_group(&kept) {
            let batch = batch.ok_or_else(|| changed(input, "fewer rows"))?;
            let rows = ranges(here.iter().map(|(id, _)| id.row), layout.groups[batch].rows.start);
            match guarded(|| decoder.batch(&stored, batch, Some(&rows))) {
                Ok(rows) => output.add(shard, &rows).map_err(failed)?,
                Err(flaw) => {
                    let (row, documents) = (u64::from(here[0].0.row), here.len() as u64);
                    lost.push(layout.not_kept(batch, row, documents, flaw));
                }
            }
        }
    }
    let Some(mut output) = output else { return Ok(Kept { files: Vec::new(), lost }) };
    output.end_file().map_err(failed)?;
    Ok(Kept { files: output.files.whole, lost })
}
