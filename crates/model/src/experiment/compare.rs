//! Published, modelled, error.

use super::Rows;
use super::published::{Claim, Place, Published, Results, Standing};

/// How a result came out.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// A number beside a number.
    Number {
        /// The published range.
        published: (f64, f64),
        /// What the model says.
        modelled: f64,
        /// Relative to the nearer end of the range; 0 inside.
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

pub(super) fn judge(result: &Published, rows: &Rows) -> Verdict {
    let value = |place: &Place| {
        let row = rows.find(&place.experiment, &place.variant, &place.point, &place.metric);
        row.map(|row| row.value).ok_or_else(|| Verdict::NoRow(place.clone()))
    };
    let verdict = || {
        Ok(match &result.claim {
            None => Verdict::NotModelled,
            Some(Claim::Within { range, of, over }) => {
                let modelled = value(of)? / over.as_ref().map_or(Ok(1.0), value)?;
                Verdict::Number { published: *range, modelled, error: error(*range, modelled) }
            }
            Some(Claim::Rising(places)) => {
                let values = places.iter().map(value).collect::<Result<Vec<_>, _>>()?;
                Verdict::Order { holds: values.windows(2).all(|pair| pair[0] < pair[1]), values }
            }
        })
    };
    verdict().unwrap_or_else(|missing| missing)
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

/// Of all results of a standing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Numbers that were compared.
    pub numbers: usize,
    /// The median of their absolute errors.
    pub median: f64,
    /// The root of the mean of their squares.
    pub rms: f64,
    /// The worst.
    pub worst: f64,
    /// Orders that came out.
    pub orders_right: usize,
    /// Of so many.
    pub orders: usize,
    /// Results without a row.
    pub without_row: usize,
}

/// Sums up.
pub fn summary(compared: &[Compared<'_>], standing: Standing) -> Summary {
    let mut errors = Vec::new();
    let mut sum = Summary::default();
    for one in compared.iter().filter(|one| one.result.standing == standing) {
        match &one.verdict {
            Verdict::Number { error, .. } => errors.push(error.abs()),
            Verdict::Order { holds, .. } => {
                sum.orders += 1;
                sum.orders_right += usize::from(*holds);
            }
            Verdict::NoRow(_) => sum.without_row += 1,
            Verdict::NotModelled => {}
        }
    }
    errors.sort_by(f64::total_cmp);
    let middle = errors.len() / 2;
    sum.median = match errors.len() {
        0 => 0.0,
        n if n % 2 == 1 => errors[middle],
        _ => f64::midpoint(errors[middle - 1], errors[middle]),
    };
    sum.numbers = errors.len();
    sum.rms = (errors.iter().map(|error| error * error).sum::<f64>() / errors.len().max(1) as f64).sqrt();
    sum.worst = errors.last().copied().unwrap_or(0.0);
    sum
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
what = "a ratio in a range"
where = "Fig. 2"
class = "prediction"
range = [1.4, 1.6]
of = "F1 | b | 64 B | latency"
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
"#;

    #[test]
    fn errors_are_to_the_nearer_end_and_missing_rows_are_said() {
        let results = Results::parse(FILE, "toy.toml").expect("it is right");
        let mut rows = Rows::default();
        rows.add(("F1", "a", "64 B"), "latency", "us", 2.2);
        rows.add(("F1", "b", "64 B"), "latency", "us", 3.52);
        let compared = compare(&results, &rows);
        let near = |verdict: &Verdict, wanted: f64| matches!(verdict, Verdict::Number { error, .. } if (error - wanted).abs() < 1e-9);
        assert!(near(&compared[0].verdict, 0.1) && near(&compared[1].verdict, 0.0));
        assert!(matches!(compared[2].verdict, Verdict::Order { holds: true, .. }));
        assert!(matches!(&compared[3].verdict, Verdict::NoRow(place) if place.experiment == "F9"));
        assert_eq!(compared[4].verdict, Verdict::NotModelled);
        let sum = summary(&compared, Standing::Prediction);
        assert!((sum.numbers, sum.orders_right, sum.orders) == (2, 1, 1) && (sum.median - 0.05).abs() < 1e-9);
        assert!((sum.rms - 0.1 / 2f64.sqrt()).abs() < 1e-9);
        assert_eq!(summary(&compared, Standing::Calibration).without_row, 1);
    }

    #[test]
    fn a_wrong_file_says_where() {
        let cases = [
            ("where = \"Fig. 2\"", "where = \"Fig. 2\"\nfits = \"toy | nic.latency\"", "must be calibration"),
            ("class = \"calibration\"\nvalue = 1\n", "class = \"calibration\"\n", "T-4"),
            ("why = \"nobody knows\"", "", "T-5"),
            ("of = \"F9 | a |  | latency\"", "of = \"F9\"", "experiment | variant | point | metric"),
            ("value = 2.0", "valve = 2.0", "valve"),
        ];
        for (from, to, why) in cases {
            let said = Results::parse(&FILE.replacen(from, to, 1), "toy.toml");
            assert!(said.is_err_and(|said| said.starts_with("toy.toml:") && said.contains(why)), "{from}");
        }
    }
}
