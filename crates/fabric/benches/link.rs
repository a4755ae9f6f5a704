//! What a link costs: echo of a 64-byte body behind its 16-byte header, by transport, mode, window and how far apart the cores are.
//!
//! Every sample lies between two ping-pong probes and is kept when both see the same class of distance; all variants are
//! interleaved, so that whatever the host does hits each alike. A sample is cut into stretches of some microseconds, and the
//! one at the first tenth counts: on a machine that others use too, most stretches are those in which one end did not run.
//! `OneThread` has both ends on one core, in turns: what the steps themselves cost both sides together, without a line that moves.
//!
//! `cargo bench -p millrace-fabric --bench link [-- --quick]`

use base::spread;
use base::units::Nanos;
use base::{Clock, cpu};
use fabric::frame::HEADER;
use fabric::link::{self, Frames, Link, LinkOptions, Mode};
use ring::probe::{Distance, ping_pong};
use std::collections::BTreeMap;
use std::hint::spin_loop;
use std::process::{Child, Command};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const BODY: usize = 64;
const PROBE: Duration = Duration::from_millis(3);
/// A process that is to serve: its core and address.
const CHILD: &str = "MILLRACE_FABRIC_LINK_BENCH";

/// Where the ends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    OneThread,
    Threads,
    Processes,
}

type Pair = (Box<dyn Link>, Box<dyn Link>);

fn main() {
    if let Ok(child) = std::env::var(CHILD) {
        let (core, address) = child.split_once(' ').expect("a core and an address");
        return serve_process(core.parse().expect("a number"), address);
    }
    let quick = std::env::args().any(|arg| arg == "--quick");
    let (repeats, time) = if quick { (3, Nanos::from_millis(10)) } else { (12, Nanos::from_millis(40)) };
    let Some(&cores) = cpu::allowed_cores().first_chunk::<2>() else {
        eprintln!("this benchmark needs two cores");
        return;
    };
    let mut table = BTreeMap::<_, Vec<f64>>::new();
    let (mut probes, mut dropped) = (Vec::new(), 0);
    for _ in 0..repeats {
        for window in [1, 8, 32, 64] {
            for mode in Mode::ALL {
                for (place, transport) in [
                    (Place::OneThread, "memory"),
                    (Place::OneThread, "shm"),
                    (Place::OneThread, "udp"),
                    (Place::Threads, "memory"),
                    (Place::Threads, "shm"),
                    (Place::Threads, "udp"),
                    (Place::Processes, "shm"),
                ] {
                    // Modes are of rings.
                    if transport == "udp" && mode != Mode::default() {
                        continue;
                    }
                    let key = |class| (place, window, class, transport, mode.name());
                    if place == Place::OneThread {
                        let sample = echo(place, transport, mode, window, cores, time);
                        table.entry(key(None)).or_default().push(sample);
                        continue;
                    }
                    let before = ping_pong(cores, PROBE);
                    let sample = echo(place, transport, mode, window, cores, time);
                    let after = ping_pong(cores, PROBE);
                    let class = before.zip(after).filter(|(a, b)| a.distance() == b.distance());
                    let Some((probe, _)) = class else {
                        dropped += 1;
                        continue;
                    };
                    probes.push(probe.round_trip.0 as f64);
                    table.entry(key(Some(probe.distance()))).or_default().push(sample);
                }
            }
        }
    }
    print(table, probes, dropped);
}

type Key = (Place, u32, Option<Distance>, &'static str, &'static str);

fn print(table: BTreeMap<Key, Vec<f64>>, probes: Vec<f64>, dropped: u32) {
    println!("{}; raw ping-pong {}", cpu::model_name(), spread::text(probes, 1));
    println!("{dropped} samples dropped since their two probes differ or failed");
    println!(
        "ns per echo, median [p10..p90]: at window 1 the round trip, else the time between two replies\n"
    );
    println!("{:<11}{:>6}  {:<13}{:<8}{:<10}{:>5}  ns", "ends", "window", "distance", "link", "mode", "kept");
    for ((place, window, class, transport, mode), samples) in table {
        let class = class.map_or(String::from("one core"), |class| class.to_string());
        let (kept, spread) = (samples.len(), spread::text(samples, 1));
        println!(
            "{:<11}{window:>6}  {class:<13}{transport:<8}{mode:<10}{kept:>5}  {spread}",
            format!("{place:?}")
        );
    }
}

/// One sample: ns per echo.
fn echo(place: Place, transport: &str, mode: Mode, window: u32, cores: [usize; 2], time: Nanos) -> f64 {
    let options = LinkOptions { mode, ..LinkOptions::default() };
    let pair = || -> Pair {
        let pair = match transport {
            "memory" => link::memory::pair(&options),
            "shm" => link::shm::pair(&options),
            _ => return loopback(&options),
        };
        pair.expect("a link")
    };
    match place {
        Place::OneThread => {
            let ((mut client, mut server), mut echo) = (pair(), Echo::default());
            let sample = on_core(cores[0], || drive(&mut *client, window, time, || echo.turn(&mut *server)));
            part(client, server);
            sample
        }
        Place::Threads => threads(pair(), window, cores, time),
        Place::Processes => processes(mode, window, cores, time),
    }
}

/// Both ends of a session over UDP.
fn loopback(options: &LinkOptions) -> Pair {
    let any = "udp:127.0.0.1:0".parse().expect("an address");
    let mut listener = link::listen(&any, options).expect("a port");
    let address = listener.address().clone();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| link::connect(&address, options).expect("the server is there"));
        let mut server = None;
        while !client.is_finished() || server.is_none() {
            let now = Clock::shared().now();
            server = server.or(listener.accept(now).expect("no error"));
            std::thread::yield_now();
        }
        (client.join().expect("no panic"), server.expect("accepted just now"))
    })
}

/// Answers every frame with itself.
#[derive(Default)]
struct Echo {
    frames: Frames,
}

impl Echo {
    fn turn(&mut self, link: &mut dyn Link) {
        let now = Clock::shared().now();
        self.frames.clear();
        if link.recv(now, 16, &mut self.frames).unwrap_or(0) == 0 {
            // Sessions have timers.
            link.flush(now);
            return spin_loop();
        }
        while let Some(frame) = self.frames.pop() {
            let (head, body) = frame.split_at(HEADER);
            // The window is far below what a link holds.
            link.try_send(head, body).expect("room for a reply");
        }
        link.flush(now);
    }
}

/// Keeps `window` echoes in flight for the time, checks each, and gives the ns per echo of the stretch at the first tenth.
fn drive(link: &mut dyn Link, window: u32, time: Nanos, mut between: impl FnMut()) -> f64 {
    const STRETCH: u32 = 128;
    let clock = Clock::shared();
    let (mut sent, mut seen) = (0u32, 0u32);
    let (mut frames, mut stretches) = (Frames::default(), Vec::with_capacity(1 << 14));
    let mut body = [0u8; BODY];
    let start = clock.now();
    let mut last = start;
    while last.since(start) < time {
        let until = seen.wrapping_add(STRETCH);
        while until.wrapping_sub(seen) as i32 > 0 {
            let now = clock.now();
            if sent.wrapping_sub(seen) < window {
                while sent.wrapping_sub(seen) < window {
                    body[..4].copy_from_slice(&sent.to_le_bytes());
                    link.try_send(&[7; HEADER], &body).expect("the window fits");
                    sent = sent.wrapping_add(1);
                }
                link.flush(now);
            }
            between();
            frames.clear();
            if link.recv(now, window as usize, &mut frames).expect("the echo lives") == 0 {
                link.flush(now);
                spin_loop();
            }
            while let Some(frame) = frames.pop() {
                let number = frame[HEADER..].first_chunk().expect("a body");
                assert_eq!((u32::from_le_bytes(*number), frame.len()), (seen, HEADER + BODY));
                seen = seen.wrapping_add(1);
            }
        }
        let now = clock.now();
        stretches.push(now.since(last).0);
        last = now;
    }
    stretches.sort_unstable();
    stretches[stretches.len() / 10] as f64 / f64::from(STRETCH)
}

fn on_core<T: Send>(core: usize, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            cpu::pin_to(core).expect("an allowed core");
            work()
        });
        pinned.join().expect("no panic")
    })
}

fn threads((mut client, mut server): Pair, window: u32, cores: [usize; 2], time: Nanos) -> f64 {
    let (stop, start) = (AtomicBool::new(false), Barrier::new(2));
    let sample = std::thread::scope(|scope| {
        scope.spawn(|| {
            cpu::pin_to(cores[1]).expect("an allowed core");
            start.wait();
            let mut echo = Echo::default();
            while !stop.load(Ordering::Relaxed) {
                echo.turn(&mut *server);
            }
        });
        on_core(cores[0], || {
            start.wait();
            let sample = drive(&mut *client, window, time, || ());
            stop.store(true, Ordering::Relaxed);
            sample
        })
    });
    part(client, server);
    sample
}

/// Drops both ends at once: the end of a session waits a while for the other to confirm it.
fn part(client: Box<dyn Link>, server: Box<dyn Link>) {
    std::thread::scope(|scope| {
        scope.spawn(move || drop(client));
        drop(server);
    });
}

fn processes(mode: Mode, window: u32, cores: [usize; 2], time: Nanos) -> f64 {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let address = format!("shm:{}", folder.path().join("s").display()).parse().expect("an address");
    let options = LinkOptions { mode, ..LinkOptions::default() };
    let mut child: Child = Command::new(std::env::current_exe().expect("this program"))
        .env(CHILD, format!("{} {mode:?} {address}", cores[1]))
        .spawn()
        .expect("a child");
    let mut client = loop {
        match link::connect(&address, &options) {
            Ok(client) => break client,
            Err(link::ConnectError::NobodyThere(_)) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    let sample = on_core(cores[0], || drive(&mut *client, window, time, || ()));
    child.kill().and_then(|()| child.wait()).expect("the child was running");
    sample
}

/// The child: one client, until killed.
fn serve_process(core: usize, rest: &str) {
    let (mode, address) = rest.split_once(' ').expect("a mode and an address");
    let mode = Mode::ALL.into_iter().find(|known| format!("{known:?}") == mode).expect("a mode");
    let options = LinkOptions { mode, ..LinkOptions::default() };
    let mut listener = link::listen(&address.parse().expect("an address"), &options).expect("a listener");
    let mut server = loop {
        if let Some(server) = listener.accept(Nanos::ZERO).expect("no error") {
            break server;
        }
        std::thread::yield_now();
    };
    cpu::pin_to(core).expect("an allowed core");
    let mut echo = Echo::default();
    loop {
        echo.turn(&mut *server);
    }
}
