//! Echo over sockets: what one request and its answer cost the server, by epoll and by io_uring.
//!
//! Why: millrace's edge can wait for its sockets in either way, and the choice is to be a measured one. Both servers
//! here are driven by the same client and get the same help: `TCP_NODELAY`, reads as large as what has arrived, nothing
//! read again after a short read, one copy from input to output (a real server composes its answers somewhere else than
//! it read the questions), and one write per connection and wake-up.
//!
//! Shape:
//! ```text
//!  client thread (core a, spins) ══ N connections, each a window of P requests ══ server thread (core b)
//! ```
//!
//! Bounds: the client never has more than its window outstanding, and [`MAX_WINDOW_BYTES`] bounds that; so nothing a
//! server stores for a connection is longer.

pub mod client;
pub mod compare;
pub mod datagrams;
pub mod epoll;
pub mod one_way;
pub mod round_trip;
pub mod sockets;
pub mod uring;

use base::Nanos;

/// Bytes in one request and in its answer.
pub const REQUEST_BYTES: usize = 64;

/// The most bytes one connection may have under way.
pub const MAX_WINDOW_BYTES: usize = 1 << 20;

/// What a server does when nothing has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Sleep in the kernel.
    Block,
    /// Ask again at once.
    Spin,
}

/// What a server did between its first wait and the end of its last connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Bytes echoed.
    pub bytes: u64,
    /// Waits that returned something to do.
    pub wakeups: u64,
    /// System calls, those that found nothing included.
    pub calls: u64,
    /// Processor time of the server's thread.
    pub cpu: Nanos,
}

impl Served {
    /// Requests echoed.
    pub fn requests(&self) -> u64 {
        self.bytes / REQUEST_BYTES as u64
    }
}

/// Processor time that all threads of this process have used, the kernel's workers for it included.
pub fn process_cpu() -> Nanos {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}
