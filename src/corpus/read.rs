//! Reading all inputs with several threads, one large file included.
//!
//! A thread takes the lock of a file, decodes and cuts the next block, gives the lock back and works
//! on the block while the next thread decodes. Threads open files of their own as long as there are
//! any, then help with the open ones. Nothing is decoded on speculation, so the outcome is that of
//! reading file after file alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use super::damage::{FileReading, TextSum};
use super::document::Document;
use super::inputs::Input;
use super::options::ReadOptions;
use super::reader::{Block, Reader};
use crate::hash::text_digest;

/// What [`read`] came to.
#[derive(Debug)]
pub struct Reading<W> {
    /// The workers, one a thread, in no particular order.
    pub workers: Vec<W>,
    /// One entry an input, in the order of the inputs.
    pub files: Vec<FileReading>,
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
    let mut workers = Vec::with_capacity(reading.workers.len());
    for (worker, sums) in reading.workers {
        workers.push(worker);
        files.iter_mut().zip(sums).for_each(|(file, sum)| file.texts.get_or_insert_default().merge(sum));
    }
    Reading { workers, files }
}

/// A file as the threads share it.
struct Shared {
    /// `None` before the first block and after the last.
    reader: Mutex<Option<Reader>>,
    reading: Mutex<FileReading>,
}

/// A lock whose data is whole even if a thread panicked: the panic ends the scope anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads every document of `inputs` and hands it to `each`, with one worker a thread.
///
/// `each` is called in no fixed order, but ids, places, texts and damage are the same for any number
/// of threads and any size of blocks. `progress` gets stored bytes as they are used up; over a whole
/// run they add up to the sizes of the files. Bad files and records end up in
/// [`FileReading::damage`] and never end the run.
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
        let mut turn = |index: usize, mut held: MutexGuard<'_, Option<Reader>>| -> bool {
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
                let stored = block.tally.stored;
                block.process(index as u32, input, options, &mut part, |d| each(&mut worker, d));
                part.processing = before.elapsed().saturating_sub(part.decoding);
                part.decoding += decoding;
                lock(&files[index].reading).merge(part);
                progress(stored);
            }
            more
        };
        loop {
            let index = opened.fetch_add(1, Ordering::Relaxed);
            if index >= inputs.len() {
                break;
            }
            let mut held = lock(&files[index].reader);
            *held = Some(Reader::open(&inputs[index], index as u32, options));
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
