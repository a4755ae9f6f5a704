//! Batches: queries of several requests that the model computes together, and their answers.
//!
//! Invariants: a batch is of one model; what another model checked begins the next. Requests are whole: their queries are never split over batches.
//!
//! Shape: requests of a model gather in a [`Gathered`]; [`Computer`] joins, computes and answers them, one batch after another.
//!
//! Bounds: `rec.batch` queries, or one request that has more. Answers wait for no batch that takes longer than a wake-up would.
//!
//! Errors: a panic of the model is the answer to the requests that were computed together, and the next batch begins with new memory.

use super::busy::Busy;
use super::counters::{Counted, Counters, add};
use super::job::{Ready, Tools};
use super::preprocess::Place;
use super::refusal::Refusal;
use super::shelf::Model;
use super::traced::part;
use crate::admin::health::Beat;
use crate::rec::registers::{Id, Registers};
use base::{Clock, Nanos};
use fabric::server::wake_gathered;
use rec::{Bags, Batch, Scratch, Stages, Tuning};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Ids of a batch, beyond those of its first request: so that a merged table's offsets stay in 32 bits.
const MOST_ROWS: usize = 1 << 24;

/// The batch of a model that comes next.
#[derive(Default)]
pub struct Gathered {
    requests: Vec<Ready>,
    queries: usize,
    rows: usize,
    /// When the first of them came.
    began: Nanos,
}

/// Computes batches.
pub struct Computer {
    memory: Memory,
    counters: Arc<Counters>,
    registers: Arc<Registers>,
    /// Turns with each batch: of large ones a pass of the engine may take long.
    beat: Beat,
    answers: Answers,
}

/// Answers that wait for the end of the engine's pass.
#[derive(Default)]
struct Answers {
    /// What the last batch took.
    took: Nanos,
    /// Since when they may wait, if they do.
    since: Option<Nanos>,
}

impl Answers {
    /// Before a batch: it may take as long as the last.
    fn go_before_long(&mut self, now: Nanos) {
        if self.since.is_some_and(|since| now.since(since).plus(self.took) > WAIT_MAX) {
            wake_gathered();
            self.since = None;
        }
    }

    /// After a batch that began then.
    fn wait(&mut self, began: Nanos, now: Nanos) {
        self.took = now.since(began);
        self.since.get_or_insert(now);
    }
}

/// A server is woken for its answers before a batch that they would wait for longer than this.
const WAIT_MAX: Nanos = Nanos::from_micros(20);

/// Memory that is used again for each batch.
#[derive(Default)]
struct Memory {
    merged: Merged,
    scratch: Scratch,
    scores: Vec<f32>,
    tools: Tools,
}

/// The queries of several requests as one batch.
#[derive(Default)]
struct Merged {
    dense: Vec<f32>,
    tables: Vec<Table>,
}

#[derive(Default)]
struct Table {
    ids: Vec<u32>,
    offsets: Vec<u32>,
    weights: Vec<f32>,
    is_weighted: bool,
    /// If they are keys.
    counts: Vec<u32>,
    is_keys: bool,
}

impl Gathered {
    /// Requests in it.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Since when the first of them waits; none of none.
    pub fn began(&self) -> Option<Nanos> {
        (!self.requests.is_empty()).then_some(self.began)
    }

    /// Whether it may take requests of this model.
    pub fn is_of(&self, model: &Arc<Model>) -> bool {
        self.requests.first().is_none_or(|first| Arc::ptr_eq(&first.served, model))
    }
}

impl Computer {
    /// Has computed nothing yet.
    pub fn new(counters: Arc<Counters>, registers: Arc<Registers>, beat: Beat) -> Computer {
        Computer { memory: Memory::default(), counters, registers, beat, answers: Answers::default() }
    }

    /// Takes a request into the batch of its model. Computes what is there before, if they cannot be computed together, and all of them, if the batch is full.
    pub fn join(&mut self, batch: &mut Gathered, ready: Box<Ready>, now: Nanos) {
        let most = self.registers.size(Id::Batch);
        let (queries, rows) = (ready.queries.len(), ready.queries.rows());
        if !batch.is_of(&ready.served) || batch.queries + queries > most || batch.rows + rows > MOST_ROWS {
            self.compute(batch);
        }
        if batch.requests.is_empty() {
            batch.began = now;
        }
        batch.requests.push(*ready);
        batch.queries += queries;
        batch.rows += rows;
        if batch.queries >= most {
            self.compute(batch);
        }
    }

    /// Computes what is there, if there is anything, and answers it. It does not panic.
    pub fn compute(&mut self, batch: &mut Gathered) {
        self.beat.turn();
        let mut busy = Busy::start();
        let mut requests = std::mem::take(&mut batch.requests);
        (batch.queries, batch.rows) = (0, 0);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&mut requests)));
        if outcome.is_err() {
            self.memory = Memory::default();
            add(&self.counters.panicked, requests.len() as u64);
            for ready in requests.drain(..) {
                add(&ready.served.counted.failed, 1);
                ready.reply.refuse(&Refusal::Internal("the model panicked"));
            }
        }
        // Empty: its memory is used again.
        batch.requests = requests;
        busy.count(&self.counters.engine_busy);
    }

    fn answer(&mut self, batch: &mut Vec<Ready>) {
        let Computer { memory, counters, registers, answers, .. } = self;
        let clock = Clock::shared();
        batch.retain(|ready| {
            let given_up = u64::from(ready.reply.is_given_up());
            add(&counters.given_up, given_up);
            add(&ready.served.counted.failed, given_up);
            given_up == 0
        });
        let Some(first) = batch.first() else { return };
        let served = Arc::clone(&first.served);
        let tuning = Tuning { prefetch: registers.size(Id::Prefetch) };
        let Memory { merged, scratch, scores, tools } = memory;
        let began = clock.now();
        answers.go_before_long(began);
        let len: usize = batch.iter().map(|ready| ready.queries.len()).sum();
        let tables = served.tables();
        let bags: Vec<Bags<'_>>;
        let dense;
        if let [one] = &batch[..] {
            bags = (0..tables).map(|table| one.queries.bags(table)).collect();
            dense = one.queries.dense();
        } else {
            merged.fill(batch, tables);
            bags = merged.tables.iter().map(Table::bags).collect();
            dense = &merged.dense;
        }
        let batch_of = Batch { len, dense, bags: &bags };
        let mut spent = Stages::default();
        let timer = spent.timer(clock);
        let result = served.model().infer_staged(&batch_of, tuning, scratch, scores, timer);
        let done = clock.now();
        if result.is_err() {
            // The builder checked it against this very model.
            return batch.drain(..).for_each(|ready| {
                add(&served.counted.failed, 1);
                ready.reply.refuse(&Refusal::Internal("the model refuses queries that were checked"));
            });
        }
        let mlp = spent.total().since(spent.reduce);
        let outputs = served.model().outputs();
        let mut rest = &scores[..];
        // Before they are answered: who has an answer finds it counted.
        count(counters, &served.counted, (batch.len() as u64, len as u64), (spent.reduce, mlp));
        let counted = &served.counted;
        for ready in batch.drain(..) {
            let (own, behind) = rest.split_at(ready.queries.len() * outputs);
            rest = behind;
            add(&counters.rows, ready.queries.rows() as u64);
            add(&counters.sent, size_of_val(own) as u64);
            let mut stages = ready.stages;
            stages.wait = began.since(ready.at);
            (stages.reduce, stages.mlp) = (spent.reduce, mlp);
            stages.together = len as u32;
            let before = stages.queue.0 + stages.parse.0 + stages.preprocess.0;
            let (total, queued) = (before + done.since(ready.at).0, stages.queue.0 + stages.wait.0);
            add(&counters.total, total);
            add(&counted.total, total);
            add(&counters.queued, queued);
            add(&counted.queued, queued);
            let scope = ready.reply.scope();
            part(scope, "batch wait", Place::Engine, ready.at, began);
            part(scope, "compute", Place::Engine, began, done);
            ready.reply.scores(&served, own, stages, tools);
        }
        let ended = clock.now();
        answers.wait(began, ended);
        [&counters.reply, &counted.reply].iter().for_each(|counter| add(counter, ended.since(done).0));
    }
}

/// Counts a batch of so many requests and queries, and its times.
fn count(
    counters: &Counters,
    counted: &Counted,
    (requests, queries): (u64, u64),
    (reduce, mlp): (Nanos, Nanos),
) {
    for (counter, of_model, amount) in [
        (&counters.requests, &counted.requests, requests),
        (&counters.batches, &counted.batches, 1),
        (&counters.queries, &counted.queries, queries),
    ] {
        add(counter, amount);
        add(of_model, amount);
    }
    add(&counted.compute, reduce.0 + mlp.0);
    add(&counters.reduce, reduce.0);
    add(&counters.mlp, mlp.0);
}

impl Merged {
    fn fill(&mut self, batch: &[Ready], tables: usize) {
        self.dense.clear();
        batch.iter().for_each(|ready| self.dense.extend_from_slice(ready.queries.dense()));
        self.tables.resize_with(tables, Table::default);
        for (at, table) in self.tables.iter_mut().enumerate() {
            table.fill(batch.iter().map(|ready| ready.queries.bags(at)));
        }
    }
}

impl Table {
    fn fill<'b>(&mut self, parts: impl Iterator<Item = Bags<'b>> + Clone) {
        let Table { ids, offsets, weights, is_weighted, counts, is_keys } = self;
        ids.clear();
        offsets.clear();
        offsets.push(0);
        weights.clear();
        counts.clear();
        // One model made them all: keys or ids.
        *is_keys = parts.clone().any(|bags| bags.counts().is_some());
        *is_weighted = parts.clone().any(|bags| bags.weights().is_some());
        for bags in parts {
            let start = ids.len() as u32;
            ids.extend_from_slice(bags.values());
            offsets.extend(bags.offsets()[1..].iter().map(|offset| start + offset));
            counts.extend_from_slice(bags.counts().unwrap_or_default());
            match bags.weights() {
                // What has no weights beside what has them counts once.
                None if *is_weighted => weights.resize(ids.len(), 1.0),
                None => {}
                Some(own) => weights.extend_from_slice(own),
            }
        }
    }

    fn bags(&self) -> Bags<'_> {
        let weights = self.is_weighted.then_some(&self.weights[..]);
        match self.is_keys {
            true => Bags::keys(&self.ids, &self.offsets, weights, &self.counts),
            false => Bags::new(&self.ids, &self.offsets, weights),
        }
        .expect("bags that were checked, one after another")
    }
}
