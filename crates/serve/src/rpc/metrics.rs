//! The metrics of RPC servers and of the gateway: what the fabric's monitor saw.
//!
//! Bounds: samples per open connection for the first `CONNECTIONS_MAX` of them only; the totals count all.

use crate::metrics::{Buckets, Family, Page};
use base::Nanos;
use fabric::monitor::{Distribution, Event, Snapshot, Traffic};
use fabric::status::Code;

/// Connections with samples of their own.
const CONNECTIONS_MAX: usize = 256;
/// Of frames and bytes.
const DIRECTIONS: [&str; 2] = ["sent", "received"];

crate::families! { "millrace_rpc_";
    STARTED counter "calls_started" count ["side", "method"] "Calls started or received.";
    ENDED counter "calls_ended" count ["side", "method", "code"] "Calls that are over, by status code.";
    IN_FLIGHT gauge "calls_in_flight" count ["side", "method"] "Calls that are not over.";
    LATENCY histogram "call" seconds ["side", "method"] "From start to end of the calls that were timed (register monitor.sample).";
    STAGE histogram "stage" seconds ["side", "stage"] "Stages of the calls that were timed (register monitor.sample).";
    OPENED counter "connections_opened" count ["side", "transport"] "Connections opened.";
    OPEN gauge "connections" count ["side", "transport"] "Connections open.";
    FRAMES counter "frames" count ["side", "transport", "direction"] "Frames.";
    BYTES counter "frame" bytes ["side", "transport", "direction"] "Bytes of frames.";
    EVENTS counter "events" count ["side", "transport", "event"] "Back-pressure, cancels, deadlines, and what transports repaired.";
    CONNECTION_FRAMES counter "connection_frames" count ["connection", "side", "transport", "direction"] "Frames of an open connection.";
    CONNECTION_BYTES counter "connection_frame" bytes ["connection", "side", "transport", "direction"] "Bytes of an open connection's frames.";
}

/// Adds everything that a monitor saw.
pub fn collect(seen: &Snapshot, page: &mut Page) {
    calls(seen, page);
    for ((side, transport), traffic) in &seen.traffic {
        let labels = [side.name(), transport];
        page.add(OPENED, &labels, traffic.opened);
        page.add(OPEN, &labels, traffic.open);
        both_ways(page, [FRAMES, BYTES], &labels, traffic);
        for (event, count) in Event::NAMES.iter().zip(traffic.events) {
            page.add(EVENTS, &[side.name(), transport, event], count);
        }
    }
    for one in seen.connections.iter().take(CONNECTIONS_MAX) {
        let labels = [&*one.number.to_string(), one.side.name(), one.transport];
        both_ways(page, [CONNECTION_FRAMES, CONNECTION_BYTES], &labels, &one.traffic);
    }
}

fn calls(seen: &Snapshot, page: &mut Page) {
    for ((side, method), calls) in &seen.calls {
        let labels = [side.name(), method];
        page.add(STARTED, &labels, calls.started);
        page.add(IN_FLIGHT, &labels, calls.in_flight());
        page.add_buckets(LATENCY, &labels, &buckets(&calls.latency));
        for (code, count) in Code::ALL.iter().zip(calls.ended) {
            if count > 0 || *code == Code::Ok {
                page.add(ENDED, &[side.name(), method, &code.to_string()], count);
            }
        }
    }
    for ((side, stage), spans) in &seen.stages {
        page.add_buckets(STAGE, &[side.name(), stage], &buckets(spans));
    }
}

fn buckets(spans: &Distribution) -> Buckets {
    Buckets::of(spans.count(), spans.sum().0 as f64, |end| spans.within(Nanos(end)))
}

fn both_ways(page: &mut Page, families: [&'static Family; 2], labels: &[&str], traffic: &Traffic) {
    for (family, counts) in families.into_iter().zip([traffic.frames, traffic.bytes]) {
        for (direction, count) in DIRECTIONS.iter().zip(counts) {
            page.add(family, &[labels, &[direction]].concat(), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;
    use fabric::link::Transport;
    use fabric::monitor::{Monitor, Options, Sampling, Side};

    /// A monitor in which every kind of figure occurs.
    #[test]
    fn a_monitor_shows_all_its_families() {
        let monitor = Monitor::new(Options { spans: 16, seed: 7 });
        let method = monitor.method("/shop.Cart/Add \"all\"\n");
        let mut recorder = monitor.recorder(Side::Client, Sampling { timed: 1, traced: 1 });
        let mut connection = recorder.connection(5, Transport::Udp);
        connection.sent(80);
        connection.received(2, 200);
        connection.happened(Event::Full);
        connection.passed_through(Event::Retransmit, 7);
        for code in [Code::Ok, Code::DeadlineExceeded] {
            let stamp = recorder.started(method, 5, &[]);
            recorder.ended(stamp, method, code);
        }
        recorder.started(method, 5, &[]);
        let mut page = Page::default();
        collect(&monitor.snapshot(), &mut page);
        let text = page.text();
        lint::hold(&text);
        for wanted in [
            r#"calls_started_total{side="client",method="/shop.Cart/Add \"all\"\n"} 3"#,
            r#"method="/shop.Cart/Add \"all\"\n",code="DEADLINE_EXCEEDED"} 1"#,
            r#"calls_in_flight{side="client",method="/shop.Cart/Add \"all\"\n"} 1"#,
            r#"call_seconds_count{side="client",method="/shop.Cart/Add \"all\"\n"} 2"#,
            r#"connection_frames_total{connection="5",side="client",transport="udp",direction="received"} 2"#,
            r#"connection_frame_bytes_total{connection="5",side="client",transport="udp",direction="sent"} 80"#,
            r#"events_total{side="client",transport="udp",event="retransmit"} 7"#,
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
        for family in FAMILIES {
            assert!(text.contains(&format!("# TYPE {} ", family.name)), "{} in\n{text}", family.name);
        }
    }
}
