//! A client's stream socket, plain or with TLS between it and the protocol.
//!
//! Cost: where there is no TLS one branch on the way in and one on the way out. With TLS plain bytes are copied once more on the way in (from the
//! thread's scratch into the connection's buffer), and each record of 16 KiB is a read or a write of its own part.
//!
//! Bounds: what TLS holds of a connection is bounded by [`base::tls::Session`], and counted in the budget of all buffers.

use super::input::{Input, Pool};
use super::output;
use base::budget::Budget;
use base::rights::Identity;
use base::tls::{Received, Session, SessionError, rustls};
use rustix::io::{Errno, retry_on_intr};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What who speaks plainly to a port for TLS hears.
const WANTS_TLS: &[u8] = b"ERROR this port speaks TLS only\r\n";

/// See the head of the file.
pub(crate) struct Socket {
    socket: OwnedFd,
    tls: Option<Box<Layer>>,
}

struct Layer {
    session: Session,
    /// Of what the session holds, what is counted in the budget.
    counted: usize,
    /// Nothing of it may be sent any more.
    is_over: bool,
}

/// Why nothing was read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// Nothing has come.
    Again,
    /// All connections together buffer too much.
    NoRoom,
    /// The client is gone.
    Gone,
    /// The client's TLS is none, or is not believed.
    Tls(SessionError),
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> ReadError {
        match errno {
            Errno::AGAIN => ReadError::Again,
            _ => ReadError::Gone,
        }
    }
}

/// Who is at the other end of a socket, as far as the system still knows.
pub(crate) fn peer_of(socket: BorrowedFd<'_>) -> String {
    match rustix::net::getpeername(socket) {
        Ok(Some(peer)) => match SocketAddr::try_from(peer) {
            Ok(peer) => peer.to_string(),
            Err(_) => "a client of this machine".to_owned(),
        },
        Ok(None) | Err(_) => "a client that is gone".to_owned(),
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Socket {
    /// Plain.
    pub(crate) fn plain(socket: OwnedFd) -> Socket {
        Socket { socket, tls: None }
    }

    /// With TLS, whose handshake is next.
    pub(crate) fn with_tls(socket: OwnedFd, session: Session) -> Socket {
        Socket { socket, tls: Some(Box::new(Layer { session, counted: 0, is_over: false })) }
    }

    /// Whether a handshake is under way.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.session.is_handshaking())
    }

    /// Whether its handshake resumed a session of before.
    pub(crate) fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.session.is_resumed())
    }

    /// Whom its client's certificate names, if it has shown one.
    pub(crate) fn identities(&self) -> Vec<Identity> {
        self.tls.as_ref().map_or_else(Vec::new, |tls| tls.session.identities())
    }

    /// Reads once; what came is in `input` then.
    ///
    /// # Errors
    /// See [`ReadError`].
    #[inline]
    pub(crate) fn read(&mut self, input: &mut Input, pool: &mut Pool) -> Result<Received, ReadError> {
        if let Some(tls) = &mut self.tls {
            return tls.read(&self.socket, input, pool);
        }
        let space = input.space(pool);
        let bytes = retry_on_intr(|| rustix::io::read(&self.socket, &mut *space))?;
        input.filled(bytes);
        Ok(Received { bytes, is_end: bytes == 0 })
    }

    /// Sends as much of `pieces` as the socket takes. Returns the bytes taken; TLS may hold some of them ([`Socket::unsent`]).
    ///
    /// # Errors
    /// The socket's, except "try again", which is a short count.
    #[inline]
    pub(crate) fn send(&mut self, pieces: &[&[u8]], buffered: &Budget) -> io::Result<usize> {
        match &mut self.tls {
            None => output::send(self.socket.as_fd(), pieces),
            Some(tls) => tls.send(&self.socket, pieces, buffered),
        }
    }

    /// Bytes that TLS holds and the socket has not taken.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.session.unsent())
    }

    /// Sends what TLS holds. True when nothing is left.
    ///
    /// # Errors
    /// The socket's.
    pub(crate) fn flush(&mut self, buffered: &Budget) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        tls.send(&self.socket, &[], buffered)?;
        Ok(tls.session.unsent() == 0)
    }

    /// Tells the other side that nothing more comes, and gives back what is counted. The socket is good for nothing then.
    pub(crate) fn end(&mut self, buffered: &Budget) {
        let Some(tls) = &mut self.tls else { return };
        if !std::mem::replace(&mut tls.is_over, true) {
            tls.session.close(|bytes| output::send(self.socket.as_fd(), &[bytes]));
        }
        buffered.give(std::mem::take(&mut tls.counted));
    }
}

impl Layer {
    #[cold]
    fn read(&mut self, socket: &OwnedFd, input: &mut Input, pool: &mut Pool) -> Result<Received, ReadError> {
        if self.is_over {
            return Err(ReadError::Gone);
        }
        let read = self.session.read(
            |room| Ok(retry_on_intr(|| rustix::io::read(socket, &mut *room))?),
            |plain| input.append(plain, pool).is_ok(),
        );
        // It was not TLS from the first byte on: an alert would say nothing to such a one.
        let is_plain = |error: &rustls::Error| {
            use rustls::{Error, InvalidMessage};
            matches!(error, Error::InvalidMessage(InvalidMessage::InvalidContentType))
        };
        if let Err(SessionError::Tls(error)) = &read
            && self.session.is_handshaking()
            && is_plain(error)
        {
            self.is_over = true;
            // Best effort: the connection closes whether or not the client hears why.
            let _ = output::send(socket.as_fd(), &[WANTS_TLS]);
        }
        let sent = self.send(socket, &[], pool.budget());
        match read {
            Ok(_) if sent.is_err() => Err(ReadError::Gone),
            Ok(received) => Ok(received),
            Err(SessionError::NoRoom) => Err(ReadError::NoRoom),
            Err(SessionError::Io(error)) => Err(match error.kind() {
                io::ErrorKind::WouldBlock => ReadError::Again,
                _ => ReadError::Gone,
            }),
            Err(error) => Err(ReadError::Tls(error)),
        }
    }

    #[cold]
    fn send(&mut self, socket: &OwnedFd, pieces: &[&[u8]], buffered: &Budget) -> io::Result<usize> {
        if self.is_over {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let sent = self.session.write(pieces, |bytes| output::send(socket.as_fd(), &[bytes]));
        let held = self.session.held();
        // Always granted, as what waits for a slow reader is: the slowest are closed when all together pass the limit.
        buffered.take(held.saturating_sub(self.counted));
        buffered.give(self.counted.saturating_sub(held));
        self.counted = held;
        sent
    }
}
