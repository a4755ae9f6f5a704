//! UDP over loopback: what sending and taking a datagram cost, and the round trip between two threads.
//!
//! The kernel carries a datagram to the other socket's queue within the send call, so `udp_send` is the whole way; `udp_receive` takes one that
//! waits. They are measured by two threads in turns, in bursts that the queue holds, so that nobody sleeps or waits while it is timed.

use super::REQUEST_BYTES;
use crate::probe::cores;
use crate::probe::session::{Session, Unit};
use base::{Clock, Nanos};
use std::hint::spin_loop;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering};

/// Steps that [`measure`] announces.
pub const STEPS: u64 = 3;

/// Datagrams of a burst: far fewer than a socket's queue holds.
const BURST: usize = 32;

/// Two sockets on loopback, each connected to the other.
///
/// # Errors
/// The system's: no loopback interface.
pub fn pair() -> io::Result<[UdpSocket; 2]> {
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    sockets[0].connect(sockets[1].local_addr()?)?;
    sockets[1].connect(sockets[0].local_addr()?)?;
    Ok(sockets)
}

/// Nanoseconds to send a datagram at core `at.0`, and to receive one at `at.1`: a sample of each per burst, for so long.
///
/// Two cores, because what the one wrote of a datagram the other has to fetch.
///
/// # Errors
/// The system's.
pub fn costs(at: (usize, usize), span: Nanos) -> io::Result<[Vec<f64>; 2]> {
    let [a, b] = pair()?;
    let turn = AtomicU32::new(SENDS);
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let receive = || b.recv(&mut [0u8; 2048]).map(drop);
            let taken = cores::on(at.1, || bursts(&turn, RECEIVES, SENDS, receive, |_| false));
            turn.fetch_max(OVER, Ordering::AcqRel);
            taken?
        });
        let (clock, request) = (Clock::shared(), [7u8; REQUEST_BYTES]);
        let start = clock.now();
        let enough = |samples: usize| samples >= 3 && clock.now().since(start) >= span;
        let sent = cores::on(at.0, || bursts(&turn, SENDS, RECEIVES, || a.send(&request).map(drop), enough));
        turn.fetch_max(OVER, Ordering::AcqRel);
        let received = receiving.join().expect("receiving does not panic");
        Ok([sent??, received?])
    })
}

const SENDS: u32 = 0;
const RECEIVES: u32 = 1;
const OVER: u32 = 2;

/// Does a burst of `call` whenever it is its turn, until it is over; nanoseconds per call.
///
/// Ordering: the turn is passed with release and taken with acquire; only whose turn it is passes it on, and nobody does after the end.
fn bursts(
    turn: &AtomicU32,
    mine: u32,
    others: u32,
    call: impl Fn() -> io::Result<()>,
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
        for _ in 0..BURST {
            call()?;
        }
        samples.push(clock.now().since(begun).0 as f64 / BURST as f64);
        // Fails where it is over, and stays so.
        let _ = turn.compare_exchange(mine, others, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Costs, then round trips sleeping and spinning.
pub fn measure(session: &mut Session) {
    session.step("UDP, one way");
    let at = session.two_cores().unwrap_or((session.cores[0], session.cores[0]));
    match costs(at, session.span(Nanos::from_millis(200))) {
        Ok([send, receive]) => {
            let method = "bursts of 32 over loopback, 64 B";
            let reading = "a datagram's whole way to the other socket";
            session.record("udp_send", "UDP send", &send, Unit::Nanos, method, reading);
            session.record("udp_receive", "UDP receive, waiting", &receive, Unit::Nanos, method, "");
        }
        Err(e) => session.skip("UDP send and receive", e),
    }
    let Some(at) = session.two_cores() else {
        return session.skip("UDP round trips", "they take two cores, one for each side");
    };
    for (spin, how) in [(false, "blocking"), (true, "spinning")] {
        session.step(format!("UDP round trips, {how}"));
        let label = format!("udp echo of 64 B, {how}");
        match round_trips(spin, session.span(Nanos::from_millis(300)), at) {
            Ok(trips) => {
                let key = format!("udp_{how}");
                session.record(key, label, &trips, Unit::Micros, "one request at a time", "");
            }
            Err(e) => session.skip(label, e),
        }
    }
}

/// Microseconds per round trip; client on `at.0`, server on `at.1`.
fn round_trips(spin: bool, span: Nanos, at: (usize, usize)) -> io::Result<Vec<f64>> {
    let [client, server] = pair()?;
    client.set_nonblocking(spin)?;
    server.set_nonblocking(spin)?;
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            base::cpu::pin_to(at.1)?;
            let mut room = [0; REQUEST_BYTES];
            // An empty datagram ends it.
            while take(&server, &mut room)? > 0 {
                server.send(&room)?;
            }
            Ok(())
        });
        let trips = cores::on(at.0, || {
            let clock = Clock::shared();
            let (start, mut trips) = (clock.now(), Vec::new());
            let mut room = [1; REQUEST_BYTES];
            while trips.len() < 3 || clock.now().since(start) < span {
                let from = clock.now();
                client.send(&room)?;
                take(&client, &mut room)?;
                trips.push(clock.now().since(from).0 as f64 / 1e3);
            }
            Ok(trips)
        });
        client.send(&[])?;
        let served: io::Result<()> = serving.join().expect("the echo side does not panic");
        served.and(trips?)
    })
}

fn take(socket: &UdpSocket, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.recv(room) {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            other => return other,
        }
    }
}
