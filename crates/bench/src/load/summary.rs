//! A tally as figures for people and programs: what tables, plots and `--json` show.

use super::counts::Tally;
use super::mix::OpKind;
use super::server::CpuUse;
use crate::tally::{CurvePoint, Latency, curve};
use serde::Serialize;
use std::collections::BTreeMap;

/// The latencies of one kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KindLatency {
    /// The kind.
    pub kind: OpKind,
    /// Its latencies.
    #[serde(flatten)]
    pub latency: Latency,
}

/// One interval of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SeriesPoint {
    /// Its begin, in seconds.
    pub at_s: f64,
    /// Operations per second in it.
    pub ops_per_sec: f64,
    /// The median latency, absent where nothing was done.
    pub p50_us: Option<f64>,
    /// The 99th percentile.
    pub p99_us: Option<f64>,
}

/// CPU time per operation, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpuPerOp {
    /// All of it.
    pub total_us: f64,
    /// In user code.
    pub user_us: f64,
    /// In the kernel.
    pub system_us: f64,
    /// Cores kept busy.
    pub cores: f64,
}

/// One phase in figures.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Operations done.
    pub ops: u64,
    /// In this many seconds.
    pub seconds: f64,
    /// Operations per second.
    pub ops_per_sec: f64,
    /// Latencies of all operations.
    pub all: Latency,
    /// Latencies by kind.
    pub kinds: Vec<KindLatency>,
    /// Keys found of keys asked for; absent where none were.
    pub hit_ratio: Option<f64>,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
    /// Conditional writes that met another's write.
    pub conflicts: u64,
    /// Values held against what may be read.
    pub verified: u64,
    /// Wrong values by kind; empty is good.
    pub wrong: BTreeMap<&'static str, u64>,
    /// Failed operations by kind; empty is good.
    pub failed: BTreeMap<&'static str, u64>,
    /// The first wrong values and failures in words.
    pub examples: Vec<String>,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// CPU time of the generator per operation.
    pub client_cpu_us_per_op: f64,
    /// CPU time of the server per operation, where it can be watched.
    pub server_cpu: Option<CpuPerOp>,
    /// Latencies of the reads that a box answered on the way to the server.
    pub by_box: Option<Latency>,
    /// Requests that were sent again because nothing came.
    pub sent_again: u64,
    /// Open loop: how much later than intended requests were sent.
    pub send_lag: Option<Latency>,
    /// Open loop: requests that were due but never sent, because no place was free.
    pub unsent: u64,
    /// Why it ended early, if it did.
    pub ended_early: Option<String>,
    /// The percentile curve.
    pub curve: Vec<CurvePoint>,
    /// By interval of time.
    pub series: Vec<SeriesPoint>,
}

impl Summary {
    /// The figures of `tally`, with the server's CPU time where it is known.
    pub fn of(tally: &Tally, server: Option<CpuUse>) -> Summary {
        let all = tally.all_latencies();
        let ops = all.len();
        let per_op = |ns: u64| if ops == 0 { 0.0 } else { ns as f64 / 1e3 / ops as f64 };
        let asked = tally.counts.hits + tally.counts.misses;
        Summary {
            ops,
            seconds: tally.elapsed.as_secs_f64(),
            ops_per_sec: tally.throughput(),
            all: Latency::of(&all),
            kinds: kinds(tally),
            hit_ratio: (asked > 0).then(|| tally.counts.hits as f64 / asked as f64),
            hits: tally.counts.hits,
            misses: tally.counts.misses,
            conflicts: tally.counts.conflicts,
            verified: tally.counts.verified,
            wrong: tally.counts.wrongs.clone(),
            failed: tally.failed.clone(),
            examples: tally.examples.clone(),
            bytes_sent: tally.counts.sent,
            bytes_received: tally.counts.received,
            client_cpu_us_per_op: per_op(tally.client_cpu.0),
            server_cpu: server.filter(|_| ops > 0).map(|used| CpuPerOp {
                total_us: per_op(used.total_ns),
                user_us: per_op(used.total_ns - used.system_ns),
                system_us: per_op(used.system_ns),
                cores: used.total_ns as f64 / tally.elapsed.0.max(1) as f64,
            }),
            by_box: tally.counts.by_box.as_deref().map(Latency::of),
            sent_again: tally.counts.sent_again,
            send_lag: tally.lag.as_deref().map(Latency::of),
            unsent: tally.unsent,
            ended_early: tally.fatal.clone(),
            curve: curve(&all),
            series: series(tally),
        }
    }

    /// How many values were wrong.
    pub fn wrong_count(&self) -> u64 {
        self.wrong.values().sum()
    }

    /// How many operations failed.
    pub fn failed_count(&self) -> u64 {
        self.failed.values().sum()
    }
}

fn kinds(tally: &Tally) -> Vec<KindLatency> {
    let of = |kind| Some(KindLatency { kind, latency: Latency::of(tally.latencies(kind)?) });
    OpKind::ALL.into_iter().filter_map(of).collect()
}

fn series(tally: &Tally) -> Vec<SeriesPoint> {
    let Some(timeline) = &tally.timeline else { return Vec::new() };
    let step_s = timeline.step().as_secs_f64();
    let whole = (tally.elapsed.as_secs_f64() / step_s).floor().max(1.0) as usize;
    let bins = timeline.bins().iter().enumerate().take(whole);
    bins.map(|(at, bin)| {
        let us = |q| (!bin.is_empty()).then(|| bin.value_at_quantile(q) as f64 / 1e3);
        SeriesPoint {
            at_s: at as f64 * step_s,
            ops_per_sec: bin.len() as f64 / step_s,
            p50_us: us(0.5),
            p99_us: us(0.99),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Nanos;

    #[test]
    fn figures_of_a_known_tally() {
        let mut tally = Tally::new(Nanos::ZERO, Nanos::from_millis(1));
        for i in 1..=1_000u64 {
            tally.record(OpKind::Get, Nanos(i * 2_000 - 1_500), Nanos(i * 2_000));
        }
        tally.elapsed = Nanos::from_millis(2);
        (tally.counts.hits, tally.counts.misses) = (900, 100);
        let s = Summary::of(&tally, Some(CpuUse { total_ns: 1_000_000, system_ns: 250_000 }));
        assert_eq!((s.ops, s.hit_ratio, s.ops_per_sec.round()), (1_000, Some(0.9), 500_000.0));
        assert!((s.all.p50_us - 1.5).abs() < 0.01 && (s.all.max_us - 1.5).abs() < 0.01);
        let cpu = s.server_cpu.expect("given");
        assert_eq!((cpu.total_us, cpu.user_us, cpu.system_us, cpu.cores), (1.0, 0.75, 0.25, 0.5));
        assert!(s.curve.windows(2).all(|w| w[0].us <= w[1].us && w[0].quantile < w[1].quantile));
        assert_eq!(s.series.len(), 2);
        assert!(s.wrong.is_empty() && s.failed.is_empty());
    }

    #[test]
    fn nothing_measured_is_no_error() {
        let s = Summary::of(&Tally::new(Nanos::ZERO, Nanos(1)), None);
        assert_eq!((s.ops, s.hit_ratio, s.ops_per_sec, s.curve.len()), (0, None, 0.0, 0));
        assert!(serde_json::to_string(&s).is_ok());
    }
}
