//! The echo server on epoll, level-triggered: wait, read each ready socket until a short read, write once.
//!
//! Cost: three system calls per connection and wake-up where one connection is ready (wait, read, write), two and a
//! share of a wait where many are.

use super::{MAX_WINDOW_BYTES, Served, Wait};
use base::cpu::thread_time;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// Bytes asked for in one read: more than any window that is measured, so the first read is short.
const READ_BYTES: usize = 16 << 10;

struct Conn {
    fd: OwnedFd,
    out: Vec<u8>,
    sent: usize,
    /// Registered for writability because the socket did not take all of `out`.
    stuffed: bool,
}

enum Pulled {
    Data,
    Closed,
}

impl Conn {
    /// Moves everything that has arrived to `out`.
    fn pull(&mut self, input: &mut Vec<u8>, served: &mut Served) -> io::Result<Pulled> {
        loop {
            input.clear();
            served.calls += 1;
            match rustix::io::read(&self.fd, spare_capacity(input)) {
                Ok(0) => return Ok(Pulled::Closed),
                Ok(n) => {
                    self.out.extend_from_slice(input);
                    assert!(self.out.len() <= MAX_WINDOW_BYTES, "a client keeps to its window");
                    served.bytes += n as u64;
                    if n < READ_BYTES {
                        return Ok(Pulled::Data);
                    }
                }
                Err(Errno::AGAIN) => return Ok(Pulled::Data),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Writes what the socket takes of `out`; `true` when nothing is left.
    fn push(&mut self, served: &mut Served) -> io::Result<bool> {
        while self.sent < self.out.len() {
            served.calls += 1;
            match rustix::io::write(&self.fd, &self.out[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(Errno::AGAIN) => return Ok(false),
                Err(e) => return Err(e.into()),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Asks to be told of writability exactly while something is left to write.
    fn watch(&mut self, epoll: &OwnedFd, data: epoll::EventData, stuffed: bool) -> io::Result<()> {
        if stuffed != self.stuffed {
            let out = if stuffed { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            epoll::modify(epoll, &self.fd, data, epoll::EventFlags::IN | out)?;
            self.stuffed = stuffed;
        }
        Ok(())
    }
}

/// Echoes on `fds` (non-blocking) until every client has hung up.
///
/// # Errors
/// The system's.
pub fn serve(fds: Vec<OwnedFd>, wait: Wait) -> io::Result<Served> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = |i: usize| epoll::EventData::new_u64(i as u64);
    let mut conns = Vec::with_capacity(fds.len());
    for (i, fd) in fds.into_iter().enumerate() {
        epoll::add(&epoll, &fd, data(i), epoll::EventFlags::IN)?;
        conns.push(Some(Conn { fd, out: Vec::with_capacity(READ_BYTES), sent: 0, stuffed: false }));
    }
    let timeout = match wait {
        Wait::Block => None,
        Wait::Spin => Some(Timespec { tv_sec: 0, tv_nsec: 0 }),
    };
    let mut served = Served::default();
    let mut open = conns.len();
    let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
    let mut input = Vec::with_capacity(READ_BYTES);
    let cpu = thread_time();
    while open > 0 {
        events.clear();
        served.calls += 1;
        match epoll::wait(&epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        served.wakeups += u64::from(!events.is_empty());
        for event in &events {
            let i = event.data.u64() as usize;
            let Some(conn) = &mut conns[i] else { continue };
            let closed = match conn.pull(&mut input, &mut served) {
                Ok(Pulled::Data) => match conn.push(&mut served) {
                    Ok(all) => {
                        conn.watch(&epoll, data(i), !all)?;
                        false
                    }
                    Err(_) => true,
                },
                Ok(Pulled::Closed) | Err(_) => true,
            };
            if closed {
                conns[i] = None;
                open -= 1;
            }
        }
    }
    served.cpu = thread_time().since(cpu);
    Ok(served)
}
