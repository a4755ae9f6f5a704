//! Sweep files.
//!
//! ```toml
//! title = "the SoC's memory"
//! experiment = "F3"                     # as `millrace repro list` shows it, or a table: an experiment that is a file
//! seeds = [1, 2]                        # every point is run with each; [1] if not said
//! keep = ["SNIC ② | * | throughput"]    # rows to keep, variant | point | metric; all if not said
//!
//! [design]                              # a grid if not said
//! kind = "latin-hypercube"
//! points = 32
//! seed = 1                              # of the points, not of the runs
//!
//! [[axis]]
//! number = "bluefield2-ib | dram.read_cycle"
//! values = [15, 20, 30, 50]             # these; or
//!
//! [[axis]]
//! number = "bluefield2-ib | nic.unit_rate"
//! range = [15, 18]                      # between these; the number's own range if not said
//! steps = 4                             # of a grid: how many, both ends among them
//! scale = "linear"                      # or "log"
//! beyond = true                         # values outside the number's range are meant
//! ```
//!
//! Values are in the numbers' units, and within their ranges unless `beyond` says otherwise.

use super::design::{Design, Values};
use crate::experiment::Row;
use crate::experiment::file::FileExperiment;
use crate::platform::unit::Dimension;
use crate::platform::{Number, NumberPlace, Platforms};
use serde::Deserialize;
use toml::Spanned;

/// More runs than this are taken for a mistake.
pub const MOST_RUNS: u64 = 10_000_000;
/// Points of a Latin hypercube, whose permutations are kept.
const MOST_POINTS: u32 = 1_000_000;
/// Axes of a sweep.
const MOST_AXES: usize = 64;

/// A checked sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// In a line.
    pub title: String,
    /// The id of the experiment.
    pub experiment: String,
    /// The experiment, if the file says it itself.
    pub own: Option<FileExperiment>,
    /// Which numbers are moved.
    pub axes: Vec<NumberPlace>,
    /// Every point is run with each of them.
    pub seeds: Vec<u64>,
    pub(super) keep: Vec<Pattern>,
    values: Vec<Values>,
    design: Design,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    experiment: Spanned<toml::Value>,
    #[serde(default = "one_seed")]
    seeds: Spanned<Vec<u64>>,
    #[serde(default)]
    keep: Vec<Pattern>,
    design: Option<Spanned<DesignTable>>,
    #[serde(rename = "axis", default)]
    axes: Vec<Spanned<AxisTable>>,
}

fn one_seed() -> Spanned<Vec<u64>> {
    Spanned::new(0..0, vec![1])
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Grid,
    LatinHypercube,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DesignTable {
    kind: Kind,
    points: Option<u32>,
    seed: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum AxisScale {
    #[default]
    Linear,
    Log,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AxisTable {
    number: NumberPlace,
    values: Option<Vec<f64>>,
    range: Option<(f64, f64)>,
    steps: Option<u64>,
    #[serde(default)]
    scale: AxisScale,
    #[serde(default)]
    beyond: bool,
}

/// Which rows: `variant | point | metric`, where `*` is any.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Pattern([String; 3]);

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Pattern, String> {
        let parts: Vec<_> = text.split('|').map(|part| part.trim().to_string()).collect();
        let parts = <[String; 3]>::try_from(parts);
        parts
            .map(Pattern)
            .map_err(|_| format!("{text:?} must be \"variant | point | metric\", where * is any"))
    }
}

impl Pattern {
    pub(super) fn takes(&self, row: &Row) -> bool {
        let parts = [row.variant.as_str(), row.point.as_str(), row.metric];
        self.0.iter().zip(parts).all(|(pattern, part)| pattern == "*" || pattern == part)
    }
}

impl Sweep {
    /// Of a file's text, over numbers of these platforms; `file` is for errors.
    ///
    /// # Errors
    /// A sentence with file and line.
    pub fn parse(text: &str, file: &str, platforms: &Platforms) -> Result<Sweep, String> {
        let wrong = |at: usize, why: &str| {
            format!("{file}:{}: {why}", 1 + text[..at.min(text.len())].matches('\n').count())
        };
        let table: File = toml::from_str(text)
            .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message()))?;
        let at = table.experiment.span().start;
        let (experiment, own) =
            experiment_of(table.experiment.into_inner()).map_err(|why| wrong(at, &why))?;
        if table.seeds.get_ref().is_empty() {
            return Err(wrong(table.seeds.span().start, "seeds must have at least one"));
        }
        if !(1..=MOST_AXES).contains(&table.axes.len()) {
            return Err(wrong(0, &format!("it needs an [[axis]], and has at most {MOST_AXES}")));
        }
        let kind = table.design.as_ref().map_or(Kind::Grid, |design| design.get_ref().kind);
        let (mut values, mut steps) = (Vec::new(), Vec::new());
        for axis in &table.axes {
            let (its, count) =
                axis_of(axis.get_ref(), kind, platforms).map_err(|why| wrong(axis.span().start, &why))?;
            values.push(its);
            steps.push(count);
        }
        let design = match &table.design {
            Some(design) if kind == Kind::LatinHypercube => {
                hypercube(design.get_ref(), values.len()).map_err(|why| wrong(design.span().start, why))?
            }
            Some(design) if design.get_ref().points.is_some() || design.get_ref().seed.is_some() => {
                return Err(wrong(design.span().start, "a grid has neither points nor a seed"));
            }
            _ => Design::Grid { steps },
        };
        let axes = table.axes.into_iter().map(|axis| axis.into_inner().number).collect();
        let seeds = table.seeds.into_inner();
        let sweep =
            Sweep { title: table.title, experiment, own, axes, seeds, keep: table.keep, values, design };
        let runs = sweep.design.points().and_then(|points| points.checked_mul(sweep.seeds.len() as u64));
        match runs {
            Some(runs) if (1..=MOST_RUNS).contains(&runs) => Ok(sweep),
            _ => Err(wrong(0, &format!("these are more than {MOST_RUNS} runs"))),
        }
    }

    /// How many runs.
    pub fn runs(&self) -> u64 {
        let points = self.design.points().expect("it was counted when the sweep was read");
        points * self.seeds.len() as u64
    }

    /// The values of a run's point, an axis each, and its seed.
    pub fn run(&self, number: u64) -> (Vec<f64>, u64) {
        let seeds = self.seeds.len() as u64;
        (self.design.point(number / seeds, &self.values), self.seeds[(number % seeds) as usize])
    }
}

/// An id, or a table and the id in it.
fn experiment_of(value: toml::Value) -> Result<(String, Option<FileExperiment>), String> {
    match value {
        toml::Value::String(id) => Ok((id, None)),
        table @ toml::Value::Table(_) => {
            let own = FileExperiment::of(table).map_err(|why| format!("experiment: {why}"))?;
            Ok((own.id.clone(), Some(own)))
        }
        _ => Err("experiment must be an id, or the table of an experiment's file".into()),
    }
}

fn hypercube(table: &DesignTable, axes: usize) -> Result<Design, &'static str> {
    match table.points {
        Some(points @ 1..=MOST_POINTS) => Ok(Design::latin_hypercube(axes, points, table.seed.unwrap_or(1))),
        _ => Err("a Latin hypercube needs points, from 1 to a million"),
    }
}

/// An axis and, for a grid, how many values it has.
fn axis_of(table: &AxisTable, kind: Kind, platforms: &Platforms) -> Result<(Values, u64), String> {
    let number = platforms.number(&table.number).map_err(|error| error.to_string())?;
    let allowed = |value: f64| {
        let mut free = number.clone();
        if table.beyond {
            free.range = (0.0, f64::INFINITY);
        }
        free.accepts(value).map_err(|why| {
            let beyond = if why.contains("range") { "; `beyond = true` allows it" } else { "" };
            format!("{}: {why}{beyond}", table.number)
        })
    };
    if let Some(values) = &table.values {
        if table.range.is_some() || table.steps.is_some() || table.scale == AxisScale::Log {
            return Err(format!("{}: values, or a range with steps and a scale; not both", table.number));
        }
        if values.is_empty() {
            return Err(format!("{}: values must have at least one", table.number));
        }
        values.iter().try_for_each(|value| allowed(*value))?;
        return Ok((Values::Listed(values.clone()), values.len() as u64));
    }
    let (least, most) = table.range.unwrap_or(number.range);
    allowed(least)?;
    allowed(most)?;
    range_of(table, kind, &number, (least, most))
}

fn range_of(
    table: &AxisTable,
    kind: Kind,
    number: &Number,
    (least, most): (f64, f64),
) -> Result<(Values, u64), String> {
    let logarithmic = table.scale == AxisScale::Log;
    let why = match (kind, table.steps) {
        _ if least >= most => "the range must be [least, most]",
        _ if logarithmic && least == 0.0 => "a logarithmic axis cannot begin at 0",
        (Kind::Grid, None | Some(0 | 1)) => "a range in a grid needs steps, at least 2",
        (Kind::LatinHypercube, Some(_)) => "a Latin hypercube has points, not steps",
        _ => {
            let whole = number.unit.dimension == Dimension::Count;
            return Ok((Values::Range { least, most, logarithmic, whole }, table.steps.unwrap_or(0)));
        }
    };
    Err(format!("{}: {why}", table.number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::toy;

    const FILE: &str = r#"
title = "a toy"
experiment = "X1"
seeds = [1, 2]
[[axis]]
number = "toy | nic.latency"
range = [50, 200]
steps = 4
[[axis]]
number = "toy | nic.units"
values = [1, 8]
"#;

    fn parse(text: &str) -> Result<Sweep, String> {
        Sweep::parse(text, "a.toml", &Platforms::shipped().with(toy::platform()))
    }

    #[test]
    fn runs_are_points_times_seeds() {
        let sweep = parse(FILE).expect("it is right");
        assert_eq!(sweep.runs(), 4 * 2 * 2);
        assert_eq!(sweep.run(0), (vec![50.0, 1.0], 1));
        assert_eq!(sweep.run(1), (vec![50.0, 1.0], 2));
        assert_eq!(sweep.run(2), (vec![50.0, 8.0], 1));
        assert_eq!(sweep.run(15), (vec![200.0, 8.0], 2));
    }

    #[test]
    fn a_hypercube_draws_whole_counts_within_the_numbers_own_range() {
        let text = FILE.replace("range = [50, 200]\nsteps = 4\n", "").replace("values = [1, 8]", "")
            + "[design]\nkind = \"latin-hypercube\"\npoints = 8\n";
        let sweep = parse(&text).expect("it is right");
        assert_eq!(sweep.runs(), 16);
        for run in 0..16 {
            let (point, _) = sweep.run(run);
            assert!((50.0..=200.0).contains(&point[0]) && (1.0..=8.0).contains(&point[1]), "{point:?}");
            assert_eq!(point[1].fract(), 0.0);
        }
    }

    #[test]
    fn a_wrong_file_says_where_and_why() {
        let cases = [
            ("experiment", "experimant", 3, "experimant"),
            ("seeds = [1, 2]", "seeds = []", 4, "at least one"),
            ("toy | nic.latency", "toy | nic.delay", 5, "nic.delay"),
            ("toy | nic.latency", "boy | nic.latency", 5, "no platform boy"),
            ("toy | nic.latency", "nic.latency", 6, "platform | number"),
            ("[50, 200]", "[50, 300]", 5, "`beyond = true` allows it"),
            ("[50, 200]", "[200, 50]", 5, "[least, most]"),
            ("steps = 4", "steps = 1", 5, "at least 2"),
            ("[1, 8]", "[1, 2.5]", 9, "whole"),
            ("[1, 8]", "[]", 9, "at least one"),
            ("values = [1, 8]", "values = [1]\nsteps = 2", 9, "not both"),
            ("[1, 2]\n", "[1, 2]\nkeep = [\"NIC\"]\n", 5, "where * is any"),
            ("steps = 4", "steps = 4\n[design]\nkind = \"latin-hypercube\"\n", 5, "not steps"),
            ("[1, 2]\n", "[1, 2]\n[design]\nkind = \"grid\"\npoints = 3\n", 5, "neither"),
            ("steps = 4", "steps = 900000000", 1, "more than"),
        ];
        for (from, to, line, why) in cases {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE, "{from}");
            let said = parse(&text).expect_err(to);
            assert!(said.starts_with(&format!("a.toml:{line}: ")) && said.contains(why), "{to}: {said}");
        }
        let hypercube = FILE.replacen("\nsteps = 4", "", 1) + "[design]\nkind = \"latin-hypercube\"\n";
        assert!(
            parse(&hypercube).is_err_and(|said| said.contains("a.toml:11: a Latin hypercube needs points"))
        );
        assert!(parse(&FILE.replacen("[50, 200]", "[50, 300]\nbeyond = true", 1)).is_ok());
        assert!(parse("title = \"x\"\nexperiment = \"X1\"\n").is_err_and(|said| said.contains("[[axis]]")));
    }
}
