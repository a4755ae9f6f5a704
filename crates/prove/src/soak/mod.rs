//! `millrace soak`: abuses a server for minutes and holds every single answer against what was promised.
//!
//! ```text
//!  soak ── trial ──┬── server   child process: millrace up; its memory, descriptors, CPU, statistics
//!                  ├── slot ×n ── client   child process; killed, stopped, replaced
//!                  │     └── ledger        what each key may hold: the verdict
//!                  ├── chaos    who is killed when, and the strangers
//!                  └── show     table, JSON, page
//! ```
//! `kills` has processes of every role of a cluster die under load.
//! `rpc` is the same for a server of the fabric, with a service of its own; `places` moves handlers under load, `moves` replicas of a chain.
//!
//! What is promised: in *store* mode no acknowledged write is lost, torn or undone, whoever dies; in *cache* mode nothing
//! that is there is wrong and nothing is refused; in both, resident memory (but pages of the program's file) stays within 3 % of the limit, threads and
//! descriptors come back to where they were, and SIGTERM ends the server in order.
//!
//! The default memory is 512 MiB: rings and buffers take about 5 MiB before a client comes, that no limit counts
//! (measured with one edge), and more with clients, which must not be 3 % of it.

mod attack;
mod chaos;
mod client;
mod kills;
mod ledger;
pub(crate) mod link;
mod moves;
mod parts;
mod places;
pub(crate) mod record;
pub mod rpc;
mod server;
mod show;
mod slot;
mod trial;

use base::Bytes;
use bench::report::{self, Undelivered};
use clap::{Args, Subcommand, ValueEnum};
use client::ClientArgs;
use ledger::Promise;
use serve::process::parse::duration_of;
use serve::process::{interrupt, progress};
use server::Limits;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use trial::{Outcome, Plan};

/// Abuse a server for minutes and check that it keeps its promises.
///
/// Starts a server with a memory limit and clients as processes of their own, fills the memory to 90 %, kills and stops
/// clients at random moments, and checks every value read against what was acknowledged. Watches the server's memory,
/// descriptors and threads. The exit status is 1 if any promise was broken.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Soak {
    #[command(subcommand)]
    role: Option<Role>,

    /// How long, for each mode (30s, 10m)
    #[arg(short, long, alias = "seconds", value_name = "TIME", default_value = "5m", value_parser = duration_of(1..=6_000_000))]
    duration: Duration,

    /// Memory limit of the server (512m, 2g); below about 400m the 12 MiB that program and buffers take are more than 3 %
    #[arg(short, long, value_name = "SIZE", default_value = "512m")]
    memory: Bytes,

    /// Which promise to check
    #[arg(long, value_enum, default_value_t = Mode::Store)]
    mode: Mode,

    /// Client processes at a time
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=256))]
    clients: u64,

    /// Edge threads of the server
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    threads: u64,

    /// Bytes that all connections together may buffer
    #[arg(long, value_name = "SIZE", default_value = "8m")]
    buffers: Bytes,

    /// Seed of the random choices; what the machine makes of them differs from run to run
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Also write a page with plots; a name that ends in .svg: the plots alone, .csv or .parquet: its figures as rows
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// What else there is.
#[derive(Subcommand, Debug)]
enum Role {
    Attack(attack::Attack),
    Kills(kills::Kills),
    Places(places::Places),
    Move(moves::Moves),
    /// One client; started by the soak, tells on standard output what it does
    #[command(hide = true)]
    Client(ClientArgs),
}

/// Which promise to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Nothing acknowledged is lost; full memory refuses.
    Store,
    /// Nothing wrong is served; full memory evicts.
    Cache,
    /// One after the other.
    Both,
}

/// Why the soak failed.
#[derive(Debug)]
pub enum SoakError {
    /// It could not be run.
    Run(String),
    /// Promises were broken; the result was printed.
    Broken(u64),
    /// The page could not be written; everything else was done.
    Report(PathBuf, std::io::Error),
}

impl fmt::Display for SoakError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SoakError::Run(why) => write!(f, "the soak could not be run: {why}"),
            SoakError::Broken(count) => write!(f, "{count} promises were broken; see above"),
            SoakError::Report(path, e) => write!(
                f,
                "the result above is complete, but the page {} could not be written: {e}; name another place with --report",
                path.display()
            ),
        }
    }
}

impl std::error::Error for SoakError {}

/// The least memory that can be soaked: beside the values of a megabyte that the clients write, a limit needs room.
const LEAST_MEMORY: Bytes = Bytes::from_mib(32);

impl Soak {
    /// Runs it.
    ///
    /// # Errors
    /// When it could not be run, or a promise was broken.
    pub fn run(self) -> Result<(), SoakError> {
        match self.role {
            Some(Role::Client(args)) => {
                args.run();
                return Ok(());
            }
            Some(Role::Attack(attack)) => return attack.run(),
            Some(Role::Kills(kills)) => return kills.run(),
            Some(Role::Places(places)) => return places.run(),
            Some(Role::Move(moves)) => return moves.run(),
            None => {}
        }
        if self.memory < LEAST_MEMORY {
            return Err(SoakError::Run(format!(
                "--memory must be at least {LEAST_MEMORY}, not {}",
                self.memory
            )));
        }
        let interrupted =
            interrupt::flag().map_err(|e| SoakError::Run(format!("Ctrl-C cannot be caught: {e}")))?;
        let promises = match self.mode {
            Mode::Store => &[Promise::Store][..],
            Mode::Cache => &[Promise::Cache],
            Mode::Both => &[Promise::Store, Promise::Cache],
        };
        let mut outcomes = Vec::new();
        for &promise in promises {
            let bar = progress::bar(self.json);
            let outcome = trial::run(&self.plan(promise), &bar, &interrupted);
            bar.finish_and_clear();
            outcomes.push(outcome.map_err(SoakError::Run)?);
        }
        self.show(&outcomes)?;
        match outcomes.iter().map(|o| o.faults).sum() {
            0 => Ok(()),
            faults => Err(SoakError::Broken(faults)),
        }
    }

    fn plan(&self, promise: Promise) -> Plan {
        let limits = Limits { promise, memory: self.memory, buffers: self.buffers, threads: self.threads };
        let time = self.duration;
        Plan { limits, clients: self.clients as usize, time, seed: self.seed }
    }

    fn show(&self, outcomes: &[Outcome]) -> Result<(), SoakError> {
        let (text, page) = (|| show::text(outcomes), || show::page(outcomes));
        report::deliver(outcomes, self.json, text, page, self.report.as_deref())
            .map_err(|Undelivered { place, cause }| SoakError::Report(place.into(), cause))
    }
}
