//! Time spans and byte counts as types, so that neither is mixed with a plain number or with the other.
//!
//! Both print for people (`12.5 µs`, `1.0 GiB`) and [`Bytes`] reads what people write (`64m`, `1GiB`).

use std::fmt;
use std::str::FromStr;

/// A span of time, or a moment counted from some stated origin, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than anything: "no deadline".
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s.saturating_mul(1_000_000_000))
    }

    /// The span as seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - earlier`, or zero where `earlier` is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// `self + span`, staying at [`Nanos::MAX`] instead of wrapping.
    pub const fn plus(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(d: std::time::Duration) -> Nanos {
        Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for std::time::Duration {
    fn from(n: Nanos) -> std::time::Duration {
        std::time::Duration::from_nanos(n.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..=999 => return f.pad(&format!("{} ns", self.0)),
            1_000..=999_999 => (ns / 1e3, "µs"),
            1_000_000..=999_999_999 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        f.pad(&format!("{value:.1} {unit}"))
    }
}

/// Virtual time: a span, or a moment counted from some stated origin, in picoseconds. It reaches 213 days.
///
/// A model needs them because a byte on a 400 Gbit/s link takes 20 ps; integers, because sums of floats depend on their
/// order. Arithmetic stays at the ends of the range instead of wrapping, as it does for [`Nanos`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

impl Picos {
    /// No time at all.
    pub const ZERO: Picos = Picos(0);
    /// Later than anything: "never".
    pub const MAX: Picos = Picos(u64::MAX);

    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Picos {
        Picos(ns.saturating_mul(1_000))
    }

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Picos {
        Picos(us.saturating_mul(1_000_000))
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Picos {
        Picos(ms.saturating_mul(1_000_000_000))
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Picos {
        Picos(s.saturating_mul(1_000_000_000_000))
    }

    /// The same in nanoseconds, or `None` when it is no whole number of them.
    pub const fn exact_nanos(self) -> Option<Nanos> {
        if self.0.is_multiple_of(1_000) { Some(Nanos(self.0 / 1_000)) } else { None }
    }

    /// The whole nanoseconds in it: what a clock that counts nanoseconds shows. "Never" stays "never".
    pub const fn nanos(self) -> Nanos {
        if self.0 == u64::MAX { Nanos::MAX } else { Nanos(self.0 / 1_000) }
    }

    /// The span as seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// `self - earlier`, or zero where `earlier` is later.
    pub const fn since(self, earlier: Picos) -> Picos {
        Picos(self.0.saturating_sub(earlier.0))
    }

    /// `self + span`, staying at [`Picos::MAX`] instead of wrapping.
    pub const fn plus(self, span: Picos) -> Picos {
        Picos(self.0.saturating_add(span.0))
    }
}

impl From<Nanos> for Picos {
    /// Exact up to 213 days, beyond them [`Picos::MAX`]: a deadline that far away is none.
    fn from(n: Nanos) -> Picos {
        Picos::from_nanos(n.0)
    }
}

impl fmt::Display for Picos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..=999 => f.pad(&format!("{} ps", self.0)),
            1_000..=999_999 => f.pad(&format!("{:.1} ns", self.0 as f64 / 1e3)),
            _ => self.nanos().fmt(f),
        }
    }
}

/// A count of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` × 1024 bytes.
    pub const fn from_kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }

    /// `n` × 1024² bytes.
    pub const fn from_mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }

    /// `n` × 1024³ bytes.
    pub const fn from_gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }

    /// The count as a `usize`; counts beyond the address space stay at its end.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (unit, shift) in STEPS {
            if self.0 >= 1 << shift {
                return f.pad(&format!("{:.1} {unit}", self.0 as f64 / (1u64 << shift) as f64));
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

/// Why a byte count could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseBytesError(String);

impl fmt::Display for ParseBytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a size; write for example 512, 64k, 64KiB, 1.5g or 2GiB", self.0)
    }
}

impl std::error::Error for ParseBytesError {}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    /// Reads `512`, `64k`, `64KB`, `64KiB`, `1.5g`, …: every letter unit is a power of 1024, as memcached reads `-I 2m`.
    fn from_str(s: &str) -> Result<Bytes, ParseBytesError> {
        let err = || ParseBytesError(s.to_string());
        let t = s.trim();
        let digits = t.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(t.len());
        let shift = match t[digits..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(err()),
        };
        if let Ok(whole) = t[..digits].parse::<u64>() {
            return whole.checked_mul(1u64 << shift).map(Bytes).ok_or_else(err);
        }
        let part: f64 = t[..digits].parse().map_err(|_| err())?;
        let bytes = part * (1u64 << shift) as f64;
        if bytes < u64::MAX as f64 { Ok(Bytes(bytes as u64)) } else { Err(err()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_what_people_write() {
        for (text, want) in [
            ("0", 0),
            ("512", 512),
            ("64k", 64 << 10),
            ("64 KiB", 64 << 10),
            ("1.5g", 3 << 29),
            ("2GB", 2 << 30),
            (" 7m ", 7 << 20),
        ] {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(want)), "{text}");
        }
        for bad in ["", "m", "-1", "1x", "1..2", "99999999999999999999", "16777216t", "NaN"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn they_print_for_people() {
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos(12_500).to_string(), "12.5 µs");
        assert_eq!(Nanos::from_secs(3).to_string(), "3.0 s");
        assert_eq!(Bytes(12).to_string(), "12 B");
        assert_eq!(Bytes::from_mib(64).to_string(), "64.0 MiB");
    }

    #[test]
    fn arithmetic_stays_in_range() {
        assert_eq!(Nanos(5).since(Nanos(9)), Nanos::ZERO);
        assert_eq!(Nanos::MAX.plus(Nanos(1)), Nanos::MAX);
        assert_eq!(Picos(5).since(Picos(9)), Picos::ZERO);
        assert_eq!(Picos::MAX.plus(Picos(1)), Picos::MAX);
    }

    #[test]
    fn picoseconds_become_nanoseconds_and_back() {
        assert_eq!(Picos::from(Nanos(7)), Picos(7_000));
        assert_eq!(Picos::from(Nanos::MAX), Picos::MAX);
        assert_eq!(Picos(7_999).nanos(), Nanos(7));
        assert_eq!(Picos::MAX.nanos(), Nanos::MAX);
        assert_eq!([Picos(7_000).exact_nanos(), Picos(7_001).exact_nanos()], [Some(Nanos(7)), None]);
        assert_eq!(Picos(999).to_string(), "999 ps");
        assert_eq!(Picos(1_500).to_string(), "1.5 ns");
        assert_eq!(Picos::from_micros(12).to_string(), "12.0 µs");
    }
}
