//! What requests cost in money: what the machine costs over its life, and the energy that it draws meanwhile, for each million of requests.
//!
//! A platform file may say prices, numbers of the table `price` in US dollars, one for each part that is bought (`price.machine`, `price.card`); what is
//! summed are all of them. A part of a composed machine has its own (`node.price`), times its count. Where the family composes no watts, `watts.idle` and
//! `watts.busy` say those of the whole machine: in between they are taken as linear in the load. Neither is needed by any family, and nothing is assumed
//! where a file says nothing.
//!
//! The range is that of the arithmetic's cost when each number is moved to both ends of its range, as `confidence` does it, and of the model's own error.

use super::answer::Plan;
use super::graph::Graph;
use super::mixture::{most, whole};
use super::model_error::{ModelError, widened};
use super::{Builder, Objective, PlanError, Question, Task};
use crate::platform::audit::Audit;
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use crate::workload::Workload;
use serde::Serialize;

/// Prices begin so.
pub const PRICES: &str = "price.";
/// Watts of the whole machine, when nothing is done and when as much is done as can be.
const WATTS: (&str, &str) = ("watts.idle", "watts.busy");
const SECONDS_OF_YEAR: f64 = 365.25 * 86_400.0;
const JOULES_OF_KWH: f64 = 3.6e6;

/// What money is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Economy {
    /// Years that a machine serves until it is replaced.
    pub years: f64,
    /// US dollars for a kilowatt hour.
    pub kwh: f64,
}

impl Default for Economy {
    fn default() -> Economy {
        Economy { years: 4.0, kwh: 0.12 }
    }
}

/// What the first of a ranking costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// What was paid for.
    #[serde(flatten)]
    pub economy: Economy,
    /// US dollars for the machine.
    pub price: Option<f64>,
    /// Watts at the rate.
    pub watts: Option<f64>,
    /// Requests per second that it is shared by: the most within the limits, or the rate that is asked for.
    pub rate: f64,
    /// US dollars for a million requests; energy is left out where no watts are known.
    pub per_million: Option<f64>,
    /// Its ends, relative to it, if numbers err independently within their ranges, and the model as it did elsewhere.
    pub range: Option<(f64, f64)>,
    /// Of which that share is energy.
    pub energy_share: f64,
    /// What is not known: `price of …`, `watts of …`.
    pub unknown: Vec<String>,
}

/// The price of all that is bought.
fn price(platform: &Platform) -> Result<Option<f64>, LoadError> {
    let names: Vec<String> = platform.numbers().map(|(name, _)| name.to_string()).collect();
    let prices = names.iter().filter(|name| name.starts_with(PRICES));
    let mut prices =
        prices.map(|name| platform.value(name, Dimension::Money)).collect::<Result<Vec<_>, _>>()?;
    // Of a part as many are bought as there are.
    for part in &platform.parts {
        let (each, count) = (part.number("price"), part.number("count"));
        if platform.has(&each) {
            let count = if platform.has(&count) { platform.count(&count)?.max(1) } else { 1 };
            prices.push(platform.value(&each, Dimension::Money)? * count as f64);
        }
    }
    Ok((!prices.is_empty()).then(|| prices.iter().sum()))
}

/// The whole machine's watts by its file, used by this share.
fn watts_by_file(platform: &Platform, share: f64) -> Result<Option<f64>, LoadError> {
    if !(platform.has(WATTS.0) && platform.has(WATTS.1)) {
        return Ok(None);
    }
    let of = |name| platform.value(name, Dimension::Power);
    let (idle, busy) = (of(WATTS.0)?, of(WATTS.1)?);
    Ok(Some(idle + (busy - idle) * share.clamp(0.0, 1.0)))
}

impl Economy {
    /// US dollars for a second of a machine, and how much of that is energy.
    fn per_second(self, price: Option<f64>, watts: Option<f64>) -> (f64, f64) {
        let energy = watts.unwrap_or(0.0) / JOULES_OF_KWH * self.kwh;
        (price.unwrap_or(0.0) / (self.years * SECONDS_OF_YEAR) + energy, energy)
    }
}

/// What the first of the plan's ranking costs; a plan of the same question, with the same builder.
///
/// # Errors
/// A price that is not in US dollars, or what planning itself says.
pub fn cost(
    builder: Builder,
    platform: &Platform,
    workload: &Workload,
    question: &Question,
    plan: &Plan,
    economy: Economy,
) -> Result<Cost, PlanError> {
    let first = &plan.ranking[0];
    let at_most = question.objective == Objective::Throughput && !plan.rate_given;
    let by_limit = at_most && plan.by_limit;
    let rate = match first.saturated {
        Some(seen) if at_most && !by_limit => seen.rate,
        _ if by_limit => first.rate,
        _ => plan.rate,
    };
    let figures = first.at_rate.or(first.saturated);
    let share = rate / first.most.max(f64::MIN_POSITIVE);
    let price = price(platform)?;
    let watts = match figures.and_then(|seen| seen.watts) {
        Some(watts) => Some(watts),
        None => watts_by_file(platform, share)?,
    };
    let mut unknown = Vec::new();
    if price.is_none() {
        unknown.push(format!("price of {}", platform.name));
    }
    if watts.is_none() {
        unknown.push(format!("watts of {}", platform.name));
    }
    let (dollars, energy) = economy.per_second(price, watts);
    let serves = plan.advice.possible && rate > 0.0 && price.is_some();
    let per_million = serves.then(|| dollars / rate * 1e6);
    let range = match per_million {
        Some(_) => Some(range(&Task { builder, platform, workload, question }, plan, (economy, at_most))?),
        None => None,
    };
    let energy_share = if dollars > 0.0 { energy / dollars } else { 0.0 };
    Ok(Cost { economy, price, watts, rate, per_million, range, energy_share, unknown })
}

/// Its ends, by arithmetic.
fn range(task: &Task<'_>, plan: &Plan, (economy, at_most): (Economy, bool)) -> Result<(f64, f64), PlanError> {
    let names: Vec<&str> = plan.ranking[0].parts.iter().map(|part| &*part.name).collect();
    let audit = Audit::of(task.platform, |platform| {
        let setting = task.setting(platform)?;
        let graph = Graph::of(&setting, task.workload, &task.question.limits);
        let ways: Vec<usize> =
            (0..graph.ways.len()).filter(|way| names.contains(&&*graph.ways[*way].name)).collect();
        let failed = |why| LoadError::File { file: platform.name.clone(), line: 0, why };
        let most = most(&graph, &ways, &whole(&graph)).map_err(failed)?;
        let rate = if at_most { most.rate } else { plan.rate };
        // Where the rate is more than a machine serves, more of them are bought.
        let machines = (rate / most.rate.max(f64::MIN_POSITIVE)).max(1.0);
        let share = rate / most.rate.max(f64::MIN_POSITIVE) / machines;
        let rates: Vec<f64> = most.rates.iter().map(|of| of * share).collect();
        let watts = match graph.watts(&rates) {
            Some(watts) => Some(watts),
            None => watts_by_file(platform, share)?,
        };
        Ok(machines * economy.per_second(price(platform)?, watts).0 / rate)
    })?;
    let reach = |end: &dyn Fn(f64, f64) -> f64| -> f64 {
        audit.swings.iter().map(|swing| end(swing.low, swing.high).powi(2)).sum::<f64>().sqrt()
    };
    let down = reach(&|low, high| low.min(high).min(0.0));
    let by_numbers = ((1.0 - down).max(0.0), 1.0 + reach(&|low, high| low.max(high).max(0.0)));
    // A rate that is asked for does not err; the most that is served may.
    let model = if at_most { ModelError::of_platform(task.platform) } else { None };
    Ok(widened(by_numbers, model))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{families, plan};
    use crate::platform::Number;
    use crate::platform::unit::Unit;

    fn shipped(platform: &str) -> (Platform, Workload) {
        let platform = crate::platform::shipped::shipped(platform).expect("it is shipped");
        let workload = crate::workload::shipped::shipped("key-value-cache").expect("it is shipped");
        (platform.expect("it is sound"), workload.expect("it is sound"))
    }

    fn number(value: f64, unit: &str, range: (f64, f64)) -> Number {
        let unit = Unit::named(unit).expect("it is one");
        Number::given(value, unit, "a test", range)
    }

    fn costs(platform: &Platform, workload: &Workload, rate: Option<f64>) -> Cost {
        let question = Question { rate, top: 1, ..Question::default() };
        let plan = plan(platform, workload, &question).expect("it plans");
        let builder = families::builder(platform, workload).expect("it is known");
        cost(builder, platform, workload, &question, &plan, Economy::default()).expect("it is complete")
    }

    #[test]
    fn what_is_not_known_is_said_and_nothing_is_assumed() {
        let (platform, workload) = shipped("connectx6");
        let none = costs(&platform, &workload, None);
        assert_eq!((none.price, none.per_million, none.range), (None, None, None));
        assert!(none.unknown.contains(&"price of connectx6".to_string()), "{:?}", none.unknown);
    }

    #[test]
    fn a_million_requests_cost_their_share_of_the_price_and_of_the_energy() {
        let (platform, workload) = shipped("broadwell-fpga");
        let priced = platform
            .given("price.machine", number(6000.0, "USD", (3000.0, 6000.0)))
            .given("price.card", number(2000.0, "USD", (2000.0, 2000.0)));
        let watts = |of: &Platform, idle: f64, busy: f64| {
            of.given("watts.idle", number(idle, "W", (idle, idle)))
                .given("watts.busy", number(busy, "W", (busy, busy)))
        };
        let plain = costs(&priced, &workload, Some(1e5));
        let life = 4.0 * SECONDS_OF_YEAR;
        let wanted = 8000.0 / life / 1e5 * 1e6;
        assert!(plain.per_million.is_some_and(|million| (million / wanted - 1.0).abs() < 1e-9), "{plain:?}");
        assert_eq!((plain.unknown.len(), plain.energy_share), (1, 0.0));
        // Three of eight thousand less; the rate is given, and the model's error does not matter to it.
        let (low, high) = plain.range.expect("it has one");
        assert!((low - 5.0 / 8.0).abs() < 1e-6 && (high - 1.0).abs() < 1e-6, "{low} {high}");
        let drawn = costs(&watts(&priced, 200.0, 200.0), &workload, Some(1e5));
        let energy = 0.2 * 0.12 / 3600.0 / 1e5 * 1e6;
        assert!(drawn.per_million.is_some_and(|million| (million / (wanted + energy) - 1.0).abs() < 1e-9));
        assert!(drawn.unknown.is_empty() && (drawn.energy_share - energy / (wanted + energy)).abs() < 1e-9);
        // As much as it can: the model's error counts, and more requests share the price.
        let most = costs(&priced, &workload, None);
        assert!(
            most.per_million < plain.per_million && most.range.is_some_and(|(_, high)| high > 1.04),
            "{most:?}"
        );
        // What nobody serves has no price.
        let most = costs(&priced, &workload, Some(1e12));
        assert_eq!(most.per_million, None);
    }

    #[test]
    fn of_a_part_as_many_are_bought_as_there_are() {
        let (rack, _) = shipped("rack-of-this-host");
        let dollars = |value: f64| number(value, "USD", (value, value));
        let priced = rack.given("node.price", dollars(2500.0)).given("price.switch", dollars(700.0));
        assert_eq!(price(&priced), Ok(Some(4.0 * 2500.0 + 700.0)));
        assert_eq!(price(&priced.with("node.count", 2.0)), Ok(Some(2.0 * 2500.0 + 700.0)));
    }

    #[test]
    fn a_price_in_another_unit_is_refused() {
        let (platform, workload) = shipped("connectx6");
        let wrong = platform.given("price.machine", number(5.0, "W", (5.0, 5.0)));
        let question = Question { top: 1, ..Question::default() };
        let plan = plan(&wrong, &workload, &question).expect("it plans");
        let builder = families::builder(&wrong, &workload).expect("it is known");
        let said = cost(builder, &wrong, &workload, &question, &plan, Economy::default());
        assert!(said.is_err_and(|why| why.to_string().contains("one of USD")));
    }

    #[test]
    fn a_curve_rises_and_has_its_switches_on_it() {
        let (platform, workload) = shipped("bluefield2-ib");
        let question = Question { top: 2, ..Question::default() };
        let plan = plan(&platform, &workload, &question).expect("it plans");
        let builder = families::builder(&platform, &workload).expect("it is known");
        let all = super::super::curve::curves(builder, &platform, &workload, &question, &plan)
            .expect("it is drawn");
        assert!(all.len() >= 2 && all.iter().all(|curve| curve.points.len() > 10), "{all:?}");
        for (curve, ranked) in all.iter().zip(&plan.ranking) {
            let (first, last) = (curve.points[0], curve.points[curve.points.len() - 1]);
            assert!(first.1 > 0.0 && last.1 > first.1 && last.0 < ranked.most, "{curve:?}");
            assert!(curve.switches.len() <= ranked.switches.len());
        }
    }
}
