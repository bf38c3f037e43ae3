//! Lines of JSON: where one ends, and the fields wanted of it.

use std::borrow::Cow;
use std::collections::HashMap;

use memchr::memchr;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::cut::{End, Step};
use super::damage::DamageKind;
use super::filetype::skip_blank;

/// The names of the fields that are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JsonlFields {
    /// The document's text, a string; a line without it is damaged.
    pub text: String,
    /// The document's id, a string or a number; may be missing.
    pub id: String,
    /// The document's address, a string; may be missing.
    pub url: String,
    /// The document's language, a string; may be missing.
    pub language: String,
    /// The document's score, a number or a string that is one, if scores are asked for; may be missing.
    pub score: Option<String>,
}

impl Default for JsonlFields {
    fn default() -> Self {
        Self {
            text: "text".into(),
            id: "id".into(),
            url: "url".into(),
            language: "language".into(),
            score: None,
        }
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0))
}

/// True if there is a line behind the first one.
pub(crate) fn holds_several(bytes: &[u8]) -> bool {
    memchr(b'\n', bytes).is_some_and(|i| !skip_blank(&bytes[i..]).is_empty())
}

/// Cuts the next line off the start of `bytes`.
///
/// `scanned` says how many of them are known to hold no line end; kept by the caller between calls.
pub(crate) fn step(bytes: &[u8], end: End, scanned: &mut usize, cap: usize) -> Step {
    let from = (*scanned).min(bytes.len());
    let (line_end, next) = match memchr(b'\n', &bytes[from..]) {
        Some(n) => (from + n, from + n + 1),
        None if bytes.len() > cap + 1 || end == End::File => (bytes.len(), bytes.len()),
        None if end == End::Unknown => {
            *scanned = bytes.len();
            return Step::Need(bytes.len() + 1);
        }
        None => {
            let detail = "the end of the line is missing".into();
            return Step::Flaw { kind: DamageKind::Truncated, at: bytes.len(), record: true, detail };
        }
    };
    *scanned = 0;
    let line = bytes[..line_end].strip_suffix(b"\r").unwrap_or(&bytes[..line_end]);
    if is_blank(line) {
        return Step::Skip(next);
    }
    if line.len() > cap {
        let detail = format!("a line above {cap} bytes (--longest-page)");
        return Step::Flaw { kind: DamageKind::TooLong, at: line_end, record: true, detail };
    }
    Step::Record {
        content_start: 0,
        content_end: line.len(),
        end: next,
        document: true,
        raw: false,
        record: true,
    }
}

/// Looks for the start of the next line, like [`super::wet::seek`].
pub(crate) fn seek(bytes: &[u8]) -> Result<usize, usize> {
    memchr(b'\n', bytes).map(|n| n + 1).ok_or(bytes.len())
}

/// What a line holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line<'a> {
    pub text: Cow<'a, str>,
    pub id: Option<Cow<'a, str>>,
    pub url: Option<Cow<'a, str>>,
    pub language: Option<Cow<'a, str>>,
    pub score: Option<f64>,
    /// U+FFFD stands in it for what could not be read.
    pub mended: bool,
}

/// A page that stands in a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinePage {
    /// Its text.
    pub text: String,
    /// Its id, if the line has one.
    pub id: Option<String>,
    /// Its address, if the line has one.
    pub url: Option<String>,
}

/// Reads a line by itself, as one comes through a pipe; none for a blank one. `strict` calls damage what is
/// mended otherwise.
///
/// # Errors
/// What is wrong with it, in words.
pub fn page_of_line(line: &[u8], fields: &JsonlFields, strict: bool) -> Result<Option<LinePage>, String> {
    if is_blank(line) {
        return Ok(None);
    }
    match parse(line, fields, strict) {
        Ok(Some(Line { text, id, url, .. })) => {
            let owned = |field: Option<Cow<'_, str>>| field.map(Cow::into_owned);
            Ok(Some(LinePage { text: text.into_owned(), id: owned(id), url: owned(url) }))
        }
        Ok(None) => Err(format!("the {} is null", fields.text)),
        Err((kind, detail)) => Err(format!("{kind}: {detail}")),
    }
}

/// What null is called.
const NULL: &str = "null";

/// A JSON value, as much of it as matters here.
#[derive(Debug)]
enum Value<'a> {
    Text(Cow<'a, str>),
    /// As it is written, but for spaces.
    Number(String),
    /// A number that is not whole, or of more than 64 bits: it may have been written otherwise.
    Rounded(f64),
    Other(&'static str),
}

struct ValueSeed;

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value<'de>;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }
    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(v)))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(v.to_owned())))
    }
    fn visit_string<E>(self, v: String) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(v)))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value<'de>, E> {
        Ok(Value::Number(v.to_string()))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value<'de>, E> {
        Ok(Value::Number(v.to_string()))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Value<'de>, E> {
        Ok(Value::Rounded(v))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Value<'de>, E> {
        Ok(Value::Other("true or false"))
    }
    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Other(NULL))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Other("an array"))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Other("an object"))
    }
}

/// A key, borrowed if it holds no escapes.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match ValueSeed.deserialize(deserializer)? {
            Value::Text(text) => Ok(text),
            _ => Err(serde::de::Error::custom("a key that is no string")),
        }
    }
}

#[derive(Default)]
struct Object<'a> {
    text: Option<Value<'a>>,
    id: Option<Value<'a>>,
    url: Option<Value<'a>>,
    language: Option<Value<'a>>,
    score: Option<Value<'a>>,
}

struct ObjectSeed<'f>(&'f JsonlFields);

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = Object<'de>;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut object = Object::default();
        while let Some(key) = map.next_key_seed(KeySeed)? {
            // One field may serve two ends, so the value is put wherever it is asked for first; of a key that
            // comes twice the last value counts, as everywhere in JSON.
            let slot = match &*key {
                k if k == self.0.text => &mut object.text,
                k if k == self.0.id => &mut object.id,
                k if k == self.0.url => &mut object.url,
                k if k == self.0.language => &mut object.language,
                k if self.0.score.as_deref() == Some(k) => &mut object.score,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *slot = Some(map.next_value_seed(ValueSeed)?);
        }
        Ok(object)
    }
}

/// Reads a line; none where its text is null, unless `strict` calls that damage. What is odd in it is mended,
/// unless `strict` forbids: bytes that are no UTF-8, and halves of surrogate pairs.
///
/// # Errors
/// The kind of damage and what was found.
pub(crate) fn parse<'a>(
    line: &'a [u8],
    fields: &JsonlFields,
    strict: bool,
) -> Result<Option<Line<'a>>, (DamageKind, String)> {
    let text = match simdutf8::compat::from_utf8(line) {
        Ok(text) => text,
        Err(error) if strict => {
            let detail = format!("byte {} of the line is not UTF-8", error.valid_up_to());
            return Err((DamageKind::InvalidUtf8, detail));
        }
        Err(_) => return parse_again(&String::from_utf8_lossy(line), fields, true),
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let object = ObjectSeed(fields).deserialize(&mut json).and_then(|object| json.end().map(|()| object));
    match object {
        // A name is what is written.
        Ok(Object { id: Some(Value::Rounded(_)), .. } | Object { url: Some(Value::Rounded(_)), .. }) => {
            parse_again(text, fields, false)
        }
        Ok(object) => pick(object, fields, strict),
        Err(error) => match mend_surrogates(text) {
            _ if strict => Err(not_an_object(text, &error)),
            Some(mended) => parse_again(&mended, fields, true),
            None => parse_again(text, fields, false),
        },
    }
}

/// Reads a line as [`parse`] does, with numbers as they are written, whatever their range.
fn parse_again(
    line: &str,
    fields: &JsonlFields,
    mended: bool,
) -> Result<Option<Line<'static>>, (DamageKind, String)> {
    let surrogates = mend_surrogates(line);
    let line = surrogates.as_deref().unwrap_or(line);
    let mut json = serde_json::Deserializer::from_str(line);
    let raw: Result<HashMap<Cow<'_, str>, &RawValue>, _> =
        HashMap::deserialize(&mut json).and_then(|object| json.end().map(|()| object));
    let raw = raw.map_err(|error| not_an_object(line, &error))?;
    let value = |name: &str| {
        raw.get(name).map(|raw| match serde_json::from_str::<Owned>(raw.get()) {
            Ok(Owned(Value::Rounded(_))) | Err(_) => Value::Number(raw.get().to_owned()),
            Ok(Owned(value)) => value,
        })
    };
    let object = Object {
        text: value(&fields.text),
        id: value(&fields.id),
        url: value(&fields.url),
        language: value(&fields.language),
        score: fields.score.as_deref().and_then(value),
    };
    let line = pick(object, fields, false)?;
    Ok(line.map(|line| Line { mended: mended || surrogates.is_some(), ..line }))
}

/// A value that borrows nothing.
struct Owned(Value<'static>);

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueSeed.deserialize(deserializer).map(|value| {
            Self(match value {
                Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
                Value::Number(number) => Value::Number(number),
                Value::Rounded(number) => Value::Rounded(number),
                Value::Other(what) => Value::Other(what),
            })
        })
    }
}

/// Why a line is no object.
fn not_an_object(line: &str, error: &serde_json::Error) -> (DamageKind, String) {
    let starts_like_object = line.trim_start().starts_with('{');
    // The line is JSON, but no object, only if it parses as something else.
    if !starts_like_object && serde_json::from_str::<IgnoredAny>(line).is_ok() {
        (DamageKind::NotAnObject, "JSON, but not an object".to_owned())
    } else {
        (DamageKind::NotJson, error.to_string())
    }
}

/// Puts U+FFFD for each `\\u` that is half of a surrogate pair, as Python writes them; none if there is none.
fn mend_surrogates(line: &str) -> Option<String> {
    let unit = |at: usize| -> Option<u16> {
        let digits = line.as_bytes().get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut mended: Option<String> = None;
    let (mut done, mut from) = (0, 0);
    while let Some(n) = memchr(b'\\', &line.as_bytes()[from..]) {
        let at = from + n;
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => from = at + 12,
            Some(0xd800..=0xdfff) => {
                let mended = mended.get_or_insert_default();
                mended.push_str(&line[done..at]);
                mended.push_str("\\ufffd");
                from = at + 6;
                done = from;
            }
            // An escaped backslash does not escape what follows.
            _ => from = (at + 2).min(line.len()),
        }
    }
    mended.map(|mended| mended + &line[done..])
}

/// A score as it is written; none for what is no number, or an endless one.
pub(crate) fn number(written: &str) -> Option<f64> {
    written.trim().parse().ok().filter(|score: &f64| score.is_finite())
}

/// What is wanted of an object.
fn pick<'a>(
    object: Object<'a>,
    fields: &JsonlFields,
    strict: bool,
) -> Result<Option<Line<'a>>, (DamageKind, String)> {
    let text = match object.text {
        Some(Value::Text(text)) => text,
        Some(Value::Other(NULL)) if !strict => return Ok(None),
        Some(Value::Number(_) | Value::Rounded(_)) => {
            return Err((DamageKind::TextNotString, format!("field {:?} is a number", fields.text)));
        }
        Some(Value::Other(what)) => {
            return Err((DamageKind::TextNotString, format!("field {:?} is {what}", fields.text)));
        }
        None => {
            return Err((
                DamageKind::NoText,
                format!("no field {:?}; --text-field names another", fields.text),
            ));
        }
    };
    let score = match &object.score {
        Some(Value::Text(text)) => number(text),
        Some(Value::Number(text)) => number(text),
        &Some(Value::Rounded(score)) => Some(score).filter(|score| score.is_finite()),
        _ => None,
    };
    let string = |value| match value {
        Some(Value::Text(text)) => Some(text),
        Some(Value::Number(number)) => Some(Cow::Owned(number)),
        Some(Value::Rounded(number)) => Some(Cow::Owned(number.to_string())),
        _ => None,
    };
    Ok(Some(Line {
        text,
        id: string(object.id),
        url: string(object.url),
        language: string(object.language),
        score,
        mended: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(line: &str) -> DamageKind {
        let (kind, _) = parse(line.as_bytes(), &JsonlFields::default(), true).expect_err("damaged");
        if kind != DamageKind::TextNotString && !line.contains("ud800") {
            let lenient = parse(line.as_bytes(), &JsonlFields::default(), false).expect_err("damaged").0;
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
        assert_eq!(kind("{"), DamageKind::NotJson);
        assert_eq!(kind("{}{}"), DamageKind::NotJson);
        assert_eq!(kind("hello"), DamageKind::NotJson);
        assert_eq!(kind(r#"{"text":"\ud800"}"#), DamageKind::NotJson);
        assert_eq!(kind(r#"["text"]"#), DamageKind::NotAnObject);
        assert_eq!(kind("null"), DamageKind::NotAnObject);
        assert_eq!(kind(r#"{"id":1}"#), DamageKind::NoText);
        assert_eq!(kind(r#"{"text":null}"#), DamageKind::TextNotString);
        assert_eq!(kind(r#"{"text":[["deep"]]}"#), DamageKind::TextNotString);
        assert_eq!(kind(r#"{"text":{}}"#), DamageKind::TextNotString);
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(kind(&deep), DamageKind::NoText);
        let deep = format!("{{\"text\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(kind(&deep), DamageKind::TextNotString);
        assert_eq!(
            parse(b"{\"text\":\"\xff\"}", &JsonlFields::default(), true).expect_err("damaged").0,
            DamageKind::InvalidUtf8
        );
    }

    #[test]
    fn what_is_odd_is_mended_and_told() {
        let lenient = |line: &[u8]| {
            let line = parse(line, &JsonlFields::default(), false).expect("an object")?;
            Some((line.text.into_owned(), line.id.map(Cow::into_owned), line.mended))
        };
        let text = |text: &str, mended| Some((text.to_owned(), None, mended));
        assert_eq!(lenient(b"{\"text\":\"caf\xe9.\"}"), text("caf\u{fffd}.", true));
        for (written, read, mended) in [
            (r"\ud800", "\u{fffd}", true),
            (r"a\udc00b\ud83d", "a\u{fffd}b\u{fffd}", true),
            (r"\ud800\ud83d\ude00", "\u{fffd}\u{1f600}", true),
            (r"\\ud800", r"\ud800", false),
            (r"\\\ud800", "\\\u{fffd}", true),
            (r"\uD83D\uDE00", "\u{1f600}", false),
        ] {
            assert_eq!(
                lenient(format!("{{\"text\":\"{written}\"}}").as_bytes()),
                text(read, mended),
                "{written}"
            );
        }
        assert_eq!(lenient(br#"{"text":null,"id":1}"#), None);
        let numbered = |id: &str| {
            let line = format!(r#"{{"id":{id},"x":-1e999999,"text":"a"}}"#);
            lenient(line.as_bytes()).and_then(|(_, id, mended)| id.map(|id| (id, mended)))
        };
        assert_eq!(numbered("1e999999"), Some(("1e999999".to_owned(), false)));
        assert_eq!(numbered("17"), Some(("17".to_owned(), false)));
        // As they are written, whatever a computer makes of them; a damaged line has no other names.
        for id in ["18446744073709551617", "-9223372036854775809", "1.10", "1e3", "0.1"] {
            let line = format!(r#"{{"url": {id}, "text":"a","id" : {id} , "score":0.5}}"#);
            for strict in [false, true] {
                let line = parse(line.as_bytes(), &JsonlFields::default(), strict).unwrap().unwrap();
                assert_eq!((line.id.as_deref(), line.url.as_deref()), (Some(id), Some(id)));
            }
        }
        assert_eq!(numbered("[1e999999]"), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_tree_of_values(text: String, id: Option<String>, more: Vec<String>) {
            let line = serde_json::json!({"text": text, "more": more, "id": id}).to_string();
            let wanted = Line { text: text.into(), id: id.map(Cow::Owned), url: None, language: None, score: None, mended: false };
            for strict in [false, true] {
                let got = parse(line.as_bytes(), &JsonlFields::default(), strict);
                prop_assert_eq!(got, Ok(Some(wanted.clone())));
            }
            let again = parse_again(&line, &JsonlFields::default(), false);
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
