//! Frames over Unix and TCP streams, with TLS or without: what works everywhere.
//!
//! Cost: one write per flush and one read per receive, of as many frames as there are; see `docs/measurements/links.md`.
//!
//! Waiting: the descriptor is an epoll set with the socket alone in it, so that an armed link is woken by what it waits for: bytes
//! to read, or, while something could not be written, room.
//!
//! Bounds: outgoing [`LinkOptions::bytes`] and one frame; incoming one frame and 64 KiB, of which what exceeds 64 KiB comes out of
//! [`framing::BUFFERS`] for [`FRAME_TIMEOUT`] at most.
//!
//! Errors: a stream that ends between two frames was closed, one that ends within a frame or with an error is dead. A machine
//! that falls silent is found dead after [`SILENCE_S`] seconds (keepalive and user timeout of TCP).

use super::connect::{ConnectError, LinkOptions, Listener};
use super::framing::{self, BadLength, Deframer};
use super::secure::Secure;
use super::unix_socket::{self, UnixSocket};
use super::{Address, Endpoint, ForeignStream, ForeignTls, Frames, Link, Lost, SendError, Transport};
use crate::frame::{HEADER, MAX_FRAME};
use base::rights::Identity;
use base::tls::{ServerTls, TlsError};
use base::units::Nanos;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Seconds after which a silent machine counts as dead.
const SILENCE_S: u32 = 30;
/// A frame that takes buffers from other links is there within this, or its link ends.
const FRAME_TIMEOUT: Nanos = Nanos::from_secs(20);
/// Of the output buffer stays allocated.
const KEEP: usize = 256 << 10;

/// One end.
struct StreamLink {
    socket: OwnedFd,
    epoll: OwnedFd,
    watched: epoll::EventFlags,
    transport: Transport,
    input: Deframer,
    /// Frames with their lengths; what is before `written` is on its way.
    output: Vec<u8>,
    written: usize,
    limit: usize,
    refused: bool,
    /// The socket takes nothing any more; something may still be read.
    mute: bool,
    /// The socket gives nothing any more, and why; whole frames may still be in `input`.
    ended: Option<Lost>,
    /// When a long frame that has begun must be there.
    frame_until: Nanos,
    /// Between frames and socket, where there is TLS.
    secure: Option<Box<Secure>>,
}

impl StreamLink {
    fn new(socket: OwnedFd, transport: Transport, options: &LinkOptions) -> io::Result<StreamLink> {
        ioctl_fionbio(&socket, true)?;
        if matches!(transport, Transport::Tcp | Transport::Tls) {
            sockopt::set_tcp_nodelay(&socket, true)?;
            sockopt::set_socket_keepalive(&socket, true)?;
            sockopt::set_tcp_keepidle(&socket, Duration::from_secs(u64::from(SILENCE_S / 2)))?;
            sockopt::set_tcp_keepintvl(&socket, Duration::from_secs(5))?;
            sockopt::set_tcp_keepcnt(&socket, (SILENCE_S / 2).div_ceil(5))?;
            sockopt::set_tcp_user_timeout(&socket, SILENCE_S * 1000)?;
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watched = epoll::EventFlags::IN;
        epoll::add(&epoll, &socket, epoll::EventData::new_u64(0), watched)?;
        Ok(StreamLink {
            socket,
            epoll,
            watched,
            transport,
            input: Deframer::default(),
            output: Vec::new(),
            written: 0,
            limit: options.bytes as usize,
            refused: false,
            mute: false,
            ended: None,
            frame_until: Nanos::MAX,
            secure: None,
        })
    }

    fn secured(mut self, secure: Secure) -> StreamLink {
        self.secure = Some(Box::new(secure));
        self
    }

    fn unwritten(&self) -> usize {
        self.output.len() - self.written
    }

    /// Bytes that TLS has taken and the socket has not.
    fn unsent(&self) -> usize {
        self.secure.as_ref().map_or(0, |secure| secure.unsent())
    }

    fn is_handshaking(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.is_handshaking())
    }

    fn write(&mut self) {
        if let Some(secure) = &mut self.secure {
            self.mute |= secure.flush(&self.socket).is_err();
        }
        while self.unwritten() > 0 && !self.mute {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let bytes = &self.output[self.written..];
            let sent = match &mut self.secure {
                None => send(&self.socket, bytes, flags),
                Some(secure) => secure.send(&self.socket, bytes),
            };
            match sent {
                Ok(count) => self.written += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => self.mute = true,
            }
        }
        if self.unwritten() == 0 || self.mute {
            self.output.clear();
            self.output.shrink_to(KEEP);
            self.written = 0;
        } else if self.written >= self.limit {
            // What was written makes room for what comes, so the buffer stays within its bound.
            self.output.drain(..self.written);
            self.written = 0;
        }
    }

    /// Takes frames that came before.
    fn take(&mut self, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        let mut taken = 0;
        while taken < max && into.bytes() < Frames::ENOUGH {
            match self.input.pop() {
                Ok(Some(frame)) => into.push(&[frame]),
                Ok(None) => break,
                Err(BadLength(_)) if taken > 0 => break,
                Err(BadLength(_)) => return Err(Lost::Violation),
            }
            taken += 1;
        }
        Ok(taken)
    }

    /// Reads once; whether something came.
    fn read(&mut self) -> bool {
        let Ok(space) = self.input.space() else {
            self.ended = Some(Lost::NoRoom);
            return false;
        };
        let received = match &mut self.secure {
            None => recv(&self.socket, space, RecvFlags::DONTWAIT).map(|(_, count)| count),
            Some(secure) => secure.recv(&self.socket, space),
        };
        let lost = match received {
            Ok(0) if self.input.is_within_frame() => Lost::Dead,
            Ok(0) => Lost::Closed,
            Ok(count) => {
                self.input.filled(count);
                return true;
            }
            Err(Errno::AGAIN | Errno::INTR) => return false,
            Err(_) => Lost::Dead,
        };
        self.ended = Some(lost);
        false
    }

    fn sleep(&mut self, receives: bool) -> bool {
        self.write();
        self.input.trim();
        let has_room = self.refused && self.unwritten() < self.limit;
        if has_room {
            self.refused = false;
        }
        let has_input =
            || self.input.is_ready() || self.secure.as_ref().is_some_and(|secure| secure.has_plain());
        if has_room || self.mute || self.ended.is_some() || (receives && has_input()) {
            return false;
        }
        let is_handshaking = self.is_handshaking();
        let mut wanted = epoll::EventFlags::empty();
        wanted.set(epoll::EventFlags::IN, receives || is_handshaking);
        // During a handshake what waits for its end has no use for room.
        wanted.set(epoll::EventFlags::OUT, self.unsent() > 0 || (self.unwritten() > 0 && !is_handshaking));
        if wanted != self.watched {
            // Were it to fail we would sleep on the wrong thing; so we do not sleep.
            if epoll::modify(&self.epoll, &self.socket, epoll::EventData::new_u64(0), wanted).is_err() {
                return false;
            }
            self.watched = wanted;
        }
        true
    }
}

impl Link for StreamLink {
    fn transport(&self) -> Transport {
        self.transport
    }

    fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        debug_assert!(head.len() >= HEADER);
        if self.mute || self.ended.is_some() {
            return Err(SendError::Gone);
        }
        if head.len() + body.len() > MAX_FRAME {
            return Err(SendError::TooLarge);
        }
        if self.unwritten() >= self.limit {
            self.write();
            if self.unwritten() >= self.limit {
                self.refused = true;
                return Err(SendError::Full);
            }
        }
        framing::push(&mut self.output, head, body);
        Ok(())
    }

    fn flush(&mut self, _: Nanos) {
        self.write();
    }

    fn set_max_frame(&mut self, bytes: usize) {
        self.input.set_max_frame(bytes);
    }

    fn recv(&mut self, now: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        if max == 0 || into.bytes() >= Frames::ENOUGH {
            return Ok(0);
        }
        let mut taken = self.take(max, into)?;
        while taken == 0 && self.ended.is_none() && self.read() {
            taken = self.take(max, into)?;
        }
        if taken == 0 && self.secure.as_ref().is_some_and(|secure| now >= secure.next_deadline()) {
            self.ended = Some(Lost::Dead);
        }
        if taken > 0 || !self.input.is_long() {
            self.frame_until = Nanos::MAX;
        } else if self.frame_until == Nanos::MAX {
            self.frame_until = now.plus(FRAME_TIMEOUT);
        } else if now >= self.frame_until {
            self.ended = Some(Lost::NoRoom);
        }
        match self.ended {
            Some(lost) if taken == 0 => Err(lost),
            _ => Ok(taken),
        }
    }

    fn foreign_bytes(&self) -> &[u8] {
        if self.input.is_ready() { self.input.rest() } else { &[] }
    }

    fn into_foreign(mut self: Box<Self>) -> Option<ForeignStream> {
        let came = self.input.rest().to_vec();
        // This link's own end of the socket goes with it; nothing is said by that.
        let socket = self.socket.try_clone().ok()?;
        let tls = self.secure.take().map(ForeignTls);
        Some(ForeignStream { socket, came, tls })
    }

    fn peer_user(&self) -> Option<u32> {
        (self.transport == Transport::Unix).then(|| unix_socket::peer_user(&self.socket)).flatten()
    }

    fn peer_identities(&self) -> Vec<Identity> {
        let user = || self.peer_user().map(Identity::Uid).into_iter().collect();
        self.secure.as_ref().map_or_else(user, |secure| secure.identities())
    }

    fn next_deadline(&self) -> Nanos {
        let handshake = self.secure.as_ref().map_or(Nanos::MAX, |secure| secure.next_deadline());
        self.frame_until.min(handshake)
    }

    fn is_drained(&self) -> bool {
        self.unwritten() == 0 && self.unsent() == 0
    }

    fn arm(&mut self) -> bool {
        self.sleep(true)
    }

    fn arm_for_room(&mut self) -> bool {
        self.sleep(false)
    }

    fn disarm(&mut self) {}

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for StreamLink {
    fn drop(&mut self) {
        self.write();
        if let Some(secure) = &mut self.secure {
            secure.close(&self.socket);
        }
    }
}

pub(super) fn connect_unix(path: &Path, options: &LinkOptions) -> Result<Box<dyn Link>, ConnectError> {
    let link = unix_socket::dial(path, options.timeout)
        .and_then(|socket| StreamLink::new(socket.into(), Transport::Unix, options));
    let link = link.map_err(|error| ConnectError::system(&Address::Unix(path.into()), error))?;
    Ok(Box::new(link))
}

pub(super) fn connect_tcp(endpoint: &Endpoint, options: &LinkOptions) -> Result<Box<dyn Link>, ConnectError> {
    let link = endpoint
        .resolve()
        .and_then(|address| std::net::TcpStream::connect_timeout(&address, options.timeout))
        .and_then(|socket| StreamLink::new(socket.into(), Transport::Tcp, options));
    let link = link.map_err(|error| ConnectError::system(&Address::Tcp(endpoint.clone()), error))?;
    Ok(Box::new(link))
}

pub(super) fn connect_tls(endpoint: &Endpoint, options: &LinkOptions) -> Result<Box<dyn Link>, ConnectError> {
    let address = || Address::Tls(endpoint.clone());
    let system = |error| ConnectError::system(&address(), error);
    let refused = |why: String| ConnectError::Tls(address(), why);
    let trust = options.tls.trust.as_ref().ok_or_else(|| refused(TlsError::NobodyBelieved.to_string()))?;
    let at = endpoint.resolve().map_err(system)?;
    let mut socket = std::net::TcpStream::connect_timeout(&at, options.timeout).map_err(system)?;
    socket.set_read_timeout(Some(options.timeout)).map_err(system)?;
    socket.set_write_timeout(Some(options.timeout)).map_err(system)?;
    let secure = Secure::client(trust, &endpoint.host, &mut socket).map_err(refused)?;
    let link = StreamLink::new(socket.into(), Transport::Tls, options).map_err(system)?;
    Ok(Box::new(link.secured(secure)))
}

/// Accepts clients on a Unix socket.
pub(super) struct UnixListener {
    socket: UnixSocket,
    options: LinkOptions,
    address: Address,
}

impl UnixListener {
    pub(super) fn new(path: &Path, options: LinkOptions) -> io::Result<UnixListener> {
        let socket = UnixSocket::listen(path, options.permissions)?;
        Ok(UnixListener { socket, options, address: Address::Unix(path.into()) })
    }
}

impl Listener for UnixListener {
    fn accept(&mut self, _: Nanos) -> io::Result<Option<Box<dyn Link>>> {
        let Some(socket) = self.socket.accept()? else { return Ok(None) };
        Ok(Some(Box::new(StreamLink::new(socket, Transport::Unix, &self.options)?)))
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn address(&self) -> &Address {
        &self.address
    }
}

/// Accepts clients on a TCP port.
pub(super) struct TcpListener {
    socket: std::net::TcpListener,
    options: LinkOptions,
    address: Address,
    /// For TLS.
    certificate: Option<Arc<ServerTls>>,
}

impl TcpListener {
    pub(super) fn new(
        endpoint: &Endpoint,
        options: LinkOptions,
        certificate: Option<Arc<ServerTls>>,
    ) -> io::Result<TcpListener> {
        let socket = std::net::TcpListener::bind(endpoint.resolve()?)?;
        socket.set_nonblocking(true)?;
        let bound = socket.local_addr()?.into();
        let address = if certificate.is_some() { Address::Tls(bound) } else { Address::Tcp(bound) };
        Ok(TcpListener { socket, options, address, certificate })
    }
}

impl Listener for TcpListener {
    fn accept(&mut self, now: Nanos) -> io::Result<Option<Box<dyn Link>>> {
        let (socket, _) = match self.socket.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::WouldBlock
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::Interrupted => Ok(None),
                    _ => Err(error),
                };
            }
        };
        Ok(Some(Box::new(match &self.certificate {
            None => StreamLink::new(socket.into(), Transport::Tcp, &self.options)?,
            Some(certificate) => StreamLink::new(socket.into(), Transport::Tls, &self.options)?
                .secured(Secure::server(certificate, now)?),
        })))
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn address(&self) -> &Address {
        &self.address
    }
}
