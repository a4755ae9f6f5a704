//! Transports, behind one trait: a [`Link`] carries frames between two peers.
//!
//! Contract (each point is asserted for every transport by the conformance suite):
//! 1. A frame that [`Link::try_send`] took arrives once and whole, or the link is lost and says so on both sides, within a bound. Frames may
//!    overtake each other (sessions over datagrams deliver what is complete); nothing above relies on order.
//! 2. What does not fit now is refused with [`SendError::Full`], and nothing of it is sent; after `flush`, `recv` or a wait there
//!    may be room. A link never buffers more than its bounds say, and always carries one frame, however long.
//! 3. What was sent is on its way at the latest after [`Link::flush`], as far as the peer has made room; until
//!    [`Link::is_drained`] the rest goes with later flushes, or with `arm`, which flushes what waits (a stream's `recv` does too).
//! 4. Frames of up to [`MAX_FRAME`](crate::frame::MAX_FRAME) bytes are carried, whatever the transport's own unit is.
//! 5. Bytes handed out by [`Link::recv`] are this process's own: the peer cannot change them any more.
//! 6. [`Link::arm`] flushes, and is true only if nothing to receive is known and the link's descriptor becomes readable when there is
//!    (a stream's may be at once), when room came for a frame that was refused or kept, and when the peer is gone. Whoever wakes calls
//!    `disarm`, `flush` and `recv`; it may find nothing: wake-ups without news are allowed, news without a wake-up are not.
//!    [`Link::arm_for_room`] is the same for an owner that does not receive now.
//! 7. When the peer closes its link, or dies, everything it had sent and flushed before is received first, then
//!    [`Lost::Closed`] or the like, again and again. From then on [`SendError::Gone`], and `arm` is false. An owner that polls hears of it
//!    within a few milliseconds of the time that it gives as `now`.
//! 8. An owner drives its link: one that polls calls `flush` in every turn, after it received, and one that sleeps sleeps until
//!    [`Link::next_deadline`] at most, and flushes then. With that, sessions acknowledge, grant room, and send again what was lost;
//!    the peer of an owner that does neither sees no room, and in the end a dead peer.
//! 9. A link that is armed while its owner goes on driving others keeps what 6 says, with one exception: of links that read one socket
//!    with others ([`Link::shared_socket`]), any may read what came for all. [`Link::has_news`] tells it to whoever asks.

use base::rights::Identity;
use base::units::Nanos;
use rustix::fd::BorrowedFd;
use std::fmt;

mod address;
mod connect;
mod foreign;
pub mod framing;
pub mod memory;
mod mode;
mod secure;
pub mod shm;
mod stream;
pub mod udp;
pub mod unix_socket;

pub use address::{Address, AddressError, Endpoint};
pub use connect::{ConnectError, LinkOptions, Listener, connect, listen};
pub use foreign::{ForeignStream, ForeignTls, HTTP2};
pub use mode::Mode;
pub use secure::TlsOptions;

/// What carries the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Rings between threads of a process.
    Memory,
    /// Rings in memory that two processes share.
    Shm,
    /// Sessions over UDP.
    Udp,
    /// A Unix stream socket.
    Unix,
    /// A TCP connection.
    Tcp,
    /// The same with TLS.
    Tls,
}

impl Transport {
    /// All of them.
    pub const ALL: [Transport; 6] =
        [Transport::Memory, Transport::Shm, Transport::Udp, Transport::Unix, Transport::Tcp, Transport::Tls];

    /// Whether frames go through rings in memory, and publishing them is no system call.
    #[inline]
    pub fn is_ring(self) -> bool {
        matches!(self, Transport::Memory | Transport::Shm)
    }

    /// As addresses begin: `shm`.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Memory => "memory",
            Transport::Shm => "shm",
            Transport::Udp => "udp",
            Transport::Unix => "unix",
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
        }
    }
}

/// One end of a connection's transport.
pub trait Link: Send {
    /// What it is.
    fn transport(&self) -> Transport;

    /// Takes a frame: the concatenation of `head` (its first 16 bytes at least, at most 64) and `body`.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent then.
    fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError>;

    /// Publishes what was taken, and does what time asks for.
    fn flush(&mut self, now: Nanos);

    /// Appends at most `max` frames to `into`, fewer once it holds [`Frames::ENOUGH`] bytes, and says how many.
    ///
    /// # Errors
    /// [`Lost`], when nothing more will come; what came before was handed out by earlier calls.
    fn recv(&mut self, now: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost>;

    /// Frames that are longer than this break the protocol from now on, and no more than one of them is buffered: for a peer that has not said
    /// who it is. Transports whose memory does not grow with what a peer announces need not care.
    fn set_max_frame(&mut self, _bytes: usize) {}

    /// What came and is no frame of this protocol, of a stream that was lost by [`Lost::Violation`].
    fn foreign_bytes(&self) -> &[u8] {
        &[]
    }

    /// Gives the stream up to whoever speaks what it speaks, with what came of it; none where there is no stream, or it cannot be had.
    fn into_foreign(self: Box<Self>) -> Option<ForeignStream> {
        None
    }

    /// The user whose process is at the other end, where the system says so: Unix sockets and shared memory.
    fn peer_user(&self) -> Option<u32> {
        None
    }

    /// By what the other end has proved who it is; nothing: anybody may be there.
    fn peer_identities(&self) -> Vec<Identity> {
        self.peer_user().map(Identity::Uid).into_iter().collect()
    }

    /// When [`Link::flush`] must be called though nothing happened; [`Nanos::MAX`] for never.
    fn next_deadline(&self) -> Nanos;

    /// Whether nothing that was taken waits in this process for the peer: to make room, or to acknowledge what can be lost on the
    /// way. Before a link is closed in peace it is flushed until this is so.
    fn is_drained(&self) -> bool {
        true
    }

    /// Before sleeping on the descriptor: whether there is nothing to do.
    fn arm(&mut self) -> bool;

    /// As [`Link::arm`], for an owner that receives nothing until a frame that was refused has found room: true also while there is
    /// something to receive.
    fn arm_for_room(&mut self) -> bool {
        self.arm()
    }

    /// After sleeping: awake again.
    fn disarm(&mut self);

    /// Readable when an armed link has something to do.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Whether another link, or a listener, has read something for this one, so that the descriptor does not show it. No system
    /// call; for an owner that drives others while this link is armed.
    fn has_news(&self) -> bool {
        false
    }

    /// The socket that this link reads, if a listener and its other links read it too.
    fn shared_socket(&self) -> Option<SharedSocket> {
        None
    }
}

/// Names a socket that several links read, as long as one of them or their listener is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSocket(usize);

/// Frames that arrived, one after the other in one buffer that is used again.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    next: usize,
}

impl Frames {
    /// Bytes after which a link appends no more.
    pub const ENOUGH: usize = 256 << 10;

    /// Bytes in it, taken or not.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The buffer, and where each frame in it ends: for a link that appends to both.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut Vec<u8>, &mut Vec<u32>) {
        (&mut self.bytes, &mut self.ends)
    }

    /// Adds a frame that is the concatenation of `parts`.
    #[inline]
    pub fn push(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.ends.push(self.bytes.len() as u32);
    }

    /// The oldest frame that was not taken, until the next call.
    #[inline]
    pub fn pop(&mut self) -> Option<&[u8]> {
        let end = *self.ends.get(self.next)? as usize;
        let start = self.next.checked_sub(1).map_or(0, |last| self.ends[last] as usize);
        self.next += 1;
        Some(&self.bytes[start..end])
    }

    /// Frames not taken yet.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len() - self.next
    }

    /// Whether all were taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all; keeps up to twice [`Frames::ENOUGH`] bytes of memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > 2 * Frames::ENOUGH {
            self.bytes.shrink_to(2 * Frames::ENOUGH);
        }
        self.ends.clear();
        self.next = 0;
    }
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No room now: the peer must take something first.
    Full,
    /// Longer than [`MAX_FRAME`](crate::frame::MAX_FRAME).
    TooLarge,
    /// The link is lost.
    Gone,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full => "the link is full",
            SendError::TooLarge => "the frame is longer than a link carries",
            SendError::Gone => "the link is lost",
        })
    }
}

impl std::error::Error for SendError {}

/// How a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The peer closed it.
    Closed,
    /// The peer died or cannot be reached.
    Dead,
    /// The peer broke the transport's protocol.
    Violation,
    /// The peer is another one than before.
    Restarted,
    /// The peer began a frame for which this process has no room, or did not finish it in time.
    NoRoom,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lost::Closed => "the peer closed the link",
            Lost::Dead => "the peer is dead or out of reach",
            Lost::Violation => "the peer broke the transport's protocol",
            Lost::Restarted => "the peer was started anew",
            Lost::NoRoom => "the peer began a frame that does not fit into link.buffers now, or took too long to finish it",
        })
    }
}

impl std::error::Error for Lost {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let mut frames = Frames::default();
        for round in 0..3 {
            frames.push(&[b"one"]);
            frames.push(&[b"t", b"w", b"o"]);
            frames.push(&[]);
            assert_eq!((frames.len(), frames.pop()), (3, Some(&b"one"[..])), "round {round}");
            assert_eq!(frames.pop(), Some(&b"two"[..]));
            assert_eq!(frames.pop(), Some(&b""[..]));
            assert!(frames.is_empty() && frames.pop().is_none());
            frames.clear();
        }
    }
}
