//! What a session costs without sockets: two ends in one thread, datagrams handed from one to the other.
//!
//! `cargo bench -p millrace-protocol --bench session`. Each figure is the median of many short samples, with the tenth
//! and ninetieth percentile, because the machine may be shared. *Echo*: `window` messages to and fro, per round trip of
//! one message. *One way*: messages in batches, with the acknowledgements that come back, per message.

use base::Nanos;
use protocol::session::{Config, Heard, Listener, Session};
use std::time::Instant;

const SAMPLES: usize = 201;

struct Pair {
    opener: Session,
    accepter: Session,
    now: Nanos,
    out: Vec<u8>,
}

impl Pair {
    fn new(datagram_bytes: usize) -> Pair {
        let config = Config { datagram_bytes, ..Config::default() };
        let mut opener = Session::open(&config, Nanos::ZERO, 1, 2);
        let mut listener = Listener::new(&config, [3, 4]);
        let mut out = Vec::new();
        loop {
            out.clear();
            opener.poll_transmit(Nanos::ZERO, &mut out).expect("an Open");
            let mut reply = Vec::new();
            match listener.handle_datagram(Nanos::ZERO, &"here", true, &out, &mut reply) {
                Heard::Session(accepter) => {
                    let mut pair = Pair { opener, accepter: *accepter, now: Nanos::ZERO, out };
                    pair.settle();
                    return pair;
                }
                Heard::Reply(_) => opener.handle_datagram(Nanos::ZERO, &reply),
                Heard::Nothing => panic!("no answer"),
            }
        }
    }

    /// Carries datagrams until there are none; returns how many.
    fn settle(&mut self) -> usize {
        let mut carried = 0;
        loop {
            let before = carried;
            self.now = self.now.plus(Nanos::from_micros(5));
            carried += carry(&mut self.opener, &mut self.accepter, self.now, &mut self.out);
            carried += carry(&mut self.accepter, &mut self.opener, self.now, &mut self.out);
            if carried == before {
                return carried;
            }
        }
    }

    fn echo(&mut self, window: usize, message: &[u8]) {
        (0..window).for_each(|_| self.opener.send(&[message]).expect("room"));
        carry(&mut self.opener, &mut self.accepter, self.now, &mut self.out);
        let mut echoed = Vec::with_capacity(message.len());
        while let Some(request) = self.accepter.poll_message() {
            echoed.clear();
            echoed.extend_from_slice(request);
            self.accepter.send(&[&echoed]).expect("room");
        }
        carry(&mut self.accepter, &mut self.opener, self.now, &mut self.out);
        let mut replies = 0;
        while self.opener.poll_message().is_some() {
            replies += 1;
        }
        assert_eq!(replies, window);
        self.now = self.now.plus(Nanos::from_micros(5));
    }

    fn one_way(&mut self, count: usize, message: &[u8]) {
        (0..count).for_each(|_| self.opener.send(&[message]).expect("room"));
        let mut got = 0;
        while got < count {
            self.settle();
            while self.accepter.poll_message().is_some() {
                got += 1;
            }
        }
    }
}

fn carry(from: &mut Session, to: &mut Session, now: Nanos, out: &mut Vec<u8>) -> usize {
    for carried in 0.. {
        out.clear();
        if from.poll_transmit(now, out).is_none() {
            return carried;
        }
        to.handle_datagram(now, out);
    }
    unreachable!("the loop above has no other end")
}

/// Nanoseconds of each of the `things` that `work` does.
fn measure(things: usize, mut work: impl FnMut()) -> [f64; 3] {
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_nanos() as f64 / things as f64
        })
        .collect();
    samples.sort_unstable_by(f64::total_cmp);
    [50, 10, 90].map(|p| samples[SAMPLES * p / 100])
}

fn main() {
    for datagram_bytes in [1452, 8192] {
        println!("datagrams of {datagram_bytes} bytes");
        for window in [1, 8, 32, 64] {
            let mut pair = Pair::new(datagram_bytes);
            let rounds = 4096 / window;
            let [mid, low, high] =
                measure(rounds * window, || (0..rounds).for_each(|_| pair.echo(window, &[7; 64])));
            println!(
                "  echo of 64 B, window {window:2}       {mid:8.1} ns per message  [{low:.1}..{high:.1}]"
            );
        }
        for (count, len) in [(1024, 64), (256, 1024), (16, 65_536), (1, 8 << 20)] {
            let mut pair = Pair::new(datagram_bytes);
            let message = vec![7; len];
            let [mid, low, high] = measure(count, || pair.one_way(count, &message));
            let rate = len as f64 / mid;
            println!(
                "  one way, {count:4} × {len:7} B   {mid:10.1} ns per message  [{low:.1}..{high:.1}]  {rate:.2} GB/s"
            );
        }
    }
}
