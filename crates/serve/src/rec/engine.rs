//! The engine core: takes what is there up to a batch, or waits a little for more, computes it, and answers.
//!
//! Invariants: a batch is of one model; what another model checked begins the next. Requests are whole: their queries are never split over batches.
//!
//! Bounds: `rec.batch` queries, or one request that has more.

use super::busy::Busy;
use super::counters::{Counters, add};
use super::job::{Ready, Tools};
use super::refusal::Refusal;
use super::rings::Taken;
use crate::admin::health::Beat;
use crate::rec::registers::{Id, Registers};
use base::{Clock, Nanos};
use rec::{Bags, Batch, Scratch, Stages, Tuning};
use ring::spsc::Consume;
use ring::wait::{Sleeper, WaitPolicy, Waker};
use std::sync::Arc;
use std::time::Duration;

/// Waits that are shorter than this are not slept through: a sleep takes about as long.
const AWAKE: Nanos = Nanos::from_micros(100);

/// Ids of a batch, beyond those of its first request: so that a merged table's offsets stay in 32 bits.
const MOST_ROWS: usize = 1 << 24;

/// See the head of the file.
pub struct Engine {
    /// From preprocessing.
    pub ring: Taken<Ready>,
    /// What it counts.
    pub counters: Arc<Counters>,
    /// What it follows.
    pub registers: Arc<Registers>,
    /// Woken by preprocessing.
    pub sleeper: Sleeper,
    /// How it waits.
    pub policy: WaitPolicy,
    /// Preprocessing, which may wait for room.
    pub before: Waker,
    /// Of another model, or too much for the last batch.
    pub held: Option<Ready>,
    /// Says that it turns, also while it waits.
    pub beat: Beat,
}

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

impl Engine {
    /// Works until preprocessing is gone.
    pub fn run(mut self) {
        let clock = Clock::shared();
        let mut memory = Memory::default();
        let mut batch = Vec::new();
        while let Some(first) = self.first() {
            self.beat.turn();
            self.gather(first, &mut batch, clock);
            self.before.wake();
            let mut busy = Busy::start();
            self.compute(&mut batch, &mut memory, clock);
            busy.count(&self.counters.engine_busy);
        }
    }

    /// What begins a batch; none when there will be nothing more.
    fn first(&mut self) -> Option<Ready> {
        loop {
            if let Some(ready) = self.held.take().or_else(|| self.ring.try_pop()) {
                return Some(ready);
            }
            // In this order: what was pushed before it went is seen.
            let is_gone = self.ring.is_abandoned();
            if is_gone && !self.ring.is_ready() {
                return None;
            }
            let (ring, beat) = (&mut self.ring, &self.beat);
            self.sleeper.wait_until(self.policy, None, || {
                beat.turn();
                ring.is_ready() || ring.is_abandoned()
            });
        }
    }

    /// A batch that begins with `first`.
    fn gather(&mut self, first: Ready, batch: &mut Vec<Ready>, clock: Clock) {
        let most = self.registers.size(Id::Batch);
        let linger = Nanos::from_micros(self.registers.read(Id::Linger));
        let until = clock.now().plus(linger);
        let (mut len, mut rows) = (first.queries.len(), first.queries.rows());
        batch.push(first);
        while len < most {
            let Some(next) = self.ring.try_pop() else {
                if linger == Nanos::ZERO || !self.wait(until, clock) {
                    return;
                }
                continue;
            };
            rows += next.queries.rows();
            let is_other = !Arc::ptr_eq(&next.served, &batch[0].served);
            if is_other || len + next.queries.len() > most || rows > MOST_ROWS {
                self.held = Some(next);
                return;
            }
            len += next.queries.len();
            batch.push(next);
        }
    }

    /// Waits for more until then; whether there is.
    fn wait(&mut self, until: Nanos, clock: Clock) -> bool {
        loop {
            let left = until.since(clock.now());
            if self.ring.is_ready() {
                return true;
            }
            if left == Nanos::ZERO || self.ring.is_abandoned() {
                return false;
            }
            if left > AWAKE {
                let (ring, time) = (&mut self.ring, Duration::from(left));
                self.sleeper.wait_until(self.policy, Some(time), || ring.is_ready() || ring.is_abandoned());
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn compute(&mut self, batch: &mut Vec<Ready>, memory: &mut Memory, clock: Clock) {
        let counters = Arc::clone(&self.counters);
        batch.retain(|ready| {
            let given_up = ready.reply.is_given_up();
            add(&counters.given_up, u64::from(given_up));
            !given_up
        });
        let Some(first) = batch.first() else { return };
        let served = Arc::clone(&first.served);
        let tuning = Tuning { prefetch: self.registers.size(Id::Prefetch) };
        let Memory { merged, scratch, scores, tools } = memory;
        let began = clock.now();
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
                ready.reply.refuse(&Refusal::Internal("the model refuses queries that were checked"));
            });
        }
        let mlp = spent.total().since(spent.reduce);
        let outputs = served.model().outputs();
        let mut rest = &scores[..];
        add(&counters.requests, batch.len() as u64);
        for ready in batch.drain(..) {
            let (own, behind) = rest.split_at(ready.queries.len() * outputs);
            rest = behind;
            add(&counters.rows, ready.queries.rows() as u64);
            let mut stages = ready.stages;
            stages.wait = began.since(ready.at);
            (stages.reduce, stages.mlp) = (spent.reduce, mlp);
            stages.together = len as u32;
            ready.reply.scores(&served, own, stages, tools);
        }
        add(&counters.batches, 1);
        add(&counters.queries, len as u64);
        add(&counters.reduce, spent.reduce.0);
        add(&counters.mlp, mlp.0);
        add(&counters.reply, clock.now().since(done).0);
    }
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
