//! Lines of JSON: where one ends, and the fields wanted of it.

use std::borrow::Cow;

use memchr::memchr;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

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
}

impl Default for JsonlFields {
    fn default() -> Self {
        Self { text: "text".into(), id: "id".into(), url: "url".into(), language: "language".into() }
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
    Step::Record { content_start: 0, content_end: line.len(), end: next, document: true, record: true }
}

/// Looks for the start of the next line, like [`super::wet::seek`].
pub(crate) fn seek(bytes: &[u8]) -> Result<usize, usize> {
    memchr(b'\n', bytes).map(|n| n + 1).ok_or(bytes.len())
}

/// What a line holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub text: Cow<'a, str>,
    pub id: Option<Cow<'a, str>>,
    pub url: Option<Cow<'a, str>>,
    pub language: Option<Cow<'a, str>>,
}

/// A JSON value, as much of it as matters here.
#[derive(Debug)]
enum Value<'a> {
    Text(Cow<'a, str>),
    Number(String),
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
        Ok(Value::Number(v.to_string()))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Value<'de>, E> {
        Ok(Value::Other("true or false"))
    }
    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Other("null"))
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

/// Reads a line.
///
/// # Errors
/// The kind of damage and what was found.
pub(crate) fn parse<'a>(line: &'a [u8], fields: &JsonlFields) -> Result<Line<'a>, (DamageKind, String)> {
    let line = simdutf8::compat::from_utf8(line).map_err(|e| {
        (DamageKind::InvalidUtf8, format!("byte {} of the line is not UTF-8", e.valid_up_to()))
    })?;
    let mut json = serde_json::Deserializer::from_str(line);
    let object = ObjectSeed(fields).deserialize(&mut json).and_then(|object| json.end().map(|()| object));
    let object = object.map_err(|error| {
        let starts_like_object = line.trim_start().starts_with('{');
        // The line is JSON, but no object, only if it parses as something else.
        if !starts_like_object && serde_json::from_str::<IgnoredAny>(line).is_ok() {
            (DamageKind::NotAnObject, "JSON, but not an object".to_owned())
        } else {
            (DamageKind::NotJson, error.to_string())
        }
    })?;
    let text = match object.text {
        Some(Value::Text(text)) => text,
        Some(Value::Number(_)) => {
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
    let string = |value| match value {
        Some(Value::Text(text)) => Some(text),
        Some(Value::Number(number)) => Some(Cow::Owned(number)),
        _ => None,
    };
    Ok(Line { text, id: string(object.id), url: string(object.url), language: string(object.language) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(line: &str) -> DamageKind {
        parse(line.as_bytes(), &JsonlFields::default()).expect_err("damaged").0
    }

    #[test]
    fn reads_the_fields_wanted() {
        let line =
            br#" {"a":[1,{"text":"no"}],"text":"x\u0041\n","id":7,"url":"http:\/\/u","language":null} "#;
        let got = parse(line, &JsonlFields::default()).expect("an object with text");
        assert_eq!(
            (&*got.text, got.id.as_deref(), got.url.as_deref()),
            ("xA\n", Some("7"), Some("http://u"))
        );
        assert_eq!(got.language, None);
        let fields = JsonlFields { text: "a b".into(), ..JsonlFields::default() };
        let got = parse(br#"{"text":1,"a\u0020b":"","a b":"last"}"#, &fields).expect("text by another name");
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
            parse(b"{\"text\":\"\xff\"}", &JsonlFields::default()).expect_err("damaged").0,
            DamageKind::InvalidUtf8
        );
    }

    proptest! {
        #[test]
        fn agrees_with_a_tree_of_values(text: String, id: Option<String>, more: Vec<String>) {
            let line = serde_json::json!({"text": text, "more": more, "id": id}).to_string();
            let got = parse(line.as_bytes(), &JsonlFields::default());
            prop_assert_eq!(got, Ok(Line { text: text.into(), id: id.map(Cow::Owned), url: None, language: None }));
        }

        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>) {
            let _ = parse(&bytes, &JsonlFields::default());
        }
    }
}
