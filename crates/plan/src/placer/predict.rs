//! Who says what a choice would do: [`Predict`], and the first that does, [`Stages`], which knows no more than what the node measures.
//!
//! `Stages` takes a service's present figures apart and puts them together for another choice:
//!
//! ```text
//!   handler   what a request costs where it is executed: kv execute, rpc handle, rec preprocess and engine
//!   edge      what is left of the processor time of a request: sockets, framing
//!   hand-over from one thread to the next and back, where the choice has one: a wake-up while the other thread is idle, a ring's hop while it is busy
//!
//!   capacity  of the thread that is full first, or of all cores
//!   p50, p99  service, hand-overs, and waits at each thread: M/G/c of `model::queueing` with exponential service; tails as exponential
//! ```
//! It knows nothing of what forms, groups, balancers, batches and pauses do to caches and queues: it predicts the present figures for them, within wide
//! ranges, so they are found by trying alone. Corrections by what came afterwards (`correct`) are not its business.
//!
//! Sources of the hand-over's numbers: a futex wake takes 35 µs until the other core runs and costs its caller 11 µs, a hop of a ring 0.5 µs
//! at most (`millrace probe` measures both; docs/measurements/ring.md).

use super::choice::Choice;
use crate::observed::{Kind, Location, Service};
use model::queueing::mgc_wait;
use serde::{Deserialize, Serialize};

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

/// Says what choices would do. The same question has the same answer: decisions are replayed.
pub trait Predict {
    /// What `to` would do for this service on a node with so many cores; none where nothing is known of it.
    fn predict(&self, service: &Service, cores: f64, to: &Choice) -> Option<Prediction>;
}

/// See the head of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stages;

/// A wake-up of a thread that sleeps, until it runs.
const WAKE_NS: f64 = 35_000.0;
/// What it costs the thread that wakes it.
const WAKE_CPU_NS: f64 = 11_000.0;
/// A hop through a ring to a thread that is awake, with what its cache lines cost both.
const HOP_NS: f64 = 500.0;
/// How far a prediction may be off for a place where the service is, and for another.
const PRESENT_RANGE: f64 = 1.25;
const OTHER_RANGE: f64 = 2.0;
/// Of an exponential stay, the 99th percentile in means: ln 100.
const P99_IN_MEANS: f64 = 4.605_170_185_988_091;
/// Median in means.
const MEDIAN_IN_MEANS: f64 = std::f64::consts::LN_2;
/// At this utilisation of a thread its waits are as long as they are predicted to be.
const RHO_MAX: f64 = 0.97;
/// What a request costs at least, so that an idle service has a capacity.
const REQUEST_MIN_NS: f64 = 100.0;

/// A thread, or several alike, that requests pass.
struct Station {
    servers: u32,
    service_ns: f64,
}

impl Predict for Stages {
    fn predict(&self, service: &Service, cores: f64, to: &Choice) -> Option<Prediction> {
        let rate = service.rate.0;
        let present = Choice::present(service);
        let here = present.place(service.kind);
        let place = to.place(service.kind);
        let handler = handler_ns(service);
        let cpu = if rate > 0.0 { service.cores_used() * 1e9 / rate } else { handler };
        let crossing_now = crossing(here, rate, handler);
        let edge = (cpu - handler - crossing_now.cpu_ns).max(REQUEST_MIN_NS);
        let crossing = crossing(place, rate, handler);
        let workers = to.number("workers.count").clamp(1, 256) as u32;
        let engine = if service.kind == Kind::Rec { service.stage("engine") } else { 0.0 };
        let mut stations = match place {
            Location::Edge => vec![Station { servers: edges(service), service_ns: edge + handler }],
            Location::Engine | Location::Host => {
                let servers = if place == Location::Host { workers } else { 1 };
                vec![
                    Station { servers: edges(service), service_ns: edge + crossing.cpu_ns / 2.0 },
                    Station { servers, service_ns: handler + crossing.cpu_ns / 2.0 },
                ]
            }
        };
        if engine > 0.0 {
            match (place, stations.len()) {
                (Location::Engine, 2) => stations[1].service_ns += engine,
                _ => stations.push(Station { servers: 1, service_ns: engine }),
            }
        }
        let all: f64 = stations.iter().map(|station| station.service_ns).sum();
        let of_threads = stations.iter().map(|one| f64::from(one.servers) * 1e9 / one.service_ns);
        let capacity = of_threads.fold(cores.max(1.0) * 1e9 / all, f64::min);
        let wait: f64 = stations.iter().map(|one| one.wait_ns(rate)).sum();
        let linger = 1e3 * to.number("rec.linger") as f64;
        let fixed = all + crossing.wait_ns + linger;
        let off = if to == &present { PRESENT_RANGE } else { OTHER_RANGE };
        let prediction = Prediction {
            capacity: Range::around(capacity, off),
            p50_ns: Range::around(fixed + MEDIAN_IN_MEANS * wait, off),
            p99_ns: Range::around(fixed + crossing.wait_ns + P99_IN_MEANS * wait, off),
            cores: Range::around(rate * all / 1e9, off),
        };
        prediction.is_sound().then_some(prediction)
    }
}

impl Station {
    fn wait_ns(&self, rate: f64) -> f64 {
        let rho = rate * self.service_ns / 1e9 / f64::from(self.servers);
        mgc_wait(self.servers, rho.min(RHO_MAX), self.service_ns, 1.0)
    }
}

/// Threads that own connections.
fn edges(service: &Service) -> u32 {
    service.register("edge.threads").map_or(1, |register| register.number.clamp(1, 4096) as u32)
}

/// What a request costs where it is executed, of what may be moved, in nanoseconds.
pub(crate) fn handler_ns(service: &Service) -> f64 {
    let cost = match service.kind {
        // The time of a group counts for each of its requests.
        Kind::Kv => {
            let group = service.register("engine.group").map_or(1, |register| register.number.max(1));
            service.stage("execute") / service.together.0.clamp(1.0, group as f64)
        }
        Kind::Rpc => service.stage("handle"),
        Kind::Rec => service.stage("preprocess"),
    };
    cost.max(REQUEST_MIN_NS)
}

/// What it takes to hand a request over, and back.
struct Crossing {
    wait_ns: f64,
    cpu_ns: f64,
}

/// The other thread is awake as often as it is busy.
fn crossing(place: Location, rate: f64, handler_ns: f64) -> Crossing {
    if place == Location::Edge {
        return Crossing { wait_ns: 0.0, cpu_ns: 0.0 };
    }
    let awake = (rate * (handler_ns + HOP_NS) / 1e9).clamp(0.0, 1.0);
    let mean = |asleep: f64, busy: f64| 2.0 * (busy + (asleep - busy) * (1.0 - awake));
    Crossing { wait_ns: mean(WAKE_NS, HOP_NS), cpu_ns: mean(WAKE_CPU_NS, HOP_NS) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::service;
    use super::*;
    use crate::observed::Figure;

    /// A service whose requests take so long to handle, at a rate.
    fn loaded(handle_ns: f64, rate: f64) -> Service {
        let mut service = service("s", Kind::Rpc);
        service.rate = Figure(rate);
        service.stages.insert("handle".into(), Figure(handle_ns));
        service.cores.insert(Location::Edge, Figure(rate * (handle_ns + 5_000.0) / 1e9));
        service
    }

    fn at(service: &Service, changes: &[(&str, &str)]) -> Prediction {
        let to = Choice::present(service).with(service, changes).expect("it can");
        Stages.predict(service, 4.0, &to).expect("it says something")
    }

    #[test]
    fn short_handlers_stay_at_the_edge_and_long_ones_gain_from_workers() {
        let short = loaded(500.0, 20_000.0);
        let (edge, host) =
            (at(&short, &[]), at(&short, &[("place.handlers", "host"), ("workers.count", "2")]));
        assert!(edge.cores.mid < host.cores.mid && edge.p50_ns.mid < host.p50_ns.mid, "{edge:?} {host:?}");
        let long = loaded(400_000.0, 2_200.0);
        let (edge, host) = (at(&long, &[]), at(&long, &[("place.handlers", "host"), ("workers.count", "3")]));
        assert!(host.capacity.mid > 2.0 * edge.capacity.mid, "{edge:?} {host:?}");
        assert!(host.p99_ns.mid < edge.p99_ns.mid, "{edge:?} {host:?}");
    }

    #[test]
    fn what_it_knows_nothing_of_is_as_the_present_within_a_wider_range() {
        let service = loaded(500.0, 20_000.0);
        let other = at(&service, &[("workers.balancer", "two_choices")]);
        let here = at(&service, &[]);
        assert_eq!(other.capacity.mid, here.capacity.mid);
        assert!(other.capacity.low < here.capacity.low && other.capacity.high > here.capacity.high);
    }

    #[test]
    fn an_idle_service_has_figures() {
        let idle = loaded(0.0, 0.0);
        let found = at(&idle, &[("place.handlers", "engine"), ("workers.count", "0")]);
        assert!(found.is_sound() && found.cores.mid == 0.0 && found.capacity.mid > 0.0, "{found:?}");
    }
}
