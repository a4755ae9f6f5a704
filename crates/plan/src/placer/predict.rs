//! What choices would do, by the composed model of the host (`model::system::host::Node`) with what is measured in place of what it assumes.
//!
//! ```text
//!   measured   handler   what a request costs where it is executed: kv execute, rpc handle, rec preprocess and engine
//!              edge      what is left of the processor time of a request: sockets, framing; until that is measured, the model's link and code
//!              turns     how many requests come together, and so share system calls and wake-ups
//!              rate, mix, sizes, connections, cores that others keep busy
//!   model      rings, lines, wake-ups, threads that look before they sleep, processors that all of them share
//!
//!   capacity   the fullest row of `plan::graph`
//!   p50, p99   `plan::estimate::latencies`; behind no more requests than clients have under way
//!   cores      `plan::estimate::host_cores`
//! ```
//! Ranges: all numbers of the platform at the fast ends of their ranges, and at the slow ends; and how far `check-host` found the model off for
//! services at that place (`Handler::known_error`).
//!
//! It says nothing of what the model does not know: what forms, groups, balancers, batches and pauses do, links that it has no times of, handlers that
//! nobody has timed. Corrections by what came afterwards (`correct`) are not its business.

use super::choice::{Choice, OTHER, SHARE};
use crate::observed::{Figure, Kind, Location, Observation, Service};
use base::Picos;
use model::alternative::{Alternative, Part, Place};
use model::plan::Limits;
use model::plan::graph::{Graph, Kind as Limit};
use model::plan::model_error::widened_by;
use model::plan::{estimate, mixture};
use model::platform::{Platform, picos};
use model::system::host::{End, Handler, Host, Link, Node, Threads};
use model::workload::{Class, Workload};
use ring::wait::WaitPolicy;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;

/// A number, and between which it may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// It is not expected to be lower.
    pub low: f64,
    /// What is expected.
    pub mid: f64,
    /// It is not expected to be higher.
    pub high: f64,
}

impl Range {
    /// `mid`, wrong by this factor at most.
    pub fn around(mid: f64, factor: f64) -> Range {
        Range { low: mid / factor, mid, high: mid * factor }
    }

    /// All of it times a number.
    pub fn times(self, factor: f64) -> Range {
        Range { low: self.low * factor, mid: self.mid * factor, high: self.high * factor }
    }

    /// Whether it is a range of numbers that can be gone by.
    pub fn is_sound(self) -> bool {
        let Range { low, mid, high } = self;
        low >= 0.0 && low <= mid && mid <= high && high.is_finite()
    }

    /// What all numbers at one end, in the middle and at the other end come to, where the model may be off by this share besides.
    fn of([one, mid, other]: [f64; 3], own: f64) -> Range {
        if mid <= 0.0 {
            return Range { low: 0.0, mid: 0.0, high: one.max(other) };
        }
        let numbers = ((one.min(other) / mid).min(1.0), (one.max(other) / mid).max(1.0));
        let (low, high) = widened_by(numbers, own);
        Range { low: mid * low, mid, high: mid * high }
    }
}

/// What a choice is expected to do for a service under its present load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Requests per second that it could serve.
    pub capacity: Range,
    /// Median stay in nanoseconds.
    pub p50_ns: Range,
    /// 99th percentile of it.
    pub p99_ns: Range,
    /// Cores used at the present rate.
    pub cores: Range,
}

impl Prediction {
    /// Whether it can be gone by.
    pub fn is_sound(&self) -> bool {
        [self.capacity, self.p50_ns, self.p99_ns, self.cores].iter().all(|range| range.is_sound())
    }
}

/// At this part of what can be served waits are as long as they are predicted to be.
const RHO_MAX: f64 = 0.97;
/// What a request costs at least, so that an idle service has a capacity.
const REQUEST_MIN_NS: f64 = 100.0;
/// Of what a thread or the machine has, what is left at least beside others.
const LEFT_MIN: f64 = 0.05;
/// How long who never sleeps stays awake, in seconds.
const ALWAYS_S: f64 = 1e3;
/// Requests of one turn at most.
const TOGETHER_MAX: f64 = 256.0;
/// Registers of which the model knows what they do.
pub(super) const KNOWN: [&str; 6] =
    ["engine.mode", "place.handlers", OTHER, SHARE, "workers.count", "place.rec.preprocess"];

/// What says what choices of a service would do. The same question has the same answer: decisions are replayed.
pub trait Predict {
    /// Of a service that was seen so; none where nothing is known of it.
    fn of<'a>(&'a self, seen: &Observation, service: &'a Service) -> Option<Box<dyn Known + 'a>>;
}

/// What is known of a service.
pub trait Known {
    /// What it would do at a choice; none where that is not known.
    fn predict(&self, to: &Choice) -> Option<Prediction>;

    /// Shares, of 1, of the other place that are worth a look, of a choice that is at two with any share. None where nothing is known of them.
    fn shares(&self, pair: &Choice) -> Vec<f64>;
}

impl Predict for Predictor {
    fn of<'a>(&'a self, seen: &Observation, service: &'a Service) -> Option<Box<dyn Known + 'a>> {
        Some(Box::new(Served::new(self, seen, service)?))
    }
}

/// The model of a host.
#[derive(Clone, Debug)]
pub struct Predictor {
    text: String,
    /// With its numbers as they are, and at the ends of their ranges.
    host: Host,
    ends: [Host; 2],
}

impl Predictor {
    /// Of a platform's file; `file` is for errors.
    ///
    /// # Errors
    /// It is none, of another family, lacks a number, or has one that no host has.
    pub fn new(text: &str, file: &str) -> Result<Predictor, String> {
        let platform = Platform::parse(text, file).map_err(|error| error.to_string())?;
        if platform.family != "host" {
            return Err(format!(
                "platform {} is of family {}, and nodes run on a host: -p this-host, or what millrace model this-host -o FILE wrote",
                platform.name, platform.family
            ));
        }
        let of =
            |found: Result<Host, _>| found.map_err(|error: model::platform::LoadError| error.to_string());
        Ok(Predictor {
            text: text.to_owned(),
            host: of(Host::of(&platform))?,
            ends: [of(Host::at_end(&platform, End::Fast))?, of(Host::at_end(&platform, End::Slow))?],
        })
    }

    /// The platform's file, for the log.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A service as the model has it.
#[derive(Debug)]
pub struct Served<'a> {
    model: &'a Predictor,
    service: &'a Service,
    present: Choice,
    /// Of a request, what its edge does for it, and what may be moved and what may not, in nanoseconds.
    edge_ns: f64,
    handler_ns: f64,
    engine_ns: f64,
    threads: Threads,
    /// What others use of the processors and of the engine's thread, in cores.
    others: f64,
    others_on_engine: f64,
    /// Requests that clients have under way at most; as many as come, if 0.
    under_way: f64,
    /// Requests that come in one turn.
    together: f64,
    /// What it does where it is: asked for more than once in a look.
    here: OnceCell<Option<Prediction>>,
}

/// What a node with these numbers would do.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    capacity: f64,
    p50_ns: f64,
    p99_ns: f64,
    cores: f64,
}

impl<'a> Served<'a> {
    fn new(model: &'a Predictor, seen: &Observation, service: &'a Service) -> Option<Served<'a>> {
        let present = Choice::present(service);
        let own = service.cores_used();
        let on_engine = service.cores.get(&Location::Engine).map_or(0.0, |cores| cores.0);
        let busy = seen.busy.get(&Location::Engine).map_or(0.0, |busy| busy.0);
        let connections: f64 = service.connections.values().map(|count| count.0).sum();
        // By Little's law, of those that send one after the other without waiting.
        let inside = service.rate.0 * service.p50_ns.map_or(0.0, |p50| p50.0) / 1e9;
        let mut served = Served {
            model,
            service,
            present,
            edge_ns: 0.0,
            handler_ns: 0.0,
            engine_ns: if service.kind == Kind::Rec { service.stage("engine") } else { 0.0 },
            threads: threads(service, seen.cores.0),
            others: (seen.cores_used.0 - own).max(0.0) + seen.others.0,
            others_on_engine: (busy - on_engine).max(0.0),
            under_way: if connections > 0.0 { connections.max(inside.ceil()) } else { 0.0 },
            together: service.together.0.clamp(1.0, TOGETHER_MAX),
            here: OnceCell::new(),
        };
        let node = served.node(&model.host);
        served.handler_ns = handler_ns(service).or_else(|| served.handler_of_model(&node))?;
        let measured_ns = if service.rate.0 > 0.0 { own * 1e9 / service.rate.0 } else { 0.0 };
        let modelled = || {
            let link = link(service)?;
            let [taken, sent] = node.at_edge(&call(service), link);
            Some(1e9 * taken.plus(sent).as_secs_f64())
        };
        if measured_ns <= 0.0 {
            served.edge_ns = modelled()?;
            return Some(served);
        }
        // RPC times handlers elsewhere by the clock, with the way there and back: no more of it is theirs than their thread worked.
        // Of requests that are handled elsewhere: a part of them, where they are at two places.
        let places = served.present.places(service.kind);
        let elsewhere = || places.iter().filter(|(place, _)| *place != Location::Edge);
        let part: f64 = elsewhere().map(|(_, share)| share).sum();
        let cores: f64 =
            elsewhere().filter_map(|(place, _)| service.cores.get(place)).map(|cores| cores.0).sum();
        let of_place = 1e9 * cores / (service.rate.0 * part);
        let is_with_way = service.kind == Kind::Rpc && part > 0.0 && of_place > 0.0;
        let timed_ns = served.handler_ns;
        if is_with_way {
            served.handler_ns = timed_ns.min(of_place);
        }
        // All but handlers is the edge's, until what hand-overs take by the model is known.
        let beside = (measured_ns - served.handler_ns - served.engine_ns).max(REQUEST_MIN_NS);
        // Calls do not say how many come in one turn: as many as share system calls, that one of them takes so little.
        if let Some(alone) = modelled().filter(|_| service.kind == Kind::Rpc) {
            served.together = (alone / beside).clamp(1.0, TOGETHER_MAX);
        }
        served.edge_ns = beside;
        let handed_over = served.numbers(&model.host, &served.present)?.cores - served.work_of_a_second();
        let handed_over_ns = handed_over.max(0.0) * 1e9 / service.rate.0;
        if is_with_way {
            // Either thread has half of it, for each that is handed over; of what was timed only their part has it.
            let half = handed_over_ns / part / 2.0;
            served.handler_ns = (timed_ns - part * half).min(of_place - half).max(REQUEST_MIN_NS);
        }
        let beside = measured_ns - served.handler_ns - served.engine_ns;
        served.edge_ns = (beside - handed_over_ns).max(REQUEST_MIN_NS);
        Some(served)
    }

    /// Cores of its requests without what it takes to hand them over.
    fn work_of_a_second(&self) -> f64 {
        self.service.rate.0 * (self.edge_ns + self.handler_ns + self.engine_ns) / 1e9
    }

    fn node<'h>(&self, host: &'h Host) -> Node<'h> {
        Node::new(host, self.threads, 0)
    }

    /// Where nothing was executed that could be measured: GETs and SETs in the model's memory, by their shares. Of other handlers it knows nothing.
    fn handler_of_model(&self, node: &Node<'_>) -> Option<f64> {
        if self.service.kind != Kind::Kv {
            return None;
        }
        let all: f64 = self.service.methods.values().map(|share| share.0).sum();
        let writes =
            self.service.methods.get("set").map_or(0.0, |share| share.0 / all.max(f64::MIN_POSITIVE));
        let [get, set] = [0, self.service.request_bytes.0 as u64].map(|store| {
            let class = Class { store, lookups: 2, lookup: 64, ..call(self.service) };
            1e9 * node.handling(&class, self.service.stored_bytes.0 as u64).as_secs_f64()
        });
        Some((get + writes * (set - get)).max(REQUEST_MIN_NS))
    }

    fn prediction(&self, to: &Choice) -> Option<Prediction> {
        let [fast, slow] = &self.model.ends;
        let [one, mid, other] = [fast, &self.model.host, slow].map(|host| self.numbers(host, to));
        let all = [one?, mid?, other?];
        let of = |figure: &dyn Fn(&Numbers) -> f64| all.map(|numbers| figure(&numbers));
        let is_rec = self.service.kind == Kind::Rec;
        let places = to.places(self.service.kind);
        let stages = places.iter().flat_map(|(place, _)| self.stages(*place));
        let own = stages.map(|(handler, _)| handler.known_error(is_rec)).fold(0.0, f64::max);
        let prediction = Prediction {
            capacity: Range::of(of(&|all| all.capacity), own),
            p50_ns: Range::of(of(&|all| all.p50_ns), own),
            p99_ns: Range::of(of(&|all| all.p99_ns), own),
            cores: Range::of(of(&|all| all.cores), own),
        };
        prediction.is_sound().then_some(prediction)
    }

    /// Who works on a request beside its edge, one after the other, and for how long in nanoseconds.
    fn stages(&self, place: Location) -> Vec<(Handler, f64)> {
        let handler = match place {
            Location::Edge => Handler::Edge,
            Location::Engine => Handler::Engine,
            Location::Host => Handler::HostThreads,
        };
        match self.service.kind {
            Kind::Kv | Kind::Rpc => vec![(handler, self.handler_ns)],
            Kind::Rec if handler == Handler::Engine => vec![(handler, self.handler_ns + self.engine_ns)],
            Kind::Rec => vec![(handler, self.handler_ns), (Handler::Engine, self.engine_ns)],
        }
    }

    /// The node with its service so: a way for each place.
    fn graph(&self, host: &Host, to: &Choice) -> Graph {
        let mut threads = self.threads;
        if self.service.kind == Kind::Rpc {
            threads.host = to.number("workers.count").clamp(1, 256);
        }
        let mut node = Node::new(host, threads, 0);
        let span = |ns: f64| picos(ns / 1e9);
        let half = span(self.edge_ns / 2.0);
        let mut way = |place| {
            let stages: Vec<_> = self.stages(place).into_iter().map(|(by, ns)| (by, span(ns))).collect();
            alternative(node.within("request", [half, half], &stages))
        };
        let ways = to.places(self.service.kind).iter().map(|(place, _)| way(*place)).collect();
        let setting = node.with(ways, 1);
        let workload = workload(self.service, self.under_way as u64);
        let mut graph = Graph::of(&setting, &workload, &Limits::default());
        graph.together = self.together;
        for row in &mut graph.rows {
            let others = match &*row.name {
                "processors" => self.others,
                "engine" => self.others_on_engine,
                _ => continue,
            };
            row.capacity = (row.capacity - others).max(LEFT_MIN * row.capacity);
        }
        graph
    }

    fn numbers(&self, host: &Host, to: &Choice) -> Option<Numbers> {
        let graph = self.graph(host, to);
        let shares: Vec<f64> = to.places(self.service.kind).into_iter().map(|(_, share)| share).collect();
        let rates = |rate: f64| shares.iter().map(|share| share * rate).collect::<Vec<_>>();
        let capacity = mixture::capacity(&unbound(&graph), &shares);
        let rate = self.service.rate.0.min(RHO_MAX * capacity);
        let latencies = estimate::latencies(&graph, &rates(rate))?;
        let unloaded: f64 = graph.ways.iter().zip(&shares).map(|(way, share)| way.unloaded * share).sum();
        // Behind no more than clients have under way, each for as long as it works.
        let work_ns = self.edge_ns + self.handler_ns + self.engine_ns;
        let longest = match self.under_way {
            0.0 => f64::INFINITY,
            under_way => 1e9 * unloaded + (under_way - 1.0) * work_ns,
        };
        // RPC times a call from when it is read to when its reply is ready: what its edge does before and after that is not in it.
        let untimed_ns = if self.service.kind == Kind::Rpc { self.edge_ns } else { 0.0 };
        let stay = |seconds: f64| (1e9 * seconds).min(longest) - untimed_ns;
        let [p50_ns, p99_ns] = [latencies.p50, latencies.p99].map(|of| stay(of).max(self.handler_ns));
        let cores = estimate::host_cores(&graph, &rates(self.service.rate.0));
        Some(Numbers { capacity, p50_ns, p99_ns, cores })
    }
}

impl Known for Served<'_> {
    /// None as well where the choice changes what the model does not know.
    fn predict(&self, to: &Choice) -> Option<Prediction> {
        let unknown =
            |(name, value): (&str, &str)| !KNOWN.contains(&name) && self.present.value(name) != value;
        if to.values().any(unknown) {
            return None;
        }
        if *to == self.present {
            return *self.here.get_or_init(|| self.prediction(to));
        }
        self.prediction(to)
    }

    fn shares(&self, pair: &Choice) -> Vec<f64> {
        let graph = unbound(&self.graph(&self.model.host, pair));
        if graph.ways.len() < 2 {
            return Vec::new();
        }
        mixture::shares(&graph, [0, 1], self.service.rate.0).unwrap_or_default()
    }
}

/// What the node could serve is bounded by what works alone, and not by what clients have under way.
fn unbound(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    let rows = graph.rows.iter_mut().filter(|row| row.kind != Limit::Resource);
    rows.for_each(|row| row.capacity = f64::INFINITY);
    graph
}

fn alternative(program: model::ProgramId) -> Alternative {
    let part = Part { class: "request".into(), share: 1.0, program };
    Alternative { name: "node".into(), what: "the node".into(), place: Place::Host, parts: vec![part] }
}

/// A request of the service as the model's workloads have it.
fn call(service: &Service) -> Class {
    let bytes = (service.request_bytes.0 as u64, service.reply_bytes.0 as u64);
    Class { fields: u64::from(service.kind != Kind::Kv), ..Class::of_bytes("request", bytes) }
}

fn workload(service: &Service, under_way: u64) -> Workload {
    Workload {
        name: service.name.clone(),
        title: String::new(),
        keys: 1,
        skew: 0.0,
        working_set: service.stored_bytes.0 as u64,
        window: under_way.max(1),
        rate: None,
        host_cores: None,
        places: None,
        classes: vec![call(service)],
    }
}

/// The link that most of its clients use; none where it is not known, or has no times in the model.
pub(crate) fn link(service: &Service) -> Option<Link> {
    let most = |(_, a): &(&String, &Figure), (_, b): &(&String, &Figure)| a.0.total_cmp(&b.0);
    match service.connections.iter().filter(|(_, count)| count.0 > 0.0).max_by(most)?.0.as_str() {
        // Of a key-value server: few have their clients at Unix sockets.
        "tcp" | "sockets" => Some(Link::Tcp),
        "udp" => Some(Link::Udp),
        "shm" => Some(Link::SharedMemory),
        _ => None,
    }
}

/// Threads as the registers of the service say.
fn threads(service: &Service, cores: f64) -> Threads {
    let number = |name: &str| service.register(name).map(|register| register.number);
    let awake = match (number("wait.spin"), number("wait.pause"), number("wait.block")) {
        (Some(_), Some(_), Some(0)) => picos(ALWAYS_S),
        (Some(spin), Some(pause), _) => {
            let looks = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            let policy = WaitPolicy { spin: looks(spin), pause: looks(pause), monitor: 0, block: true };
            Picos::from_nanos(policy.awake().0)
        }
        _ => Threads::default().ring_awake,
    };
    let processors = cores.clamp(1.0, 4096.0) as u64;
    Threads {
        processors,
        edges: number("edge.threads").unwrap_or(1).clamp(1, 4096),
        host: processors,
        ring_awake: awake,
        ..Threads::default()
    }
}

/// What a request costs where it is executed, of what may be moved, in nanoseconds; none where nobody has timed it.
pub(crate) fn handler_ns(service: &Service) -> Option<f64> {
    let cost = match service.kind {
        // The time of a group counts for each of its requests.
        Kind::Kv => {
            let group = service.register("engine.group").map_or(1, |register| register.number.max(1));
            service.stage("execute") / service.together.0.clamp(1.0, group as f64)
        }
        Kind::Rpc => service.stage("handle"),
        Kind::Rec => service.stage("preprocess"),
    };
    (cost > 0.0).then_some(cost)
}

#[cfg(test)]
pub(super) mod tests;
