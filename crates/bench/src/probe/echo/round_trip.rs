//! One request at a time over a socket: the round trip when both sides sleep, and when both spin.

use super::REQUEST_BYTES;
use super::sockets::{self, Transport};
use crate::probe::cores;
use crate::probe::session::{Session, Unit};
use base::{Clock, Nanos};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// Steps that [`measure`] announces.
pub const STEPS: u64 = 4;

/// Round trips over TCP and Unix sockets, sleeping and spinning.
pub fn measure(session: &mut Session) {
    let Some(at) = session.two_cores() else {
        return session.skip("socket round trips", "they take two cores, one for each side");
    };
    for transport in [Transport::Tcp, Transport::Unix] {
        for (spin, how, reading) in [
            (false, "blocking", "what a client that sleeps sees: two wake-ups and the kernel's path"),
            (true, "spinning", "the kernel's path alone, both cores burning"),
        ] {
            session.step(format!("{transport} round trips, {how}"));
            let span = session.span(Nanos::from_millis(300));
            let label = format!("{transport} echo of 64 B, {how}");
            match round_trips(transport, spin, span, at) {
                Ok(trips) => {
                    let key = format!("{transport}_{how}");
                    session.record(key, label, &trips, Unit::Micros, "one request at a time", reading);
                }
                Err(e) => session.skip(label, e),
            }
        }
    }
}

/// Microseconds per round trip for `span`; client on `at.0`, server on `at.1`.
fn round_trips(transport: Transport, spin: bool, span: Nanos, at: (usize, usize)) -> io::Result<Vec<f64>> {
    let mut pairs = sockets::connect(transport, 1, spin)?;
    let (client, server) = (pairs.client.remove(0), pairs.server.remove(0));
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            base::cpu::pin_to(at.1)?;
            let mut request = [0; REQUEST_BYTES];
            while read_whole(&server, &mut request)? {
                write_whole(&server, &request)?;
            }
            Ok(())
        });
        let trips = cores::on(at.0, move || trips(&client, span));
        let served: io::Result<()> = serving.join().expect("the echo side does not panic");
        served.and(trips?)
    })
}

fn trips(socket: &OwnedFd, span: Nanos) -> io::Result<Vec<f64>> {
    let clock = Clock::shared();
    let (start, mut trips) = (clock.now(), Vec::new());
    let (mut request, mut answer) = ([0; REQUEST_BYTES], [0; REQUEST_BYTES]);
    while trips.len() < 3 || clock.now().since(start) < span {
        request[..8].copy_from_slice(&(trips.len() as u64).to_le_bytes());
        let from = clock.now();
        write_whole(socket, &request)?;
        if !read_whole(socket, &mut answer)? || answer != request {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the echo differs from what was sent"));
        }
        trips.push(clock.now().since(from).0 as f64 / 1e3);
    }
    Ok(trips)
}

/// Fills `into`, spinning where the socket does not block; `false` at the end of the stream.
fn read_whole(socket: &OwnedFd, into: &mut [u8]) -> io::Result<bool> {
    let mut done = 0;
    while done < into.len() {
        match rustix::io::read(socket, &mut into[done..]) {
            Ok(0) => return Ok(false),
            Ok(n) => done += n,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(true)
}

fn write_whole(socket: &OwnedFd, from: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < from.len() {
        match rustix::io::write(socket, &from[done..]) {
            Ok(n) => done += n,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
