//! Where a request's time goes, each stage as a histogram, in the order of its way:
//!
//! * *receive*: the edge's reading of its sockets, from waking up until the turn begins;
//! * *queue*: from the beginning of the turn, whose requests are parsed and submitted together, until the group's turn;
//! * *execute*: its group's touches and execution;
//! * *reply*: from the beginning of its group, which its reply is stamped with, until the edge has read it;
//! * *send*: the edge's write of the replies that it is among.
//!
//! Each is the time that passed for the request, whoever else had it too: the stages add up to its stay in the server.
//!
//! Cost: requests of one group share their time stamps, so recording is a few nanoseconds per group and stage.

use base::Nanos;
use hdrhistogram::Histogram;
use std::sync::{Mutex, PoisonError};

/// The stages of every request. Shared between the engine, the edges and whoever reports.
#[derive(Debug)]
pub struct Stages {
    receive: Mutex<Histogram<u64>>,
    queue: Mutex<Histogram<u64>>,
    execute: Mutex<Histogram<u64>>,
    reply: Mutex<Histogram<u64>>,
    send: Mutex<Histogram<u64>>,
}

/// One stage in numbers, times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageSummary {
    /// `receive`, `queue`, `execute`, `reply` or `send`.
    pub name: &'static str,
    /// Requests recorded.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Mean.
    pub mean_ns: f64,
}

impl Default for Stages {
    fn default() -> Stages {
        // Two significant digits from 1 ns to 100 s: about 20 KiB each.
        let histogram = || {
            let bounds = Histogram::new_with_bounds(1, 100_000_000_000, 2);
            Mutex::new(bounds.expect("constant bounds that hdrhistogram accepts"))
        };
        Stages {
            receive: histogram(),
            queue: histogram(),
            execute: histogram(),
            reply: histogram(),
            send: histogram(),
        }
    }
}

impl Stages {
    /// An edge read `requests` together, in `span`.
    pub fn received(&self, span: Nanos, requests: usize) {
        record(&self.receive, span, requests);
    }

    pub(crate) fn queued(&self, span: Nanos, requests: usize) {
        record(&self.queue, span, requests);
    }

    pub(crate) fn executed(&self, span: Nanos, requests: usize) {
        record(&self.execute, span, requests);
    }

    /// `requests` replies waited `span` between being written and being read by their edge.
    pub fn replied(&self, span: Nanos, requests: usize) {
        record(&self.reply, span, requests);
    }

    /// An edge wrote `replies` together, in `span`.
    pub fn sent(&self, span: Nanos, replies: usize) {
        record(&self.send, span, replies);
    }

    fn all(&self) -> [(&'static str, &Mutex<Histogram<u64>>); 5] {
        [
            ("receive", &self.receive),
            ("queue", &self.queue),
            ("execute", &self.execute),
            ("reply", &self.reply),
            ("send", &self.send),
        ]
    }

    /// All stages since the start or the last [`Stages::reset`].
    pub fn summary(&self) -> [StageSummary; 5] {
        self.all().map(|(name, stage)| {
            let h = stage.lock().unwrap_or_else(PoisonError::into_inner);
            StageSummary {
                name,
                count: h.len(),
                p50_ns: h.value_at_quantile(0.5),
                p99_ns: h.value_at_quantile(0.99),
                mean_ns: h.mean(),
            }
        })
    }

    /// All stages as histograms of nanoseconds, copied.
    pub fn histograms(&self) -> [(&'static str, Histogram<u64>); 5] {
        self.all().map(|(name, stage)| (name, stage.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }

    /// Forgets everything recorded.
    pub fn reset(&self) {
        for (_, stage) in self.all() {
            stage.lock().unwrap_or_else(PoisonError::into_inner).reset();
        }
    }
}

/// Requests in a row that took equally long, as those of one group did: one record for all of them.
#[derive(Debug, Default)]
pub struct StageRun {
    span: Nanos,
    requests: usize,
}

impl StageRun {
    /// One more request took `span`.
    #[inline]
    pub fn add(&mut self, span: Nanos, record: impl FnOnce(Nanos, usize)) {
        if span != self.span {
            self.finish(record);
            self.span = span;
        }
        self.requests += 1;
    }

    /// Records the last requests of the row.
    pub fn finish(&mut self, record: impl FnOnce(Nanos, usize)) {
        if self.requests > 0 {
            record(self.span, std::mem::take(&mut self.requests));
        }
    }
}

fn record(stage: &Mutex<Histogram<u64>>, span: Nanos, requests: usize) {
    if requests == 0 {
        return;
    }
    let mut h = stage.lock().unwrap_or_else(PoisonError::into_inner);
    h.saturating_record_n(span.0.max(1), requests as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_spans_in_a_row_are_one_record() {
        let mut records = vec![];
        let mut run = StageRun::default();
        for span in [5, 5, 7, 7, 7, 5] {
            run.add(Nanos(span), |span, n| records.push((span.0, n)));
        }
        run.finish(|span, n| records.push((span.0, n)));
        assert_eq!(records, [(5, 2), (7, 3), (5, 1)]);
    }

    #[test]
    fn stages_count_requests_and_forget_on_reset() {
        let stages = Stages::default();
        stages.received(Nanos(90), 3);
        stages.queued(Nanos(100), 3);
        stages.executed(Nanos(1_000), 2);
        stages.replied(Nanos::MAX, 1);
        stages.sent(Nanos(50), 0);
        let summary = stages.summary();
        assert_eq!(summary.map(|s| s.count), [3, 3, 2, 1, 0]);
        assert_eq!(summary.map(|s| s.p50_ns)[..2], [90, 100]);
        stages.reset();
        assert_eq!(stages.summary().map(|s| s.count), [0; 5]);
    }
}
