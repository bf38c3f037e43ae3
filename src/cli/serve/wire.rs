//! The JSON of requests and answers: pages, and sketches.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use simflip::search::bands::Banding;
use simflip::settings::Sketches;
use simflip::simhash::quantised::QuantisedWeights;
use simflip::sketch::{Facts, Hashed, Sketch, SketchValue, TwoSketches};
use std::borrow::Cow;

/// An object of a request: a page with its text or its sketch, or for a removal with its name alone. `request` is the
/// name of the request.
#[derive(Debug, Deserialize)]
pub(super) struct WirePage<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    pub(super) url: Option<Cow<'a, str>>,
    /// A string or a number.
    #[serde(borrow, default, deserialize_with = "id")]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) sketch: Option<WireSketch<'a>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub(super) request: Option<Cow<'a, str>>,
}

/// A text, which is borrowed where it holds no escapes: of an option, serde would make a copy in any case.
fn text<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<Cow<'a, str>>, D::Error> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    Ok(Option::<Text<'a>>::deserialize(from)?.map(|Text(text)| text))
}

/// An id: a string, or the digits of a number as they were written, whatever its size.
fn id<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<Cow<'a, str>>, D::Error> {
    let Some(raw) = Option::<&'de RawValue>::deserialize(from)?.map(RawValue::get) else { return Ok(None) };
    match raw.as_bytes() {
        [b'"', ..] => serde_json::from_str(raw).map(|name: String| Some(name.into())).map_err(Error::custom),
        [b'-' | b'0'..=b'9', ..] => Ok(Some(raw.into())),
        _ => Err(Error::custom("an id is a string or a number")),
    }
}

impl WirePage<'_> {
    /// The name of the page: its URL, or else its id.
    pub(super) fn name(&self) -> Option<&str> {
        self.url.as_deref().or(self.id.as_deref())
    }
}

/// A sketch in JSON: numbers of fixed length in hexadecimal, most significant digit first, one after the other.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireSketch<'a> {
    /// 32 digits.
    #[serde(borrow)]
    digest: Cow<'a, str>,
    features: u32,
    /// 16 digits: the SimHash.
    #[serde(borrow)]
    hash: Cow<'a, str>,
    /// 16 digits for each 64 bits.
    #[serde(borrow, default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    bits: Option<Cow<'a, str>>,
    /// 8 digits for each key.
    #[serde(borrow, default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    keys: Option<Cow<'a, str>>,
    /// 2 digits for each weight.
    #[serde(borrow, default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    weights: Option<Cow<'a, str>>,
}

fn digits(bytes: impl IntoIterator<Item = u8>) -> Cow<'static, str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let of = |byte: u8| [DIGITS[usize::from(byte >> 4)] as char, DIGITS[usize::from(byte & 15)] as char];
    bytes.into_iter().flat_map(of).collect::<String>().into()
}

/// Reads a number of `N` bytes; none if there are other digits or another number of them.
fn number<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N {
        return None;
    }
    let (mut number, mut all) = ([0; N], 0);
    for (byte, &[high, low]) in number.iter_mut().zip(digits.as_chunks().0) {
        let [high, low] = [VALUES[usize::from(high)], VALUES[usize::from(low)]];
        *byte = high << 4 | low & 15;
        all |= high | low;
    }
    (all < 16).then_some(number)
}

/// Reads `count` numbers, each made by `of` from its bytes; `None` if the text has other digits or another length.
fn numbers<const N: usize, T>(text: &str, count: usize, of: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
    if text.len() != 2 * N * count {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    for digits in text.as_bytes().chunks_exact(2 * N) {
        numbers.push(of(number(digits)?));
    }
    Some(numbers)
}

/// The value of each digit; of all else one that no digit has.
const VALUES: [u8; 256] = {
    let (mut values, mut value) = ([u8::MAX; 256], 0);
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

impl WireSketch<'_> {
    /// The JSON form of a sketch.
    pub(super) fn of(sketch: &Sketch) -> WireSketch<'static> {
        let Facts { digest, features, .. } = sketch.facts;
        let (hash, bits, keys, weights) = match &sketch.value {
            SketchValue::Both(TwoSketches { hash, bits, keys, .. }) => (
                *hash,
                Some(digits(bits.iter().flat_map(|word| word.to_be_bytes()))),
                Some(digits(keys.iter().flat_map(|key| key.to_be_bytes()))),
                None,
            ),
            SketchValue::SimHash(Hashed { hash, weights }) => {
                (*hash, None, None, Some(digits(weights.bytes().map(i8::cast_unsigned))))
            }
            _ => (0, None, None, None),
        };
        WireSketch {
            digest: digits(digest.to_be_bytes()),
            features,
            hash: digits(hash.to_be_bytes()),
            bits,
            keys,
            weights,
        }
    }

    /// The sketch; `None` if it has other digits, or is not of the kind and length that `sketches` says.
    pub(super) fn sketch(&self, sketches: Sketches) -> Option<Sketch> {
        let hash = u64::from_be_bytes(number(self.hash.as_bytes())?);
        let digest = u128::from_be_bytes(number(self.digest.as_bytes())?);
        let value = match (sketches, &self.bits, &self.keys, &self.weights) {
            (Sketches::Both { bits: n, banding: Banding { bands, .. } }, Some(bits), Some(keys), None) => {
                SketchValue::Both(TwoSketches {
                    hash,
                    bits: numbers(bits, n / 64, u64::from_be_bytes)?,
                    keys: numbers(keys, bands, u32::from_be_bytes)?,
                    extra: Vec::new(),
                })
            }
            (Sketches::SimHash { .. }, None, None, Some(weights)) => {
                let weights = number::<64>(weights.as_bytes())?.map(u8::cast_signed);
                SketchValue::SimHash(Hashed { hash, weights: QuantisedWeights::from_bytes(weights) })
            }
            _ => return None,
        };
        Some(Sketch { facts: Facts { digest, features: self.features, text_bytes: 0 }, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simflip::settings::Settings;
    use simflip::sketch::Sketcher;

    #[test]
    fn sketches_come_back_and_others_are_refused() {
        for (settings, other) in
            [(Settings::default(), Settings::simhash()), (Settings::simhash(), Settings::both(0.5))]
        {
            let sketch = Sketcher::new(&settings, None).unwrap().sketch("a page of more than a few words é");
            let sketch = Sketch { facts: Facts { text_bytes: 0, ..sketch.facts }, ..sketch };
            let json = serde_json::to_string(&WireSketch::of(&sketch)).unwrap();
            let wire: WireSketch<'_> = serde_json::from_str(&json).unwrap();
            let lists = [&wire.bits, &wire.keys, &wire.weights].into_iter().flatten();
            assert!(
                lists.clone().count() > 0 && lists.into_iter().all(|list| matches!(list, Cow::Borrowed(_)))
            );
            assert_eq!(wire.sketch(settings.sketches), Some(sketch));
            assert_eq!(wire.sketch(other.sketches), None);
            let wrong = json.replacen("\"hash\":\"", "\"hash\":\"g", 1);
            let wire: WireSketch<'_> = serde_json::from_str(&wrong).unwrap();
            assert_eq!(wire.sketch(settings.sketches), None);
        }
        let page = r#"{"url":"u","text":"some words","request":"r"}"#;
        let WirePage { url, text, request, .. } = serde_json::from_str(page).unwrap();
        assert!([url, text, request].iter().all(|text| matches!(text, Some(Cow::Borrowed(_)))));
        assert_eq!(numbers("é00", 1, u16::from_be_bytes), None);
        assert_eq!(numbers("ABcdEf", 3, u8::from_be_bytes), Some(vec![0xab, 0xcd, 0xef]));
        for wrong in 0..128u8 {
            let text = String::from_utf8(vec![b'0', wrong]).unwrap();
            assert_eq!(number::<1>(text.as_bytes()).is_some(), wrong.is_ascii_hexdigit(), "{text}");
        }
        assert_eq!(numbers("00ff0100", 2, u16::from_be_bytes), Some(vec![0xff, 0x100]));
    }
}
