//! Formats numbers for a person to read. An en dash stands for a number that is not known or not finite.

/// A count with its digits in groups of three: `58,213`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count in at most five characters, for axes: `1`, `10k`, `2.5M`.
pub fn short_count(n: u64) -> String {
    let (value, suffix) = match n {
        0..1_000 => return n.to_string(),
        1_000..1_000_000 => (n as f64 / 1e3, "k"),
        1_000_000..1_000_000_000 => (n as f64 / 1e6, "M"),
        1_000_000_000..1_000_000_000_000 => (n as f64 / 1e9, "G"),
        1_000_000_000_000..1_000_000_000_000_000 => (n as f64 / 1e12, "T"),
        1_000_000_000_000_000..1_000_000_000_000_000_000 => (n as f64 / 1e15, "P"),
        _ => (n as f64 / 1e18, "E"),
    };
    let text = if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
    format!("{}{suffix}", text.strip_suffix(".0").unwrap_or(&text))
}

/// A size of `n` bytes in decimal units: `3.42 GB`.
pub fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        _ => scaled(n as f64, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"]),
    }
}

/// A value in three digits, with one of `units`, of which each is a thousand times the one before. It has more digits
/// if there is no larger unit.
pub fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1_000.0;
        unit += 1;
    }
    let digits = if value == 0.0 { "0".to_string() } else { three_digits(value) };
    format!("{digits}{}", units[unit])
}

/// A time of `s` seconds: `34 ms`, `5.27 s`, `2 min 05 s`, `3 h 12 min`.
pub fn seconds(s: f64) -> String {
    if !s.is_finite() || s < 0.0 {
        return "–".to_string();
    }
    if s == 0.0 {
        return "0 s".to_string();
    }
    if s < 0.000_999_5 {
        return format!("{} µs", three_digits(s * 1e6));
    }
    if s < 0.999_5 {
        return format!("{} ms", three_digits(s * 1e3));
    }
    if s < 99.95 {
        return format!("{} s", three_digits(s));
    }
    let whole = s.round() as u64;
    if whole < 3_600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        format!("{} h {:02} min", count(whole / 3_600), whole % 3_600 / 60)
    }
}

/// `amount / seconds` with three digits, or a dash if one of the two is not above 0.
pub fn rate(amount: f64, seconds: f64) -> String {
    let rate = amount / seconds;
    if !rate.is_finite() || seconds <= 0.0 || amount <= 0.0 {
        "–".to_string()
    } else if rate >= 999.5 {
        count(rate.round() as u64)
    } else {
        three_digits(rate)
    }
}

/// A share of 0 to 1 in percent. Only exact shares are shown as 0 or 100: `48.5 %`, `< 0.01 %`, `> 99.99 %`.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "–".to_string();
    }
    let p = share * 100.0;
    if p <= 0.0 {
        "0 %".to_string()
    } else if p < 0.01 {
        "< 0.01 %".to_string()
    } else if p >= 100.0 {
        "100 %".to_string()
    } else if p > 99.99 {
        "> 99.99 %".to_string()
    } else if (1.0..99.0).contains(&p) {
        format!("{p:.1} %")
    } else {
        format!("{p:.2} %")
    }
}

/// A share of 0 to 1 that a user chose, in percent with no more digits than needed: `95 %`, `99.5 %`.
pub fn round_percent(share: f64) -> String {
    format!("{} %", (share * 10_000.0).round() / 100.0)
}

/// `part / whole` in percent, see [`percent`]; `0 %` if `whole` is 0.
pub fn percent_of(part: u64, whole: u64) -> String {
    percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}

/// Three significant digits, or all before the point.
fn three_digits(value: f64) -> String {
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let shown = [0, 7, 999, 1_000, 58_213, 1_234_567, u64::MAX].map(count);
        assert_eq!(shown, ["0", "7", "999", "1,000", "58,213", "1,234,567", "18,446,744,073,709,551,615"]);
        assert_eq!(
            [0, 10, 1_000, 2_500, 10_000, 1_000_000].map(short_count),
            ["0", "10", "1k", "2.5k", "10k", "1M"]
        );
    }

    #[test]
    fn sizes() {
        assert_eq!(
            [0, 999, 1_000, 12_345, 3_420_000_000].map(bytes),
            ["0 B", "999 B", "1.00 kB", "12.3 kB", "3.42 GB"]
        );
        assert_eq!(bytes(999_999), "1.00 MB");
        assert_eq!(bytes(u64::MAX), "18.4 EB");
    }

    #[test]
    fn times() {
        let shown = [0.0, 0.000_012, 0.034, 5.274, 99.99, 125.0, 11_520.0, f64::NAN].map(seconds);
        assert_eq!(
            shown,
            ["0 s", "12.0 µs", "34.0 ms", "5.27 s", "1 min 40 s", "2 min 05 s", "3 h 12 min", "–"]
        );
    }

    #[test]
    fn shares_and_rates() {
        let shown = [0.0, 0.000_01, 0.005, 0.485, 0.995, 0.999_99, 1.0].map(percent);
        assert_eq!(shown, ["0 %", "< 0.01 %", "0.50 %", "48.5 %", "99.50 %", "> 99.99 %", "100 %"]);
        assert_eq!([0.95, 0.995, 1.0, 0.07].map(round_percent), ["95 %", "99.5 %", "100 %", "7 %"]);
        assert_eq!(percent_of(0, 0), "0 %");
        assert_eq!(rate(10.0, 0.0), "–");
        assert_eq!(rate(4_000.0, 2.0), "2,000");
        assert_eq!(rate(5.0, 2.0), "2.50");
    }
}
