//! How long a value is.
//!
//! `etc` follows Facebook's ETC pool as modelled by Atikoglu et al., "Workload analysis of a large-scale key-value
//! store" (SIGMETRICS 2012): a table of probabilities for 0 to 14 bytes and a generalised Pareto law for the rest. The
//! constants are those of leverich/mutilate's `Generator.cc`. mutilate starts the law at 0, so that it overlaps the
//! table; here it starts at 15, where the table ends. Sizes end below memcached's usual limit of 1 MiB for an item.

use base::{Bytes, Prng};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A distribution of value sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueSizes {
    /// All of one size.
    Fixed(usize),
    /// Each size of the range, ends included, alike.
    Range(usize, usize),
    /// Facebook's ETC.
    Etc,
}

const ETC_SCALE: f64 = 214.476;
const ETC_SHAPE: f64 = 0.348_238;
const ETC_LONGEST: usize = 1_000_000;
/// The probabilities of sizes 0 to 14 in the paper's table.
const ETC_SMALL: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837,
    0.08989, 0.00092, 0.00326, 0.01980,
];

/// The longest value that the generator makes.
pub const LONGEST_VALUE: usize = 128 << 20;

impl ValueSizes {
    /// The longest size that can come.
    pub fn longest(&self) -> usize {
        match *self {
            ValueSizes::Fixed(size) => size,
            ValueSizes::Range(_, high) => high,
            ValueSizes::Etc => ETC_LONGEST,
        }
    }

    /// The size of one value.
    #[inline]
    pub fn draw(&self, prng: &mut Prng) -> usize {
        match *self {
            ValueSizes::Fixed(size) => size,
            ValueSizes::Range(low, high) => low + prng.below((high - low + 1) as u64) as usize,
            ValueSizes::Etc => etc(prng),
        }
    }
}

fn etc(prng: &mut Prng) -> usize {
    let mut u = prng.unit_f64();
    for (size, p) in ETC_SMALL.iter().enumerate() {
        if u < *p {
            return size;
        }
        u -= p;
    }
    let tail = prng.unit_f64();
    let size = ETC_SCALE / ETC_SHAPE * ((1.0 - tail).powf(-ETC_SHAPE) - 1.0);
    (ETC_SMALL.len() + size as usize).min(ETC_LONGEST)
}

impl FromStr for ValueSizes {
    type Err = String;

    fn from_str(s: &str) -> Result<ValueSizes, String> {
        if s == "etc" {
            return Ok(ValueSizes::Etc);
        }
        let size = |text: &str| match text.parse::<Bytes>() {
            Ok(bytes) if bytes.as_usize() <= LONGEST_VALUE => Ok(bytes.as_usize()),
            Ok(bytes) => Err(format!("values of {bytes} are longer than the longest, 128 MiB")),
            Err(error) => Err(error.to_string()),
        };
        match s.split_once('-') {
            None => Ok(ValueSizes::Fixed(size(s)?)),
            Some((low, high)) => match (size(low)?, size(high)?) {
                (low, high) if low < high => Ok(ValueSizes::Range(low, high)),
                _ => Err(format!("{s:?} runs backwards; write the smaller size first")),
            },
        }
    }
}

impl fmt::Display for ValueSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueSizes::Fixed(size) => write!(f, "{size}"),
            ValueSizes::Range(low, high) => write!(f, "{low}-{high}"),
            ValueSizes::Etc => f.write_str("etc"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!("64".parse(), Ok(ValueSizes::Fixed(64)));
        assert_eq!("64-1k".parse(), Ok(ValueSizes::Range(64, 1024)));
        assert_eq!("etc".parse(), Ok(ValueSizes::Etc));
        for bad in ["", "9-1", "x", "1g", "1-"] {
            assert!(bad.parse::<ValueSizes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_its_ends() {
        let mut prng = Prng::new(1);
        let range = ValueSizes::Range(3, 6);
        let mut seen = [false; 7];
        (0..1_000).for_each(|_| seen[range.draw(&mut prng)] = true);
        assert_eq!(seen, [false, false, false, true, true, true, true]);
    }

    #[test]
    fn etc_draws_follow_its_table_and_its_law() {
        let mut prng = Prng::new(2);
        let mut sizes: Vec<usize> = (0..200_000).map(|_| ValueSizes::Etc.draw(&mut prng)).collect();
        sizes.sort_unstable();
        let share = |below: usize| sizes.partition_point(|&s| s < below) as f64 / sizes.len() as f64;
        assert!((share(15) - ETC_SMALL.iter().sum::<f64>()).abs() < 0.01);
        // The quantiles of the Pareto part, from its distribution function.
        let small: f64 = ETC_SMALL.iter().sum();
        let pareto = |x: f64| 1.0 - (1.0 + ETC_SHAPE * x / ETC_SCALE).powf(-1.0 / ETC_SHAPE);
        for x in [100usize, 500, 2_000] {
            let want = small + (1.0 - small) * pareto((x - ETC_SMALL.len()) as f64);
            assert!((share(x) - want).abs() < 0.01, "{x}: {} for {want}", share(x));
        }
        assert!(*sizes.last().expect("sizes") <= ETC_LONGEST);
    }
}
