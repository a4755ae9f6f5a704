//! Median and extremes of a handful of figures.

use std::fmt;

/// The median and the extremes.
#[derive(Clone, Copy)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The one in the middle.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// How many there are.
    pub n: usize,
}

impl Spread {
    /// `None` of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        Some(Spread { min: *values.first()?, median: *values.get(n / 2)?, max: *values.last()?, n })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, min, max] = [self.median, self.min, self.max].map(short);
        f.pad(&format!("{median} [{min}..{max}]"))
    }
}

/// Three digits that count.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_reads_as_three_digits_each() {
        let spread = Spread::of([1234.5, 3.251, 99.94]).expect("three values");
        assert_eq!(format!("{spread:>20}"), "   99.9 [3.25..1234]");
        assert!(Spread::of([]).is_none());
    }
}
