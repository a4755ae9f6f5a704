//! What the monitor costs a call: both frames counted, the call counted, and one call of N timed or traced.
//!
//! The variants are interleaved in short stretches; the figure is the median stretch, less that of the bare loop.
//!
//! `cargo bench -p millrace-fabric --bench monitor`

use base::Clock;
use base::spread;
use fabric::link::Transport;
use fabric::monitor::{Monitor, Point, Recorder, Sampling, Side};
use fabric::status::Code;
use std::hint::black_box;

const CALLS: u32 = 10_000;
const STRETCHES: usize = 400;

fn main() {
    let monitor = Monitor::default();
    let method = monitor.method("/bench.Echo/Say");
    let variants = [
        ("counters alone", Sampling { timed: 0, traced: 0 }),
        ("1 of 64 timed", Sampling { timed: 64, traced: 0 }),
        ("1 of 64 timed, 1 of 1024 traced", Sampling { timed: 64, traced: 1024 }),
        ("every call timed", Sampling { timed: 1, traced: 0 }),
    ];
    let mut recorders: Vec<Recorder> =
        variants.iter().map(|(_, sampling)| monitor.recorder(Side::Client, *sampling)).collect();
    let mut connections: Vec<_> =
        recorders.iter().map(|recorder| recorder.connection(1, Transport::Memory)).collect();
    let clock = Clock::shared();
    let stretch = |each: &mut dyn FnMut()| {
        let start = clock.now();
        each();
        clock.now().since(start).0 as f64 / f64::from(CALLS)
    };
    let mut bare = vec![];
    let mut seen = vec![vec![]; variants.len()];
    for _ in 0..STRETCHES {
        bare.push(stretch(&mut || (0..CALLS).for_each(|n| _ = black_box(n))));
        for ((recorder, connection), seen) in recorders.iter_mut().zip(&mut connections).zip(&mut seen) {
            seen.push(stretch(&mut || {
                for n in 0..CALLS {
                    connection.sent(80);
                    let stamp = recorder.started(method, 1, &[]);
                    recorder.pass(stamp, Point::Sent);
                    black_box(n);
                    connection.received(1, 80);
                    recorder.pass(stamp, Point::Noticed);
                    recorder.ended(stamp, method, Code::Ok);
                }
            }));
        }
    }
    let bare = spread::median(bare);
    for ((name, _), seen) in variants.iter().zip(seen) {
        println!("{name:<34} {:6.2} ns a call", spread::median(seen) - bare);
    }
}
