//! How well results are told by a model that has not seen them: some are left out, what is free is fitted on the others ([`super::fit`]), and those left out
//! are predicted.
//!
//! * Values that constants are shipped with are forgotten: a fit begins in the middle of the range, and is drawn there (a normal distribution that has 80 % in
//!   the range) by as much as results say nothing. So a constant that only what was left out could tell is worth its range, no more.
//! * An interval is the spread of fits on results that are each off by something usual, with a middle drawn from each range; numbers that are not free
//!   are drawn from their ranges as well.
//!
//! Source: randomised maximum likelihood, Kitanidis (1995).

use super::compare::within;
use super::fit::{Fitting, USUAL};
use super::published::{Claim, Published};
use super::response::GRID;
use crate::random::exp;
use base::Prng;
use std::collections::BTreeMap;

/// The share of what comes that intervals are to have in them.
pub const COVERAGE: f64 = 0.8;
/// Standard deviations of a normal distribution, on each side of its mean, that have [`COVERAGE`] between them.
const SPREAD: f64 = 1.2816;
/// Fits of an interval.
const DRAWN: u64 = 40;

/// How results are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Out {
    /// One at a time.
    Result,
    /// All of a figure, a table or a section.
    Figure,
    /// All of the system: what is left is what its ranges say.
    System,
}

impl Out {
    /// All.
    pub const ALL: [Out; 3] = [Out::Result, Out::Figure, Out::System];

    /// As tables have it.
    pub const fn name(self) -> &'static str {
        match self {
            Out::Result => "result",
            Out::Figure => "figure",
            Out::System => "system",
        }
    }
}

/// Sets of results that are left out together, as indices.
pub fn folds(results: &[&Published], out: Out) -> Vec<Vec<usize>> {
    let mut folds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, result) in results.iter().enumerate() {
        let name = match out {
            Out::Result => format!("{at:9}"),
            Out::Figure => figure(&result.source),
            Out::System => String::new(),
        };
        folds.entry(name).or_default().push(at);
    }
    folds.into_values().collect()
}

/// `Fig. 7b, §3.2` is of figure 7.
fn figure(source: &str) -> String {
    let first = source.split(',').next().unwrap_or(source);
    first.trim().trim_end_matches(|c: char| c.is_ascii_lowercase()).into()
}

/// A fit without some results, and what it says of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    /// Which were left out.
    pub out: Vec<usize>,
    /// Where the numbers are then.
    pub positions: Vec<i32>,
    /// Of each that was left out, what its value may be times more and less than the fit says; none of an order.
    pub intervals: Vec<Option<(f64, f64)>>,
}

impl Fitting<'_> {
    /// Fits on all but these, and says how sure it is of them.
    pub fn fold(&self, out: &[usize], seed: u64) -> Fold {
        let used: Vec<usize> = (0..self.results().len()).filter(|at| !out.contains(at)).collect();
        let (middle, exact) = (vec![0.0; self.parameters.len()], vec![0.0; self.results().len()]);
        let positions = self.anew(&used, &middle, &exact);
        let said = self.response.at(&positions);
        let centre: Vec<_> = out.iter().map(|at| self.value(*at, &said)).collect();
        let mut drawn: Vec<Vec<f64>> = vec![vec![]; out.len()];
        for draw in 0..DRAWN {
            let prng = &mut Prng::for_entity(seed, draw, 31);
            let middle: Vec<f64> =
                self.parameters.iter().map(|_| normal(prng) * f64::from(GRID) / SPREAD).collect();
            let off: Vec<f64> = self.results().iter().map(|_| normal(prng) * USUAL).collect();
            let mut positions = self.anew(&used, &middle, &off);
            for (at, parameter) in self.parameters.iter().enumerate().filter(|(_, of)| !of.is_free()) {
                let end = f64::from(if middle[at] < 0.0 {
                    parameter.position() + GRID
                } else {
                    GRID - parameter.position()
                });
                let by = end * middle[at] / f64::from(GRID);
                positions[at] = ((f64::from(parameter.position()) + by).round() as i32).clamp(-GRID, GRID);
            }
            let said = self.response.at(&positions);
            for (all, at) in drawn.iter_mut().zip(out) {
                all.extend(self.value(*at, &said));
            }
        }
        let interval = |(mut all, centre): (Vec<f64>, Option<f64>)| {
            let centre = centre?;
            all.sort_by(f64::total_cmp);
            let beyond = ((1.0 - COVERAGE) / 2.0 * all.len() as f64) as usize;
            let (low, high) = (all.get(beyond)?, all.get(all.len() - 1 - beyond)?);
            Some((exp((low - centre).min(0.0)), exp((high - centre).max(0.0))))
        };
        let intervals = drawn.into_iter().zip(centre).map(interval).collect();
        Fold { out: out.to_vec(), positions, intervals }
    }

    /// The numbers with which these results, each off by so much, come out best, drawn to these middles.
    fn anew(&self, used: &[usize], middle: &[f64], off: &[f64]) -> Vec<i32> {
        let begin = self.response.now.iter().zip(self.parameters);
        let begin = begin.map(|(now, of)| if of.is_free() { 0 } else { *now }).collect();
        let drawn = |at: usize, position: i32| {
            let away = (f64::from(position) - middle[at]) * SPREAD / f64::from(GRID);
            away * away / 2.0
        };
        self.search(begin, 1e-9, |said| self.cost(used, off, said), drawn)
    }

    /// Whether what was published is in an interval around what a fit says; of a single number.
    pub fn covers(&self, result: usize, modelled: f64, interval: Option<(f64, f64)>) -> Option<bool> {
        let Some(Claim::Within { range: (least, most), .. }) = &self.results()[result].claim else {
            return None;
        };
        let (low, high) = interval.filter(|_| least == most)?;
        Some(within((modelled * low, modelled * high), &[*least]).error() == Some(0.0))
    }
}

/// A normal draw, nearly: the sum of twelve even ones.
fn normal(prng: &mut Prng) -> f64 {
    (0..12).map(|_| prng.unit_f64()).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::published::Results;
    use crate::experiment::toy;
    use crate::platform::Platforms;

    const SECOND: &str = r#"
[[result]]
id = "T-2"
what = "throughput"
where = "Fig. 2a"
class = "prediction"
value = 10
of = "X1 | NIC | 64 B | throughput"
[[result]]
id = "T-3"
what = "latency again"
where = "Fig. 2b, Table 1"
class = "prediction"
range = [0.24, 0.26]
of = "X1 | NIC | 64 B | latency"
why = "a toy"
"#;

    /// Without T-1 and T-3 nothing says what the latency is, and the middle of its range is as good as any; with one of them it is 150 ns.
    #[test]
    fn a_constant_that_nothing_tells_is_worth_its_range() {
        let platforms = Platforms::shipped().with(toy::platform());
        let results = Results::parse(&(toy::RESULTS.to_string() + SECOND), "toy.toml").expect("it is right");
        let (parameters, response) = toy::answers(&platforms, &results, false);
        let validation = Fitting::new(&results, &parameters, &response);
        assert_eq!(folds(validation.results(), Out::Figure), [vec![0], vec![1, 2]]);
        assert_eq!(folds(validation.results(), Out::System), [vec![0, 1, 2]]);
        let latency = |out: &[usize]| validation.values(&validation.fold(out, 1).positions)[0].1;
        assert!((latency(&[0]) - 150.0).abs() < 12.0 && (latency(&[1]) - 150.0).abs() < 8.0);
        assert!((latency(&[0, 2]) - 100.0).abs() < 3.0, "{}", latency(&[0, 2]));
        let (told, untold) = (validation.fold(&[1], 1), validation.fold(&[0, 2], 1));
        // Throughput is the rate's alone, a datasheet's 5 to 20.
        let (low, high) = told.intervals[0].expect("it has a place");
        assert!((0.45..0.75).contains(&low) && (1.3..2.1).contains(&high), "{low} {high}");
        let (low, high) = untold.intervals[0].expect("it has a place");
        assert!(low < 0.85 && high > 1.2, "{low} {high}");
        assert_eq!(validation.covers(1, 12.0, Some((0.7, 1.1))), Some(true));
        assert_eq!(validation.covers(1, 12.0, Some((0.9, 1.1))), Some(false));
        assert_eq!(validation.covers(2, 12.0, Some((0.7, 1.1))), None);
    }
}
