//! Figures as people read them: three significant digits and a unit.

use base::Nanos;

/// Microseconds with the unit that fits: `12.3 µs`, `1.2 ms`.
pub fn micros(us: f64) -> String {
    Nanos((us.max(0.0) * 1e3).round() as u64).to_string()
}

/// A number in three digits with `k`, `M` or `G`: `12.3k`.
pub fn short(x: f64) -> String {
    for (unit, size) in [("G", 1e9), ("M", 1e6), ("k", 1e3)] {
        if x.abs() >= size * 0.9995 {
            return format!("{}{unit}", digits(x / size));
        }
    }
    digits(x)
}

/// Three significant digits: `123`, `12.3`, `1.23`, `0.123`.
pub fn digits(x: f64) -> String {
    let places = match x.abs() {
        99.95.. => 0,
        9.995.. => 1,
        0.9995.. => 2,
        0.0 => 0,
        _ => 3,
    };
    format!("{x:.places$}")
}

/// A whole number with thin gaps between thousands: `1 234 567`.
pub fn whole(n: u64) -> String {
    let text = n.to_string();
    let mut out = String::with_capacity(text.len() + text.len() / 3);
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at).is_multiple_of(3) {
            out.push('\u{202F}');
        }
        out.push(digit);
    }
    out
}

/// A share as per cent: `99.98 %`. Only a true whole says 100 %.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        x if x >= 100.0 => "100 %".to_string(),
        x if x > 99.99 => "> 99.99 %".to_string(),
        x => format!("{x:.2} %"),
    }
}

/// A ratio: `0.25×`.
pub fn ratio(x: f64) -> String {
    format!("{}×", digits(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!([999.0, 1_000.0, 12_345.0, 1_234_000.0].map(short), ["999", "1.00k", "12.3k", "1.23M"]);
        assert_eq!([0.0, 0.1234, 1.234, 12.34, 123.4].map(digits), ["0", "0.123", "1.23", "12.3", "123"]);
        assert_eq!(short(999.97), "1.00k");
        assert_eq!(micros(12.34), "12.3 µs");
        assert_eq!(whole(1_234_567), "1\u{202F}234\u{202F}567");
        assert_eq!(whole(12), "12");
        assert_eq!([1.0, 0.99999, 0.5].map(percent), ["100 %", "> 99.99 %", "50.00 %"]);
    }
}
