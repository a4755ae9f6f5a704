//! Sleeping on a descriptor: an eventfd, which may sit in an epoll set, or the socket to a peer process.
//!
//! Why a socket between processes and not an eventfd: a hostile peer that holds the same eventfd can make it blocking and fill
//! it, and our wake-up would then hang. A send with `DONTWAIT` never blocks, whatever the peer did, and the same
//! descriptor also tells that the peer is gone.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, read, write};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Where to sleep and what to ring.
#[derive(Clone, Debug)]
pub(crate) enum Descriptor {
    /// Non-blocking, within one process.
    Eventfd(Arc<OwnedFd>),
    /// A stream socket to the peer. Any byte that comes is a ring.
    Socket(Arc<OwnedFd>),
}

impl Descriptor {
    pub(crate) fn eventfd() -> io::Result<Descriptor> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Descriptor::Eventfd(Arc::new(fd)))
    }

    /// Makes it readable for the sleeper. Never blocks: a full buffer is a ring that waits already, and a dead peer needs none.
    pub(super) fn ring(&self) {
        let _ = match self {
            Descriptor::Eventfd(fd) => write(fd, &1u64.to_ne_bytes()),
            Descriptor::Socket(fd) => send(fd, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
        };
    }

    /// Sleeps until it is readable or hung up, for at most `timeout`.
    pub(super) fn sleep(&self, timeout: Option<Duration>) {
        let mut fds = [PollFd::new(self, PollFlags::IN)];
        // Every result means the same to the caller: look again.
        let _ = poll(&mut fds, timeout.map(timespec).as_ref());
    }

    /// Takes what was rung; whether the peer is gone.
    pub(super) fn hush(&self) -> bool {
        let mut sink = [0u8; 64];
        match self {
            Descriptor::Eventfd(fd) => {
                let _ = read(fd, &mut sink[..8]);
                false
            }
            Descriptor::Socket(fd) => {
                // Bounded: a peer that floods the socket only keeps us awake, which it could anyway.
                for _ in 0..16 {
                    match recv(fd, &mut sink[..], RecvFlags::DONTWAIT) {
                        Ok((_, 0)) => return true,
                        Ok((_, n)) if n < sink.len() => return false,
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => return false,
                        Err(_) => return true,
                    }
                }
                false
            }
        }
    }

    /// Whether the peer is gone, without taking what was rung.
    pub(crate) fn peer_is_gone(&self) -> bool {
        let Descriptor::Socket(fd) = self else { return false };
        let mut fds = [PollFd::new(fd, PollFlags::RDHUP)];
        let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        match poll(&mut fds, Some(&timespec(Duration::ZERO))) {
            Ok(_) => fds[0].revents().intersects(gone),
            Err(_) => false,
        }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Descriptor::Eventfd(fd) | Descriptor::Socket(fd) => fd.as_fd(),
        }
    }
}

/// A span for the kernel; spans beyond its range become its longest.
pub(super) fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}
