//! Nanoseconds per in-network packet, read and written, from the first-level cache.
//!
//! `cargo bench -p millrace-protocol --bench wire`. Each figure is the median of many short samples, with the tenth and
//! ninetieth percentile, because the machine may be shared.

use base::key::Key;
use protocol::coherence::NodeId;
use protocol::coherence::guard::{Guard, Keys, Source};
use protocol::wire::{BoxId, HomeId, Incarnation, Message, Packet, Status, Verb, key_hash};
use std::hint::black_box;
use std::time::Instant;

fn measure(name: &str, mut work: impl FnMut()) {
    const SAMPLES: usize = 301;
    const ROUNDS: usize = 5000;
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let start = Instant::now();
            (0..ROUNDS).for_each(|_| work());
            start.elapsed().as_nanos() as f64 / ROUNDS as f64
        })
        .collect();
    samples.sort_unstable_by(f64::total_cmp);
    let at = |p: usize| samples[SAMPLES * p / 100];
    println!("{name:44} {:7.1} ns  [{:.1}..{:.1}]", at(50), at(10), at(90));
}

fn measure_packet(name: &str, message: &Message) {
    let mut bytes = Vec::new();
    message.emit(&mut bytes);
    measure(&format!("parse {name}"), || {
        let packet = Packet::parse(black_box(&bytes)).expect("it was written here");
        black_box((packet.opcode(), packet.hash(), packet.key(), packet.value()));
    });
    measure(&format!("emit {name}"), || {
        bytes.clear();
        black_box(message).emit(&mut bytes);
        black_box(&bytes);
    });
}

/// A node says it to another: written, read and copied, without and with a proof.
fn measure_hop(name: &str, message: &Message) {
    let (from, to) = (NodeId::Box(BoxId(1)), NodeId::Home(HomeId(1)));
    let source = Source { node: Some(from), origin: None };
    for (how, keys) in [("plain", None), ("sealed", Some(Keys::of_cluster(&Key::new([7; 16]))))] {
        let mut sender = Guard::new(from, Incarnation(1), keys.clone());
        let mut receiver = Guard::new(to, Incarnation(1), keys);
        let (mut message, mut bytes) = (message.clone(), Vec::new());
        measure(&format!("hop, {how}: {name}"), || {
            bytes.clear();
            message.proof = None;
            sender.emit(to, 0, &mut message, &mut bytes);
            black_box(receiver.open(black_box(&bytes), source).expect("it is said for the first time"));
        });
    }
}

fn main() {
    for len in [16, 32, 250] {
        let key = vec![b'k'; len];
        measure(&format!("hash a {len}-byte key"), || {
            black_box(key_hash(black_box(&key)));
        });
        measure_packet(&format!("GET, {len}-byte key"), &Message::request(Verb::Get, &key));
    }
    measure_hop("GET, 16-byte key", &Message::request(Verb::Get, &[b'k'; 16]));
    for len in [64, 1024, 16 << 10] {
        let mut reply = Message::request(Verb::Get, &[b'k'; 16]).reply(Status::Ok);
        reply.value = vec![b'v'; len];
        measure_packet(&format!("GET reply, {len}-byte value"), &reply);
        measure_hop(&format!("GET reply, {len}-byte value"), &reply);
    }
}
