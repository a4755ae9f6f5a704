//! The page's part for an architect: the few numbers that decide, as sliders, and what machines give over the load, beside each other in one chart.
//!
//! Every position of every slider is computed here, by the planner's arithmetic (nothing is interpolated, nothing is simulated); the page's script only shows
//! what lies at the positions that its reader chose. So a page needs no server, and says what `millrace plan --set` says.
//!
//! ```text
//!   of the workload, for all machines          of each machine: what moves its answer most
//!   sizes · skew · share of the first class    two numbers, or one where three of the workload's matter
//!          └──────────── a grid of at most POINTS_MAX points for each machine ───────────┘
//!                 each point: the best mixture at each load, its p99, what is busiest
//! ```

use super::Answer;
use crate::parallel;
use bench::report::format::{digits, short};
use bench::report::html::escape;
use bench::report::{Block, Moved, Report, Section};
use model::Platform;
use model::plan::curve::{OverLoad, over_load};
use model::plan::{PlanError, Question, families};
use model::workload::Workload;
use serde_json::{Value, json};
use std::path::Path;

/// Loads of the chart.
const LOADS: usize = 18;
/// The lowest load is this share of the most that any of the machines serves.
const LIGHTEST: f64 = 0.01;
/// Points of a machine's grid, at most.
const POINTS_MAX: usize = 135;
/// A slider is worth showing if a machine's throughput or p99 changes by this share between its ends.
const WORTH: f64 = 0.01;
/// Factors of all sizes.
const SIZES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// A number that the page's reader moves.
#[derive(Clone, Debug, PartialEq)]
struct Slider {
    what: Moves,
    label: String,
    steps: Vec<f64>,
    /// The step that is as asked.
    start: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Moves {
    /// Bytes of all requests, replies and what is stored, by this factor.
    Sizes,
    /// Zipf's theta.
    Skew,
    /// The first class's, the others in proportion.
    FirstShare,
    /// A number of the platform, in its unit.
    Number(String),
}

/// A machine to be shown.
pub(super) struct Shown<'a> {
    pub(super) platform: &'a Platform,
    pub(super) answer: &'a Answer,
}

impl Slider {
    /// Of values among which is the one that was asked for.
    fn new(what: Moves, label: String, mut steps: Vec<f64>, asked: f64) -> Slider {
        steps.push(asked);
        steps.sort_by(f64::total_cmp);
        steps.dedup();
        let start = steps.iter().position(|step| *step == asked).expect("it was put in");
        Slider { what, label, steps, start }
    }

    /// The workload with this number, where it is one of the workload's.
    fn of_workload(&self, step: usize, workload: &mut Workload) {
        let value = self.steps[step];
        match self.what {
            Moves::Sizes => {
                let scaled = |bytes: u64| (bytes as f64 * value).round() as u64;
                for class in &mut workload.classes {
                    for bytes in [&mut class.request, &mut class.reply, &mut class.store] {
                        // What is not empty does not become so.
                        *bytes = scaled(*bytes).max((*bytes).min(1));
                    }
                }
            }
            Moves::Skew => workload.skew = value,
            Moves::FirstShare => {
                let others = (1.0 - value) / (1.0 - workload.classes[0].share);
                workload.classes.iter_mut().skip(1).for_each(|class| class.share *= others);
                workload.classes[0].share = value;
            }
            Moves::Number(_) => {}
        }
    }

    fn of_platform(&self, step: usize, platform: Platform) -> Platform {
        match &self.what {
            Moves::Number(name) => platform.with(name, self.steps[step]),
            _ => platform,
        }
    }

    /// Where somebody reads it.
    fn word(&self, step: usize) -> String {
        let value = self.steps[step];
        match self.what {
            Moves::Sizes => format!("× {value}"),
            Moves::FirstShare => format!("{} %", digits(value * 100.0)),
            Moves::Skew | Moves::Number(_) => short(value),
        }
    }

    fn json(&self) -> Value {
        let words: Vec<String> = (0..self.steps.len()).map(|step| self.word(step)).collect();
        json!({"label": self.label, "steps": words, "values": self.steps, "start": self.start})
    }
}

/// Sliders of the workload.
fn of_workload(workload: &Workload) -> Vec<Slider> {
    let mut sliders =
        vec![Slider::new(Moves::Sizes, "bytes of requests and replies".into(), SIZES.into(), 1.0)];
    if workload.keys > 1 {
        let label = "skew of keys (Zipf's theta)".into();
        sliders.push(Slider::new(Moves::Skew, label, vec![0.0, 1.2], workload.skew));
    }
    if let [first, _, ..] = &workload.classes[..] {
        let label = format!("share of {}", first.name);
        sliders.push(Slider::new(Moves::FirstShare, label, vec![0.5, 0.99], first.share));
    }
    sliders
}

/// Sliders of a machine: what moves its answer most, from end to end of its range.
fn of_machine(shown: &Shown<'_>, most: usize) -> Vec<Slider> {
    let doubts = shown.answer.plan.confidence.numbers.iter();
    let numbers = doubts.filter_map(|doubt| shown.platform.numbers().find(|(name, _)| *name == doubt.number));
    let sliders = numbers.map(|(name, number)| {
        let (low, high) = number.range;
        let label = format!("{name}, {} ({})", number.unit.name, number.class.name());
        Slider::new(Moves::Number(name.into()), label, vec![low, high], number.value)
    });
    sliders.filter(|slider| slider.steps.len() > 1).take(most).collect()
}

/// All positions of these sliders, the last one's fastest.
fn positions(sliders: &[Slider]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for slider in sliders {
        let longer = |before: &Vec<usize>| {
            let each = |step| before.iter().copied().chain([step]).collect::<Vec<usize>>();
            (0..slider.steps.len()).map(each).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// What a machine gives at a position; why not, where it cannot say.
fn point(
    shown: &Shown<'_>,
    question: &Question,
    workload: &Workload,
    sliders: &[Slider],
    (position, loads): (&[usize], &[f64]),
) -> Result<OverLoad, PlanError> {
    let (mut workload, mut platform) = (workload.clone(), shown.platform.clone());
    for (slider, step) in sliders.iter().zip(position) {
        slider.of_workload(*step, &mut workload);
        platform = slider.of_platform(*step, platform);
    }
    workload.check().map_err(PlanError::Question)?;
    let builder = families::builder(&platform, &workload)?;
    over_load(builder, &platform, &workload, question, &mixtures(shown.answer), loads)
}

/// Every alternative alone, and the mixtures of the ranking.
fn mixtures(answer: &Answer) -> Vec<Vec<String>> {
    let alone = answer.plan.alternatives.iter().map(|one| vec![one.name.clone()]);
    let names =
        answer.plan.ranking.iter().map(|ranked| ranked.parts.iter().map(|part| part.name.clone()).collect());
    alone.chain(names.filter(|names: &Vec<String>| names.len() > 1)).collect()
}

/// From light to more than any of them serves, each the same factor above the one before.
fn loads(shown: &[Shown<'_>]) -> Vec<f64> {
    let most = |of: &Shown<'_>| of.answer.plan.ranking.iter().map(|ranked| ranked.most).fold(0.0, f64::max);
    let highest = shown.iter().map(most).fold(1.0, f64::max) * 1.5;
    let step = (1.0 / LIGHTEST).powf(1.0 / (LOADS - 1) as f64);
    let even = (0..LOADS).map(|at| highest * LIGHTEST * step.powi(at as i32));
    // The rate that answers are for is one of them.
    let asked = shown.first().map(|of| of.answer.plan.rate);
    let mut loads: Vec<f64> = even.chain(asked).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    loads
}

/// Whether a machine answers otherwise at one of the slider's ends.
fn matters(
    shown: &[Shown<'_>],
    question: &Question,
    workload: &Workload,
    slider: &Slider,
    loads: &[f64],
) -> bool {
    let one = std::slice::from_ref(slider);
    shown.iter().any(|machine| {
        let at = |step: usize| point(machine, question, workload, one, (&[step], loads));
        let Ok(asked) = at(slider.start) else { return false };
        [0, slider.steps.len() - 1].into_iter().any(|end| at(end).is_ok_and(|other| differ(&asked, &other)))
    })
}

fn differ(a: &OverLoad, b: &OverLoad) -> bool {
    let far = |a: f64, b: f64| (a / b - 1.0).abs() > WORTH;
    let both = a.at.iter().zip(&b.at).filter_map(|(a, b)| a.as_ref().zip(b.as_ref()));
    far(a.most, b.most) || both.into_iter().any(|(a, b)| far(a.p99, b.p99))
}

/// Puts the sliders into a page, as its second part; a file of rows or pictures has none.
pub(super) fn add(page: &mut Report, file: &Path, shown: &[Shown<'_>], asked: (&Question, &Workload)) {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if ["svg", "csv", "parquet"].contains(&ending) {
        return;
    }
    if let Some(moved) = moved(shown, asked.0, asked.1) {
        let section = Section { title: "Move the numbers".into(), blocks: vec![Block::Moved(moved)] };
        page.sections.insert(1, section);
    }
}

/// The part of the page; `None` where no machine serves anything.
fn moved(shown: &[Shown<'_>], question: &Question, workload: &Workload) -> Option<Moved> {
    let loads = loads(shown);
    let mut common = of_workload(workload);
    common.retain(|slider| matters(shown, question, workload, slider, &loads));
    if common.len() == 3 {
        // Three of the workload's, and not five positions of the first.
        common[0].steps.retain(|step| [0.25, 1.0, 4.0].contains(step));
        common[0].start = 1;
    }
    let so_far = positions(&common).len();
    let own = if so_far * 9 <= POINTS_MAX { 2 } else { 1 };
    let machines: Vec<Value> =
        shown.iter().map(|machine| json_of(machine, question, workload, (&common, own), &loads)).collect();
    let data = json!({
        "workload": workload.title,
        "loads": loads.iter().copied().map(rounded).collect::<Vec<_>>(),
        "rate": shown.first()?.answer.plan.rate,
        "limit": question.limits.p99,
        "sliders": common.iter().map(Slider::json).collect::<Vec<_>>(),
        "machines": machines,
    });
    let fallback = "This part of the page is moved by a script; without one, the curves below are for the numbers as asked.";
    Some(Moved {
        markup: format!("<div class=\"sliders\"><noscript><p>{}</p></noscript></div>", escape(fallback)),
        data,
        script: include_str!("sliders.js"),
    })
}

fn json_of(
    shown: &Shown<'_>,
    question: &Question,
    workload: &Workload,
    (common, own): (&[Slider], usize),
    loads: &[f64],
) -> Value {
    let own = of_machine(shown, own);
    let sliders: Vec<Slider> = common.iter().chain(&own).cloned().collect();
    let what = format!("sliders of {}", shown.platform.name);
    // A platform notes what is read of it, which threads must not share.
    let work: Vec<_> =
        positions(&sliders).into_iter().map(|position| (position, shown.platform.clone())).collect();
    let answer = shown.answer;
    let points = parallel::map(work, &what, |(position, platform)| {
        let shown = Shown { platform: &platform, answer };
        point(&shown, question, workload, &sliders, (&position, loads))
    });
    let mut parts: Vec<String> = Vec::new();
    let points: Vec<Value> = points.iter().map(|point| json_of_point(point, &mut parts)).collect();
    let plan = &shown.answer.plan;
    let names: Vec<String> = mixtures(shown.answer).iter().map(|names| names.join(" + ")).collect();
    let whats: Vec<_> =
        plan.alternatives.iter().map(|one| json!({"name": one.name, "what": one.what})).collect();
    json!({
        "name": shown.platform.name,
        "title": shown.platform.title,
        "sliders": own.iter().map(Slider::json).collect::<Vec<_>>(),
        "mixtures": names,
        "ways": whats,
        "parts": parts,
        "points": points,
    })
}

/// `[most, [[mixture, p99 in seconds, part, its utilisation, host cores, watts] or null, …]]`, or null.
fn json_of_point(point: &Result<OverLoad, PlanError>, parts: &mut Vec<String>) -> Value {
    let Ok(over) = point else { return Value::Null };
    let at: Vec<Value> = over
        .at
        .iter()
        .map(|best| {
            let Some(best) = best else { return Value::Null };
            let (name, used) = &best.busiest;
            let part = parts.iter().position(|known| known == name).unwrap_or_else(|| {
                parts.push(name.clone());
                parts.len() - 1
            });
            json!([
                best.mixture,
                rounded(best.p99),
                part,
                rounded(*used),
                rounded(best.host_cores),
                best.watts.map(rounded)
            ])
        })
        .collect();
    json!([rounded(over.most), at])
}

/// Four digits that count: a page has thousands of numbers.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests;
