//! `millrace txn bench`: combined transactions against one operation in each pass over the same chain, and against Redis and etcd, in turns.
//!
//! | file | what |
//! |---|---|
//! | `workload` | what is done: published mixes, and how order dependence is handled |
//! | `passes` | how a transaction is taken through the chain: the baseline |
//! | `side`, `ours`, `lane` | what can be measured; a chain of processes; a session's work |
//! | `peers` | Redis and etcd |
//! | `rounds`, `tally` | all sides in a contest, and what is counted |
//! | `show` | tables and a page |

mod lane;
mod ours;
mod passes;
mod peers;
mod rounds;
mod show;
mod side;
mod tally;
mod workload;

use crate::report;
use crate::report::environment::{self, Fact};
use base::cpu::{allowed_cores, pin_to};
use ours::{Ours, Rig};
use passes::Mode;
use peers::etcd::Etcd;
use peers::redis::Redis;
use rounds::{Line, Rounds};
use serde::Serialize;
use serve::process::parse::{count, duration};
use serve::process::{interrupt, progress};
use serve::txn::spawned::Plan;
use side::{Load, Side};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workload::{Kind, Workload};

/// Measure transactions over chains on this machine, against one operation per pass, Redis and etcd.
///
/// For each number of --replicas and each of --media a chain of processes is started. On it, each workload is done in every mode: the whole transaction in
/// one pass (combined), and as the published alternative does it, one operation in each pass over the chain, with the variants that could
/// be said to be fairer to it. --vs adds Redis (MULTI, appendfsync always, WAIT for the replicas) and etcd (transactions over its JSON gateway)
/// beside chains on files.
/// All run in turns, in short slices; figures are of all slices, ratios of neighbours in time.
///
/// Workloads: 0-1 and 4-2 (reads-writes, as published, with --values), smallbank, tatp, ycsb-t, and tpcc (key counts of new-order and payment). A transaction
/// declares its keys and is done in one shot; where it would read first to know what to write (SmallBank's amalgamate and write-check, the number of
/// a new order), the client
/// reads at the tail, and then sends the transaction on the condition that nothing has changed, from the start again if it has. The time for
/// that counts.
///
/// Everything shares this machine's cores: figures of processes that wait for each other depend on how they are woken; compare ratios.
#[derive(clap::Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  millrace txn bench --quick
  millrace txn bench --workloads 0-1,4-2 --media memory,file --report txn.html
  millrace txn bench --workloads 4-2 --replicas 3 --media file --vs redis,etcd --json > peers.json
  millrace txn bench --workloads smallbank,tatp,ycsb-t,tpcc --modes combined,one-operation-per-pass")]
pub struct Bench {
    /// What is done
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_enum,
        default_value = "0-1,4-2",
        help_heading = "Workload"
    )]
    workloads: Vec<Kind>,
    /// Bytes of values of 0-1, 4-2 and ycsb-t
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "64,1024",
        help_heading = "Workload"
    )]
    values: Vec<usize>,
    /// Keys that are preloaded; accounts of smallbank, items of tpcc, ten times the subscribers of tatp
    #[arg(short, long, value_name = "N", default_value = "100k", value_parser = count, help_heading = "Workload")]
    keys: u64,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload")]
    seed: u64,

    /// How transactions are taken through the chain
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_enum,
        default_value = "combined,one-operation-per-pass,one-operation-per-pass-locked,one-operation-per-pass-reads-at-tail",
        help_heading = "Sides"
    )]
    modes: Vec<Mode>,
    /// Replicas of a chain
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2,3", value_parser = clap::value_parser!(u16).range(1..=16), help_heading = "Sides")]
    replicas: Vec<u16>,
    /// What logs are kept on: memory, pmem, file, dsync
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "memory,pmem,file",
        help_heading = "Sides"
    )]
    media: Vec<String>,
    /// Beside chains on files
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum, help_heading = "Sides")]
    vs: Vec<Peer>,
    /// Further arguments of `millrace chain up`, as one text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Sides")]
    chain: Option<String>,

    /// Sessions of the pipelined load; 0 for none
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Load")]
    sessions: usize,
    /// Transactions under way of each
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = window, help_heading = "Load")]
    window: usize,
    /// Rounds over all sides
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Load")]
    rounds: u32,
    /// Time for one workload of one side in one round
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = duration, help_heading = "Load")]
    slice: Duration,
    /// The client never sleeps while it waits
    #[arg(long, help_heading = "Load")]
    spin: bool,
    /// 5,000 keys, three replicas, memory and file, three rounds of 100 ms: a look, not a measurement
    #[arg(long, conflicts_with_all = ["keys", "rounds", "slice", "replicas", "media"], help_heading = "Load")]
    quick: bool,

    /// Folder for logs and data while it runs; its file system is what durable writes are measured on
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    data: Option<PathBuf>,
    /// Print the whole result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write an HTML page with plots; a name that ends in .svg: the plots alone, .csv or .parquet: its figures as rows
    #[arg(long, alias = "plot", value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// What else can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Peer {
    /// Redis, from package redis-server
    Redis,
    /// etcd, from package etcd-server
    Etcd,
}

/// What came out.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// What was done, in words.
    pub setup: Vec<String>,
    /// Each side under each load.
    pub lines: Vec<Line>,
    /// Sides that were left out, and why.
    pub notes: Vec<String>,
    /// Where.
    pub environment: Vec<Fact>,
}

/// A window that a session allows.
fn window(text: &str) -> Result<usize, String> {
    let most = protocol::chain::Config::default().session_window;
    match text.parse() {
        Ok(window @ 1..) if window as u64 <= most => Ok(window),
        _ => Err(format!("a session has from 1 to {most} transactions under way")),
    }
}

impl Bench {
    /// Runs and prints.
    ///
    /// # Errors
    /// A sentence: it could not be run, or a side was lost.
    pub fn run(&self) -> Result<(), String> {
        let stop = interrupt::flag().map_err(|error| format!("Ctrl-C cannot be caught: {error}"))?;
        let outcome = self.measure(&stop)?;
        let page = || show::page(&outcome);
        report::deliver(&outcome, self.json, || page().text(), page, self.report.as_deref())
            .map_err(|error| error.to_string())
    }

    fn measure(&self, stop: &Arc<AtomicBool>) -> Result<Outcome, String> {
        let bar = progress::bar(self.json);
        let (cells, groups) = (self.cells(), self.groups());
        let mut outcome = Outcome {
            setup: self.setup(),
            lines: Vec::new(),
            notes: Vec::new(),
            environment: environment::facts(),
        };
        let cores = match allowed_cores()[..] {
            [first, second, ..] => Some([first, second]),
            _ => None,
        };
        for (at, (replicas, media)) in groups.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let part = |at: usize| at as f64 / groups.len() as f64;
            progress::show(&bar, part(at), &format!("{replicas} replicas on {media}"));
            let folder = peers::folder(&self.folder())?;
            let mut sides = self.sides(*replicas, media, folder.path(), &mut outcome.notes)?;
            let rounds = Rounds {
                group: format!("{replicas} replicas on {media}"),
                cells: &cells,
                rounds: if self.quick { 3 } else { self.rounds },
                slice: if self.quick { Duration::from_millis(100) } else { self.slice },
                seed: self.seed,
                stop,
                cores,
                bar: (&bar, part(at), part(at + 1)),
            };
            // Processes were started on all cores; from here on this thread is the client's.
            if let Some([first, _]) = cores {
                pin_to(first).map_err(|error| format!("this thread cannot be kept to a core: {error}"))?;
            }
            outcome.lines.extend(rounds.run(&mut sides)?);
        }
        bar.finish_and_clear();
        Ok(outcome)
    }

    fn cells(&self) -> Vec<(Workload, Load)> {
        let keys = if self.quick { 5_000 } else { self.keys };
        let pipelined = Load::Pipelined { sessions: self.sessions, window: self.window };
        let loads: Vec<Load> =
            std::iter::once(Load::OneByOne).chain((self.sessions > 0).then_some(pipelined)).collect();
        let mut cells = Vec::new();
        for &kind in &self.workloads {
            let sized = matches!(kind, Kind::Write | Kind::ReadWrite | Kind::YcsbT);
            let values = if sized { &self.values[..] } else { &[0] };
            for &value in values {
                cells.extend(loads.iter().map(|load| (Workload { kind, keys, value }, *load)));
            }
        }
        cells
    }

    fn groups(&self) -> Vec<(u16, String)> {
        let quick = (vec![3], vec!["memory".to_owned(), "file".to_owned()]);
        let (replicas, media) = if self.quick { quick } else { (self.replicas.clone(), self.media.clone()) };
        replicas.iter().flat_map(|replicas| media.iter().map(|media| (*replicas, media.clone()))).collect()
    }

    /// A chain in all modes, and who else is asked for.
    fn sides(
        &self,
        replicas: u16,
        media: &str,
        folder: &Path,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Box<dyn Side>>, String> {
        let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let plan = Plan {
            replicas,
            media: media.to_owned(),
            data: (!media.starts_with("memory") && !media.starts_with("emulated")).then(|| folder.to_owned()),
            restart: false,
            more: self.chain_arguments(),
        };
        let rig = Rc::new(RefCell::new(Rig::start(&program, &plan, self.spin)?));
        let ours = |mode: &Mode| Box::new(Ours { rig: Rc::clone(&rig), mode: *mode }) as Box<dyn Side>;
        let mut sides: Vec<Box<dyn Side>> = self.modes.iter().map(ours).collect();
        for peer in self.vs.iter().filter(|_| matches!(media, "file" | "dsync")) {
            let started = match peer {
                Peer::Redis => Redis::start(folder, replicas).map(|peer| Box::new(peer) as Box<dyn Side>),
                Peer::Etcd => Etcd::start(folder, replicas).map(|peer| Box::new(peer) as Box<dyn Side>),
            };
            match started {
                Ok(side) => sides.push(side),
                Err(why) => notes.push(format!("{peer:?} is left out: {why}")),
            }
        }
        Ok(sides)
    }

    /// Further arguments of the chain: room for what is done, and what the user says.
    fn chain_arguments(&self) -> Vec<OsString> {
        let said: Vec<OsString> =
            self.chain.iter().flat_map(|text| text.split_whitespace()).map(Into::into).collect();
        if said.iter().any(|word| word == "--data-size") {
            return said;
        }
        let data: BTreeSet<Workload> =
            self.cells().into_iter().map(|(workload, _)| workload.data()).collect();
        let room = data.iter().map(Workload::room).sum::<u64>() + (32 << 20);
        said.into_iter().chain(["--data-size".into(), room.to_string().into()]).collect()
    }

    fn folder(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(std::env::temp_dir)
    }

    fn setup(&self) -> Vec<String> {
        let (rounds, slice) =
            if self.quick { (3, Duration::from_millis(100)) } else { (self.rounds, self.slice) };
        vec![
            format!(
                "{} keys preloaded; {rounds} rounds of {} ms for each side, forwards and backwards",
                if self.quick { 5_000 } else { self.keys },
                slice.as_millis()
            ),
            format!(
                "client {}; chains in processes of their own on the same cores; files in {}",
                if self.spin { "spinning" } else { "spinning shortly, then sleeping" },
                self.folder().display()
            ),
        ]
    }
}
