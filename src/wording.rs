//! Words around what is told: counts with their nouns, and text of the input that is to be shown and not obeyed.

pub use flipside_core::error::{is_order, printable};

use std::borrow::Cow;
use std::path::Path;

/// `one` or `many`, as the count asks for.
pub fn plural<'a>(n: u64, one: &'a str, many: &'a str) -> &'a str {
    if n == 1 { one } else { many }
}

/// A count with its noun: `1 page`, `2 pages`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", plural(n, one, many))
}

/// A path as messages show it, see [`printable`].
pub fn printable_path(path: &Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

/// JSON that gives a terminal no orders: of the characters in [`printable`], those that JSON may hold as they are stand as
/// `\u009b` and the like. It says the same.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // A line end within a string is escaped already; others lay the values out.
    let order = |c: char| is_order(c) && c != '\n';
    if !json.chars().any(order) {
        return Cow::Borrowed(json);
    }
    let escaped = |c: char| if order(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(json.chars().map(escaped).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "page", "pages")), ["0 pages", "1 page", "2 pages"]);
        assert_eq!([1, 11].map(|n| counted(n, "hash lies", "hashes lie")), ["1 hash lies", "11 hashes lie"]);
    }

    #[test]
    fn orders_to_a_terminal_are_shown() {
        assert_eq!(
            printable("\u{1b}[2Jgone\r\nflipside: all is well\u{7}"),
            "\\u{1b}[2Jgone\\r\\nflipside: all is well\\u{7}"
        );
        assert_eq!(
            printable("c1 \u{9b}31m, \u{202e}txt.exe, \u{7f}"),
            "c1 \\u{9b}31m, \\u{202e}txt.exe, \\u{7f}"
        );
        for plain in ["", "C:\\pages\\ä 日本 ☃ 'q' \"r\"", "a\u{301} \u{200f}"] {
            assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain));
        }
    }

    proptest! {
        #[test]
        fn nothing_printable_is_an_order(text in any::<String>()) {
            let shown = printable(&text);
            prop_assert!(!shown.chars().any(is_order));
            prop_assert!(shown == text || text.chars().any(is_order));
            let json = serde_json::to_string_pretty(&[&text]).unwrap();
            let shown = printable_json(&json);
            prop_assert!(!shown.chars().any(|c| is_order(c) && c != '\n'));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [text]);
        }
    }
}
