//! The preprocessing core: requests as they came become queries that the engine can compute.
//!
//! Bounds: one request at a time; while the engine's ring is full it waits, its own rings fill, and edges refuse.
//!
//! Cost: see the stages `parse` and `preprocess` of `millrace rec bench`.

use super::busy::Busy;
use super::counters::{Counters, Stages, add};
use super::job::{Input, Job, Ready, Reply};
use super::refusal::Refusal;
use super::rings::{Door, Taken};
use super::shelf::Shelf;
use super::words;
use crate::admin::health::Beat;
use crate::rec::proto::millrace::InferRequest;
use crate::rec::registers::{Id, Registers};
use base::Clock;
use codec::decode::Decoder;
use codec::memory::Arena;
use codec::typed::Message;
use rec::request::{Queries, Request, Served, queries};
use ring::spsc::Consume;
use ring::wait::{Sleeper, WaitPolicy};
use std::sync::Arc;
use std::time::Duration;

/// How long it waits for room before it looks whether the engine is still there.
const LOOK: Duration = Duration::from_millis(100);

/// See the head of the file.
pub struct Preprocess {
    /// From each edge.
    pub edges: Vec<Taken<Job>>,
    /// To the engine.
    pub engine: Door<Ready>,
    /// The model.
    pub shelf: Arc<Shelf>,
    /// What it counts.
    pub counters: Arc<Counters>,
    /// What it follows.
    pub registers: Arc<Registers>,
    /// Woken by edges, and by the engine when there is room again.
    pub sleeper: Sleeper,
    /// How it waits.
    pub policy: WaitPolicy,
    /// Says that it turns, also while it waits.
    pub beat: Beat,
}

/// What it uses again for each request.
#[derive(Default)]
pub struct Reader {
    decoder: Decoder,
    arena: Arena,
}

impl Preprocess {
    /// Works until all edges are gone.
    pub fn run(mut self) {
        let clock = Clock::shared();
        let mut reader = Reader::default();
        let mut busy = Busy::start();
        loop {
            self.beat.turn();
            let mut found = false;
            for edge in 0..self.edges.len() {
                // In turns: no edge waits for another's backlog.
                if let Some(job) = self.edges[edge].try_pop() {
                    found = true;
                    self.take(job, &mut reader, clock, &mut busy);
                }
            }
            if found {
                busy.count(&self.counters.preprocess_busy);
                continue;
            }
            // In this order: what was pushed before an edge went is seen.
            let are_gone = self.edges.iter().all(Consume::is_abandoned);
            if self.edges.iter_mut().any(Consume::is_ready) {
                continue;
            }
            if are_gone {
                return;
            }
            let Preprocess { edges, sleeper, policy, beat, .. } = &mut self;
            sleeper.wait_until(*policy, None, || {
                beat.turn();
                edges.iter_mut().any(Consume::is_ready) || edges.iter().all(Consume::is_abandoned)
            });
            busy.skip();
        }
    }

    fn take(&mut self, job: Job, reader: &mut Reader, clock: Clock, busy: &mut Busy) {
        add(&self.counters.taken, 1);
        let began = clock.now();
        let served = self.shelf.current();
        let most = self.registers.size(Id::Queries);
        let Job { arrived, input, mut reply, hold } = job;
        let mut read = began;
        let checked = check(&input, &mut reply, reader, (&served, most), || read = clock.now());
        let at = clock.now();
        let queries = match checked {
            Ok(queries) => queries,
            Err(why) => {
                add(&self.counters.refused, 1);
                return reply.refuse(&why);
            }
        };
        let stages = Stages {
            queue: began.since(arrived),
            parse: read.since(began),
            preprocess: at.since(read),
            ..Stages::default()
        };
        self.hand_over(Ready { served, queries, reply, at, stages, hold }, busy);
    }

    fn hand_over(&mut self, mut ready: Ready, busy: &mut Busy) {
        while let Err(back) = self.engine.push(ready) {
            if self.engine.is_abandoned() {
                return back.reply.refuse(&Refusal::Internal("the engine is gone"));
            }
            ready = back;
            self.beat.turn();
            busy.count(&self.counters.preprocess_busy);
            let engine = &mut self.engine;
            self.sleeper.wait_until(self.policy, Some(LOOK), || engine.has_room() || engine.is_abandoned());
            busy.skip();
        }
    }
}

/// Reads and checks a request for a model, with at most so many queries; what it says of its answer goes to `reply`.
fn check(
    input: &Input,
    reply: &mut Reply,
    reader: &mut Reader,
    (served, most): (&Served, usize),
    read: impl FnOnce(),
) -> Result<Queries, Refusal> {
    match input {
        Input::Message(body) => message(body, reader, served, most, read),
        Input::Http { body, header, model, version } => {
            is_asked_for(model, version.as_deref(), served)?;
            let (queries, own, binary) = http(body, *header, served, most, read)?;
            if let Reply::Http { id, is_binary, .. } = reply {
                (*id, *is_binary) = (own, binary);
            }
            Ok(queries)
        }
    }
}

/// The queries in an `InferRequest`; `read` is called when it is decoded.
///
/// # Errors
/// It is none, or wrong for the model.
pub fn message(
    body: &[u8],
    reader: &mut Reader,
    served: &Served,
    most: usize,
    read: impl FnOnce(),
) -> Result<Queries, Refusal> {
    reader.arena.reset();
    let request = InferRequest::decode(&mut reader.decoder, body, &reader.arena)
        .map_err(|error| Refusal::Malformed(format!("the request cannot be decoded: {error}")))?;
    read();
    words::queries(request, served, most)
}

/// The queries in an HTTP body, the request's id, and whether it wants its answer in binary; `read` is called when the JSON is read.
///
/// # Errors
/// It is none, or wrong for the model.
pub fn http(
    body: &[u8],
    header: Option<usize>,
    served: &Served,
    most: usize,
    read: impl FnOnce(),
) -> Result<(Queries, Option<String>, bool), Refusal> {
    let request = Request::parse(body, header)?;
    read();
    let queries = queries(&request, served, most)?;
    Ok((queries, request.id, request.is_binary))
}

/// That a path's model and version are this one.
///
/// # Errors
/// They are not.
pub fn is_asked_for(model: &str, version: Option<&str>, served: &Served) -> Result<(), Refusal> {
    if model == served.name && version.is_none_or(|version| version == served.version) {
        return Ok(());
    }
    let short = |text: &str| text.chars().take(100).collect::<String>();
    let asked = match version {
        Some(version) => format!("{} version {}", short(model), short(version)),
        None => short(model),
    };
    Err(Refusal::NoModel { asked, served: format!("{} version {}", served.name, served.version) })
}
