//! Reading all inputs with several threads, one large file included.
//!
//! A thread takes the lock of a file, decodes and cuts the next block, gives the lock back and works on the block
//! while the next thread decodes. Threads open files of their own as long as there are any, then help with the
//! open ones. Nothing is decoded on speculation, so the outcome is that of reading file after file alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use super::block::{Block, BlockReader, Span, document};
use super::damage::{Damage, DamageKind, FileReading};
use super::inputs::Input;
use super::{Document, ReadOptions};

/// What [`read`] came to.
#[derive(Debug)]
pub struct Reading<W> {
    /// The workers, one a thread, in no particular order.
    pub workers: Vec<W>,
    /// One entry an input, in the order of the inputs.
    pub files: Vec<FileReading>,
}

/// A file as the threads share it.
struct Shared {
    /// `None` before the first block and after the last.
    reader: Mutex<Option<BlockReader>>,
    reading: Mutex<FileReading>,
}

/// A lock whose data is whole even if a thread panicked: the panic ends the scope anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads every document of `inputs` and hands it to `each`, with one worker a thread.
///
/// `each` is called in no fixed order, but ids, places, texts and damage are the same for any number of threads and
/// any size of blocks. `progress` gets stored bytes as they are used up; over a whole run they add up to the sizes
/// of the files. Bad files and records end up in [`FileReading::damage`] and never end the run.
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
    let files: Vec<Shared> = inputs
        .iter()
        .map(|input| Shared {
            reader: Mutex::new(None),
            reading: Mutex::new(FileReading { path: input.path.clone(), ..FileReading::default() }),
        })
        .collect();
    // Files below this one are opened; those below `finished` are read.
    let (opened, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let states: Vec<AtomicUsize> = inputs.iter().map(|_| AtomicUsize::new(UNOPENED)).collect();

    let work = || {
        let mut worker = make_worker();
        let mut block = Block::default();
        // One block of file `index`; false if there is none any more.
        let mut turn = |index: usize, mut held: MutexGuard<'_, Option<BlockReader>>| -> bool {
            let Some(reader) = held.as_mut() else { return false };
            let before = Instant::now();
            let more = reader.next_block(&mut block);
            if !more {
                *held = None;
                states[index].store(DONE, Ordering::Release);
            }
            drop(held);
            let decoding = before.elapsed();
            if more {
                let mut part = FileReading::default();
                let before = Instant::now();
                let input = &inputs[index];
                process(&mut block, index as u32, input, options, &mut part, |d| each(&mut worker, d));
                part.processing = before.elapsed().saturating_sub(part.decoding);
                part.decoding += decoding;
                merge(&mut lock(&files[index].reading), part);
                progress(block.stored);
            }
            more
        };
        loop {
            let index = opened.fetch_add(1, Ordering::Relaxed);
            if index >= inputs.len() {
                break;
            }
            let mut held = lock(&files[index].reader);
            *held = Some(BlockReader::open(&inputs[index], index as u32, options));
            states[index].store(OPEN, Ordering::Release);
            let mut more = turn(index, held);
            while more {
                more = turn(index, lock(&files[index].reader));
            }
        }
        // No file of one's own is left: help where the lock is free, else wait for the first open file.
        loop {
            let first = finished.load(Ordering::Acquire);
            let mut waiting = None;
            let mut helped = false;
            let mut all_done = true;
            for index in first..inputs.len() {
                match states[index].load(Ordering::Acquire) {
                    DONE => {
                        if all_done {
                            finished.fetch_max(index + 1, Ordering::AcqRel);
                        }
                        continue;
                    }
                    OPEN => {}
                    // Taken, but not yet opened by its thread.
                    _ => {
                        all_done = false;
                        continue;
                    }
                }
                all_done = false;
                match files[index].reader.try_lock() {
                    Ok(held) => helped |= turn(index, held),
                    Err(TryLockError::Poisoned(held)) => helped |= turn(index, held.into_inner()),
                    Err(TryLockError::WouldBlock) => waiting = waiting.or(Some(index)),
                }
                if helped {
                    break;
                }
            }
            if all_done {
                break;
            }
            match waiting {
                Some(index) if !helped => {
                    turn(index, lock(&files[index].reader));
                }
                None if !helped => std::thread::yield_now(),
                _ => {}
            }
        }
        worker
    };

    let threads = options.threads.max(1);
    let workers = if threads == 1 {
        vec![work()]
    } else {
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let joined = handles.into_iter().map(|handle| match handle.join() {
                Ok(worker) => worker,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        })
    };
    let files = files
        .into_iter()
        .map(|file| {
            let mut reading = file.reading.into_inner().unwrap_or_else(PoisonError::into_inner);
            reading.settle();
            reading
        })
        .collect();
    Reading { workers, files }
}

const UNOPENED: usize = 0;
const OPEN: usize = 1;
const DONE: usize = 2;

/// Takes a close look at the records of a block.
pub(crate) fn process(
    block: &mut Block,
    shard: u32,
    input: &Input,
    options: &ReadOptions,
    part: &mut FileReading,
    mut each: impl FnMut(Document<'_>),
) {
    part.stored_bytes += block.stored;
    if let Some(mut group) = block.group.take() {
        loop {
            let before = Instant::now();
            let more = group.next(block);
            part.decoding += before.elapsed();
            if !more {
                return;
            }
            process_rows(block, shard, input, options, part, &mut each);
        }
    }
    process_rows(block, shard, input, options, part, &mut each);
    for span in &block.spans {
        let Span { record, place, .. } = *span;
        take(part, input, (record, place.offset, place.within), &mut each, |found, each| {
            document(span, &block.bytes, input.format, options, found, each)
        });
    }
}

/// Rows and damage of a block, which has neither afterwards.
fn process_rows(
    block: &mut Block,
    shard: u32,
    input: &Input,
    options: &ReadOptions,
    part: &mut FileReading,
    each: &mut impl FnMut(Document<'_>),
) {
    part.decoded_bytes += std::mem::take(&mut block.decoded);
    part.records += std::mem::take(&mut block.records);
    block.damage.drain(..).for_each(|damage| part.add(damage));
    for row in block.rows.drain(..) {
        let (record, offset) = row.place();
        take(part, input, (record, offset, 0), each, |found, each| row.document(shard, options, found, each));
    }
}

/// Reads one document: hands it on and counts it, or what is damaged of it. `read` tells damage to its first argument and
/// hands the document to its second, which returns its length.
fn take(
    part: &mut FileReading,
    input: &Input,
    (record, offset, within): (u64, u64, u64),
    each: &mut impl FnMut(Document<'_>),
    read: impl FnOnce(&mut dyn FnMut(DamageKind, String), &mut dyn FnMut(Document<'_>) -> u64) -> Option<u64>,
) {
    let mut found = Vec::new();
    let length = read(&mut |kind, detail| found.push((kind, detail)), &mut |document| {
        let length = document.text.len() as u64;
        each(document);
        length
    });
    if let Some(length) = length {
        part.documents += 1;
        part.text_bytes += length;
    }
    for (kind, detail) in found {
        part.add(Damage { path: input.path.clone(), record: Some(record), offset, within, kind, detail });
    }
}

/// Adds what one block came to.
fn merge(total: &mut FileReading, part: FileReading) {
    total.stored_bytes += part.stored_bytes;
    total.decoded_bytes += part.decoded_bytes;
    total.text_bytes += part.text_bytes;
    total.records += part.records;
    total.documents += part.documents;
    total.decoding += part.decoding;
    total.processing += part.processing;
    // A part keeps at most twice as many as are kept in all; what it dropped is counted here.
    let kept = part.damage.len() as u64;
    for damage in part.damage {
        total.add(damage);
    }
    total.damaged += part.damaged - kept;
}
