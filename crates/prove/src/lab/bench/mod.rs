//! `millrace lab bench`: one client before a box before a server, in network namespaces; the same load on the server alone, with the box in both tiers,
//! and on memcached in its place, in turns.
//!
//! ```text
//!   client:1 ── box:1 ── home:1      one home for each mode of ours, so that no mode meets another's copies; memcached beside them
//!    core A       core B, both
//!
//!   round: for each load, for each mode, forwards and then backwards: warm up, then a slice
//! ```
//!
//! | file | what |
//! |---|---|
//! | `mode` | what may stand in the way: processes, and where the client asks |
//! | `rounds` | slices in turns, with the processor time of each process |
//! | `cpu` | how busy a core was |
//! | `show` | tables and a page |
//!
//! Every process gets the same help: the client spins on its core in all modes (or sleeps in all: `--sleep`), servers and boxes sleep in the kernel until a
//! request comes, memcached has one thread.
//!
//! **Who pays.** A veth hands a frame over within the sender's own call, so the first hop's forwarding, and an XDP program's whole work, is on
//! the client's core; the way back from a server is on the server's. On real machines both would be the box's own.
//!
//! Bounds: keys of the command line, in each home and in memcached; a tally for each mode and load.

mod cpu;
mod mode;
mod rounds;
mod show;
#[cfg(test)]
mod tests;

use super::LabError;
use super::plan::Plan;
use super::site::{Site, require_root};
use super::state::parse_name;
use super::{namespace, network, state};
use base::cpu::{allowed_cores, pin_to};
use bench::drive::Pace;
use bench::load::bench::{check_preload, preload_phase};
use bench::load::fleet::{Fleet, FleetPlan};
use bench::load::keys::{Popularity, YCSB_THETA};
use bench::load::mix::{Mix, OpKind};
use bench::load::sizes::ValueSizes;
use bench::load::workload::Workload;
use bench::load::{LoadError, args};
use bench::report;
use bench::report::environment::{self, Fact};
use indicatif::ProgressBar;
use mode::{Mode, Running};
use rounds::{Line, Rounds};
use serde::Serialize;
use serve::inc::plan::setting;
use serve::inc::topology::Shape;
use serve::process::parse::{count, duration, rate};
use serve::process::{interrupt, progress};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Measure the in-network cache against its own server alone, and against memcached, in network namespaces.
///
/// A client, a box (that is also the switch) and a server have a namespace each. The same keys and values are read and written in turns: past the box
/// (no-box), with the box's user tier (box), with its XDP tier before it (xdp), and with memcached in the server's place, over TCP (tcp) and UDP (udp). Every
/// value read is checked. All figures are of GETs, but for throughput and processor time, which are of all operations.
///
/// With --uncacheable all keys are equally popular, so that no box can help: what it costs then is the question.
///
/// Needs root, iproute2 and two cores: the client has the first, servers and boxes the second. Modes that cannot run here are left out with a note.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  millrace lab bench --quick\n  millrace lab bench --report bench.html\n  millrace lab bench --uncacheable --modes no-box,box,xdp --json > uncacheable.json"
)]
pub struct Bench {
    /// What to compare
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_enum,
        default_value = "no-box,box,xdp,tcp,udp"
    )]
    modes: Vec<Mode>,

    /// Number of keys, for example 100k or 1m
    #[arg(short, long, default_value = "1m", value_parser = count, help_heading = "Workload")]
    keys: u64,
    /// Value size
    #[arg(short, long, default_value = "1024", value_name = "SIZE", help_heading = "Workload")]
    value: ValueSizes,
    /// Popularity of keys: uniform, zipf or zipf:THETA [default: zipf:0.99]
    #[arg(long, value_name = "LAW", conflicts_with = "uncacheable", help_heading = "Workload")]
    dist: Option<Popularity>,
    /// All keys equally popular
    #[arg(long, help_heading = "Workload")]
    uncacheable: bool,
    /// Share of writes
    #[arg(long, default_value_t = 0.05, value_name = "SHARE", help_heading = "Workload")]
    writes: f64,
    /// Items that the box keeps
    #[arg(long, default_value = "4096", value_parser = count, value_name = "N", help_heading = "Workload")]
    copies: u64,
    /// How long it may keep them, in seconds; between two turns of a mode lie all others
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600), help_heading = "Workload")]
    lease: u64,
    /// Another register of the cache, as in coherence.admission=2; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting, help_heading = "Workload")]
    settings: Vec<(String, String)>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1, help_heading = "Workload")]
    seed: u64,

    /// Operations under way of the closed loops
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,16", help_heading = "Load")]
    windows: Vec<usize>,
    /// Operations per second of an open loop besides [default: none]
    #[arg(long, value_parser = rate, help_heading = "Load")]
    rate: Option<f64>,
    /// Rounds over all modes
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Load")]
    rounds: u32,
    /// Time for one load of one mode in one round
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration, help_heading = "Load")]
    slice: Duration,
    /// The client sleeps while it waits, in all modes
    #[arg(long, help_heading = "Load")]
    sleep: bool,
    /// 50k keys, three rounds of 150 ms: a look, not a measurement
    #[arg(long, conflicts_with_all = ["keys", "rounds", "slice"], help_heading = "Load")]
    quick: bool,

    /// What the lab is called while it stands
    #[arg(long, value_name = "NAME", default_value = "bench", value_parser = parse_name)]
    name: String,
    /// First remove the lab of this name, or what is left of one
    #[arg(long)]
    replace: bool,
    /// Print the whole result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write an HTML page with plots; a name that ends in .svg: the plots alone, .csv or .parquet: its figures as rows
    #[arg(long, alias = "plot", value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// What came out.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// What was done, in words.
    pub setup: Vec<String>,
    /// Each mode under each load.
    pub lines: Vec<Line>,
    /// What nodes counted, as they said at their end.
    pub counted: Vec<String>,
    /// Modes that were left out, and why.
    pub notes: Vec<String>,
    /// Where.
    pub environment: Vec<Fact>,
}

/// A lab that is gone when this is dropped.
struct Stands(Site);

impl Drop for Stands {
    fn drop(&mut self) {
        // `lab down` removes what is left.
        let _ = self.0.remove();
    }
}

impl Bench {
    /// Runs and prints.
    ///
    /// # Errors
    /// It could not be run, or a value was wrong.
    pub fn run(&self) -> Result<(), LabError> {
        let stop = interrupt::flag().map_err(LabError::io("catching Ctrl-C"))?;
        let outcome = self.measure(stop)?;
        let page = || show::page(&outcome);
        report::deliver(&outcome, self.json, || page().text(), page, self.report.as_deref())
            .map_err(LoadError::from)?;
        outcome.verdict()
    }

    /// Builds the lab, measures, and takes it down.
    ///
    /// # Errors
    /// It could not be run.
    pub fn measure(&self, stop: Arc<AtomicBool>) -> Result<Outcome, LabError> {
        require_root("lab bench")?;
        let &[client_core, server_core, ..] = &allowed_cores()[..] else {
            return Err(LabError::OneCore);
        };
        if self.replace {
            state::remove(&self.name)?;
        }
        let bar = progress::bar(self.json);
        progress::show(&bar, 0.0, "namespaces");
        let plan = Plan {
            topology: None,
            shape: Shape { tors: 1, roots: 0, homes: 1, controllers: 0 },
            clients: 1,
            settings: Vec::new(),
            links: Vec::new(),
            xdp: false,
        };
        let mut lab = Stands(Site::build(&self.name, &plan, None)?);
        // Processes inherit the core.
        pin_to(server_core).map_err(LabError::io("keeping to a core"))?;
        let (mut running, mut notes) = (Vec::new(), Vec::new());
        for &mode in &self.modes {
            match Running::start(mode, &mut lab.0, self) {
                Ok(started) => running.push(started),
                Err(why) => notes.push(format!("{mode} is left out: {why}")),
            }
        }
        pin_to(client_core).map_err(LabError::io("keeping to a core"))?;
        let space = lab.0.network().namespace(network::client(1));
        let cores = [client_core, server_core];
        let lines = namespace::within(&space, || Ok(self.rounds(&mut running, cores, &stop, &bar)))??;
        let counted = running.iter_mut().flat_map(Running::end).collect();
        bar.finish_and_clear();
        Ok(Outcome { setup: self.setup(cores), lines, counted, notes, environment: environment::facts() })
    }

    /// All that is done in the client's namespace.
    fn rounds(
        &self,
        running: &mut [Running],
        cores: [usize; 2],
        stop: &Arc<AtomicBool>,
        bar: &ProgressBar,
    ) -> Result<Vec<Line>, LabError> {
        let mut sides = Vec::new();
        for running in running.iter() {
            let mut fleet = Fleet::launch(&self.fleet(running, cores[0]), Arc::clone(stop))?;
            // memcached has the same items over TCP and UDP.
            let is_filled = running.mode == Mode::Udp && self.modes.contains(&Mode::Tcp);
            if !is_filled {
                let phase = preload_phase(self.value, running.dialect());
                let name = format!("preload {}", running.mode);
                let keys = self.keys() as f64;
                let tally = fleet.run(phase, &mut |done| progress::show(bar, done as f64 / keys, &name));
                check_preload(&tally, &running.target, self.keys())?;
            }
            sides.push((fleet, running));
        }
        Ok(Rounds { args: self, workload: self.workload()?, cores, stop, bar }.run(&mut sides))
    }

    fn fleet(&self, running: &Running, core: usize) -> FleetPlan {
        FleetPlan {
            target: running.target.clone(),
            connections: 1,
            threads: 1,
            cores: vec![core],
            spin: !self.sleep,
            answer_timeout: Duration::from_secs(10),
            keys: self.keys(),
            key_size: 16,
            inserts: 0,
            strict: false,
            misses_fail: true,
            // Over TCP values are read that were written over UDP, and the other way round.
            foreign_allowed: !running.mode.is_ours(),
            seed: self.seed,
            run: args::run_number(running.mode as u32),
        }
    }

    fn workload(&self) -> Result<Workload, LabError> {
        let mix = Mix::new(&[(OpKind::Get, 1.0 - self.writes), (OpKind::Set, self.writes)]);
        let usual = if self.uncacheable { Popularity::Uniform } else { Popularity::Zipf(YCSB_THETA) };
        Ok(Workload {
            mix: mix.map_err(|text| LoadError::Plan(text.into()))?,
            popularity: self.dist.unwrap_or(usual),
            values: self.value,
            ttl_s: 0,
            multiget: 1,
            longest_scan: 1,
        })
    }

    fn keys(&self) -> u64 {
        if self.quick { 50_000 } else { self.keys }
    }

    fn slice(&self) -> Duration {
        if self.quick { Duration::from_millis(150) } else { self.slice }
    }

    fn round_count(&self) -> u32 {
        if self.quick { 3 } else { self.rounds }
    }

    fn loads(&self) -> Vec<(Pace, usize)> {
        let closed = self.windows.iter().map(|&window| (Pace::FULL, window.max(1)));
        let open = self.rate.map(|rate| (Pace::Open { rate, poisson: true }, 64));
        closed.chain(open).collect()
    }

    fn setup(&self, cores: [usize; 2]) -> Vec<String> {
        let workload = self.workload().map(|w| format!("{} · {}", w.mix, w.popularity)).unwrap_or_default();
        vec![
            format!(
                "{workload} · {} keys of 16 B, values of {} B · box: {} items, lease {} s",
                self.keys(),
                self.value,
                self.copies,
                self.lease
            ),
            format!(
                "client on core {}, {}; servers and boxes on core {}, sleeping; {} rounds of {} ms for each load, modes in turns forwards and backwards",
                cores[0],
                if self.sleep { "sleeping while it waits" } else { "spinning" },
                cores[1],
                self.round_count(),
                self.slice().as_millis()
            ),
        ]
    }
}

impl Outcome {
    /// # Errors
    /// A value was wrong, an operation failed, or a mode ended early.
    fn verdict(&self) -> Result<(), LabError> {
        for line in &self.lines {
            let target = line.mode.to_string();
            if line.total.wrong_count() > 0 {
                let count = line.total.wrong_count();
                return Err(LoadError::WrongValues { count, examples: line.total.examples.clone() }.into());
            }
            if let Some(cause) = line.total.ended_early.clone() {
                return Err(LoadError::Ended { target, cause }.into());
            }
        }
        Ok(())
    }
}
