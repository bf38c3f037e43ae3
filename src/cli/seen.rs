//! `simflip seen`

use super::arguments::{FieldArgs, threads};
use super::index::{Form, IndexArgs, Opened, millis, millis_of, request};
use super::{Done, note};
use anyhow::Context;
use rayon::prelude::*;
use simflip::corpus::{
    self, DiscoverOptions, Discovered, Document, FileReading, Input, JsonlFields, ReadOptions, discover_all,
    document_of_line, objects_of_line,
};
use simflip::display::{counted, printable, printable_path};
use simflip::document::DocId;
use simflip::format;
use simflip::report::messages;
use simflip::seen::{COLUMNS, LONGEST_NAME, Request, SeenParams};
use simflip::sketch::{Sketch, Sketcher};
use simflip::staged;
use std::borrow::Cow;
use std::collections::HashSet;
#[cfg(unix)]
use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant, SystemTime};

/// Check documents against an index of those seen before, and add them.
///
/// Prints one line per page, in the order of files and pages. The answer is same (an earlier page has the same text),
/// near (dedup would call an earlier page near; the most similar is named), stale (with --fresh: the same or near, but
/// seen too long ago), or new. Later pages never change an answer. Pages are stored under their URL, or their id if
/// they have none; a page with the text of an earlier one is not stored again, the earlier one is seen again.
///
/// JSON lines on standard input (-) are answered one by one as they come, each as soon as it is there. A line
/// that is no page is answered by an error.
///
/// Pages are remembered as their answers go out: what cannot be printed is not remembered. Where this process or
/// the reader of its output was killed, nobody knows whether the latest answers arrived: the pages are remembered,
/// and asked about the same text under the same name the index answers as it did.
///
/// An index keeps the settings that it was made with.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip seen --index crawl.seen monday.warc.wet.gz > monday.csv
  simflip seen --index crawl.seen --fresh 30d tuesday.warc.wet.gz > tuesday.csv
  crawler | simflip seen --index crawl.seen --json - | decider
  simflip seen --index crawl.seen --read-only page.jsonl --json
  simflip seen --index crawl.seen --remove https://example.org/gone --expire 365d
  simflip seen --index today.seen --import sketches --import yesterday.seen
  simflip seen --index crawl.seen --export pages.seen

Exit code: 0 done; 1 done, but corrupt input was skipped; 2 failed.")]
pub(crate) struct SeenArgs {
    /// WET, JSONL, CSV, Parquet and Arrow files, folders of them, or - for standard input: JSON lines are answered
    /// as they come, anything else is copied to the folder for temporary files first (TMPDIR, or /tmp) and answered at
    /// its end
    #[arg(required_unless_present_any = ["remove", "expire", "import", "export"], value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    #[command(flatten)]
    index: IndexArgs,

    /// Answer, but do not add the pages to the index; another process may write to it meanwhile
    #[arg(long, conflicts_with_all = ["remove", "expire", "fsync", "import"])]
    read_only: bool,

    /// First take over the pages of a folder or file of sketches, of an exported file, or of another index, without
    /// reading their texts; repeatable
    #[arg(long, value_name = "PATH")]
    import: Vec<PathBuf>,

    /// At the end write all pages of the index, their names, times and sketches, to a file that --import reads; with
    /// --read-only, or if nothing else is to be done, another process may write to the index meanwhile
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,

    /// First remove the pages of this name, a URL or an id; may be given several times
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,

    /// First remove the pages that were last seen longer ago than this, such as 365d
    #[arg(long, value_name = "TIME", value_parser = super::index::age)]
    expire: Option<Duration>,

    /// When the pages were seen, those of sketches too, such as 2026-11-01 or 2026-11-01T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = time_of)]
    seen_at: Option<SystemTime>,

    /// JSON lines on standard input: the field that names the request, by which its answer is given again for the same
    /// text [default: request]
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    request_field: Option<String>,

    /// Print one JSON object per line instead of CSV
    #[arg(long)]
    json: bool,

    /// Number of threads (0 = one per core); answers are identical
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads())]
    threads: usize,

    #[command(flatten)]
    names: FieldArgs,
}

/// Parses a day, which means its beginning, or a time of it (UTC): 2026-11-01 or 2026-11-01T12:00:00Z.
pub(super) fn time_of(text: &str) -> Result<SystemTime, humantime::TimestampError> {
    humantime::parse_rfc3339_weak(text)
        .or_else(|error| humantime::parse_rfc3339_weak(&format!("{text} 00:00:00")).map_err(|_| error))
}

/// Pages whose answers go together at most.
const BATCH: usize = 1024;

struct AskedPage {
    name: String,
    request: Option<String>,
    sketch: Sketch,
    /// True if U+FFFD stands in its text for what could not be read.
    repaired: bool,
}

/// The page of a line; for a line that is none, its name and the reason.
type AskedLine = Result<AskedPage, (String, String)>;

/// A page, unless its names are too long to be kept.
fn with_short_names(page: AskedPage) -> AskedLine {
    let about = Request { name: &page.name, id: page.request.as_deref(), ..Request::default() };
    let Err(error) = about.check() else { return Ok(page) };
    Err((page.name.chars().take(SHOWN).chain(['…']).collect(), error.to_string()))
}

fn errors(batch: &[AskedLine]) -> u64 {
    batch.iter().filter(|asked| asked.is_err()).count() as u64
}

/// Characters of a name that is too long that an error shows.
const SHOWN: usize = 60;

impl SeenArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        self.index.check()?;
        let piped = self.inputs == [Path::new("-")] && begins_with_json()?;
        anyhow::ensure!(
            piped || self.request_field.is_none(),
            "--request-field has no effect here: requests have names in JSON lines on standard input. Leave it out"
        );
        if self.threads > 0 {
            rayon::ThreadPoolBuilder::new().num_threads(self.threads).build_global().context("threads")?;
        }
        let inputs = corpus::expand_patterns(&self.inputs)?;
        corpus::check_exist(inputs.iter().chain(&self.import))?;
        let mut found = None;
        if !piped && !self.inputs.is_empty() {
            let options = DiscoverOptions { fields: self.names.fields(), ..DiscoverOptions::default() };
            let all = discover_all(&inputs, &options)?;
            // Other files of the crawl may have what is missing here.
            if let Err(error) = corpus::check_fields(&all.inputs, &self.read_options(), &[]) {
                note(&error.to_string());
            }
            found = Some(all);
        }
        let stores = !self.inputs.is_empty() || !self.import.is_empty();
        anyhow::ensure!(
            stores || self.index.index.exists(),
            "{}: there is no such index, and nothing to store in a new one",
            printable_path(&self.index.index)
        );
        let exports_alone = !stores && self.remove.is_empty() && self.expire.is_none();
        let mut opened = self.index.open(self.read_only || exports_alone)?;
        self.remove_some(&mut opened)?;
        self.import_some(&mut opened)?;
        let mut out = AnswerOutput::new(self.json)?;
        let mut corrupt = 0;
        let answers = piped || found.is_some();
        if !self.json && answers {
            out.header()?;
        }
        if piped {
            corrupt = self.pipe(&mut opened, &mut out)?;
        } else if let Some(Discovered { inputs, passed_over }) = found {
            if let Some(message) = passed_over.message() {
                note(&message);
            }
            let mut read = Vec::new();
            for input in inputs {
                read.push(self.file(&input, &mut opened, &mut out)?);
            }
            messages::odd_input_warnings(&read).iter().for_each(|message| note(message));
            corrupt = read.iter().map(|file| file.corrupt).sum();
        }
        if let Some(path) = &self.export {
            opened.seen.export(path)?;
            note(&format!("{} exported", counted(opened.seen.len() as u64, "page was", "pages were")));
        }
        // The index is not closed then, so that answers are in doubt.
        anyhow::ensure!(
            self.read_only || !answers || !out.is_left_unread(),
            "standard output: its reader is gone and has not read all answers. Which ones it has read is not known, so the \
             latest are in doubt: asked about these pages again, the index answers as it did"
        );
        opened.seen.close()?;
        Ok(if corrupt > 0 { Done::WithCorruption } else { Done::Well })
    }

    fn now(&self) -> u64 {
        millis(self.seen_at.unwrap_or_else(SystemTime::now))
    }

    fn remove_some(&self, opened: &mut Opened) -> anyhow::Result<()> {
        if self.remove.is_empty() && self.expire.is_none() {
            return Ok(());
        }
        let names: HashSet<&str> = self.remove.iter().map(String::as_str).collect();
        let before = self.expire.map_or(0, |expire| self.now().saturating_sub(millis_of(expire)));
        let unknown = if names.is_empty() { Vec::new() } else { opened.seen.unknown(&names)? };
        let gone = opened.seen.remove(&names, before)?;
        if opened.seen.has_traces() {
            opened.seen.snapshot()?;
        }
        for name in unknown {
            note(&format!("--remove {}: no stored page has this name", printable(name)));
        }
        note(&format!("{} removed", counted(gone as u64, "page was", "pages were")));
        Ok(())
    }

    fn import_some(&self, opened: &mut Opened) -> anyhow::Result<()> {
        let (seen, now) = (&mut opened.seen, self.now());
        for path in &self.import {
            let before = seen.len();
            if simflip::seen::is_index(path) || format::is_of_kind(path, format::SEEN_LOG) {
                seen.import(path)?;
            } else {
                let settings = staged::settings_of(path)?;
                seen.takes(path, &SeenParams { settings, frequencies: None })?;
                let mut left_out = 0;
                staged::documents_of(path, |document| {
                    let request = Request { name: &document.name, seen: now, ..Request::default() };
                    if request.check().is_err() {
                        left_out += 1;
                        return Ok(());
                    }
                    seen.put(&document.name, now, document.facts, Some(&document.value))
                })?;
                seen.acknowledge()?;
                if left_out > 0 {
                    let path = path.display();
                    note(&format!(
                        "{path}: {left_out} pages were left out, whose names have more than {LONGEST_NAME} bytes"
                    ));
                }
            }
            let pages = counted((seen.len() - before) as u64, "page was", "pages were");
            note(&format!("{pages} imported from {}", path.display()));
        }
        Ok(())
    }

    fn read_options(&self) -> ReadOptions {
        let mut options =
            ReadOptions::new(self.names.fields(), self.names.longest_document(), self.names.rules());
        if self.threads > 0 {
            options.threads = self.threads;
        }
        options
    }

    /// Answers the pages of a file, and gives the outcome of reading it. A page that is not answered counts as corrupt
    /// as well.
    fn file(
        &self,
        input: &Input,
        opened: &mut Opened,
        out: &mut AnswerOutput,
    ) -> anyhow::Result<FileReading> {
        let (pages, mut reading) = sketched(input, &self.read_options(), opened)?;
        for line in reading.corruption_messages() {
            note(&line);
        }
        let mut pages = pages.into_iter().map(|(_, page)| with_short_names(page)).peekable();
        while pages.peek().is_some() {
            let batch: Vec<AskedLine> = pages.by_ref().take(BATCH).collect();
            reading.corrupt += errors(&batch);
            self.answer(batch, opened, out)?;
        }
        Ok(reading)
    }

    /// Answers lines as they come, and gives how many were no pages.
    fn pipe(&self, opened: &mut Opened, out: &mut AnswerOutput) -> anyhow::Result<u64> {
        let objects =
            objects_of_input(self.names.longest_document().unwrap_or(ReadOptions::default().record_cap));
        // The field that groups documents elsewhere names the request here.
        let request = self.request_field.as_deref().unwrap_or("request");
        let fields = JsonlFields { group: Some(request.to_owned()), ..self.names.fields() };
        let strict = self.names.rules().strict;
        let mut sketcher = opened.sketcher()?;
        let mut reading = FileReading { path: "-".into(), ..FileReading::default() };
        // One object is waited for; those that are there already go with it.
        while let Ok(first) = objects.recv() {
            let mut batch = vec![first?];
            while batch.len() < BATCH
                && let Ok(object) = objects.try_recv()
            {
                batch.push(object?);
            }
            let read = |sketcher: &mut Sketcher, object: &PipedObject| object.read(sketcher, &fields, strict);
            let asked: Vec<Option<AskedLine>> = match &batch[..] {
                [object] => vec![read(&mut sketcher, object)],
                several => several
                    .par_iter()
                    .map_init(
                        || opened.sketcher(),
                        |sketcher, object| match sketcher {
                            Ok(sketcher) => read(sketcher, object),
                            Err(error) => Some(Err((String::new(), error.to_string()))),
                        },
                    )
                    .collect(),
            };
            let asked: Vec<AskedLine> = asked.into_iter().flatten().collect();
            reading.corrupt += errors(&asked);
            reading.repaired += asked.iter().flatten().filter(|page| page.repaired).count() as u64;
            self.answer(asked, opened, out)?;
        }
        messages::odd_input_warnings([&reading]).iter().for_each(|message| note(message));
        Ok(reading.corrupt)
    }

    /// Answers some pages, and remembers those whose answers went out.
    fn answer(
        &self,
        batch: Vec<AskedLine>,
        opened: &mut Opened,
        out: &mut AnswerOutput,
    ) -> anyhow::Result<()> {
        let (seen, now) = (&mut opened.seen, self.now());
        let (mut lines, mut ends) = (Vec::new(), Vec::new());
        for asked in batch {
            match asked {
                Err((name, error)) => out.form.error(&mut lines, &name, &error)?,
                Ok(AskedPage { name, request: id, sketch, .. }) => {
                    let about = Request { name: &name, id: id.as_deref(), ..request(now, self.index.fresh) };
                    let reply = match self.read_only {
                        true => seen.ask(&about, &sketch)?,
                        false => seen.ask_and_add(&about, &sketch)?,
                    };
                    out.form.answer(&mut lines, &name, id.as_deref(), &reply)?;
                    ends.push(lines.len());
                }
            }
        }
        if !self.read_only {
            seen.commit()?;
        }
        let (written, failure) = out.write(&lines);
        let Some(error) = failure else {
            return if self.read_only { Ok(()) } else { Ok(seen.sent()?) };
        };
        if self.read_only {
            return Err(error).context("standard output");
        }
        let sent = ends.iter().filter(|&&end| end <= written).count();
        seen.withdraw(sent)?;
        // A reader who is gone may not have read its answers: the index is not closed, so they are in doubt.
        if error.kind() != io::ErrorKind::BrokenPipe {
            seen.close()?;
        }
        anyhow::bail!(
            "standard output: {error}. {} answers could not be delivered, and their pages are not remembered",
            ends.len() - sent
        );
    }
}

/// Standard output for answers, which knows how many bytes went out.
struct AnswerOutput {
    form: Form,
    #[cfg(unix)]
    file: File,
    #[cfg(not(unix))]
    file: io::Stdout,
}

impl AnswerOutput {
    fn new(json: bool) -> anyhow::Result<Self> {
        let form = Form { json, terminal: io::stdout().is_terminal() };
        #[cfg(unix)]
        let file = {
            use std::os::fd::AsFd;
            // Without the buffer of the library, which does not say how much went out.
            File::from(io::stdout().as_fd().try_clone_to_owned().context("standard output")?)
        };
        #[cfg(not(unix))]
        let file = io::stdout();
        Ok(Self { form, file })
    }

    fn header(&mut self) -> anyhow::Result<()> {
        match self.write((COLUMNS.join(",") + "\n").as_bytes()) {
            (_, None) => Ok(()),
            (_, Some(error)) => Err(error).context("standard output"),
        }
    }

    /// Writes lines, and gives how many bytes of them went out, and the error if not all did.
    fn write(&mut self, lines: &[u8]) -> (usize, Option<io::Error>) {
        let mut written = 0;
        while written < lines.len() {
            match self.file.write(&lines[written..]) {
                Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Some(error)),
            }
        }
        (written, self.file.flush().err())
    }
}

/// Time in which a reader is waited for at the end of the answers, to read them or to be found gone: of a process that
/// writes lines and reads answers, one end is closed an instant before the other.
const LAST_READ: Duration = Duration::from_millis(200);

impl AnswerOutput {
    /// True if the reader is gone and has left answers unread, as far as the system says.
    #[cfg(unix)]
    fn is_left_unread(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use std::os::unix::fs::FileTypeExt;
        let is_socket = self.file.metadata().is_ok_and(|found| found.file_type().is_socket());
        let unread = || rustix::io::ioctl_fionread(&self.file).is_ok_and(|unread| unread > 0);
        let (begun, moment) = (Instant::now(), Timespec { tv_sec: 0, tv_nsec: 5_000_000 });
        while (is_socket || unread()) && begun.elapsed() < LAST_READ {
            let mut output = [PollFd::new(&self.file, PollFlags::empty())];
            let polled = poll(&mut output, Some(&moment)).map_or(PollFlags::empty(), |_| output[0].revents());
            // A socket that was closed has an error only if its reader left something unread.
            if polled.contains(PollFlags::ERR) || !is_socket && polled.contains(PollFlags::HUP) {
                return true;
            }
            if polled.contains(PollFlags::HUP) {
                break;
            }
        }
        false
    }

    #[cfg(not(unix))]
    fn is_left_unread(&self) -> bool {
        false
    }
}

/// An object of standard input, or a blank line.
struct PipedObject {
    /// Its line, and which of the line's objects it is, both from 1.
    line: u64,
    number: u64,
    /// None if it is too long.
    bytes: Option<Vec<u8>>,
}

impl PipedObject {
    /// Reads its page, and makes the sketch of that; none if it is a blank line.
    fn read(&self, sketcher: &mut Sketcher, fields: &JsonlFields, strict: bool) -> Option<AskedLine> {
        let place = || match self {
            Self { line, number: 1, .. } => format!("line {line}"),
            Self { line, number, .. } => format!("line {line}, object {number}"),
        };
        let Some(bytes) = &self.bytes else {
            return Some(Err((place(), "longer than --longest-document allows".to_owned())));
        };
        match document_of_line(bytes, fields, strict) {
            Ok(None) => None,
            Ok(Some(page)) => {
                let name = page.url.or(page.id).map_or_else(place, Cow::into_owned);
                let request = page.group.map(Cow::into_owned);
                let (sketch, repaired) = (sketcher.sketch(&page.text), page.repaired);
                Some(with_short_names(AskedPage { name, request, sketch, repaired }))
            }
            Err(error) => Some(Err((place(), error))),
        }
    }
}

/// True if standard input begins with an object of JSON. Nothing of it is taken.
fn begins_with_json() -> anyhow::Result<bool> {
    let mut input = io::stdin().lock();
    let head = input.fill_buf().context("standard input")?;
    let head = head.trim_ascii_start();
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    Ok(head.starts_with(b"{"))
}

/// Reads the objects of standard input on a thread of its own, a few ahead.
fn objects_of_input(longest: usize) -> Receiver<anyhow::Result<PipedObject>> {
    let (send, objects) = sync_channel(BATCH);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        for line in 1.. {
            let mut number = 0;
            let take = |object: Option<&[u8]>| {
                number += 1;
                send.send(Ok(PipedObject { line, number, bytes: object.map(<[u8]>::to_vec) })).is_ok()
            };
            match next_line(&mut input, longest, take).context("standard input") {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let _ = send.send(Err(error));
                    return;
                }
            }
        }
    });
    objects
}

/// Hands over the objects of the next line, and nothing in place of one that is too long, which ends the line. False at
/// the end of the input, and where nobody takes any more.
fn next_line(
    input: &mut impl BufRead,
    longest: usize,
    mut take: impl FnMut(Option<&[u8]>) -> bool,
) -> io::Result<bool> {
    let (mut line, mut cut) = (Vec::new(), false);
    loop {
        // Of an object that is too long no more is held than shows that.
        let room = longest + 1 - line.len();
        let read = input.by_ref().take(room as u64).read_until(b'\n', &mut line)?;
        if read == 0 && !cut {
            return Ok(false);
        }
        let is_whole = line.pop_if(|last| *last == b'\n').is_some() || read < room;
        let mut rest = 0;
        {
            let mut objects = objects_of_line(&line).peekable();
            while let Some(object) = objects.next() {
                if !is_whole && objects.peek().is_none() {
                    // The last one goes on.
                    rest = object.len();
                } else if !take(Some(object)) {
                    return Ok(false);
                }
            }
        }
        if is_whole {
            return Ok(true);
        }
        if rest > longest {
            drop(line);
            input.skip_until(b'\n')?;
            return Ok(take(None));
        }
        line.drain(..line.len() - rest);
        cut = true;
    }
}

/// The pages of a file in their order.
fn sketched(
    input: &Input,
    options: &ReadOptions,
    opened: &Opened,
) -> anyhow::Result<(Vec<(DocId, AskedPage)>, FileReading)> {
    let name = |document: &Document<'_>| {
        let own = document.url.or(document.record_id);
        own.map_or_else(|| input.name_of(document.id.row), str::to_owned)
    };
    // Settings that no sketcher can be made of are refused before anything is read.
    opened.sketcher()?;
    let mut reading = corpus::read(
        std::slice::from_ref(input),
        options,
        || (opened.sketcher().ok(), Vec::new()),
        |(sketcher, pages), document| {
            if let Some(sketcher) = sketcher {
                let (name, sketch) = (name(&document), sketcher.sketch(document.text));
                let page = AskedPage { name, request: None, sketch, repaired: document.repaired };
                pages.push((document.id, page));
            }
        },
        &|_| (),
    );
    let mut pages: Vec<_> = reading.workers.into_iter().flat_map(|(_, pages)| pages).collect();
    pages.sort_unstable_by_key(|(id, _)| *id);
    Ok((pages, reading.files.pop().unwrap_or_default()))
}
