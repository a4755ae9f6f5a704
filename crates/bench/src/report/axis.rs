//! Scales: from a value to a place on a plot, with the ticks a person would choose.

use super::format;

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances for equal differences.
    Linear,
    /// Equal distances for equal ratios.
    Log,
    /// Quantiles from 0 to below 1, each nine as wide as the one before: 0, 90 %, 99 %, …
    Nines,
}

/// What an axis counts, for its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Micros,
    /// Seconds.
    Seconds,
    /// A count or a rate.
    Count,
    /// Quantiles.
    Quantile,
    /// A share of a whole.
    Share,
}

impl Unit {
    /// The base unit, and how much of it one of these is.
    pub fn base(self) -> (&'static str, f64) {
        match self {
            Unit::Micros => ("s", 1e-6),
            Unit::Seconds => ("s", 1.0),
            Unit::Count | Unit::Quantile => ("", 1.0),
            Unit::Share => ("%", 100.0),
        }
    }
}

/// An axis over a range of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
}

impl Axis {
    /// What its values are counted in.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// An axis that shows all `values` (those that are numbers, and on a log scale positive).
    pub fn over(scale: Scale, unit: Unit, values: impl IntoIterator<Item = f64>) -> Axis {
        let shown = values.into_iter().filter(|v| v.is_finite() && (scale != Scale::Log || *v > 0.0));
        let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = match scale {
            _ if low > high => {
                (if scale == Scale::Log { 1.0 } else { 0.0 }, if scale == Scale::Nines { 0.9 } else { 10.0 })
            }
            Scale::Linear => (low.min(0.0), if high > low.min(0.0) { high * 1.08 } else { low + 1.0 }),
            Scale::Log => (nice_below(low), nice_above(high)),
            Scale::Nines => (0.0, high.max(0.9)),
        };
        Axis { scale, unit, low, high }
    }

    /// An axis from exactly `low` to exactly `high`.
    pub fn exact(scale: Scale, unit: Unit, low: f64, high: f64) -> Axis {
        Axis { scale, unit, low, high: if high > low { high } else { low + 1.0 } }
    }

    /// Where `value` lies: 0 at the low end, 1 at the high end, held to the axis.
    pub fn place(&self, value: f64) -> f64 {
        let (v, low, high) = (self.stretch(value), self.stretch(self.low), self.stretch(self.high));
        ((v - low) / (high - low)).clamp(0.0, 1.0)
    }

    fn stretch(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(1e-12).log10(),
            Scale::Nines => -(1.0 - value.min(1.0 - 1e-12)).log10(),
        }
    }

    /// Places and labels of the ticks.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let values: Vec<f64> = match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high),
            Scale::Log => log_ticks(self.low, self.high),
            Scale::Nines => {
                let all = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999];
                all.into_iter().filter(|&q| q <= self.high + 1e-12).collect()
            }
        };
        values.into_iter().map(|v| (self.place(v), self.label(v))).collect()
    }

    /// A value as the axis labels it.
    pub fn label(&self, value: f64) -> String {
        match self.unit {
            Unit::Micros => match value {
                0.0 => "0".to_string(),
                v if v < 1.0 => format!("{} ns", plain(v * 1e3)),
                v if v < 1e3 => format!("{} µs", plain(v)),
                v if v < 1e6 => format!("{} ms", plain(v / 1e3)),
                v => format!("{} s", plain(v / 1e6)),
            },
            Unit::Seconds => format!("{} s", plain(value)),
            Unit::Count => match value {
                v if v >= 1e9 => format!("{}G", plain(v / 1e9)),
                v if v >= 1e6 => format!("{}M", plain(v / 1e6)),
                v if v >= 1e3 => format!("{}k", plain(v / 1e3)),
                v => plain(v),
            },
            Unit::Share => format!("{} %", plain(value * 100.0)),
            Unit::Quantile => match value {
                0.0 => "min".to_string(),
                q => format!("p{}", plain(q * 100.0)),
            },
        }
    }
}

/// A tick's number: no more digits than it has.
fn plain(x: f64) -> String {
    let rounded = format!("{x:.5}");
    match rounded.contains('.') {
        true => rounded.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => format::digits(x),
    }
}

/// Multiples of 1, 2 or 5 times a power of ten: three to eight of them.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let raw = (high - low) / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw * 0.999).unwrap_or(raw);
    let first = (low / step).ceil() as i64;
    (first..).map(|n| n as f64 * step).take_while(|v| *v <= high * (1.0 + 1e-9)).take(12).collect()
}

/// Powers of ten, with 2 and 5 between them where there are few decades.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = if decades < 3.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = powers.flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)));
    all.filter(|v| *v >= low * 0.999 && *v <= high * 1.001).collect()
}

fn nice_below(x: f64) -> f64 {
    let power = 10f64.powf(x.log10().floor());
    [5.0, 2.0, 1.0].map(|m| m * power).into_iter().find(|v| *v <= x * 1.0001).unwrap_or(power)
}

fn nice_above(x: f64) -> f64 {
    let power = 10f64.powf(x.log10().floor());
    let up = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|v| *v >= x * 0.9999);
    up.filter(|v| *v > nice_below(x)).unwrap_or(20.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ticks_lie_on_the_axis_in_order(values in proptest::collection::vec(0.001f64..1e9, 0..20)) {
            for (scale, unit) in [(Scale::Linear, Unit::Count), (Scale::Log, Unit::Micros)] {
                let axis = Axis::over(scale, unit, values.clone());
                let ticks = axis.ticks();
                prop_assert!((2..=14).contains(&ticks.len()), "{:?}", ticks);
                prop_assert!(ticks.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 != w[1].1), "{:?}", ticks);
                for v in &values {
                    prop_assert!((0.0..=1.0).contains(&axis.place(*v)));
                }
            }
        }
    }

    #[test]
    fn nines_are_equally_wide() {
        let axis = Axis::over(Scale::Nines, Unit::Quantile, [0.9999]);
        let places: Vec<f64> = [0.0, 0.9, 0.99, 0.999, 0.9999].map(|q| axis.place(q)).to_vec();
        assert!(places.windows(2).all(|w| (w[1] - w[0] - 0.25).abs() < 1e-9), "{places:?}");
        let labels: Vec<String> = axis.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["min", "p50", "p90", "p99", "p99.9", "p99.99"]);
    }

    #[test]
    fn labels_are_short() {
        let axis = Axis::over(Scale::Log, Unit::Micros, [12.0, 900.0]);
        let labels: Vec<String> = axis.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["10 µs", "20 µs", "50 µs", "100 µs", "200 µs", "500 µs", "1 ms"]);
    }
}
