//! The demonstration: about twenty seconds of everyday traffic against one server, every value checked.
//!
//! Shape: a preload, then phases that share the time: unpipelined, pipelined, an open loop at half of the measured peak,
//! mixed sizes with expiry, deletes and conditional writes, meta commands with multi-gets, and a last look at all keys.
//! Connections keep to keys of their own, so each also checks that it reads its own last write.

use super::LoadError;
use super::args::run_number;
use super::bench::{check_preload, preload_phase};
use super::dialect::Dialect;
use super::fleet::{Fleet, FleetPlan};
use super::keys::{Popularity, YCSB_THETA};
use super::mix::{Mix, OpKind, Ycsb};
use super::sizes::ValueSizes;
use super::summary::Summary;
use super::target::Target;
use super::workload::{Job, Phase, Workload};
use crate::drive::Pace;
use crate::report::StageBreakdown;
use crate::report::environment::{self, Fact};
use base::Nanos;
use indicatif::ProgressBar;
use serde::Serialize;
use serve::process::progress;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// One phase of the demonstration.
#[derive(Clone, Debug, Serialize)]
pub struct DemoPhase {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub what: String,
    /// What it measured.
    pub summary: Summary,
}

/// The demonstration's result.
#[derive(Clone, Debug, Serialize)]
pub struct DemoResult {
    /// The server.
    pub target: Target,
    /// Keys that were preloaded.
    pub keys: u64,
    /// All phases, the preload first.
    pub phases: Vec<DemoPhase>,
    /// Where time goes inside the server, where the caller knows.
    pub stages: Option<Vec<StageBreakdown>>,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Where.
    pub environment: Vec<Fact>,
}

impl DemoResult {
    /// Values checked, wrong values and failed operations of all phases.
    pub fn counts(&self) -> (u64, u64, u64) {
        self.phases.iter().map(|p| &p.summary).fold((0, 0, 0), |(checked, wrong, failed), s| {
            (checked + s.verified, wrong + s.wrong_count(), failed + s.failed_count())
        })
    }

    /// An error when a value was wrong, an operation failed or a phase ended before its time.
    ///
    /// # Errors
    /// See [`LoadError::WrongValues`] and [`LoadError::Ended`].
    pub fn verdict(&self) -> Result<(), LoadError> {
        let target = self.target.to_string();
        for DemoPhase { name, summary: s, .. } in &self.phases {
            if s.wrong_count() > 0 {
                return Err(LoadError::WrongValues { count: s.wrong_count(), examples: s.examples.clone() });
            }
            if let Some(cause) = s.ended_early.as_ref().or(s.examples.first()) {
                return Err(LoadError::Ended { target, cause: format!("in phase {name}: {cause}") });
            }
        }
        Ok(())
    }
}

const KEYS: u64 = 100_000;
const CONNECTIONS: u16 = 16;
const PIPELINE: usize = 32;
/// Phases after the preload; they share the time alike.
const PHASES: u32 = 6;

/// Drives `target` for about `duration` and shows its way on `bar` (see [`progress::bar`]). `stop` ends it early.
///
/// # Errors
/// When the server cannot be reached or the preload fails; what was measured decides [`DemoResult::verdict`].
pub fn drive(
    target: &Target,
    duration: Duration,
    bar: &ProgressBar,
    stop: Arc<AtomicBool>,
) -> Result<DemoResult, LoadError> {
    let began = Instant::now();
    let plan = FleetPlan {
        target: target.clone(),
        connections: CONNECTIONS,
        threads: 1,
        cores: Vec::new(),
        spin: false,
        answer_timeout: Duration::from_secs(10),
        keys: KEYS,
        key_size: 16,
        inserts: 0,
        strict: true,
        misses_fail: false,
        foreign_allowed: false,
        seed: 1,
        run: run_number(0),
    };
    let mut stage = Stage {
        fleet: Fleet::launch(&plan, stop)?,
        bar,
        began,
        duration,
        length: Nanos::from(duration / (PHASES + 1)),
        phases: Vec::new(),
    };
    stage.preload()?;
    stage.play();
    let Stage { phases, .. } = stage;
    let seconds = began.elapsed().as_secs_f64();
    Ok(DemoResult {
        target: target.clone(),
        keys: KEYS,
        phases,
        stages: None,
        seconds,
        environment: environment::facts(),
    })
}

struct Stage<'b> {
    fleet: Fleet,
    bar: &'b ProgressBar,
    began: Instant,
    duration: Duration,
    length: Nanos,
    phases: Vec<DemoPhase>,
}

impl Stage<'_> {
    fn preload(&mut self) -> Result<(), LoadError> {
        let what = format!("writes {KEYS} keys once, values of 64 B");
        let phase = preload_phase(ValueSizes::Fixed(64), Dialect::Classic);
        let target = self.fleet.target().clone();
        let tally = self.run("preload", what, phase);
        check_preload(&tally, &target, KEYS)
    }

    fn play(&mut self) {
        let reads = workload(Ycsb::B.mix(), ValueSizes::Fixed(64));
        self.load(
            "one at a time",
            "16 connections, one operation each: 95 % get, 5 % set",
            &reads,
            Pace::FULL,
            1,
        );
        let peak =
            self.load("pipelined", "32 operations under way per connection", &reads, Pace::FULL, PIPELINE);
        let rate = (peak / 2.0).max(1_000.0).floor();
        let pace = Pace::Open { rate, poisson: true };
        let what =
            format!("{rate:.0} operations a second, half the peak, whenever they are due; latency from then");
        self.load("open loop", &what, &reads, pace, PIPELINE);
        let mixed = [
            (OpKind::Get, 0.6),
            (OpKind::Set, 0.2),
            (OpKind::Delete, 0.05),
            (OpKind::Touch, 0.05),
            (OpKind::Modify, 0.1),
        ];
        let mixed = Workload {
            ttl_s: 1,
            ..workload(Mix::new(&mixed).expect("the shares are good"), ValueSizes::Range(16, 8_192))
        };
        let what = "values of 16 B to 8 KiB that expire after a second; set, delete, touch, gets + cas";
        self.load("mixed", what, &mixed, Pace::FULL, 8);
        let meta = Workload { multiget: 16, ..workload(Ycsb::B.mix(), ValueSizes::Fixed(256)) };
        self.speak("meta commands", "mg, ms and mn: 16 keys per read", &meta, Pace::FULL, 4, Dialect::Meta);
        let all = Workload {
            popularity: Popularity::Uniform,
            multiget: 10,
            ..workload(Ycsb::C.mix(), ValueSizes::Fixed(64))
        };
        self.load("last look", "reads of all keys alike, ten at a time", &all, Pace::FULL, 4);
    }

    fn load(
        &mut self,
        name: &'static str,
        what: &str,
        workload: &Workload,
        pace: Pace,
        pipeline: usize,
    ) -> f64 {
        self.speak(name, what, workload, pace, pipeline, Dialect::Classic)
    }

    /// Runs one phase, unless the run was told to end or a phase before it could not go on; its throughput.
    fn speak(
        &mut self,
        name: &'static str,
        what: &str,
        workload: &Workload,
        pace: Pace,
        pipeline: usize,
        dialect: Dialect,
    ) -> f64 {
        let broken = self.phases.iter().any(|p| p.summary.ended_early.is_some());
        if self.fleet.stopped() || broken {
            return 0.0;
        }
        let phase = Phase {
            job: Job::Load { workload: workload.clone(), length: self.length, ops_each: u64::MAX },
            dialect,
            pace,
            pipeline,
            batch: pipeline.div_ceil(2),
            interval: Nanos((self.length.0 / 60).max(10_000_000)),
            number: 0,
        };
        self.run(name, what.to_string(), phase).throughput()
    }

    fn run(&mut self, name: &'static str, what: String, phase: Phase) -> super::counts::Tally {
        let (bar, began, whole) = (self.bar, self.began, self.duration.as_secs_f64());
        let mut show = |_| progress::show(bar, began.elapsed().as_secs_f64() / whole, name);
        show(0);
        let tally = self.fleet.run(phase, &mut show);
        self.phases.push(DemoPhase { name, what, summary: Summary::of(&tally, None) });
        tally
    }
}

fn workload(mix: Mix, values: ValueSizes) -> Workload {
    Workload {
        mix,
        popularity: Popularity::Zipf(YCSB_THETA),
        values,
        ttl_s: 0,
        multiget: 1,
        longest_scan: 100,
    }
}
