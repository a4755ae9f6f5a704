//! What a hit in XDP saves: round trips of a client in one network namespace to a box in another, answered by the XDP program, or by a
//! thread of the box that spins on its socket and sends the very same reply. Both sides in one run, in turns; the client spins in both.
//!
//! `cargo bench -p millrace-xdp` (root). `--turns N` and `--trips N` for longer runs.

#[path = "../tests/support/mod.rs"]
mod support;

use base::Nanos;
use base::spread::{median, quantile, sorted, text};
use protocol::wire::{Kind, Version};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::namespace::{Pair, within};
use support::{PORT, bytes, frame, get};
use xdp::reference::Reference;
use xdp::{Item, Live, Mode, Options, Pass, Tier, now};

/// Of the value, and of the request's padding.
const SIZES: [(usize, usize); 3] = [(64, 0), (190, 0), (1024, 1024)];

fn main() {
    // `cargo test` runs benches too, with this argument or none of ours.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let Some(pair) = Pair::new("bench") else { return };
    let (turns, trips) = (option("--turns", 20), option("--trips", 500));
    println!(
        "one round trip in \u{b5}s, median [p10..p90] and p99, {turns} turns of {trips} for each; ratio by turns"
    );
    println!(
        "{:<8} {:>5} {:>26} {:>7} {:>26} {:>7}   ratio",
        "mode", "value", "XDP", "p99", "spinning socket", "p99"
    );
    for mode in [Mode::Native, Mode::Generic] {
        compare(&pair, mode, turns, trips);
    }
}

fn compare(pair: &Pair, mode: Mode, turns: usize, trips: usize) {
    let load = || Tier::load(&["b0"], mode, Options { capacity: 64, ..Options::new(PORT) });
    let mut tier = match within(&pair.boxed, load) {
        Ok(tier) => tier,
        Err(error) => return println!("{mode:?}: {error}"),
    };
    let _pass = within(&pair.client, || Pass::attach("c0")).expect("veth takes programs");
    let on = Live { sample: 1, ..Live::new(PORT) };
    for (value, padding) in SIZES {
        let item = Item {
            key: b"some key",
            value: &vec![7; value],
            version: Version(1),
            item_flags: 0,
            kind: Kind::Bytes,
            lease_end: Nanos::MAX,
            expires: Nanos::MAX,
        };
        tier.entries_mut().put(&item, now()).expect("it fits");
        let request = bytes(&get(b"some key", padding));
        let reference = Reference { entries: tier.entries(), live: on, mtu: 1500 };
        let reply = reference.answer(&frame(&request), now()).expect("a hit")[42..].to_vec();
        let (mut fast, mut slow, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        echoing(pair, &reply, || {
            let socket = client(pair);
            for turn in 0..turns + 1 {
                let mut times = [true, false].map(|enabled| {
                    tier.set_options(Live { enabled, ..on });
                    round_trips(&socket, &request, &reply, trips)
                });
                if turn > 0 {
                    ratios.push(median(times[0].iter().copied()) / median(times[1].iter().copied()));
                    fast.append(&mut times[0]);
                    slow.append(&mut times[1]);
                }
            }
        });
        let [fast, slow] = [fast, slow].map(|times| {
            let p99 = quantile(&sorted(times.iter().copied()), 0.99);
            format!("{:>26} {p99:>7.1}", text(times, 1))
        });
        println!("{:<8} {value:>5} {fast} {slow}   {}", format!("{mode:?}"), text(ratios, 2));
    }
    println!(
        "         the program itself: hits below {:?} (median), {:?} (p99) of {}",
        tier.hit_times().quantile(0.5),
        tier.hit_times().quantile(0.99),
        tier.hit_times().len()
    );
}

/// While `run` does, a thread of the box answers what comes up with `reply`.
fn echoing(pair: &Pair, reply: &[u8], run: impl FnOnce()) {
    let done = AtomicBool::new(false);
    let socket = within(&pair.boxed, || UdpSocket::bind(("10.77.0.2", PORT)).expect("the port is free"));
    socket.set_nonblocking(true).expect("sockets can be");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2048];
            while !done.load(Relaxed) {
                if let Ok((_, from)) = socket.recv_from(&mut buffer) {
                    socket.send_to(reply, from).expect("the frame leaves");
                }
            }
        });
        run();
        done.store(true, Relaxed);
    });
}

fn client(pair: &Pair) -> UdpSocket {
    let socket = within(&pair.client, || UdpSocket::bind("10.77.0.1:0").expect("the address is ours"));
    socket.connect(("10.77.0.2", PORT)).expect("a route is there");
    socket.set_nonblocking(true).expect("sockets can be");
    socket
}

fn round_trips(socket: &UdpSocket, request: &[u8], reply: &[u8], count: usize) -> Vec<f64> {
    let mut buffer = [0; 2048];
    let trip = |_| {
        let start = Instant::now();
        socket.send(request).expect("the frame leaves");
        loop {
            if let Ok(len) = socket.recv(&mut buffer) {
                let time = start.elapsed();
                assert!(buffer[..len] == *reply, "another reply than the reference's");
                return time.as_nanos() as f64 / 1000.0;
            }
            assert!(start.elapsed() < Duration::from_secs(5), "a reply is lost");
        }
    };
    (0..count).map(trip).collect()
}

fn option(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).map_or(default, |text| text.parse().expect("a number follows"))
}
