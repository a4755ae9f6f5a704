//! A workload from what `millrace bench --json` measured, or from a recording ([`super::recording`]).
//!
//! What the file says is taken: shares of operations as they were counted, sizes, number of keys, skew, requests under way, the rate (of an open loop that
//! which was asked for, of a closed one that which was reached), and latencies, which stand beside the predicted ones. What is not used is said.
//!
//! What it cannot say is a model of a hash table with a log: an operation reads a bucket of 64 B and then the item, so two accesses of which the second
//! needs the first; an item has 64 B of header and index. Cycles of a host core are the server's processor time per operation, where it was watched and
//! the processor's name says its clock; that includes the kernel's sockets.

use super::recording;
use base::Prng;
use bench::load::mix::OpKind;
use bench::load::sizes::ValueSizes;
use bench::report::format::{micros, short};
use model::plan::Plan;
use model::workload::{Class, Slo, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

#[derive(Deserialize)]
struct Trace {
    setup: Setup,
    outcome: Outcome,
    #[serde(default)]
    environment: Vec<Fact>,
}

#[derive(Deserialize)]
struct Setup {
    workload: Load,
    pace: Pace,
    keys: u64,
    key_size: u64,
    connections: u64,
    pipeline: u64,
}

#[derive(Deserialize)]
struct Load {
    mix: BTreeMap<String, f64>,
    popularity: Popularity,
    values: Sizes,
    multiget: u64,
    longest_scan: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Popularity {
    Uniform,
    Zipf(f64),
    Latest(f64),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Sizes {
    Fixed(usize),
    Range(usize, usize),
    Etc,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Pace {
    Closed {},
    Open { rate: f64 },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Single(Box<Summary>),
    /// Of two servers the first counts.
    Versus {
        a: Box<Summary>,
    },
}

#[derive(Deserialize)]
struct Summary {
    kinds: Vec<Kind>,
    server_cpu: Option<Cpu>,
    #[serde(default)]
    ops_per_sec: Option<f64>,
    #[serde(default)]
    all: Option<Quantiles>,
}

#[derive(Deserialize)]
struct Quantiles {
    p50_us: f64,
    p99_us: f64,
}

/// What was measured of the server that was there: of whichever processors it had.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Measured {
    /// Requests per second that were answered.
    pub(super) rate: Option<f64>,
    /// Seconds of the median and of the 99th percentile.
    pub(super) latencies: Option<(f64, f64)>,
}

/// A trace as the planner takes it.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) workload: Workload,
    pub(super) measured: Measured,
    /// What it rests on, and what of the file is not used.
    pub(super) remarks: Vec<String>,
    /// Method by method, of a recording.
    pub(super) table: Option<String>,
}

/// The workload of a file: of a recording, of one service by name if that is said, or of what bench measured.
///
/// # Errors
/// It cannot be read, or is neither. A sentence with its line.
pub(super) fn of_file(path: &Path, service: Option<&str>) -> Result<Taken, String> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|cause| format!("{name}: {cause}"))?;
    let mut from = BufReader::new(file);
    let head = from.fill_buf().map_err(|cause| format!("{name}: {cause}"))?;
    // The first line of a recording says so.
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if String::from_utf8_lossy(first).contains("\"millrace_recording\"") {
        return recording::workload(from, &name, service);
    }
    if let Some(service) = service {
        return Err(format!(
            "{name} is no recording: only those have services, so leave out --service {service}"
        ));
    }
    let mut text = String::new();
    from.read_to_string(&mut text).map_err(|cause| format!("{name}: {cause}"))?;
    workload(&text, &name)
}

impl Measured {
    /// Beside what the model says of the host alone, which is what was measured, or else of the first.
    pub(super) fn beside(&self, plan: &Plan) -> Vec<String> {
        let like = plan.ranking.iter().find(|ranked| ranked.host_only).unwrap_or(&plan.ranking[0]);
        let mut said = Vec::new();
        if let Some(rate) = self.rate {
            let most = short(like.most);
            said.push(format!("measured: {}/s; {} serves {most}/s at most here", short(rate), like.name));
        }
        let Some(((p50, p99), seen)) = self.latencies.zip(like.at_rate) else { return said };
        let one = |name: &str, measured: f64, predicted: f64| {
            let (was, is) = (micros(measured * 1e6), micros(predicted * 1e6));
            format!("{name} {was} measured, {is} predicted ({:.2} times)", predicted / measured)
        };
        let both = [one("p50", p50, seen.p50), one("p99", p99, seen.p99)].join("; ");
        said.push(format!("{both}: {} on {} at {}/s", like.name, plan.platform, short(like.rate)));
        said
    }
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
    count: u64,
}

#[derive(Deserialize)]
struct Cpu {
    total_us: f64,
}

#[derive(Deserialize)]
struct Fact {
    name: String,
    value: String,
}

/// Header and index of an item.
const ITEM: u64 = 64;
const BUCKET: u64 = 64;
/// A reply that says no more than whether it was done.
const DONE: u64 = 8;

/// The workload, and a sentence on what it rests on.
pub(super) fn workload(text: &str, file: &str) -> Result<Taken, String> {
    let trace: Trace = serde_json::from_str(text).map_err(|error| {
        format!(
            "{file}:{}: {error}; a trace is a recording (up --record), or what `millrace bench --json` prints of one number of keys",
            error.line()
        )
    })?;
    let (setup, load) = (&trace.setup, &trace.setup.workload);
    let summary = match &trace.outcome {
        Outcome::Single(summary) | Outcome::Versus { a: summary } => summary,
    };
    let value = mean(&load.values);
    let cycles = cycles(summary, &trace.environment);
    let classes: Vec<Class> = shares(load, summary)
        .into_iter()
        .map(|(kind, share)| class(kind, share, setup, value, cycles.unwrap_or(0.0)))
        .collect();
    if classes.is_empty() {
        return Err(format!("{file}: no operation was made, so there is nothing to plan"));
    }
    let workload = Workload {
        name: "trace".into(),
        title: format!("What bench measured ({file})"),
        keys: setup.keys.max(1),
        skew: match load.popularity {
            Popularity::Uniform => 0.0,
            Popularity::Zipf(theta) | Popularity::Latest(theta) => theta,
        },
        working_set: setup.keys.max(1) * (setup.key_size + value + ITEM),
        window: (setup.connections * setup.pipeline).max(1),
        rate: match setup.pace {
            Pace::Open { rate } => Some(rate),
            Pace::Closed {} => summary.ops_per_sec.filter(|rate| rate.is_finite() && *rate > 0.0),
        },
        host_cores: None,
        places: None,
        classes,
    };
    let host = match cycles {
        Some(cycles) => format!("{cycles:.0} cycles of a host core, as the server took"),
        None => "the host's cycles unknown: 0 beside what the platform adds".into(),
    };
    let positive = |value: f64| value.is_finite() && value > 0.0;
    let latencies = summary.all.as_ref().map(|all| (all.p50_us / 1e6, all.p99_us / 1e6));
    let measured = Measured {
        rate: summary.ops_per_sec.filter(|rate| positive(*rate)),
        latencies: latencies.filter(|(p50, p99)| positive(*p50) && positive(*p99)),
    };
    let rate = match (&setup.pace, workload.rate) {
        (Pace::Open { .. }, _) => "the rate that was asked for",
        (_, Some(_)) => "the rate that was reached",
        _ => "no rate",
    };
    let taken = format!("trace: shares, sizes and {rate}, two dependent accesses an operation, {host}");
    let unused = "not used of the trace: which keys came when, times to live, hits and misses, latencies by kind, the client's processor time";
    Ok(Taken { workload, measured, remarks: vec![taken, unused.into()], table: None })
}

/// Shares of kinds: as counted, or as asked for where nothing was counted.
fn shares(load: &Load, summary: &Summary) -> Vec<(OpKind, f64)> {
    let kind = |name: &str| OpKind::ALL.into_iter().find(|kind| kind.name() == name);
    let whole: u64 = summary.kinds.iter().map(|of| of.count).sum();
    let counted = summary.kinds.iter().filter(|of| of.count > 0);
    let counted: Vec<_> =
        counted.filter_map(|of| Some((kind(&of.kind)?, of.count as f64 / whole as f64))).collect();
    let wanted = || load.mix.iter().filter_map(|(name, share)| Some((kind(name)?, *share)));
    if counted.is_empty() { wanted().filter(|(_, share)| *share > 0.0).collect() } else { counted }
}

fn class(kind: OpKind, share: f64, setup: &Setup, value: u64, cycles: f64) -> Class {
    let key = setup.key_size;
    let reads = match kind {
        OpKind::Get => setup.workload.multiget.max(1),
        OpKind::Scan => setup.workload.longest_scan.div_ceil(2).max(1),
        _ => 1,
    };
    let (request, reply, store) = match kind {
        OpKind::Get | OpKind::Scan => (reads * key, reads * value, 0),
        OpKind::Set | OpKind::Insert => (key + value, DONE, value),
        OpKind::Delete | OpKind::Touch => (key, DONE, 0),
        OpKind::Modify => (2 * key + value, value + DONE, value),
    };
    let many = if reads > 1 { (reads, value + ITEM) } else { (0, 0) };
    Class {
        name: kind.name().to_uppercase(),
        share,
        request: request.max(1),
        reply,
        lookups: if kind == OpKind::Modify { 4 } else { 2 },
        lookup: BUCKET,
        rows: many.0,
        row: many.1,
        store,
        copies: 0,
        cycles,
        fields: 0,
        cacheable: kind == OpKind::Get && reads == 1,
        calls: Vec::new(),
        slo: Slo::default(),
    }
}

fn mean(sizes: &Sizes) -> u64 {
    let sizes = match *sizes {
        Sizes::Fixed(size) => return size as u64,
        Sizes::Range(low, high) => return (low + high) as u64 / 2,
        Sizes::Etc => ValueSizes::Etc,
    };
    const DRAWS: u64 = 20_000;
    let mut prng = Prng::new(1);
    (0..DRAWS).map(|_| sizes.draw(&mut prng) as u64).sum::<u64>() / DRAWS
}

/// Processor time of an operation in cycles, if both it and the clock are known.
fn cycles(summary: &Summary, environment: &[Fact]) -> Option<f64> {
    let processor = environment.iter().find(|fact| fact.name == "processor")?;
    let (_, clock) = processor.value.rsplit_once('@')?;
    let hertz = clock.trim().strip_suffix("GHz")?.trim().parse::<f64>().ok()? * 1e9;
    Some(summary.server_cpu.as_ref()?.total_us * 1e-6 * hertz)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"{
        "setup": {
            "servers": [], "seed": 1, "batch": 1, "threads": 1, "spin": false, "strict": false,
            "workload": {
                "mix": {"get": 0.9, "set": 0.1}, "popularity": {"zipf": 0.9}, "values": {"fixed": 100},
                "ttl_s": 0, "multiget": 1, "longest_scan": 100
            },
            "pace": {"open": {"rate": 50000.0, "poisson": true}},
            "keys": 1000, "key_size": 20, "connections": 4, "pipeline": 8
        },
        "outcome": {"single": {
            "ops": 100, "kinds": [{"kind": "get", "count": 75}, {"kind": "set", "count": 25}],
            "ops_per_sec": 49000.0, "all": {"count": 100, "p50_us": 90.0, "p99_us": 250.0},
            "server_cpu": {"total_us": 4.0}
        }},
        "environment": [{"name": "processor", "value": "Some CPU @ 2.50GHz"}]
    }"#;

    #[test]
    fn a_trace_becomes_a_workload() {
        let Taken { workload, measured, remarks, .. } = workload(TRACE, "run.json").expect("it is right");
        let remark = &remarks[0];
        assert_eq!(measured, Measured { rate: Some(49_000.0), latencies: Some((90e-6, 250e-6)) });
        assert!(
            remark.contains("the rate that was asked for") && remarks[1].contains("not used"),
            "{remarks:?}"
        );
        assert_eq!((workload.window, workload.rate, workload.skew), (32, Some(5e4), 0.9));
        assert_eq!(workload.working_set, 1000 * 184);
        let of = |class: &Class| (class.name.clone(), class.share, class.request, class.reply, class.store);
        let classes: Vec<_> = workload.classes.iter().map(of).collect();
        let wanted = [("GET".to_string(), 0.75, 20, 100, 0), ("SET".to_string(), 0.25, 120, 8, 100)];
        assert_eq!(classes, wanted);
        assert!((workload.classes[0].cycles - 10_000.0).abs() < 1e-6 && remark.contains("10000 cycles"));
    }

    #[test]
    fn a_closed_loop_has_the_rate_that_it_reached_and_latencies_stand_beside_the_predicted() {
        let closed = TRACE.replace(r#"{"open": {"rate": 50000.0, "poisson": true}}"#, r#"{"closed": {}}"#);
        let taken = workload(&closed, "run.json").expect("it is right");
        assert_eq!(taken.workload.rate, Some(49_000.0));
        let platform =
            model::platform::shipped::shipped("connectx6").expect("it is shipped").expect("it is sound");
        let question = model::plan::Question { top: 1, ..Default::default() };
        let plan = model::plan::plan(&platform, &taken.workload, &question).expect("it plans");
        let said = taken.measured.beside(&plan).join("; ");
        assert!(said.contains("measured: 49") && said.contains("p99 250.0 µs measured"), "{said}");
        let seen = plan.ranking.iter().find(|of| of.host_only).and_then(|of| of.at_rate).expect("it ran");
        let ratio = format!("predicted ({:.2} times)", seen.p50 / 90e-6);
        assert!(said.contains(&ratio), "{said} has no {ratio}");
        // An older file without them.
        let old = closed.replace(
            r#""ops_per_sec": 49000.0, "all": {"count": 100, "p50_us": 90.0, "p99_us": 250.0},"#,
            "",
        );
        let taken = workload(&old, "run.json").expect("it is right");
        assert!(taken.workload.rate.is_none() && taken.measured.beside(&plan).is_empty());
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        let wrong = workload("{\n\"setup\": 3}", "run.json").expect_err("no setup");
        assert!(wrong.starts_with("run.json:2:") && wrong.contains("bench --json"), "{wrong}");
    }
}
