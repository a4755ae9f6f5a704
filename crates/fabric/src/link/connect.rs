//! From an address to links: [`connect`] to a server, or [`listen`] and accept clients.
//!
//! To add a transport: a variant of [`Address`], a file beside `shm.rs` with its link and listener, an arm in both functions
//! here, and a line in `tests/links/rig.rs`.

use super::secure::TlsOptions;
use super::{Address, Link, Mode, SharedSocket, memory, shm, stream, udp};
use crate::registers::{Id, Registers};
use base::units::Nanos;
use ring::shm::AttachError;
use rustix::fd::BorrowedFd;
use std::time::Duration;
use std::{fmt, io};

/// What a link is to be like; each transport reads what concerns it.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// How frames are published to the other side. Memory and shm, where the listener's options count.
    pub mode: Mode,
    /// Frames on their way in each direction; a power of two. Memory and shm.
    pub entries: u32,
    /// Bytes on their way in each direction that do not fit slots; a power of two from 4 KiB up. Streams buffer as many.
    /// One frame more, of any length, is always carried.
    pub bytes: u32,
    /// How long [`connect`] waits for a server that does not answer.
    pub timeout: Duration,
    /// What `tls:` addresses go by.
    pub tls: TlsOptions,
    /// Who may connect to a socket in the file system, as `chmod` says it.
    pub permissions: u32,
}

impl Default for LinkOptions {
    fn default() -> LinkOptions {
        LinkOptions {
            mode: Mode::default(),
            entries: 1024,
            bytes: 1 << 20,
            timeout: Duration::from_secs(5),
            tls: TlsOptions::of_process(),
            permissions: 0o600,
        }
    }
}

impl LinkOptions {
    /// With modes and sizes as the registers say now.
    pub(crate) fn follow(&mut self, registers: &Registers) {
        self.mode = Mode::ALL[registers.size(Id::PortMode)];
        self.entries = registers.read(Id::RingEntries) as u32;
        self.bytes = registers.read(Id::RingArena) as u32;
    }

    /// The same, with sizes that every transport can have.
    pub(crate) fn bounded(&self) -> LinkOptions {
        LinkOptions {
            entries: self.entries.clamp(2, 1 << 16).next_power_of_two(),
            bytes: self.bytes.clamp(1 << 12, 1 << 26).next_power_of_two(),
            ..self.clone()
        }
    }
}

/// Why there is no link.
#[derive(Debug)]
pub enum ConnectError {
    /// Nobody listens there.
    NobodyThere(Address),
    /// The server has more clients waiting than it accepts.
    Busy(Address),
    /// What answered hands over no segment of ours.
    NoSegment(Address, AttachError),
    /// There is no TLS with it: it is not believed, or there is nobody whom this side believes.
    Tls(Address, String),
    /// The system's error.
    System(Address, io::Error),
}

impl ConnectError {
    /// The error of a system call on the way to `address`.
    pub(crate) fn system(address: &Address, error: io::Error) -> ConnectError {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ConnectError::NobodyThere(address.clone())
            }
            io::ErrorKind::WouldBlock => ConnectError::Busy(address.clone()),
            _ => ConnectError::System(address.clone(), error),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::NobodyThere(address) => write!(f, "nobody listens at {address}"),
            ConnectError::Busy(address) => {
                write!(f, "the server at {address} does not keep up with its clients")
            }
            ConnectError::NoSegment(address, error) => {
                write!(f, "what answers at {address} is no fabric server: {error}")
            }
            ConnectError::Tls(address, why) => write!(f, "cannot connect to {address}: {why}"),
            ConnectError::System(address, error) => write!(f, "cannot connect to {address}: {error}"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// Where clients come from.
pub trait Listener: Send {
    /// The next client's link, if there is one. Never blocks.
    ///
    /// # Errors
    /// The system's; the listener goes on listening, and an error that a client caused concerns that client alone.
    fn accept(&mut self, now: Nanos) -> io::Result<Option<Box<dyn Link>>>;

    /// Readable when [`Listener::accept`] has something to do.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Where it listens: what was asked, or the port that the system chose.
    fn address(&self) -> &Address;

    /// Other modes and sizes, for the links of clients that come from now on.
    fn set_options(&mut self, _options: &LinkOptions) {}

    /// The socket that [`Listener::accept`] reads for all links that were accepted here, if they have none of their own.
    fn shared_socket(&self) -> Option<SharedSocket> {
        None
    }

    /// When [`Listener::accept`] must be called though nothing came; [`Nanos::MAX`] for never.
    fn next_deadline(&self) -> Nanos {
        Nanos::MAX
    }
}

/// A link to the server at `address`.
///
/// # Errors
/// See [`ConnectError`].
pub fn connect(address: &Address, options: &LinkOptions) -> Result<Box<dyn Link>, ConnectError> {
    let options = &options.bounded();
    match address {
        Address::Memory(name) => memory::connect(name),
        Address::Shm(path) => shm::connect(path, options),
        Address::Udp(endpoint) => udp::connect(address, endpoint, options),
        Address::Unix(path) => stream::connect_unix(path, options),
        Address::Tcp(endpoint) => stream::connect_tcp(endpoint, options),
        Address::Tls(endpoint) => stream::connect_tls(endpoint, options),
    }
}

/// Listens at `address`. A socket file left by a server that died is replaced, one of a live server is not (`AddrInUse`).
///
/// # Errors
/// The system's.
pub fn listen(address: &Address, options: &LinkOptions) -> io::Result<Box<dyn Listener>> {
    let options = options.bounded();
    Ok(match address {
        Address::Memory(name) => Box::new(memory::MemoryListener::new(name, options)?),
        Address::Shm(path) => Box::new(shm::ShmListener::new(path, options)?),
        Address::Udp(endpoint) => Box::new(udp::UdpListener::bind(endpoint.resolve()?)?),
        Address::Unix(path) => Box::new(stream::UnixListener::new(path, options)?),
        Address::Tcp(endpoint) => Box::new(stream::TcpListener::new(endpoint, options, None)?),
        Address::Tls(endpoint) => {
            let none = || {
                io::Error::other(
                    "listening for TLS wants a certificate: name it with --tls-cert FILE, and its key with --tls-key FILE",
                )
            };
            let certificate = options.tls.certificate.clone().ok_or_else(none)?;
            Box::new(stream::TcpListener::new(endpoint, options, Some(certificate))?)
        }
    })
}
