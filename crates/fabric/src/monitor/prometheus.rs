//! The monitor's figures and the fabric's registers as Prometheus text, format 0.0.4.
//!
//! Bounds: lines per open connection for the first [`MAX_CONNECTIONS`] of them only; the totals count all.

use super::counters::Event;
use super::histogram::Distribution;
use super::points::Side;
use super::snapshot::{Snapshot, Traffic};
use crate::registers::Registers;
use crate::status::Code;
use std::fmt::{self, Write};

/// Connections with lines of their own.
const MAX_CONNECTIONS: usize = 256;

/// A label's value: as the format wants it escaped.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' | '"' => write!(f, "\\{c}"),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

/// A family of samples under construction.
struct Family<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl<'a> Family<'a> {
    fn new(out: &'a mut String, name: &'static str, kind: &str, help: &str) -> Family<'a> {
        let _ = writeln!(out, "# HELP millrace_fabric_{name} {help}\n# TYPE millrace_fabric_{name} {kind}");
        Family { out, name }
    }

    fn sample(&mut self, labels: fmt::Arguments<'_>, value: u64) {
        let _ = writeln!(self.out, "millrace_fabric_{}{{{labels}}} {value}", self.name);
    }

    fn summary(&mut self, labels: &str, d: &Distribution) {
        for (text, part) in [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.999", 0.999)] {
            self.sample(format_args!("{labels},quantile=\"{text}\""), d.quantile(part).0);
        }
        let _ = writeln!(self.out, "millrace_fabric_{}_sum{{{labels}}} {}", self.name, d.sum().0);
        let _ = writeln!(self.out, "millrace_fabric_{}_count{{{labels}}} {}", self.name, d.count());
    }
}

impl Snapshot {
    /// Appends everything counted as Prometheus text.
    pub fn render_prometheus(&self, out: &mut String) {
        self.render_calls(out);
        self.render_traffic(out);
        self.render_connections(out);
        for (name, value, help) in [
            ("spans_total", self.spans, "Spans of sampled calls recorded."),
            ("spans_dropped_total", self.spans_dropped, "Spans that have made room for later ones."),
        ] {
            let family = Family::new(out, name, "counter", help);
            let _ = writeln!(family.out, "millrace_fabric_{name} {value}");
        }
    }

    fn render_calls(&self, out: &mut String) {
        let named: Vec<_> =
            self.calls.iter().map(|((side, method), calls)| (call_labels(*side, method), calls)).collect();
        let mut family = Family::new(out, "calls_started_total", "counter", "Calls started or received.");
        for (labels, calls) in &named {
            family.sample(format_args!("{labels}"), calls.started);
        }
        let mut family =
            Family::new(out, "calls_ended_total", "counter", "Calls that are over, by status code.");
        for (labels, calls) in &named {
            for (code, n) in Code::ALL.iter().zip(calls.ended).filter(|&(code, n)| n > 0 || *code == Code::Ok)
            {
                family.sample(format_args!("{labels},code=\"{code}\""), n);
            }
        }
        let mut family = Family::new(out, "calls_in_flight", "gauge", "Calls that are not over.");
        for (labels, calls) in &named {
            family.sample(format_args!("{labels}"), calls.in_flight());
        }
        let help = "From start to end of the calls that were timed (monitor.sample).";
        let mut family = Family::new(out, "latency_nanoseconds", "summary", help);
        for (labels, calls) in &named {
            family.summary(labels, &calls.latency);
        }
        let help = "Stages of the calls that were timed (monitor.sample).";
        let mut family = Family::new(out, "stage_nanoseconds", "summary", help);
        for ((side, stage), spans) in &self.stages {
            family.summary(&format!("side=\"{}\",stage=\"{stage}\"", side.name()), spans);
        }
    }

    fn render_traffic(&self, out: &mut String) {
        let named: Vec<_> =
            self.traffic.iter().map(|((side, transport), t)| (wire_labels(*side, transport), t)).collect();
        type Figure = fn(&Traffic) -> u64;
        let single: [(_, _, _, Figure); 2] = [
            ("connections_opened_total", "counter", "Connections opened.", |t| t.opened),
            ("connections", "gauge", "Connections open.", |t| t.open),
        ];
        for (name, kind, help, figure) in single {
            let mut family = Family::new(out, name, kind, help);
            named.iter().for_each(|(labels, t)| family.sample(format_args!("{labels}"), figure(t)));
        }
        type Figures = fn(&Traffic) -> [u64; 2];
        let directed: [(_, _, Figures); 2] =
            [("frames_total", "Frames.", |t| t.frames), ("bytes_total", "Bytes of frames.", |t| t.bytes)];
        for (name, help, figures) in directed {
            let mut family = Family::new(out, name, "counter", help);
            for (labels, t) in &named {
                both_ways(&mut family, labels, figures(t));
            }
        }
        let help = "Back-pressure, cancels, deadlines, and what transports repaired.";
        let mut family = Family::new(out, "events_total", "counter", help);
        for (labels, t) in &named {
            for (event, n) in Event::NAMES.iter().zip(t.events) {
                family.sample(format_args!("{labels},event=\"{event}\""), n);
            }
        }
    }

    fn render_connections(&self, out: &mut String) {
        let mut family =
            Family::new(out, "connection_frames_total", "counter", "Frames of an open connection.");
        for one in self.connections.iter().take(MAX_CONNECTIONS) {
            let labels = format!("connection=\"{}\",{}", one.number, wire_labels(one.side, one.transport));
            both_ways(&mut family, &labels, one.traffic.frames);
        }
        let mut family =
            Family::new(out, "connection_bytes_total", "counter", "Bytes of an open connection's frames.");
        for one in self.connections.iter().take(MAX_CONNECTIONS) {
            let labels = format!("connection=\"{}\",{}", one.number, wire_labels(one.side, one.transport));
            both_ways(&mut family, &labels, one.traffic.bytes);
        }
    }
}

fn call_labels(side: Side, method: &str) -> String {
    format!("side=\"{}\",method=\"{}\"", side.name(), Label(method))
}

fn wire_labels(side: Side, transport: &str) -> String {
    format!("side=\"{}\",transport=\"{transport}\"", side.name())
}

fn both_ways(family: &mut Family<'_>, labels: &str, figures: [u64; 2]) {
    for (direction, n) in ["sent", "received"].into_iter().zip(figures) {
        family.sample(format_args!("{labels},direction=\"{direction}\""), n);
    }
}

/// Appends the registers as one family.
pub fn render_registers(registers: &Registers, out: &mut String) {
    let mut family = Family::new(out, "register", "gauge", "The fabric's registers.");
    for register in registers.show() {
        family.sample(format_args!("name=\"{}\",unit=\"{}\"", register.name, register.unit), register.number);
    }
}
