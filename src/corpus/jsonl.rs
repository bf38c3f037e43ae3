//! Lines of JSON: where the object on a line ends, and the fields that are wanted of it. Names of fields, which name
//! columns of CSV, Parquet and Arrow as well, are here too.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2, memchr3};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::corruption::{CorruptionCause, CorruptionKind};
use super::cut::{End, Step};
use super::document::RecordContent;
use super::filetype::skip_blank;

/// The names of the fields or columns that are read.
///
/// `a.b` and `/a/b` name the field `b` of the object `a`; a field with that very name comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JsonlFields {
    /// The document's text, a string, an array of strings, or a conversation: an array of objects with a `content`.
    /// A line without it is corrupt. A comma joins several fields, as in `title,text`, unless a field has that very
    /// name; those that are missing or null are left out.
    pub text: String,
    /// The document's id, a string, a number or a boolean; may be missing.
    pub id: String,
    /// The document's address, of the types of `id`; may be missing.
    pub url: String,
    /// The document's language, of the types of `id`; may be missing.
    pub language: String,
    /// The document's score, a number, or a string that is a number or a date; may be missing. `None` reads no scores.
    pub score: Option<String>,
    /// The value that groups documents, a string, a number or a boolean; may be missing. `None` reads no groups.
    pub group: Option<String>,
    /// The options of reading that a user gave.
    #[doc(hidden)]
    #[serde(skip)]
    pub named: NamedBy,
}

/// The names of the options of reading, such as `id-field`, that a user gave, even if with the default value. A run is
/// refused if no document has a field named so. No document depends on them, so any two lists are equal.
#[derive(Clone, Debug, Default)]
pub struct NamedBy(pub Vec<&'static str>);

impl PartialEq for NamedBy {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for NamedBy {}

impl Default for JsonlFields {
    fn default() -> Self {
        Self {
            text: "text".into(),
            id: "id".into(),
            url: "url".into(),
            language: "language".into(),
            score: None,
            group: None,
            named: NamedBy::default(),
        }
    }
}

impl JsonlFields {
    /// The fields whose values are joined to make the text, in order; none where the text is one field.
    pub(crate) fn joined(&self) -> impl Iterator<Item = &str> {
        let is_joined = self.text.contains(',');
        self.text.split(',').filter(move |_| is_joined).map(str::trim).filter(|name| !name.is_empty())
    }

    /// The field of the text, and those that are joined to one.
    fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.text).chain(self.joined())
    }

    /// The other fields.
    fn names(&self) -> impl Iterator<Item = &str> {
        let Self { id, url, language, score, group, .. } = self;
        [id, url, language].into_iter().chain(score).chain(group).map(String::as_str)
    }

    /// The names of all fields, with that of the text first. A list with commas comes whole and in parts.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = &str> {
        self.texts().chain(self.names())
    }

    /// Checks that no two columns of a table share a wanted name. The error names it, as corruption without a text.
    pub(crate) fn check_columns<'n>(
        &self,
        columns: impl Iterator<Item = &'n str> + Clone,
    ) -> Result<(), CorruptionCause> {
        let is_twice = |name: &&str| columns.clone().filter(|column| column == name).count() > 1;
        let Some(name) = self.wanted().find(is_twice) else { return Ok(()) };
        let detail = format!(
            "two columns are called {name:?}, and which one is meant nobody can tell; rename one of them"
        );
        Err((CorruptionKind::NoText, detail))
    }
}

/// The most names of fields that a message lists.
pub(crate) const LISTED: usize = 30;

/// The separator of two texts that are joined.
pub(crate) const JOINT: &str = "\n";

/// A line without the blanks that it begins with, and the byte-order mark where files were put together.
fn without_mark(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii_start();
    line.strip_prefix(b"\xef\xbb\xbf").map_or(line, <[u8]>::trim_ascii_start)
}

/// True if a line that is not blank stands behind the first one.
pub(crate) fn holds_several(bytes: &[u8]) -> bool {
    memchr(b'\n', bytes).is_some_and(|i| !skip_blank(&bytes[i..]).is_empty())
}

/// The end of the object that a line begins with, if another one follows on the line. Blanks may stand between them, or
/// the byte-order mark of a file that was put behind one without a last line end.
fn end_of_first(line: &[u8]) -> Option<usize> {
    let is_next = |at: usize| without_mark(&line[at..]).starts_with(b"{");
    // Few lines have such a place, be it in a string.
    memchr_iter(b'}', line).find(|&brace| is_next(brace + 1))?;
    let (mut at, mut depth) = (0, 0usize);
    loop {
        at += memchr3(b'"', b'{', b'}', &line[at..])? + 1;
        match line[at - 1] {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return is_next(at).then_some(at);
                }
            }
            // A string, which ends with the quote that is not escaped.
            _ => loop {
                at += memchr2(b'"', b'\\', &line[at..])? + 1;
                if line[at - 1] == b'"' {
                    break;
                }
                at = (at + 1).min(line.len());
            },
        }
    }
}

/// The objects of a line, which may stand behind one another on it. A line that holds no JSON is one item.
pub fn objects_of_line(mut line: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (first, rest) = line.split_at(end_of_first(line).unwrap_or(line.len()));
        line = rest;
        (!first.is_empty()).then_some(first)
    })
}

/// Cuts the next object off the start of `bytes`: a line, or of several objects on a line the first. One of more than
/// `cap` bytes is corrupt.
///
/// `scanned` has the number of bytes that are known to hold no line end; the caller keeps it between calls.
pub(crate) fn step(bytes: &[u8], end: End, scanned: &mut usize, cap: usize) -> Step {
    let from = (*scanned).min(bytes.len());
    let (line_end, next) = match memchr(b'\n', &bytes[from..]) {
        Some(n) => (from + n, from + n + 1),
        None if bytes.len() > cap + 1 || end == End::File => (bytes.len(), bytes.len()),
        None if end == End::Unknown => {
            *scanned = bytes.len();
            return Step::Need(bytes.len() + 1);
        }
        None => return Step::flaw(CorruptionKind::Truncated, bytes.len(), "the end of the line is missing"),
    };
    *scanned = 0;
    let line = bytes[..line_end].strip_suffix(b"\r").unwrap_or(&bytes[..line_end]);
    if skip_blank(line).is_empty() {
        return Step::Skip(next);
    }
    let blank = line.len() - without_mark(line).len();
    if blank > 0 {
        *scanned = line_end - blank;
        return Step::Skip(blank);
    }
    let (content_end, next) = match end_of_first(line) {
        Some(first) => {
            *scanned = line_end - first;
            (first, first)
        }
        None => (line.len(), next),
    };
    if content_end > cap {
        let detail = format!("a line above {cap} bytes (--longest-document)");
        return Step::flaw(CorruptionKind::TooLarge, line_end, detail);
    }
    Step::Record { content_start: 0, content_end, end: next, document: true, raw: false }
}

/// Looks for the next line. `Ok` has the number of bytes before it; `Err` that of all bytes, which can be dropped.
pub(crate) fn seek(bytes: &[u8]) -> Result<usize, usize> {
    memchr(b'\n', bytes).map(|n| n + 1).ok_or(bytes.len())
}

/// Reads a line by itself, as one comes through a pipe; `None` for a blank line. `strict` makes odd input that is
/// repaired otherwise an error.
///
/// # Errors
/// What is wrong with the line, in words, or that its text is null.
pub fn document_of_line<'a>(
    line: &'a [u8],
    fields: &JsonlFields,
    strict: bool,
) -> Result<Option<RecordContent<'a>>, String> {
    if skip_blank(line).is_empty() {
        return Ok(None);
    }
    let found = parse(line, fields, strict).map_err(|(kind, detail)| format!("{kind}: {detail}"))?;
    found.map(Some).ok_or_else(|| format!("the {} is null", fields.text))
}

/// A JSON value, as far as it can be a text; of another one, its type in words.
#[derive(Debug)]
enum TextOrOther<'a> {
    Text(Cow<'a, str>),
    Null,
    Other(&'static str),
}

impl<'de: 'a, 'a> Deserialize<'de> for TextOrOther<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = TextOrOther<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }
    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<TextOrOther<'de>, E> {
        Ok(TextOrOther::Text(Cow::Borrowed(v)))
    }
    fn visit_str<E>(self, v: &str) -> Result<TextOrOther<'de>, E> {
        Ok(TextOrOther::Text(Cow::Owned(v.to_owned())))
    }
    fn visit_i64<E>(self, _: i64) -> Result<TextOrOther<'de>, E> {
        Ok(TextOrOther::Other("a number"))
    }
    fn visit_u64<E>(self, _: u64) -> Result<TextOrOther<'de>, E> {
        Ok(TextOrOther::Other("a number"))
    }
    fn visit_f64<E>(self, _: f64) -> Result<TextOrOther<'de>, E> {
        Ok(TextOrOther::Other("a number"))
    }
    fn visit_bool<E>(self, _: bool) -> Result<TextOrOther<'de>, E> {
        Ok(TextOrOther::Other("true or false"))
    }
    fn visit_unit<E>(self) -> Result<TextOrOther<'de>, E> {
        Ok(TextOrOther::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<TextOrOther<'de>, A::Error> {
        let elements = Vec::<serde_json::Value>::deserialize(SeqAccessDeserializer::new(elements))?;
        Ok(match joined(&elements) {
            Ok(Some(text)) => TextOrOther::Text(text.into()),
            Ok(None) => TextOrOther::Null,
            Err(NoText) => TextOrOther::Other("an array of other things than strings and messages"),
        })
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextOrOther<'de>, A::Error> {
        IgnoredAny.visit_map(map)?;
        Ok(TextOrOther::Other("an object"))
    }
}

/// Something that holds no text.
struct NoText;

/// The strings and the messages of an array, joined; none if it has none.
fn joined(elements: &[serde_json::Value]) -> Result<Option<String>, NoText> {
    /// Names of the text of a message: the usual one, that of ShareGPT, and that of parts of messages.
    const CONTENTS: [&str; 3] = ["content", "value", "text"];
    use serde_json::Value;
    fn text(element: &Value) -> Result<Option<Cow<'_, str>>, NoText> {
        match element {
            // A message that calls a tool has no content.
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.into())),
            Value::Array(parts) => Ok(joined(parts)?.map(Cow::Owned)),
            Value::Object(message) => {
                text(CONTENTS.iter().find_map(|content| message.get(*content)).ok_or(NoText)?)
            }
            Value::Bool(_) | Value::Number(_) => Err(NoText),
        }
    }
    let texts = elements.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let texts: Vec<Cow<'_, str>> = texts.into_iter().flatten().collect();
    Ok((!texts.is_empty()).then(|| texts.join(JOINT)))
}

/// A string, borrowed if it holds no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The rest of a field's name within the object under a key; none if the name does not lead there.
///
/// A name is parts with points in between, or a JSON pointer (RFC 6901).
fn rest_of<'n>(name: &'n str, key: &str) -> Option<&'n str> {
    match name.strip_prefix('/') {
        Some(pointer) => {
            let first = pointer.split('/').next().unwrap_or_default();
            let is_it =
                first == key || first.contains('~') && first.replace("~1", "/").replace("~0", "~") == key;
            is_it.then(|| &pointer[first.len()..])
        }
        None => name.strip_prefix(key)?.strip_prefix('.').filter(|rest| !rest.is_empty()),
    }
}

/// The value that a name says, among these or in objects that are among them.
fn find<'a>(values: &[(Cow<'a, str>, &'a RawValue)], name: &str) -> Option<&'a RawValue> {
    // Of a key that comes twice the last value counts, as everywhere in JSON.
    let literal = values.iter().rfind(|(key, _)| key == name).map(|(_, value)| *value);
    let within = |(key, value): &(Cow<'a, str>, &'a RawValue)| match rest_of(name, key)? {
        "" => Some(*value),
        rest => find(&values_of(value.get()), rest),
    };
    literal.or_else(|| values.iter().find_map(within))
}

/// The values of an object. A text is read where it stands, and other values as they are written: a number in an ID is
/// a name.
#[derive(Default)]
struct LineObject<'a> {
    text: Option<TextOrOther<'a>>,
    /// The values that are joined to the text, in the order in which they are named.
    joined: Vec<Option<TextOrOther<'a>>>,
    /// Other values, and objects that may hold one that is wanted, by their keys.
    values: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// Takes the values that are wanted, or else all, as they are written.
struct ObjectSeed<'f>(Option<&'f JsonlFields>);

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = LineObject<'de>;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = LineObject<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LineObject<'de>, A::Error> {
        let mut object = LineObject::default();
        let Some(fields) = self.0 else {
            while let Some((Key(key), value)) = map.next_entry()? {
                object.values.push((key, value));
            }
            return Ok(object);
        };
        object.joined.extend(fields.joined().map(|_| None));
        while let Some(Key(key)) = map.next_key()? {
            // One field may serve several ends.
            let is_name = fields.names().any(|name| name == key);
            let text = match fields.texts().position(|name| name == key) {
                Some(0) if !is_name => Some(&mut object.text),
                Some(at) if !is_name => object.joined.get_mut(at - 1),
                _ => None,
            };
            if let Some(text) = text {
                *text = Some(map.next_value()?);
            } else if is_name || fields.wanted().any(|name| rest_of(name, &key).is_some()) {
                object.values.push((key, map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(object)
    }
}

/// Reads a line; `None` where its text is null, unless `strict` calls that corrupt. What is odd in it is repaired,
/// unless `strict` forbids: bytes that are no UTF-8, halves of surrogate pairs, and numbers that JSON has not.
///
/// # Errors
/// The kind of corruption and what was found.
pub(crate) fn parse<'a>(
    line: &'a [u8],
    fields: &JsonlFields,
    strict: bool,
) -> Result<Option<RecordContent<'a>>, CorruptionCause> {
    let line = without_mark(line);
    let text = match simdutf8::compat::from_utf8(line) {
        Ok(text) => text,
        Err(error) if strict => {
            let detail = format!("byte {} of the line is not UTF-8", error.valid_up_to());
            return Err((CorruptionKind::Malformed, detail));
        }
        Err(_) => return parse_repaired(line, fields),
    };
    match object_of(text, Some(fields)) {
        Ok(object) => pick(object, text, fields, strict),
        Err(error) if strict => Err(not_an_object(text, &error)),
        Err(_) => parse_repaired(line, fields),
    }
}

fn object_of<'a>(line: &'a str, fields: Option<&JsonlFields>) -> serde_json::Result<LineObject<'a>> {
    let mut json = serde_json::Deserializer::from_str(line);
    let object = ObjectSeed(fields).deserialize(&mut json)?;
    json.end()?;
    Ok(object)
}

/// The keys and values of an object; none of anything else.
fn values_of(json: &str) -> Vec<(Cow<'_, str>, &RawValue)> {
    object_of(json, None).map_or_else(|_| Vec::new(), |object| object.values)
}

/// Reads a line with what is odd in it repaired.
fn parse_repaired(
    line: &[u8],
    fields: &JsonlFields,
) -> Result<Option<RecordContent<'static>>, CorruptionCause> {
    let (line, repaired) = repaired_line(line);
    let object = object_of(&line, Some(fields)).map_err(|error| not_an_object(&line, &error))?;
    let owned = |value: Option<Cow<'_, str>>| value.map(|value| Cow::Owned(value.into_owned()));
    Ok(pick(object, &line, fields, false)?.map(|line| RecordContent {
        text: Cow::Owned(line.text.into_owned()),
        id: owned(line.id),
        url: owned(line.url),
        language: owned(line.language),
        score: line.score,
        group: owned(line.group),
        repaired,
        ..RecordContent::default()
    }))
}

/// Why a line is no object.
fn not_an_object(line: &str, error: &serde_json::Error) -> CorruptionCause {
    let starts_like_object = line.trim_start().starts_with('{');
    // The line is JSON, but no object, only if it parses as something else.
    let detail = if !starts_like_object && serde_json::from_str::<IgnoredAny>(line).is_ok() {
        "JSON, but not an object; of an array, jq -c '.[]' makes a line for each".to_owned()
    } else if line.trim() == "{" {
        "an object on several lines; jq -c . makes a line of each".to_owned()
    } else if line.trim_start().starts_with('[') {
        "an array on several lines; jq -c '.[]' makes a line of each element".to_owned()
    } else {
        error.to_string()
    };
    (CorruptionKind::Malformed, detail)
}

/// A line as UTF-8 and JSON, as far as odd bytes can be repaired, and true if U+FFFD stands for some of it.
pub fn repaired_line(line: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(without_mark(line));
    let (repaired, has_half) = repaired(&text);
    (repaired, has_half || matches!(text, Cow::Owned(_)))
}

/// A line without what Python writes and JSON has not. U+FFFD stands for each `\\u` that is half of a surrogate pair,
/// and null for NaN, Infinity and -Infinity. Says whether there is such a half.
fn repaired(line: &str) -> (String, bool) {
    const ODD: [&str; 3] = ["NaN", "Infinity", "-Infinity"];
    let unit = |bytes: &[u8]| -> Option<u16> {
        let digits = bytes.get(..6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut repaired, mut rest) = (String::with_capacity(line.len()), line);
    let (mut in_string, mut has_half) = (false, false);
    loop {
        let next = match in_string {
            true => memchr2(b'"', b'\\', rest.as_bytes()),
            false => rest.find(['"', 'N', 'I', '-']),
        };
        let Some(next) = next else { return (repaired + rest, has_half) };
        let (before, found) = rest.split_at(next);
        repaired.push_str(before);
        let (length, instead) = match found.as_bytes() {
            [b'"', ..] => {
                in_string = !in_string;
                (1, None)
            }
            bytes @ [b'\\', ..] => match unit(bytes) {
                Some(0xd800..=0xdbff) if matches!(unit(&bytes[6..]), Some(0xdc00..=0xdfff)) => (12, None),
                Some(0xd800..=0xdfff) => {
                    has_half = true;
                    (6, Some("\\ufffd"))
                }
                // An escaped backslash does not escape what follows.
                _ => (1 + found[1..].chars().next().map_or(0, char::len_utf8), None),
            },
            _ => match ODD.iter().find(|odd| found.starts_with(**odd)) {
                Some(odd) => (odd.len(), Some("null")),
                None => (1, None),
            },
        };
        repaired.push_str(instead.unwrap_or(&found[..length]));
        rest = &found[length..];
    }
}

/// The number that a score is written as. Of a date and a time (RFC 3339; the time and its zone may be missing) it is
/// the seconds since 1970. `None` for anything else, or an infinite number.
pub(crate) fn number(written: &str) -> Option<f64> {
    let written = written.trim();
    written.parse().ok().filter(|score: &f64| score.is_finite()).or_else(|| seconds(written))
}

/// A date in seconds since 1970.
fn seconds(written: &str) -> Option<f64> {
    use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
    let in_utc = || written.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
    let time = written.parse::<Timestamp>().ok().or_else(|| in_utc().map(|date| date.timestamp()))?;
    Some(time.as_duration().as_secs_f64())
}

/// A value that is a name, as it is written: a string, a number, true or false.
fn name(value: &RawValue) -> Option<Cow<'_, str>> {
    let written = value.get();
    match written.as_bytes().first()? {
        b'"' => match serde_json::from_str(written) {
            Ok(Key(name)) => Some(name),
            // Half a surrogate pair in it.
            Err(_) => serde_json::from_str(&repaired(written).0).ok().map(Cow::Owned),
        },
        b'-' | b'0'..=b'9' | b't' | b'f' => Some(Cow::Borrowed(written)),
        _ => None,
    }
}

/// Takes the wanted values of an object.
fn pick<'a>(
    object: LineObject<'a>,
    line: &str,
    fields: &JsonlFields,
    strict: bool,
) -> Result<Option<RecordContent<'a>>, CorruptionCause> {
    let LineObject { text, joined, values } = object;
    let no_string =
        |field: &str, what: &str| Err((CorruptionKind::NoText, format!("field {field:?} is {what}")));
    let mut found: Option<Cow<'_, str>> = None;
    let mut is_there = false;
    for (text, field) in std::iter::once(text).chain(joined).zip(fields.texts()) {
        let is_whole = field == fields.text;
        // A number beyond all that there are is no text either.
        match text.or_else(|| serde_json::from_str(find(&values, field)?.get()).ok()) {
            Some(TextOrOther::Text(text)) => {
                found = Some(match found {
                    Some(before) => Cow::Owned([before, text].join(JOINT)),
                    None => text,
                });
            }
            Some(TextOrOther::Null) if is_whole && strict => return no_string(field, "null"),
            Some(TextOrOther::Null) => {}
            Some(TextOrOther::Other(what)) => return no_string(field, what),
            None => continue,
        }
        is_there = true;
        if is_whole {
            break;
        }
    }
    if !is_there {
        let detail = match field_names(line.as_bytes()) {
            names if names.is_empty() => format!("no field {:?}: the object is empty", fields.text),
            names => {
                format!("no field {:?}; --text-field names another one of {}", fields.text, names.join(", "))
            }
        };
        return Err((CorruptionKind::NoText, detail));
    }
    if found.is_none() && !strict {
        return Ok(None);
    }
    let value = |field: &str| find(&values, field).and_then(name);
    let group = fields.group.as_deref().and_then(value);
    let score = fields.score.as_deref().and_then(value).and_then(|score| number(&score));
    let [id, url, language] = [&fields.id, &fields.url, &fields.language].map(|field| value(field));
    let text = found.unwrap_or_default();
    Ok(Some(RecordContent { text, id, url, language, score, group, ..RecordContent::default() }))
}

/// The names of a line's fields. A field that is an object stands as `field.inner` for each field in it.
pub(crate) fn field_names(line: &[u8]) -> Vec<String> {
    let (line, _) = repaired_line(line);
    let names = |(key, value): (Cow<'_, str>, &RawValue)| match values_of(value.get()) {
        inner if inner.is_empty() => vec![key.into_owned()],
        inner => inner.into_iter().map(|(name, _)| format!("{key}.{name}")).collect(),
    };
    values_of(&line).into_iter().flat_map(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(line: &str) -> CorruptionKind {
        let (kind, _) = parse(line.as_bytes(), &JsonlFields::default(), true).expect_err("corrupt");
        if !line.contains("text\":") {
            let lenient = parse(line.as_bytes(), &JsonlFields::default(), false).expect_err("corrupt").0;
            assert_eq!(lenient, kind, "{line}");
        }
        kind
    }

    #[test]
    fn reads_the_fields_wanted() {
        let line =
            br#" {"a":[1,{"text":"no"}],"text":"x\u0041\n","id":7,"url":"http:\/\/u","language":null} "#;
        let got = parse(line, &JsonlFields::default(), false).expect("an object").expect("a text");
        assert_eq!(
            (&*got.text, got.id.as_deref(), got.url.as_deref()),
            ("xA\n", Some("7"), Some("http://u"))
        );
        assert_eq!(got.language, None);
        let fields = JsonlFields { text: "a b".into(), ..JsonlFields::default() };
        let got = parse(br#"{"text":1,"a\u0020b":"","a b":"last"}"#, &fields, false)
            .expect("an object")
            .expect("text by another name");
        assert_eq!(got.text, "last");
    }

    #[test]
    fn tells_what_is_wrong() {
        assert_eq!(kind("{"), CorruptionKind::Malformed);
        assert_eq!(kind("{}{}"), CorruptionKind::Malformed);
        assert_eq!(kind("hello"), CorruptionKind::Malformed);
        assert_eq!(kind(r#"{"text":"\ud800"}"#), CorruptionKind::Malformed);
        assert_eq!(kind(r#"["text"]"#), CorruptionKind::Malformed);
        assert_eq!(kind("null"), CorruptionKind::Malformed);
        assert_eq!(kind(r#"{"id":1}"#), CorruptionKind::NoText);
        assert_eq!(kind(r#"{"text":null}"#), CorruptionKind::NoText);
        assert_eq!(kind(r#"{"text":["a",7]}"#), CorruptionKind::NoText);
        assert_eq!(kind(r#"{"text":{}}"#), CorruptionKind::NoText);
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(kind(&deep), CorruptionKind::NoText);
        let deep = format!("{{\"text\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(kind(&deep), CorruptionKind::Malformed);
        assert_eq!(
            parse(b"{\"text\":\"\xff\"}", &JsonlFields::default(), true).expect_err("corrupt").0,
            CorruptionKind::Malformed
        );
    }

    #[test]
    fn what_is_odd_is_repaired_and_reported() {
        let lenient = |line: &[u8]| {
            let line = parse(line, &JsonlFields::default(), false).expect("an object")?;
            Some((line.text.into_owned(), line.id.map(Cow::into_owned), line.repaired))
        };
        let text = |text: &str, repaired| Some((text.to_owned(), None, repaired));
        assert_eq!(lenient(b"{\"text\":\"caf\xe9.\"}"), text("caf\u{fffd}.", true));
        for (written, read, repaired) in [
            (r"\ud800", "\u{fffd}", true),
            (r"a\udc00b\ud83d", "a\u{fffd}b\u{fffd}", true),
            (r"\ud800\ud83d\ude00", "\u{fffd}\u{1f600}", true),
            (r"\\ud800", r"\ud800", false),
            (r"\\\ud800", "\\\u{fffd}", true),
            (r"\uD83D\uDE00", "\u{1f600}", false),
        ] {
            assert_eq!(
                lenient(format!("{{\"text\":\"{written}\"}}").as_bytes()),
                text(read, repaired),
                "{written}"
            );
        }
        assert_eq!(lenient(br#"{"text":null,"id":1}"#), None);
        let numbered = |id: &str| {
            let line = format!(r#"{{"id":{id},"x":-1e999999,"text":"a"}}"#);
            lenient(line.as_bytes()).and_then(|(_, id, repaired)| id.map(|id| (id, repaired)))
        };
        assert_eq!(numbered("1e999999"), Some(("1e999999".to_owned(), false)));
        assert_eq!(numbered("17"), Some(("17".to_owned(), false)));
        // As they are written, whatever a computer makes of them; a corrupt line has no other names.
        for id in ["18446744073709551617", "-9223372036854775809", "1.10", "1e3", "0.1"] {
            let line = format!(r#"{{"url": {id}, "text":"a","id" : {id} , "score":0.5}}"#);
            for strict in [false, true] {
                let line = parse(line.as_bytes(), &JsonlFields::default(), strict).unwrap().unwrap();
                assert_eq!((line.id.as_deref(), line.url.as_deref()), (Some(id), Some(id)));
            }
        }
        assert_eq!(numbered("[1e999999]"), None);
    }

    /// The text, id and URL of a line by these names.
    fn read(line: &str, text: &str, id: &str, url: &str) -> Result<[Option<String>; 3], String> {
        let fields =
            JsonlFields { text: text.into(), id: id.into(), url: url.into(), ..JsonlFields::default() };
        let line = parse(line.as_bytes(), &fields, false).map_err(|(_, detail)| detail)?.expect("a text");
        Ok([Some(line.text), line.id, line.url].map(|value| value.map(Cow::into_owned)))
    }

    #[test]
    fn fields_of_objects_are_named_by_points_or_as_pointers() {
        let line = r#"{"meta":{"url":"u","doc":{"id":-7,"a/b":"t","text":"x"}},"text":"top"}"#;
        let some = |values: [&str; 3]| Ok(values.map(|value| Some(value.to_owned())));
        assert_eq!(read(line, "text", "meta.doc.id", "meta.url"), some(["top", "-7", "u"]));
        assert_eq!(read(line, "/meta/doc/a~1b", "/meta/doc/id", "/meta/url"), some(["t", "-7", "u"]));
        assert_eq!(read(line, "meta.doc.text", "meta.url", "meta.url"), some(["x", "u", "u"]));
        // A field of that very name comes first, wherever it stands.
        for line in [r#"{"a":{"b":"in"},"a.b":"out"}"#, r#"{"a.b":"out","a":{"b":"in"}}"#] {
            assert_eq!(read(line, "a.b", "id", "url").unwrap()[0].as_deref(), Some("out"));
        }
        assert_eq!(read(r#"{"a":{"b.c":"x"}}"#, "a.b.c", "id", "url").unwrap()[0].as_deref(), Some("x"));
        let nothing = read(line, "meta.text", "id", "url").unwrap_err();
        assert!(nothing.contains("meta.url, meta.doc, text"), "{nothing}");
        assert_eq!(read(line, "text", "meta", "meta.doc"), Ok([Some("top".to_owned()), None, None]));
    }

    #[test]
    fn texts_are_joined_and_conversations_read() {
        let text = |line: &str, name: &str| read(line, name, "id", "url").map(|[text, ..]| text.unwrap());
        let line = r#"{"title":"A","body":{"en":"B"},"note":null,"n":1,"a,b":"literal"}"#;
        assert_eq!(text(line, "title,body.en"), Ok("A\nB".to_owned()));
        assert_eq!(text(line, "body.en, note ,gone,title"), Ok("B\nA".to_owned()));
        assert_eq!(text(line, "a,b"), Ok("literal".to_owned()));
        let twice = read(r#"{"a":"x","b":"y"}"#, "a,b", "b", "a").unwrap();
        assert_eq!(twice.each_ref().map(Option::as_deref), [Some("x\ny"), Some("y"), Some("x")]);
        assert!(text(line, "title,n").unwrap_err().contains("\"n\" is a number"));
        assert!(text(line, "x,y").unwrap_err().contains("no field \"x,y\""));
        for (messages, read) in [
            (r#"[{"role":"user","content":"Why?"},{"role":"assistant","content":"So."}]"#, "Why?\nSo."),
            (r#"[{"from":"human","value":"Why?"},{"from":"gpt","value":"So."}]"#, "Why?\nSo."),
            (
                r#"[{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"content":null}]"#,
                "a\nb",
            ),
            (r#"["a","b"]"#, "a\nb"),
        ] {
            assert_eq!(text(&format!("{{\"text\":{messages}}}"), "text"), Ok(read.to_owned()));
            assert_eq!(
                text(&format!("{{\"chat\":{{\"turns\":{messages}}}}}"), "chat.turns"),
                Ok(read.to_owned())
            );
        }
    }

    #[test]
    fn lines_are_read_as_python_writes_them() {
        let line = r#"{"a":NaN,"b":[-Infinity,Infinity],"id":NaN,"text":"NaN, \"-Infinity\" é","url":-1}"#;
        let got = read(line, "text", "id", "url").unwrap();
        assert_eq!(got.each_ref().map(Option::as_deref), [Some("NaN, \"-Infinity\" é"), None, Some("-1")]);
        let strict = parse(line.as_bytes(), &JsonlFields::default(), true).unwrap_err();
        assert_eq!(strict.0, CorruptionKind::Malformed);
        let ids = [
            ("true", "true"),
            ("-7048155917072976836", "-7048155917072976836"),
            (r#""a\ud800""#, "a\u{fffd}"),
        ];
        for (written, id) in ids {
            let line = format!(r#"{{"id":{written},"text":"x"}}"#);
            assert_eq!(read(&line, "text", "id", "url").unwrap()[1].as_deref(), Some(id));
        }
    }

    #[test]
    fn several_objects_on_a_line_are_several_records() {
        let cut = |bytes: &[u8]| {
            let (mut records, mut at, mut scanned) = (Vec::new(), 0, 0);
            while at < bytes.len() {
                match step(&bytes[at..], End::File, &mut scanned, 1 << 20) {
                    Step::Record { content_end, end, .. } => {
                        records.push(String::from_utf8_lossy(&bytes[at..at + content_end]).into_owned());
                        at += end;
                    }
                    Step::Skip(n) => at += n,
                    other => panic!("{other:?}"),
                }
            }
            records
        };
        assert_eq!(cut(b"{\"a\":{}}{\"b\":\"}{\"}{}\r\n{}"), ["{\"a\":{}}", "{\"b\":\"}{\"}", "{}", "{}"]);
        // What is in a string, or no object, is not cut.
        for whole in ["{\"a\":\"}{\\\"}{\"}", "{\"a\":\"}{", "}{", "{\"a\":[{}{}]}"] {
            assert_eq!(cut(whole.as_bytes()), [whole]);
        }
        assert_eq!(cut("\u{feff}{}\n\u{feff}\n".as_bytes()), ["{}"]);
        for several in ["{} {}\n", "{}\u{feff}{}", "{} \u{feff} {}\r\n", " \t{}\t{}", "\n{}\n {}"] {
            let alone = several.lines().flat_map(|line| objects_of_line(line.as_bytes())).count();
            assert_eq!((cut(several.as_bytes()), alone), (vec!["{}".to_owned(); 2], 2), "{several:?}");
        }
        assert_eq!(read("\u{feff}{\"text\":\"x\"}", "text", "id", "url").unwrap()[0].as_deref(), Some("x"));
        let many = "{}".repeat(20_000);
        assert_eq!(cut(many.as_bytes()).len(), 20_000);
    }

    #[test]
    fn scores_are_numbers_or_dates() {
        for (written, score) in [
            (" 2.5 ", Some(2.5)),
            ("1970-01-02", Some(86_400.0)),
            ("1970-01-01 00:01", Some(60.0)),
            ("1970-01-01T02:00:00+02:00", Some(0.0)),
            ("2020-02-29T00:00:00.5Z", Some(1_582_934_400.5)),
            ("1969-12-31", Some(-86_400.0)),
            ("2021-02-29", None),
            ("soon", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(number(written), score, "{written}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_tree_of_values(text: String, id: Option<String>, more: Vec<String>) {
            let line = serde_json::json!({"text": text, "more": more, "id": id}).to_string();
            let wanted = RecordContent { text: text.into(), id: id.map(Cow::Owned), ..RecordContent::default() };
            for strict in [false, true] {
                let got = parse(line.as_bytes(), &JsonlFields::default(), strict);
                prop_assert_eq!(got, Ok(Some(wanted.clone())));
            }
            let again = parse_repaired(line.as_bytes(), &JsonlFields::default());
            prop_assert_eq!(again, Ok(Some(wanted)));
        }

        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>) {
            let _ = parse(&bytes, &JsonlFields::default(), false);
            let object = [b"{\"text\":\"", &bytes[..], b"\"}"].concat();
            let _ = parse(&object, &JsonlFields::default(), false);
        }
    }
}
