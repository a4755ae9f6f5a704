//! A stream whose client speaks another protocol than ours: what came of it so far, and the rest of it, for whoever speaks that.
//!
//! Why here: one port then serves several protocols, told apart by what a client says first, and no byte of it is lost.

use super::secure::Secure;
use base::rights::Identity;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::io;

/// How an HTTP/2 client begins. Read as a length, its first four bytes are more than a frame has.
pub const HTTP2: &[u8] = b"PRI ";

/// A connection that is handed over, with the bytes that were read of it.
pub struct ForeignStream {
    /// The stream; it does not block.
    pub socket: OwnedFd,
    /// What was read from it.
    pub came: Vec<u8>,
    /// Between it and its bytes, where there is TLS; after the handshake.
    pub tls: Option<ForeignTls>,
}

/// TLS of a stream that was handed over. The socket is the owner's, so that it can be in a runtime of his.
pub struct ForeignTls(pub(super) Box<Secure>);

impl ForeignTls {
    /// Whom the other end's certificate names.
    pub fn identities(&self) -> Vec<Identity> {
        self.0.identities()
    }

    /// Fills `space`; 0 at the end.
    ///
    /// # Errors
    /// The socket's, "would block" among them; what came is not what was sent.
    pub fn recv(&mut self, socket: &impl AsFd, space: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.recv(socket, space)?)
    }

    /// Takes bytes to be sent, and sends as much as the socket takes.
    ///
    /// # Errors
    /// The socket's; "would block" when nothing was taken.
    pub fn send(&mut self, socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.0.send(socket, bytes)?)
    }

    /// Sends what was taken.
    ///
    /// # Errors
    /// The socket's; "would block" while something of it waits.
    pub fn flush(&mut self, socket: &impl AsFd) -> io::Result<()> {
        self.0.flush(socket)?;
        if self.0.unsent() > 0 { Err(Errno::AGAIN.into()) } else { Ok(()) }
    }

    /// Says that nothing more comes.
    pub fn close(&mut self, socket: &impl AsFd) {
        self.0.close(socket);
    }
}
