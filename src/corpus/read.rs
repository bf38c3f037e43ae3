//! Reading all inputs with several threads, one large file included.
//!
//! A thread takes the lock of a file, decodes and cuts the next block, gives the lock back and works
//! on the block while the next thread decodes. Of a gzip file it first claims a stretch, and inflates the
//! members there without the lock; when their turn comes they are cut under it ([`super::ahead`]). Threads
//! open files of their own as long as there are any, then help with the open ones. Members that were inflated ahead
//! are used only where they come next, so the outcome is that of one thread that reads file after file.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use super::ahead::InflateScratch;
use super::corruption::{FileReading, TextSum, TooLong};
use super::document::Document;
use super::input::{Input, ReadInput};
use super::options::ReadOptions;
use super::reader::{Block, Reader};
use crate::hash::text_digest;

/// The outcome of [`read`].
#[derive(Debug)]
pub struct Reading<W> {
    /// The workers, one a thread, in no particular order.
    pub workers: Vec<W>,
    /// One entry an input, in the order of the inputs.
    pub files: Vec<FileReading>,
    /// A record with more bytes than it may have, which ended the reading, behind the position of its input.
    pub(crate) too_long: Option<(usize, TooLong)>,
}

/// [`read`], with the sum of each file's texts in [`FileReading::texts`].
pub(crate) fn read_and_sum<W: Send>(
    inputs: &[Input],
    options: &ReadOptions,
    make_worker: impl Fn() -> W + Sync,
    each: impl Fn(&mut W, Document<'_>) + Sync,
    progress: &(dyn Fn(u64) + Sync),
) -> Reading<W> {
    let reading = read(
        inputs,
        options,
        || (make_worker(), vec![TextSum::default(); inputs.len()]),
        |(worker, sums), document| {
            sums[document.id.shard as usize].add(document.id.row, text_digest(document.text));
            each(worker, document);
        },
        progress,
    );
    let mut files = reading.files;
    let (workers, sums): (Vec<W>, Vec<Vec<TextSum>>) = reading.workers.into_iter().unzip();
    for sums in sums {
        files.iter_mut().zip(sums).for_each(|(file, sum)| file.texts.get_or_insert_default().merge(sum));
    }
    Reading { workers, files, too_long: reading.too_long }
}

/// A file as the threads share it.
#[derive(Default)]
struct Shared {
    /// 0 until a thread has opened it, then [`OPEN`] or [`DONE`].
    state: AtomicUsize,
    turns: Mutex<Turns>,
    /// Notified when a turn ends.
    turned: Condvar,
    reading: Mutex<FileReading>,
}

/// Whose turn it is with a file.
#[derive(Default)]
struct Turns {
    /// `None` before the first block and after the last.
    reader: Option<Reader>,
    /// The number of stretches that were claimed, and of those whose turn has ended.
    claimed: u64,
    ended: u64,
    /// A thread panicked before its turn, which will not come.
    is_broken: bool,
}

impl Shared {
    /// Waits until the turns of so many stretches have ended; false if they never will.
    fn wait<'a>(&'a self, mut turns: MutexGuard<'a, Turns>, claimed: u64) -> (MutexGuard<'a, Turns>, bool) {
        while turns.ended < claimed && !turns.is_broken {
            turns = self.turned.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        let is_whole = !turns.is_broken;
        (turns, is_whole)
    }
}

/// Wakes the other threads, should this one panic before its turn has ended.
struct Pending<'a>(&'a Shared);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.turns).is_broken = true;
            self.0.turned.notify_all();
        }
    }
}

/// A lock whose data is whole even if a thread panicked: the panic ends the scope anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads every document of `inputs` and hands it to `each`, with the worker of the thread that read it.
///
/// Each thread makes a worker by `make_worker`. `each` is called in no fixed order, but ids, places, texts and
/// corruption are the same for any number of threads and any size of blocks. `progress` gets the stored bytes of each
/// block; over a whole run they add up to the sizes of the files that can be opened. Corrupt files and records end up
/// in [`FileReading::corruption`] and never end the run.
///
/// # Panics
/// If `make_worker`, `each` or `progress` does.
pub fn read<W: Send>(
    inputs: &[Input],
    options: &ReadOptions,
    make_worker: impl Fn() -> W + Sync,
    each: impl Fn(&mut W, Document<'_>) + Sync,
    progress: &(dyn Fn(u64) + Sync),
) -> Reading<W> {
    ReadJob { inputs, options, most: &|| u64::MAX, progress }.read(make_worker, each)
}

/// Inputs to read, and a limit on the memory that a record may take, which may change meanwhile.
pub(crate) struct ReadJob<'a> {
    pub inputs: &'a [Input],
    pub options: &'a ReadOptions,
    /// Returns the bytes that a record may have, as [`Document::bytes`] counts them. It is asked before each block, and
    /// 0 ends the reading.
    pub most: &'a (dyn Fn() -> u64 + Sync),
    /// Gets the stored bytes of each block.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

impl ReadJob<'_> {
    /// Reads the inputs as [`read`] does. A record that is longer than it may be ends the reading: it is in
    /// [`Reading::too_long`].
    pub(crate) fn read<W: Send>(
        &self,
        make_worker: impl Fn() -> W + Sync,
        each: impl Fn(&mut W, Document<'_>) + Sync,
    ) -> Reading<W> {
        let file = |input: &Input| Shared {
            reading: Mutex::new(FileReading { path: input.path.clone(), ..FileReading::default() }),
            ..Shared::default()
        };
        let run = SharedRun {
            job: self,
            files: self.inputs.iter().map(file).collect(),
            opened: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            too_long: Mutex::new(None),
            has_ended: AtomicBool::new(false),
            each: &each,
        };
        let work = || {
            let (block, scratch) = (Block::default(), InflateScratch::default());
            let mut thread = ReadingThread { worker: make_worker(), block, scratch };
            run.read_own(&mut thread);
            run.help(&mut thread);
            thread.worker
        };
        let threads = self.options.threads.max(1);
        let workers: Vec<W> = std::thread::scope(|scope| {
            // Where the system gives no more of them, fewer read.
            let begin = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let handles: Vec<_> = (1..threads).map_while(begin).collect();
            let own = work();
            let joined = handles.into_iter().map(|handle| match handle.join() {
                Ok(worker) => worker,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            std::iter::once(own).chain(joined).collect()
        });
        let settled = |file: Shared| {
            let mut reading = file.reading.into_inner().unwrap_or_else(PoisonError::into_inner);
            reading.settle();
            reading
        };
        let files = run.files.into_iter().map(settled).collect();
        let too_long = run.too_long.into_inner().unwrap_or_else(PoisonError::into_inner);
        Reading { workers, files, too_long }
    }
}

/// A thread that reads: its worker, and its buffers.
struct ReadingThread<W> {
    worker: W,
    block: Block,
    scratch: InflateScratch,
}

/// The files of a run, as its threads share them.
struct SharedRun<'a, W> {
    job: &'a ReadJob<'a>,
    files: Vec<Shared>,
    /// Files below this one are opened.
    opened: AtomicUsize,
    /// Files below this one are read.
    finished: AtomicUsize,
    too_long: Mutex<Option<(usize, TooLong)>>,
    has_ended: AtomicBool,
    each: &'a (dyn Fn(&mut W, Document<'_>) + Sync),
}

impl<W> SharedRun<'_, W> {
    fn goes_on(&self) -> bool {
        (self.job.most)() > 0 && !self.has_ended.load(Ordering::Relaxed)
    }

    fn input(&self, index: usize) -> ReadInput<'_> {
        ReadInput { shard: index as u32, input: &self.job.inputs[index], options: self.job.options }
    }

    /// Opens files as long as there are any, and reads each to its end.
    fn read_own(&self, thread: &mut ReadingThread<W>) {
        loop {
            let index = self.opened.fetch_add(1, Ordering::Relaxed);
            if index >= self.job.inputs.len() || !self.goes_on() {
                break;
            }
            let file = &self.files[index];
            let mut turns = lock(&file.turns);
            turns.reader = Some(Reader::open(self.input(index)));
            file.state.store(OPEN, Ordering::Release);
            let mut more = self.turn(index, turns, thread);
            while more {
                more = self.turn(index, lock(&file.turns), thread);
            }
        }
    }

    /// Reads blocks of the files that others have opened: where a lock is free, or else of the first open file.
    fn help(&self, thread: &mut ReadingThread<W>) {
        'blocks: while self.goes_on() {
            let first = self.finished.load(Ordering::Acquire);
            let (mut waiting, mut all_done) = (None, true);
            for (index, file) in self.files.iter().enumerate().skip(first) {
                let state = file.state.load(Ordering::Acquire);
                if state == DONE {
                    if all_done {
                        self.finished.fetch_max(index + 1, Ordering::AcqRel);
                    }
                    continue;
                }
                all_done = false;
                // Another one is taken, but not yet opened by its thread.
                if state != OPEN {
                    continue;
                }
                let turns = match file.turns.try_lock() {
                    Ok(turns) => turns,
                    Err(TryLockError::Poisoned(turns)) => turns.into_inner(),
                    Err(TryLockError::WouldBlock) => {
                        waiting = waiting.or(Some(index));
                        continue;
                    }
                };
                if self.turn(index, turns, thread) {
                    continue 'blocks;
                }
            }
            match waiting {
                _ if all_done => break,
                Some(index) => {
                    self.turn(index, lock(&self.files[index].turns), thread);
                }
                None => std::thread::yield_now(),
            }
        }
    }

    /// Reads one block of file `index`, and works on it; false if there is none any more.
    fn turn<'f>(
        &'f self,
        index: usize,
        mut turns: MutexGuard<'f, Turns>,
        thread: &mut ReadingThread<W>,
    ) -> bool {
        let file = &self.files[index];
        let _pending = Pending(file);
        if !self.goes_on() {
            turns.reader = None;
        }
        let Some(reader) = turns.reader.as_mut() else { return false };
        let before = Instant::now();
        let most = (self.job.most)();
        let claim = reader.claim(most);
        let earlier = turns.claimed;
        let (turns, ahead) = match claim {
            Some(claim) => {
                turns.claimed += 1;
                drop(turns);
                let bytes = mem::take(&mut thread.block.records.bytes);
                let ahead = claim.inflate(&mut thread.scratch, bytes);
                (lock(&file.turns), Some(ahead))
            }
            None => (turns, None),
        };
        let inflating = before.elapsed();
        // A block that is not of a claimed stretch comes behind all that are.
        let (mut turns, is_whole) = file.wait(turns, earlier);
        let before = Instant::now();
        let has_claim = ahead.is_some();
        let block = &mut thread.block;
        let more =
            is_whole && turns.reader.as_mut().is_some_and(|reader| reader.next_block_of(ahead, most, block));
        if !more {
            turns.reader = None;
            file.state.store(DONE, Ordering::Release);
        }
        if has_claim {
            turns.ended += 1;
            file.turned.notify_all();
        }
        drop(turns);
        if more {
            let locked = before.elapsed();
            (block.part.decoding, block.part.locked) = (inflating + locked, locked);
            self.process(index, most, thread);
        }
        more
    }

    /// Works on a block of file `index`.
    fn process(&self, index: usize, most: u64, thread: &mut ReadingThread<W>) {
        let ReadingThread { worker, block, .. } = thread;
        let (stored, reading) = (block.part.stored_bytes, block.part.decoding);
        let before = Instant::now();
        let met = block.process(self.input(index), most, |document| (self.each)(worker, document));
        if let Some(met) = met {
            lock(&self.too_long).get_or_insert((index, met));
            self.has_ended.store(true, Ordering::Relaxed);
        }
        let mut part = mem::take(&mut block.part);
        // Rows of a group may have been decoded meanwhile.
        part.processing = before.elapsed().saturating_sub(part.decoding - reading);
        lock(&self.files[index].reading).merge(part);
        (self.job.progress)(stored);
    }
}

const OPEN: usize = 1;
const DONE: usize = 2;

#[cfg(test)]
mod tests {
    use super::super::feed::STEP;
    use super::super::filetype::Format;
    use super::super::{DiscoverOptions, IN_MEMORY, discover};
    use super::*;
    use std::io::Write;

    /// Of seven texts, the one in the middle has so many bytes.
    const LONG: usize = 6 << 20;

    fn texts() -> Vec<String> {
        (0..7u32).map(|at| format!("{at} words ").repeat(if at == 3 { LONG / 8 } else { 20 })).collect()
    }

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    fn record(kind: &str, body: &str) -> Vec<u8> {
        format!("WARC/1.0\r\nWARC-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}\r\n\r\n", body.len())
            .into()
    }

    fn parquet() -> Vec<u8> {
        use parquet::data_type::{ByteArray, ByteArrayType};
        use parquet::file::properties::WriterProperties;
        use parquet::file::writer::SerializedFileWriter;
        use parquet::schema::parser::parse_message_type;
        let schema = parse_message_type("message m { required byte_array text (UTF8); }").unwrap();
        let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema.into(), properties.into()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<ByteArray> = texts().iter().map(|text| text.as_str().into()).collect();
        column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        bytes
    }

    #[test]
    fn of_a_record_that_is_too_long_no_more_is_read_than_it_may_have() {
        const MOST: u64 = 1 << 20;
        let texts = texts();
        let wet: Vec<Vec<u8>> = texts.iter().map(|text| record("conversion", text)).collect();
        let lines: Vec<String> = texts.iter().map(|text| format!("{{\"text\": \"{text}\"}}\n")).collect();
        let csv = format!("text\n{}", texts.iter().map(|text| format!("{text}\n")).collect::<String>());
        let mut files = vec![
            ("documents.jsonl", lines.concat().into_bytes()),
            ("lines.jsonl.gz", lines.iter().flat_map(|line| gz(line.as_bytes())).collect()),
            ("documents.jsonl.zst", zstd::bulk::compress(lines.concat().as_bytes(), 1).unwrap()),
            ("documents.csv", csv.into_bytes()),
            ("plain.warc.wet", wet.concat()),
            ("documents.warc.wet.gz", wet.iter().flat_map(|record| gz(record)).collect()),
            ("documents.parquet", parquet()),
        ];
        #[cfg(feature = "html")]
        {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\n";
            let bodies = texts.iter().map(|text| {
                let mut body = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                body.write_all(text.as_bytes()).unwrap();
                let (head, body) = (head.as_bytes(), body.finish().unwrap());
                let length = head.len() + body.len();
                let warc = format!("WARC/1.0\r\nWARC-Type: response\r\nContent-Length: {length}\r\n\r\n");
                [warc.as_bytes(), head, &body, b"\r\n\r\n"].concat()
            });
            files.push(("documents.warc.gz", bodies.flat_map(|record| gz(&record)).collect()));
        }
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let inputs = discover(&[path], &DiscoverOptions::default()).unwrap();
            for (threads, block_bytes) in [(1, 1 << 20), (1, 1 << 10), (2, 1 << 20)] {
                let options = ReadOptions { threads, block_bytes, ..ReadOptions::default() };
                let read = |most: u64| {
                    let each =
                        |lengths: &mut Vec<u64>, document: Document<'_>| lengths.push(document.bytes());
                    let reading =
                        ReadJob { inputs: &inputs, options: &options, most: &|| most, progress: &|_| () }
                            .read(Vec::new, each);
                    (reading.workers.concat(), reading.too_long)
                };
                let (lengths, too_long) = read(u64::MAX);
                assert_eq!((lengths.len(), too_long), (7, None), "{name}");
                let (lengths, too_long) = read(MOST);
                let (input, TooLong { record, bytes }) = too_long.unwrap_or_else(|| panic!("{name}"));
                assert!(lengths.iter().all(|&length| length <= MOST), "{name}: {lengths:?}");
                // Rows of a document come at once.
                match inputs[0].format {
                    Format::Parquet => assert!(record <= 3 && bytes > LONG as u64 / IN_MEMORY, "{name}"),
                    _ => assert!(
                        record == 3 && (MOST..MOST + STEP as u64).contains(&(bytes - 1)),
                        "{name} {bytes}"
                    ),
                }
                assert_eq!(input, 0);
            }
        }
    }
}
