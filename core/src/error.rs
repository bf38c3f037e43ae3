//! The core's error type.

use std::borrow::Cow;

/// An error of the core: a caller asks for something that has no meaning. The core reads no files, so that nothing else
/// fails.
///
/// ```
/// use simflip_core::{Deduper, Error, Settings};
///
/// let Err(Error::Parameter { parameter, .. }) = Deduper::new(Settings::both(1.5)) else { panic!("above 1") };
/// assert_eq!(parameter, "verify-threshold");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter, or a combination of parameters, that has no meaning.
    #[error("{parameter} {got}: expected {expected}", got = printable(got), expected = printable(expected))]
    Parameter {
        /// The parameter's name as the command line spells it, without the leading dashes. An argument that is no
        /// option has a name such as `hashes`.
        parameter: &'static str,
        /// The value that was given.
        got: String,
        /// The values that are possible, such as `at most 15 of 64 bits`.
        expected: String,
    },
}

impl Error {
    /// Makes an [`Error::Parameter`] from its fields.
    #[doc(hidden)]
    pub fn parameter(parameter: &'static str, got: impl ToString, expected: impl Into<String>) -> Self {
        Self::Parameter { parameter, got: got.to_string(), expected: expected.into() }
    }
}

/// A result whose error is the core's.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Checks that a number is a share above 0 and at most 1. `parameter` names it in the error.
pub(crate) fn check_share(parameter: &'static str, share: f64) -> Result<()> {
    match share > 0.0 && share <= 1.0 {
        true => Ok(()),
        false => Err(Error::parameter(parameter, share, "a share above 0 and at most 1")),
    }
}

/// Makes a text safe to print on one line of a terminal or a log. Control characters, line ends among them, and
/// characters that turn the direction of what follows become escapes such as `\u{1b}` and `\n`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_control(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// True if a character does something instead of being shown: it controls the terminal, ends a line or turns
/// directions.
pub fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
