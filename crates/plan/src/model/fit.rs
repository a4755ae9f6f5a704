//! `millrace model fit`: constants that were fitted or chosen are fitted again, all at once, on calibration results only, for all to see.

use super::answering::{Answering, EVENTS, QUICK_EVENTS, run};
use super::{Failure, SYSTEMS};
use crate::model::repro::{beside, number};
use crate::parallel;
use crate::print;
use bench::report::Table;
use clap::Args;
use model::Platforms;
use model::experiment::Rows;
use model::experiment::compare::{Verdict, judge};
use model::experiment::fit::Fitting;
use model::experiment::published::{Published, Results, Standing};
use model::experiment::response::{Based, GRID, Parameter};
use model::platform::{NumberPlace, edit};
use model::system::System;
use std::path::{Path, PathBuf};

/// Fit constants again, on the results marked calibration and on nothing else
///
/// All constants that were fitted or chosen are moved together within their ranges until the calibration results of all systems that are named are missed
/// least: what two of them share has one value. One that nothing is gained by stays. Prints what each that moves becomes and what every result was and is;
/// without --write nothing is changed.
#[derive(Args, Debug)]
pub struct Fit {
    /// Systems, as `millrace repro list` shows them; without any all, together
    #[arg(value_name = "SYSTEM")]
    system: Vec<String>,

    /// Put the values into the platforms' files, and leave everything else there as it is
    #[arg(long)]
    write: bool,

    /// Runs as short as can be: a first look
    #[arg(long, conflicts_with = "write")]
    quick: bool,

    /// Where the files are
    #[arg(long, value_name = "DIR", default_value = "crates/model/platforms")]
    platforms: PathBuf,

    /// Seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A free constant after the fit.
struct Fitted<'a> {
    of: &'a Parameter,
    value: f64,
    /// It went as far as its range allows.
    at_an_end: bool,
}

impl Fit {
    /// Does it.
    ///
    /// # Errors
    /// There is no such system, a file is wrong, an experiment cannot run, or a file cannot be written.
    pub fn run(&self) -> Result<(), Failure> {
        let named = self.system.iter().map(|name| super::system(name)).collect::<Result<Vec<_>, _>>()?;
        let systems: Vec<&System> = if named.is_empty() { SYSTEMS.iter().collect() } else { named };
        let results = calibration(&systems)?;
        let parameters = parameters(&systems)?;
        let events = if self.quick { QUICK_EVENTS } else { EVENTS };
        let all = (&results, &parameters[..]);
        let Answering { based, response } = Answering::of(&systems, all, events, (true, self.seed))?;
        let fitting = Fitting::new(&results, &parameters, &response);
        let positions = fitting.again();
        let moved: Vec<Fitted<'_>> = parameters
            .iter()
            .zip(positions.iter().zip(&response.now))
            .filter(|(_, (position, now))| position != now)
            .map(|(of, (position, _))| Fitted {
                of,
                value: of.value(*position),
                at_an_end: position.abs() == GRID,
            })
            // A count may be the same.
            .filter(|one| one.value != one.of.number.value)
            .collect();
        let values: Vec<_> = moved.iter().map(|one| (one.of.place.clone(), one.value)).collect();
        let (before, after) = (before(&based), after(&based, &values)?);
        let stay = parameters.len() - moved.len();
        print(&format!("{}\n  {stay} constants stay as they are{}\n\n", constants(&moved), ends(&moved)))?;
        print(&format!(
            "{}\n  {}\n",
            residuals(&results, [&before, &after]),
            mean(&results, [&before, &after])
        ))?;
        if self.write { self.write(&moved) } else { Ok(()) }
    }

    fn write(&self, moved: &[Fitted<'_>]) -> Result<(), Failure> {
        let mut names: Vec<_> = moved.iter().map(|one| &one.of.place.platform).collect();
        names.sort();
        names.dedup();
        for name in &names {
            let file = self.platforms.join(format!("{name}.toml"));
            write(&file, moved.iter().filter(|one| one.of.place.platform == **name))?;
            print(&format!("  wrote {}\n", file.display()))?;
        }
        print(if names.is_empty() { "  nothing to write\n" } else { "  build again to run with them\n" })
    }
}

/// What constants may be fitted on.
fn calibration(systems: &[&System]) -> Result<Results, Failure> {
    let mut all = Vec::new();
    for system in systems {
        let results = system.results()?.all.into_iter();
        all.extend(results.filter(|result| result.standing == Standing::Calibration));
    }
    Ok(Results { system: String::new(), source: String::new(), all })
}

/// The free constants of all of them, each once.
fn parameters(systems: &[&System]) -> Result<Vec<Parameter>, Failure> {
    let mut all: Vec<Parameter> = Vec::new();
    for system in systems {
        let its = Parameter::all(system, &Platforms::shipped())?.into_iter();
        all.extend(its.filter(Parameter::is_free));
    }
    all.sort_by(|a, b| a.place.cmp(&b.place));
    all.dedup_by(|a, b| a.place == b.place);
    Ok(all)
}

fn before(based: &[Based]) -> Rows {
    let mut rows = Rows::default();
    based.iter().for_each(|of| rows.append(of.rows.clone()));
    rows
}

fn after(based: &[Based], values: &[(NumberPlace, f64)]) -> Result<Rows, Failure> {
    let ran = parallel::map(based.iter().collect(), "with what was fitted", |of| run(of, &of.reads(values)));
    let mut rows = Rows::default();
    for one in ran {
        rows.append(one?);
    }
    Ok(rows)
}

fn write<'a>(file: &Path, fitted: impl Iterator<Item = &'a Fitted<'a>>) -> Result<(), Failure> {
    let name = file.display().to_string();
    let failed = |cause| format!("{name}: {cause}; run this in the source tree, or say --platforms DIR");
    let mut text = std::fs::read_to_string(file).map_err(failed)?;
    for one in fitted {
        text = edit::with_value(&text, &name, &one.of.place.number, one.value)?;
    }
    let new = file.with_extension("toml.new");
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, file))
        .map_err(|cause| failed(cause).into())
}

fn constants(moved: &[Fitted<'_>]) -> Table {
    let mut table = Table::new(["constant", "class", "unit", "range", "is", "fitted"]);
    for Fitted { of, value, .. } in moved {
        let (least, most) = of.number.range;
        table.row([
            of.place.to_string(),
            of.number.class.name().into(),
            of.number.unit.name.into(),
            format!("{least} – {most}"),
            number(of.number.value),
            number(*value),
        ]);
    }
    table
}

fn ends(moved: &[Fitted<'_>]) -> String {
    let ends: Vec<_> = moved.iter().filter(|one| one.at_an_end).map(|one| one.of.place.to_string()).collect();
    if ends.is_empty() {
        return String::new();
    }
    format!(
        "; at an end of its range, so that the range or the mechanism may be another: {}",
        ends.join(", ")
    )
}

/// Every calibration result beside what the model said and says now.
fn residuals(results: &Results, [before, after]: [&Rows; 2]) -> Table {
    let mut table = Table::new(["result", "published", "was", "error", "is", "error"]);
    for result in &results.all {
        let of = |rows| beside(&judge(result, rows)).unwrap_or_default();
        let ([published, was, error_was], [_, is, error]) = (of(before), of(after));
        table.row([format!("{:8}{}", result.id, result.what), published, was, error_was, is, error]);
    }
    table
}

/// How far results are off on average, before and after.
fn mean(results: &Results, rows: [&Rows; 2]) -> String {
    let error = |result: &Published, rows| match judge(result, rows) {
        Verdict::Order { holds, .. } => f64::from(u8::from(!holds)),
        verdict => verdict.error().map_or(0.0, f64::abs),
    };
    let [was, is] = rows.map(|rows| {
        let errors: f64 = results.all.iter().map(|result| error(result, rows)).sum();
        errors / results.all.len().max(1) as f64 * 100.0
    });
    format!("mean error of {} results: it was {was:.2} %, it is {is:.2} %", results.all.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::platform::shipped::SHIPPED;

    #[test]
    fn values_are_written_without_touching_the_rest() {
        let (name, text) = SHIPPED[0];
        let all = parameters(&[SYSTEMS.iter().find(|of| of.platforms.contains(&name)).expect("one has it")]);
        let all = all.expect("its file is right");
        let of = all.iter().find(|of| of.place.platform == name).expect("it has a free constant");
        let value = of.value(GRID);
        let folder = tempfile::tempdir().expect("there is room");
        let file = folder.path().join("a.toml");
        std::fs::write(&file, text).expect("there is room");
        write(&file, [Fitted { of, value, at_an_end: true }].iter()).expect("it can be written");
        let after = std::fs::read_to_string(&file).expect("it was written");
        let differ: Vec<_> = text.lines().zip(after.lines()).filter(|(a, b)| a != b).collect();
        let [(_, new)] = differ[..] else { panic!("{differ:?}") };
        assert!(new.contains(&format!("value = {value}")), "{new}");
        assert_eq!(text.lines().count(), after.lines().count());
        let moved = [Fitted { of, value, at_an_end: true }];
        assert!(
            constants(&moved).to_string().contains(&of.place.number) && ends(&moved).contains("at an end")
        );
    }

    #[test]
    fn of_all_systems_each_constant_is_there_once() {
        let systems: Vec<&System> = SYSTEMS.iter().collect();
        let all = parameters(&systems).expect("their files are right");
        assert!(
            all.windows(2).all(|pair| pair[0].place < pair[1].place) && all.iter().all(Parameter::is_free)
        );
        let results = calibration(&systems).expect("their files are right").all;
        assert!(results.len() > 20 && results.iter().all(|of| of.standing == Standing::Calibration));
    }
}
