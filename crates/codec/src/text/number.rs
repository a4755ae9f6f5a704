//! Numbers as they are written.

use crate::object::dynamic::Value;
use crate::table::Kind;
use std::fmt::Write;

/// The integer that a decimal number of JSON stands for, if it is one: `1e3` and `10.0` are, `1.5` is not. Nothing for what is
/// beyond 38 digits.
pub(super) fn integer(text: &str) -> Option<i128> {
    let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits: Vec<u8> =
        whole.bytes().chain(fraction.bytes()).skip_while(|&digit| digit == b'0').collect();
    if digits.iter().all(|&digit| digit == b'0') {
        return Some(0);
    }
    // An exponent that is no i64 is as good as the largest.
    let sign = if exponent.starts_with('-') { i64::MIN } else { i64::MAX };
    let exponent = exponent.parse::<i64>().unwrap_or(sign);
    let shift = exponent.saturating_sub(fraction.len() as i64);
    if shift < 0 {
        let dropped = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
        let kept = digits.len().checked_sub(dropped)?;
        if digits[kept..].iter().any(|&digit| digit != b'0') {
            return None;
        }
        digits.truncate(kept);
    } else {
        let room = 38_i64.checked_sub(digits.len() as i64)?;
        if shift > room {
            return None;
        }
        digits.resize(digits.len() + shift as usize, b'0');
    }
    let value: i128 = std::str::from_utf8(&digits).ok()?.parse().ok()?;
    Some(if negative { -value } else { value })
}

/// An integer as the value of a field of that kind, within whose range it is.
pub(super) fn integer_value(value: i128, kind: Kind) -> Value<'static> {
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(value as i32),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(value as u32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(value as i64),
        Kind::Enum => Value::Enum(value as i32),
        _ => Value::U64(value as u64),
    }
}

/// Writes a finite number so that it reads back as the same one, with the fewest digits.
pub(super) fn write_f64(out: &mut String, value: f64) {
    // An exponent where digits would be only zeros.
    let plain = value == 0.0 || (1e-5..1e16).contains(&value.abs());
    if plain { write!(out, "{value}") } else { write!(out, "{value:e}") }.expect("a string takes any text");
}

/// The same for a float: its digits are fewer.
pub(super) fn write_f32(out: &mut String, value: f32) {
    let plain = value == 0.0 || (1e-5..1e8).contains(&value.abs());
    if plain { write!(out, "{value}") } else { write!(out, "{value:e}") }.expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact() {
        let cases = [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("0e999999999999999999999", Some(0)),
            ("1e3", Some(1000)),
            ("1.5e1", Some(15)),
            ("10.0", Some(10)),
            ("100e-2", Some(1)),
            ("1.5", None),
            ("1e-1", None),
            ("1e39", None),
            ("1e99999999999999999999", None),
            ("1e-99999999999999999999", None),
            ("18446744073709551615", Some(u64::MAX.into())),
            ("-9223372036854775808", Some(i64::MIN.into())),
            ("9007199254740993", Some(9_007_199_254_740_993)),
        ];
        for (text, value) in cases {
            assert_eq!(integer(text), value, "{text}");
        }
        assert_eq!(integer(&"9".repeat(100)), None);
    }

    #[test]
    fn floats_read_back() {
        for value in
            [0.0, -0.0, 1.0, 0.1, 1e300, -1.5e-300, 5e-324, f64::MAX, 1e15, 1e16, 1e-5, 123_456_789.125]
        {
            let mut out = String::new();
            write_f64(&mut out, value);
            assert_eq!(out.parse::<f64>().map(f64::to_bits), Ok(value.to_bits()), "{out}");
        }
        for value in [0.0, 0.1, f32::MAX, f32::MIN_POSITIVE, 1e-45, 16_777_216.0] {
            let mut out = String::new();
            write_f32(&mut out, value);
            assert_eq!(out.parse::<f32>().map(f32::to_bits), Ok(value.to_bits()), "{out}");
        }
    }
}
