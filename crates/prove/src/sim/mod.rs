//! `millrace sim`: the coherent cache's machines under faults, in virtual time, judged operation by operation.
//!
//! ```text
//!  campaign ── seeds, planted bugs ──▶ play ──┬── script    what the seed draws: bounds, keys, operations, faults
//!                                             ├── world     nodes, clocks, bytes on the wire, crashes, phases
//!                                             │    ├── cores    which core of a box hears what, and what they tell each other
//!                                             │    ├── ranges   where copies may be kept, which changes meanwhile
//!                                             │    ├── drains   boxes that are drained meanwhile
//!                                             │    ├── moves    homes that go on at other addresses meanwhile
//!                                             │    ├── issue    operations: one outcome each, in time
//!                                             │    ├── tickets  those of clients of another protocol, at the homes
//!                                             │    ├── transactions  of clients that go by a home over a chain, on the same keys
//!                                             │    ├── replies  methods whose replies are kept, and methods that write, with --replies
//!                                             │    ├── homes    machines with a table, or nodes: served, memcached, disks, chains
//!                                             │    ├── replicas  behind homes over chains, in a third of their runs: worlds of `chain`
//!                                             │    ├── warm     memory that outlives nodes
//!                                             │    ├── flushes  flushes that are still to come at nodes
//!                                             │    └── watch    what holds after every event
//!                                             └── record ──▶ sim::joint   every key linearizable, expiry and losses included; transactions at one moment
//!  minimal ── the fewest faults and operations that still fail
//! ```
//! With `--durability` homes are nodes: the service of a server on its store (`serve::kv::machine`), its redo log, snapshots and recovery, as they run in
//! `millrace up`; clients of memcached's protocol ask them by text. What is simulated is what they lie on.
//!
//! `millrace sim --chain` is another world, of a chain alone, and `--node` one of a node with its connections, edges and engine cores; with the same campaigns,
//! shrinker and command line (`trial`): see `chain` and `node`.
//! The machines are those of production ([`protocol::coherence`]); queue, network, faults and judge are those of crate `sim`. What is
//! measured is in `docs/measurements/sim.md`.
//!
//! Tests: `tests` beside this file.

mod bugs;
mod campaign;
pub(crate) mod chain;
mod chains;
mod clock;
mod cores;
mod disks;
mod drains;
mod flushes;
mod homes;
mod indices;
mod issue;
mod memcached;
mod minimal;
mod moves;
mod node;
mod nodes;
mod packets;
mod play;
mod ranges;
mod record;
mod replicas;
mod replies;
mod script;
mod served;
#[cfg(test)]
mod tests;
mod tickets;
mod topology;
mod transactions;
mod trial;
mod warm;
mod watch;
mod words;
mod workload;
mod world;

use campaign::{Campaign, Hunt};
use clap::Args;
use homes::Homes;
use play::Case;
use serve::process::progress;
use sim::faults::Plan;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use topology::Topology;
use trial::{Outcome, Trial};

/// Operations of a run, where nothing else is said.
const OPS: usize = 100;
/// Seeds of a run, where nothing else is said.
const SEEDS: u64 = 1_000;
/// A planted bug must be found within so many seeds. In half of them doubled messages are not heard.
const WITHIN: u64 = 10_000;

/// Run the coherent cache's machines under faults, in virtual time, and judge every operation.
///
/// Clients, boxes, homes and controllers are the machines of production; messages are written to bytes and read again on every hop. From its seed a run
/// draws how clocks drift, what the bounds and times of the machines are, which operations begin when, and which faults come: losses, duplicates, delays,
/// reordering, damage, cuts, clogs, crashes and restarts of every role, evictions; in half of all runs boxes have several cores, and some packets meet the
/// wrong one; in a third of them some keys may be kept by some boxes only, which changes meanwhile, in a third boxes are drained, and in a third homes go on
/// at other addresses; in half of all runs there is a key, and strangers without it repeat, divert and forge what they overhear; in half of all runs clients
/// of another protocol ask the homes themselves, in the same histories. After every event no box may hold a copy that is not what its home has; every
/// operation must end once, in time; when the faults are over, and when a box has died, new operations must succeed within a lease and a retransmission; and
/// the history of every key must be linearizable, expiry, flush and what was lost included.
///
/// With --durability homes are nodes, with all that `millrace up` has below its sockets: memcached's commands, store and, with log, redo log, snapshots and
/// recovery; with chain, what makes transactions of what is asked, over a chain that answers late, in any order, not at all or that nobody knows; in three of
/// four of these runs clients send transactions by the homes, of several keys that the others work on, and some past them, which the chain must refuse; and
/// all of it must be strictly serializable. In a third of the runs with chain there are real replicas behind each home, the machines of --chain, with
/// their logs, images, controllers and, in half of these runs, an operator who moves them; what goes wrong with them is in the same plan. A disk
/// takes its time; when a home dies, of what was not synced any lines are lost or torn. What was acknowledged, or shown, must be there after every restart,
/// and boxes' copies must be what their home then has.
///
/// With none, in three of four runs memory outlives a home that ends in order (-e), and may be spoilt meanwhile: cut, damaged, another version's. A home may
/// be begun first while another process has it, with another home's, or as one that never ran, which it must refuse. What is as it was left must be gone on
/// with whole, all else must be lost; a flush that was still to come must be done.
///
/// Without --seed, seeds 1 to N are run, and each planted bug is looked for until it is found. The last line says how many seeds were
/// run, how many showed a violation, how many planted bugs were found of how many, and the fingerprint of all that happened, which
/// depends on seeds and options alone. A violation is printed with the operations around it and the command that replays the
/// smallest run that shows it. The exit status is 1 if there was a violation, or a planted bug was not found; with one planted bug and
/// one seed, if it showed.
///
/// With --chain it is the machines of transactions over a chain of replicas (docs/design/006-chain.md), their redo logs and images on media
/// that lose power, and a registry of configurations. Faults are also pauses, power cuts of one machine or all, media without room,
/// failing, decaying and lost. Every replica's image must be what the committed entries make, all must be in the chain again when the
/// faults are over, and the history of all transactions must be strictly serializable, by replay in the order of LSNs and by a search.
///
/// With --node it is a key-value node with all that it is below its sockets and threads: parser of text, meta and binary requests, connections, edges, ports,
/// one to four engine cores with up to three services, commands and stores. Who runs when is drawn: edges, cores, and others while an edge waits for the
/// engine. Reads and writes come short; clients ask for much at once, read slowly, end their half, or are gone; edges are paused; memory is full; engine
/// modes and other registers change; the node is told to stop and another begins. Each request must be answered once and in order, what had come before the
/// node was told to stop too; who does not take replies must not be read on; what is buffered is bounded, and nothing is left when all is at rest; and every
/// key must be linearizable, expiry included.
#[derive(Args, Debug)]
pub struct Sim {
    /// How many seeds, from 1
    #[arg(long, value_name = "N", default_value_t = SEEDS, conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    seeds: u64,

    /// Run this seed only
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Transactions over a chain of replicas. Who there is: three (replicas; 3 clients, 2 controllers), two, moves (3 more replicas,
    /// and an operator whose orders let them in and take others out), homes (2 of the clients claim the chain), or a text of replicas, clients,
    /// controllers, spares, homes and keys, as replicas=3,clients=2,controllers=1,keys=2
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, default_missing_value = "three", conflicts_with = "topology")]
    chain: Option<chain::Shape>,

    /// A key-value node with connections, edges, engine cores and stores, and clients of it
    #[arg(long, conflicts_with_all = ["chain", "topology", "durability", "replies"])]
    node: bool,

    /// What homes are: nodes, the service of memcached's clients on its store, with a log or without, or over a chain. Left out: machines with a
    /// table
    #[arg(long, value_name = "HOW", value_enum, conflicts_with = "chain")]
    durability: Option<Homes>,

    /// Clients call methods whose replies the cache keeps, and methods that make them outdated; each must behave as if its handler ran at one
    /// moment. What is in homes is not lost in these runs: no flush, no trouble of disks, and without --durability log no home dies
    #[arg(long, conflicts_with = "chain")]
    replies: bool,

    /// Who there is: rooted (4 ToRs below 2 roots), tree (three levels), two (two boxes, two clients, one key), or a text of
    /// tors, middles, roots, homes, clients, controllers and keys, as tors=4,roots=2,clients=6
    #[arg(long, value_name = "TEXT", default_value = "rooted")]
    topology: Topology,

    /// Operations of a run, besides those of the liveness phases
    #[arg(long, value_name = "N", default_value_t = OPS as u64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    ops: u64,

    /// The faults, instead of those that the seed draws; a run that fails prints them. Empty for none
    #[arg(long, value_name = "TEXT", requires = "seed")]
    plan: Option<Plan>,

    /// Only these operations of the seed, as 3,5-9
    #[arg(long, value_name = "LIST", requires = "seed", value_parser = Only::read)]
    only: Option<Only>,

    /// A bug to plant, by name, all, or none. With a name or all only planted bugs are looked for: in 10,000 seeds each, or in those of
    /// --seeds where that is given
    #[arg(long, value_name = "NAME", value_parser = Bugs::read)]
    planted: Option<Bugs>,

    /// Write what the clients saw as JSON Lines (docs/history.md)
    #[arg(long, value_name = "FILE", requires = "seed")]
    history: Option<PathBuf>,

    /// Threads; by default one for each core
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,

    /// Print every event
    #[arg(long, requires = "seed")]
    trace: bool,

    /// Leave a run that fails as it is, instead of looking for a smaller one
    #[arg(long)]
    no_shrink: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Operations, by number.
#[derive(Clone, Debug)]
struct Only(Vec<usize>);

impl Only {
    fn read(text: &str) -> Result<Only, String> {
        indices::read(text).map(Only)
    }
}

/// Bugs to be planted.
#[derive(Clone, Debug)]
enum Bugs {
    None,
    All,
    One(String),
}

impl Bugs {
    fn read(text: &str) -> Result<Bugs, String> {
        let names = names::<Case>().chain(names::<chain::Case>()).chain(names::<node::Case>());
        match text {
            "none" => Ok(Bugs::None),
            "all" => Ok(Bugs::All),
            _ if names.clone().any(|name| name == text) => Ok(Bugs::One(text.to_string())),
            _ => Err(format!("there are none, all, {}", names.collect::<Vec<_>>().join(", "))),
        }
    }

    /// Those that a simulation has.
    fn of<T: Trial>(&self, case: &T) -> Result<Vec<T::Bug>, SimError> {
        let named = |name: &String| T::BUGS.iter().copied().find(|&bug| T::bug_name(bug) == name);
        match self {
            Bugs::None => Ok(Vec::new()),
            Bugs::All => Ok(case.bugs().to_vec()),
            Bugs::One(name) => {
                named(name).map(|bug| vec![bug]).ok_or_else(|| SimError::Elsewhere(name.clone()))
            }
        }
    }
}

fn names<T: Trial>() -> impl Iterator<Item = &'static str> + Clone {
    T::BUGS.iter().map(|&bug| T::bug_name(bug))
}

/// Why the command failed.
#[derive(Debug)]
pub enum SimError {
    /// So many seeds showed a violation; the first was printed.
    Violations(usize),
    /// So many planted bugs were not found.
    NotFound(usize),
    /// This bug is one of another simulation: that with, or without, --chain or --node.
    Elsewhere(String),
    /// The terminal, or the file.
    Io(String, io::Error),
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Violations(1) => f.write_str("a seed showed a violation"),
            SimError::Violations(n) => write!(f, "{n} seeds showed violations"),
            SimError::NotFound(n) => write!(f, "{n} planted bugs were not found"),
            SimError::Elsewhere(name) => {
                write!(f, "{name} is planted in another simulation: look at --chain and --node")
            }
            SimError::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for SimError {}

impl From<io::Error> for SimError {
    fn from(error: io::Error) -> SimError {
        SimError::Io("standard output".to_string(), error)
    }
}

impl Sim {
    /// Runs it.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn run(&self) -> Result<(), SimError> {
        let only = self.only.as_ref().map(|only| only.0.clone());
        match &self.chain {
            None if self.node => self.run_trial(&node::Case {
                plan: self.plan.clone(),
                only,
                ..node::Case::plain(self.ops as usize)
            }),
            Some(shape) => self.run_trial(&chain::Case {
                plan: self.plan.clone(),
                only,
                ..chain::Case::plain(*shape, self.ops as usize)
            }),
            None => self.run_trial(&Case {
                plan: self.plan.clone(),
                only,
                homes: self.durability.unwrap_or_default(),
                replies: self.replies,
                ..Case::plain(&Arc::new(self.topology.clone()), self.ops as usize)
            }),
        }
    }

    fn run_trial<T: Trial>(&self, case: &T) -> Result<(), SimError> {
        let mut out = BufWriter::new(io::stdout().lock());
        let result = match self.seed {
            Some(seed) => self.run_one(&case.seeded(seed, None), &mut out),
            None => self.run_many(case, &mut out),
        };
        out.flush()?;
        result
    }

    fn threads(&self) -> NonZero<usize> {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        self.threads.unwrap_or_else(cores)
    }

    // ---- one seed

    fn run_one<T: Trial>(&self, case: &T, out: &mut impl Write) -> Result<(), SimError> {
        let bugs = self.planted.as_ref().map_or(Ok(Vec::new()), |bugs| bugs.of(case))?;
        if let Some(Bugs::All) = self.planted {
            let hunts = campaign::hunt(case, &bugs, (case.seed(), 1), self.threads(), &|_| {});
            return self.show(out, case, &Campaign::default(), (&hunts, 1));
        }
        let case = case.seeded(case.seed(), bugs.first().copied());
        let played = case.play(self.trace);
        if self.trace {
            writeln!(out, "{}", case.legend())?;
            played.trace().iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        if let Some(path) = &self.history {
            write_history(path, &played).map_err(|error| SimError::Io(path.display().to_string(), error))?;
        }
        let campaign = Campaign::of_one(case.seed(), &played);
        if played.violation().is_some() {
            self.explain(out, &case)?;
        }
        self.show(out, &case, &campaign, (&[], 0))
    }

    // ---- many seeds

    fn run_many<T: Trial>(&self, case: &T, out: &mut impl Write) -> Result<(), SimError> {
        let threads = self.threads();
        let started = Instant::now();
        let mut campaign = Campaign::default();
        if matches!(self.planted, None | Some(Bugs::None)) {
            let bar = progress::bar(self.json);
            let tell = |fraction: f64| {
                progress::show(&bar, fraction, &format!("{} seeds, {}", self.seeds, case.title()))
            };
            campaign = campaign::run(case, 1..self.seeds + 1, threads, &tell);
            bar.finish_and_clear();
            self.tell_speed(out, case, &campaign, started)?;
            if let Some(&seed) = campaign.violations.first() {
                self.explain(out, &case.seeded(seed, None))?;
            }
        }
        let within = if self.planted.is_some() && self.seeds != SEEDS { self.seeds } else { WITHIN };
        let bugs = self.planted.as_ref().unwrap_or(&Bugs::All).of(case)?;
        let bar = progress::bar(self.json);
        let tell = |fraction: f64| progress::show(&bar, fraction, "planted bugs");
        let hunts = campaign::hunt(case, &bugs, (1, within), threads, &tell);
        bar.finish_and_clear();
        self.show(out, case, &campaign, (&hunts, within))
    }

    fn tell_speed<T: Trial>(
        &self,
        out: &mut impl Write,
        case: &T,
        campaign: &Campaign,
        started: Instant,
    ) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let spent = started.elapsed().as_secs_f64();
        let Campaign { seeds, events, operations, marks, .. } = campaign;
        let [first, second] = case.marks();
        writeln!(
            out,
            "{}: {operations} operations, {} {first}, {} {second}, {events} events in {spent:.1} s: {:.0} seeds/s on {} threads",
            case.title(),
            marks[0],
            marks[1],
            *seeds as f64 / spent,
            self.threads()
        )
    }

    /// Makes a failing case small and prints it.
    fn explain<T: Trial>(&self, out: &mut impl Write, case: &T) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let (small, played) =
            if self.no_shrink { (case.clone(), case.play(false)) } else { minimal::minimal(case) };
        let Some(violation) = played.violation() else { return Ok(()) };
        writeln!(out, "seed {} broke a promise at {}:", case.seed(), words::moment(violation.at))?;
        writeln!(out, "  {}", violation.text.replace('\n', "\n  "))?;
        writeln!(out, "where {}", case.legend())?;
        writeln!(out, "replay: {}", small.command())
    }

    // ---- results

    fn show<T: Trial>(
        &self,
        out: &mut impl Write,
        case: &T,
        campaign: &Campaign,
        (hunts, within): (&[Hunt<T::Bug>], u64),
    ) -> Result<(), SimError> {
        let found = hunts.iter().filter(|hunt| hunt.found.is_some()).count();
        if self.json {
            writeln!(out, "{}", json(case, campaign, hunts))?;
        } else {
            show_hunts::<T>(out, hunts, within)?;
            let unknown = match campaign.gave_up {
                0 => String::new(),
                n => format!(" ({n} not decided)"),
            };
            writeln!(
                out,
                "{} seeds, {} violations{unknown}, {found} planted bugs found of {}, fingerprint {}",
                campaign.seeds,
                campaign.violations.len(),
                hunts.len(),
                campaign.print
            )?;
        }
        match (campaign.violations.len(), hunts.len() - found) {
            (0, 0) => Ok(()),
            (0, missing) => Err(SimError::NotFound(missing)),
            (violations, _) => Err(SimError::Violations(violations)),
        }
    }
}

fn show_hunts<T: Trial>(out: &mut impl Write, hunts: &[Hunt<T::Bug>], within: u64) -> io::Result<()> {
    for Hunt { planted, found } in hunts {
        match found {
            Some(seed) => writeln!(out, "planted {:24} found by seed {seed}", T::bug_name(*planted))?,
            None => writeln!(out, "planted {:24} NOT found within {within} seeds", T::bug_name(*planted))?,
        }
    }
    Ok(())
}

fn json<T: Trial>(case: &T, campaign: &Campaign, hunts: &[Hunt<T::Bug>]) -> serde_json::Value {
    let marks = case.marks();
    let hunts: Vec<_> = hunts
        .iter()
        .map(|hunt| serde_json::json!({ "planted": T::bug_name(hunt.planted), "seed": hunt.found }))
        .collect();
    serde_json::json!({
        "seeds": campaign.seeds,
        "violations": campaign.violations,
        "undecided": campaign.gave_up,
        "events": campaign.events,
        "operations": campaign.operations,
        (marks[0]): campaign.marks[0],
        (marks[1]): campaign.marks[1],
        "planted": hunts,
        "fingerprint": campaign.print.to_string(),
    })
}

fn write_history(path: &Path, played: &impl Outcome) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    played.write_history(&mut file)?;
    file.flush()
}
