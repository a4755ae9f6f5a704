//! What a node's admin port says at one moment: its registers as JSON, and its page of metrics, as counters.
//!
//! Services are found by the registers that each kind has; nothing is taken from a page but what is asked for, so a page may hold anything.
//!
//! Bounds: [`SERVICES_MAX`] services, [`METHODS_MAX`] methods of each by name, [`REGISTERS_MAX`] registers; what is beyond is left out.

use super::caches::CacheReading;
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
pub(crate) struct Histogram {
    pub count: f64,
    pub seconds: f64,
    /// Upper ends in seconds, and how many were not longer.
    pub buckets: Vec<(f64, f64)>,
}

/// A service's counters as they stand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServiceReading {
    pub name: String,
    pub kind: Kind,
    pub registers: Vec<Register>,
    /// By a name of ours.
    pub counters: BTreeMap<&'static str, f64>,
    pub stages: BTreeMap<&'static str, Histogram>,
    /// Whole stays of requests, where the node has them as a histogram.
    pub stays: Option<Histogram>,
    pub methods: BTreeMap<String, MethodReading>,
    /// Of a key-value server: bytes of values that it sent and received, where it counts them.
    pub values: Option<(f64, f64)>,
    /// … items, and the bytes of all of them.
    pub items: Option<(f64, f64)>,
    /// Connections open, by transport.
    pub connections: BTreeMap<String, f64>,
    /// Requests that are not answered yet.
    pub under_way: Option<f64>,
    /// Bytes of what it keeps.
    pub stored_bytes: f64,
    /// Bytes of a row of its tables.
    pub row_bytes: Option<f64>,
    /// Of a key-value server, what its memory does.
    pub cache: Option<CacheReading>,
}

/// A method's counters as they stand.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MethodReading {
    pub count: f64,
    pub hits: f64,
    pub misses: f64,
    /// Whether the sizes of those that were timed are counted.
    pub is_sized: bool,
    pub request_bytes: f64,
    pub reply_bytes: f64,
    /// Of those that were timed.
    pub stays: Histogram,
}

/// A node as it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    /// When it was asked, in microseconds.
    pub at_us: u64,
    /// When the process began, by its own clock.
    pub started: f64,
    /// Processor time of the process, in seconds.
    pub cpu: f64,
    /// The same by threads of one name.
    pub threads: BTreeMap<String, f64>,
    pub services: Vec<ServiceReading>,
    /// Bytes of the process that are in RAM.
    pub resident: Option<f64>,
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
    pub(crate) fn of(at_us: u64, metrics: &str, registers: &str) -> Result<Reading, String> {
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
            values: (kind == Kind::Kv).then(|| values(metrics, &name)).flatten(),
            items: (kind == Kind::Kv).then(|| items(metrics, &name)).flatten(),
            connections: connections(metrics, &name, kind),
            under_way: sum(metrics, "millrace_rpc_calls_in_flight", &labels(&name, &SERVER))
                .filter(|_| kind == Kind::Rpc),
            row_bytes: row_bytes(metrics, &name).filter(|_| kind == Kind::Rec),
            stored_bytes: match kind {
                Kind::Kv => sum(metrics, "millrace_kv_item_bytes", &labels(&name, &[])).unwrap_or(0.0),
                Kind::Rpc | Kind::Rec => 0.0,
            },
            cache: (kind == Kind::Kv)
                .then(|| CacheReading::of(metrics, &labels(&name, &[]), &registers))
                .flatten(),
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
            resident: one("process_resident_memory_bytes"),
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
    ("queries", "millrace_rec_queries_total", &[]),
    ("rows", "millrace_rec_rows_total", &[]),
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
    let mut all: BTreeMap<_, _> = asked.iter().map(read).collect();
    if kind == Kind::Rec {
        // A server that does not count bytes has none of them, which is not 0.
        for direction in ["received", "sent"] {
            let more = labels(name, &[("direction", direction)]);
            all.extend(sum(page, "millrace_rec_message_bytes_total", &more).map(|bytes| (direction, bytes)));
        }
    }
    all
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

fn methods(page: &str, name: &str, kind: Kind) -> BTreeMap<String, MethodReading> {
    let mut found = BTreeMap::new();
    match kind {
        Kind::Rec => {}
        Kind::Kv => {
            by_label(&mut found, page, ("millrace_kv_commands_total", "command"), &labels(name, &[]), |of| {
                &mut of.count
            });
            let outcomes = "millrace_kv_command_outcomes_total";
            for (outcome, place) in OUTCOMES {
                let labels = labels(name, &[("outcome", outcome)]);
                by_label(&mut found, page, (outcomes, "command"), &labels, place);
            }
            // A kind of `set`, which has counted it.
            found.remove("cas");
            // Those that are counted by outcome alone.
            let uncounted = found.values_mut().filter(|method: &&mut MethodReading| method.count == 0.0);
            uncounted.for_each(|method| method.count = method.hits + method.misses);
        }
        Kind::Rpc => {
            let own = labels(name, &SERVER);
            by_label(&mut found, page, ("millrace_rpc_calls_started_total", "method"), &own, |of| {
                &mut of.count
            });
            for (direction, place) in DIRECTIONS {
                let own = labels(name, &[SERVER[0], ("direction", direction)]);
                by_label(&mut found, page, ("millrace_rpc_message_bytes_total", "method"), &own, place);
            }
            let is_sized = samples(page, "millrace_rpc_message_bytes_total").next().is_some();
            for (method, read) in &mut found {
                let own = [SERVER[0], ("method", &**method)];
                read.stays = histogram(page, "millrace_rpc_call_seconds", name, &own);
                read.is_sized = is_sized;
            }
        }
    }
    found
}

/// The field of a method that a sample belongs to.
type Field = fn(&mut MethodReading) -> &mut f64;

const OUTCOMES: [(&str, Field); 2] = [("hit", |of| &mut of.hits), ("miss", |of| &mut of.misses)];
const DIRECTIONS: [(&str, Field); 2] =
    [("received", |of| &mut of.request_bytes), ("sent", |of| &mut of.reply_bytes)];

/// Adds the samples of a family that have these labels to the methods that they are of.
fn by_label(
    found: &mut BTreeMap<String, MethodReading>,
    page: &str,
    (family, by): (&str, &str),
    labels: &[(&str, &str)],
    field: Field,
) {
    for (seen, count) in samples(page, family) {
        let is_own = labels.iter().all(|(name, value)| label(seen, name) == Some(*value));
        let Some(method) = label(seen, by).filter(|_| is_own) else { continue };
        if found.len() < METHODS_MAX || found.contains_key(method) {
            *field(found.entry(method.to_owned()).or_default()) += count;
        }
    }
}

fn values(page: &str, name: &str) -> Option<(f64, f64)> {
    let of =
        |direction| sum(page, "millrace_kv_value_bytes_total", &labels(name, &[("direction", direction)]));
    of("sent").zip(of("received"))
}

fn items(page: &str, name: &str) -> Option<(f64, f64)> {
    let of = |family| sum(page, family, &labels(name, &[]));
    of("millrace_kv_items").zip(of("millrace_kv_item_bytes"))
}

/// The widest row of the models that are served.
fn row_bytes(page: &str, name: &str) -> Option<f64> {
    let own = labels(name, &[]);
    let is_own = |found: &str| own.iter().all(|(name, value)| label(found, name) == Some(*value));
    let rows = samples(page, "millrace_rec_model_row_bytes").filter(|(found, _)| is_own(found));
    rows.map(|(_, bytes)| bytes).reduce(f64::max)
}

fn connections(page: &str, name: &str, kind: Kind) -> BTreeMap<String, f64> {
    let of = |family, more: &[(&str, &str)]| sum(page, family, &labels(name, more));
    match kind {
        Kind::Rec => BTreeMap::new(),
        Kind::Kv => {
            let shared = of("millrace_kv_shm_connections", &[]).unwrap_or(0.0);
            let all = of("millrace_kv_connections", &[]).unwrap_or(0.0);
            [
                ("shm".to_owned(), shared),
                ("sockets".to_owned(), if all < shared { 0.0 } else { all - shared }),
            ]
            .into()
        }
        Kind::Rpc => {
            let own = labels(name, &SERVER);
            let is_own = |found: &str| own.iter().all(|(name, value)| label(found, name) == Some(*value));
            let open = samples(page, "millrace_rpc_connections").filter(|(found, _)| is_own(found));
            let mut found = BTreeMap::new();
            for (labels, count) in open.take(METHODS_MAX) {
                let Some(transport) = label(labels, "transport") else { continue };
                *found.entry(transport.to_owned()).or_insert(0.0) += count;
            }
            found
        }
    }
}
