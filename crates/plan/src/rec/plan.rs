//! `millrace rec plan`: which sums of rows should stand ready, and what that saves.

use super::files::{self, Failure};
use super::table::Target;
use bench::report::Table;
use bench::report::format::{percent, whole};
use clap::Args;
use rec::Lists;
use rec::memo::{Growth, Limits};
use serve::process::progress;
use serve::rec::budget;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Plan memoised reduction: find ids that are asked together in a query log, and say how many accesses their sums would save.
///
/// Reads lists `weight id id …` under the header `1 FEATURES QUERIES IDS 2` or `# FEATURES`, ids from 1. Clusters are grown once, to the greatest budget;
/// for each budget the table says how many rows there would be and which part of the row accesses is saved: for the log itself and for queries that
/// the plan has not seen, given by --held-out or set aside by --split. Only the second figure says something about tomorrow, and only if
/// those queries are no repetitions: how many are is printed too.
///
/// With --model the plan of the greatest budget is written beside the model, as TABLE.plan, and named in its model.json: `rec serve` and whatever else
/// loads the model then reduces by it. A plan is bound to the table by a hash of its rows; a model with new rows needs a new plan.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    millrace rec plan --lists log.txt --split 0.2\n  \
    millrace rec plan --lists train.txt --held-out test.txt --budgets 1.5 --model ads --table items")]
pub struct Plan {
    /// The query log; - is standard input
    #[arg(short, long, value_name = "FILE")]
    lists: PathBuf,

    /// The files are lines `id id …` without header and weights
    #[arg(long)]
    plain: bool,

    /// Queries to judge the plan by, that it is not made from
    #[arg(long, value_name = "FILE", conflicts_with = "split")]
    held_out: Option<PathBuf>,

    /// Set this part of the queries aside to judge the plan by. Equal sets of ids stay on one side
    #[arg(long, value_name = "PART", value_parser = files::part)]
    split: Option<f64>,

    /// Seed of the split
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How many rows there may be, single ones and sums, as multiples of the table's
    #[arg(short, long, value_name = "RATIO,…", value_delimiter = ',', default_value = "1.25,1.5,2,9", value_parser = budget)]
    budgets: Vec<f64>,

    /// Above so many pairs of ids in the log, only each id's best partners are looked at; 16 bytes of memory each
    #[arg(long, value_name = "N", default_value_t = Limits::default().pairs)]
    pairs: usize,

    /// Write the plan of the greatest budget for a table of this model (a folder, or a safetensors file)
    #[arg(short, long, value_name = "MODEL")]
    model: Option<PathBuf>,

    /// Which table of the model the log asks; may be left out if there is one
    #[arg(long, value_name = "NAME", requires = "model")]
    table: Option<String>,

    /// Print results as JSON
    #[arg(long)]
    json: bool,
}

/// What a budget buys.
#[derive(serde::Serialize)]
struct Bought {
    budget: f64,
    arena_rows: u32,
    /// Clusters of at least two ids.
    clusters: u32,
    /// Ids in them.
    clustered: u32,
    /// Ids of the greatest.
    largest: u32,
    saved: f64,
    saved_held_out: Option<f64>,
}

impl Plan {
    /// Runs it.
    ///
    /// # Errors
    /// A file that is wrong, with line and reason; or that cannot be written.
    pub fn run(&self) -> Result<(), Failure> {
        let lists = files::read(&self.lists, self.plain)?;
        let target = self.model.as_ref().map(|model| Target::of(model, self.table.as_deref())).transpose()?;
        let lists = match &target {
            Some(target) => target.fit(lists)?,
            None => lists,
        };
        let (lists, held_out) = match (&self.held_out, self.split) {
            (Some(file), _) => (lists, Some(files::read(file, self.plain)?)),
            (None, Some(part)) => {
                let (lists, held_out) = lists.split(part, self.seed);
                (lists, Some(held_out))
            }
            (None, None) => (lists, None),
        };
        let greatest = self.budgets.iter().copied().fold(1.0, f64::max);
        let limits = Limits { pairs: self.pairs, ..Limits::default() };
        let bar = progress::bar(self.json);
        let begin = Instant::now();
        let growth =
            Growth::new(&lists, greatest, limits, |part| progress::show(&bar, part, "growing clusters"));
        let seconds = begin.elapsed().as_secs_f64();
        bar.finish_and_clear();
        let bought: Vec<Bought> =
            self.budgets.iter().map(|&budget| buy(&growth, budget, &lists, held_out.as_ref())).collect();
        let file = target.map(|target| target.keep(&growth.plan(greatest))).transpose()?;
        if self.json {
            let held_out = held_out.map(|held_out| {
                serde_json::json!({ "queries": files::counts(&held_out), "repeats": held_out.repeats(&lists) })
            });
            let all = serde_json::json!({
                "grown_from": files::counts(&lists),
                "held_out": held_out,
                "merges": growth.merges().len(),
                "seconds": seconds,
                "budgets": bought,
                "plan": file,
            });
            return crate::print(&format!("{all:#}\n"));
        }
        let mut text = text(&lists, held_out.as_ref(), &bought, seconds);
        if let Some(file) = file {
            let _ = writeln!(text, "\n  plan: {}, named in the model's manifest", file.display());
        }
        crate::print(&text)
    }
}

fn text(lists: &Lists, held_out: Option<&Lists>, bought: &[Bought], seconds: f64) -> String {
    let mut text = format!("  grown from  {}, in {seconds:.1} s\n", files::summary(lists));
    if let Some(held_out) = held_out {
        let (repeats, of) = (held_out.repeats(lists) as u64, held_out.len() as u64);
        let share = percent(repeats as f64 / of.max(1) as f64);
        let _ = writeln!(text, "  held out    {}", files::summary(held_out));
        let _ = writeln!(
            text,
            "  repeats     {} of {} held out ({share}) ask the very set of one that it was grown from",
            whole(repeats),
            whole(of)
        );
    }
    let mut table =
        Table::new(["budget", "rows", "clusters", "ids in them", "largest", "saved", "saved held out"]);
    for b in bought {
        table.row([
            format!("{}×", b.budget),
            whole(b.arena_rows.into()),
            whole(b.clusters.into()),
            whole(b.clustered.into()),
            b.largest.to_string(),
            tenths(b.saved),
            b.saved_held_out.map_or("–".into(), tenths),
        ]);
    }
    let _ = write!(text, "\n{table}");
    text
}

/// What the plan of `budget` saves.
fn buy(growth: &Growth, budget: f64, lists: &Lists, held_out: Option<&Lists>) -> Bought {
    let plan = growth.plan(budget);
    let sizes: Vec<(u32, u32)> =
        plan.groups().iter().zip(0..).map(|(g, at)| (g.size, plan.clusters(at))).collect();
    let clusters = || sizes.iter().filter(|(size, _)| *size > 1);
    Bought {
        budget,
        arena_rows: plan.arena_rows(),
        clusters: clusters().map(|(_, count)| count).sum(),
        clustered: clusters().map(|(size, count)| size * count).sum(),
        largest: sizes.first().map_or(0, |(size, _)| *size),
        saved: plan.accesses(lists).reduction(),
        saved_held_out: held_out.map(|held_out| plan.accesses(held_out).reduction()),
    }
}

fn tenths(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
