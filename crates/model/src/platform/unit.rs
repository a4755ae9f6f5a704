//! Units of a platform file, and what kind of quantity each is.
//!
//! Numbers are kept in the unit they were written in, so that an error or a report shows what the file says; components ask for
//! the quantity in the unit they work in.

/// What kind of quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// In seconds.
    Time,
    /// In cycles of some clock.
    Cycles,
    /// Per second.
    Frequency,
    /// In bits per second.
    Bandwidth,
    /// In bytes.
    Size,
    /// In watts.
    Power,
    /// Of one quantity to another of its kind.
    Ratio,
    /// Of things.
    Count,
    /// In US dollars.
    Money,
}

impl Dimension {
    /// For errors: what may be written.
    pub fn units(self) -> String {
        let names: Vec<_> =
            UNITS.iter().filter(|unit| unit.dimension == self).map(|unit| unit.name).collect();
        names.join(", ")
    }
}

/// A unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// As files write it.
    pub name: &'static str,
    /// Of what.
    pub dimension: Dimension,
    /// One of it, in the dimension's base unit.
    pub scale: f64,
}

const fn unit(name: &'static str, dimension: Dimension, scale: f64) -> Unit {
    Unit { name, dimension, scale }
}

/// All units, those of a dimension from small to large.
pub const UNITS: &[Unit] = &[
    unit("ps", Dimension::Time, 1e-12),
    unit("ns", Dimension::Time, 1e-9),
    unit("us", Dimension::Time, 1e-6),
    unit("ms", Dimension::Time, 1e-3),
    unit("s", Dimension::Time, 1.0),
    unit("cycles", Dimension::Cycles, 1.0),
    unit("/s", Dimension::Frequency, 1.0),
    unit("kHz", Dimension::Frequency, 1e3),
    unit("Kops", Dimension::Frequency, 1e3),
    unit("MHz", Dimension::Frequency, 1e6),
    unit("Mops", Dimension::Frequency, 1e6),
    unit("Mpps", Dimension::Frequency, 1e6),
    unit("GHz", Dimension::Frequency, 1e9),
    unit("Mbps", Dimension::Bandwidth, 1e6),
    unit("MB/s", Dimension::Bandwidth, 8e6),
    unit("Gbps", Dimension::Bandwidth, 1e9),
    unit("GB/s", Dimension::Bandwidth, 8e9),
    unit("GiB/s", Dimension::Bandwidth, 8.0 * 1_073_741_824.0),
    unit("B", Dimension::Size, 1.0),
    unit("KiB", Dimension::Size, 1024.0),
    unit("MiB", Dimension::Size, 1_048_576.0),
    unit("GiB", Dimension::Size, 1_073_741_824.0),
    unit("mW", Dimension::Power, 1e-3),
    unit("W", Dimension::Power, 1.0),
    unit("%", Dimension::Ratio, 0.01),
    unit("ratio", Dimension::Ratio, 1.0),
    unit("count", Dimension::Count, 1.0),
    unit("USD", Dimension::Money, 1.0),
];

impl Unit {
    /// By its name.
    pub fn named(name: &str) -> Option<Unit> {
        UNITS.iter().find(|unit| unit.name == name).copied()
    }
}

/// A decimal number and what follows it: `64 B`, `2.5GHz`, `3`.
pub fn quantity(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_'))).unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    number.is_finite().then_some((number, text[end..].trim()))
}

/// Bytes that a text such as `64 B` or `10 GiB` states: a whole number and a unit of size.
pub fn bytes_of(text: &str) -> Option<u64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let unit = Unit::named(unit.trim()).filter(|unit| unit.dimension == Dimension::Size)?;
    number.replace('_', "").parse::<u64>().ok()?.checked_mul(unit.scale as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_scales_right() {
        for (i, unit) in UNITS.iter().enumerate() {
            assert_eq!(Unit::named(unit.name), Some(UNITS[i]), "{}", unit.name);
        }
        let of = |name| Unit::named(name).expect("it is listed").scale;
        assert_eq!((of("GB/s") / of("Gbps"), of("Mpps"), of("KiB")), (8.0, 1e6, 1024.0));
        assert_eq!((bytes_of("64 B"), bytes_of("10 GiB")), (Some(64), Some(10 << 30)));
        assert!(
            bytes_of("64").is_none() && bytes_of("3 us").is_none() && bytes_of("99999999999 GiB").is_none()
        );
        assert_eq!(
            (quantity("64 B"), quantity("2.5GHz"), quantity(" 1_000 ")),
            (Some((64.0, "B")), Some((2.5, "GHz")), Some((1000.0, "")))
        );
        assert!(quantity("B").is_none() && quantity("-1 B").is_none() && quantity("").is_none());
        assert!(Unit::named("furlong").is_none() && Dimension::Power.units() == "mW, W");
    }
}
