//! A client's stream socket, plain or with TLS between it and the protocol; or, where a node is simulated, what stands in its place.
//!
//! Cost: where there is no TLS one branch on the way in and one on the way out. With TLS plain bytes are copied once more on the way in (from the
//! thread's scratch into the connection's buffer), and each record of 16 KiB is a read or a write of its own part. What stands in the place of a socket is
//! behind the same branch, so it costs those that are sockets nothing.
//!
//! Bounds: what TLS holds of a connection is bounded by [`base::tls::Session`], and counted in the budget of all buffers.

use super::input::{Input, Pool};
use super::output;
use base::budget::Budget;
use base::rights::Identity;
use base::tls::{Received, Session, SessionError, rustls};
use rustix::event::epoll;
use rustix::io::{Errno, retry_on_intr};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What who speaks plainly to a port for TLS hears.
const WANTS_TLS: &[u8] = b"ERROR this port speaks TLS only\r\n";

/// See the head of the file.
pub(crate) struct Socket {
    socket: OwnedFd,
    layer: Option<Box<Layer>>,
}

/// What is between a socket and the protocol.
#[expect(clippy::large_enum_variant, reason = "it is boxed, and TLS wherever a server runs")]
enum Layer {
    Tls(Tls),
    /// The socket is only a name.
    Pipe(Box<dyn Pipe>),
}

/// A stream of bytes in the place of a socket, for simulations; dropped when the node closes it.
pub trait Pipe: Send {
    /// Reads what has come, as far as there is room; 0 at its end.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where nothing has come; else the client is gone.
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize>;

    /// Takes as much of `pieces` as there is room for; how many bytes.
    ///
    /// # Errors
    /// The client is gone.
    fn send(&mut self, pieces: &[&[u8]]) -> io::Result<usize>;

    /// Whoever reads it wants to be told of this from now on, by its token.
    fn watch(&mut self, token: u64, interest: Interest);
}

struct Tls {
    session: Session,
    /// Of what the session holds, what is counted in the budget.
    counted: usize,
    /// Nothing of it may be sent any more.
    is_over: bool,
}

/// What an edge waits for on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The client's next bytes.
    Read,
    /// Room for the replies that wait; nothing is read meanwhile, so a client that does not read cannot make us buffer.
    Write,
    /// Only its end: its commands wait for boxes, and those that follow stay in the socket.
    Nothing,
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
        Socket { socket, layer: None }
    }

    /// With TLS, whose handshake is next.
    pub(crate) fn with_tls(socket: OwnedFd, session: Session) -> Socket {
        let tls = Tls { session, counted: 0, is_over: false };
        Socket { socket, layer: Some(Box::new(Layer::Tls(tls))) }
    }

    /// None: `name` is only what it is told apart by.
    pub(crate) fn simulated(name: OwnedFd, pipe: Box<dyn Pipe>) -> Socket {
        Socket { socket: name, layer: Some(Box::new(Layer::Pipe(pipe))) }
    }

    fn tls(&self) -> Option<&Tls> {
        match self.layer.as_deref() {
            Some(Layer::Tls(tls)) => Some(tls),
            Some(Layer::Pipe(_)) | None => None,
        }
    }

    /// Whether a handshake is under way.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls().is_some_and(|tls| tls.session.is_handshaking())
    }

    /// Whether its handshake resumed a session of before.
    pub(crate) fn is_resumed(&self) -> bool {
        self.tls().is_some_and(|tls| tls.session.is_resumed())
    }

    /// Whom its client's certificate names, if it has shown one.
    pub(crate) fn identities(&self) -> Vec<Identity> {
        self.tls().map_or_else(Vec::new, |tls| tls.session.identities())
    }

    /// Has `epoll` say `token` when there is what `interest` is in; it does so for the first time, or says it of something else so far.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn watch(
        &mut self,
        epoll: &OwnedFd,
        token: u64,
        interest: Interest,
        is_first: bool,
    ) -> io::Result<()> {
        if let Some(Layer::Pipe(pipe)) = self.layer.as_deref_mut() {
            pipe.watch(token, interest);
            return Ok(());
        }
        let flags = match interest {
            Interest::Read => epoll::EventFlags::IN,
            Interest::Write => epoll::EventFlags::OUT,
            Interest::Nothing => epoll::EventFlags::empty(),
        };
        let token = epoll::EventData::new_u64(token);
        Ok(if is_first {
            epoll::add(epoll, &self.socket, token, flags)
        } else {
            epoll::modify(epoll, &self.socket, token, flags)
        }?)
    }

    /// Reads once; what came is in `input` then.
    ///
    /// # Errors
    /// See [`ReadError`].
    #[inline]
    pub(crate) fn read(&mut self, input: &mut Input, pool: &mut Pool) -> Result<Received, ReadError> {
        if let Some(layer) = &mut self.layer {
            return layer.read(&self.socket, input, pool);
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
        match self.layer.as_deref_mut() {
            None => output::send(self.socket.as_fd(), pieces),
            Some(layer) => layer.send(&self.socket, pieces, buffered),
        }
    }

    /// Bytes that TLS holds and the socket has not taken.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.tls().map_or(0, |tls| tls.session.unsent())
    }

    /// Sends what TLS holds. True when nothing is left.
    ///
    /// # Errors
    /// The socket's.
    pub(crate) fn flush(&mut self, buffered: &Budget) -> io::Result<bool> {
        let Some(Layer::Tls(tls)) = self.layer.as_deref_mut() else { return Ok(true) };
        tls.send(&self.socket, &[], buffered)?;
        Ok(tls.session.unsent() == 0)
    }

    /// Tells the other side that nothing more comes, and gives back what is counted. The socket is good for nothing then.
    pub(crate) fn end(&mut self, buffered: &Budget) {
        let Some(Layer::Tls(tls)) = self.layer.as_deref_mut() else { return };
        if !std::mem::replace(&mut tls.is_over, true) {
            tls.session.close(|bytes| output::send(self.socket.as_fd(), &[bytes]));
        }
        buffered.give(std::mem::take(&mut tls.counted));
    }
}

impl Layer {
    #[cold]
    fn read(&mut self, socket: &OwnedFd, input: &mut Input, pool: &mut Pool) -> Result<Received, ReadError> {
        match self {
            Layer::Tls(tls) => tls.read(socket, input, pool),
            Layer::Pipe(pipe) => {
                let bytes = pipe.read(input.space(pool)).map_err(|error| match error.kind() {
                    io::ErrorKind::WouldBlock => ReadError::Again,
                    _ => ReadError::Gone,
                })?;
                input.filled(bytes);
                Ok(Received { bytes, is_end: bytes == 0 })
            }
        }
    }

    #[cold]
    fn send(&mut self, socket: &OwnedFd, pieces: &[&[u8]], buffered: &Budget) -> io::Result<usize> {
        match self {
            Layer::Tls(tls) => tls.send(socket, pieces, buffered),
            Layer::Pipe(pipe) => pipe.send(pieces),
        }
    }
}

impl Tls {
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
