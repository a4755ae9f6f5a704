//! `millrace lab sweep`: how much of what clients read the boxes answer, over their size and the popularity of keys, beside theory.
//!
//! The machines are the real ones (`network`); time is virtual, so a run is its seed's and this machine's speed changes nothing but how
//! long it takes. What theory says, and why: `theory`.
//!
//! Three cases for one level, so that it can be seen where hits are lost: the policy alone (no writes, no lease ends), with leases, with
//! leases and writes. For two levels the first and the last, each with both policies.
//!
//! Cost: some 2 µs of a core per request and level; the default grid is about 150 million requests.

mod cell;
mod network;
mod show;
#[cfg(test)]
mod tests;
mod theory;

use cell::{Case, Cell, Shares, Spread};
use clap::Args;
use network::Shape;
use protocol::coherence::Config;
use serde::Serialize;
use serve::inc::plan::{registers, setting};
use serve::inc::{IncError, TopologyError, registers as list};
use serve::process::progress;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use theory::Load;

/// Measure which share of reads the boxes answer, over cache sizes and skews, beside what theory gives.
///
/// Boxes, clients and the home run in this process in virtual time: no socket, no loss, the same figures for the same seed on every machine. Each
/// cell is warmed up (40 requests per copy, and three leases) and then counted (20 per copy).
///
/// With one level, three columns: the policy alone (nothing written, no lease ends), with leases, and with leases and writes. Beside each
/// stands the best that any policy could do: the coverage of the most popular keys under Zipf's law, less what leases and writes take away.
/// With two levels, one box above all, for the inclusive and the exclusive policy: what the boxes below answer + what the one above answers,
/// beside the best that one box of both sizes could do which all clients ask.
///
/// Examples:
///
///   millrace lab sweep --sizes 512,4096 --skews 0.99 --seeds 1
///
///   millrace lab sweep --report sweep.html
///
///   millrace lab sweep --levels 2 --tors 2 --sizes 1024,4096 --skews 0.9,0.99
///
///   millrace lab sweep --set coherence.lease=5000000 --rate 20000
#[derive(Args, Clone, Debug)]
pub struct Sweep {
    /// Copies that a box has place for
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "512,1024,2048,4096,8192,16384",
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    sizes: Vec<u32>,

    /// How skewed the popularity of keys is: theta of Zipf's law
    #[arg(long, value_name = "THETA,…", value_delimiter = ',', default_value = "0.6,0.8,0.9,0.99,1.1,1.2", value_parser = skew)]
    skews: Vec<f64>,

    /// Keys, all at the home from the beginning
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    keys: u64,

    /// Of a hundred requests, those that store
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=99))]
    writes: u64,

    /// Requests per second at each box that clients ask; decides how many come within a lease
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rate: u64,

    /// Levels of boxes between clients and home
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    levels: u8,

    /// Boxes that clients ask, each by clients of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=32))]
    tors: u16,

    /// Copies of the upper box; as many as of those below if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    root_size: Option<u32>,

    /// Runs of each cell, with different popular keys and draws
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,

    /// Write measured points and theory's lines: .svg, or .html with the table, or .csv or .parquet with rows
    #[arg(long, alias = "plot", value_name = "FILE", value_parser = plot_file)]
    report: Option<PathBuf>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// A register of the cache, as in coherence.lease=200000; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

fn skew(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is no skew; write a number from 0 (all alike) to 4");
    text.parse().ok().filter(|skew| (0.0..=4.0).contains(skew)).ok_or_else(wrong)
}

fn plot_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg" | "html" | "csv" | "parquet") => Ok(path),
        _ => Err(format!("{text:?} ends in neither .svg nor .html, .csv or .parquet")),
    }
}

/// A cell's outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Copies of a box that clients ask.
    pub copies: usize,
    /// Of keys.
    pub skew: f64,
    /// What took part.
    pub case: Case,
    /// What one such box answers at best.
    pub theory: f64,
    /// What one box would answer at best that all clients ask, and that has the copies of both levels.
    pub theory_both: f64,
    /// Of all reads, the share that the boxes answered which clients ask.
    pub tors: Spread,
    /// And the box above them.
    pub root: Spread,
    /// Both.
    pub together: Spread,
}

impl Sweep {
    /// Measures, and prints.
    ///
    /// # Errors
    /// A setting is wrong, or a file or standard output cannot be written.
    pub fn run(&self) -> Result<(), IncError> {
        let rows = self.measure()?;
        if let Some(path) = &self.report {
            show::page(self, &rows).write(path).map_err(|cause| IncError::Write(path.clone(), cause))?;
        }
        show::print(self, &rows).map_err(IncError::Output)
    }

    /// Measures all cells, by as many threads as there are cores.
    ///
    /// # Errors
    /// A setting is wrong.
    pub fn measure(&self) -> Result<Vec<Row>, IncError> {
        let cells = self.cells(&list::config(&registers(&self.settings)?))?;
        let seeds = self.seeds as usize;
        let results: Vec<Mutex<Option<Shares>>> =
            (0..cells.len() * seeds).map(|_| Mutex::new(None)).collect();
        let bar = progress::bar(self.json);
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            loop {
                // Each number is given out once; nothing else is passed on by it.
                let job = next.fetch_add(1, Ordering::Relaxed);
                let Some(result) = results.get(job) else { return };
                let shares = cells[job / seeds].measure(1 + (job % seeds) as u64);
                *result.lock().expect("nobody panics with a result in hand") = Some(shares);
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                progress::show(&bar, done as f64 / results.len() as f64, "cache size x skew");
            }
        };
        std::thread::scope(|scope| {
            (0..base::cpu::allowed_cores().len().max(1)).for_each(|_| drop(scope.spawn(work)));
        });
        bar.finish_and_clear();
        let shares: Vec<Shares> = results
            .into_iter()
            .map(|result| result.into_inner().ok().flatten().expect("every job was done"))
            .collect();
        Ok(cells.iter().zip(shares.chunks(seeds)).map(|(cell, shares)| row(cell, shares)).collect())
    }

    fn cases(&self) -> Vec<Case> {
        let case = |leases, writes, exclusive| Case { leases, writes, exclusive };
        if self.levels == 1 {
            return vec![case(false, false, false), case(true, false, false), case(true, true, false)];
        }
        vec![
            case(false, false, false),
            case(false, false, true),
            case(true, true, false),
            case(true, true, true),
        ]
    }

    fn cells(&self, config: &Config) -> Result<Vec<Cell>, IncError> {
        let config = Config {
            // Nothing is refused for want of room but copies.
            holders: config.holders.max(self.keys as usize),
            // Clients ask their box whatever it answers: that is what is measured.
            worth: 0,
            ..config.clone()
        };
        config.check().map_err(TopologyError::Config)?;
        let mut cells = Vec::new();
        for &skew in &self.skews {
            for &copies in &self.sizes {
                let root = self.root_size.unwrap_or(copies) as usize;
                let root = (self.levels == 2).then_some(root);
                let shape = Shape { tors: self.tors, copies: copies as usize, root };
                let writes = self.writes as f64 / 100.0;
                let boxes = f64::from(self.tors);
                let load = Load { keys: self.keys, skew, rate: self.rate as f64, writes, boxes };
                let cell = |case| Cell { shape, load, config: config.clone(), case };
                cells.extend(self.cases().into_iter().map(cell));
            }
        }
        Ok(cells)
    }
}

fn row(cell: &Cell, shares: &[Shares]) -> Row {
    let spread = |figure: fn(&Shares) -> f64| Spread::of(&shares.iter().map(figure).collect::<Vec<_>>());
    Row {
        copies: cell.shape.copies,
        skew: cell.load.skew,
        case: cell.case,
        theory: cell.theory(),
        theory_both: cell.theory_both(),
        tors: spread(|shares| shares.tors),
        root: spread(|shares| shares.root),
        together: spread(|shares| shares.tors + shares.root),
    }
}
