//! Times, counts, rates, addresses and registers as people write them on a command line.

use base::registers::{Register, Registers, SetError};
use std::fmt;
use std::net::{AddrParseError, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// A text that is no address, and why.
#[derive(Clone, Debug)]
pub struct WrongAddress(String, AddrParseError);

impl fmt::Display for WrongAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongAddress(text, cause) = self;
        write!(
            f,
            "{text:?} is not an address to listen on ({cause}); write for example 127.0.0.1:11211 or [::1]:0"
        )
    }
}

impl std::error::Error for WrongAddress {}

/// Reads `host:port` or `[v6]:port`.
///
/// # Errors
/// When it is neither.
pub fn address(text: &str) -> Result<SocketAddr, WrongAddress> {
    let named = text.replacen("localhost", "127.0.0.1", 1);
    named.parse().map_err(|cause| WrongAddress(text.to_string(), cause))
}

/// Reads `10s`, `500ms`, `1.5m`, `80us`; a plain number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time; write for example 10s, 500ms, 80us or 2m");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| wrong())?;
    let unit = match text[end..].trim() {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let seconds = number * unit;
    if seconds < 1e7 { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
}

/// The same, of so many seconds at least and at most.
pub fn duration_of(seconds: RangeInclusive<u64>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let time = duration(text)?;
        let (least, most) = (Duration::from_secs(*seconds.start()), Duration::from_secs(*seconds.end()));
        if (least..=most).contains(&time) {
            return Ok(time);
        }
        Err(format!("{text:?} is not within {} s and {} s", seconds.start(), seconds.end()))
    }
}

/// Why registers could not be set from a command line.
#[derive(Clone, Debug)]
pub enum AssignError {
    /// `--set` without `=`; and a register that there is, as an example.
    NotAnAssignment(String, String),
    /// The register, or its value.
    Register(SetError),
}

impl From<SetError> for AssignError {
    fn from(error: SetError) -> AssignError {
        AssignError::Register(error)
    }
}

impl fmt::Display for AssignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AssignError::NotAnAssignment(text, example) => {
                write!(f, "--set takes NAME=VALUE, for example --set {example}, not {text:?}")
            }
            AssignError::Register(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AssignError {}

/// Sets registers as `--set NAME=VALUE` says, before the program uses them. All servers read their flags so.
///
/// # Errors
/// What is no assignment, no register or no value.
pub fn assign<R: Register>(registers: &Registers<R>, assignments: &[String]) -> Result<(), AssignError> {
    for assignment in assignments {
        let Some((name, value)) = assignment.split_once('=') else {
            let spec = &R::SPECS[0];
            let example = format!("{}={}", spec.name, spec.show(spec.default));
            return Err(AssignError::NotAnAssignment(assignment.clone(), example));
        };
        registers.set(name.trim(), value)?;
    }
    Ok(())
}

/// Reads `1000`, `100k`, `1m`, `1.5g`: powers of a thousand.
pub fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a count from 1 to 1000g; write for example 1000, 100k or 1m");
    let lower = text.trim().to_ascii_lowercase();
    let end = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let unit = match &lower[end..] {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => return Err(wrong()),
    };
    let number = lower[..end].parse::<f64>().map_err(|_| wrong())? * unit;
    if (1.0..=1e12).contains(&number) { Ok(number as u64) } else { Err(wrong()) }
}

/// Reads a rate: as [`count`], per second.
pub fn rate(text: &str) -> Result<f64, String> {
    Ok(count(text)
        .map_err(|_| format!("{text:?} is not a rate per second; write for example 5000, 50k or 1m"))?
        as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("80us"), Ok(Duration::from_micros(80)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert!(duration("").is_err() && duration("-1s").is_err() && duration("1y").is_err());
        assert_eq!(count("100k"), Ok(100_000));
        assert_eq!(count("1.5M"), Ok(1_500_000));
        assert!(count("0").is_err() && count("k").is_err() && count("9999g").is_err());
    }
}
