//! A stream to a server: TCP, with TLS or without, or a Unix socket. Nothing here waits but connecting and [`Stream::wait`].

use super::{Error, Options};
use base::tls::Session;
use fabric::link::{Address, Endpoint};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// See the head of the file.
pub(super) struct Stream {
    socket: OwnedFd,
    tls: Option<Box<Session>>,
}

impl Stream {
    /// To the server at `address`; what it said before it was asked is appended to `input`.
    pub(super) fn connect(address: &Address, options: &Options, input: &mut Vec<u8>) -> io::Result<Stream> {
        match address {
            Address::Unix(path) => Ok(Stream { socket: UnixStream::connect(path)?.into(), tls: None }),
            Address::Tcp(at) => Ok(Stream { socket: connect_tcp(at, options.timeout)?.into(), tls: None }),
            Address::Tls(at) => {
                let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
                let nobody = || invalid("tls: wants an authority to believe (tls_ca)".to_owned());
                let tls = options.tls.as_ref().ok_or_else(nobody)?;
                let mut session =
                    Session::client(tls, &at.host).map_err(|error| invalid(error.to_string()))?;
                let mut stream = connect_tcp(at, options.timeout)?;
                stream.set_read_timeout(Some(options.timeout))?;
                session.shake_hands(&mut stream, |bytes| {
                    input.extend_from_slice(bytes);
                    true
                })?;
                Ok(Stream { socket: stream.into(), tls: Some(Box::new(session)) })
            }
            Address::Memory(_) | Address::Shm(_) | Address::Udp(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends as many of `bytes` as the socket takes now, and returns how many.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let socket = &self.socket;
        match &mut self.tls {
            None => send_now(socket, bytes),
            Some(session) => session.write(&[bytes], |bytes| send_now(socket, bytes)),
        }
    }

    /// Whether TLS has bytes that the socket has not taken.
    pub(super) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.unsent() > 0)
    }

    /// Appends to `input` what is there now; false where nothing is.
    pub(super) fn receive(&mut self, input: &mut Vec<u8>) -> Result<bool, Error> {
        let socket = &self.socket;
        let received = match &mut self.tls {
            None => {
                input.reserve(READ_BYTES);
                recv(socket, spare_capacity(input), RecvFlags::DONTWAIT)
                    .map(|(_, count)| count == 0)
                    .map_err(io::Error::from)
            }
            Some(session) => {
                let read = |room: &mut [u8]| Ok(recv(socket, room, RecvFlags::DONTWAIT)?.1);
                let plain = |bytes: &[u8]| {
                    input.extend_from_slice(bytes);
                    true
                };
                session.read(read, plain).map(|received| received.is_end).map_err(io::Error::from)
            }
        };
        match received {
            Ok(is_end) if is_end => Err(Error::Gone),
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Error::Broken(error.to_string())),
            Err(_) => Err(Error::Gone),
        }
    }

    /// Waits for bytes, or with `for_room` for room as well, for `timeout` at most. False when it is over.
    pub(super) fn wait(&self, for_room: bool, timeout: Duration) -> bool {
        let events = if for_room { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut sockets = [PollFd::new(&self.socket, events)];
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // A signal that interrupts it is a wake-up without news.
        poll(&mut sockets, Some(&timeout)) != Ok(0)
    }
}

fn connect_tcp(at: &Endpoint, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    // A name may have several, of which the server listens at one.
    for address in (at.host.as_str(), at.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// As many bytes as the socket takes; none where it is full.
fn send_now(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    match send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
