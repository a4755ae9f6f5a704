//! The client of every echo measurement: one thread, N connections, a closed window of P requests on each.
//!
//! It sends a window in one write, waits for the whole answer, compares it byte by byte and sends the next. It never
//! sleeps: a client that sleeps measures its own wake-ups. Latency is that of a window, from before its write to after
//! its last byte.
//!
//! Errors: an answer that differs from what was sent, a server that hangs up early, and five seconds without a byte.

use super::{MAX_WINDOW_BYTES, REQUEST_BYTES};
use base::{Clock, Nanos};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// What the client does.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Requests in one window.
    pub pipeline: usize,
    /// Time before counting starts.
    pub warm: Nanos,
    /// Time that is counted.
    pub measure: Nanos,
}

/// What the client saw.
#[derive(Debug)]
pub struct Seen {
    /// Requests answered in the time that is counted.
    pub counted: u64,
    /// Requests answered in all, warming up and draining included.
    pub total: u64,
    /// Nanoseconds from sending a window to its last byte, of the windows counted.
    pub latency: Histogram<u64>,
}

const STALL: Nanos = Nanos::from_secs(5);

struct Conn {
    fd: OwnedFd,
    window: Vec<u8>,
    sent: usize,
    received: usize,
    started: Nanos,
}

impl Conn {
    /// Writes what the socket takes; `true` when the whole window is under way.
    fn push(&mut self) -> io::Result<bool> {
        while self.sent < self.window.len() {
            match rustix::io::write(&self.fd, &self.window[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(Errno::AGAIN) => return Ok(false),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }

    /// Starts the next window; every request in it carries a number it did not have before.
    fn restart(&mut self, now: Nanos, sequence: u64) -> io::Result<bool> {
        for request in self.window.chunks_exact_mut(REQUEST_BYTES) {
            request[..8].copy_from_slice(&sequence.to_le_bytes());
        }
        (self.sent, self.received, self.started) = (0, 0, now);
        self.push()
    }

    /// Reads what has arrived and checks it; `true` when the window is complete.
    fn pull(&mut self, input: &mut Vec<u8>) -> io::Result<bool> {
        input.clear();
        let n = match rustix::io::read(&self.fd, spare_capacity(input)) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the echo server hung up")),
            Ok(n) => n,
            Err(Errno::AGAIN) => return Ok(false),
            Err(e) => return Err(e.into()),
        };
        if self.window.get(self.received..self.received + n) != Some(&input[..]) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the echo differs from what was sent"));
        }
        self.received += n;
        Ok(self.received == self.window.len())
    }
}

/// Drives `fds` (non-blocking) until `load` is done and every window sent has been answered, then hangs up.
///
/// # Errors
/// See the head of this file.
pub fn drive(fds: Vec<OwnedFd>, load: Load) -> io::Result<Seen> {
    let window = load.pipeline * REQUEST_BYTES;
    assert!((1..=MAX_WINDOW_BYTES).contains(&window), "a window of {window} bytes");
    let clock = Clock::shared();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut conns = Vec::with_capacity(fds.len());
    for (i, fd) in fds.into_iter().enumerate() {
        epoll::add(&epoll, &fd, epoll::EventData::new_u64(i as u64), epoll::EventFlags::IN)?;
        conns.push(Conn { fd, window: vec![b'e'; window], sent: 0, received: 0, started: Nanos::ZERO });
    }

    let mut seen = Seen {
        counted: 0,
        total: 0,
        latency: Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds are valid"),
    };
    let start = clock.now();
    let (from, until) = (start.plus(load.warm), start.plus(load.warm).plus(load.measure));
    let (mut last_progress, mut sequence) = (start, 0);
    let mut unsent = 0;
    for conn in &mut conns {
        sequence += 1;
        unsent += usize::from(!conn.restart(clock.now(), sequence)?);
    }
    let mut waiting = conns.len();
    let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
    let mut input = Vec::with_capacity(64 << 10);
    while waiting > 0 {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        let mut now = clock.now();
        if !events.is_empty() {
            last_progress = now;
        } else if now.since(last_progress) > STALL {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer from the echo server for 5 s"));
        }
        for event in &events {
            let conn = &mut conns[event.data.u64() as usize];
            if !conn.pull(&mut input)? {
                continue;
            }
            now = clock.now();
            seen.total += load.pipeline as u64;
            if now >= from && now < until {
                seen.counted += load.pipeline as u64;
                seen.latency.saturating_record(now.since(conn.started).0);
            }
            if now < until {
                sequence += 1;
                unsent += usize::from(!conn.restart(now, sequence)?);
            } else {
                waiting -= 1;
            }
        }
        if unsent > 0 {
            unsent = 0;
            for conn in &mut conns {
                unsent += usize::from(!conn.push()?);
            }
        }
    }
    Ok(seen)
}
