//! What a batch is worth: throughput of an echo over a pair of rings, at several windows, with entries shown one, four or sixteen
//! at a time and adaptively; the adaptive policy against the best of the fixed ones.
//!
//! Two pinned threads; each sample lies between two ping-pong probes and is kept when both see the same distance. The settings
//! are interleaved within a round, so that whatever the host does hits each alike; a sample during which other programs had the
//! cores is taken again.
//!
//! `cargo bench -p millrace-fabric --bench batch [-- --quick]`

use base::spread::{self, Spread};
use base::{Clock, Nanos, cpu};
use fabric::batch::{Batch, Policy};
use ring::probe::{Distance, ping_pong};
use ring::spsc::{Consume, Hybrid, InSlot, Index, Kind, Produce};
use std::collections::BTreeMap;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// With the ring's own word, a slot of 128 bytes.
type Entry = [u32; 31];

const SLOTS: u32 = 1024;
/// Entries that one poll takes at most.
const POLL: usize = 64;
const WINDOWS: [u32; 4] = [1, 8, 32, 64];
const SETTINGS: [(&str, Policy); 4] = [
    ("B=1", Policy::Fixed(1)),
    ("B=4", Policy::Fixed(4)),
    ("B=16", Policy::Fixed(16)),
    ("adaptive", Policy::Adaptive(16)),
];
/// Steps of arithmetic beside each entry, on both sides: none, and about what encoding and decoding a small message cost.
const WORK: [u32; 2] = [0, 24];

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let (rounds, time) = if quick { (4, Nanos::from_millis(10)) } else { (12, Nanos::from_millis(20)) };
    let Some(&cores) = cpu::allowed_cores().first_chunk::<2>() else {
        eprintln!("this benchmark needs two cores");
        return;
    };
    println!("{}; {rounds} rounds of {time}; M calls/s, median", cpu::model_name());
    for work in WORK {
        compare::<Hybrid>(cores, work, rounds, time);
        compare::<Index>(cores, work, rounds, time);
        compare::<InSlot>(cores, work, rounds, time);
    }
}

/// One table: every window and setting over one kind of ring.
fn compare<K: Kind>(cores: [usize; 2], work: u32, rounds: u32, time: Nanos) {
    let mut kept: BTreeMap<(u32, Distance), Vec<[f64; SETTINGS.len()]>> = BTreeMap::new();
    for _ in 0..rounds {
        for window in WINDOWS {
            let Some(before) = probe(cores) else { continue };
            let rates = SETTINGS.map(|(_, policy)| awake(|| echo::<K>(cores, window, policy, work, time)));
            if probe(cores) == Some(before) {
                kept.entry((window, before)).or_default().push(rates);
            }
        }
    }
    println!("\n{} ring, {work} steps of work an entry and side", K::NAME);
    print!("{:>6} {:<13} {:>6}", "window", "distance", "kept");
    SETTINGS.iter().for_each(|(name, _)| print!(" {name:>9}"));
    println!("   adaptive / best fixed [p10..p90]   round trip ns");
    for ((window, distance), rounds) in &kept {
        let median = |at: usize| spread::median(rounds.iter().map(|rates| rates[at]));
        let best = (0..3).max_by(|&a, &b| median(a).total_cmp(&median(b))).expect("three settings");
        let ratio = Spread::of(rounds.iter().map(|rates| rates[3] / rates[best])).expect("rounds were kept");
        print!("{window:>6} {distance:<13} {:>6}", rounds.len());
        (0..SETTINGS.len()).for_each(|at| print!(" {:>9.2}", median(at)));
        print!(
            "   {:.2} of {:<4} [{:.2}..{:.2}]",
            median(3) / median(best),
            SETTINGS[best].0,
            ratio.p10,
            ratio.p90
        );
        println!("   {}", if *window == 1 { format!("{:.0}", 1e3 / median(3)) } else { String::new() });
    }
}

/// The first of ten samples in which both threads were running most of the time: a slower pair than this was never seen awake.
fn awake(sample: impl FnMut() -> f64) -> f64 {
    const SLOWEST: f64 = 0.5;
    let mut samples = std::iter::repeat_with(sample).take(10);
    samples.find(|&rate| rate > SLOWEST).unwrap_or(f64::NAN)
}

fn probe(cores: [usize; 2]) -> Option<Distance> {
    ping_pong(cores, Duration::from_millis(2)).map(|seen| seen.distance())
}

/// A client that keeps `window` calls in flight and a server that echoes. Million calls a second.
fn echo<K: Kind>(cores: [usize; 2], window: u32, policy: Policy, work: u32, time: Nanos) -> f64 {
    let (requests, served) = K::heap::<Entry>(SLOTS);
    let (replies, answers) = K::heap::<Entry>(SLOTS);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            cpu::pin_to(cores[1]).expect("an allowed core");
            serve(served, replies, policy, work, &stop);
        });
        let client = scope.spawn(|| {
            cpu::pin_to(cores[0]).expect("an allowed core");
            let rate = drive(requests, answers, window, policy, work, time);
            stop.store(true, Ordering::Release);
            rate
        });
        client.join().expect("no panic")
    })
}

fn serve(
    mut requests: impl Consume<Entry>,
    mut replies: impl Produce<Entry>,
    policy: Policy,
    work: u32,
    stop: &AtomicBool,
) {
    let mut batch = Batch::new(policy);
    while !stop.load(Ordering::Relaxed) {
        let found = requests.drain(POLL, |entry| {
            toil(work);
            assert!(replies.try_push(entry).is_ok(), "the window is smaller than the ring");
            if batch.put(batch.peak()) {
                replies.publish();
            }
        });
        if batch.polled(found) {
            replies.publish();
        } else if found == 0 {
            spin_loop();
        }
    }
}

fn drive(
    mut requests: impl Produce<Entry>,
    mut answers: impl Consume<Entry>,
    window: u32,
    policy: Policy,
    work: u32,
    time: Nanos,
) -> f64 {
    let mut batch = Batch::new(policy);
    let (mut flying, mut sent, mut seen) = (0, 0u32, 0u32);
    steady_rate(time, || {
        while flying < window {
            toil(work);
            assert!(requests.try_push([sent; 31]).is_ok(), "the window is smaller than the ring");
            (flying, sent) = (flying + 1, sent.wrapping_add(1));
            if batch.put(flying) {
                requests.publish();
            }
        }
        let found = answers.drain(POLL, |entry| {
            toil(work);
            assert_eq!(entry[30], seen, "in order, each once");
            seen = seen.wrapping_add(1);
        });
        flying -= found as u32;
        if batch.polled(found) {
            requests.publish();
        } else if found == 0 {
            spin_loop();
        }
        found as u64
    })
}

/// Dependent arithmetic.
#[inline(always)]
fn toil(steps: u32) {
    let mut x = 1u64;
    for _ in 0..steps {
        x = black_box(x.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 1);
    }
}

/// Repeats `step`, which returns how many calls ended, for the time. The rate is that of the median stretch of some 256 calls,
/// so that a stretch in which the host took a core away does not count.
fn steady_rate(time: Nanos, mut step: impl FnMut() -> u64) -> f64 {
    const STRETCH: u64 = 256;
    let clock = Clock::shared();
    let start = clock.now();
    let (mut last, mut per_call) = (start, Vec::with_capacity(1 << 12));
    while last.since(start) < time {
        let mut ended = 0;
        while ended < STRETCH {
            ended += step();
        }
        let now = clock.now();
        per_call.push(now.since(last).0 as f64 / ended as f64);
        last = now;
    }
    1e3 / spread::median(per_call)
}
