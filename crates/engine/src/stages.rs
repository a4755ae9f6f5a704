//! Where a request's time goes, each stage as a histogram: *queue* (from its submission until its group's turn), *execute* (its
//! group's touches and execution), *reply* (from the beginning of its group, which its reply is stamped with, until the edge
//! has read it).
//!
//! Cost: requests of one group share their time stamps, so recording is a few nanoseconds per group and stage.

use base::Nanos;
use hdrhistogram::Histogram;
use std::sync::{Mutex, PoisonError};

/// The three stages of every request through an engine. Shared between the engine, the edges and whoever reports.
#[derive(Debug)]
pub struct Stages {
    queue: Mutex<Histogram<u64>>,
    execute: Mutex<Histogram<u64>>,
    reply: Mutex<Histogram<u64>>,
}

/// One stage in numbers, times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageSummary {
    /// `queue`, `execute` or `reply`.
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
        Stages { queue: histogram(), execute: histogram(), reply: histogram() }
    }
}

impl Stages {
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

    /// All stages since the start or the last [`Stages::reset`].
    pub fn summary(&self) -> [StageSummary; 3] {
        [("queue", &self.queue), ("execute", &self.execute), ("reply", &self.reply)].map(|(name, stage)| {
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

    /// Forgets everything recorded.
    pub fn reset(&self) {
        for stage in [&self.queue, &self.execute, &self.reply] {
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
        stages.queued(Nanos(100), 3);
        stages.executed(Nanos(1_000), 2);
        stages.replied(Nanos::MAX, 1);
        let [queue, execute, reply] = stages.summary();
        assert_eq!((queue.count, execute.count, reply.count), (3, 2, 1));
        assert_eq!((queue.p50_ns, execute.name), (100, "execute"));
        stages.reset();
        assert_eq!(stages.summary().map(|s| s.count), [0, 0, 0]);
    }
}
