//! Texts that people read: counts with their nouns, and names and texts of the input, whose characters must not control
//! a terminal or a page.

pub use simflip_core::error::{is_control, printable};

use std::borrow::Cow;
use std::path::Path;

/// `one` if `n` is 1, and otherwise `many`.
pub fn plural<'a>(n: u64, one: &'a str, many: &'a str) -> &'a str {
    if n == 1 { one } else { many }
}

/// A count with its noun: `1 document`, `2 documents`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", plural(n, one, many))
}

/// A path as messages show it: [`printable`], with U+FFFD for what is not UTF-8.
pub fn printable_path(path: &Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

/// The first `most` names with commas in between, and `…` as the last one if there are more.
pub(crate) fn first_of(names: impl IntoIterator<Item = String>, most: usize) -> String {
    let mut names = names.into_iter();
    let mut first: Vec<String> = names.by_ref().take(most).collect();
    if names.next().is_some() {
        first.push("…".to_owned());
    }
    first.join(", ")
}

/// JSON for a terminal: each character that [`is_control`] names is escaped, as `\u009b`, except for line ends. A
/// parser reads the same values from it.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // A line end within a string is escaped already; others lay the values out.
    let order = |c: char| is_control(c) && c != '\n';
    if !json.chars().any(order) {
        return Cow::Borrowed(json);
    }
    let escaped = |c: char| if order(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(json.chars().map(escaped).collect())
}

/// The character, or U+FFFD in place of one that [`is_control`] names.
pub(crate) fn visible(c: char) -> char {
    if is_control(c) { '\u{fffd}' } else { c }
}

/// The first `most` characters on one line, and `…` if there are more. White space becomes a space, and each other
/// character is [`visible`].
pub(crate) fn clip(text: &str, most: usize) -> String {
    let clean = |c: char| if c.is_whitespace() { ' ' } else { visible(c) };
    let mut out: String = text.chars().take(most).map(clean).collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

/// The URL, if a page may link to it: with `http` or `https`, at most 2,000 bytes, and without white space and control
/// characters. `None` for any other.
pub(crate) fn link(url: &str) -> Option<String> {
    let scheme = url.split_once("://")?.0;
    let web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    (web && url.len() <= 2_000 && !url.chars().any(|c| c.is_control() || c.is_whitespace()))
        .then(|| url.to_string())
}

/// `2027-03-14T15:09:26Z` as `2027-03-14 15:09 UTC`; anything else as it is.
pub(crate) fn moment(rfc3339: &str) -> Cow<'_, str> {
    let parts = rfc3339.strip_suffix('Z').and_then(|rest| rest.split_once('T'));
    match parts {
        Some((date, time)) if date.is_ascii() && time.is_ascii() && time.len() >= 5 => {
            Cow::Owned(format!("{date} {} UTC", &time[..5]))
        }
        _ => Cow::Borrowed(rfc3339),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(
            [0, 1, 2].map(|n| counted(n, "document", "documents")),
            ["0 documents", "1 document", "2 documents"]
        );
        assert_eq!([1, 11].map(|n| counted(n, "hash lies", "hashes lie")), ["1 hash lies", "11 hashes lie"]);
    }

    #[test]
    fn orders_to_a_terminal_are_shown() {
        assert_eq!(
            printable("\u{1b}[2Jgone\r\nsimflip: all is well\u{7}"),
            "\\u{1b}[2Jgone\\r\\nsimflip: all is well\\u{7}"
        );
        assert_eq!(
            printable("c1 \u{9b}31m, \u{202e}txt.exe, \u{7f}"),
            "c1 \\u{9b}31m, \\u{202e}txt.exe, \\u{7f}"
        );
        for plain in ["", "C:\\documents\\ä 日本 ☃ 'q' \"r\"", "a\u{301} \u{200f}"] {
            assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain));
        }
    }

    #[test]
    fn only_web_addresses_become_links() {
        assert!(link("https://example.org/a?b=c").is_some() && link("HTTP://example.org").is_some());
        for url in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "https://a b", "", "x"] {
            assert_eq!(link(url), None, "{url}");
        }
    }

    proptest! {
        #[test]
        fn nothing_printable_is_an_order(text in any::<String>()) {
            let shown = printable(&text);
            prop_assert!(!shown.chars().any(is_control));
            prop_assert!(shown == text || text.chars().any(is_control));
            let json = serde_json::to_string_pretty(&[&text]).unwrap();
            let shown = printable_json(&json);
            prop_assert!(!shown.chars().any(|c| is_control(c) && c != '\n'));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [text]);
        }
    }
}
