//! Which columns of a file are wanted, and at which rows its row groups or record batches begin.

use std::path::Path;
use std::sync::Arc;

use super::arrow::Messages;
use super::columns::ValueKind;
use super::footer::{self, Footer};
use super::stored::Stored;
use crate::corpus::damage::{Damage, DamageCause, DamageKind};
use crate::corpus::filetype::Format;
use crate::corpus::inputs::Input;
use crate::corpus::jsonl::{JsonlFields, twice};
use crate::corpus::options::ReadOptions;
use crate::document::Place;

/// A column of values.
#[derive(Clone, Debug)]
pub(super) struct ValueColumn {
    /// Its place among the columns of values.
    pub index: usize,
    /// The column of the table that it is in, and its place among the values there (Arrow).
    pub root: usize,
    pub leaf: usize,
    /// The names of the groups that it is in, and its own, as the format has them.
    pub path: String,
    pub kind: ValueKind,
    /// A row may have any number of its values.
    pub is_list: bool,
    /// The type of its values, if they are no strings.
    pub other: Option<String>,
}

impl ValueColumn {
    /// Its name: its path without the names that Parquet gives lists and their elements.
    fn called(&self) -> String {
        let mut name = self.path.clone();
        for list in [".list.element", ".list.item", ".bag.array_element"] {
            name = name.replace(list, "");
        }
        name
    }
}

/// Columns besides the text.
pub(super) const NAMES: usize = 5;

/// A file by its format.
#[derive(Debug)]
pub(super) enum Contents {
    Parquet(Arc<Footer>),
    Arrow(Messages),
}

/// The content of a file, and the columns that are wanted. Record batches of Arrow are row groups here.
#[derive(Debug)]
pub(super) struct Layout {
    pub contents: Contents,
    /// Of the text, or of the texts that are joined.
    pub texts: Vec<ValueColumn>,
    /// Id, URL, language, score and group.
    pub names: [Option<ValueColumn>; NAMES],
    /// The row at which each row group begins, and the row behind the last.
    pub starts: Vec<u64>,
}

/// The names of a file's columns; none if it does not say.
pub(crate) fn column_names(input: &Input) -> Vec<String> {
    let stored = input.open().and_then(Stored::new).ok();
    let columns = stored.and_then(|stored| match input.format {
        Format::Arrow => Messages::of(&stored).ok().map(|messages| messages.columns()),
        _ => footer::read_schema(&stored).ok().map(|(_, schema)| footer::columns(&schema)),
    });
    columns.unwrap_or_default().iter().map(ValueColumn::called).collect()
}

/// Bytes that a reader of a file holds besides what is read of its columns.
pub(crate) fn held(input: &Input) -> u64 {
    let stored = input.open().and_then(Stored::new).ok();
    let held = |stored: Stored| match input.format {
        Format::Arrow => Messages::of(&stored).map_or(0, |messages| messages.held()),
        _ => (2 * stored.length()).min(2 << 20) + footer::held(&stored),
    };
    stored.map_or(0, held)
}

/// The first names of columns, for a person.
fn listed(columns: &[ValueColumn]) -> String {
    const LISTED: usize = 40;
    let mut names: Vec<String> = columns.iter().take(LISTED).map(ValueColumn::called).collect();
    if columns.len() > LISTED {
        names.push(format!("and {} more", columns.len() - LISTED));
    }
    names.join(", ")
}

/// The column of a name: as the format has it, or as [`ValueColumn::called`]; `/a/b` is `a.b`.
fn find_column(columns: &[ValueColumn], name: &str) -> Option<ValueColumn> {
    let dotted = name.strip_prefix('/').map(|pointer| pointer.replace('/', "."));
    let name = dotted.as_deref().unwrap_or(name);
    let literal = columns.iter().find(|column| column.path == name);
    literal.or_else(|| columns.iter().find(|column| column.called() == name)).cloned()
}

/// A name that is wanted and that two columns have.
fn find_twice<'f>(columns: &[ValueColumn], fields: &'f JsonlFields) -> Option<&'f str> {
    let is_twice = |name: &&str| columns.iter().filter(|column| column.path == **name).count() > 1;
    fields.wanted().find(is_twice)
}

/// The columns of the text.
fn text_columns(columns: &[ValueColumn], fields: &JsonlFields) -> Result<Vec<ValueColumn>, DamageCause> {
    let advice = || format!("--text-field names another one of {}", listed(columns));
    let text_column = |name: &str| {
        // Of a conversation, what its messages say.
        let messages =
            || ["content", "value"].iter().find_map(|it| find_column(columns, &format!("{name}.{it}")));
        let Some(column) = find_column(columns, name).or_else(messages) else {
            return Err((DamageKind::NoText, format!("no column {name:?}; {}", advice())));
        };
        match &column.other {
            None => Ok(column),
            Some(other) => {
                let detail = format!("column {name:?} is {other}, not strings; {}", advice());
                Err((DamageKind::NoText, detail))
            }
        }
    };
    match text_column(&fields.text) {
        Err((DamageKind::NoText, _)) if fields.joined().next().is_some() => {
            fields.joined().map(text_column).collect()
        }
        one => Ok(vec![one?]),
    }
}

impl Layout {
    /// Reads what a file says of itself.
    ///
    /// # Errors
    /// The damage that keeps the file from being read.
    pub fn of(stored: &Stored, format: Format, options: &ReadOptions) -> Result<Self, DamageCause> {
        let fields = &options.fields;
        let (contents, columns, rows) = match format {
            Format::Arrow => {
                let messages = Messages::of(stored)?;
                let (columns, rows) = (messages.columns(), messages.rows().collect());
                (Contents::Arrow(messages), columns, rows)
            }
            _ => {
                let footer = Footer::of(stored)?;
                let (columns, rows) = (footer::columns(&footer.schema), footer.rows()?);
                (Contents::Parquet(Arc::new(footer)), columns, rows)
            }
        };
        if let Some(name) = find_twice(&columns, fields) {
            return Err((DamageKind::NoText, twice(name)));
        }
        let texts = text_columns(&columns, fields)?;
        let JsonlFields { id, url, language, score, group, .. } = fields;
        let names = [Some(id), Some(url), Some(language), score.as_ref(), group.as_ref()];
        // A column that may hold names: one for each row.
        let name_column = |name: &String| find_column(&columns, name).filter(|column| !column.is_list);
        let names = names.map(|name| name.and_then(name_column));
        let mut starts = vec![0u64];
        for rows in rows {
            let next = starts.last().and_then(|start| start.checked_add(rows));
            starts.push(next.ok_or_else(|| (DamageKind::Corrupt, format!("a row group of {rows} rows")))?);
        }
        Ok(Self { contents, texts, names, starts })
    }

    /// Rows of a row group.
    pub fn rows(&self, group: usize) -> u64 {
        self.starts[group + 1] - self.starts[group]
    }

    /// Decoded bytes of columns of a row group, as the file says; of Arrow those of all columns, as they are stored.
    fn decoded_bytes<'a>(&self, group: usize, columns: impl Iterator<Item = &'a ValueColumn>) -> u64 {
        match &self.contents {
            Contents::Parquet(footer) => {
                let size =
                    |column: &ValueColumn| footer.group(group).column(column.index).uncompressed_size();
                columns.map(|column| u64::try_from(size(column)).unwrap_or(0)).fold(0, u64::saturating_add)
            }
            Contents::Arrow(messages) => messages.bytes(group),
        }
    }

    /// Of the texts of a row group.
    pub fn text_bytes(&self, group: usize) -> u64 {
        self.decoded_bytes(group, self.texts.iter())
    }

    /// Of all columns of a row group that are wanted.
    pub fn wanted_bytes(&self, group: usize) -> u64 {
        self.decoded_bytes(group, self.texts.iter().chain(self.names.iter().flatten()))
    }

    /// Stored bytes of a row group.
    pub fn stored_bytes(&self, group: usize) -> u64 {
        match &self.contents {
            Contents::Parquet(footer) => u64::try_from(footer.group(group).compressed_size()).unwrap_or(0),
            Contents::Arrow(messages) => messages.bytes(group),
        }
    }

    /// Where the text of a row group stands in the file; of Arrow, where the record batch does.
    pub fn offset(&self, group: usize) -> u64 {
        match &self.contents {
            Contents::Parquet(footer) => {
                let chunk = footer.group(group).column(self.texts[0].index);
                let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
                u64::try_from(start).unwrap_or(0)
            }
            Contents::Arrow(messages) => messages.offset(group),
        }
    }

    /// The format's name of a row group.
    pub fn group_called(&self) -> &'static str {
        match self.contents {
            Contents::Parquet(_) => "row group",
            Contents::Arrow(_) => "record batch",
        }
    }

    /// The damage behind the last row group, if there is some.
    pub fn damage_at_end(&self, input: &Input) -> Option<Damage> {
        let Contents::Arrow(messages) = &self.contents else { return None };
        let (offset, (kind, why), documents) = messages.end.as_ref()?;
        Some(Damage { documents: *documents, ..Damage::of_file(&input.path, *offset, *kind, why) })
    }

    /// Tells which rows are lost: so many of a row group, from this row of the file on, that are not among the kept.
    pub fn not_kept(
        &self,
        path: &Path,
        group: usize,
        row: u64,
        documents: u64,
        cause: DamageCause,
    ) -> Damage {
        let (kind, detail) = cause;
        let called = self.group_called();
        let detail = format!("{detail}; {documents} documents of {called} {group} are not among the kept");
        self.damage_of_rows(path, group, row, documents, (kind, detail))
    }

    /// Tells that so many rows of a row group are lost, from this row of the file on.
    pub fn damage_of_rows(
        &self,
        path: &Path,
        group: usize,
        row: u64,
        documents: u64,
        cause: DamageCause,
    ) -> Damage {
        let place = Place { offset: self.offset(group), ..Place::default() };
        let (kind, detail) = cause;
        Damage { documents: Some(documents), ..Damage::at(path, Some(row), place, kind, detail) }
    }

    /// The row group that a row stands in.
    pub fn group_of(&self, row: u32) -> Option<usize> {
        let group = self.starts.partition_point(|&start| start <= u64::from(row)) - 1;
        (group + 1 < self.starts.len()).then_some(group)
    }
}
