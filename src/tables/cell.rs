//! Cells that a spreadsheet would take for formulas.
//!
//! A cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return is a formula to a spreadsheet, and
//! ids and addresses come from the web. Such a cell gets an apostrophe in front, and so does one that has an
//! apostrophe there already, so that reading can take away just what writing put there. A number is none, though it has
//! a sign.

use std::borrow::Cow;

fn is_live(cell: &str) -> bool {
    let cell = cell.trim_start_matches('\'');
    let is_number = || {
        cell.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
            && cell.parse::<f64>().is_ok()
    };
    // A dash alone is standard input.
    cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell != "-" && !is_number()
}

/// A cell as it is written.
pub fn guarded(cell: &str) -> Cow<'_, str> {
    if is_live(cell) { Cow::Owned(format!("'{cell}")) } else { Cow::Borrowed(cell) }
}

/// A cell as it was before it was [`guarded`].
pub fn plain(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|rest| is_live(rest)).unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn formulas_are_guarded_and_nothing_else_is() {
        for (cell, written) in [
            ("=cmd|'/c calc'!A1", "'=cmd|'/c calc'!A1"),
            ("+1+1", "'+1+1"),
            ("-A1", "'-A1"),
            ("-inf", "'-inf"),
            ("-7048155917072976836", "-7048155917072976836"),
            ("+1.5e-3", "+1.5e-3"),
            ("'-1", "'-1"),
            ("-", "-"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("'=1", "''=1"),
            ("https://x.example/?a=1", "https://x.example/?a=1"),
            ("<urn:uuid:1>", "<urn:uuid:1>"),
            ("'tis", "'tis"),
            ("'", "'"),
            ("", ""),
        ] {
            assert_eq!(guarded(cell), written);
            assert_eq!(plain(written), cell);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(cell in "['=+@a\t\r-]{0,5}.{0,5}") {
            let written = guarded(&cell);
            prop_assert_eq!(plain(&written), &*cell);
            let is_live = written.starts_with(['=', '+', '-', '@', '\t', '\r']);
            prop_assert!(!is_live || written == "-" || written.parse::<f64>().is_ok());
        }
    }
}
