//! The layout of a file of Parquet or Arrow: the columns that are wanted, and the rows of its row groups.
//!
//! Record batches of Arrow are called row groups here. A name is an id, URL, language, score or group.

use std::ops::Range;
use std::path::PathBuf;

use super::arrow::Messages;
use super::columns::ValueColumn;
use super::footer::{self, Footer};
use super::stored::Stored;
use crate::corpus::corruption::{Corruption, CorruptionCause, CorruptionKind, unreadable};
use crate::corpus::filetype::Format;
use crate::corpus::input::Input;
use crate::corpus::jsonl::{JsonlFields, LISTED};
use crate::corpus::options::ReadOptions;
use crate::display::first_of;
use crate::document::{DocId, Place};

/// The number of names: id, URL, language, score and group.
pub(super) const NAMES: usize = 5;

/// The description of its content that a file has.
#[derive(Debug)]
pub(super) enum Contents {
    /// The footer of a Parquet file.
    Parquet(Footer),
    /// The heads of the messages of an Arrow file or stream.
    Arrow(Messages),
}

/// The description of a file's content, and the columns that are wanted of it.
#[derive(Debug)]
pub(super) struct Layout {
    /// The file, as it was named.
    path: PathBuf,
    pub contents: Contents,
    /// The column of the text, or those that are joined, in order; never empty.
    pub texts: Vec<ValueColumn>,
    /// The columns of id, URL, language, score and group, in this order; `None` if not wanted, not there, or a list.
    pub names: [Option<ValueColumn>; NAMES],
    /// The row groups in file order.
    pub groups: Vec<GroupHead>,
}

/// The facts about a row group that a file states.
#[derive(Debug)]
pub(super) struct GroupHead {
    /// Its rows, counted from the start of the file.
    pub rows: Range<u64>,
    /// The stored offset of the column of the (first) text; of Arrow, of the record batch.
    pub offset: u64,
    /// Stored bytes of all columns.
    pub stored: u64,
    /// Decoded bytes of the columns of texts; of Arrow as `stored`.
    pub texts: u64,
    /// Decoded bytes of all columns that are wanted; of Arrow as `stored`.
    pub wanted: u64,
}

/// The names of a file's columns of values for messages, lists marked as such; empty if the file cannot be read.
pub(crate) fn column_names(input: &Input) -> Vec<String> {
    let stored = Stored::open(input).ok();
    let columns = stored.and_then(|stored| match input.format {
        Format::Arrow => Messages::of(&stored).ok().map(|messages| messages.columns()),
        _ => footer::read_schema(&stored).ok().map(|(_, schema)| footer::columns(&schema)),
    });
    let called = |column: &ValueColumn| column.called() + if column.is_list { " (a list)" } else { "" };
    columns.unwrap_or_default().iter().map(called).collect()
}

/// Bytes of memory that a reader of a file holds besides the documents: for the footer, or for the largest record
/// batch.
pub(crate) fn held(input: &Input) -> u64 {
    let Ok(stored) = Stored::open(input) else { return 0 };
    match input.format {
        Format::Arrow => Messages::of(&stored).map_or(0, |messages| messages.held()),
        _ => (2 * stored.length).min(2 << 20) + footer::held(&stored),
    }
}

/// The column of a name: as the format has it, or as [`ValueColumn::called`]; `/a/b` is `a.b`.
fn find_column(columns: &[ValueColumn], name: &str) -> Option<ValueColumn> {
    let dotted = name.strip_prefix('/').map(|pointer| pointer.replace('/', "."));
    let name = dotted.as_deref().unwrap_or(name);
    let literal = columns.iter().find(|column| column.path == name);
    literal.or_else(|| columns.iter().find(|column| column.called() == name)).cloned()
}

/// The columns of the text.
fn text_columns(columns: &[ValueColumn], fields: &JsonlFields) -> Result<Vec<ValueColumn>, CorruptionCause> {
    let names = || first_of(columns.iter().map(ValueColumn::called), LISTED);
    let advice = || format!("--text-field names another one of {}", names());
    let text_column = |name: &str| {
        // Of a conversation, what its messages say.
        let messages =
            || ["content", "value"].iter().find_map(|it| find_column(columns, &format!("{name}.{it}")));
        let Some(column) = find_column(columns, name).or_else(messages) else {
            return Err((CorruptionKind::NoText, format!("no column {name:?}; {}", advice())));
        };
        match &column.other {
            None => Ok(column),
            Some(other) => {
                let detail = format!("column {name:?} is {other}, not strings; {}", advice());
                Err((CorruptionKind::NoText, detail))
            }
        }
    };
    match text_column(&fields.text) {
        Err((CorruptionKind::NoText, _)) if fields.joined().next().is_some() => {
            fields.joined().map(text_column).collect()
        }
        one => Ok(vec![one?]),
    }
}

impl Layout {
    /// Reads the description of a file, and looks for the columns that the options name.
    ///
    /// # Errors
    /// The corruption that keeps the file from being read; a missing column of the text is such.
    pub fn of(input: &Input, options: &ReadOptions) -> Result<Self, CorruptionCause> {
        let fields = &options.fields;
        let stored = &Stored::open(input).map_err(unreadable)?;
        let (contents, columns, rows) = match input.format {
            Format::Arrow => {
                let messages = Messages::of(stored)?;
                let (columns, rows) =
                    (messages.columns(), messages.batches.iter().map(|it| it.rows).collect());
                (Contents::Arrow(messages), columns, rows)
            }
            _ => {
                let footer = Footer::of(stored)?;
                let (columns, rows) = (footer::columns(&footer.schema), footer.rows()?);
                (Contents::Parquet(footer), columns, rows)
            }
        };
        fields.check_columns(columns.iter().map(|column| &*column.path))?;
        let texts = text_columns(&columns, fields)?;
        let JsonlFields { id, url, language, score, group, .. } = fields;
        let names = [Some(id), Some(url), Some(language), score.as_ref(), group.as_ref()];
        // A column that may hold names: one for each row.
        let name_column = |name: &String| find_column(&columns, name).filter(|column| !column.is_list);
        let names = names.map(|name| name.and_then(name_column));
        let (path, groups) = (input.path.clone(), Vec::with_capacity(rows.len()));
        let mut layout = Self { path, contents, texts, names, groups };
        for rows in rows {
            let start = layout.rows();
            let end = start.checked_add(rows);
            let end =
                end.ok_or_else(|| (CorruptionKind::Undecodable, format!("a row group of {rows} rows")))?;
            layout.groups.push(layout.head(layout.groups.len(), start..end));
        }
        Ok(layout)
    }

    fn head(&self, group: usize, rows: Range<u64>) -> GroupHead {
        let footer = match &self.contents {
            Contents::Parquet(footer) => footer,
            Contents::Arrow(messages) => {
                let place = messages.batches[group].place;
                let bytes = place.bytes();
                return GroupHead { rows, offset: place.offset, stored: bytes, texts: bytes, wanted: bytes };
            }
        };
        let (group, number) = (footer.group(group), |n: i64| u64::try_from(n).unwrap_or(0));
        let decoded = |column: &ValueColumn| number(group.column(column.root).uncompressed_size());
        let texts = self.texts.iter().map(decoded).fold(0, u64::saturating_add);
        let wanted = self.names.iter().flatten().map(decoded).fold(texts, u64::saturating_add);
        let text = group.column(self.texts[0].root);
        let offset = number(text.dictionary_page_offset().unwrap_or(text.data_page_offset()));
        GroupHead { rows, offset, stored: number(group.compressed_size()), texts, wanted }
    }

    /// The number of rows of all row groups.
    pub fn rows(&self) -> u64 {
        self.groups.last().map_or(0, |last| last.rows.end)
    }

    /// The format's name of a row group.
    pub fn group_called(&self) -> &'static str {
        match self.contents {
            Contents::Parquet(_) => "row group",
            Contents::Arrow(_) => "record batch",
        }
    }

    /// The corruption behind the last row group, if something there is not read (Arrow).
    pub fn corruption_at_end(&self) -> Option<Corruption> {
        let Contents::Arrow(messages) = &self.contents else { return None };
        let (offset, (kind, why), documents) = messages.end.as_ref()?;
        Some(Corruption { documents: *documents, ..Corruption::of_file(&self.path, *offset, *kind, why) })
    }

    /// The corruption where `lost` kept documents of a row group, the first of which is `row` of the file, cannot be
    /// written.
    pub fn not_kept(&self, group: usize, row: u64, lost: u64, (kind, why): CorruptionCause) -> Corruption {
        let called = self.group_called();
        let why = format!("{why}; {lost} documents of {called} {group} are not among the kept");
        self.lost_rows(group, row, lost, (kind, why))
    }

    /// The corruption that costs `lost` rows of a row group, from `row` of the file on.
    pub fn lost_rows(&self, group: usize, row: u64, lost: u64, (kind, why): CorruptionCause) -> Corruption {
        let place = Place { offset: self.groups[group].offset, ..Place::default() };
        Corruption { documents: Some(lost), ..Corruption::at(&self.path, Some(row), place, kind, why) }
    }

    /// The number of the row group that holds a row of the file; `None` for a row behind the last one.
    pub fn group_of(&self, row: u64) -> Option<usize> {
        let group = self.groups.partition_point(|group| group.rows.end <= row);
        (group < self.groups.len()).then_some(group)
    }

    /// The documents of each row group, behind its number; `None` for documents behind the last one. Documents with
    /// ascending rows come in one piece for each row group.
    pub fn by_group<'w>(
        &self,
        documents: &'w [(DocId, Place)],
    ) -> impl Iterator<Item = (Option<usize>, &'w [(DocId, Place)])> {
        let group_of = move |(id, _): &(DocId, Place)| self.group_of(id.row.into());
        let is_of_one = move |before: &(DocId, Place), next: &(DocId, Place)| {
            before.0.row < next.0.row && group_of(before) == group_of(next)
        };
        documents.chunk_by(is_of_one).map(move |documents| (group_of(&documents[0]), documents))
    }
}
