//! `millrace soak move`: every replica of a chain moves to another place while clients write and read; nothing may be lost, and how long anybody
//! waited is printed.
//!
//! ```text
//!  move ── chain ──┬── controller, replicas   child processes, by one cluster.toml
//!        │         └── millrace cluster move  once for each replica; the old one is killed when it is out
//!        ├── client ×n ── threads that write, read and remember what was acknowledged
//!        └── verdict: each acknowledged write is found, each addition counted once
//! ```
//! Clients know the first replicas alone, and follow.

mod chain;
mod client;

use super::SoakError;
use bench::report;
use bench::report::table::Table;
use chain::Chain;
use clap::Args;
use client::{Account, Run, Wait};
use serde::Serialize;
use serve::process::interrupt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Move every replica of a chain to a fresh process under load, and print the longest that a client waited.
///
/// Starts a controller and replicas as processes, and clients that write and read. `millrace cluster move` moves one replica after the other; each old one
/// is killed as soon as it is out. The exit status is 1 if an acknowledged write was lost, an addition was counted twice, or a read went back.
#[derive(Args, Clone, Debug)]
pub struct Moves {
    /// Replicas of the chain
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=5))]
    replicas: u16,

    /// Clients, with a thread each
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,

    /// Items that the chain has before anything moves
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    items: u64,

    /// Load before the first move and after each, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    pause_ms: u64,

    /// What replicas keep their logs on: file, dsync, pmem, memory
    #[arg(long, value_name = "MEDIA", default_value = "file")]
    media: String,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// One move.
#[derive(Clone, Debug, Serialize)]
struct Row {
    from: u16,
    to: u16,
    /// From the command's start to its end.
    took_ms: f64,
    /// The longest that a write, and a read, waited that was under way during it.
    longest_write_ms: f64,
    longest_read_ms: f64,
    /// The longest time in which no client was answered at all.
    longest_silence_ms: f64,
    /// Answers during it.
    answers: u64,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
struct Outcome {
    moves: Vec<Row>,
    /// The longest write and read while nothing moved, to compare.
    quiet_longest_write_ms: f64,
    quiet_longest_read_ms: f64,
    writes: u64,
    reads: u64,
    /// Writes of which no client knows what became.
    unknown: u64,
    lost: u64,
    doubled: u64,
    read_back: u64,
    failed: u64,
    examples: Vec<String>,
}

impl Outcome {
    fn faults(&self) -> u64 {
        self.lost + self.doubled + self.read_back + self.failed
    }
}

impl Moves {
    /// Runs it.
    ///
    /// # Errors
    /// It could not run, or something was lost.
    pub fn run(&self) -> Result<(), SoakError> {
        let interrupted = interrupt::flag().map_err(|error| SoakError::Run(error.to_string()))?;
        let outcome = self.outcome(&interrupted).map_err(SoakError::Run)?;
        let outcomes = [outcome];
        report::print(&outcomes, self.json, || text(&outcomes[0]))
            .map_err(|error| SoakError::Run(error.to_string()))?;
        match outcomes[0].faults() {
            0 => Ok(()),
            faults => Err(SoakError::Broken(faults)),
        }
    }

    fn outcome(&self, interrupted: &AtomicBool) -> Result<Outcome, String> {
        let mut chain = Chain::start(self.replicas, &self.media)?;
        client::fill(&chain.addresses(), self.items)?;
        let run = Run::new();
        let addresses = chain.addresses();
        let (spans, accounts) = thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients)
                .map(|number| {
                    let (run, addresses) = (&run, &addresses);
                    scope.spawn(move || client::client(number, addresses, run))
                })
                .collect();
            let spans = self.conduct(&mut chain, interrupted);
            run.stop();
            let joined = |client: thread::ScopedJoinHandle<'_, _>| {
                client.join().unwrap_or_else(|_| Err("a client panicked".to_owned()))
            };
            (spans, clients.into_iter().map(joined).collect::<Result<Vec<Account>, String>>())
        });
        let (spans, mut accounts) = (spans?, accounts?);
        client::settle(&chain.addresses(), &mut accounts)?;
        chain.checksum(self.replicas)?;
        Ok(summary(&spans, &accounts))
    }

    /// Moves all, with load before, between and after.
    fn conduct(&self, chain: &mut Chain, interrupted: &AtomicBool) -> Result<Vec<Span>, String> {
        let pause = Duration::from_millis(self.pause_ms);
        thread::sleep(pause);
        let mut spans = Vec::new();
        for from in 1..=self.replicas {
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
            let (to, begun) = (from + self.replicas, Instant::now());
            chain.move_replica(from, to)?;
            spans.push(Span { from, to, begun, ended: Instant::now() });
            thread::sleep(pause);
        }
        Ok(spans)
    }
}

/// When a move was.
struct Span {
    from: u16,
    to: u16,
    begun: Instant,
    ended: Instant,
}

impl Span {
    fn has(&self, wait: &Wait) -> bool {
        wait.begun < self.ended && wait.ended > self.begun
    }
}

fn summary(spans: &[Span], accounts: &[Account]) -> Outcome {
    let mut waits: Vec<&Wait> = accounts.iter().flat_map(|account| &account.waits).collect();
    waits.sort_by_key(|wait| wait.ended);
    let longest = |reads: bool, of: &dyn Fn(&Wait) -> bool| {
        let those = waits.iter().filter(|wait| wait.reads == reads && of(wait));
        ms(those.map(|wait| wait.ended - wait.begun).max().unwrap_or_default())
    };
    let row = |span: &Span| {
        let during: Vec<Instant> =
            waits.iter().filter(|wait| span.has(wait)).map(|wait| wait.ended).collect();
        let silence =
            during.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(span.ended - span.begun);
        Row {
            from: span.from,
            to: span.to,
            took_ms: ms(span.ended - span.begun),
            longest_write_ms: longest(false, &|wait| span.has(wait)),
            longest_read_ms: longest(true, &|wait| span.has(wait)),
            longest_silence_ms: ms(silence),
            answers: during.len() as u64,
        }
    };
    let quiet = |wait: &Wait| !spans.iter().any(|span| span.has(wait));
    let sum = |of: fn(&Account) -> u64| accounts.iter().map(of).sum();
    Outcome {
        moves: spans.iter().map(row).collect(),
        quiet_longest_write_ms: longest(false, &quiet),
        quiet_longest_read_ms: longest(true, &quiet),
        writes: sum(|account| account.acknowledged),
        reads: sum(|account| account.reads),
        unknown: sum(|account| account.unknown),
        lost: sum(|account| account.lost),
        doubled: sum(|account| account.doubled),
        read_back: sum(|account| account.read_back),
        failed: sum(|account| account.failed),
        examples: accounts.iter().flat_map(|account| account.examples.iter().cloned()).take(5).collect(),
    }
}

fn ms(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}

fn text(outcome: &Outcome) -> String {
    let mut table =
        Table::new(["move", "took", "longest write", "longest read", "longest silence", "answers"]);
    let time = |ms: f64| format!("{ms:.0} ms");
    for row in &outcome.moves {
        table.row([
            format!("{} to {}", row.from, row.to),
            time(row.took_ms),
            time(row.longest_write_ms),
            time(row.longest_read_ms),
            time(row.longest_silence_ms),
            row.answers.to_string(),
        ]);
    }
    let mut text = format!("\n{table}\n");
    text += &format!(
        "  while nothing moved the longest write took {}, the longest read {}\n",
        time(outcome.quiet_longest_write_ms),
        time(outcome.quiet_longest_read_ms)
    );
    text += &format!(
        "  {} writes acknowledged, {} reads: lost {}, counted twice {}, reads that went back {}, failed {}, unknown {}\n",
        outcome.writes,
        outcome.reads,
        outcome.lost,
        outcome.doubled,
        outcome.read_back,
        outcome.failed,
        outcome.unknown
    );
    outcome.examples.iter().for_each(|example| text += &format!("  {example}\n"));
    text
}
