//! Shared memory to a server on this machine, beneath [`super::Client`]: ask at the node's `--shm` path, get rings, and talk without system
//! calls while both sides are awake.
//!
//! A message is one buffer with one or more complete memcached requests, at most [`Client::max_message`] bytes. Each message gets
//! exactly one reply: the replies to its requests in a row, empty where none is wanted. Several messages may be under way; their
//! replies come in the order of the messages and carry their tags.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut client = client::kv::rings::Client::connect("/run/millrace.shm")?;
//! client.call(b"set k 0 0 5\r\nhello\r\n", |reply| assert_eq!(reply, b"STORED\r\n"))?;
//! # Ok(()) }
//! ```

use ring::shm::{AttachError, Segment, ShmClient, Violation};
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub use ring::Tag;
pub use ring::shm::{Outcome, SendError};
pub use ring::wait::WaitPolicy;

/// How long a node may take to hand over the rings.
const HANDOVER: Duration = Duration::from_secs(5);

/// A connection to a node.
pub struct Client {
    rings: ShmClient,
    max_message: usize,
}

/// Why a call has no reply.
#[derive(Debug)]
pub enum CallError {
    /// It was not sent.
    Send(SendError),
    /// The node is gone.
    Gone,
    /// The node broke the rings' protocol.
    Violation(Violation),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Send(e) => e.fmt(f),
            CallError::Gone => f.write_str("the node is gone"),
            CallError::Violation(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

impl Client {
    /// Gets rings from the node that listens at `path`.
    ///
    /// # Errors
    /// The system's, and `InvalidData` where no node listens but something else.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Client> {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(HANDOVER))?;
        let segment = Segment::receive(&socket).map_err(|e| match e {
            AttachError::System(e) => e,
            AttachError::NothingSent => io::Error::new(
                io::ErrorKind::ConnectionRefused,
                "the server gives no rings here, or has no memory for more (its shm.memory)",
            ),
            e => io::Error::new(io::ErrorKind::InvalidData, e),
        })?;
        let max_message = segment.geometry().max_message as usize;
        Ok(Client { rings: ShmClient::new(&segment, socket), max_message })
    }

    /// Bytes of the longest message, either way.
    pub fn max_message(&self) -> usize {
        self.max_message
    }

    /// Issues a message; it is on its way at the latest after [`Client::flush`].
    ///
    /// # Errors
    /// See [`SendError`]. [`SendError::Full`] passes when replies are polled.
    pub fn send(&mut self, message: &[u8]) -> Result<Tag, SendError> {
        self.rings.try_send(message)
    }

    /// Sends what was issued on its way and wakes the node if it sleeps.
    pub fn flush(&mut self) {
        self.rings.flush();
    }

    /// Hands at most `max` replies to `each`, and returns how many.
    ///
    /// # Errors
    /// The node broke the rings' protocol: the connection is over.
    pub fn poll(&mut self, max: usize, each: impl FnMut(Tag, &[u8])) -> Result<usize, Violation> {
        self.rings.poll(max, each)
    }

    /// Waits for a reply, or for room after [`SendError::Full`], for `timeout` at most.
    pub fn wait(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        self.rings.wait(policy, timeout)
    }

    /// Messages without a reply.
    pub fn in_flight(&self) -> usize {
        self.rings.in_flight() as usize
    }

    /// One message there, its reply back. Nothing else may be under way.
    ///
    /// # Errors
    /// See [`CallError`].
    ///
    /// # Panics
    /// When a message is under way.
    pub fn call<R>(&mut self, message: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<R, CallError> {
        assert_eq!(self.in_flight(), 0, "a call while messages are under way");
        self.send(message).map_err(CallError::Send)?;
        self.flush();
        let (mut read, mut result) = (Some(read), None);
        while result.is_none() {
            let outcome = self.wait(WaitPolicy::default(), None);
            let took = self.poll(1, |_, reply| result = read.take().map(|read| read(reply)));
            if took.map_err(CallError::Violation)? == 0 && outcome == Outcome::PeerGone {
                return Err(CallError::Gone);
            }
        }
        Ok(result.expect("the loop ends with a reply"))
    }
}
