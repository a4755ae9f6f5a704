//! The placer as a process: its loop over nodes, and what it shows at a port of its own, as any server does ([`serve::shell`]).
//!
//! Registers are live: what is set goes in as a line of every node's log, so that a log can still be played again. `/healthz` says 503 while a node keeps
//! the loop waiting for more than two seconds.

use super::drive::Driver;
use super::log::{Cause, Line, Reason, Tuning, Verdict};
use super::show::Sentences;
use base::registers::Kind::{Count, Micros, Percent, Switch};
use base::registers::{Registers, Shown};
use fabric::link::Address;
use serve::admin::health::Beat;
use serve::admin::{Routes, Tuned};
use serve::engine_cores::EngineCore;
use serve::metrics::Page;
use serve::process::Stop;
use serve::shell::{Failure, Loop, Service};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

base::registers! {
    listed by "`millrace registers --placer` lists them";
    Frozen "placer.frozen" Switch, 0, 1, 0, live,
        "Nothing is decided while it is on, not even to go back.";
    Budget "placer.budget" Count, 0, 600, 12, live,
        "Moves of a node within any minute, going back included.";
    Hysteresis "placer.hysteresis" Percent, 0, 100, 10, live,
        "How much better a move must be, beyond what predictions may be off.";
    Dwell "placer.dwell" Micros, 0, 3_600_000_000, 5_000_000, live,
        "How long a service stays after a move, unless it goes back or its load changes.";
    Slo "placer.slo_p99" Micros, 0, 3_600_000_000, 0, live,
        "The 99th percentile that requests are to keep; 0 none.";
}

/// The registers of a placer.
pub type PlacerRegisters = Registers<Id>;

/// What a placer shows, by node.
pub mod metrics {
    serve::families! { "millrace_place_";
        LOOKS counter "looks" count ["node", "outcome"] "Looks at a node: read, missed (no answer, or none of an admin port).";
        DECISIONS counter "decisions" count ["node", "reason"] "Moves that were decided: better, try, size, memory, back, greedy, fixed. Of memory both halves of an exchange count.";
        REFUSED counter "orders_refused" count ["node"] "Of these, those whose registers could not be set.";
        JUDGED counter "moves_judged" count ["node", "verdict"] "Moves that were judged: kept, back, void (the load changed meanwhile).";
        IGNORED counter "ignored" count ["node", "cause"] "What was not gone by: repeated or stale looks, empty ones (over no time), figures that cannot be.";
        MOVES_LEFT gauge "moves_left" count ["node"] "Moves that are left of this minute's budget.";
        FROZEN gauge "frozen" count [] "1 while nothing is decided.";
        PROMISED gauge "promised" bytes ["node"] "What all caches of a node that may exchange memory may have together; 0 where there are not two.";
        FACTOR gauge "measured_over_predicted" ratio ["node", "service", "figure"] "What is measured divided by what is predicted, of each service where it is: p50, p99, cores. Predictions are multiplied by it.";
    }
}

/// What was counted of a node.
#[derive(Debug, Default)]
struct Counted {
    looks: u64,
    missed: u64,
    refused: u64,
    decisions: BTreeMap<Reason, u64>,
    verdicts: BTreeMap<Verdict, u64>,
    causes: BTreeMap<Cause, u64>,
    moves_left: usize,
    promised: u64,
    factors: Vec<(String, &'static str, f64)>,
}

impl Counted {
    fn add(&mut self, lines: &[Line], driver: &mut Driver) {
        self.looks += 1;
        for line in lines {
            match line {
                Line::Missed { .. } => self.missed += 1,
                Line::Decision(one) => *self.decisions.entry(one.reason).or_default() += 1,
                Line::Evaluation(one) => *self.verdicts.entry(one.verdict).or_default() += 1,
                Line::Ignored { cause, .. } => *self.causes.entry(*cause).or_default() += 1,
                Line::Told { refused, .. } => self.refused += u64::from(refused.is_some()),
                _ => {}
            }
        }
        (self.moves_left, self.promised, self.factors) = driver.stands();
    }

    fn show(&self, node: &str, page: &mut Page) {
        page.add(metrics::LOOKS, &[node, "read"], self.looks - self.missed);
        page.add(metrics::LOOKS, &[node, "missed"], self.missed);
        for reason in Reason::ALL {
            let count = self.decisions.get(reason).copied().unwrap_or(0);
            page.add(metrics::DECISIONS, &[node, reason.word()], count);
        }
        for verdict in Verdict::ALL {
            let count = self.verdicts.get(verdict).copied().unwrap_or(0);
            page.add(metrics::JUDGED, &[node, verdict.word()], count);
        }
        for cause in Cause::ALL {
            let count = self.causes.get(cause).copied().unwrap_or(0);
            page.add(metrics::IGNORED, &[node, cause.word()], count);
        }
        page.add(metrics::REFUSED, &[node], self.refused);
        page.add(metrics::MOVES_LEFT, &[node], self.moves_left as u64);
        page.add(metrics::PROMISED, &[node], self.promised);
        for (service, figure, factor) in &self.factors {
            page.add(metrics::FACTOR, &[node, service, figure], *factor);
        }
    }
}

/// What the loop and the port have together.
struct Shared {
    registers: PlacerRegisters,
    frozen: AtomicBool,
    nodes: Mutex<BTreeMap<String, Counted>>,
    beat: Beat,
}

impl Tuned for Shared {
    type Id = Id;

    fn registers(&self) -> &PlacerRegisters {
        &self.registers
    }
}

impl Shared {
    fn collect(&self, page: &mut Page) {
        page.add(metrics::FROZEN, &[], self.frozen.load(Ordering::Relaxed));
        for (node, counted) in &*self.nodes.lock().unwrap_or_else(PoisonError::into_inner) {
            counted.show(node, page);
        }
    }

    fn tuning(&self) -> Tuning {
        let read = |id| self.registers.read(id);
        Tuning {
            moves_per_minute: read(Id::Budget) as u32,
            hysteresis: read(Id::Hysteresis) as f64 / 100.0,
            dwell_us: read(Id::Dwell),
            p99_max_ns: (read(Id::Slo) > 0).then(|| read(Id::Slo) as f64 * 1e3),
        }
    }
}

/// What the loop is told.
pub(super) struct Plan {
    /// Nodes, each with what was last said of it.
    pub drivers: Vec<(Driver, Sentences)>,
    pub registers: PlacerRegisters,
    pub every: Duration,
    /// It stops by itself after this.
    pub duration: Option<Duration>,
    /// While this file is there nothing is decided.
    pub freeze_file: Option<PathBuf>,
    pub is_json: bool,
}

/// See the head of the file.
pub(super) struct Placer {
    shared: Arc<Shared>,
    plan: Option<Plan>,
    running: Option<Loop<Result<(), Failure>>>,
}

impl Placer {
    pub(super) fn new(mut plan: Plan) -> Placer {
        let registers = std::mem::take(&mut plan.registers);
        let shared = Shared {
            registers,
            frozen: AtomicBool::default(),
            nodes: Mutex::default(),
            beat: Beat::default(),
        };
        Placer { shared: Arc::new(shared), plan: Some(plan), running: None }
    }
}

impl Service for Placer {
    fn kind(&self) -> &'static str {
        "placer"
    }

    fn role(&self) -> String {
        "moves services of nodes, and memory between their caches".to_owned()
    }

    fn protocols(&self) -> &'static [&'static str] {
        &[]
    }

    fn listen(&mut self, protocol: &str, _: &Address) -> Result<(), String> {
        Err(format!("a placer speaks to admin ports, and no {protocol} to clients"))
    }

    fn registers(&self) -> Vec<Shown> {
        self.shared.registers.show()
    }

    fn open(&mut self, _: &Arc<EngineCore>, _: bool) -> Result<Routes, Failure> {
        let shared = Arc::clone(&self.shared);
        let pulse = self.shared.beat.pulse("placer");
        let routes = Routes::default().registers(Arc::clone(&self.shared)).loops([pulse]);
        Ok(routes.metrics(move |page| shared.collect(page)))
    }

    fn start(&mut self, stop: &Stop) -> Result<(), Failure> {
        let (shared, plan) = (Arc::clone(&self.shared), self.plan.take().ok_or("it was started before")?);
        self.running = Some(Loop::start("placer", stop, move |over| plan.run(&shared, over))?);
        Ok(())
    }

    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let ended = self.running.as_mut().and_then(Loop::finish);
        ended.unwrap_or(Ok(()))
    }
}

impl Plan {
    /// Looks at all nodes again and again, and does what follows.
    fn run(mut self, shared: &Shared, over: &AtomicBool) -> Result<(), Failure> {
        let began = Instant::now();
        let mut next = began;
        let length = self.duration;
        let is_over =
            || over.load(Ordering::Relaxed) || length.is_some_and(|length| began.elapsed() >= length);
        let mut tuned = shared.tuning();
        while !is_over() {
            let now = shared.tuning();
            let tuning = (now != tuned).then(|| now.clone());
            tuned = now;
            let is_frozen = shared.registers.is_on(Id::Frozen)
                || self.freeze_file.as_ref().is_some_and(|file| file.exists());
            shared.frozen.store(is_frozen, Ordering::Relaxed);
            self.turn(shared, is_frozen, tuning)?;
            // A node that answers late is not asked more often for it.
            next = (next + self.every).max(Instant::now());
            super::command::sleep_until(next, &|| {
                shared.beat.turn();
                is_over()
            });
        }
        Ok(self.end()?)
    }

    fn turn(&mut self, shared: &Shared, is_frozen: bool, tuning: Option<Tuning>) -> Result<(), Failure> {
        let is_one = self.drivers.len() == 1;
        for (driver, said) in &mut self.drivers {
            shared.beat.turn();
            if let Some(tuning) = &tuning {
                driver.tune(tuning)?;
            }
            driver.freeze(is_frozen)?;
            let lines = driver.look()?;
            let node = driver.port().to_string();
            let mut nodes = shared.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.entry(node.clone()).or_default().add(&lines, driver);
            drop(nodes);
            let of = if is_one { String::new() } else { format!("{node} ") };
            say(&lines, said, self.is_json, &of)?;
        }
        Ok(())
    }

    /// Where nodes are left.
    fn end(&self) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        for (driver, _) in &self.drivers {
            let placement = driver.placement();
            if self.is_json {
                let all: BTreeMap<_, _> = placement.into_iter().collect();
                writeln!(out, "{}", serde_json::json!({ "node": driver.port().to_string(), "left": all }))?;
                continue;
            }
            writeln!(out, "the node at {} is left as it is:", driver.port())?;
            placement.iter().try_for_each(|(name, value)| writeln!(out, "  {name} = {value}"))?;
        }
        Ok(())
    }
}

/// Prints what came of a look.
fn say(lines: &[Line], said: &mut Sentences, is_json: bool, of: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        if is_json {
            writeln!(out, "{}", line.text())?;
        } else if let Some(sentence) = said.sentence(line) {
            writeln!(out, "{of}{sentence}")?;
        }
    }
    out.flush()
}
