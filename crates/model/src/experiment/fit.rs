//! Fits constants again, each on the calibration results that name it (`fits = "platform | number"`), and on nothing else.
//!
//! One constant at a time: the value in its range at which the mean of its results' errors is zero, by false position (Illinois); then the next; and all again
//! until none moves, for one may shift what another was fitted on. A constant whose results are met to [`CLOSE`] stays as it is, so that a second fit changes
//! nothing. What then still misses is told: the range was too small, or the mechanism is another.
//!
//! Source: Dowell & Jarratt, "A modified regula falsi method" (1971).

use super::Rows;
use super::compare::{Verdict, judge};
use super::published::{Published, Results};
use crate::platform::unit::Dimension;
use crate::platform::{Number, NumberPlace, Platforms};

/// Errors of this size are as good as none.
pub const CLOSE: f64 = 0.002;
/// All constants are gone through this often at most.
const ROUNDS: usize = 4;
/// Runs of one search at most.
const STEPS: usize = 12;
/// Runs whose rows are kept.
const REMEMBERED: usize = 32;
/// A range is not cut finer than this part of it.
const FINEST: f64 = 1e-4;

/// A constant and the results that it is fitted on.
#[derive(Clone, Debug, PartialEq)]
pub struct Task<'a> {
    /// Which constant.
    pub constant: NumberPlace,
    /// On what.
    pub results: Vec<&'a Published>,
}

impl Task<'_> {
    /// Setups that must be run.
    pub fn experiments(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self.results.iter().flat_map(|result| result.experiments()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The mean of the results' errors.
    fn error(&self, rows: &Rows) -> Result<f64, String> {
        let errors = self.results.iter().map(|result| match judge(result, rows) {
            Verdict::NoRow(place) => Err(format!("{}: there is no row {place}", result.id)),
            other => match other.error() {
                Some(error) if error.is_finite() => Ok(error),
                _ => Err(format!("{}: nothing can be fitted on {other:?}", result.id)),
            },
        });
        let errors = errors.collect::<Result<Vec<_>, _>>()?;
        Ok(errors.iter().sum::<f64>() / errors.len() as f64)
    }
}

/// The constants that results name, in the order in which they are named.
pub fn tasks(results: &Results) -> Vec<Task<'_>> {
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for result in &results.all {
        let Some(constant) = &result.fits else { continue };
        match tasks.iter_mut().find(|task| task.constant == *constant) {
            Some(task) => task.results.push(result),
            None => tasks.push(Task { constant: constant.clone(), results: vec![result] }),
        }
    }
    tasks
}

/// A constant after the fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted<'a> {
    /// Which, and on what.
    pub task: Task<'a>,
    /// As the platform has it.
    pub number: Number,
    /// Its value now, in the number's unit.
    pub value: f64,
    /// The mean error of its results before.
    pub error_before: f64,
    /// And now.
    pub error: f64,
}

impl Fitted<'_> {
    /// Whether it is another than before.
    pub fn moved(&self) -> bool {
        self.value != self.number.value
    }

    /// Whether it went as far as its range allows, and its results still are not met.
    pub fn at_an_end(&self) -> bool {
        let (least, most) = self.number.range;
        self.error.abs() > CLOSE && (self.value == least || self.value == most)
    }
}

/// Fits what the results name, on these platforms; `run` runs an experiment by its id.
///
/// # Errors
/// A constant that no platform has, a row that no experiment has, or what `run` says.
pub fn fit<'a>(
    results: &'a Results,
    platforms: &Platforms,
    run: &mut dyn FnMut(&str, &Platforms) -> Result<Rows, String>,
) -> Result<Vec<Fitted<'a>>, String> {
    let mut all = Vec::new();
    for task in tasks(results) {
        let number = platforms.number(&task.constant).map_err(|error| error.to_string())?;
        all.push(Fitted { value: number.value, task, number, error_before: f64::NAN, error: f64::NAN });
    }
    let mut memo = Memo { ran: Vec::new(), run };
    for round in 0..ROUNDS {
        let mut moved = false;
        for at in 0..all.len() {
            let others: Vec<_> = all.iter().map(|one| (one.task.constant.clone(), one.value)).collect();
            let one = &mut all[at];
            let mut error = |value: f64| {
                let mut values = others.clone();
                values[at].1 = value;
                one.task.error(&memo.rows(&one.task.experiments(), platforms, &values)?)
            };
            let before = error(one.value)?;
            let (value, after) = search(&one.number, (one.value, before), &mut error)?;
            if round == 0 {
                one.error_before = before;
            }
            moved |= value != one.value;
            (one.value, one.error) = (value, after);
        }
        if !moved || all.len() == 1 {
            break;
        }
    }
    Ok(all)
}

/// What was run already: constants of one experiment are often tried beside the same others.
struct Memo<'a> {
    ran: Vec<(String, Vec<f64>, Rows)>,
    run: &'a mut dyn FnMut(&str, &Platforms) -> Result<Rows, String>,
}

impl Memo<'_> {
    fn rows(
        &mut self,
        ids: &[&str],
        platforms: &Platforms,
        constants: &[(NumberPlace, f64)],
    ) -> Result<Rows, String> {
        let values: Vec<f64> = constants.iter().map(|(_, value)| *value).collect();
        let mut rows = Rows::default();
        for id in ids {
            if let Some((.., same)) = self.ran.iter().find(|(its, at, _)| its == id && *at == values) {
                rows.append(same.clone());
                continue;
            }
            let changed = platforms.with_values(constants.iter().map(|(place, of)| (place, *of)));
            let new = (self.run)(id, &changed.map_err(|error| error.to_string())?)?;
            rows.append(new.clone());
            if self.ran.len() == REMEMBERED {
                self.ran.remove(0);
            }
            self.ran.push(((*id).to_string(), values.clone(), new));
        }
        Ok(rows)
    }
}

type Point = (f64, f64);

/// The value with the least error that was found, and the error.
fn search(
    number: &Number,
    now: Point,
    error: &mut dyn FnMut(f64) -> Result<f64, String>,
) -> Result<Point, String> {
    let (least, most) = number.range;
    if now.1.abs() <= CLOSE || least == most {
        return Ok(now);
    }
    let mut at = |value: f64| Ok::<Point, String>((value, error(value)?));
    let ends = [at(least)?, at(most)?];
    let mut best = now;
    let keep = |best: &mut Point, new: Point| {
        // By a margin: noise moves nothing.
        if new.1.abs() < best.1.abs() - CLOSE / 4.0 {
            *best = new;
        }
    };
    ends.into_iter().for_each(|end| keep(&mut best, end));
    let crosses = |a: Point, b: Point| (a.1 < 0.0) != (b.1 < 0.0);
    let brackets = [(ends[0], now), (now, ends[1])];
    let Some((mut left, mut right)) = brackets.into_iter().find(|(a, b)| crosses(*a, *b)) else {
        return Ok(best);
    };
    let (mut weights, mut last) = ([1.0, 1.0], None);
    for _ in 0..STEPS {
        let finest = if whole(number) { 1.0 } else { (most - least) * FINEST };
        if best.1.abs() <= CLOSE || right.0 - left.0 <= finest {
            break;
        }
        let (a, b) = (left.1 * weights[0], right.1 * weights[1]);
        let middle = at(inside(number, (left.0 * b - right.0 * a) / (b - a), (left.0, right.0)))?;
        keep(&mut best, middle);
        // The end that stays a second time counts half, or it would stay for good.
        let replaces_left = crosses(middle, right);
        match replaces_left {
            true => (left, weights[0]) = (middle, 1.0),
            false => (right, weights[1]) = (middle, 1.0),
        }
        let stayed = usize::from(replaces_left);
        weights[stayed] = if last == Some(stayed) { weights[stayed] / 2.0 } else { weights[stayed] };
        last = Some(stayed);
    }
    Ok(best)
}

fn whole(number: &Number) -> bool {
    number.unit.dimension == Dimension::Count
}

/// `value` as a file would write it, truly between two others.
fn inside(number: &Number, value: f64, (low, high): (f64, f64)) -> f64 {
    let written = if whole(number) { value.round() } else { rounded(value, 5) };
    if low < written && written < high {
        return written;
    }
    let middle = f64::midpoint(low, high);
    if whole(number) { middle.floor() } else { middle }
}

/// With so many significant digits.
pub fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().expect("it was printed as a number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::toy;
    use crate::platform::Platform;
    use proptest::prelude::*;

    fn results(text: &str) -> Results {
        Results::parse(text, "toy.toml").expect("it is right")
    }

    fn toys() -> Platforms {
        Platforms::shipped().with(toy::platform())
    }

    #[test]
    fn a_constant_is_found_and_a_second_fit_changes_nothing() {
        let results = results(toy::RESULTS);
        let mut runs = 0;
        let mut run = |_: &str, on: &Platforms| {
            runs += 1;
            (toy::EXPERIMENT.run)(on, 1).map_err(|error| error.to_string())
        };
        let fitted = fit(&results, &toys(), &mut run).expect("it has all");
        // 250 ns are 100 ns of service and the constant.
        assert!((fitted[0].value - 150.0).abs() < 0.6 && fitted[0].moved(), "{fitted:?}");
        assert!((fitted[0].error_before + 0.2).abs() < 1e-9 && fitted[0].error.abs() <= CLOSE);
        assert_eq!(fitted[0].task.experiments(), ["X1"]);
        let again = toys().with_values([(&fitted[0].task.constant, fitted[0].value)]).expect("it is there");
        assert!(!fit(&results, &again, &mut run).expect("it has all")[0].moved());
        assert!(runs < 12, "{runs}");
    }

    #[test]
    fn what_the_range_does_not_allow_is_said() {
        let results = results(&toy::RESULTS.replace("0.25", "0.5"));
        let mut run = |_: &str, on: &Platforms| (toy::EXPERIMENT.run)(on, 1).map_err(|e| e.to_string());
        let fitted = fit(&results, &toys(), &mut run).expect("it has all");
        assert!(fitted[0].at_an_end() && fitted[0].value == 200.0 && fitted[0].error < -0.3, "{fitted:?}");
    }

    #[test]
    fn what_cannot_be_fitted_is_an_error() {
        let mut run = |_: &str, on: &Platforms| (toy::EXPERIMENT.run)(on, 1).map_err(|e| e.to_string());
        for (from, to, why) in [
            ("nic.latency", "nic.depth", "nic.depth"),
            ("toy |", "boy |", "boy"),
            ("| NIC |", "| nick |", "no row"),
        ] {
            let results = results(&toy::RESULTS.replace(from, to));
            let said = fit(&results, &toys(), &mut run);
            assert!(said.is_err_and(|said| said.contains(why)), "{to}");
        }
    }

    fn number(range: (f64, f64), unit: &str) -> Number {
        let (least, most) = range;
        let text = format!(
            "name = \"a\"\ntitle = \"b\"\nfamily = \"c\"\n[n]\nn = {{ value = {least}, unit = \"{unit}\", class = \"fitted\", source = \"s\", range = [{least}, {most}] }}"
        );
        Platform::parse(&text, "a.toml").expect("it is right").number("n.n").expect("it is there").clone()
    }

    proptest! {
        #[test]
        fn a_rising_or_falling_curve_is_met_where_it_crosses(
            root in 0.05f64..0.95, power in 0.3f64..3.0, falling: bool, start in 0.0f64..1.0
        ) {
            let number = number((10.0, 110.0), "ns");
            let mut runs = 0;
            let mut curve = |value: f64| {
                runs += 1;
                let rise = ((value - 10.0) / 100.0).max(0.0).powf(power) - root.powf(power);
                Ok(if falling { -rise } else { rise })
            };
            let start = rounded(10.0 + 100.0 * start, 5);
            let now = (start, curve(start).expect("it never fails"));
            let (value, error) = search(&number, now, &mut curve).expect("it never fails");
            prop_assert!(error.abs() <= CLOSE, "{} with error {}", value, error);
            prop_assert!((10.0..=110.0).contains(&value) && runs <= STEPS + 3);
        }
    }

    #[test]
    fn counts_stay_whole() {
        let number = number((1.0, 64.0), "count");
        let mut curve = |value: f64| {
            assert_eq!(value.fract(), 0.0);
            Ok((value - 23.4) / 23.4)
        };
        let (value, _) = search(&number, (1.0, -0.9), &mut curve).expect("it never fails");
        assert_eq!(value, 23.0);
    }
}
