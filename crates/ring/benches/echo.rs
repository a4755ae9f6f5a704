//! How fast the rings are, by how far apart the two cores are.
//!
//! Three groups, each sample at most 50 ms between two ping-pong probes, kept when both probes see the same class of distance:
//! every ring one way; echo over the pair between two threads, on every ring; echo between two processes.
//! Both players are pinned. Samples of all variants are interleaved, so that whatever the host does hits each alike.
//!
//! `cargo bench -p millrace-ring --bench echo [-- --quick] [--json]`

mod rig;

use base::{Clock, Nanos};
use rig::{Sample, Table};
use ring::pair;
use ring::spsc::{Consume, Hybrid, InSlot, Index, Kind, Produce};
use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// Request and reply of one 64-byte slot each: the words that the ring needs are in the same line.
pub(crate) type Line = [u32; 13];
/// Sixty-four bytes of the caller's own, two lines a slot.
pub(crate) type Long = [u64; 8];

const SLOTS: u32 = 1024;
/// A server's burst: what it takes before it shows the replies.
const BURST: usize = 16;

fn main() {
    if let Some(core) = rig::child_core() {
        return serve_forever(core);
    }
    let options = rig::Options::from_args();
    let Some(cores) = rig::two_cores() else {
        eprintln!("this benchmark needs two cores");
        return;
    };
    let mut table = Table::default();
    let time = options.time;
    for _ in 0..options.repeats {
        for batch in [1, 8, 32] {
            table.run("one way", InSlot::NAME, batch, cores, || one_way::<InSlot>(cores, batch, time));
            table.run("one way", Index::NAME, batch, cores, || one_way::<Index>(cores, batch, time));
            table.run("one way", Hybrid::NAME, batch, cores, || one_way::<Hybrid>(cores, batch, time));
        }
        for window in [1, 8, 64] {
            table.run("echo, threads", InSlot::NAME, window, cores, || {
                threads::<InSlot, Line>(cores, window, time)
            });
            table.run("echo, threads", Index::NAME, window, cores, || {
                threads::<Index, Line>(cores, window, time)
            });
            table.run("echo, threads", Hybrid::NAME, window, cores, || {
                threads::<Hybrid, Line>(cores, window, time)
            });
            table.run("echo, threads, two lines", Hybrid::NAME, window, cores, || {
                threads::<Hybrid, Long>(cores, window, time)
            });
            table.run("echo, processes", Hybrid::NAME, window, cores, || processes(cores, window, time));
            table.run("echo, one thread", Hybrid::NAME, window, cores, || one_thread(cores, window, time));
        }
    }
    table.print(&options);
}

/// Two pinned threads: `far` until told to stop, `near` for the time. Both start together.
fn race<T: Send>(
    cores: [usize; 2],
    far: impl FnOnce(&AtomicBool) + Send,
    near: impl FnOnce() -> T + Send,
) -> T {
    let (stop, start) = (AtomicBool::new(false), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rig::pin(cores[1]);
            start.wait();
            far(&stop);
        });
        let near = scope.spawn(|| {
            rig::pin(cores[0]);
            start.wait();
            let result = near();
            stop.store(true, Ordering::Release);
            result
        });
        near.join().expect("no panic")
    })
}

/// One-way stream: the consumer counts what comes in the time.
fn one_way<K: Kind>(cores: [usize; 2], batch: u32, time: Nanos) -> Option<Sample> {
    let (mut p, mut c) = K::heap::<Line>(SLOTS);
    race(
        cores,
        move |stop| {
            let mut line = [0; 13];
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..batch {
                    line[0] += 1;
                    let _ = p.try_push(line);
                }
                p.publish();
            }
        },
        move || {
            let mut sum = 0u32;
            let sample = rig::steady_rate(time, || c.drain(64, |line| sum ^= line[0]) as u64);
            std::hint::black_box(sum);
            Some(sample)
        },
    )
}

/// What the echo carries: the first word is looked at.
pub(crate) trait Cargo: Copy + Send + 'static {
    fn new(n: u32) -> Self;
    fn word(&self) -> u32;
}

impl Cargo for Line {
    fn new(n: u32) -> Line {
        [n; 13]
    }
    fn word(&self) -> u32 {
        self[0]
    }
}

impl Cargo for Long {
    fn new(n: u32) -> Long {
        [u64::from(n); 8]
    }
    fn word(&self) -> u32 {
        self[0] as u32
    }
}

fn threads<K: Kind, T: Cargo>(cores: [usize; 2], window: u32, time: Nanos) -> Option<Sample> {
    let (mut client, mut server) = pair::pair_of::<K, T, T>(SLOTS);
    race(
        cores,
        move |stop| {
            while !stop.load(Ordering::Relaxed) {
                if server.answer(BURST, |_, request| request) == 0 {
                    spin_loop();
                }
            }
        },
        move || Some(drive(&mut client, window, time, || ())),
    )
}

/// As [`threads`], the server in another process: this program again, killed when the sample is taken.
fn processes(cores: [usize; 2], window: u32, time: Nanos) -> Option<Sample> {
    let bytes = pair::mapped_bytes::<Hybrid, Line, Line>(SLOTS);
    let (memory, mut child) = rig::start_child(bytes, cores[1])?;
    let mut client = pair::map_client::<Hybrid, Line, Line>(&memory, 0, SLOTS);
    let sample = rig::on_core(cores[0], || {
        // The first answer says that the child runs.
        client.try_send(Line::new(0)).expect("a credit");
        client.flush();
        while client.poll().is_none() {
            std::thread::yield_now();
        }
        drive(&mut client, window, time, || ())
    });
    child.kill().and_then(|()| child.wait()).expect("the child was running");
    Some(sample)
}

/// The child's part.
fn serve_forever(core: usize) {
    rig::pin(core);
    let memory = rig::inherited_memory(pair::mapped_bytes::<Hybrid, Line, Line>(SLOTS));
    let mut server = pair::map_server::<Hybrid, Line, Line>(&memory, 0, SLOTS);
    loop {
        if server.answer(BURST, |_, request| request) == 0 {
            spin_loop();
        }
    }
}

/// Both halves in one thread: what the steps themselves cost.
fn one_thread(cores: [usize; 2], window: u32, time: Nanos) -> Option<Sample> {
    let (mut client, mut server) = pair::pair::<Line, Line>(SLOTS);
    Some(rig::on_core(cores[0], || {
        drive(&mut client, window, time, || {
            server.answer(BURST, |_, request| request);
        })
    }))
}

/// Keeps `window` requests outstanding for the time, and checks every reply.
pub(crate) fn drive<K: Kind, T: Cargo>(
    client: &mut ring::Client<T, T, K>,
    window: u32,
    time: Nanos,
    between: impl FnMut(),
) -> Sample {
    if window == 1 { trips(client, time, between) } else { stream(client, window, time, between) }
}

fn stream<K: Kind, T: Cargo>(
    client: &mut ring::Client<T, T, K>,
    window: u32,
    time: Nanos,
    mut between: impl FnMut(),
) -> Sample {
    let (mut sent, mut seen) = (0u32, 0u32);
    rig::steady_rate(time, || {
        for _ in 0..window - client.in_flight() {
            let _ = client.try_send(T::new(sent));
            sent = sent.wrapping_add(1);
        }
        client.flush();
        between();
        client.drain(window as usize, |_, reply| {
            assert_eq!(reply.word(), seen);
            seen = seen.wrapping_add(1);
        }) as u64
    })
}

/// One request at a time, timed in batches of 64 as the raw ping-pong is.
fn trips<K: Kind, T: Cargo>(
    client: &mut ring::Client<T, T, K>,
    time: Nanos,
    mut between: impl FnMut(),
) -> Sample {
    const BATCH: u32 = 64;
    let clock = Clock::shared();
    let (mut n, mut batches) = (0u32, Vec::with_capacity(1 << 14));
    let start = clock.now();
    let mut last = start;
    while last.since(start) < time {
        for _ in 0..BATCH {
            let _ = client.try_send(T::new(n));
            client.flush();
            let reply = loop {
                between();
                if let Some((_, reply)) = client.poll() {
                    break reply;
                }
                spin_loop();
            };
            assert_eq!(reply.word(), n);
            n = n.wrapping_add(1);
        }
        let now = clock.now();
        batches.push(now.since(last).0);
        last = now;
    }
    batches.sort_unstable();
    let round_trip = batches[batches.len() / 2] as f64 / f64::from(BATCH);
    Sample { mrps: 1e3 / round_trip, round_trip: Some(round_trip) }
}
