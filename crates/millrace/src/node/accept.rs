//! Accepting connections and handing them to edges in turn.
//!
//! Why one accepting thread: the kernel's own spreading (`SO_REUSEPORT`) hashes addresses and leaves few connections uneven;
//! round-robin does not, and this thread runs only when a client connects.

use super::counters::NetCounters;
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
    /// A client that wants shared-memory rings.
    Rings,
    /// Datagrams of any number of clients.
    Datagrams,
}

/// Sockets on their way to an edge.
pub struct Inbox {
    sockets: Mutex<Vec<(Purpose, OwnedFd)>>,
    bell: OwnedFd,
}

impl Inbox {
    /// An empty inbox.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
    pub fn new() -> io::Result<Inbox> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox { sockets: Mutex::default(), bell })
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
    let mut next = 0;
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
            accept_ready(*purpose, listener, inboxes, &mut next, door);
        }
        if stopping {
            return;
        }
    }
}

fn accept_ready(
    purpose: Purpose,
    listener: &OwnedFd,
    inboxes: &[Arc<Inbox>],
    next: &mut usize,
    door: &Door<'_>,
) {
    loop {
        match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => {
                door.net.total_connections.add(1);
                if door.net.curr_connections.read() >= (door.most)() {
                    door.net.rejected_connections.add(1);
                    // Best effort: memcached's words, then closed.
                    let words = b"ERROR Too many open connections\r\n";
                    let _ = super::output::send(socket.as_fd(), &[words]);
                    continue;
                }
                door.net.curr_connections.add(1);
                tune(&socket);
                inboxes[*next % inboxes.len()].put(purpose, socket);
                *next += 1;
            }
            Err(Errno::AGAIN) => return,
            // The client was gone before we looked.
            Err(Errno::CONNABORTED | Errno::INTR) => {}
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                // Out of descriptors: the client waits in the backlog. Look again when time has passed or one has closed.
                door.net.rejected_connections.add(1);
                std::thread::sleep(std::time::Duration::from_millis(10));
                return;
            }
            Err(e) => {
                crate::complain!("millrace: accept failed: {e}");
                return;
            }
        }
    }
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
