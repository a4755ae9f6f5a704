//! One measurement: a target, a batch; connections that load it at the same time, and its counters before and after.

use super::Bench;
use super::fabric::Infer;
use super::http::Connection;
use super::subject::{Subject, Target};
use super::tally::StageTally;
use crate::load::calls::{Plan, Tally, drive};
use crate::load::summary::{CurvePoint, Latency, curve};
use crate::report::StageBreakdown;
use base::Nanos;
use fabric::channel::{Channel, Options};
use serde::Serialize;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What is measured.
pub struct Line<'b> {
    /// The server.
    pub target: &'b Target,
    /// Queries in a request.
    pub batch: usize,
    /// The rest.
    pub bench: &'b Bench,
    /// Ends it early.
    pub stop: &'b AtomicBool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Target and batch.
    pub name: String,
    /// Queries in a request.
    pub batch: usize,
    /// Answered requests per second.
    pub requests_per_sec: f64,
    /// Queries of these per second.
    pub queries_per_sec: f64,
    /// From the sending, or the meant sending, to the answer.
    pub latency: Latency,
    /// The server's stages.
    pub stages: Vec<StageBreakdown>,
    /// Queries that the engine computed together, on average over requests.
    pub together: f64,
    /// Putting a batch's replies together and handing them over, per request, on average.
    pub reply_us: f64,
    /// How much of a core preprocessing took.
    pub preprocess_busy: f64,
    /// How much of a core the engine took.
    pub engine_busy: f64,
    /// Requests that failed.
    pub failed: u64,
    /// The first of these.
    pub example: Option<String>,
    /// Latency by quantile.
    pub curve: Vec<CurvePoint>,
}

impl Line<'_> {
    /// Measures.
    ///
    /// # Errors
    /// A sentence: the server cannot be reached.
    pub fn measure(&self) -> Result<Outcome, String> {
        let subject = Subject::of(self.target)?;
        let requests =
            subject.requests(self.batch.max(1), self.bench.ids, self.bench.bag, self.bench.load_seed);
        let bodies: Vec<Vec<u8>> = requests
            .iter()
            .map(|request| match self.target {
                Target::Fabric(_) => request.message(self.bench.form),
                Target::Http(host) => request.http(self.bench.form, host),
            })
            .collect();
        self.load(&bodies, self.bench.warmup.into())?;
        let before = Subject::of(self.target)?;
        let (tally, stages) = self.load(&bodies, self.bench.duration.into())?;
        let after = Subject::of(self.target)?;
        let spent = |name: &str| {
            let of = |subject: &Subject| subject.counters.get(name).copied().unwrap_or(0);
            of(&after).saturating_sub(of(&before)) as f64
        };
        let span = tally.span.0.max(1) as f64;
        Ok(Outcome {
            name: format!("{}, batch {}", self.target, self.batch),
            batch: self.batch,
            requests_per_sec: tally.rate(),
            queries_per_sec: tally.rate() * self.batch as f64,
            latency: Latency::of(&tally.latency),
            stages: stages.breakdown(),
            together: stages.together(),
            reply_us: spent("reply_ns") / spent("requests").max(1.0) / 1e3,
            preprocess_busy: spent("preprocess_busy_ns") / span,
            engine_busy: spent("engine_busy_ns") / span,
            failed: tally.failures(),
            example: tally.example.clone(),
            curve: curve(&tally.latency),
        })
    }

    /// All connections at the same time.
    fn load(&self, bodies: &[Vec<u8>], length: Nanos) -> Result<(Tally, StageTally), String> {
        let connections = usize::from(self.bench.connections);
        let done = AtomicU64::new(0);
        let results: Vec<Result<(Tally, StageTally), String>> = std::thread::scope(|scope| {
            let one = |at: usize| {
                let plan = Plan {
                    window: self.bench.window.max(1),
                    length,
                    rate: self.bench.rate.map(|rate| rate / connections as f64),
                    sample: 1,
                    spin: false,
                    seed: self.bench.load_seed + at as u64,
                };
                // Each begins elsewhere, so that they do not ask the same at the same time.
                let start = at * bodies.len() / connections;
                let done = &done;
                scope.spawn(move || self.one(bodies, start, &plan, done))
            };
            let threads: Vec<_> = (0..connections).map(one).collect();
            threads.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
        });
        let mut all = (Tally::default(), StageTally::default());
        for result in results {
            let (tally, stages) = result?;
            all.0.join(&tally);
            all.1.join(&stages);
        }
        Ok(all)
    }

    fn one(
        &self,
        bodies: &[Vec<u8>],
        start: usize,
        plan: &Plan,
        done: &AtomicU64,
    ) -> Result<(Tally, StageTally), String> {
        match self.target {
            Target::Http(host) => {
                let bodies = [&bodies[start..], &bodies[..start]].concat();
                Ok(Connection::to(host)?.drive(&bodies, self.batch, plan, self.stop))
            }
            Target::Fabric(address) => {
                let channel = Channel::connect(address, &Options::default());
                let mut channel = channel.map_err(|error| format!("{address}: {error}"))?;
                let method =
                    channel.method("/millrace.Recommend/Infer").ok_or("it serves no millrace.Recommend")?;
                let stages = RefCell::default();
                let mut infer = Infer { method, bodies, batch: self.batch, next: start, stages };
                let tally = drive(&mut channel, &mut infer, plan, self.stop, done);
                Ok((tally, infer.stages.into_inner()))
            }
        }
    }
}
