//! `millrace repro`: the evaluations of the published systems, run on the model, beside what was published.
//!
//! Experiments are independent and deterministic: threads take the next one, rows are put together in the order of the list. So the digest of all
//! rows is the same on every machine and with any number of threads.

use crate::model::diff::Diff;
use crate::model::{SYSTEMS, evaluation, of_file, platform_text};
use crate::parallel;
use crate::print;
use crate::timed;
use bench::report::{Block, Report, Section, Table, Tile, environment};
use clap::{Args, Subcommand};
use model::experiment::compare::{Compared, Summary, Verdict, compare, summary};
use model::experiment::published::Standing;
use model::experiment::{Experiment, Row, Rows};
use model::system::System;
use model::{Platform, Platforms};
use serde_json::{Map, Value, json};
use sim::Fingerprint;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Run the evaluations of published systems on the model of their hardware, and compare.
///
/// Each experiment is an evaluation setup of a paper. What its authors printed stands in files with a standing: `calibration` (a
/// constant of the model was fitted on it), `prediction` (none was), `restates` (it repeats an input or another result, and counts for nothing), `not
/// modelled` (and why). A range holds if the model is in it at both ends of what it covers. A run prints published, modelled and error, and
/// ends with a line per system and the digest of all rows. How well results are told that nothing was fitted on: `millrace model validate`.
#[derive(Args, Debug)]
pub struct Repro {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List systems and experiments
    List(List),
    /// Run experiments by id, or of files
    Run(Run),
    /// Run all of them
    All(Options),
    Diff(Diff),
}

#[derive(Args, Debug)]
struct List {
    /// Print a JSON array instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Run {
    /// Ids, as `millrace repro list` shows them, or files of experiments (names that end in .toml)
    #[arg(required = true, value_name = "ID|FILE")]
    ids: Vec<String>,

    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
struct Options {
    /// Seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Print every row as a line of JSON instead of the comparison
    #[arg(long)]
    json: bool,

    /// Run on the platform of this file in place of the shipped one of its name; several with commas
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    platform: Vec<String>,

    /// Write a page with the comparison, plots and all rows; a name that ends in .svg: the plots alone, .csv or .parquet: its figures as rows
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

type Job<'a> = (&'a System, &'a Experiment);
type Failure = Box<dyn Error>;

impl Repro {
    /// The exit status of a failure: a comparison's own is 1 where something moved.
    pub fn status_of_failure(&self) -> u8 {
        if matches!(self.command, Command::Diff(_)) { 2 } else { 1 }
    }

    /// Does it; the exit status.
    ///
    /// # Errors
    /// An unknown id, a file that is wrong, or a page that cannot be written.
    pub fn run(&self) -> Result<u8, Failure> {
        if let Command::Diff(diff) = &self.command {
            return diff.run().map(u8::from);
        }
        self.run_experiments().map(|()| 0)
    }

    fn run_experiments(&self) -> Result<(), Failure> {
        let all = || systems().flat_map(|system| system.experiments.iter().map(move |of| (system, of)));
        match &self.command {
            Command::List(options) => list(options.json),
            Command::All(options) => reproduce(&all().collect::<Vec<_>>(), options),
            Command::Run(run) => {
                let (files, ids): (Vec<_>, Vec<_>) = run.ids.iter().partition(|name| of_file::is_file(name));
                ids.iter().try_for_each(|id| experiment(id).map(|_| ()))?;
                let wanted = all().filter(|(_, of)| ids.iter().any(|id| *id == of.id));
                let own =
                    files.into_iter().map(|file| of_file::system(file)).collect::<Result<Vec<_>, _>>()?;
                let own = own.into_iter().map(|system| (system, &system.experiments[0]));
                reproduce(&wanted.chain(own).collect::<Vec<_>>(), &run.options)
            }
            Command::Diff(_) => Ok(()),
        }
    }
}

/// Published ones, and ours.
pub(super) fn systems() -> impl Iterator<Item = &'static System> {
    SYSTEMS.iter().chain([&timed::OWN])
}

/// The experiment of this id.
pub(crate) fn experiment(id: &str) -> Result<&'static Experiment, String> {
    let all = || systems().flat_map(|system| system.experiments);
    all().find(|of| of.id == id).ok_or_else(|| {
        let known: Vec<_> = all().map(|of| of.id).collect();
        format!("there is no experiment {id}; there are {}", known.join(", "))
    })
}

fn list(as_json: bool) -> Result<(), Failure> {
    let all =
        systems().flat_map(|system| system.experiments.iter().map(move |of| (of.id, system.name, of.title)));
    if as_json {
        let one = |(id, system, what)| json!({ "id": id, "system": system, "what": what });
        let all = all.map(one).collect::<Vec<_>>();
        return print(&(serde_json::to_string_pretty(&all)? + "\n"));
    }
    let mut table = Table::new(["id", "system", "what"]);
    all.for_each(|(id, system, what)| table.row([id, system, what]));
    print(&table.to_string())
}

fn reproduce(jobs: &[Job<'_>], options: &Options) -> Result<(), Failure> {
    let clock = Instant::now();
    let ran = run_all(jobs, options)?;
    if options.json {
        let made = made(options)?;
        let lines: String =
            ran.iter().flat_map(Rows::iter).map(|row| json_of_run(row, &made) + "\n").collect();
        return print(&lines);
    }
    let mut text = String::new();
    let mut sections = Vec::new();
    let most = evaluation::plots_each(jobs.len());
    for system in of_jobs(jobs) {
        let rows = rows_of(system, jobs, &ran);
        let results = system.results()?;
        if results.all.is_empty() {
            let count = rows.iter().count();
            text +=
                &format!("{}\n\n  {count} rows, held against nothing: --json, --report\n\n", system.title);
            let setups = evaluation::by_experiment(&rows);
            sections.extend(setups.into_iter().map(|(id, its)| setup((system, id), &its, &[], most)));
            continue;
        }
        let compared = compare(&results, &rows);
        let table = comparison(&compared);
        let line =
            verdict(&summary(&compared, Standing::Prediction), &summary(&compared, Standing::Calibration));
        let remarks = remarks(&compared);
        let said: String = remarks.iter().map(|remark| format!("  {remark}\n")).collect();
        text += &format!("{}\n\n{table}\n{said}\n  {line}\n\n", system.title);
        let mut blocks = vec![Block::Text(line)];
        blocks.extend(evaluation::comparison(&compared));
        blocks.push(Block::Table(table));
        blocks.extend(remarks.into_iter().map(Block::Text));
        sections.push(Section { title: system.title.into(), blocks });
        sections.extend(
            evaluation::by_experiment(&rows)
                .into_iter()
                .map(|(id, its)| setup((system, id), &its, &compared, most)),
        );
    }
    let digest = digest(&ran);
    text += &format!(
        "{} experiments, {} rows, digest {digest}, {:.1} s\n",
        jobs.len(),
        ran.iter().flat_map(Rows::iter).count(),
        clock.elapsed().as_secs_f64()
    );
    print(&text)?;
    options.report.as_deref().map_or(Ok(()), |file| write_page(file, sections, &digest))
}

/// Runs the jobs on as many threads as there are cores; their rows, in the order of the jobs.
fn run_all(jobs: &[Job<'_>], options: &Options) -> Result<Vec<Rows>, Failure> {
    let files = options.platform.iter().map(|file| crate::model::platform(file));
    let files = files.collect::<Result<Vec<Platform>, Failure>>()?;
    // Platforms remember what was read of them: each run has its own.
    let jobs: Vec<_> = jobs.iter().map(|(_, of)| (*of, files.clone())).collect();
    let run = |(experiment, files): (&Experiment, Vec<Platform>)| {
        let changed = files.into_iter().fold(Platforms::shipped(), |all, platform| all.with(platform));
        (experiment.run)(&changed, options.seed)
    };
    let rows = parallel::map(jobs, "experiments", run);
    Ok(rows.into_iter().collect::<Result<_, _>>()?)
}

/// The systems of the jobs, in the order of the jobs.
fn of_jobs<'a>(jobs: &[Job<'a>]) -> Vec<&'a System> {
    let mut systems: Vec<&System> = Vec::new();
    for (system, _) in jobs {
        if systems.iter().all(|known| known.name != system.name) {
            systems.push(system);
        }
    }
    systems
}

fn rows_of(system: &System, jobs: &[Job<'_>], ran: &[Rows]) -> Rows {
    let mut rows = Rows::default();
    for ((of, _), its) in jobs.iter().zip(ran) {
        if of.name == system.name {
            rows.append(its.clone());
        }
    }
    rows
}

pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn range((least, most): (f64, f64)) -> String {
    if least == most { number(least) } else { format!("{} – {}", number(least), number(most)) }
}

/// Values that should rise: all of them where they do not, else no more than a table has room for.
fn order(values: &[f64], holds: bool) -> String {
    let shown: Vec<_> = values.iter().map(|value| number(*value)).collect();
    match &shown[..] {
        [first, second, .., last] if holds && shown.len() > 4 => format!("{first} < {second} < … < {last}"),
        all => all.join(if holds { " < " } else { ", " }),
    }
}

/// Published, modelled, and by how much they differ, of a number or a range.
pub(crate) fn beside(verdict: &Verdict) -> Option<[String; 3]> {
    let percent = |error: f64| format!("{:+.1} %", error * 100.0);
    match verdict {
        Verdict::Number { published, modelled, error } => {
            Some([number(*published), number(*modelled), percent(*error)])
        }
        Verdict::Range { published, modelled, error } => {
            let by = if *error == 0.0 { "inside".into() } else { percent(*error) };
            Some([range(*published), range(*modelled), by])
        }
        _ => None,
    }
}

pub(crate) fn comparison(compared: &[Compared<'_>]) -> Table {
    let mut table = Table::new(["result", "published", "modelled", "error", "standing"]);
    for one in compared {
        let [published, modelled, error] = match &one.verdict {
            Verdict::Order { holds, values } => {
                ["rising".into(), order(values, *holds), if *holds { "right" } else { "wrong" }.into()]
            }
            Verdict::NoRow(place) => ["".into(), format!("not run: {}", place.experiment), "".into()],
            other => beside(other).unwrap_or_default(),
        };
        let result = format!("{:8}{}", one.result.id, one.result.what);
        table.row([result, published, modelled, error, one.result.standing.to_string()]);
    }
    table
}

/// What there is to say of single results: why one is not modelled, or what to know.
fn remarks(compared: &[Compared<'_>]) -> Vec<String> {
    let said = |one: &Compared<'_>| one.result.why.as_ref().map(|why| format!("{}: {why}", one.result.id));
    compared.iter().filter_map(said).collect()
}

fn verdict(predictions: &Summary, calibration: &Summary) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let held = |of: &Summary| format!("{} of {} ranges hold", of.ranges_right, of.ranges);
    format!(
        "predictions: {} single numbers, median error {}, worst {}; {} (worst {}); {} of {} orders right; \
         calibration: {} numbers, worst {}; {}",
        predictions.numbers,
        percent(predictions.median),
        percent(predictions.worst),
        held(predictions),
        percent(predictions.worst_range),
        predictions.orders_right,
        predictions.orders,
        calibration.numbers,
        percent(calibration.worst),
        held(calibration),
    )
}

/// An experiment's part of the page: its plots with what was published beside, and its rows for who asks.
fn setup((system, id): (&System, &str), rows: &[&Row], compared: &[Compared<'_>], most: usize) -> Section {
    let title = system.experiments.iter().find(|of| of.id == id).map_or("", |of| of.title);
    let mut blocks = evaluation::plots(rows, compared, most);
    blocks.push(Block::Folded(format!("{} rows", rows.len()), all_rows(rows)));
    Section { title: format!("{id}: {title}"), blocks }
}

fn all_rows(rows: &[&Row]) -> Table {
    let mut table = Table::new(["variant", "point", "metric", "value", "unit"]);
    for row in rows {
        let value = number(row.value);
        table.row([&row.variant, &row.point, row.metric, &value, row.unit]);
    }
    table
}

fn json(row: &Row) -> Map<String, Value> {
    let value = json!({
        "experiment": row.experiment, "variant": row.variant, "point": row.point, "metric": row.metric,
        "unit": row.unit, "value": row.value, "ci95": row.ci95,
    });
    let Value::Object(fields) = value else { unreachable!("it was written as an object") };
    fields
}

/// What a run was made with, for `repro diff`: the model, the seed, platforms in place of shipped ones with a digest of each.
fn made(options: &Options) -> Result<[(&'static str, Value); 3], Failure> {
    let platform = |file: &String| -> Result<String, Failure> {
        let (text, _) = platform_text(file)?;
        let mut print = Fingerprint::new();
        print.bytes(text.as_bytes());
        Ok(format!("{}#{print}", crate::model::platform(file)?.name))
    };
    let platforms = options.platform.iter().map(platform).collect::<Result<Vec<_>, _>>()?;
    Ok([("model", json!(model::VERSION)), ("seed", json!(options.seed)), ("platforms", json!(platforms))])
}

fn json_of_run(row: &Row, made: &[(&'static str, Value)]) -> String {
    let mut fields = json(row);
    fields.extend(made.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Value::Object(fields).to_string()
}

/// Of what rows say, whatever they were made with.
fn digest(ran: &[Rows]) -> String {
    let mut fingerprint = Fingerprint::new();
    for row in ran.iter().flat_map(Rows::iter) {
        fingerprint.bytes(Value::Object(json(row)).to_string().as_bytes());
    }
    fingerprint.to_string()
}

fn write_page(file: &Path, sections: Vec<Section>, digest: &str) -> Result<(), Failure> {
    let tiles = vec![Tile { label: "digest".into(), value: digest.into(), note: "of all rows".into() }];
    let mut all = vec![Section { title: "Run".into(), blocks: vec![Block::Tiles(tiles)] }];
    all.extend(sections);
    let report = Report {
        title: "Published systems on the model".into(),
        subtitle: "published, modelled, error".into(),
        verdict: (true, "Every experiment ran.".into()),
        sections: all,
        environment: environment::facts(),
    };
    report.write(file).map_err(|cause| format!("{}: {cause}", file.display()).into())
}
