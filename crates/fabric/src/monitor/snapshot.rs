//! What the monitor has counted, as plain values: to be added up over monitors and processes, and printed.

use super::counters::Event;
use super::histogram::Distribution;
use super::points::Side;
use crate::status::Code;
use base::json::Text;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Everything counted, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By side and method.
    pub calls: BTreeMap<(Side, String), Calls>,
    /// By side and stage, of the calls that were timed.
    pub stages: BTreeMap<(Side, &'static str), Distribution>,
    /// Calls without streams that a server ran, by the place.
    pub run: BTreeMap<&'static str, u64>,
    /// By side and transport, over connections open and closed.
    pub traffic: BTreeMap<(Side, &'static str), Traffic>,
    /// The connections that are open.
    pub connections: Vec<ConnectionTraffic>,
    /// Calls that have left spans.
    pub spans: u64,
}

/// The calls of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls started or received.
    pub started: u64,
    /// Calls that are over, by status code.
    pub ended: [u64; Code::ALL.len()],
    /// From start to end, of the calls that were timed.
    pub latency: Distribution,
    /// Bytes of messages sent and received, of the calls that were timed.
    pub message_bytes: [u64; 2],
}

impl Calls {
    /// Calls that are not over.
    pub fn in_flight(&self) -> u64 {
        self.started.saturating_sub(self.ended.iter().sum())
    }
}

/// What went over connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections opened.
    pub opened: u64,
    /// Connections open.
    pub open: u64,
    /// Frames sent and received.
    pub frames: [u64; 2],
    /// Bytes of frames sent and received.
    pub bytes: [u64; 2],
    /// By [`Event`].
    pub events: [u64; Event::NAMES.len()],
}

/// What went over one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionTraffic {
    /// Its number.
    pub number: u32,
    /// Which end of it this is.
    pub side: Side,
    /// What carries it.
    pub transport: &'static str,
    /// What went over it; it counts no connections.
    pub traffic: Traffic,
}

impl Traffic {
    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Traffic) {
        self.opened += other.opened;
        self.open += other.open;
        sum(&mut self.frames, &other.frames);
        sum(&mut self.bytes, &other.bytes);
        sum(&mut self.events, &other.events);
    }
}

fn sum(into: &mut [u64], from: &[u64]) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
}

impl Snapshot {
    /// Adds what another monitor has counted.
    pub fn merge(&mut self, other: &Snapshot) {
        for (key, calls) in &other.calls {
            let mine = self.calls.entry(key.clone()).or_default();
            mine.started += calls.started;
            sum(&mut mine.ended, &calls.ended);
            mine.latency.merge(&calls.latency);
            sum(&mut mine.message_bytes, &calls.message_bytes);
        }
        for (key, stage) in &other.stages {
            self.stages.entry(*key).or_default().merge(stage);
        }
        for (place, count) in &other.run {
            *self.run.entry(place).or_default() += count;
        }
        for (key, traffic) in &other.traffic {
            self.traffic.entry(*key).or_default().merge(traffic);
        }
        self.connections.extend_from_slice(&other.connections);
        self.spans += other.spans;
    }

    /// As JSON: lists `calls`, `stages`, `places`, `traffic` and `connections`, and how many calls left spans.
    pub fn to_json(&self) -> String {
        let calls = list(&self.calls, |out, ((side, method), calls)| {
            let named = Code::ALL.iter().zip(calls.ended).filter(|(_, n)| *n > 0);
            let ended: Vec<_> = named.map(|(code, n)| format!("\"{code}\":{n}")).collect();
            let (started, in_flight) = (calls.started, calls.in_flight());
            let _ = write!(
                out,
                "\"side\":\"{}\",\"method\":{},\"started\":{started},\"in_flight\":{in_flight},\"ended\":{{{}}},\"latency\":{}",
                side.name(),
                Text(method),
                ended.join(","),
                distribution(&calls.latency)
            );
        });
        let stages = list(&self.stages, |out, ((side, stage), spans)| {
            let _ = write!(
                out,
                "\"side\":\"{}\",\"stage\":\"{stage}\",\"spans\":{}",
                side.name(),
                distribution(spans)
            );
        });
        let places = list(&self.run, |out, (place, count)| {
            let _ = write!(out, "\"place\":\"{place}\",\"calls\":{count}");
        });
        let totals = list(&self.traffic, |out, ((side, transport), all)| {
            let (opened, open) = (all.opened, all.open);
            let _ = write!(out, "\"side\":\"{}\",\"transport\":\"{transport}\",", side.name());
            let _ = write!(out, "\"opened\":{opened},\"open\":{open},{}", traffic(all));
        });
        let connections = self.connections_json();
        format!(
            "{{\"calls\":{calls},\"stages\":{stages},\"places\":{places},\"traffic\":{totals},\"connections\":{connections},\"spans\":{}}}",
            self.spans
        )
    }

    /// The list `connections` alone, as JSON.
    pub fn connections_json(&self) -> String {
        list(&self.connections, |out, one| {
            let _ = write!(out, "\"number\":{},\"side\":\"{}\",", one.number, one.side.name());
            let _ = write!(out, "\"transport\":\"{}\",{}", one.transport, traffic(&one.traffic));
        })
    }
}

/// A JSON list of objects, whose fields `each` writes.
fn list<T>(items: impl IntoIterator<Item = T>, each: impl Fn(&mut String, T)) -> String {
    let mut out = String::from("[");
    for item in items {
        out.push_str(if out.len() > 1 { ",{" } else { "{" });
        each(&mut out, item);
        out.push('}');
    }
    out.push(']');
    out
}

fn distribution(d: &Distribution) -> String {
    let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|part| d.quantile(part).0);
    format!(
        "{{\"count\":{},\"sum_ns\":{},\"p50_ns\":{p50},\"p90_ns\":{p90},\"p99_ns\":{p99},\"p999_ns\":{p999}}}",
        d.count(),
        d.sum().0
    )
}

fn traffic(t: &Traffic) -> String {
    let events = Event::NAMES.iter().zip(t.events).map(|(name, n)| format!(",\"{name}\":{n}"));
    format!(
        "\"frames_sent\":{},\"frames_received\":{},\"bytes_sent\":{},\"bytes_received\":{}{}",
        t.frames[0],
        t.frames[1],
        t.bytes[0],
        t.bytes[1],
        events.collect::<String>()
    )
}
