//! Over loopback, what sending a message costs and what taking one costs: datagrams, and messages of a stream.
//!
//! The kernel carries a message to the other socket's queue within the send call, so sending is the whole way; receiving takes one that waits. They are
//! measured by two threads in turns, in bursts that the queue holds, so that nobody sleeps or waits while it is timed. Two cores, because what the one
//! wrote of a message the other has to fetch.

use super::sockets::{self, Pairs, Transport};
use super::{REQUEST_BYTES, datagrams};
use crate::probe::cores;
use crate::probe::session::{Session, Unit};
use base::{Clock, Nanos};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use std::fs::File;
use std::hint::spin_loop;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU32, Ordering};

/// Steps that [`measure`] announces.
pub const STEPS: u64 = 4;

/// Small messages of a burst: far fewer than a socket's queue holds.
const BURST: usize = 32;
/// A message whose copying is most of its cost, and how many of them a queue holds.
pub const LARGE: (usize, usize) = (16 << 10, 4);

/// Nanoseconds to send at core `at.0`, and to receive at `at.1`: a sample of each per burst.
pub type Costs = [Vec<f64>; 2];

/// Of a datagram of 64 B, for so long.
///
/// # Errors
/// The system's.
pub fn datagram(at: (usize, usize), span: Nanos) -> io::Result<Costs> {
    let [a, b] = datagrams::pair()?;
    let request = [7u8; REQUEST_BYTES];
    let send = || a.send(&request).map(drop);
    in_turns(at, span, BURST, send, || b.recv(&mut [0u8; 2048]).map(drop))
}

/// Of a message of `bytes` on each of `burst` connections, as a server has them: whoever takes one has asked the system which connections have some, for
/// all at once. For so long.
///
/// # Errors
/// The system's.
pub fn message(at: (usize, usize), span: Nanos, bytes: usize, burst: usize) -> io::Result<Costs> {
    stream(Transport::Tcp, at, span, (bytes, burst))
}

/// Of a byte through a Unix socket, by which whoever sleeps on a ring of shared memory is told.
///
/// # Errors
/// The system's.
pub fn bell(at: (usize, usize), span: Nanos) -> io::Result<Costs> {
    stream(Transport::Unix, at, span, (1, BURST))
}

fn stream(
    transport: Transport,
    at: (usize, usize),
    span: Nanos,
    (bytes, burst): (usize, usize),
) -> io::Result<Costs> {
    let Pairs { client, server } = sockets::connect(transport, burst, false)?;
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for end in &server {
        epoll::add(&set, end, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    }
    let [a, b] = [client, server].map(|ends| ends.into_iter().map(File::from).collect::<Vec<_>>());
    let (request, mut room) = (vec![7u8; bytes], vec![0; bytes]);
    let mut next = (0..burst).cycle();
    let send = || (&a[next.next().unwrap_or_default()]).write_all(&request);
    let mut next = (0..burst).cycle();
    in_turns(at, span, burst, send, || {
        let at = next.next().unwrap_or_default();
        if at == 0 {
            let mut events = Vec::<epoll::Event>::with_capacity(burst);
            epoll::wait(&set, spare_capacity(&mut events), None)?;
        }
        (&b[at]).read_exact(&mut room)
    })
}

const SENDS: u32 = 0;
const RECEIVES: u32 = 1;
const OVER: u32 = 2;

fn in_turns(
    at: (usize, usize),
    span: Nanos,
    burst: usize,
    send: impl FnMut() -> io::Result<()> + Send,
    receive: impl FnMut() -> io::Result<()> + Send,
) -> io::Result<Costs> {
    let turn = AtomicU32::new(SENDS);
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let taken = cores::on(at.1, || bursts(&turn, (RECEIVES, SENDS), burst, receive, |_| false));
            turn.fetch_max(OVER, Ordering::AcqRel);
            taken?
        });
        let clock = Clock::shared();
        let start = clock.now();
        let enough = |samples: usize| samples >= 3 && clock.now().since(start) >= span;
        let sent = cores::on(at.0, || bursts(&turn, (SENDS, RECEIVES), burst, send, enough));
        turn.fetch_max(OVER, Ordering::AcqRel);
        let received = receiving.join().expect("receiving does not panic");
        Ok([sent??, received?])
    })
}

/// Does a burst of `call` whenever it is its turn, until it is over; nanoseconds per call.
///
/// Ordering: the turn is passed with release and taken with acquire; only whose turn it is passes it on, and nobody does after the end.
fn bursts(
    turn: &AtomicU32,
    (mine, others): (u32, u32),
    burst: usize,
    mut call: impl FnMut() -> io::Result<()>,
    enough: impl Fn(usize) -> bool,
) -> io::Result<Vec<f64>> {
    let clock = Clock::shared();
    let mut samples = Vec::new();
    loop {
        let mut looks = 0u32;
        loop {
            match turn.load(Ordering::Acquire) {
                OVER => return Ok(samples),
                whose if whose == mine => break,
                _ => looks += 1,
            }
            // The other one may need this core, where there is only one.
            if looks.is_multiple_of(1 << 12) { std::thread::yield_now() } else { spin_loop() }
        }
        if enough(samples.len()) {
            return Ok(samples);
        }
        let begun = clock.now();
        for _ in 0..burst {
            call()?;
        }
        samples.push(clock.now().since(begun).0 as f64 / burst as f64);
        // Fails where it is over, and stays so.
        let _ = turn.compare_exchange(mine, others, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Gigabytes per second by which both ends together grow with a message, from what a small and a large one cost.
pub fn copied(small: &Costs, large: &Costs) -> Vec<f64> {
    let median = |samples: &[f64]| base::spread::Spread::of_all(samples).map_or(0.0, |of| of.median);
    let less = median(&small[0]) + median(&small[1]);
    let more = (LARGE.0 - REQUEST_BYTES) as f64;
    let both = large[0].iter().zip(&large[1]).map(|(send, receive)| send + receive - less);
    both.filter(|nanos| *nanos > 0.0).map(|nanos| 2.0 * more / nanos).collect()
}

/// What each way costs.
pub fn measure(session: &mut Session) {
    let at = session.two_cores().unwrap_or((session.cores[0], session.cores[0]));
    let span = session.span(Nanos::from_millis(200));
    session.step("UDP, one way");
    let method = "bursts of 32 over loopback, 64 B";
    record(session, datagram(at, span), ["udp_send", "udp_receive"], method);
    session.step("TCP, one way");
    let small = message(at, span, REQUEST_BYTES, BURST);
    let again = small.as_ref().ok().cloned();
    record(session, small, ["tcp_send", "tcp_receive"], method);
    session.step("a byte through a Unix socket");
    record(session, bell(at, span), ["bell_send", "bell_receive"], "bursts of 32, one on each of 32 sockets");
    session.step("TCP, one way, 16 KiB");
    match (again, message(at, span, LARGE.0, LARGE.1)) {
        (Some(small), Ok(large)) => {
            let method = "16 KiB less 64 B, sending and receiving";
            let speed = copied(&small, &large);
            session.record("tcp_copy", "TCP, each byte more", &speed, Unit::GigabytesPerSec, method, "");
        }
        (_, Err(e)) => session.skip("TCP of 16 KiB", e),
        (None, _) => {}
    }
}

fn record(session: &mut Session, costs: io::Result<Costs>, keys: [&'static str; 2], method: &'static str) {
    match costs {
        Ok(costs) => {
            let labels = [format!("{}, to the other socket", keys[0]), format!("{}, waiting", keys[1])];
            for ((key, label), samples) in keys.into_iter().zip(labels).zip(&costs) {
                session.record(key, label, samples, Unit::Nanos, method, "");
            }
        }
        Err(e) => session.skip(format!("{} and {}", keys[0], keys[1]), e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_taken() {
        let cores = base::cpu::allowed_cores();
        let at = (cores[0], *cores.last().expect("a core"));
        for costs in [
            datagram(at, Nanos::from_millis(1)),
            message(at, Nanos::from_millis(1), REQUEST_BYTES, BURST),
            message(at, Nanos::from_millis(1), LARGE.0, LARGE.1),
        ] {
            let [sent, taken] = costs.expect("loopback");
            assert!(sent.len() >= 3 && !taken.is_empty());
            assert!(sent.iter().chain(&taken).all(|nanos| *nanos > 0.0));
        }
    }

    #[test]
    fn what_a_byte_more_costs_is_shared_by_both_ends() {
        let more = (LARGE.0 - REQUEST_BYTES) as f64;
        let speed = copied(&[vec![100.0], vec![50.0]], &[vec![100.0 + more], vec![50.0 + more]]);
        assert_eq!(speed, [1.0]);
    }
}
