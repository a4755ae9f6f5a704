//! Nanoseconds per command of the memcached parser and of the replies, over pipelines that fit the first-level cache.
//!
//! `cargo bench -p millrace-protocol`. Each figure is the median of many short samples, with the tenth and ninetieth
//! percentile, because the machine may be shared.

use protocol::memcache::emit::MetaHit;
use protocol::memcache::{Command, Parser, Reply, Step};
use std::hint::black_box;
use std::time::Instant;

const SAMPLES: usize = 301;
const COMMANDS: usize = 64;

/// Runs `work`, which does `COMMANDS` things, many times and prints the time of one thing.
fn measure(name: &str, mut work: impl FnMut()) {
    const ROUNDS: usize = 100;
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let start = Instant::now();
            (0..ROUNDS).for_each(|_| work());
            start.elapsed().as_nanos() as f64 / (ROUNDS * COMMANDS) as f64
        })
        .collect();
    samples.sort_unstable_by(f64::total_cmp);
    let at = |p: usize| samples[SAMPLES * p / 100];
    println!("{name:34} {:7.1} ns  [{:.1}..{:.1}]", at(50), at(10), at(90));
}

/// Parses a pipeline of `COMMANDS` commands that `request(i)` writes.
fn measure_parse(name: &str, request: impl Fn(usize) -> String) {
    let bytes: Vec<u8> = (0..COMMANDS).flat_map(|i| request(i).into_bytes()).collect();
    measure(name, || {
        let mut parser = Parser::new(1 << 20);
        let (mut at, mut commands) = (0, 0);
        while let Step::Command { command, consumed } = parser.next(black_box(&bytes[at..])) {
            black_box(&command);
            commands += usize::from(!matches!(command, Command::GetEnd));
            at += consumed;
        }
        assert_eq!(commands, COMMANDS, "{name}");
    });
}

fn main() {
    measure_parse("parse get, 8-byte key", |i| format!("get key:{i:04}\r\n"));
    measure_parse("parse get, 30-byte key", |i| format!("get user:session:profile:{i:09}\r\n"));
    measure_parse("parse get, 250-byte key", |i| format!("get {i:0250}\r\n"));
    measure_parse("parse get of 64 keys, per key", |i| {
        let end = if i + 1 == COMMANDS { "\r\n" } else { " " };
        format!("{}key:{i:04}{end}", if i == 0 { "get " } else { "" })
    });
    measure_parse("parse set, 8-byte key, 64-byte value", |i| {
        format!("set key:{i:04} 0 0 64\r\n{i:064}\r\n")
    });
    measure_parse("parse delete", |i| format!("delete key:{i:04}\r\n"));
    measure_parse("parse incr", |i| format!("incr key:{i:04} 1\r\n"));
    measure_parse("parse mg key v", |i| format!("mg key:{i:04} v\r\n"));
    measure_parse("parse mg key v t f c k q O", |i| format!("mg key:{i:04} v t f c k q O{i}\r\n"));
    measure_parse("parse ms key 64 T0 F1", |i| format!("ms key:{i:04} 64 T0 F1\r\n{i:064}\r\n"));
    measure_parse("parse mn", |_| "mn\r\n".to_string());

    let mut room = vec![0; 64 << 10];
    let value = [b'x'; 64];
    measure("reply VALUE, 64-byte value, END", || {
        let mut reply = Reply::new(black_box(&mut room));
        for i in 0..COMMANDS {
            reply.value(black_box(b"key:0001"), i as u32, None, &value);
            reply.line(protocol::memcache::Line::End);
        }
        black_box(reply.written());
    });
    let mut parser = Parser::new(0);
    let Step::Command { command: Command::MetaGet(get), .. } = parser.next(b"mg key:0001 v t f c k O1\r\n")
    else {
        unreachable!("a valid request");
    };
    let hit = MetaHit { version: 123_456_789, client_flags: 7, ..MetaHit::default() };
    measure("reply VA t f c k O, 64-byte value", || {
        let mut reply = Reply::new(black_box(&mut room));
        (0..COMMANDS).for_each(|_| reply.meta_hit(black_box(&get.meta), &hit, &value));
        black_box(reply.written());
    });
    measure("reply number", || {
        let mut reply = Reply::new(black_box(&mut room));
        (0..COMMANDS).for_each(|i| reply.number(black_box(1_234_567_890 + i as u64)));
        black_box(reply.written());
    });
}
