//! From readings to observations: rates and means between two moments, and what cannot be so.
//!
//! A counter that went backwards, or is no number, makes a doubt of the service that has it; a process that began anew makes its first reading the
//! start of all. Percentiles are of the last readings together, [`HISTORY`] at most, since one may have too few requests that were timed; a
//! register that changed ends that.
//!
//! | figure | how |
//! |---|---|
//! | p50, p99 of `kv` | the server knows stages alone: means added up, and the stage that strays most by what it strays; for p50 by medians |
//! | p50, p99 of `rpc` | of the calls that the server timed (`monitor.sample`) |
//! | p50, p99 of `rec` | the server knows the mean alone; stays are taken for exponential |
//! | cores of a service | processor time of threads by their names; of an engine core that several use, what `rec` counts, and the rest by requests |

use super::caches::cache;
use super::load::{Load, load};
use super::observation::{Figure, Kind, Location, Observation, Register, Service};
use super::reading::{Histogram, Reading, ServiceReading};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Readings that percentiles are over.
const HISTORY: usize = 4;
/// Requests that must have been timed for a percentile.
const TIMED_MIN: f64 = 40.0;

/// Readings of a node, the last ones.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    readings: VecDeque<Reading>,
    sequence: u64,
    /// Services whose last reading was doubtful, so that nothing can be said since it.
    doubtful: BTreeSet<String>,
}

impl Difference {
    /// The observation that a reading completes; none if it is the first of a process. `cores` are the node's.
    pub(crate) fn add(&mut self, reading: Reading, cores: f64) -> Option<Observation> {
        if self.readings.back().is_some_and(|last| last.started.total_cmp(&reading.started).is_ne()) {
            self.readings.clear();
        }
        let sequence = self.sequence + 1;
        let mut doubtful = BTreeSet::new();
        let found = self.readings.back().map(|last| {
            let span_us = reading.at_us.saturating_sub(last.at_us);
            let of = |service: &ServiceReading| self.service(service, last, &reading, span_us);
            let mut services: Vec<Service> = reading.services.iter().map(of).collect();
            for service in &mut services {
                if !service.doubts.is_empty() {
                    doubtful.insert(service.name.clone());
                } else if self.doubtful.contains(&service.name) {
                    service
                        .doubts
                        .push("its last counters were doubtful, so nothing is known since".to_owned());
                }
            }
            let used = rate(reading.cpu - last.cpu, span_us);
            let busy = busy(last, &reading, span_us);
            Observation {
                sequence,
                at_us: reading.at_us,
                span_us,
                cores: Figure(cores),
                cores_used: Figure(used),
                others: Figure(0.0),
                busy,
                services,
            }
        });
        if found.is_some() {
            (self.sequence, self.doubtful) = (sequence, doubtful);
        }
        let is_same = |last: &Reading| registers(last).eq(registers(&reading));
        if !self.readings.back().is_some_and(is_same) {
            self.readings.clear();
        }
        self.readings.push_back(reading);
        if self.readings.len() > HISTORY {
            self.readings.pop_front();
        }
        found
    }

    /// The next reading is the first again.
    pub(crate) fn forget(&mut self) {
        self.readings.clear();
    }

    fn service(&self, now: &ServiceReading, last: &Reading, reading: &Reading, span_us: u64) -> Service {
        let mut doubts = Vec::new();
        let nothing = now.nothing();
        let before = |of: &Reading| of.services.iter().find(|one| one.name == now.name).cloned();
        let then = before(last).unwrap_or_else(|| {
            doubts.push(format!("service {:?} was not there before", now.name));
            nothing.clone()
        });
        let mut since = Since::new(now, &then, span_us, doubts);
        let oldest = self.readings.front().and_then(before).unwrap_or(nothing);
        let stages = stages(&mut since);
        let [p50_ns, p99_ns] = percentiles(now, &oldest, &stages);
        let load = Load { resident: reading.resident.map(Figure), ..load(&mut since) };
        let cache = cache(&mut since);
        let count = |name: &str| since.count(name);
        let refused = match now.kind {
            Kind::Kv => count("expired") + count("values_refused"),
            Kind::Rpc => count("ended") - count("ended_well"),
            Kind::Rec => count("refused") + count("expired") + count("panicked"),
        };
        let together = match now.kind {
            Kind::Kv => (count("executed"), count("passes")),
            Kind::Rpc => (1.0, 1.0),
            Kind::Rec => (count("answered"), count("batches")),
        };
        Service {
            name: now.name.clone(),
            kind: now.kind,
            registers: now.registers.clone(),
            rate: since.rate(count("requests")),
            refused: since.rate(refused),
            request_bytes: per(count("received"), count("requests")),
            reply_bytes: per(count("sent"), count("requests")),
            methods: shares(now, &then),
            p50_ns,
            p99_ns,
            stages,
            cores: cores(now, last, reading, span_us),
            connections: now.connections.iter().map(|(by, count)| (by.clone(), Figure(*count))).collect(),
            stored_bytes: Figure(now.stored_bytes),
            together: Figure(if together.1 > 0.0 { together.0 / together.1 } else { 1.0 }),
            load,
            cache,
            doubts: since.doubts,
        }
    }
}

/// A service between two readings.
pub(super) struct Since<'a> {
    pub(super) now: &'a ServiceReading,
    pub(super) then: &'a ServiceReading,
    pub(super) span_us: u64,
    /// What is wrong with it.
    pub(super) doubts: Vec<String>,
    more: BTreeMap<&'static str, f64>,
}

impl Since<'_> {
    fn new<'a>(
        now: &'a ServiceReading,
        then: &'a ServiceReading,
        span_us: u64,
        doubts: Vec<String>,
    ) -> Since<'a> {
        let mut since = Since { now, then, span_us, doubts, more: BTreeMap::new() };
        for (name, count) in &now.counters {
            let earlier = then.counters.get(name).copied().unwrap_or(0.0);
            let more = since.rise(name, earlier, *count);
            since.more.insert(*name, more);
        }
        since
    }

    /// How much a counter rose; what is wrong with it is a doubt.
    pub(super) fn rise(&mut self, name: &str, then: f64, now: f64) -> f64 {
        let more = now - then;
        if !(now.is_finite() && more >= 0.0) {
            self.doubts.push(format!("counter {name} went from {then} to {now}"));
            return 0.0;
        }
        more
    }

    /// How much a counter of ours rose.
    pub(super) fn count(&self, name: &str) -> f64 {
        self.more.get(name).copied().unwrap_or(0.0)
    }

    /// So many of them, a second.
    pub(super) fn rate(&self, count: f64) -> Figure {
        Figure(rate(count, self.span_us))
    }
}

/// A mean; 0 of nothing.
pub(super) fn per(sum: f64, count: f64) -> Figure {
    Figure(if count > 0.0 { sum / count } else { 0.0 })
}

fn registers(reading: &Reading) -> impl Iterator<Item = &[Register]> {
    reading.services.iter().map(|service| &service.registers[..])
}

fn rate(count: f64, span_us: u64) -> f64 {
    if span_us == 0 { f64::NAN } else { count * 1e6 / span_us as f64 }
}

fn shares(now: &ServiceReading, then: &ServiceReading) -> BTreeMap<String, Figure> {
    let earlier = |name: &str| then.methods.get(name).map_or(0.0, |method| method.count);
    let more = now.methods.iter().map(|(name, now)| (name.clone(), (now.count - earlier(name)).max(0.0)));
    let more: Vec<(String, f64)> = more.filter(|(_, count)| *count > 0.0).collect();
    let all: f64 = more.iter().map(|(_, count)| count).sum();
    more.into_iter().map(|(name, count)| (name, Figure(count / all))).collect()
}

/// Mean times of stages, in nanoseconds.
fn stages(since: &mut Since<'_>) -> BTreeMap<String, Figure> {
    let mean = |count: f64, seconds: f64| per(seconds * 1e9, count);
    let (now, then) = (since.now, since.then);
    if now.kind == Kind::Rec {
        return ["preprocess", "engine", "all", "waiting"]
            .map(|stage| (stage.to_owned(), mean(since.count("answered"), since.count(stage))))
            .into();
    }
    let empty = Histogram::default();
    let of = |(stage, now): (&&'static str, &Histogram)| {
        let then = then.stages.get(stage).unwrap_or(&empty);
        let count = since.rise(stage, then.count, now.count);
        (stage.to_string(), mean(count, since.rise(stage, then.seconds, now.seconds)))
    };
    now.stages.iter().map(of).collect()
}

fn percentiles(
    now: &ServiceReading,
    oldest: &ServiceReading,
    stages: &BTreeMap<String, Figure>,
) -> [Option<Figure>; 2] {
    let mean = |stage: &str| stages.get(stage).map_or(0.0, |figure| figure.0);
    match now.kind {
        Kind::Rpc => {
            let of = |part| {
                let seconds = Histogram::quantile(now.stays.as_ref()?, oldest.stays.as_ref(), part)?;
                Some(Figure(seconds * 1e9))
            };
            [of(0.5), of(0.99)]
        }
        Kind::Kv => {
            let of = |stage: &str, part| {
                Some(Histogram::quantile(now.stages.get(stage)?, oldest.stages.get(stage), part)? * 1e9)
            };
            let names = || now.stages.keys();
            let p50 = names().map(|stage| of(stage, 0.5)).sum::<Option<f64>>();
            let strays = names().map(|stage| Some(of(stage, 0.99)? - mean(stage)));
            let strays = strays.collect::<Option<Vec<f64>>>();
            let most = strays.map(|strays| strays.into_iter().fold(0.0, f64::max));
            let all: f64 = names().map(|stage| mean(stage)).sum();
            [p50.map(Figure), most.map(|most| Figure(all + most))]
        }
        Kind::Rec => {
            let all = mean("all");
            let of = |part: f64| (all > 0.0).then(|| Figure(-all * (1.0 - part).ln()));
            [of(0.5), of(0.99)]
        }
    }
}

impl Histogram {
    /// The quantile of what was added to a histogram, in seconds: between the ends of its bucket by their logarithms.
    pub(super) fn quantile(now: &Histogram, then: Option<&Histogram>, part: f64) -> Option<f64> {
        let earlier = |end: f64| {
            let found =
                then.and_then(|then| then.buckets.iter().find(|(other, _)| other.total_cmp(&end).is_eq()));
            found.map_or(0.0, |(_, count)| *count)
        };
        let counts: Vec<(f64, f64)> =
            now.buckets.iter().map(|(end, count)| (*end, (count - earlier(*end)).max(0.0))).collect();
        let all = counts.last().map(|(_, count)| *count)?;
        if !(TIMED_MIN..1e18).contains(&all) {
            return None;
        }
        let (wanted, mut below) = (all * part, (0.0, 0.0));
        for (end, count) in counts {
            if count >= wanted {
                let (from, counted) = below;
                let within = if count > counted { (wanted - counted) / (count - counted) } else { 1.0 };
                return Some(match (from > 0.0, end.is_finite()) {
                    (true, true) => from * f64::powf(end / from, within),
                    (false, true) => end * within,
                    (_, false) => from,
                });
            }
            below = (end, count);
        }
        None
    }
}

/// How busy engine cores were.
fn busy(then: &Reading, now: &Reading, span_us: u64) -> BTreeMap<Location, Figure> {
    let engines = now.threads.keys().filter(|name| name.starts_with("engine-")).count();
    if engines == 0 {
        return BTreeMap::new();
    }
    let used = rate(threads(then, now, |name| name.starts_with("engine-")), span_us);
    [(Location::Engine, Figure(used / engines as f64))].into()
}

/// Processor time of threads in between, in seconds. A thread that ended took its time along: then it is not known, and 0.
fn threads(then: &Reading, now: &Reading, is_of: impl Fn(&str) -> bool) -> f64 {
    let of = |reading: &Reading| -> f64 {
        reading.threads.iter().filter(|(name, _)| is_of(name)).map(|(_, seconds)| seconds).sum()
    };
    (of(now) - of(then)).max(0.0)
}

/// Cores that the service's threads used, by place.
fn cores(of: &ServiceReading, then: &Reading, now: &Reading, span_us: u64) -> BTreeMap<Location, Figure> {
    let more = |service: &ServiceReading, counter: &str| {
        let before = then.services.iter().find(|one| one.name == service.name);
        let count = |one: &ServiceReading| one.counters.get(counter).copied().unwrap_or(0.0);
        (count(service) - before.map_or(0.0, count)).max(0.0)
    };
    // Of threads that several services use alike, each has its share of the requests.
    let share = |is_among: &dyn Fn(&ServiceReading) -> bool| {
        let all: f64 = now.services.iter().filter(|one| is_among(one)).map(|one| more(one, "requests")).sum();
        if is_among(of) && all > 0.0 { more(of, "requests") / all } else { 0.0 }
    };
    let own = share(&|one| one.kind == of.kind);
    let mut cores = BTreeMap::new();
    let mut add = |place, seconds: f64| {
        cores.insert(place, Figure(rate(seconds, span_us)));
    };
    let edge = |name: &str| match of.kind {
        Kind::Kv => name.starts_with("edge-") || name == "accept",
        Kind::Rpc => name == "rpc-server",
        Kind::Rec => name == "rec-fabric",
    };
    add(Location::Edge, own * threads(then, now, edge));
    match of.kind {
        Kind::Rpc => add(Location::Host, own * threads(then, now, |name| name.starts_with("worker-"))),
        Kind::Rec => add(Location::Host, own * threads(then, now, |name| name.starts_with("host-"))),
        Kind::Kv => {}
    }
    let counted: f64 =
        now.services.iter().filter(|one| one.kind == Kind::Rec).map(|one| more(one, "engine")).sum();
    let engine = match of.kind {
        Kind::Rec => more(of, "engine"),
        _ => {
            let rest = threads(then, now, |name| name.starts_with("engine-")) - counted;
            rest.max(0.0) * share(&is_on_engine)
        }
    };
    add(Location::Engine, engine);
    cores
}

/// Whether its requests are executed on an engine core, and its time there is not counted.
fn is_on_engine(service: &ServiceReading) -> bool {
    let is = |name: &str, word: &str| {
        let register = service.registers.iter().find(|register| register.name == name);
        register.is_some_and(|register| register.text_of(register.number) == word)
    };
    is("engine.mode", "dedicated") || is("place.handlers", "engine")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTERS: &str = r#"[
        {"name": "rpc.place.handlers", "number": 3, "range": [0, 3], "choices": ["auto", "edge", "host", "engine"], "live": true},
        {"name": "rpc.workers.count", "number": 0, "range": [0, 256], "live": true}]"#;

    /// A page of an RPC service on an engine core, after so many calls and seconds of processor time.
    fn reading(at_us: u64, calls: u64, failed: u64, cpu: f64) -> Reading {
        let labels = "service=\"rpc\",side=\"server\",method=\"/a.B/C\"";
        let page = format!(
            "process_cpu_seconds_total {}\nprocess_start_time_seconds 7\n\
             process_thread_cpu_seconds_total{{thread=\"rpc-server\"}} {cpu}\n\
             process_thread_cpu_seconds_total{{thread=\"engine-0\"}} {}\n\
             millrace_rpc_calls_started_total{{{labels}}} {calls}\n\
             millrace_rpc_calls_ended_total{{{labels},code=\"OK\"}} {}\n\
             millrace_rpc_calls_ended_total{{{labels},code=\"INTERNAL\"}} {failed}\n\
             millrace_rpc_call_seconds_bucket{{{labels},le=\"1e-05\"}} {}\n\
             millrace_rpc_call_seconds_bucket{{{labels},le=\"0.0001\"}} {calls}\n\
             millrace_rpc_call_seconds_bucket{{{labels},le=\"+Inf\"}} {calls}\n\
             millrace_rpc_stage_seconds_sum{{service=\"rpc\",side=\"server\",stage=\"handle\"}} {}\n\
             millrace_rpc_stage_seconds_count{{service=\"rpc\",side=\"server\",stage=\"handle\"}} {calls}\n",
            3.0 * cpu,
            2.0 * cpu,
            calls - failed,
            calls / 2,
            calls as f64 * 2e-6,
        );
        Reading::of(at_us, &page, REGISTERS).expect("a good page")
    }

    #[test]
    fn two_readings_are_rates_times_and_cores() {
        let mut difference = Difference::default();
        assert!(difference.add(reading(0, 1000, 0, 1.0), 2.0).is_none());
        let seen = difference.add(reading(500_000, 2000, 100, 1.1), 2.0).expect("there is one before");
        assert_eq!((seen.sequence, seen.span_us, seen.fault()), (1, 500_000, None));
        let near = |figure: Figure, wanted: f64| (figure.0 - wanted).abs() <= 1e-6 * wanted.abs();
        let [rpc] = &seen.services[..] else { panic!("{seen:?}") };
        assert_eq!((rpc.name.as_str(), rpc.kind, rpc.fault()), ("rpc", Kind::Rpc, None));
        assert!(near(rpc.rate, 2000.0) && near(rpc.refused, 200.0), "{rpc:?}");
        assert!(near(rpc.stages["handle"], 2000.0) && near(rpc.methods["/a.B/C"], 1.0), "{rpc:?}");
        assert!(near(rpc.cores[&Location::Edge], 0.2) && near(rpc.cores[&Location::Engine], 0.4), "{rpc:?}");
        assert!(near(seen.busy[&Location::Engine], 0.4) && near(seen.cores_used, 0.6), "{seen:?}");
        // Half are within 10 µs; the 99th percentile is near the end of the next bucket.
        assert!(rpc.p50_ns.is_some_and(|p50| near(p50, 10_000.0)), "{rpc:?}");
        assert!(rpc.p99_ns.is_some_and(|p99| (94_000.0..96_000.0).contains(&p99.0)), "{rpc:?}");
    }

    #[test]
    fn a_counter_that_goes_backwards_makes_two_looks_doubtful_and_a_new_process_none() {
        let mut difference = Difference::default();
        difference.add(reading(0, 1000, 0, 1.0), 2.0);
        let doubts = |seen: Option<Observation>| seen.map(|seen| seen.services[0].doubts.len());
        assert!(doubts(difference.add(reading(500_000, 500, 0, 1.1), 2.0)) > Some(0));
        assert_eq!(doubts(difference.add(reading(1_000_000, 5000, 0, 1.2), 2.0)), Some(1));
        assert_eq!(doubts(difference.add(reading(1_500_000, 6000, 0, 1.3), 2.0)), Some(0));
        let again = Reading { started: 8.0, ..reading(2_000_000, 10, 0, 0.1) };
        assert!(difference.add(again, 2.0).is_none());
        difference.forget();
        assert!(difference.add(reading(2_500_000, 20, 0, 0.2), 2.0).is_none());
    }
}
