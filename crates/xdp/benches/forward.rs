//! What the filter costs a request that passes by: round trips of a client in one network namespace to a home in another, through the box's
//! between them. The same reply comes from a thread that spins on the home's socket; the client spins, too. Three ways, in turns:
//!
//! * *filter*: to the box; the XDP program sends it on to the home;
//! * *kernel*: to the home; the box's kernel routes it, as if there were no box;
//! * *socket*: to the box; a thread that spins on its socket sends it on to the home, and the reply back: the least that a user tier does.
//!
//! `cargo bench -p millrace-xdp --bench forward` (root). `--turns N` and `--trips N` for longer runs.

#[path = "../tests/support/mod.rs"]
mod support;

use protocol::wire::HomeId;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::namespace::{Path, within};
use support::{PORT, bytes, get};
use xdp::{Counter, Live, Mode, Options, Pass, Tier};

const HOME: &str = "10.78.0.1:7400";
const WAYS: [&str; 3] = ["filter", "kernel", "socket"];

fn main() {
    // `cargo test` runs benches too, with this argument or none of ours.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let Some(path) = Path::new("bench") else { return };
    let (turns, trips) = (option("--turns", 20), option("--trips", 500));
    println!(
        "one round trip in \u{b5}s, median [p10..p90] of {turns} turns of {trips} each; ratios to the kernel's by turns"
    );
    for mode in [Mode::Native, Mode::Generic] {
        compare(&path, mode, turns, trips);
    }
}

fn compare(path: &Path, mode: Mode, turns: usize, trips: usize) {
    let load = || Tier::load(&["b0", "b1"], mode, Options { capacity: 64, ..Options::new(PORT) });
    let tier = match within(&path.boxed, load) {
        Ok(tier) => tier,
        Err(error) => return println!("{mode:?}: {error}"),
    };
    let home: SocketAddr = HOME.parse().expect("an address");
    let _passes = [(&path.client, "c0"), (&path.server, "s0")]
        .map(|(namespace, name)| within(namespace, || Pass::attach(name)).expect("veth takes programs"));
    let SocketAddr::V4(address) = home else { unreachable!("it is written above") };
    tier.set_home(HomeId(1), address);
    let on = Live { filter: 255, ..Live::new(PORT) };
    let mut request = get(b"some key", 64);
    request.header.home = HomeId(1);
    let request = bytes(&request);
    let mut medians = [const { Vec::new() }; 3];
    serving(path, home, || {
        let socket = within(&path.client, || UdpSocket::bind("10.77.0.1:0").expect("the address is ours"));
        socket.set_nonblocking(true).expect("sockets can be");
        let boxed = SocketAddr::from(([10, 77, 0, 2], PORT));
        for turn in 0..turns + 1 {
            for (way, medians) in medians.iter_mut().enumerate() {
                tier.set_options(if way == 0 { on } else { Live { enabled: false, ..on } });
                let to = if way == 1 { home } else { boxed };
                let one = |i: usize| {
                    // So that no count reaches its threshold.
                    if i.is_multiple_of(100) {
                        (0..8).for_each(|_| tier.age_filter());
                    }
                    trip(&socket, &request, to)
                };
                let mut times: Vec<f64> = (0..trips).map(one).collect();
                if turn > 0 {
                    medians.push(at(&mut times, 0.5));
                }
            }
        }
    });
    println!("{mode:?}: {} sent on by the program", tier.counters().of_kind(Counter::Forwarded));
    let kernel = medians[1].clone();
    for (name, medians) in WAYS.iter().zip(&mut medians) {
        let mut ratios: Vec<f64> = medians.iter().zip(&kernel).map(|(one, other)| one / other).collect();
        let spread = |times: &mut Vec<f64>| [0.5, 0.1, 0.9].map(|share| at(times, share));
        let ([median, low, high], [ratio, least, most]) = (spread(medians), spread(&mut ratios));
        println!("  {name:<7} {median:>6.1} [{low:.1}..{high:.1}]   {ratio:.2} [{least:.2}..{most:.2}]");
    }
}

/// While `run` does, the home answers whoever asks, and the box's socket carries there and back what comes up.
fn serving(path: &Path, home: SocketAddr, run: impl FnOnce()) {
    let done = AtomicBool::new(false);
    let bind = |namespace, address: SocketAddr| {
        let socket = within(namespace, || UdpSocket::bind(address).expect("the port is free"));
        socket.set_nonblocking(true).expect("sockets can be");
        socket
    };
    let (at_home, boxed) = (bind(&path.server, home), bind(&path.boxed, ([0, 0, 0, 0], PORT).into()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut buffer, mut asker) = ([0; 2048], home);
            while !done.load(Relaxed) {
                if let Ok((len, from)) = at_home.recv_from(&mut buffer) {
                    at_home.send_to(&buffer[..len], from).expect("the frame leaves");
                }
                if let Ok((len, from)) = boxed.recv_from(&mut buffer) {
                    let to = if from == home { asker } else { home };
                    asker = if from == home { asker } else { from };
                    boxed.send_to(&buffer[..len], to).expect("the frame leaves");
                }
            }
        });
        run();
        done.store(true, Relaxed);
    });
}

fn trip(socket: &UdpSocket, request: &[u8], to: SocketAddr) -> f64 {
    let mut buffer = [0; 2048];
    let start = Instant::now();
    socket.send_to(request, to).expect("the frame leaves");
    loop {
        if let Ok(len) = socket.recv(&mut buffer) {
            let time = start.elapsed();
            assert!(buffer[..len] == *request, "the home echoes");
            return time.as_nanos() as f64 / 1000.0;
        }
        assert!(start.elapsed() < Duration::from_secs(5), "a reply is lost");
    }
}

fn at(times: &mut [f64], share: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times[(times.len() as f64 * share) as usize]
}

fn option(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).map_or(default, |text| text.parse().expect("a number follows"))
}
