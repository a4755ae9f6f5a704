//! `millrace repro diff`: what another model, seed or platform changed in the rows of a run.
//!
//! A row *moved* if its value differs by more than a threshold, relative to what it was, or its unit does. Rows without a partner came or went.
//! Published results whose rows moved are judged with both runs' rows: the error before and after.

mod read;

use super::repro::{number, systems};
use crate::print;
use bench::report::Table;
use clap::Args;
use model::experiment::compare::{Verdict, judge_by};
use model::experiment::published::{Place, Published};
use model::system::System;
use read::{At, Made, Said, Saved};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

type Failure = Box<dyn Error>;

/// Say what differs between two runs: rows that came, went or moved, and published results' errors before and after. Exit status: 0 nothing, 1 something, 2
/// no answer
#[derive(Args, Debug)]
pub(super) struct Diff {
    /// Rows of the run before, as `millrace repro all --json` wrote them
    #[arg(value_name = "BEFORE")]
    before: String,

    /// Rows of the run after
    #[arg(value_name = "AFTER")]
    after: String,

    /// How much a value may differ, relative to what it was, without having moved
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    above: f64,

    /// Print a JSON object instead of tables
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.filter(|number| number.is_finite() && *number >= 0.0).map(|number| number / 100.0);
    share.ok_or_else(|| "a share in per cent, with its mark: 1%, 0.5%, 0%".into())
}

/// How a row differs.
#[derive(Clone, Debug, PartialEq)]
struct Moved {
    at: At,
    before: Option<Said>,
    after: Option<Said>,
}

impl Moved {
    /// Relative to what it was; none where it came, went, or has another unit.
    fn change(&self) -> Option<f64> {
        let (before, after) = (self.before.as_ref()?, self.after.as_ref()?);
        (before.unit == after.unit).then(|| change(before.value, after.value))
    }

    fn order(&self) -> usize {
        self.after.as_ref().or(self.before.as_ref()).map_or(0, |said| said.line)
    }
}

/// 0 where both are the same, or both no numbers; infinite where only one is a number, or it was 0.
fn change(before: f64, after: f64) -> f64 {
    match (before.is_nan(), after.is_nan()) {
        (true, true) => 0.0,
        (false, false) if before == after => 0.0,
        (false, false) if before != 0.0 => (after - before) / before.abs(),
        (false, false) => f64::INFINITY.copysign(after),
        _ => f64::INFINITY,
    }
}

/// All that differs.
struct Difference {
    before: Saved,
    after: Saved,
    above: f64,
    /// In the order of the run after.
    moved: Vec<Moved>,
    /// Rows that differ by less.
    less: usize,
}

impl Difference {
    fn of(before: Saved, after: Saved, above: f64) -> Difference {
        let places: BTreeSet<&At> = before.rows.keys().chain(after.rows.keys()).collect();
        let (mut moved, mut less) = (Vec::new(), 0);
        for at in places {
            let row = Moved {
                at: at.clone(),
                before: before.rows.get(at).cloned(),
                after: after.rows.get(at).cloned(),
            };
            match row.change() {
                Some(by) if by.abs() <= above => less += usize::from(by != 0.0),
                _ => moved.push(row),
            }
        }
        moved.sort_by_key(Moved::order);
        Difference { before, after, above, moved, less }
    }

    /// Rows that moved, came and went.
    fn counts(&self) -> [usize; 3] {
        let count = |is: fn(&Moved) -> bool| self.moved.iter().filter(|row| is(row)).count();
        [
            count(|row| row.before.is_some() && row.after.is_some()),
            count(|row| row.before.is_none()),
            count(|row| row.after.is_none()),
        ]
    }

    /// What the runs were made with where that differs.
    fn made(&self) -> Vec<String> {
        let (before, after) = (&self.before.made, &self.after.made);
        let or = |text: &str| if text.is_empty() { "not said".to_owned() } else { text.to_owned() };
        let seed = |of: &Made| of.seed.map_or(String::new(), |seed| seed.to_string());
        let shipped = |of: &Made| match &of.platforms[..] {
            [] => "as they are shipped".to_owned(),
            all => all.join(", "),
        };
        let mut said = Vec::new();
        let mut differ = |what: &str, before: String, after: String| {
            if before != after {
                said.push(format!("{what}: {before} before, {after} after"));
            }
        };
        differ("model", or(&before.model), or(&after.model));
        differ("seed", or(&seed(before)), or(&seed(after)));
        differ("platforms", shipped(before), shipped(after));
        said
    }

    /// By system, then by experiment, in the order in which they are listed; those of experiments that are in no list last.
    fn by_system(&self) -> Vec<OfSystem<'_>> {
        let mut groups: BTreeMap<(usize, usize, &str), Vec<&Moved>> = BTreeMap::new();
        let of = |id: &str| {
            let listed = systems()
                .enumerate()
                .find_map(|(at, system)| Some((at, system.experiments.iter().position(|one| one.id == id)?)));
            listed.unwrap_or((usize::MAX, usize::MAX))
        };
        for row in &self.moved {
            let (system, experiment) = of(&row.at[0]);
            groups.entry((system, experiment, &row.at[0])).or_default().push(row);
        }
        let mut all: Vec<OfSystem<'_>> = Vec::new();
        for ((at, _, id), rows) in groups {
            match all.last_mut().filter(|last| last.at == at) {
                Some(last) => last.experiments.push((id, rows)),
                None => all.push(OfSystem { at, system: systems().nth(at), experiments: vec![(id, rows)] }),
            }
        }
        all
    }

    /// Published results of a system that are told otherwise now: before, after.
    fn judged<'a>(&self, results: &'a [Published]) -> Vec<(&'a Published, [Verdict; 2])> {
        let judge = |of: &Saved, result: &Published| {
            judge_by(result, &|place: &Place| {
                let at = [&place.experiment, &place.variant, &place.point, &place.metric].map(Clone::clone);
                of.rows.get(&at).map(|said| said.value)
            })
        };
        let both = |result| [judge(&self.before, result), judge(&self.after, result)];
        let all = results.iter().map(|result| (result, both(result)));
        // What was run in neither, or is not modelled, is the same in both.
        all.filter(|(_, [before, after])| said(before) != said(after)).collect()
    }
}

/// Rows of a system that differ, by experiment.
struct OfSystem<'a> {
    /// Which, in the list.
    at: usize,
    /// None of experiments that are in no list.
    system: Option<&'static System>,
    experiments: Vec<(&'a str, Vec<&'a Moved>)>,
}

/// A verdict in a word: by how much it is off.
fn said(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Range { error, .. } if *error == 0.0 => "inside".into(),
        Verdict::Number { error, .. } | Verdict::Range { error, .. } => format!("{:+.2} %", error * 100.0),
        Verdict::Order { holds: true, .. } => "right".into(),
        Verdict::Order { holds: false, .. } => "wrong".into(),
        Verdict::NoRow(_) => "no row".into(),
        Verdict::NotModelled => "not modelled".into(),
    }
}

impl Diff {
    /// Prints it; whether anything moved, came or went.
    ///
    /// # Errors
    /// A file that cannot be read, or has no rows of a run, with its line.
    pub(super) fn run(&self) -> Result<bool, Failure> {
        let read = |file: &String| -> Result<Saved, Failure> { Ok(Saved::parse(&super::read(file)?, file)?) };
        let all = Difference::of(read(&self.before)?, read(&self.after)?, self.above);
        let text = if self.json { self.to_json(&all)?.to_string() + "\n" } else { self.tables(&all)? };
        print(&text)?;
        Ok(!all.moved.is_empty())
    }

    fn tables(&self, all: &Difference) -> Result<String, Failure> {
        let mut text: String = all.made().into_iter().map(|line| line + "\n").collect();
        for OfSystem { system, experiments, .. } in all.by_system() {
            let title = system.map_or("experiments of files", |system| system.title);
            text += &format!("{}{title}\n", if text.is_empty() { "" } else { "\n" });
            for (id, rows) in experiments {
                let title = system.and_then(|system| system.experiments.iter().find(|one| one.id == id));
                text += &format!("\n  {id}: {}\n\n{}", title.map_or("", |one| one.title), table(&rows));
            }
            let Some(system) = system else { continue };
            let results = system.results()?;
            let mut table = Table::new(["published result", "standing", "error before", "error after"]);
            for (result, [before, after]) in all.judged(&results.all) {
                let name = format!("{:8}{}", result.id, result.what);
                table.row([name, result.standing.to_string(), said(&before), said(&after)]);
            }
            if !table.is_empty() {
                text += &format!("\n{table}");
            }
        }
        let [moved, came, went] = all.counts();
        let (above, rows) = (self.above * 100.0, all.after.rows.len());
        let gap = if text.is_empty() { "" } else { "\n" };
        let less = all.less;
        Ok(format!(
            "{text}{gap}{rows} rows: {moved} moved by more than {above} %, {less} by less; {came} came, {went} went\n"
        ))
    }

    fn to_json(&self, all: &Difference) -> Result<Value, Failure> {
        let (mut rows, mut results) = (Vec::new(), Vec::new());
        for OfSystem { system, experiments, .. } in all.by_system() {
            let name = system.map_or("", |system| system.name);
            for row in experiments.iter().flat_map(|(_, rows)| rows) {
                let side = |of: &Option<Said>| {
                    of.as_ref().map(|said| json!({"value": said.value, "unit": said.unit}))
                };
                let [experiment, variant, point, metric] = &row.at;
                rows.push(json!({
                    "system": name, "experiment": experiment, "variant": variant, "point": point, "metric": metric,
                    "before": side(&row.before), "after": side(&row.after), "change": row.change(),
                }));
            }
            let Some(system) = system else { continue };
            for (result, [before, after]) in all.judged(&system.results()?.all) {
                results.push(json!({
                    "system": name, "id": result.id, "what": result.what, "standing": result.standing.to_string(),
                    "before": said(&before), "after": said(&after),
                    "error_before": before.error(), "error_after": after.error(),
                }));
            }
        }
        let made = |file: &str, of: &Saved| {
            let Made { model, seed, platforms } = &of.made;
            json!({"file": file, "rows": of.rows.len(), "model": model, "seed": seed, "platforms": platforms})
        };
        let [moved, came, went] = all.counts();
        Ok(json!({
            "before": made(&self.before, &all.before), "after": made(&self.after, &all.after),
            "same_model": all.before.made == all.after.made, "above": all.above,
            "moved": moved, "less": all.less, "came": came, "went": went, "rows": rows, "results": results,
        }))
    }
}

fn table(rows: &[&Moved]) -> Table {
    let mut table = Table::new(["variant", "point", "metric", "before", "after", "change"]);
    for row in rows {
        let shown = |of: &Option<Said>| {
            of.as_ref().map_or("–".into(), |said| format!("{} {}", number(said.value), said.unit))
        };
        let by = match (row.change(), &row.before, &row.after) {
            (Some(by), ..) if by.is_finite() => format!("{:+.2} %", by * 100.0),
            (_, None, _) => "came".into(),
            (_, _, None) => "went".into(),
            (None, ..) => "another unit".into(),
            (Some(_), ..) => "–".into(),
        };
        let [_, variant, point, metric] = &row.at;
        table.row([variant, point, metric, &shown(&row.before), &shown(&row.after), &by]);
    }
    table
}

#[cfg(test)]
mod tests;
