//! The metrics of RPC servers and of the gateway: what the fabric's monitor saw, and what accelerators before handlers do.
//!
//! Bounds: samples per open connection for the first `CONNECTIONS_MAX` of them only; the totals count all.

use crate::metrics::{Buckets, Family, Page};
use base::Nanos;
use codec::crossing::Counts;
use codec::memory::CHUNK;
use fabric::monitor::{Distribution, Event, Side, Snapshot, Traffic};
use fabric::server::AcceleratorFigures;
use fabric::status::Code;
use std::collections::BTreeMap;

/// Connections with samples of their own.
const CONNECTIONS_MAX: usize = 256;
/// Of frames and bytes.
const DIRECTIONS: [&str; 2] = ["sent", "received"];

crate::families! { "millrace_rpc_";
    STARTED counter "calls_started" count ["side", "method"] "Calls started or received.";
    ENDED counter "calls_ended" count ["side", "method", "code"] "Calls that are over, by status code.";
    IN_FLIGHT gauge "calls_in_flight" count ["side", "method"] "Calls that are not over.";
    LATENCY histogram "call" seconds ["side", "method"] "From start to end of the calls that were timed (register monitor.sample).";
    MESSAGE_BYTES counter "message" bytes ["side", "method", "direction"] "Bytes of requests and replies at the server, without headers, of the calls that were timed (register monitor.sample); of calls with streams, of what opened them.";
    STAGE histogram "stage" seconds ["side", "stage"] "Stages of the calls that were timed (register monitor.sample).";
    PLACED counter "calls_run" count ["place"] "Calls without streams that the server ran, by the place (registers place.handlers, place.other).";
    OPENED counter "connections_opened" count ["side", "transport"] "Connections opened.";
    OPEN gauge "connections" count ["side", "transport"] "Connections open.";
    FRAMES counter "frames" count ["side", "transport", "direction"] "Frames.";
    BYTES counter "frame" bytes ["side", "transport", "direction"] "Bytes of frames.";
    EVENTS counter "events" count ["side", "transport", "event"] "Back-pressure, cancels, deadlines, and what transports repaired.";
    CONNECTION_FRAMES counter "connection_frames" count ["connection", "side", "transport", "direction"] "Frames of an open connection.";
    CONNECTION_BYTES counter "connection_frame" bytes ["connection", "side", "transport", "direction"] "Bytes of an open connection's frames.";
    ACC_CROSSED counter "accelerator_crossings" count ["kind"] "Transactions between host memory and accelerator memory.";
    ACC_CROSSED_BYTES counter "accelerator_crossing" bytes ["kind"] "Bytes of them.";
    ACC_MESSAGES counter "accelerator_messages" count [] "Messages that lanes decoded, or refused.";
    ACC_LANES gauge "accelerator_lanes_busy" count [] "Lanes in the middle of a message that takes several turns.";
    ACC_REQUESTS gauge "accelerator_requests" count [] "Requests to accelerators that have no response yet.";
    ACC_MOVED counter "accelerator_fields_moved" count ["to"] "Fields that handlers had moved to the other memory.";
    ACC_MEMORY gauge "accelerator_memory" bytes [] "Accelerator memory that messages hold.";
    ACC_UNITS gauge "accelerator_units" count ["kernel"] "Compute units that are programmed with the kernel.";
    ACC_TASKS counter "accelerator_unit_tasks" count ["kernel"] "Tasks that compute units were given.";
    ACC_DEATHS counter "accelerator_unit_deaths" count ["kernel"] "Times that a compute unit died in the middle of a task.";
}

/// Adds what all accelerators together do.
pub fn collect_accelerators(all: &[AcceleratorFigures], page: &mut Page) {
    if all.is_empty() {
        return;
    }
    let crossed = all.iter().fold(Counts::default(), |sum, one| sum + one.lanes.crossed);
    for (kind, count, bytes) in [
        ("write", crossed.writes, crossed.write_bytes),
        ("read", crossed.reads, crossed.read_bytes),
        ("doorbell", crossed.doorbells, crossed.doorbell_bytes),
        ("notification", crossed.notifications, crossed.notify_bytes),
    ] {
        page.add(ACC_CROSSED, &[kind], count);
        page.add(ACC_CROSSED_BYTES, &[kind], bytes);
    }
    let sum = |of: &dyn Fn(&AcceleratorFigures) -> u64| all.iter().map(of).sum::<u64>();
    page.add(ACC_MESSAGES, &[], sum(&|one| one.lanes.messages));
    page.add(ACC_LANES, &[], sum(&|one| one.lanes.lanes_busy as u64));
    page.add(ACC_REQUESTS, &[], sum(&|one| one.lanes.in_flight as u64));
    page.add(ACC_MOVED, &["accelerator"], sum(&|one| one.lanes.moved_to_acc));
    page.add(ACC_MOVED, &["host"], sum(&|one| one.lanes.moved_to_host));
    page.add(ACC_MEMORY, &[], sum(&|one| u64::from(one.lanes.memory.held) * CHUNK as u64));
    let mut kernels = BTreeMap::<&str, [u64; 3]>::new();
    for unit in all.iter().flat_map(|one| &one.units) {
        let of_kernel = kernels.entry(&unit.kernel).or_default();
        let more = [u64::from(unit.is_there), unit.tasks, unit.died];
        of_kernel.iter_mut().zip(more).for_each(|(all, more)| *all += more);
    }
    for (kernel, [units, tasks, died]) in kernels {
        page.add(ACC_UNITS, &[kernel], units);
        page.add(ACC_TASKS, &[kernel], tasks);
        page.add(ACC_DEATHS, &[kernel], died);
    }
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
        let bytes = if *side == Side::Server { &calls.message_bytes[..] } else { &[] };
        for (direction, bytes) in DIRECTIONS.iter().zip(bytes.iter().copied()) {
            page.add(MESSAGE_BYTES, &[side.name(), method, direction], bytes);
        }
        for (code, count) in Code::ALL.iter().zip(calls.ended) {
            if count > 0 || *code == Code::Ok {
                page.add(ENDED, &[side.name(), method, &code.to_string()], count);
            }
        }
    }
    for (place, count) in &seen.run {
        page.add(PLACED, &[place], *count);
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
    use codec::memory::Occupancy;
    use codec::place::Figures;
    use fabric::link::Transport;
    use fabric::monitor::{Monitor, Options, Sampling};
    use fabric::server::UnitFigures;

    /// An accelerator that did something.
    fn figures() -> AcceleratorFigures {
        let crossed = Counts { writes: 2, write_bytes: 300, ..Counts::default() };
        let memory = Occupancy { held: 3, peak: 9, chunks: 100 };
        let lanes = Figures {
            crossed,
            messages: 5,
            moved_to_acc: 1,
            moved_to_host: 0,
            lanes_busy: 1,
            in_flight: 2,
            memory,
        };
        let unit = UnitFigures { kernel: "compress".into(), is_there: true, tasks: 4, died: 0 };
        AcceleratorFigures { lanes, units: vec![unit], is_on: true, is_dead: false }
    }

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
        let mut server = monitor.recorder(Side::Server, Sampling { timed: 1, traced: 0 });
        let stamp = server.started(method, 5, &[]);
        server.moved(stamp, 0, 30);
        server.moved(stamp, 700, 0);
        server.run(base::trace::Place::Host);
        server.ended(stamp, method, Code::Ok);
        let mut page = Page::default();
        collect(&monitor.snapshot(), &mut page);
        collect_accelerators(&[figures(), figures()], &mut page);
        let text = page.text();
        lint::hold(&text);
        for wanted in [
            r#"calls_started_total{side="client",method="/shop.Cart/Add \"all\"\n"} 3"#,
            r#"method="/shop.Cart/Add \"all\"\n",code="DEADLINE_EXCEEDED"} 1"#,
            r#"calls_in_flight{side="client",method="/shop.Cart/Add \"all\"\n"} 1"#,
            r#"call_seconds_count{side="client",method="/shop.Cart/Add \"all\"\n"} 2"#,
            r#"connection_frames_total{connection="5",side="client",transport="udp",direction="received"} 2"#,
            r#"connection_frame_bytes_total{connection="5",side="client",transport="udp",direction="sent"} 80"#,
            r#"calls_run_total{place="host"} 1"#,
            r#"events_total{side="client",transport="udp",event="retransmit"} 7"#,
            r#"message_bytes_total{side="server",method="/shop.Cart/Add \"all\"\n",direction="sent"} 700"#,
            r#"message_bytes_total{side="server",method="/shop.Cart/Add \"all\"\n",direction="received"} 30"#,
            r#"accelerator_crossing_bytes_total{kind="write"} 600"#,
            r#"accelerator_unit_tasks_total{kernel="compress"} 8"#,
            "accelerator_memory_bytes 24576",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
        for family in FAMILIES {
            assert!(text.contains(&format!("# TYPE {} ", family.name)), "{} in\n{text}", family.name);
        }
    }
}
