//! What a node's admin port says at one moment: its registers as JSON, and its page of metrics, as counters.
//!
//! Services are found by the registers that each kind has; nothing is taken from a page but what is asked for, so a page may hold anything.
//!
//! Bounds: [`SERVICES_MAX`] services, [`METHODS_MAX`] methods of each by name, [`REGISTERS_MAX`] registers; what is beyond is left out.

use super::observation::{Kind, Register, SERVICES_MAX};
use serde::Deserialize;
use serve::metrics::read::{label, samples, sum};
use std::collections::BTreeMap;

/// Methods of a service that are told apart.
const METHODS_MAX: usize = 64;
/// Registers of a node that are read.
const REGISTERS_MAX: usize = 8192;
/// Threads of a node that are told apart.
const THREADS_MAX: usize = 1024;
/// Ends of a histogram's buckets that are read.
const BUCKETS_MAX: usize = 64;

/// Of each kind, the register that no other has.
const KINDS: [(Kind, &str); 3] =
    [(Kind::Kv, "engine.mode"), (Kind::Rpc, "place.handlers"), (Kind::Rec, "place.rec.preprocess")];

/// A histogram as it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Histogram {
    pub count: f64,
    pub seconds: f64,
    /// Upper ends in seconds, and how many were not longer.
    pub buckets: Vec<(f64, f64)>,
}

/// A service's counters as they stand.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServiceReading {
    pub name: String,
    pub kind: Kind,
    pub registers: Vec<Register>,
    /// By a name of ours.
    pub counters: BTreeMap<&'static str, f64>,
    pub stages: BTreeMap<&'static str, Histogram>,
    /// Whole stays of requests, where the node has them as a histogram.
    pub stays: Option<Histogram>,
    pub methods: BTreeMap<String, f64>,
    /// Connections open, by transport.
    pub connections: BTreeMap<String, f64>,
    /// Bytes of what it keeps.
    pub stored_bytes: f64,
}

/// A node as it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// When it was asked, in microseconds.
    pub at_us: u64,
    /// When the process began, by its own clock.
    pub started: f64,
    /// Processor time of the process, in seconds.
    pub cpu: f64,
    /// The same by threads of one name.
    pub threads: BTreeMap<String, f64>,
    pub services: Vec<ServiceReading>,
}

/// A register as an admin port says it.
#[derive(Deserialize)]
struct Row {
    name: String,
    number: u64,
    range: [u64; 2],
    #[serde(default)]
    choices: Vec<String>,
    live: bool,
}

impl Reading {
    /// Reads what a node answered to `GET /metrics` and `GET /registers`.
    ///
    /// # Errors
    /// It is not what an admin port of millrace answers.
    pub(super) fn of(at_us: u64, metrics: &str, registers: &str) -> Result<Reading, String> {
        let rows: Vec<Row> = serde_json::from_str(registers)
            .map_err(|error| format!("/registers is no list of registers: {error}"))?;
        let one = |family| sum(metrics, family, &[]);
        let (Some(cpu), Some(started)) =
            (one("process_cpu_seconds_total"), one("process_start_time_seconds"))
        else {
            return Err(
                "/metrics does not say the processor time of the process and when it began".to_owned()
            );
        };
        let threads = samples(metrics, "process_thread_cpu_seconds_total")
            .filter_map(|(labels, value)| Some((label(labels, "thread")?.to_owned(), value)));
        let services = services(&rows).into_iter().map(|(name, kind, registers)| ServiceReading {
            counters: counters(metrics, &name, kind),
            stages: stages(metrics, &name, kind),
            stays: (kind == Kind::Rpc)
                .then(|| histogram(metrics, "millrace_rpc_call_seconds", &name, &SERVER)),
            methods: methods(metrics, &name, kind),
            connections: connections(metrics, &name, kind),
            stored_bytes: match kind {
                Kind::Kv => sum(metrics, "millrace_kv_item_bytes", &labels(&name, &[])).unwrap_or(0.0),
                Kind::Rpc | Kind::Rec => 0.0,
            },
            name,
            kind,
            registers,
        });
        Ok(Reading {
            at_us,
            started,
            cpu,
            threads: threads.take(THREADS_MAX).collect(),
            services: services.collect(),
        })
    }
}

/// Registers by their services.
fn services(rows: &[Row]) -> Vec<(String, Kind, Vec<Register>)> {
    let mut found: Vec<(String, Kind, Vec<Register>)> = Vec::new();
    for row in rows.iter().take(REGISTERS_MAX) {
        let of_kind = KINDS.iter().find_map(|(kind, own)| {
            let before = row.name.strip_suffix(own)?;
            let name = if before.is_empty() { before } else { before.strip_suffix('.')? };
            Some((name.to_owned(), *kind))
        });
        let Some((name, kind)) = of_kind else { continue };
        if found.len() == SERVICES_MAX || found.iter().any(|(other, ..)| *other == name) {
            continue;
        }
        let own = |row: &Row| {
            let rest = row.name.strip_prefix(&name)?;
            let short = if name.is_empty() { rest } else { rest.strip_prefix('.')? };
            let Row { number, range, choices, live, .. } = row;
            Some(Register {
                name: short.to_owned(),
                number: *number,
                range: *range,
                choices: choices.clone(),
                live: *live,
            })
        };
        let registers = rows.iter().take(REGISTERS_MAX).filter_map(own).collect();
        found.push((name, kind, registers));
    }
    found
}

/// Of RPC, what a server counted.
const SERVER: [(&str, &str); 1] = [("side", "server")];

/// A counter of ours: its name, the family, labels.
type Asked = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const OF_KV: &[Asked] = &[
    ("requests", "millrace_kv_requests_total", &[]),
    ("expired", "millrace_kv_requests_expired_total", &[]),
    ("values_refused", "millrace_kv_values_refused_total", &[]),
    ("executed", "millrace_kv_requests_executed_total", &[]),
    ("passes", "millrace_kv_engine_passes_total", &[]),
    ("received", "millrace_kv_received_bytes_total", &[]),
    ("sent", "millrace_kv_sent_bytes_total", &[]),
];
const OF_RPC: &[Asked] = &[
    ("requests", "millrace_rpc_calls_started_total", &SERVER),
    ("ended", "millrace_rpc_calls_ended_total", &SERVER),
    ("ended_well", "millrace_rpc_calls_ended_total", &[("side", "server"), ("code", "OK")]),
    ("received", "millrace_rpc_frame_bytes_total", &[("side", "server"), ("direction", "received")]),
    ("sent", "millrace_rpc_frame_bytes_total", &[("side", "server"), ("direction", "sent")]),
];
const OF_REC: &[Asked] = &[
    ("requests", "millrace_rec_requests_taken_total", &[]),
    ("answered", "millrace_rec_requests_total", &[("outcome", "answered")]),
    ("refused", "millrace_rec_requests_total", &[("outcome", "refused")]),
    ("expired", "millrace_rec_requests_total", &[("outcome", "expired")]),
    ("panicked", "millrace_rec_requests_total", &[("outcome", "panicked")]),
    ("batches", "millrace_rec_batches_total", &[]),
    ("preprocess", "millrace_rec_busy_seconds_total", &[("thread", "preprocess")]),
    ("engine", "millrace_rec_busy_seconds_total", &[("thread", "engine")]),
    ("all", "millrace_rec_request_time_seconds_total", &[("part", "all")]),
    ("waiting", "millrace_rec_request_time_seconds_total", &[("part", "waiting")]),
];

/// Labels, with the service's name where it has one.
fn labels<'a>(name: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let own = (!name.is_empty()).then_some(("service", name));
    own.into_iter().chain(more.iter().copied()).collect()
}

fn counters(page: &str, name: &str, kind: Kind) -> BTreeMap<&'static str, f64> {
    let asked = match kind {
        Kind::Kv => OF_KV,
        Kind::Rpc => OF_RPC,
        Kind::Rec => OF_REC,
    };
    // What a server has not counted yet is not on its page.
    let read = |(own, family, more): &Asked| (*own, sum(page, family, &labels(name, more)).unwrap_or(0.0));
    asked.iter().map(read).collect()
}

fn stages(page: &str, name: &str, kind: Kind) -> BTreeMap<&'static str, Histogram> {
    let of = |family: &str, stage: &'static str, more: &[(&str, &str)]| {
        let more: Vec<_> = more.iter().copied().chain([("stage", stage)]).collect();
        (stage, histogram(page, family, name, &more))
    };
    match kind {
        Kind::Kv => ["receive", "queue", "execute", "reply", "send"]
            .map(|stage| of("millrace_kv_stage_seconds", stage, &[]))
            .into(),
        Kind::Rpc => {
            ["handle", "queue", "reply"].map(|stage| of("millrace_rpc_stage_seconds", stage, &SERVER)).into()
        }
        Kind::Rec => BTreeMap::new(),
    }
}

fn histogram(page: &str, family: &str, name: &str, more: &[(&str, &str)]) -> Histogram {
    let labels = labels(name, more);
    let of = |end: &str| sum(page, &format!("{family}_{end}"), &labels).unwrap_or(0.0);
    let family_of_buckets = format!("{family}_bucket");
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (found, count) in samples(page, &family_of_buckets) {
        if !labels.iter().all(|(name, value)| label(found, name) == Some(*value)) {
            continue;
        }
        let Some(end) = label(found, "le").and_then(|end| end.parse::<f64>().ok()) else { continue };
        match buckets.iter().position(|(other, _)| other.total_cmp(&end).is_eq()) {
            Some(at) => buckets[at].1 += count,
            None if buckets.len() < BUCKETS_MAX => buckets.push((end, count)),
            None => {}
        }
    }
    buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    Histogram { count: of("count"), seconds: of("sum"), buckets }
}

/// A service of recommendation does not say how its clients come.
fn connections(page: &str, name: &str, kind: Kind) -> BTreeMap<String, f64> {
    let of = |family: &str, more: &[(&str, &str)]| sum(page, family, &labels(name, more));
    let transports: &[&str] = match kind {
        Kind::Kv => &["tcp", "shm"],
        Kind::Rpc => &["tcp", "udp", "unix", "shm", "memory"],
        Kind::Rec => &[],
    };
    let open = |transport: &&str| {
        let count = match (kind, *transport) {
            (Kind::Kv, "shm") => of("millrace_kv_shm_connections", &[]),
            (Kind::Kv, _) => of("millrace_kv_connections", &[]),
            _ => of("millrace_rpc_connections", &[("side", "server"), ("transport", transport)]),
        };
        Some((transport.to_string(), count.filter(|count| *count != 0.0)?))
    };
    transports.iter().filter_map(open).collect()
}

fn methods(page: &str, name: &str, kind: Kind) -> BTreeMap<String, f64> {
    let (family, by, more): (_, _, &[(&str, &str)]) = match kind {
        Kind::Kv => ("millrace_kv_commands_total", "command", &[]),
        Kind::Rpc => ("millrace_rpc_calls_started_total", "method", &SERVER),
        Kind::Rec => return BTreeMap::new(),
    };
    let labels = labels(name, more);
    let mut found = BTreeMap::new();
    for (seen, count) in samples(page, family) {
        let is_own = labels.iter().all(|(name, value)| label(seen, name) == Some(*value));
        let Some(method) = label(seen, by).filter(|_| is_own) else { continue };
        if found.len() < METHODS_MAX || found.contains_key(method) {
            *found.entry(method.to_owned()).or_insert(0.0) += count;
        }
    }
    found
}
