//! Times and durations as JSON has them: RFC 3339, and seconds with an `s`.

use std::fmt::Write;

/// Seconds from 1970 of the first and the last second that there is: years 1 to 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;
/// Whole seconds of the longest duration: 10,000 years.
const LONGEST: i64 = 315_576_000_000;

/// Seconds from 1970 and nanoseconds after them.
pub(super) fn parse_timestamp(text: &str) -> Option<(i64, i32)> {
    let (date, rest) = text.split_once('T')?;
    let [year, month, day] = fixed(date, '-', [4, 2, 2])?;
    let zone = rest.find(['Z', '+', '-'])?;
    let (time, zone) = rest.split_at(zone);
    let (time, fraction) = time.split_once('.').map_or((time, None), |(time, digits)| (time, Some(digits)));
    let [hour, minute, second] = fixed(time, ':', [2, 2, 2])?;
    let nanos = fraction.map_or(Some(0), nanos)?;
    let offset = match zone.split_at(1) {
        ("Z", "") => 0,
        ("Z", _) => return None,
        (sign, zone) => {
            let [hours, minutes] = fixed(zone, ':', [2, 2])?;
            let east = if sign == "+" { 1 } else { -1 };
            (hours < 24 && minutes < 60).then_some(east * (hours * 3600 + minutes * 60))?
        }
    };
    let right = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !right || year < 1 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days_from_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    (FIRST..=LAST).contains(&seconds).then_some((seconds, nanos))
}

/// The way back; nothing if it is out of range.
pub(super) fn write_timestamp(out: &mut String, seconds: i64, nanos: i32) -> Option<()> {
    if !(FIRST..=LAST).contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
        return None;
    }
    let (year, month, day) = date_of(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}").ok()?;
    write_nanos(out, nanos.unsigned_abs());
    out.push('Z');
    Some(())
}

/// Seconds and nanoseconds, both of one sign.
pub(super) fn parse_duration(text: &str) -> Option<(i64, i32)> {
    let text = text.strip_suffix('s')?;
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (whole, fraction) =
        text.split_once('.').map_or((text, None), |(whole, digits)| (whole, Some(digits)));
    if whole.is_empty() || !whole.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let seconds: i64 = whole.parse().ok().filter(|seconds| *seconds <= LONGEST)?;
    let nanos = fraction.map_or(Some(0), nanos)?;
    Some(if negative { (-seconds, -nanos) } else { (seconds, nanos) })
}

/// The way back; nothing if it is out of range, or the signs differ.
pub(super) fn write_duration(out: &mut String, seconds: i64, nanos: i32) -> Option<()> {
    let one_sign = seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0);
    let within = seconds.unsigned_abs() <= LONGEST as u64 && nanos.unsigned_abs() < 1_000_000_000;
    if !one_sign || !within {
        return None;
    }
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    write!(out, "{sign}{}", seconds.unsigned_abs()).ok()?;
    write_nanos(out, nanos.unsigned_abs());
    out.push('s');
    Some(())
}

/// `.` and three, six or nine digits, or nothing.
fn write_nanos(out: &mut String, nanos: u32) {
    let written = match nanos {
        0 => Ok(()),
        _ if nanos.is_multiple_of(1_000_000) => write!(out, ".{:03}", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1000) => write!(out, ".{:06}", nanos / 1000),
        _ => write!(out, ".{nanos:09}"),
    };
    written.expect("a string takes any text");
}

/// The nanoseconds that the digits behind the point are: one to nine of them.
fn nanos(digits: &str) -> Option<i32> {
    if !(1..=9).contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let value: i32 = digits.parse().ok()?;
    Some(value * 10_i32.pow(9 - digits.len() as u32))
}

/// Numbers of so many digits each, with a mark between them.
fn fixed<const N: usize>(text: &str, mark: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(mark);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next().filter(|part| part.len() == width)?;
        *number = part.bytes().all(|digit| digit.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01; years begin in March here, so that the leap day is their last.
fn days_from_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year * 365 + year / 4 - year / 100 + day - 719_468
}

/// The way back.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_there_and_back(seconds in FIRST..=LAST, nanos in 0..1_000_000_000_i32) {
            let mut text = String::new();
            write_timestamp(&mut text, seconds, nanos).expect("in range");
            prop_assert_eq!(parse_timestamp(&text), Some((seconds, nanos)), "{}", text);
        }

        #[test]
        fn durations_there_and_back(seconds in -LONGEST..=LONGEST, nanos in 0..1_000_000_000_i32) {
            let nanos = nanos * if seconds < 0 { -1 } else { 1 };
            let mut text = String::new();
            write_duration(&mut text, seconds, nanos).expect("in range");
            prop_assert_eq!(parse_duration(&text), Some((seconds, nanos)), "{}", text);
        }
    }

    #[test]
    fn known_times() {
        let cases = [
            ("1970-01-01T00:00:00Z", Some((0, 0))),
            ("0001-01-01T00:00:00Z", Some((FIRST, 0))),
            ("9999-12-31T23:59:59.999999999Z", Some((LAST, 999_999_999))),
            ("2000-02-29T12:00:00.5+01:00", Some((951_822_000, 500_000_000))),
            ("1900-02-29T00:00:00Z", None),
            ("0001-01-01T00:00:00+00:01", None),
            ("1970-01-01t00:00:00Z", None),
            ("1970-01-01T00:00:00z", None),
            ("1970-01-01T00:00:00", None),
            ("1970-01-01T00:00:00.Z", None),
            ("1970-01-01T00:00:00.1234567890Z", None),
            ("1970-1-01T00:00:00Z", None),
            ("1970-01-01T24:00:00Z", None),
            ("1970-01-01T00:00:60Z", None),
            ("19é0-01-01T00:00:00Z", None),
        ];
        for (text, time) in cases {
            assert_eq!(parse_timestamp(text), time, "{text}");
        }
        for text in ["1", "s", "-s", ".5s", "1.s", "+1s", "1.0000000001s", "315576000001s", "--1s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert_eq!(parse_duration("-1.5s"), Some((-1, -500_000_000)));
        assert_eq!(write_duration(&mut String::new(), 1, -1), None);
    }
}
