//! How fast a key-value node runs in modelled time: beside the same node by hand without time, and the kernel's events.
//!
//! ```text
//! cargo bench -p millrace-plan --bench timed -- [REQUESTS a slice, default 100000]
//! ```
//! Slices alternate; the ratio is of the same turn. *By hand*: the node's edges and cores stepped as soon as there is something for them, each client asks
//! again when it has its answer, which is compared. *In time*: the same, as processes of the model, with what everything takes. Both answer the same requests;
//! how many share a step is by hand all, in time what comes of the times.

use base::spread::median;
use base::{Nanos, Picos};
use model::platform::Platforms;
use model::system::host::{Handler, Host, Threads};
use plan::timed::kv::experiment::{WIDE, place};
use plan::timed::kv::{Client, Setup, Timed};
use protocol::planted::NoBugs;
use serve::kv::by_hand::Node;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

const SET: &[u8] = b"set key:00000001 0 0 8\r\nvvvvvvvv\r\n";
const GET: &[u8] = b"get key:00000001\r\n";
const HIT: &[u8] = b"VALUE key:00000001 0 8\r\nvvvvvvvv\r\nEND\r\n";
const SLICES: usize = 7;

/// Asks again and again, and counts.
struct Again {
    heard: Vec<u8>,
    answers: Rc<Cell<u64>>,
}

impl Client for Again {
    fn begin(&mut self, _: Picos) -> Vec<u8> {
        GET.to_vec()
    }

    fn hears(&mut self, bytes: &[u8], now: Picos) -> Vec<u8> {
        self.heard.extend_from_slice(bytes);
        if self.heard.len() < HIT.len() {
            return Vec::new();
        }
        assert_eq!(self.heard, HIT, "the node answers wrongly");
        self.heard.clear();
        self.answers.set(self.answers.get() + 1);
        self.begin(now)
    }
}

/// Nanoseconds a request of a node by hand that nothing is timed of.
fn by_hand(handler: Handler, window: usize, requests: u64) -> f64 {
    let node = Node::new(1, &[place(handler)], Nanos::ZERO, (None, NoBugs)).expect("a node");
    let peers: Vec<_> = (0..window + 1).map(|_| node.connect(0, WIDE).expect("a descriptor")).collect();
    peers[window].send(SET);
    (0..2).for_each(|_| node.step_edge(0));
    let peers = &peers[..window];
    peers.iter().for_each(|peer| peer.send(GET));
    let (clock, mut answers, mut heard) = (Instant::now(), 0, Vec::new());
    while answers < requests {
        assert!(node.wants_turn(0), "somebody asks");
        node.step_edge(0);
        for peer in peers {
            heard.clear();
            peer.take(usize::MAX, &mut heard);
            if !heard.is_empty() {
                assert_eq!(heard, HIT, "the node answers wrongly");
                peer.send(GET);
                answers += 1;
            }
        }
    }
    clock.elapsed().as_nanos() as f64 / answers as f64
}

/// The same in time; and millions of the kernel's events per second, events a request, requests a step.
fn in_time(host: &Host, handler: Handler, window: usize, requests: u64) -> [f64; 4] {
    let setup = Setup {
        host,
        threads: Threads::asleep(),
        working_set: 16 << 10,
        places: vec![place(handler)],
        planted: NoBugs,
        width: WIDE,
    };
    let node = Timed::new(setup).expect("a node");
    node.fill(0, SET).expect("a descriptor");
    let answers = Rc::new(Cell::new(0));
    let client = |_| (0, Again { heard: Vec::new(), answers: Rc::clone(&answers) });
    node.begin((0..window).map(client).collect()).expect("descriptors");
    let clock = Instant::now();
    while answers.get() < requests {
        let until = node.sim().now().plus(Picos::from_millis(1));
        node.sim().run_until(until);
    }
    let (span, count) = (clock.elapsed().as_nanos() as f64, answers.get() as f64);
    node.sim().end_processes();
    let (events, counts) = (node.sim().with(|kernel| kernel.events()) as f64, node.counts());
    [span / count, events / span * 1e3, events / count, counts.requests as f64 / counts.steps as f64]
}

fn main() {
    let requests = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(100_000);
    let platform = Platforms::shipped().named("this-host").expect("it is shipped");
    let host = Host::of(&platform).expect("it is complete");
    println!("GETs of a node, {requests} a slice (median of {SLICES})\n");
    println!(
        "{:<18} {:>14} {:>14} {:>9} {:>14} {:>16} {:>14}",
        "", "by hand ns/op", "in time ns/op", "ratio", "M events/s", "events a request", "requests/step"
    );
    for handler in [Handler::Edge, Handler::Engine] {
        for window in [1, 4, 16] {
            let mut columns = [const { Vec::new() }; 6];
            for _ in 0..SLICES {
                let plain = by_hand(handler, window, requests);
                let [timed, rate, events, shared] = in_time(&host, handler, window, requests);
                let row = [plain, timed, timed / plain, rate, events, shared];
                columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            }
            let [plain, timed, ratio, rate, events, shared] = columns.map(median);
            println!(
                "{:<18} {plain:>14.0} {timed:>14.0} {ratio:>8.2}x {rate:>14.2} {events:>16.1} {shared:>14.2}",
                format!("{handler}, {window}")
            );
        }
    }
}
