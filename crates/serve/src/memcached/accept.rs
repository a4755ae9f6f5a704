//! Accepting connections and handing them to edges in turn.
//!
//! Why one accepting thread: the kernel's own spreading (`SO_REUSEPORT`) hashes addresses and leaves few connections uneven;
//! round-robin does not, and this thread runs only when a client connects.

use super::counters::NetCounters;
use super::socket::peer_of;
use crate::admin::health::{Beat, Pulse};
use crate::descriptors;
use base::closing::{self, Reason};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A client's stream.
    Stream,
    /// The same with TLS.
    Tls,
    /// A client that wants shared-memory rings.
    Rings,
    /// Datagrams of any number of clients.
    Datagrams,
}

impl Purpose {
    /// How addresses begin where it is for this. A stream may be a Unix socket as well, whose address has no port.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Stream | Purpose::Tls => "tcp",
            Purpose::Rings => "shm",
            Purpose::Datagrams => "udp",
        }
    }
}

/// Sockets on their way to an edge.
#[derive(Debug)]
pub struct Inbox {
    sockets: Mutex<Vec<(Purpose, OwnedFd)>>,
    bell: OwnedFd,
    /// The edge turns.
    pub beat: Beat,
}

impl Inbox {
    /// An empty inbox.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
    pub fn new() -> io::Result<Inbox> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox { sockets: Mutex::default(), bell, beat: Beat::default() })
    }

    /// Readable when something is in the inbox, or after [`Inbox::wake`].
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Gives a socket to the edge.
    pub fn put(&self, purpose: Purpose, socket: OwnedFd) {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).push((purpose, socket));
        self.wake();
    }

    /// Wakes the edge.
    pub fn wake(&self) {
        // Fails only when the counter is full, and then the edge is woken already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Everything that was put since the last call.
    pub fn take(&self) -> Vec<(Purpose, OwnedFd)> {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        std::mem::take(&mut *self.sockets.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The loops of threads that look into inboxes: `edge-0` and so on.
pub fn pulses(name: &str, inboxes: &[Arc<Inbox>]) -> Vec<Pulse> {
    let pulse = |(at, inbox): (usize, &Arc<Inbox>)| {
        let woken = Arc::clone(inbox);
        inbox.beat.pulse(format!("{name}-{at}")).woken_by(move || woken.wake())
    };
    inboxes.iter().enumerate().map(pulse).collect()
}

/// Who is let in.
pub struct Door<'a> {
    /// Counts who comes.
    pub net: &'a NetCounters,
    /// Connections at most, at this moment.
    pub most: &'a dyn Fn() -> u64,
}

/// Accepts on `listeners` and hands out connections in turn until `stop` becomes readable; whoever connected before that is
/// still accepted.
pub fn run(
    listeners: Vec<(Purpose, OwnedFd)>,
    inboxes: &[Arc<Inbox>],
    door: &Door<'_>,
    stop: BorrowedFd<'_>,
) {
    let mut acceptor = Acceptor { inboxes, door, next: 0, is_short: false };
    loop {
        let mut watched: Vec<PollFd<'_>> =
            listeners.iter().map(|(_, l)| PollFd::new(l, PollFlags::IN)).collect();
        watched.push(PollFd::from_borrowed_fd(stop, PollFlags::IN));
        match poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => panic!("poll on our own descriptors: {e}"),
        }
        let ready: Vec<bool> = watched.iter().map(|w| w.revents().contains(PollFlags::IN)).collect();
        let stopping = ready.last().is_some_and(|&ready| ready);
        for ((purpose, listener), _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
            acceptor.accept_ready(*purpose, listener, stop);
        }
        if stopping {
            return;
        }
    }
}

struct Acceptor<'a> {
    inboxes: &'a [Arc<Inbox>],
    door: &'a Door<'a>,
    next: usize,
    /// Descriptors or memory have run out, and that was said.
    is_short: bool,
}

impl Acceptor<'_> {
    fn accept_ready(&mut self, purpose: Purpose, listener: &OwnedFd, stop: BorrowedFd<'_>) {
        loop {
            match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => self.take(purpose, socket),
                Err(Errno::AGAIN) => return,
                // The client was gone before we looked.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(e @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    self.complain_once(&io::Error::from(e).to_string());
                    // The client waits in the backlog. Look again when some may be free.
                    rest(stop);
                    return;
                }
                Err(e) => {
                    log::warn!("accept failed: {e}");
                    rest(stop);
                    return;
                }
            }
        }
    }

    fn take(&mut self, purpose: Purpose, socket: OwnedFd) {
        let net = self.door.net;
        net.total_connections.add(1);
        if net.curr_connections.read() >= (self.door.most)() {
            return self.refuse(purpose, &socket);
        }
        // It is told so: a client that stays in the backlog would wake us for ever.
        if descriptors::is_reserved(&socket) {
            self.complain_once("clients have taken their descriptors");
            return self.refuse(purpose, &socket);
        }
        self.is_short = false;
        net.curr_connections.add(1);
        tune(&socket);
        self.inboxes[self.next % self.inboxes.len()].put(purpose, socket);
        self.next += 1;
    }

    /// Best effort: memcached's words, then closed. Who speaks TLS could not read them before a handshake, which would cost more than it says.
    fn refuse(&self, purpose: Purpose, socket: &OwnedFd) {
        self.door.net.rejected_connections.add(1);
        let reason = Reason::Limit("as many are open as may be");
        closing::log("memcached", || peer_of(socket.as_fd()), &reason);
        if purpose == Purpose::Tls {
            return;
        }
        let _ = super::output::send(socket.as_fd(), &[b"ERROR Too many open connections\r\n"]);
    }

    fn complain_once(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_short, true) {
            log::warn!(
                "clients are turned away: {why}; raise the limit of open files, or lower -c (said once until one is accepted again)"
            );
        }
    }
}

/// Rests, but not beyond the end.
fn rest(stop: BorrowedFd<'_>) {
    let rest = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    // However it ends, the listeners are looked at again.
    let _ = poll(&mut [PollFd::from_borrowed_fd(stop, PollFlags::IN)], Some(&rest));
}

/// Socket options that cost nothing where they do not apply: a Unix socket refuses them, and nothing is lost.
fn tune(socket: &OwnedFd) {
    let _ = sockopt::set_tcp_nodelay(socket, true);
    // A loopback connection has no network to congest. The simplest control spares each reply the models and pacing of the
    // system's choice, which on many machines is BBR.
    let peer =
        rustix::net::getpeername(socket).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
    if peer.is_some_and(|peer| peer.ip().is_loopback()) {
        let _ = sockopt::set_tcp_congestion(socket, "reno");
    }
}
