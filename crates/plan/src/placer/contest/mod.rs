//! `millrace place contest`: the placer, its rivals and every fixed placement, in turns on one node, while the load changes.
//!
//! ```text
//!   phase after phase of the script, policy after policy:   set the registers that the policy had left · clients begin · settle · count
//! ```
//! One node, a process of its own, serves all: a policy finds its registers as it left them, and its time stands still while others have their turn. So
//! neighbours in time see the same machine, and what a policy has learned stays with it. Fixed placements are moved by nobody.
//!
//! | file | what it is |
//! |---|---|
//! | `script` | loads, from a seed |
//! | `node`, `clients` | processes |
//! | `show` | the score, tables, a page |
//! | `caches` | two caches in place of the three services, and what they find as the score |
//! | `modelled` | the same in virtual time, on machines of the model |

mod caches;
mod clients;
mod modelled;
mod node;
mod script;
mod show;

use super::drive::{Driver, Log};
use super::log::Line;
use super::options::{Options, Policy};
use super::predict::Predictor;
use bench::contest::{self as turns, Order, Sides, Slice, Turn};
use bench::report::{deliver, environment};
use clap::Args;
use clients::{ClientFigures, Clients, preload, times};
use node::Node;
use script::{Load, script};
use serde::Serialize;
use serve::process::parse::duration;
use serve::process::{interrupt, progress};
use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Between two looks of a placer.
const EVERY: Duration = Duration::from_millis(500);
/// What the 99th percentile on a node is to keep, if nothing is said.
const SLO: Duration = Duration::from_millis(2);
/// What counts on a node of three services, and of a machine of the model.
const IN_TIME: &str = "in time";
/// What counts of caches.
const FOUND: &str = "found";
/// Registers and their values.
type Registers = Vec<(String, String)>;
/// Registers that all policies begin with, and each fixed placement has a value of.
const PLACES: [(&str, &[&str]); 3] = [
    ("cache.engine.mode", &["shared", "dedicated"]),
    ("demo.place.handlers", &["edge", "engine", "host"]),
    ("rank.place.rec.preprocess", &["edge", "engine"]),
];
/// Registers besides, that placers move: each begins with these.
const OTHERS: [(&str, &str); 8] = [
    ("demo.place.share", "0"),
    ("demo.workers.count", "1"),
    ("demo.workers.balancer", "round_robin"),
    ("cache.engine.form", "staged"),
    ("cache.engine.group", "16"),
    ("rank.rec.batch", "64"),
    ("rank.rec.linger", "0"),
    ("demo.monitor.sample", "16"),
];

/// Compare the placer with every fixed placement, the published guideline and leaving things as they are, while the load changes.
///
/// Starts a node with a key-value, an RPC and a recommendation service as a process, and clients as processes. The load changes --changes times in
/// rate, size, mix and skew, from --seed. In each phase every policy has its turn: --settle that does not count, then --measure that does. What
/// counts is the share of what was asked that was answered within --slo, of the services on average. Exit status 1 if a request was lost.
///
/// With --on there is no node: a key-value store is in virtual time on a machine of the model, at one of its places or, by who moves it, at two.
#[derive(Args, Debug)]
pub struct Contest {
    /// Changes of the load
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=100))]
    changes: u32,

    /// Of the script
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// After a change, what does not count of those that move
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    settle: Duration,

    /// The same of placements that nobody moves: they have nothing to settle but clients
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    warm_up: Duration,

    /// What counts then
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    measure: Duration,

    /// Fixed placements, of twelve; the first is that of a node as it starts
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u8).range(1..=12))]
    fixed: u8,

    /// Which of them policies that move begin with, and which `leave` stays at, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=12))]
    start: u8,

    /// What the 99th percentile of every service is to keep [default: 2ms; with --on ten times what a request takes at the quickest place without others]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    slo: Option<Duration>,

    /// In virtual time on this machine of the model instead of on a node: a shipped platform or a file; several times; all: bluefield2-ib, cxl-type2,
    /// u280-ddr4, rack-of-bluefield2
    #[arg(long, value_name = "PLATFORM", conflicts_with_all = ["fixed", "start", "platform"])]
    on: Vec<String>,

    /// Two caches on a node in place of the three services, which of them wants the memory changes: what counts is the share of gets that found their key.
    /// The placer has 60 moves a minute; give it some time with --settle, and others theirs to fill with --warm-up
    #[arg(long, conflicts_with_all = ["on", "start"])]
    caches: bool,

    /// Multiplies all rates: for faster and slower machines
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale)]
    load: f64,

    /// This machine, for predictions: this-host as it is shipped, or the file that `millrace model this-host -o FILE` wrote
    #[arg(short, long, value_name = "PLATFORM", default_value = "this-host")]
    platform: String,

    /// A folder for the log of each policy that moves; with --on of each machine. millrace place --replay plays one again
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// Write a page; a name that ends in .svg: the plots alone, .csv or .parquet: its figures as rows
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn scale(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (0.001..=1000.0).contains(factor));
    factor.ok_or_else(|| format!("{text:?} is no factor from 0.001 to 1000"))
}

/// What came of a policy's turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Figures {
    services: Vec<ClientFigures>,
    /// Cores that the node used.
    cores: f64,
    /// Decisions that were obeyed, settling included.
    moves: u32,
    /// Where it stands at the end.
    placement: String,
}

impl Figures {
    /// The share of what was asked that was answered within the limit, of the services on average.
    fn score(&self) -> f64 {
        let shares = self.services.iter().map(|of| (of.within / of.asked).min(1.0));
        shares.sum::<f64>() / self.services.len().max(1) as f64
    }

    fn lost(&self) -> u64 {
        self.services.iter().map(|of| of.lost).sum()
    }
}

/// A policy, and where it stands.
struct Contestant {
    name: String,
    /// None: nobody moves it.
    driver: Option<Driver>,
    registers: Registers,
    /// Which node.
    node: usize,
}

/// All policies of a run.
struct Contestants<'a> {
    args: &'a Contest,
    program: PathBuf,
    /// One for all; of caches one for each.
    nodes: Vec<Node>,
    players: Vec<Contestant>,
    script: Vec<Load>,
    stop: &'a AtomicBool,
}

/// What came of all.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Outcome {
    /// The machine of the model; none: a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<String>,
    /// What the score is a share of.
    #[serde(skip)]
    counts: &'static str,
    slo_us: f64,
    seed: u64,
    script: Vec<Load>,
    /// By policy, the fixed ones last: a figure for each phase; the phase before the first change is the first.
    policies: Vec<(String, Vec<Figures>)>,
    /// So many placements are fixed.
    fixed: usize,
    /// Those of them that are the host's alone, where others are not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
    environment: Vec<environment::Fact>,
}

/// The nth of the twelve fixed placements, from 0.
fn placement(n: usize) -> Registers {
    let mut left = n;
    let places = PLACES.map(|(register, values)| {
        let value = values[left % values.len()];
        left /= values.len();
        (register.to_owned(), value.to_owned())
    });
    // Workers are there before handlers are to run on them.
    let others = OTHERS.map(|(register, value)| (register.to_owned(), value.to_owned()));
    others.into_iter().chain(places).collect()
}

/// Its name: `shared/edge/edge`.
fn name(registers: &Registers) -> String {
    if registers.iter().any(|(register, _)| register.ends_with(crate::observed::MEMORY)) {
        return caches::name(registers);
    }
    let value = |(wanted, _): &(&str, &[&str])| {
        let found = registers.iter().find(|(register, _)| register == wanted);
        found.map_or_else(String::new, |(_, value)| value.clone())
    };
    PLACES.iter().map(value).collect::<Vec<_>>().join("/")
}

impl Contest {
    /// Runs it.
    ///
    /// # Errors
    /// It could not run, or requests were lost.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        if let Some(folder) = &self.logs {
            std::fs::create_dir_all(folder)
                .map_err(|error| format!("--logs {}: {error}", folder.display()))?;
        }
        if !self.on.is_empty() {
            return self.tell(&modelled::run(self)?);
        }
        let stop = interrupt::flag()?;
        let bar = progress::bar(self.json);
        let program = std::env::current_exe().map_err(|e| format!("this program cannot find itself: {e}"))?;
        progress::show(&bar, 0.0, "start of the node");
        let (nodes, script) = if self.caches {
            let start = |_| Node::start(&program, caches::SERVICES.len(), caches::file);
            let nodes = (0..2 + self.fixed().len()).map(start).collect::<Result<_, _>>()?;
            (nodes, caches::script(self.changes, self.load))
        } else {
            let node = Node::start(&program, PLACES.len(), node::file)?;
            preload(&program, node.ports[0])?;
            (vec![node], script(self.seed, self.changes, self.load))
        };
        let players = self.players(&nodes)?;
        let (sides, phases) = (players.len(), script.len() as u32);
        let mut all = Contestants { args: self, program, nodes, players, script, stop: &stop };
        let contest = turns::Contest::new((sides, 1), (phases, Order::Rotated), &stop, (&bar, 0.0, 1.0));
        // What was interrupted has no phase that all had.
        let samples = contest.run(&mut all)?.whole_rounds(0);
        bar.finish_and_clear();
        let figures = samples.into_iter().map(|of| of.into_iter().map(|sample| sample.figures).collect());
        self.tell(&[all.outcome(figures)])
    }

    fn tell(&self, outcomes: &[Outcome]) -> Result<(), Box<dyn Error>> {
        let page = || show::page(outcomes);
        let text = || outcomes.iter().map(show::text).collect::<Vec<_>>().join("\n\n");
        let report = self.report.as_deref();
        match outcomes {
            // A node is one.
            [one] if one.platform.is_none() => deliver(one, self.json, text, page, report),
            all => deliver(all, self.json, text, page, report),
        }
        .map_err(|error| error.to_string())?;
        match outcomes.iter().map(Outcome::lost).sum::<u64>() {
            0 => Ok(()),
            lost => Err(format!("{lost} requests were lost: see the column").into()),
        }
    }

    /// On a node.
    fn slo(&self) -> Duration {
        self.slo.unwrap_or(SLO)
    }

    /// Placements that nobody moves.
    fn fixed(&self) -> Vec<Registers> {
        let all = if self.caches { caches::placements() } else { (0..12).map(placement).collect() };
        all.into_iter().take(usize::from(self.fixed)).collect()
    }

    fn players(&self, nodes: &[Node]) -> Result<Vec<Contestant>, String> {
        let predictor = super::command::predictor(&self.platform).map_err(|error| error.to_string())?;
        let (start, policies) = match self.caches {
            // The guideline is of places.
            true => (caches::placements().remove(0), vec![Policy::Model, Policy::Leave]),
            false => {
                let start = placement(usize::from(self.start) - 1);
                (start, vec![Policy::Model, Policy::Greedy, Policy::Leave])
            }
        };
        let mut players = Vec::new();
        let own = |nth: usize| if self.caches { nth } else { 0 };
        for policy in policies {
            let (name, node) = (policy.to_string(), own(players.len()));
            let driver = match policy {
                Policy::Leave => None,
                policy => Some(self.driver(&nodes[node], policy, predictor.clone())?),
            };
            players.push(Contestant { name, driver, registers: start.clone(), node });
        }
        for registers in self.fixed() {
            let node = own(players.len());
            players.push(Contestant { name: name(&registers), driver: None, registers, node });
        }
        Ok(players)
    }

    fn driver(&self, node: &Node, policy: Policy, predictor: Predictor) -> Result<Driver, String> {
        let log = self.logs.as_ref().map(|folder| {
            let path = folder.join(format!("{policy}.log"));
            Log::new(path.clone(), u64::MAX).map_err(|error| format!("{}: {error}", path.display()))
        });
        let usual = Options { policy, p99_max_ns: Some(self.slo().as_nanos() as f64), ..Options::default() };
        let dwell_us = caches::DWELL.as_micros() as u64;
        let options = match self.caches {
            // Memory alone.
            true => Options {
                explores: false,
                moves_per_minute: caches::MOVES,
                dwell_us,
                p99_max_ns: None,
                ..usual
            },
            false => usual,
        };
        let cores = base::cpu::allowed_cores().len().max(1) as f64;
        let mut driver = Driver::new(node.admin, cores, options, predictor, log.transpose()?)?;
        driver.pause();
        Ok(driver)
    }
}

impl Contestants<'_> {
    fn outcome(&self, figures: impl Iterator<Item = Vec<Figures>>) -> Outcome {
        let names = self.players.iter().map(|player| player.name.clone());
        Outcome {
            platform: None,
            counts: if self.args.caches { FOUND } else { IN_TIME },
            hosts: Vec::new(),
            slo_us: self.args.slo().as_secs_f64() * 1e6,
            seed: self.args.seed,
            script: self.script.clone(),
            policies: names.zip(figures).collect(),
            fixed: self.args.fixed().len(),
            environment: environment::facts(),
        }
    }
}

impl Sides for Contestants<'_> {
    type Figures = Figures;
    type Error = String;

    fn name(&self, turn: Turn) -> String {
        format!("phase {} of {}: {}", turn.round + 1, self.script.len(), self.players[turn.side].name)
    }

    fn warm_up(&mut self, turn: Turn) -> Result<(), String> {
        let player = &self.players[turn.side];
        self.nodes[player.node].set(&player.registers)
    }

    fn slice(&mut self, turn: Turn) -> Result<Slice<Figures>, String> {
        let (args, player) = (self.args, &mut self.players[turn.side]);
        let node = &self.nodes[player.node];
        let load = &self.script[turn.round as usize];
        let settle = if player.driver.is_some() { args.settle } else { args.warm_up };
        let (all, times) = (&node.ports, times((settle, args.measure)));
        let lines =
            if args.caches { caches::lines(all, load, &times) } else { clients::lines(all, load, &times) };
        let clients = Clients::start(&self.program, lines)?;
        let counted = || node.counted(if args.caches { &caches::SERVICES } else { &[] });
        let slo_us = args.slo().as_secs_f64() * 1e6;
        let over = AtomicBool::new(false);
        let (served, moves, counts) = thread::scope(|scope| {
            let placer = player.driver.as_mut().map(|driver| scope.spawn(|| move_about(driver, &over)));
            super::command::rest(settle, self.stop);
            let before = counted();
            super::command::rest(args.measure, self.stop);
            let counts = counted().and_then(|after| Ok([before?, after]));
            let served = clients.end(slo_us);
            over.store(true, Ordering::Relaxed);
            let moves =
                placer.map_or(Ok(0), |thread| thread.join().map_err(|_| "a placer panicked".to_owned())?);
            (served, moves, counts)
        });
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Slice::Over);
        }
        if let Some(driver) = &player.driver {
            keep(&mut player.registers, driver.placement());
        }
        let placement = name(&player.registers);
        let ([before, after], mut services) = (counts?, served?);
        let a_second = |count: f64| count / args.measure.as_secs_f64();
        for (one, (before, after)) in services.iter_mut().zip(before.1.iter().zip(&after.1)) {
            one.within = a_second(after - before);
        }
        let cores = a_second(after.0 - before.0);
        Ok(Slice::Measured(Figures { services, cores, moves: moves?, placement }))
    }
}

/// What the placer has set is what it finds the next time.
fn keep(registers: &mut Registers, now: Registers) {
    for (register, value) in now {
        match registers.iter_mut().find(|(name, _)| *name == register) {
            Some((_, kept)) => *kept = value,
            None => registers.push((register, value)),
        }
    }
}

/// The placer's loop until `over`; how often it moved something.
fn move_about(driver: &mut Driver, over: &AtomicBool) -> Result<u32, String> {
    driver.resume();
    let mut moves = 0;
    while !over.load(Ordering::Relaxed) {
        let lines = driver.look()?;
        moves += lines.iter().filter(|line| matches!(line, Line::Decision(_))).count() as u32;
        super::command::rest(EVERY, over);
    }
    driver.pause();
    Ok(moves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_placements_are_all_there_are_and_workers_come_first() {
        let names: std::collections::BTreeSet<String> = (0..12).map(|n| name(&placement(n))).collect();
        assert_eq!((names.len(), name(&placement(0))), (12, "shared/edge/edge".to_owned()));
        let at = |wanted: &str| placement(0).iter().position(|(register, _)| register == wanted);
        assert!(at("demo.workers.count") < at("demo.place.handlers"));
    }

    #[test]
    fn a_score_is_the_mean_share_that_came_in_time() {
        let served = |asked, within| ClientFigures {
            service: "s",
            asked,
            answered: asked,
            within,
            p99_us: 1.0,
            lost: 1,
        };
        let services = vec![served(100.0, 50.0), served(10.0, 11.0)];
        let figures = Figures { services, cores: 1.0, moves: 0, placement: String::new() };
        assert_eq!((figures.score(), figures.lost()), (0.75, 2));
    }
}
