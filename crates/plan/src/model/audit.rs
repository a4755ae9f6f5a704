//! `millrace model audit`: how much of an answer rests on numbers that were assumed, chosen or fitted.

use super::{Failure, SYSTEMS, platform};
use crate::model::repro::{experiment, number};
use crate::parallel;
use crate::print;
use bench::report::Table;
use clap::Args;
use model::experiment::audit::{Answer, Question};
use model::experiment::{Experiment, Row, Rows};
use model::platform::shipped::SHIPPED;
use model::platform::{Class, Number};
use model::{Platform, Platforms};
use serde_json::json;
use serve::process::{panics::caught, progress};

/// Say how much of an answer rests on assumed, chosen or fitted numbers
///
/// Every number of the platform that the experiment reads is moved to both ends of its range, and the experiment run again: how far its rows move, and
/// which class of numbers moves them. Simulations that a number does not touch are not run again, and the others are shorter than those of `millrace
/// repro` where all of them would have more than some hundred million events. Without --experiment it is the first that reads the platform.
#[derive(Args, Debug)]
pub struct Audit {
    /// A shipped platform, a platform file in place of the shipped one of its name, or `all`: then without --experiment only what the files say
    #[arg(value_name = "PLATFORM|all")]
    platform: String,

    /// Which experiment's rows, as `millrace repro list` shows it; several with commas
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    experiment: Vec<String>,

    /// Only this row: "variant | point | metric"
    #[arg(long)]
    row: Option<String>,

    /// Seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Runs as short as can be: a first look
    #[arg(long)]
    quick: bool,

    /// Print one JSON object for each audit, with what each number does to each row
    #[arg(long)]
    json: bool,
}

/// Events of all runs of an audit, about: what two cores do in less than half a minute.
const MAX_EVENTS: u64 = 80_000_000;
/// … with `--quick`.
const QUICK_EVENTS: u64 = 20_000_000;

impl Audit {
    /// Does it.
    pub fn run(&self) -> Result<(), Failure> {
        let named = self.experiment.iter().map(|id| experiment(id)).collect::<Result<Vec<_>, _>>()?;
        let platforms = match &*self.platform {
            "all" => SHIPPED.iter().map(|(name, _)| platform(name)).collect::<Result<Vec<_>, _>>()?,
            name => vec![platform(name)?],
        };
        for platform in &platforms {
            if !self.json {
                print(&account(platform))?;
            }
            let mut audited = 0;
            for experiment in &named {
                audited += usize::from(self.audit(platform, experiment)?);
            }
            match (platforms.len(), named.len()) {
                (1, 0) => self.first(platform)?,
                (1, _) if audited == 0 => {
                    return Err(format!(
                        "{} reads no number of {}",
                        self.experiment.join(", "),
                        platform.name
                    )
                    .into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Audits the first experiment that reads the platform.
    fn first(&self, platform: &Platform) -> Result<(), Failure> {
        for experiment in SYSTEMS.iter().flat_map(|system| system.experiments) {
            if reads(experiment, platform) && self.audit(platform, experiment)? {
                return print("  --experiment ID audits another one: `millrace repro list`\n");
            }
        }
        Err(format!("no experiment reads a number of {}", platform.name).into())
    }

    /// Whether the experiment reads the platform.
    fn audit(&self, platform: &Platform, experiment: &Experiment) -> Result<bool, Failure> {
        let runs = |what: &str, result: Result<Result<Rows, model::platform::LoadError>, String>| match result
        {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(format!("{}: {error}", experiment.id)),
            Err(panic) => Err(format!("{} cannot run {what}: {panic}", experiment.id)),
        };
        let bar = progress::bar(false);
        progress::show(&bar, 0.0, &format!("{} as it is", experiment.id));
        let question = caught(|| Question::ask(*experiment, platform, self.seed))
            .map_err(|panic| format!("{} cannot run: {panic}", experiment.id))??;
        let question = question.within(if self.quick { QUICK_EVENTS } else { MAX_EVENTS })?;
        bar.finish_and_clear();
        let divisor = question.divisor();
        let moves = question.moves();
        if moves.is_empty() {
            return Ok(false);
        }
        let count = moves.len();
        let rows = parallel::map(moves, &format!("{} with each number moved", experiment.id), |one| {
            runs(&format!("with {} = {}", one.number, one.value), caught(|| one.run()))
        });
        let mut answer = question.answer(&rows.into_iter().collect::<Result<Vec<_>, _>>()?);
        if let Some(row) = &self.row {
            answer.retain(|its| place(its) == *row);
            if answer.rows.is_empty() {
                let known = "millrace repro run ID --json lists them";
                return Err(format!("{} has no row {row:?} other than 0; {known}", experiment.id).into());
            }
        }
        print(&if self.json {
            json(&answer, divisor) + "\n"
        } else {
            shown(platform, &answer, (count, divisor))
        })?;
        Ok(true)
    }
}

fn place(row: &Row) -> String {
    format!("{} | {} | {}", row.variant, row.point, row.metric)
}

/// Whether an experiment reads the platform before any other: all others have no numbers, so that it fails at once.
fn reads(experiment: &Experiment, platform: &Platform) -> bool {
    let empty = SHIPPED.iter().filter(|(name, _)| *name != platform.name).map(|(name, _)| {
        let text = format!("name = \"{name}\"\ntitle = \"without numbers\"\nfamily = \"none\"\n");
        Platform::parse(&text, name).expect("that is enough for a platform")
    });
    let all = empty.fold(Platforms::shipped().with(platform.clone()), |all, empty| all.with(empty));
    // How it fails says nothing; what it read until then does.
    let _ = caught(|| (experiment.run)(&all, 1).map(|_| ()));
    all.taken().iter().any(|taken| taken.name == platform.name && !taken.were_read().is_empty())
}

/// What the file itself says.
fn account(platform: &Platform) -> String {
    let of = |class: Class| platform.numbers().filter(|(_, number)| number.class == class).count();
    let classes: Vec<_> =
        Class::ALL.into_iter().map(|class| format!("{} {}", of(class), class.name())).collect();
    let all = platform.numbers().count();
    format!("{}: {}\n  {all} numbers: {}\n\n", platform.name, platform.title, classes.join(", "))
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn shown(platform: &Platform, answer: &Answer, (runs, divisor): (usize, u64)) -> String {
    let (rows, read) = (answer.rows.len(), answer.read.len());
    let short = match divisor {
        1 => String::new(),
        by => format!(" of 1/{by} of its span"),
    };
    let mut text = format!(
        "{} on {}: {rows} rows, {read} numbers read, {runs} runs{short}\n\n",
        answer.experiment, answer.platform
    );
    let doubts = answer.doubts();
    if doubts.is_empty() {
        return text + "  No number moves a row, wherever it is in its range.\n";
    }
    let mut table = Table::new(["number", "class", "value", "range", "moves rows by", "most", "of row"]);
    for doubt in doubts {
        let (low, high) = (percent(doubt.most.0), percent(doubt.most.1));
        let its = find(platform, &doubt.number);
        let range = format!("{} – {} {}", its.range.0, its.range.1, its.unit.name);
        let mean = format!("{:.1} %", doubt.mean * 100.0);
        let value = its.value.to_string();
        let row = place(&answer.rows[doubt.row].0);
        table.row([
            doubt.number,
            doubt.class.name().into(),
            value,
            range,
            mean,
            format!("{low}, {high}"),
            row,
        ]);
    }
    text += &format!("{table}\n");
    let shares = Class::ALL.map(|class| format!("{:.0} % {}", answer.share(class) * 100.0, class.name()));
    let doubtful: f64 =
        Class::ALL.into_iter().filter(|class| class.is_doubtful()).map(|class| answer.share(class)).sum();
    text += &format!("  of what moves these rows: {}\n", shares.join(", "));
    text += &format!(
        "  {:.0} % rests on assumed, chosen or fitted numbers; a row is uncertain by {:.0} % (median, all numbers at once)\n",
        doubtful * 100.0,
        uncertainty(answer) * 100.0
    );
    if let [(row, _)] = &answer.rows[..] {
        text += &format!("  {}: {} {}\n", place(row), number(row.value), row.unit);
    }
    text
}

fn find<'a>(platform: &'a Platform, name: &str) -> &'a Number {
    let (_, number) = platform.numbers().find(|(its, _)| *its == name).expect("the audit has it from there");
    number
}

/// Over rows, the median of the root of their summed squared swings.
fn uncertainty(answer: &Answer) -> f64 {
    let of = |(_, audit): &(Row, model::platform::audit::Audit)| {
        audit.swings.iter().map(|swing| swing.size() * swing.size()).sum::<f64>().sqrt()
    };
    let mut all: Vec<_> = answer.rows.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

fn json(answer: &Answer, divisor: u64) -> String {
    let swings = |audit: &model::platform::audit::Audit| -> Vec<_> {
        let all = audit.swings.iter().filter(|swing| swing.size() > 0.0);
        all.map(|s| json!({"number": s.number, "class": s.class.name(), "low": s.low, "high": s.high}))
            .collect()
    };
    let rows: Vec<_> = answer
        .rows
        .iter()
        .map(|(row, audit)| {
            json!({"variant": row.variant, "point": row.point, "metric": row.metric, "unit": row.unit,
                   "value": row.value, "doubtful": audit.doubtful(), "swings": swings(audit)})
        })
        .collect();
    let numbers: Vec<_> = answer
        .doubts()
        .into_iter()
        .map(|d| json!({"number": d.number, "class": d.class.name(), "mean": d.mean, "low": d.most.0, "high": d.most.1}))
        .collect();
    let shares: serde_json::Map<_, _> =
        Class::ALL.into_iter().map(|class| (class.name().into(), json!(answer.share(class)))).collect();
    json!({"experiment": answer.experiment, "platform": answer.platform, "shares": shares, "numbers": numbers, "divisor": divisor,
           "uncertainty": uncertainty(answer), "rows": rows})
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_is_asked_which_platform_it_reads() {
        let platform = platform("bluefield2-ib").expect("it is shipped");
        let packets = experiment("F4").expect("there is one");
        assert!(reads(packets, &platform));
        let mut other = platform.clone();
        other.name = "nobody's".into();
        assert!(!reads(packets, &other));
        // Closed form: a moment.
        let question = Question::ask(*packets, &platform, 1).expect("it is complete");
        let rows: Vec<_> = question.moves().iter().map(|one| one.run().expect("it is complete")).collect();
        let answer = question.answer(&rows);
        let text = shown(&platform, &answer, (rows.len(), 1));
        assert!(text.contains("F4 on bluefield2-ib") && account(&platform).contains("published"), "{text}");
        let parsed: serde_json::Value = serde_json::from_str(&json(&answer, 1)).expect("it is JSON");
        assert_eq!(parsed["experiment"], "F4");
    }
}
