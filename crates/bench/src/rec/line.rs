//! One measurement: a target, a batch; connections that load it at the same time, and its counters before and after.

use super::Bench;
use super::http::Connection;
use super::subject::{Subject, Target};
use super::tally::{StageTally, Tally};
use super::{fabric, http};
use crate::drive::{Calls, Driven, OneByOne, Pace, Plan, together};
use crate::report::StageBreakdown;
use crate::tally::{CurvePoint, Latency, curve};
use ::fabric::channel::{Channel, Options};
use base::{Nanos, Prng};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

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
        let tally = self.load(&bodies, self.bench.duration.into())?;
        let after = Subject::of(self.target)?;
        let spent = |name: &str| {
            let of = |subject: &Subject| subject.counters.get(name).copied().unwrap_or(0);
            of(&after).saturating_sub(of(&before)) as f64
        };
        let latencies = tally.all_latencies();
        let span = tally.elapsed.0.max(1) as f64;
        Ok(Outcome {
            name: format!("{}, batch {}", self.target, self.batch),
            batch: self.batch,
            requests_per_sec: tally.throughput(),
            queries_per_sec: tally.throughput() * self.batch as f64,
            latency: Latency::of(&latencies),
            stages: tally.counts.breakdown(),
            together: tally.counts.together(),
            reply_us: spent("reply_ns") / spent("requests").max(1.0) / 1e3,
            preprocess_busy: spent("preprocess_busy_ns") / span,
            engine_busy: spent("engine_busy_ns") / span,
            failed: tally.all_failed(),
            example: tally.examples.first().cloned(),
            curve: curve(&latencies),
        })
    }

    /// All connections at the same time. Each begins elsewhere among the requests, so that they do not ask the same.
    fn load(&self, bodies: &[Vec<u8>], length: Nanos) -> Result<Tally, String> {
        let (connections, batch) = (usize::from(self.bench.connections), self.batch);
        let first = |at: usize| at * bodies.len() / connections;
        match self.target {
            Target::Http(host) => {
                let one = |at| {
                    let connection = Connection::to(host)?;
                    Ok(OneByOne::new(http::Infer { connection, bodies, batch, next: first(at) }))
                };
                let mut all: Vec<_> = (0..connections).map(one).collect::<Result<_, String>>()?;
                Ok(self.together(&mut all, length))
            }
            Target::Fabric(address) => {
                let open = |_| Channel::connect(address, &Options::default());
                let channels: Result<Vec<Channel>, _> = (0..connections).map(open).collect();
                let mut channels = channels.map_err(|error| format!("{address}: {error}"))?;
                let mut all = Vec::new();
                for (at, channel) in channels.iter_mut().enumerate() {
                    let method = channel.method("/millrace.Recommend/Infer");
                    let method = method.ok_or("it serves no millrace.Recommend")?;
                    let infer = fabric::Infer { method, bodies, batch, next: first(at) };
                    all.push(Calls::new(channel, infer, self.bench.window.max(1), 1));
                }
                Ok(self.together(&mut all, length))
            }
        }
    }

    fn together<D: Driven<Counts = StageTally> + Send>(&self, all: &mut [D], length: Nanos) -> Tally {
        let connections = all.len() as u64;
        let plan = |at| Plan {
            pace: self.bench.rate.map_or(Pace::FULL, |rate| Pace::Open { rate, poisson: true }),
            share: (at, connections),
            random: Prng::new(self.bench.load_seed + at),
            ..Plan::full(length)
        };
        together(all, plan, &[], self.stop, None)
    }
}
