//! `millrace model fit`: constants that were fitted are fitted again, on calibration results only, for all to see.

use super::{Failure, platform};
use crate::model::repro::{comparison, experiment, number};
use crate::print;
use bench::report::Table;
use clap::Args;
use model::Platforms;
use model::experiment::Rows;
use model::experiment::compare::compare;
use model::experiment::fit::{Fitted, fit, tasks};
use model::experiment::published::{Results, Standing};
use model::platform::{Class, edit};
use serve::process::panics::caught;
use serve::process::progress;
use std::path::{Path, PathBuf};

/// Fit constants again, on the results marked calibration and on nothing else
///
/// A calibration result names its constant: `fits = "platform | number"` in the system's file of published results. Prints what every constant would become
/// and what still misses; without --write nothing is changed.
#[derive(Args, Debug)]
pub struct Fit {
    /// A system, as `millrace repro list` shows it
    #[arg(value_name = "SYSTEM")]
    system: String,

    /// Put the values into the platforms' files, and leave everything else there as it is
    #[arg(long)]
    write: bool,

    /// Where the files are
    #[arg(long, value_name = "DIR", default_value = "crates/model/platforms")]
    platforms: PathBuf,

    /// Seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Fit {
    /// Does it.
    pub fn run(&self) -> Result<(), Failure> {
        let system = super::system(&self.system)?;
        let results = system.results()?;
        let tasks = tasks(&results);
        if tasks.is_empty() {
            return Err(format!(
                "no calibration result of {} says `fits = \"platform | number\"`",
                system.name
            )
            .into());
        }
        let bar = progress::bar(false);
        let mut run = |id: &str, on: &Platforms| {
            progress::show(&bar, 0.0, &format!("runs of {id}"));
            run(id, on, self.seed)
        };
        let fitted = fit(&results, &Platforms::shipped(), &mut run)?;
        bar.finish_and_clear();
        let after = fitted.iter().map(|one| (&one.task.constant, one.value));
        let after = Platforms::shipped().with_values(after)?;
        print(&format!("{}\n\n{}{}\n", system.title, constants(&fitted), remarks(&fitted)?))?;
        print(&format!(
            "  calibration results with these constants\n\n{}",
            residuals(&results, &after, self.seed)?
        ))?;
        if self.write { self.write(&fitted) } else { Ok(()) }
    }

    fn write(&self, fitted: &[Fitted<'_>]) -> Result<(), Failure> {
        let mut names: Vec<_> =
            fitted.iter().filter(|one| one.moved()).map(|one| &one.task.constant.platform).collect();
        names.sort();
        names.dedup();
        for name in &names {
            let file = self.platforms.join(format!("{name}.toml"));
            let mine = fitted.iter().filter(|one| one.moved() && one.task.constant.platform == **name);
            write(&file, mine)?;
            print(&format!("  wrote {}\n", file.display()))?;
        }
        print(if names.is_empty() { "  nothing to write\n" } else { "  build again to run with them\n" })
    }
}

fn run(id: &str, on: &Platforms, seed: u64) -> Result<Rows, String> {
    let experiment = experiment(id)?;
    match caught(|| (experiment.run)(on, seed)) {
        Ok(rows) => rows.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("{id} cannot run: {panic}")),
    }
}

fn write<'a>(file: &Path, fitted: impl Iterator<Item = &'a Fitted<'a>>) -> Result<(), Failure> {
    let name = file.display().to_string();
    let failed = |cause| format!("{name}: {cause}; run this in the source tree, or say --platforms DIR");
    let mut text = std::fs::read_to_string(file).map_err(failed)?;
    for one in fitted {
        text = edit::with_value(&text, &name, &one.task.constant.number, one.value)?;
    }
    let new = file.with_extension("toml.new");
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, file))
        .map_err(|cause| failed(cause).into())
}

fn constants(fitted: &[Fitted<'_>]) -> Table {
    let mut table = Table::new(["constant", "unit", "range", "is", "fitted", "error was", "error", "on"]);
    for one in fitted {
        let (least, most) = one.number.range;
        let ids: Vec<_> = one.task.results.iter().map(|result| result.id.as_str()).collect();
        let value = if one.moved() { number(one.value) } else { "the same".into() };
        table.row([
            one.task.constant.to_string(),
            one.number.unit.name.into(),
            format!("{least} – {most}"),
            number(one.number.value),
            value,
            format!("{:+.2} %", one.error_before * 100.0),
            format!("{:+.2} %", one.error * 100.0),
            ids.join(", "),
        ]);
    }
    table
}

/// What the table does not say: constants at the ends of their ranges, and those that no result names.
fn remarks(fitted: &[Fitted<'_>]) -> Result<String, Failure> {
    let mut text = String::new();
    for one in fitted.iter().filter(|one| one.at_an_end()) {
        text += &format!("\n  {} is at an end of its range and its results still miss", one.task.constant);
    }
    let mut names: Vec<_> = fitted.iter().map(|one| &one.task.constant.platform).collect();
    names.sort();
    names.dedup();
    for name in names {
        let named = |number: &str| {
            fitted.iter().any(|one| one.task.constant.platform == *name && one.task.constant.number == number)
        };
        let platform = platform(name)?;
        let others = platform.numbers().filter(|(its, of)| of.class == Class::Fitted && !named(its));
        let others: Vec<_> = others.map(|(its, _)| its).collect();
        if !others.is_empty() {
            text +=
                &format!("\n  {name} also has fitted constants that no result names: {}", others.join(", "));
        }
    }
    Ok(text + "\n")
}

/// All calibration results beside what the model says now.
fn residuals(results: &Results, platforms: &Platforms, seed: u64) -> Result<Table, Failure> {
    let calibration = results.all.iter().filter(|result| result.standing == Standing::Calibration);
    let calibration = Results { all: calibration.cloned().collect(), ..results.clone() };
    let mut ids: Vec<_> = calibration.all.iter().flat_map(|result| result.experiments()).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut rows = Rows::default();
    for id in ids {
        rows.append(run(id, platforms, seed)?);
    }
    Ok(comparison(&compare(&calibration, &rows)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::platform::shipped::SHIPPED;
    use tempfile::TempDir;

    #[test]
    fn a_shifted_constant_comes_back_and_is_written_without_touching_the_rest() {
        // PCIe packets are closed form: F4 says how many by the payload that a link takes at once.
        let text = "system = \"toy\"\nsource = \"nobody\"\n[[result]]\nid = \"T\"\nwhat = \"w\"\nwhere = \"w\"\nclass = \"calibration\"\n\
                    value = 8\nof = \"F4 | SNIC ② | READ 512 B | PCIe1 packets\"\nfits = \"bluefield2-ib | pcie.soc_mtu\"\n";
        let results = Results::parse(text, "toy.toml").expect("it is right");
        let mut wide = SHIPPED[0].1.replacen("range = [128, 128]", "range = [32, 512]", 1);
        assert_ne!(wide, SHIPPED[0].1);
        let before = model::Platform::parse(&wide, "a.toml").expect("it is right");
        let fitted = fit(&results, &Platforms::shipped().with(before), &mut |id, on| run(id, on, 1));
        let fitted = fitted.expect("it has all");
        assert!((64.0..=73.2).contains(&fitted[0].value) && fitted[0].error == 0.0, "{fitted:?}");
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("a.toml");
        std::fs::write(&file, &wide).expect("there is room");
        write(&file, fitted.iter()).expect("it can be written");
        let after = std::fs::read_to_string(&file).expect("it was written");
        wide = wide.replacen(
            "value = 128, unit = \"B\"",
            &format!("value = {}, unit = \"B\"", fitted[0].value),
            1,
        );
        assert_eq!(after, wide);
        assert!(constants(&fitted).to_string().contains("pcie.soc_mtu"));
        assert!(remarks(&fitted).expect("it is shipped").contains("no result names"));
    }
}
