//! `millrace repro`: the evaluations of the published systems, run on the model, beside what was published.
//!
//! Experiments are independent and deterministic: threads take the next one, rows are put together in the order of the list. So the digest of all
//! rows is the same on every machine and with any number of threads.

use crate::load::progress;
use crate::report::{Block, Report, Section, Table, Tile, environment};
use clap::{Args, Subcommand};
use model::experiment::compare::{Compared, Summary, Verdict, compare, summary};
use model::experiment::published::Standing;
use model::experiment::{Experiment, Rows};
use model::system::{self, System};
use sim::Fingerprint;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Run the evaluations of published systems on the model of their hardware, and compare.
///
/// Each experiment is an evaluation setup of a paper. What its authors printed stands in files with a standing: `calibration` (a
/// constant of the model was fitted on it), `prediction` (none was), `not modelled` (and why). A run prints published, modelled and error, and
/// ends with a line per system and the digest of all rows.
#[derive(Args, Debug)]
pub struct Repro {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List systems and experiments
    List,
    /// Run experiments by id
    Run(Run),
    /// Run all of them
    All(Options),
}

#[derive(Args, Debug)]
struct Run {
    /// Ids, as `millrace repro list` shows them
    #[arg(required = true, value_name = "ID")]
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

    /// Write a page with the comparison and all rows
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

type Job<'a> = (&'a System, &'a Experiment);
type Failure = Box<dyn Error>;

impl Repro {
    /// Does it.
    ///
    /// # Errors
    /// An unknown id, a file of the model that is wrong, or a page that cannot be written.
    pub fn run(&self) -> Result<(), Failure> {
        let all =
            || system::ALL.iter().flat_map(|system| system.experiments.iter().map(move |of| (system, of)));
        match &self.command {
            Command::List => list(),
            Command::All(options) => reproduce(&all().collect::<Vec<_>>(), options),
            Command::Run(run) => {
                if let Some(id) = run.ids.iter().find(|id| !all().any(|(_, of)| of.id == id.as_str())) {
                    let known: Vec<_> = all().map(|(_, of)| of.id).collect();
                    return Err(format!("there is no experiment {id}; there are {}", known.join(", ")).into());
                }
                let wanted = all().filter(|(_, of)| run.ids.iter().any(|id| id == of.id));
                reproduce(&wanted.collect::<Vec<_>>(), &run.options)
            }
        }
    }
}

fn list() -> Result<(), Failure> {
    let mut table = Table::new(["id", "system", "what"]);
    for system in system::ALL {
        for experiment in system.experiments {
            table.row([experiment.id, system.name, experiment.title]);
        }
    }
    print(&table.to_string())
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}

fn reproduce(jobs: &[Job<'_>], options: &Options) -> Result<(), Failure> {
    let clock = Instant::now();
    let ran = run_all(jobs, options.seed)?;
    if options.json {
        let lines: String = ran.iter().flat_map(Rows::iter).map(|row| json(row) + "\n").collect();
        return print(&lines);
    }
    let mut text = String::new();
    let mut sections = Vec::new();
    for system in system::ALL {
        let rows = rows_of(system, jobs, &ran);
        if rows.iter().next().is_none() {
            continue;
        }
        let results = system.results()?;
        let compared = compare(&results, &rows);
        let table = comparison(&compared);
        let line =
            verdict(&summary(&compared, Standing::Prediction), &summary(&compared, Standing::Calibration));
        let remarks: String = remarks(&compared).iter().map(|remark| format!("  {remark}\n")).collect();
        text += &format!("{}\n\n{table}\n{remarks}\n  {line}\n\n", system.title);
        let blocks =
            vec![Block::Text(line), Block::Table(table), Block::Text(remarks), Block::Table(all_rows(&rows))];
        sections.push(Section { title: system.title.into(), blocks });
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
fn run_all(jobs: &[Job<'_>], seed: u64) -> Result<Vec<Rows>, Failure> {
    let bar = progress::bar(false);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let ended: Mutex<Vec<(usize, Result<Rows, _>)>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // Numbers are counted; what they stand for does not change.
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((_, experiment)) = jobs.get(at) else { break };
                    let rows = (experiment.run)(seed);
                    ended.lock().expect("no experiment panics").push((at, rows));
                    let share = (1 + done.fetch_add(1, Ordering::Relaxed)) as f64 / jobs.len() as f64;
                    progress::show(&bar, share, "experiments");
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut ended = ended.into_inner().expect("no experiment panics");
    ended.sort_by_key(|(at, _)| *at);
    Ok(ended.into_iter().map(|(_, rows)| rows).collect::<Result<_, _>>()?)
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

fn number(value: f64) -> String {
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

fn comparison(compared: &[Compared<'_>]) -> Table {
    let mut table = Table::new(["result", "published", "modelled", "error", "standing"]);
    for one in compared {
        let [published, modelled, error] = match &one.verdict {
            Verdict::Number { published, modelled, error } => {
                [range(*published), number(*modelled), format!("{:+.1} %", error * 100.0)]
            }
            Verdict::Order { holds, values } => {
                let values: Vec<_> = values.iter().map(|value| number(*value)).collect();
                ["rising".into(), values.join(" < "), if *holds { "right" } else { "wrong" }.into()]
            }
            Verdict::NoRow(place) => ["".into(), format!("not run: {}", place.experiment), "".into()],
            Verdict::NotModelled => ["".into(), "".into(), "".into()],
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
    format!(
        "predictions: {} numbers, median error {:.1} %, worst {:.1} %, {} of {} orders right; calibration: {} numbers, worst {:.1} %",
        predictions.numbers,
        predictions.median * 100.0,
        predictions.worst * 100.0,
        predictions.orders_right,
        predictions.orders,
        calibration.numbers,
        calibration.worst * 100.0
    )
}

fn all_rows(rows: &Rows) -> Table {
    let mut table = Table::new(["experiment", "variant", "point", "metric", "value", "unit"]);
    for row in rows.iter() {
        let value = number(row.value);
        table.row([row.experiment, &row.variant, &row.point, row.metric, &value, row.unit]);
    }
    table
}

fn json(row: &model::experiment::Row) -> String {
    serde_json::json!({
        "experiment": row.experiment, "variant": row.variant, "point": row.point, "metric": row.metric,
        "unit": row.unit, "value": row.value, "ci95": row.ci95,
    })
    .to_string()
}

fn digest(ran: &[Rows]) -> String {
    let mut fingerprint = Fingerprint::new();
    for row in ran.iter().flat_map(Rows::iter) {
        fingerprint.bytes(json(row).as_bytes());
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
    std::fs::write(file, report.html()).map_err(|cause| format!("{}: {cause}", file.display()).into())
}
