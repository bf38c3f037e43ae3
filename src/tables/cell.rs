//! Guards table cells that a spreadsheet would run as formulas.
//!
//! A cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return is a formula to a spreadsheet, and ids and
//! URLs come from the web. Writing puts an apostrophe before such a cell; numbers and a lone `-` stay as they are. If a
//! formula has apostrophes before it already, it gets one more, so that reading gives back the cell as it was.

use std::borrow::Cow;

/// True if a cell, without apostrophes before it, is a formula to a spreadsheet.
fn is_live(cell: &str) -> bool {
    let cell = cell.trim_start_matches('\'');
    let is_number = || {
        cell.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
            && cell.parse::<f64>().is_ok()
    };
    // A dash alone is standard input.
    cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell != "-" && !is_number()
}

/// A cell as it is written: with an apostrophe before it if a spreadsheet would take it for a formula.
pub fn guarded(cell: &str) -> Cow<'_, str> {
    if is_live(cell) { Cow::Owned(format!("'{cell}")) } else { Cow::Borrowed(cell) }
}

/// A cell that was read, as it was before it was [`guarded`].
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
