//! Published, modelled, error.

use super::Rows;
use super::published::{Claim, Place, Published, Results, Standing};

/// How a result came out.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// A number beside a number.
    Number {
        /// The published one.
        published: f64,
        /// What the model says.
        modelled: f64,
        /// Relative.
        error: f64,
    },
    /// Numbers beside a range, at both ends of what it covers.
    Range {
        /// The published range.
        published: (f64, f64),
        /// The least and the most that the model says.
        modelled: (f64, f64),
        /// Of the one that is further out, relative to the end of the range that is nearer to it; 0 where all are inside.
        error: f64,
    },
    /// Whether an order came out.
    Order {
        /// It did.
        holds: bool,
        /// The values.
        values: Vec<f64>,
    },
    /// The experiment has no such row.
    NoRow(Place),
    /// Nothing was claimed.
    NotModelled,
}

/// A result and how it came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared<'a> {
    /// What was published.
    pub result: &'a Published,
    /// What the model says of it.
    pub verdict: Verdict,
}

/// Holds rows against results, in the order of the results.
pub fn compare<'a>(results: &'a Results, rows: &Rows) -> Vec<Compared<'a>> {
    results.all.iter().map(|result| Compared { verdict: judge(result, rows), result }).collect()
}

/// How one came out.
pub fn judge(result: &Published, rows: &Rows) -> Verdict {
    judge_by(result, &|place| {
        let row = rows.find(&place.experiment, &place.variant, &place.point, &place.metric);
        row.map(|row| row.value)
    })
}

/// The same with the values of places that somebody else looks up: of rows that were written down.
pub fn judge_by(result: &Published, value_at: &dyn Fn(&Place) -> Option<f64>) -> Verdict {
    let value = |place: &Place| value_at(place).ok_or_else(|| Verdict::NoRow(place.clone()));
    let verdict = || {
        Ok(match &result.claim {
            None => Verdict::NotModelled,
            Some(Claim::Within { range, of, over }) => {
                let over = over.as_ref().map_or(Ok(1.0), value)?;
                let all = of.iter().map(|place| Ok(value(place)? / over)).collect::<Result<Vec<_>, _>>()?;
                within(*range, &all)
            }
            Some(Claim::Rising(places)) => {
                let values = places.iter().map(value).collect::<Result<Vec<_>, _>>()?;
                Verdict::Order { holds: values.windows(2).all(|pair| pair[0] < pair[1]), values }
            }
        })
    };
    verdict().unwrap_or_else(|missing| missing)
}

pub(super) fn within(range: (f64, f64), all: &[f64]) -> Verdict {
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (below, above) = (error(range, least), error(range, most));
    let error = if below.abs() > above.abs() { below } else { above };
    // A value that is no number is none of a range either.
    let error = all.iter().copied().find(|value| !value.is_finite()).unwrap_or(error);
    match range.0 == range.1 {
        true => Verdict::Number { published: range.0, modelled: least, error },
        false => Verdict::Range { published: range, modelled: (least, most), error },
    }
}

impl Verdict {
    /// The error of a number or a range, relative; 0 of a range that holds.
    pub fn error(&self) -> Option<f64> {
        match self {
            Verdict::Number { error, .. } | Verdict::Range { error, .. } => Some(*error),
            _ => None,
        }
    }
}

/// Relative to the end of the range that is nearer.
fn error((least, most): (f64, f64), modelled: f64) -> f64 {
    if modelled < least {
        modelled / least - 1.0
    } else if modelled > most {
        modelled / most - 1.0
    } else {
        0.0
    }
}

/// Of all results of a standing. Numbers, ranges and orders apart: that a value is somewhere in a range says less than that it is the one that was printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Single numbers that were compared.
    pub numbers: usize,
    /// The median of their absolute errors.
    pub median: f64,
    /// The root of the mean of squared errors, of numbers and ranges.
    pub rms: f64,
    /// The worst.
    pub worst: f64,
    /// Ranges that hold at both ends of what they cover.
    pub ranges_right: usize,
    /// Of so many.
    pub ranges: usize,
    /// The worst error of those that do not.
    pub worst_range: f64,
    /// Orders that came out.
    pub orders_right: usize,
    /// Of so many.
    pub orders: usize,
    /// Results without a row.
    pub without_row: usize,
}

/// Sums up.
pub fn summary(compared: &[Compared<'_>], standing: Standing) -> Summary {
    let (mut errors, mut squares) = (Vec::new(), 0.0);
    let mut sum = Summary::default();
    for one in compared.iter().filter(|one| one.result.standing == standing) {
        squares += one.verdict.error().map_or(0.0, |error| error * error);
        match &one.verdict {
            Verdict::Number { error, .. } => errors.push(error.abs()),
            Verdict::Range { error, .. } => {
                sum.ranges += 1;
                sum.ranges_right += usize::from(*error == 0.0);
                sum.worst_range = sum.worst_range.max(error.abs());
            }
            Verdict::Order { holds, .. } => {
                sum.orders += 1;
                sum.orders_right += usize::from(*holds);
            }
            Verdict::NoRow(_) => sum.without_row += 1,
            Verdict::NotModelled => {}
        }
    }
    errors.sort_by(f64::total_cmp);
    sum.median = median(&errors);
    sum.numbers = errors.len();
    sum.rms = (squares / (sum.numbers + sum.ranges).max(1) as f64).sqrt();
    sum.worst = errors.last().copied().unwrap_or(0.0);
    sum
}

/// Of values in rising order; 0 of none.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
system = "toy"
source = "nobody"
[[result]]
id = "T-1"
what = "a value"
where = "Fig. 1"
class = "prediction"
value = 2.0
of = "F1 | a | 64 B | latency"
[[result]]
id = "T-2"
what = "ratios in a range"
where = "Fig. 2"
class = "prediction"
range = [1.4, 1.6]
of = ["F1 | b | 64 B | latency", "F1 | c | 64 B | latency"]
over = "F1 | a | 64 B | latency"
[[result]]
id = "T-3"
what = "an order"
where = "Fig. 3"
class = "prediction"
order = ["F1 | a | 64 B | latency", "F1 | b | 64 B | latency"]
[[result]]
id = "T-4"
what = "no row"
where = "Fig. 4"
class = "calibration"
value = 1
of = "F9 | a |  | latency"
[[result]]
id = "T-5"
what = "a mystery"
where = "Fig. 5"
class = "not-modelled"
why = "nobody knows"
[[result]]
id = "T-6"
what = "what is put in comes out"
where = "Table 1"
class = "restates"
why = "T-1"
value = 2.0
of = "F1 | a | 64 B | latency"
"#;

    #[test]
    fn a_range_must_hold_at_both_ends_and_missing_rows_are_said() {
        let results = Results::parse(FILE, "toy.toml").expect("it is right");
        let mut rows = Rows::default();
        rows.add(("F1", "a", "64 B"), "latency", "us", 2.2);
        rows.add(("F1", "b", "64 B"), "latency", "us", 3.3);
        rows.add(("F1", "c", "64 B"), "latency", "us", 2.2 * 1.12);
        let compared = compare(&results, &rows);
        let near = |verdict: &Verdict, wanted: f64| {
            verdict.error().is_some_and(|error| (error - wanted).abs() < 1e-9)
        };
        // 1.5 is in the range, 1.12 a fifth below it: the range does not hold.
        assert!(near(&compared[0].verdict, 0.1) && near(&compared[1].verdict, -0.2), "{compared:?}");
        assert!(matches!(compared[2].verdict, Verdict::Order { holds: true, .. }));
        assert!(matches!(&compared[3].verdict, Verdict::NoRow(place) if place.experiment == "F9"));
        assert_eq!(compared[4].verdict, Verdict::NotModelled);
        let sum = summary(&compared, Standing::Prediction);
        assert!((sum.numbers, sum.orders_right, sum.orders) == (1, 1, 1) && (sum.median - 0.1).abs() < 1e-9);
        assert!((sum.ranges_right, sum.ranges) == (0, 1) && (sum.worst_range - 0.2).abs() < 1e-9);
        assert!((sum.rms - (0.05f64 / 2.0).sqrt()).abs() < 1e-9);
        assert!(within((1.0, 2.0), &[1.5, f64::NAN]).error().is_some_and(f64::is_nan));
        assert_eq!(summary(&compared, Standing::Calibration).without_row, 1);
    }

    #[test]
    fn a_wrong_file_says_where() {
        let cases = [
            ("class = \"calibration\"\nvalue = 1\n", "class = \"calibration\"\n", "T-4"),
            ("why = \"nobody knows\"", "", "T-5"),
            ("of = \"F9 | a |  | latency\"", "of = \"F9\"", "experiment | variant | point | metric"),
            ("value = 2.0", "valve = 2.0", "valve"),
            (
                "of = [\"F1 | b | 64 B | latency\", \"F1 | c | 64 B | latency\"]",
                "of = \"F1 | b | 64 B | latency\"",
                "both ends",
            ),
            ("of = [\"F1 | b | 64 B | latency\", ", "of = [3, ", "no place"),
            ("why = \"T-1\"\n", "", "say in why"),
        ];
        for (from, to, why) in cases {
            let said = Results::parse(&FILE.replacen(from, to, 1), "toy.toml");
            assert!(said.is_err_and(|said| said.starts_with("toy.toml:") && said.contains(why)), "{from}");
        }
    }
}
