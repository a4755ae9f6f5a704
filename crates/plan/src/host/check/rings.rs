//! The real rings between two pinned cores: a stream one way, and calls over a pair.

use super::{Bench, Kind, Row, code};
use base::{Clock, Nanos, cpu};
use bench::probe::lines;
use model::system::host::{Echo, Host, one_way};
use ring::pair;
use ring::spsc::{Consume, Hybrid, InSlot, Kind as Ring, Produce};
use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// Message and the ring's words are one line.
type Message = [u32; 13];

const SLOTS: u32 = 1024;
/// What a server takes before it shows the replies.
const BURST: usize = 16;
/// Messages between two readings of the clock.
const STRETCH: u64 = 2048;

/// What is compared.
#[derive(Clone, Copy)]
enum What {
    InSlot(u32),
    Hybrid(u32),
    Rate(u32),
    RoundTrip,
}

const ALL: [What; 7] = [
    What::InSlot(1),
    What::Hybrid(1),
    What::Hybrid(32),
    What::RoundTrip,
    What::Rate(1),
    What::Rate(8),
    What::Rate(64),
];

impl What {
    fn row(self) -> Row {
        let mega = Kind::Rate("M/s", 1e6);
        match self {
            What::InSlot(batch) => Row::new(format!("ring InSlot one way, batch {batch}"), mega),
            What::Hybrid(batch) => Row::new(format!("ring Hybrid one way, batch {batch}"), mega),
            What::Rate(window) => Row::new(format!("ring pair calls, {window} under way"), mega),
            What::RoundTrip => Row::new("ring pair round trip", Kind::Span("ns", 1e-9)),
        }
    }

    fn predict(self, host: &Host) -> f64 {
        match self {
            What::InSlot(batch) | What::Hybrid(batch) => one_way(host, batch),
            What::Rate(window) => Echo::of(host, window).rate,
            What::RoundTrip => Echo::of(host, 1).round_trip,
        }
    }

    fn measure(self, cores: (usize, usize), span: Nanos) -> Option<f64> {
        match self {
            What::InSlot(batch) => stream::<InSlot>(cores, batch, span),
            What::Hybrid(batch) => stream::<Hybrid>(cores, batch, span),
            What::Rate(window) => calls(cores, window, span),
            What::RoundTrip => calls(cores, 1, span).map(|rate| 1.0 / rate),
        }
    }
}

/// All rows of the rings.
pub(super) fn check(bench: &mut Bench<'_>) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows: Vec<Row> = ALL.iter().map(|what| what.row()).collect();
    for _ in 0..2 * bench.rounds() {
        for (what, row) in ALL.iter().zip(&mut rows) {
            probe(bench);
            let before = what.predict(&bench.host()?);
            let measured = what.measure(bench.cores, bench.span(Nanos::from_millis(20)));
            probe(bench);
            row.note(before, measured, what.predict(&bench.host()?));
        }
    }
    Ok(rows)
}

/// Replaces the figures that rings rest on.
fn probe(bench: &mut Bench<'_>) {
    let (a, b) = bench.cores;
    let span = Nanos::from_millis(3);
    if let Some(game) = ring::probe::ping_pong([a, b], span.into()) {
        bench.figures.note("cores.ping_pong", &[game.round_trip.0 as f64], "ns", "one line both ways");
    }
    for (batch, name) in [(1, "cores.line_single"), (32, "cores.line_batch")] {
        bench.figures.note(name, &lines::stream((b, a), batch, span), "ns", "lines in order");
    }
    code::rings(bench.figures, Nanos::from_millis(1));
}

/// Two pinned threads that begin together; the first one's figure.
fn race<T: Send>(
    cores: (usize, usize),
    far: impl FnOnce(&AtomicBool) + Send,
    near: impl FnOnce() -> T + Send,
) -> Option<T> {
    let (over, start) = (AtomicBool::new(false), Barrier::new(2));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = cpu::pin_to(cores.1).is_ok();
            start.wait();
            far(&over);
            pinned
        });
        let one = scope.spawn(|| {
            let pinned = cpu::pin_to(cores.0).is_ok();
            start.wait();
            let figure = near();
            over.store(true, Ordering::Release);
            pinned.then_some(figure)
        });
        let figure = one.join().expect("measuring does not panic");
        figure.filter(|_| other.join().expect("the far side does not panic"))
    })
}

/// Messages per second of the median stretch: what the host took a core away for does not count.
fn steady(span: Nanos, mut step: impl FnMut() -> u64) -> f64 {
    let clock = Clock::shared();
    let start = clock.now();
    let (mut last, mut each) = (start, Vec::with_capacity(1 << 14));
    while last.since(start) < span {
        let (mut moved, mut idle) = (0, 0u32);
        while moved < STRETCH && idle < 1 << 20 {
            let some = step();
            moved += some;
            idle = if some == 0 { idle + 1 } else { 0 };
        }
        let now = clock.now();
        if moved > 0 {
            each.push(now.since(last).0 as f64 / moved as f64);
        }
        last = now;
    }
    each.sort_by(f64::total_cmp);
    each.get(each.len() / 2).map_or(0.0, |ns| 1e9 / ns)
}

fn stream<R: Ring>(cores: (usize, usize), batch: u32, span: Nanos) -> Option<f64> {
    let (mut producer, mut consumer) = R::heap::<Message>(SLOTS);
    race(
        cores,
        move |over| {
            let mut message = [0; 13];
            while !over.load(Ordering::Relaxed) {
                for _ in 0..batch {
                    message[0] += 1;
                    let _ = producer.try_push(message);
                }
                producer.publish();
            }
        },
        move || {
            let mut sum = 0u32;
            let rate = steady(span, || consumer.drain(64, |message| sum ^= message[0]) as u64);
            black_box(sum);
            rate
        },
    )
}

fn calls(cores: (usize, usize), window: u32, span: Nanos) -> Option<f64> {
    let (mut client, mut server) = pair::pair::<Message, Message>(SLOTS);
    race(
        cores,
        move |over| {
            while !over.load(Ordering::Relaxed) {
                if server.answer(BURST, |_, request| request) == 0 {
                    spin_loop();
                }
            }
        },
        move || {
            let mut sum = 0u32;
            steady(span, || {
                for _ in 0..window - client.in_flight() {
                    let _ = client.try_send([7; 13]);
                }
                client.flush();
                let answers = client.drain(window as usize, |_, reply| sum ^= reply[0]) as u64;
                black_box(sum);
                answers
            })
        },
    )
}
