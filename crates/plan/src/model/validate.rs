//! `millrace model validate`: results are left out, what is free is fitted on the others, what was left out is predicted and held against the published.

use super::answering::{Answering, EVENTS, QUICK_EVENTS, run};
use super::{Failure, SYSTEMS};
use crate::model::repro::beside;
use crate::parallel;
use crate::print;
use bench::report::{Block, Report, Section, Table, environment};
use clap::Args;
use model::Platforms;
use model::experiment::Rows;
use model::experiment::compare::{Verdict, judge, median};
use model::experiment::fit::Fitting;
use model::experiment::published::Published;
use model::experiment::response::{Based, Parameter};
use model::experiment::validate::{COVERAGE, Fold, Out, folds};
use model::platform::NumberPlace;
use model::system::System;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Predict published results without having seen them: leave some out, fit on the others, compare
///
/// One result, one figure (table, section), and the whole system are left out in turn. Constants that were fitted or chosen forget their values and are fitted
/// on what is left, within their ranges; experiments are run with them. Prints for each system how far predictions are off, how many ranges hold and
/// orders come out, and how many single numbers are in their interval, which is to have 80 % of them.
#[derive(Args, Debug)]
pub struct Validate {
    /// Only this system, as `millrace repro list` shows it; several with commas
    #[arg(long, value_name = "SYSTEM", value_delimiter = ',')]
    system: Vec<String>,

    /// Runs as short as can be, and only numbers that are free are doubted: a first look
    #[arg(long)]
    quick: bool,

    /// Seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Print one JSON object for each result that was left out
    #[arg(long)]
    json: bool,

    /// Write a page with all of them; a name that ends in .csv or .parquet: as rows
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// A result that was left out, or none was.
struct Told {
    system: &'static str,
    /// What was left out with it; `None`: nothing was, and the constants are as they are shipped.
    out: Option<Out>,
    id: String,
    what: String,
    verdict: Verdict,
    interval: Option<(f64, f64)>,
    covered: Option<bool>,
}

impl Validate {
    /// Does it.
    ///
    /// # Errors
    /// There is no such system, a file is wrong, or an experiment cannot run with what was fitted.
    pub fn run(&self) -> Result<(), Failure> {
        let named = self.system.iter().map(|name| super::system(name)).collect::<Result<Vec<_>, _>>()?;
        let systems = if named.is_empty() { SYSTEMS.iter().collect() } else { named };
        let mut told = Vec::new();
        for system in systems {
            told.extend(self.validate(system)?);
        }
        if self.json {
            let lines: String = told.iter().map(|one| as_json(one).to_string() + "\n").collect();
            print(&lines)?;
        } else {
            print(&summary(&told).to_string())?;
        }
        let Some(file) = &self.report else { return Ok(()) };
        let blocks = vec![Block::Table(summary(&told)), Block::Table(all(&told))];
        let report = Report {
            title: "Published results that the model had not seen".into(),
            subtitle: "left out, fitted on the others, predicted".into(),
            verdict: (true, "Every fit ran.".into()),
            sections: vec![Section { title: "Validation".into(), blocks }],
            environment: environment::facts(),
        };
        report.write(file).map_err(|cause| format!("{}: {cause}", file.display()).into())
    }

    fn validate(&self, system: &'static System) -> Result<Vec<Told>, Failure> {
        let results = system.results()?;
        let platforms = Platforms::shipped();
        let parameters = Parameter::all(system, &platforms)?;
        let (events, free_only) = (if self.quick { QUICK_EVENTS } else { EVENTS }, self.quick);
        let Answering { based, response } =
            Answering::of(&[system], (&results, &parameters), events, (free_only, self.seed))?;
        let fitting = Fitting::new(&results, &parameters, &response);
        let all = |out: Out| folds(fitting.results(), out).into_iter().map(move |fold| (out, fold));
        let wanted: Vec<_> = Out::ALL.into_iter().flat_map(all).collect();
        let fits = parallel::map(wanted, &format!("{}: fits", system.name), |(out, fold)| {
            (out, fitting.fold(&fold, self.seed))
        });
        let runs = self.runs(system, &fitting, &fits, &based)?;
        let mut rows = Rows::default();
        based.iter().for_each(|of| rows.append(of.rows.clone()));
        let shipped = |result: &&Published| Told {
            system: system.name,
            out: None,
            id: result.id.clone(),
            what: result.what.clone(),
            verdict: judge(result, &rows),
            interval: None,
            covered: None,
        };
        let mut told: Vec<Told> = fitting.results().iter().map(shipped).collect();
        for (out, fold) in &fits {
            let values = fitting.values(&fold.positions);
            for (at, interval) in fold.out.iter().zip(&fold.intervals) {
                let result = fitting.results()[*at];
                let mut rows = Rows::default();
                for of in based.iter().filter(|of| result.experiments().contains(&of.id())) {
                    rows.append(runs[&key(of, &values)].clone());
                }
                let verdict = judge(result, &rows);
                let covered = match verdict {
                    Verdict::Number { modelled, .. } => fitting.covers(*at, modelled, *interval),
                    _ => None,
                };
                let (id, what) = (result.id.clone(), result.what.clone());
                told.push(Told {
                    system: system.name,
                    out: Some(*out),
                    id,
                    what,
                    verdict,
                    interval: *interval,
                    covered,
                });
            }
        }
        Ok(told)
    }

    /// What the experiments say with each fit's constants: each once for all fits that differ in nothing that it reads.
    fn runs(
        &self,
        system: &System,
        fitting: &Fitting<'_>,
        fits: &[(Out, Fold)],
        based: &[Based],
    ) -> Result<BTreeMap<Key, Rows>, Failure> {
        let mut wanted: BTreeMap<Key, (&Based, Values)> = BTreeMap::new();
        for (_, fold) in fits {
            let values = fitting.values(&fold.positions);
            let named = |of: &&Based| {
                let results = fold.out.iter().map(|at| fitting.results()[*at]);
                results.into_iter().any(|result| result.experiments().contains(&of.id()))
            };
            for of in based.iter().filter(named) {
                wanted.entry(key(of, &values)).or_insert_with(|| (of, of.reads(&values)));
            }
        }
        let wanted: Vec<_> = wanted.into_iter().collect();
        let ran = parallel::map(
            wanted,
            &format!("{}: with what was fitted", system.name),
            |(key, (of, values))| run(of, &values).map(|rows| (key, rows)),
        );
        Ok(ran.into_iter().collect::<Result<_, _>>()?)
    }
}

/// What decides an experiment's rows: its id, and the bits of the values that it reads.
type Key = (&'static str, Vec<(NumberPlace, u64)>);

type Values = Vec<(NumberPlace, f64)>;

fn key(of: &Based, values: &[(NumberPlace, f64)]) -> Key {
    (of.id(), of.reads(values).into_iter().map(|(place, value)| (place, value.to_bits())).collect())
}

fn left_out(of: Option<Out>) -> &'static str {
    of.map_or("nothing", Out::name)
}

/// A line for each system and what was left out.
fn summary(told: &[Told]) -> Table {
    let coverage = format!("in {:.0} % interval", COVERAGE * 100.0);
    let head = [
        "system",
        "left out",
        "single numbers",
        "median error",
        "worst",
        "ranges hold",
        "orders right",
        &coverage,
    ];
    let mut table = Table::new(head);
    let mut systems: Vec<_> = told.iter().map(|one| one.system).collect();
    systems.dedup();
    let outs = [None].into_iter().chain(Out::ALL.map(Some));
    let lines = outs.flat_map(|out| systems.iter().map(Some).chain([None]).map(move |system| (out, system)));
    for (out, system) in lines.filter(|(_, system)| systems.len() > 1 || system.is_some()) {
        let its: Vec<_> = told
            .iter()
            .filter(|one| one.out == out && system.is_none_or(|name| one.system == *name))
            .collect();
        let mut errors = Vec::new();
        let (mut ranges, mut orders, mut covered) = ([0, 0], [0, 0], [0, 0]);
        let count = |of: &mut [usize; 2], is_right: bool| {
            of[0] += usize::from(is_right);
            of[1] += 1;
        };
        for one in its {
            match one.verdict {
                // A value that is no number is as wrong as can be.
                Verdict::Number { error, .. } if error.is_nan() => errors.push(f64::INFINITY),
                Verdict::Number { error, .. } => errors.push(error.abs()),
                Verdict::Range { error, .. } => count(&mut ranges, error == 0.0),
                Verdict::Order { holds, .. } => count(&mut orders, holds),
                Verdict::NoRow(_) | Verdict::NotModelled => {}
            }
            if let Some(is_in) = one.covered {
                count(&mut covered, is_in);
            }
        }
        errors.sort_by(f64::total_cmp);
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let share =
            |[right, all]: [usize; 2]| if all == 0 { "–".into() } else { format!("{right} of {all}") };
        table.row([
            system.map_or("all", |name| name).to_string(),
            left_out(out).into(),
            errors.len().to_string(),
            percent(median(&errors)),
            percent(errors.last().copied().unwrap_or(0.0)),
            share(ranges),
            share(orders),
            share(covered),
        ]);
    }
    table
}

/// Every result that was left out.
fn all(told: &[Told]) -> Table {
    let mut table = Table::new(["result", "left out", "published", "predicted", "error", "interval"]);
    for one in told {
        let [published, modelled, error] = beside(&one.verdict).unwrap_or_else(|| match &one.verdict {
            Verdict::Order { holds, .. } => {
                ["rising".into(), "".into(), if *holds { "right" } else { "wrong" }.into()]
            }
            _ => Default::default(),
        });
        let interval = one.interval.map_or(String::new(), |(low, high)| format!("×{low:.2} – ×{high:.2}"));
        let result = format!("{:8}{}", one.id, one.what);
        table.row([result, left_out(one.out).into(), published, modelled, error, interval]);
    }
    table
}

fn as_json(one: &Told) -> serde_json::Value {
    let (published, modelled) = match &one.verdict {
        Verdict::Number { published, modelled, .. } => (json!(published), json!(modelled)),
        Verdict::Range { published, modelled, .. } => (json!(published), json!(modelled)),
        Verdict::Order { values, .. } => (json!("rising"), json!(values)),
        Verdict::NoRow(_) | Verdict::NotModelled => (json!(null), json!(null)),
    };
    let holds = match one.verdict {
        Verdict::Order { holds, .. } => Some(holds),
        Verdict::Range { error, .. } => Some(error == 0.0),
        _ => None,
    };
    json!({"system": one.system, "left_out": left_out(one.out), "result": one.id, "published": published, "predicted": modelled,
           "error": one.verdict.error(), "holds": holds, "interval": one.interval, "covered": one.covered})
}
