//! A check that documents have the fields that a user named, by a look at the first documents: a misspelt name stops a
//! run before it begins.

use super::corruption::{CorruptionKind, FileReading};
use super::document::Document;
use super::filetype::Format;
use super::input::{Input, ReadInput};
use super::jsonl::{JsonlFields, LISTED, field_names};
use super::options::ReadOptions;
use super::parquet;
use super::reader::{Block, Reader};
use super::records::Records;
use crate::display::first_of;
use crate::{Error, Result};

/// Documents that are looked at before a field is said to be missing.
const DOCUMENTS: u64 = 10_000;

/// A value that documents must have for an option to make sense.
pub(crate) struct Needed {
    /// The option that needs it or names its field.
    pub parameter: &'static str,
    /// The value of that option, for the message.
    pub named: String,
    /// The fields that the option wants, in words, for the message.
    pub expected: String,
    /// Returns true if a document has the value.
    pub has: fn(&Document<'_>) -> bool,
}

/// Checks that documents have a text, the values of `others`, and an id and a URL if the user named their fields.
///
/// # Errors
/// If none of the first 10,000 records has one of them, with about 1,000 of a file at most. A very long record counts
/// as one that has it. It is an error as well if a field is named and all files are WARC.
pub(crate) fn check_fields(inputs: &[Input], options: &ReadOptions, others: &[Needed]) -> Result<()> {
    let JsonlFields { text, id, url, named, .. } = &options.fields;
    let values = [("text-field", text), ("id-field", id), ("url-field", url)];
    let mut typed = values.into_iter().filter(|(option, _)| named.0.contains(option));
    if inputs.iter().all(|input| input.format == Format::Wet && input.problem.is_none())
        && let Some((option, value)) = typed.next()
    {
        let expected = "files of JSON lines or of tables; these are of WARC, whose records have no fields, and an ID and a \
                        URL of their own. Leave it out";
        return Err(Error::parameter(option, value, expected));
    }
    check_texts(inputs, options, "documents")?;
    let usual = JsonlFields::default();
    let id = (*id != usual.id || named.0.contains(&"id-field")).then(|| Needed {
        parameter: "id-field",
        named: id.clone(),
        expected: "a field with the IDs of documents".to_owned(),
        has: |document| document.record_id.is_some(),
    });
    let is_named = *url != usual.url || named.0.contains(&"url-field");
    let url = is_named.then(|| Needed::url(url, "", |document| document.url.is_some()));
    others.iter().chain(&id).chain(&url).try_for_each(|needed| needed.check(inputs, options))
}

/// Checks that documents have a text; `whose` names them in the message, as in `documents`.
///
/// # Errors
/// If none of the records that [`check_fields`] looks at has one, or one of the fields that are joined.
pub(crate) fn check_texts(inputs: &[Input], options: &ReadOptions, whose: &str) -> Result<()> {
    // Of several fields each must be there, unless one has such a name, commas and all.
    let (text, joined) = (&options.fields.text, options.fields.joined().collect::<Vec<&str>>());
    let is_literal = !joined.is_empty() && names_there(inputs, options).contains(text);
    for name in std::iter::once(&**text).chain(joined.into_iter().filter(|_| !is_literal)) {
        let fields = JsonlFields { text: name.to_owned(), ..options.fields.clone() };
        let of_text = ReadOptions { fields, ..options.clone() };
        let (named, expected) = (name.to_owned(), format!("a field with the texts of {whose}"));
        let text = Needed { parameter: "text-field", named, expected, has: |_| true };
        text.check(inputs, &of_text)?;
    }
    Ok(())
}

impl Needed {
    /// Checks that one of the first documents has it.
    fn check(&self, inputs: &[Input], options: &ReadOptions) -> Result<()> {
        let Some(looked_at) = without(inputs, options, self.has) else { return Ok(()) };
        let none = match looked_at {
            // A table whose columns are known has no row that could be read.
            0 | 1 => "the first record has none".to_owned(),
            _ if looked_at < DOCUMENTS => format!("none of the {looked_at} records has one"),
            _ => format!("none of the first {looked_at} records has one"),
        };
        let names = names_there(inputs, options);
        let why = match options.fields.check_columns(names.iter().map(String::as_str)) {
            // No row is read then, whatever it has.
            Err((_, why)) if inputs.iter().all(|input| input.format != Format::Jsonl) => why,
            _ if names.is_empty() => none,
            _ => format!("{none}. There are: {}", first_of(names, LISTED)),
        };
        Err(Error::parameter(self.parameter, &self.named, format!("{}; {why}", self.expected)))
    }

    /// A URL in the field `named` that `has` accepts. `why` follows "URLs of documents" in the message.
    pub fn url(named: &str, why: &str, has: fn(&Document<'_>) -> bool) -> Self {
        let expected = format!("a field with the URLs of documents{why}");
        Self { parameter: "url-field", named: named.to_owned(), expected, has }
    }

    /// A score, as `named`, the value of the option `parameter`, asks for.
    pub fn score(parameter: &'static str, named: String) -> Self {
        let expected = "a field with numbers or dates".to_owned();
        Self { parameter, named, expected, has: |document| document.score.is_some() }
    }

    /// A value in `field` that groups documents, as `named`, the value of the option `parameter`, asks for.
    pub fn group(parameter: &'static str, named: String, field: &str) -> Self {
        let expected = format!("a field {field:?} with values that group documents");
        Self { parameter, named, expected, has: |document| document.group.is_some() }
    }
}

/// The number of records that were looked at, if none of their documents has the value. `None` if one has it, or if
/// no document was found for another reason than a missing text.
fn without(inputs: &[Input], options: &ReadOptions, has: fn(&Document<'_>) -> bool) -> Option<u64> {
    /// Decoded bytes that are looked at together.
    const BLOCK: usize = 1 << 16;
    /// Bytes of a record at most: a longer one ends the look.
    const RECORD: u64 = 2 << 20;
    /// Documents of one file at most.
    const OF_FILE: u64 = DOCUMENTS / 10;
    let options = ReadOptions { threads: 1, block_bytes: BLOCK, ..options.clone() };
    let mut all = FileReading::default();
    for input in inputs {
        let read = ReadInput { shard: 0, input, options: &options };
        let (mut reader, mut block) = (Reader::open(read), Block::default());
        let mut found = false;
        let mut file = FileReading::default();
        while !found && file.records < OF_FILE && reader.next_block_of(None, RECORD, &mut block) {
            let too_long = block.process(read, RECORD, |document| found |= has(&document));
            found |= too_long.is_some();
            file.merge(std::mem::take(&mut block.part));
        }
        all.merge(file);
        if found {
            return None;
        }
        if all.records >= DOCUMENTS {
            break;
        }
    }
    // The head of a list of pages is no document.
    let has_no_text = all.documents == 0
        && all.without_text <= u64::from(all.no_text > 0)
        && all.corruption.iter().any(|corruption| corruption.kind == CorruptionKind::NoText);
    (has_no_text || all.documents > 0).then_some(all.records)
}

/// The names of the fields or columns of the first input and record that have some; empty for WARC.
pub(crate) fn names_there(inputs: &[Input], options: &ReadOptions) -> Vec<String> {
    let of = |input: &Input| match input.format {
        Format::Wet => Vec::new(),
        Format::Csv => input.header.as_ref().map_or(Vec::new(), |header| header.names.clone()),
        Format::Parquet | Format::Arrow => parquet::column_names(input),
        Format::Jsonl => {
            let read = ReadInput { shard: 0, input, options };
            let (mut reader, mut block) = (Reader::open(read), Block::default());
            reader.next_block(&mut block);
            let Records { bytes, spans, .. } = &block.records;
            let mut names =
                spans.iter().map(|span| field_names(&bytes[span.content_start..span.content_end]));
            names.find(|it| !it.is_empty()).unwrap_or_default()
        }
    };
    inputs.iter().map(of).find(|names| !names.is_empty()).unwrap_or_default()
}
