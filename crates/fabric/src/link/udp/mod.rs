//! Sessions over UDP: [`protocol::session`] with a socket, a clock, and memory for many sessions on one port.
//!
//! Shape: a `Core` is a socket and the sessions on it. A client's has one; a [`UdpListener`]'s as many as it accepted. Links share it behind a lock that is
//! not contended: all links of one listener belong to one thread at a time (see below).
//!
//! Invariants:
//! 1. Whoever reads the socket hands each datagram to its session; a session with news is *touched*, so that a link which is about to
//!    sleep while another took its datagram from the socket does not, and one that is armed meanwhile can tell ([`Link::has_news`]).
//! 2. A dropped link closes its session, which is *left*: whoever drives the core goes on sending what is unacknowledged until
//!    the peer has it, and then says farewell. The last link or listener that is dropped does so itself, for [`LINGER`] at most.
//! 3. Every deadline of the core (of left sessions, of datagrams that the socket did not take) is part of every link's and of the
//!    listener's, so that any of their owners may be the one that meets it.
//!
//! Bounds: sessions per listener ([`MAX_SESSIONS`]), each within its own configuration; see [`protocol::session`].
//!
//! Threads: [`Link::arm`] trusts that no other thread reads the same socket between `arm` and the sleep. Drive all links of a
//! listener from the thread that drives the listener, as `Server` does.

mod core;
mod socket;

use super::{
    Address, ConnectError, Endpoint, Frames, Link, LinkOptions, Listener, Lost, SendError, SharedSocket,
    Transport,
};
use crate::frame::MAX_FRAME;
use base::clock::Timeout;
use base::units::Nanos;
use core::{Core, Held, Key, Touched, sleep_on};
use protocol::session::{self, Config, Session};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Sessions of one listener; further peers are told that it is busy.
pub const MAX_SESSIONS: usize = 4096;
/// How long what was sent may still take to be acknowledged after the last link was dropped.
pub const LINGER: Nanos = Nanos::from_secs(1);
/// Bytes of a datagram where no network is between: fewer calls for long messages.
const LOOPBACK_DATAGRAM: usize = 16 << 10;

/// The configuration for a peer at, or a listener on, `address`.
fn config(address: SocketAddr) -> Config {
    let datagram_bytes =
        if address.ip().is_loopback() { LOOPBACK_DATAGRAM } else { Config::default().datagram_bytes };
    Config { datagram_bytes, max_message: MAX_FRAME, ..Config::default() }
}

/// Accepts sessions on a port.
pub struct UdpListener {
    core: Arc<Mutex<Core>>,
    address: Address,
    descriptor: OwnedFd,
}

impl UdpListener {
    /// Binds `address`; port 0 picks a free one.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(address: SocketAddr) -> io::Result<UdpListener> {
        let core = Core::bind(address, &config(address), true)?;
        let address = core.socket.socket().local_addr()?;
        let descriptor = core.socket.socket().as_fd().try_clone_to_owned()?;
        let address = Address::Udp(address.into());
        Ok(UdpListener { core: Arc::new(Mutex::new(core)), address, descriptor })
    }
}

impl Listener for UdpListener {
    /// The next peer that proved its address.
    fn accept(&mut self, now: Nanos) -> io::Result<Option<Box<dyn Link>>> {
        let mut core = self.core.lock().expect(POISONED);
        core.pull(now);
        core.drive_left(now);
        core.send(now);
        let Some(key) = core.fresh.pop_front() else { return Ok(None) };
        core.transmit(now, key);
        let touched = core.sessions[&key].touched.clone();
        drop(core);
        let (core, descriptor) = (Arc::clone(&self.core), self.descriptor.try_clone()?);
        Ok(Some(Box::new(UdpLink { core, key, descriptor, touched, waiting: true })))
    }

    fn address(&self) -> &Address {
        &self.address
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn shared_socket(&self) -> Option<SharedSocket> {
        Some(shared_socket(&self.core))
    }

    fn next_deadline(&self) -> Nanos {
        let core = self.core.lock().expect(POISONED);
        // A link that read the socket may have found a peer there, and the socket is quiet now.
        if core.fresh.is_empty() { core.next_deadline() } else { Nanos::ZERO }
    }
}

impl Drop for UdpListener {
    /// Links go on; whoever knocks now gets no answer.
    fn drop(&mut self) {
        let Ok(mut core) = self.core.lock() else { return };
        let now = core.clock.now();
        core.listener = None;
        while let Some(key) = core.fresh.pop_front() {
            core.leave(now, key);
        }
        core.drive_left(now);
    }
}

/// Known by where its sessions are kept.
fn shared_socket(core: &Arc<Mutex<Core>>) -> SharedSocket {
    SharedSocket(Arc::as_ptr(core).addr())
}

const POISONED: &str = "nobody panics while holding a core";

/// A link to the listener at `endpoint`, which is that of `address`.
pub(super) fn connect(
    address: &Address,
    endpoint: &Endpoint,
    options: &LinkOptions,
) -> Result<Box<dyn Link>, ConnectError> {
    let connected = endpoint.resolve().and_then(|peer| UdpLink::connect(peer, options.timeout));
    match connected {
        Ok(link) => Ok(Box::new(link)),
        // UDP has no other way to say it.
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            Err(ConnectError::NobodyThere(address.clone()))
        }
        Err(error) => Err(ConnectError::System(address.clone(), error)),
    }
}

/// A session as a link.
pub struct UdpLink {
    core: Arc<Mutex<Core>>,
    key: Key,
    descriptor: OwnedFd,
    /// The session's.
    touched: Touched,
    /// More may be complete than the last [`Link::recv`] took.
    waiting: bool,
}

impl UdpLink {
    /// Opens a session with a listener at `address`, in `timeout` at most.
    ///
    /// # Errors
    /// The system's; `TimedOut` when nobody answers; `ConnectionRefused`, with the reason, when the peer would not.
    pub fn connect(address: SocketAddr, timeout: Duration) -> io::Result<UdpLink> {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let any: SocketAddr = match address.ip().is_loopback() {
            true => SocketAddr::new(address.ip(), 0),
            false => any.parse().expect("an address"),
        };
        let config = config(address);
        let mut core = Core::bind(any, &config, false)?;
        let mut id = [0; 8];
        rustix::rand::getrandom(&mut id[..], rustix::rand::GetRandomFlags::empty())?;
        let key = (address, u64::from_le_bytes(id));
        let (begun, timeout) = (core.clock.now(), Timeout::new(timeout));
        let session = Box::new(Session::open(&config, begun, core.epoch, key.1));
        let touched = Touched::default();
        core.sessions.insert(key, Held { session, touched: touched.clone(), left: false });
        loop {
            let now = core.clock.now();
            core.pull(now);
            core.transmit(now, key);
            let session = &core.sessions[&key].session;
            if let Some(lost) = session.lost() {
                let kind = match lost {
                    session::Lost::Timeout => io::ErrorKind::TimedOut,
                    _ => io::ErrorKind::ConnectionRefused,
                };
                return Err(io::Error::new(kind, lost.to_string()));
            }
            if session.is_established() {
                break;
            }
            let left = timeout.left();
            if left == Nanos::ZERO {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("nobody answers at {address}")));
            }
            sleep_on(core.socket.socket(), session.next_deadline().since(now).min(left));
        }
        let descriptor = core.socket.socket().as_fd().try_clone_to_owned()?;
        Ok(UdpLink { core: Arc::new(Mutex::new(core)), key, descriptor, touched, waiting: true })
    }

    /// What happened in the session so far.
    pub fn stats(&self) -> session::Stats {
        self.lock().sessions[&self.key].session.stats()
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect(POISONED)
    }
}

/// This link's session.
macro_rules! held {
    ($core:expr, $key:expr) => {
        $core.sessions.get_mut(&$key).expect("a session outlives its link")
    };
}

impl Link for UdpLink {
    fn transport(&self) -> Transport {
        Transport::Udp
    }

    fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        let mut core = self.core.lock().expect(POISONED);
        let sent = held!(core, self.key).session.send(&[head, body]);
        drop(core);
        sent.map_err(|error| match error {
            session::SendError::Full => SendError::Full,
            session::SendError::TooLarge => SendError::TooLarge,
            session::SendError::Gone => SendError::Gone,
        })
    }

    fn flush(&mut self, now: Nanos) {
        let mut core = self.lock();
        // Acknowledgements make room also while nothing is received.
        core.pull(now);
        core.transmit(now, self.key);
        core.drive_left(now);
    }

    fn recv(&mut self, now: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        let mut core = self.core.lock().expect(POISONED);
        core.pull(now);
        let held = held!(core, self.key);
        held.touched.take();
        let mut taken = 0;
        self.waiting = loop {
            if taken == max || into.bytes() >= Frames::ENOUGH {
                break true;
            }
            let Some(message) = held.session.poll_message() else { break false };
            into.push(&[message]);
            taken += 1;
        };
        match held.session.lost() {
            Some(lost) if taken == 0 && !self.waiting => Err(match lost {
                session::Lost::Closed => Lost::Closed,
                session::Lost::Restarted => Lost::Restarted,
                session::Lost::Violation => Lost::Violation,
                session::Lost::Timeout | session::Lost::Reset | session::Lost::Refused(_) => Lost::Dead,
            }),
            lost => {
                // An end that came with messages is told next time.
                self.waiting |= lost.is_some();
                Ok(taken)
            }
        }
    }

    fn next_deadline(&self) -> Nanos {
        let core = self.lock();
        core.sessions[&self.key].session.next_deadline().min(core.next_deadline())
    }

    /// The peer has all of it: less could be lost with this process.
    fn is_drained(&self) -> bool {
        self.lock().sessions[&self.key].session.is_drained()
    }

    fn arm(&mut self) -> bool {
        let mut core = self.core.lock().expect(POISONED);
        let now = core.clock.now();
        core.transmit(now, self.key);
        let held = held!(core, self.key);
        // What is in the socket keeps it readable; what others took from it for this session touched it. An end that a timer
        // brought did neither.
        !self.waiting && !held.touched.is_set() && held.session.lost().is_none()
    }

    fn arm_for_room(&mut self) -> bool {
        let mut core = self.core.lock().expect(POISONED);
        let now = core.clock.now();
        core.transmit(now, self.key);
        // Every datagram is looked at by `flush`, so what is complete does not keep the socket readable.
        let held = held!(core, self.key);
        let touched = held.touched.take();
        self.waiting |= touched;
        !touched && held.session.lost().is_none()
    }

    fn disarm(&mut self) {}

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn has_news(&self) -> bool {
        self.waiting || self.touched.is_set()
    }

    fn shared_socket(&self) -> Option<SharedSocket> {
        Some(shared_socket(&self.core))
    }
}

impl Drop for UdpLink {
    fn drop(&mut self) {
        let Ok(mut core) = self.core.lock() else { return };
        let now = core.clock.now();
        core.leave(now, self.key);
        core.drive_left(now);
    }
}

#[cfg(test)]
mod tests;
