//! Where the servers are, and the bytes between them and a connection.
//!
//! A target is opened as a [`Line`]. Most lines carry text over a [`Transport`].
//!
//! A [`Transport`] moves bytes and never blocks. Two kinds of it exist: streams (TCP, Unix sockets), which a thread waits
//! for with epoll, and message transports (shared-memory rings), which carry one whole request in and one whole answer
//! out and must be polled. A new one is a type with this trait and an arm in [`Target::connect`] and [`Target::from_str`].

use super::LoadError;
use super::line::{Line, caches::Caches, datagrams::Datagrams, text::Text};
use super::shm::Rings;
use super::tls::TlsStream;
use base::tls::ClientTls;
use serde::{Serialize, Serializer};
use serve::process::tls::TlsClientArgs;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// memcached's protocol over TCP.
    Tcp(String),
    /// memcached's protocol over TLS.
    Tls {
        /// HOST:PORT.
        address: String,
        /// Whose certificates are believed; none before flags have said it.
        trust: Option<ClientTls>,
    },
    /// memcached's protocol over a Unix socket.
    Unix(PathBuf),
    /// memcached's protocol over shared-memory rings, handed out at a Unix socket.
    Shm(PathBuf),
    /// Redis's protocol over TCP.
    Redis(String),
    /// memcached's protocol in UDP datagrams.
    Udp(String),
    /// The in-network cache.
    Caches {
        /// Its topology.
        file: PathBuf,
        /// The box to ask; none: the first.
        tor: Option<u16>,
        /// Past all boxes, to the homes.
        direct: bool,
    },
}

/// How a transport cuts what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Not at all: any number of requests per write, any piece of the answers per read.
    Stream,
    /// One whole request per write (taken whole or `WouldBlock`); an answer per read, or the rest of one that did not fit.
    Messages,
}

/// Bytes to and from one server.
pub trait Transport: Send {
    /// Sends from the front of `bytes`; how many went.
    ///
    /// # Errors
    /// `WouldBlock` when nothing can go now, others when the connection is lost.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Receives into `room`; how many came, 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there, others when the connection is lost.
    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize>;

    /// What epoll can wait for; without one, the thread polls.
    fn waitable(&self) -> Option<BorrowedFd<'_>>;

    /// How it cuts what it carries.
    fn framing(&self) -> Framing {
        Framing::Stream
    }
}

impl Transport for TcpStream {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }
    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.read(room)
    }
    fn waitable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

impl Transport for UnixStream {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }
    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.read(room)
    }
    fn waitable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Target {
    /// Opens a connection for the generator.
    ///
    /// # Errors
    /// What went wrong, where, and what to do about it.
    pub fn open(&self) -> Result<Box<dyn Line>, LoadError> {
        match self {
            Target::Caches { file, tor, direct } => {
                Ok(Box::new(Caches::connect(file, *tor, *direct).map_err(LoadError::Caches)?))
            }
            Target::Udp(address) => {
                let line = connect_udp(address).and_then(Datagrams::new);
                Ok(Box::new(line.map_err(|error| self.cannot_connect(&error))?))
            }
            _ => Ok(Box::new(Text::new(self.connect()?))),
        }
    }

    /// Opens a connection that carries plain text.
    ///
    /// # Errors
    /// What went wrong, where, and what to do about it.
    pub fn connect(&self) -> Result<Box<dyn Transport>, LoadError> {
        let opened: io::Result<Box<dyn Transport>> = match self {
            Target::Tcp(address) | Target::Redis(address) => connect_tcp(address).map(|s| Box::new(s) as _),
            Target::Tls { address, trust } => {
                TlsStream::connect(address, trust.as_ref()).map(|s| Box::new(s) as _)
            }
            Target::Unix(path) => UnixStream::connect(path)
                .and_then(|s| s.set_nonblocking(true).map(|()| s))
                .map(|s| Box::new(s) as _),
            Target::Shm(path) => Rings::connect(path).map(|s| Box::new(s) as _),
            Target::Udp(_) | Target::Caches { .. } => {
                return Err(LoadError::Plan("no server tells its process over datagrams".into()));
            }
        };
        opened.map_err(|error| self.cannot_connect(&error))
    }

    /// Whether the server runs on this machine, as far as the address tells.
    pub fn is_local(&self) -> bool {
        match self {
            Target::Unix(_) | Target::Shm(_) => true,
            // Where its nodes run is not told; --server-pid names one.
            Target::Caches { .. } => true,
            Target::Tcp(address)
            | Target::Tls { address, .. }
            | Target::Redis(address)
            | Target::Udp(address) => resolve(address).is_ok_and(|a| a.ip().is_loopback()),
        }
    }

    /// The same, with certificates of these being believed where it is asked by TLS.
    ///
    /// # Errors
    /// Why there is no TLS. A sentence.
    pub fn trusting(&self, tls: &TlsClientArgs) -> Result<Target, String> {
        Ok(match self {
            Target::Tls { address, .. } => {
                Target::Tls { address: address.clone(), trust: Some(tls.client(&[])?) }
            }
            other => other.clone(),
        })
    }

    /// Whether it speaks Redis's protocol.
    pub fn is_redis(&self) -> bool {
        matches!(self, Target::Redis(_))
    }

    /// Whether a request carries one key, and no more.
    pub fn one_key_each(&self) -> bool {
        matches!(self, Target::Caches { .. })
    }

    fn cannot_connect(&self, error: &io::Error) -> LoadError {
        let hint = match (error.kind(), self) {
            (io::ErrorKind::ConnectionRefused, Target::Redis(_)) => {
                "nothing listens there; start it with: redis-server --port PORT"
            }
            (io::ErrorKind::ConnectionRefused, Target::Tcp(_)) => {
                "nothing listens there; start a server with: millrace up, or memcached -l 127.0.0.1 -p PORT"
            }
            (io::ErrorKind::ConnectionRefused, Target::Tls { .. }) => {
                "nothing listens there; start a server with: millrace up --tls-cert FILE --tls-key FILE"
            }
            (io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof, Target::Tls { .. }) => {
                "see --tls-ca, and whether the server speaks TLS there"
            }
            (io::ErrorKind::ConnectionRefused, Target::Unix(_) | Target::Shm(_)) => {
                "the socket file is left from a server that ended; start the server again"
            }
            (io::ErrorKind::NotFound, Target::Unix(_) | Target::Shm(_)) => {
                "there is no such socket; check the path, or start the server"
            }
            (io::ErrorKind::PermissionDenied, Target::Unix(_) | Target::Shm(_)) => {
                "the socket's mode forbids it; see the server's -a"
            }
            (io::ErrorKind::TimedOut, _) => "the host does not answer; check the address and any firewall",
            (io::ErrorKind::InvalidInput, _) => "write HOST:PORT, for example 127.0.0.1:11211",
            _ => "check the address, and with many connections the limit of open files (ulimit -n)",
        };
        LoadError::Connect { target: self.to_string(), cause: error.to_string(), hint }
    }
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    let none = || io::Error::new(io::ErrorKind::InvalidInput, format!("{address:?} is no address"));
    address.to_socket_addrs()?.next().ok_or_else(none)
}

fn connect_udp(address: &str) -> io::Result<UdpSocket> {
    let server = resolve(address)?;
    let any = match server {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    Ok(socket)
}

pub(super) fn connect_tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&resolve(address)?, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

impl FromStr for Target {
    type Err = String;

    fn from_str(s: &str) -> Result<Target, String> {
        if let Some(path) = s.strip_prefix("unix:") {
            return match path {
                "" => {
                    Err("unix: needs the path of a socket, for example unix:/run/millrace.sock".to_string())
                }
                path => Ok(Target::Unix(PathBuf::from(path))),
            };
        }
        if let Some(path) = s.strip_prefix("shm:") {
            return match path {
                "" => {
                    Err("shm: needs the path given to --shm, for example shm:/run/millrace.shm".to_string())
                }
                path => Ok(Target::Shm(PathBuf::from(path))),
            };
        }
        for (prefix, direct) in [("inc:", false), ("inc-direct:", true)] {
            if let Some(rest) = s.strip_prefix(prefix) {
                return caches(rest, direct);
            }
        }
        let (address, make): (&str, fn(String) -> Target) = if let Some(rest) = s.strip_prefix("redis://") {
            (rest.trim_end_matches('/'), Target::Redis)
        } else if let Some(rest) = s.strip_prefix("udp:") {
            (rest, Target::Udp)
        } else if let Some(rest) = s.strip_prefix("tls:") {
            (rest, |address| Target::Tls { address, trust: None })
        } else {
            (s, Target::Tcp)
        };
        let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
        match port.map(str::parse::<u16>) {
            Some(Ok(_)) => Ok(make(address.to_string())),
            _ => Err(format!(
                "{s:?} is no target; write HOST:PORT, tls:HOST:PORT, unix:PATH, shm:PATH, udp:HOST:PORT, redis://HOST:PORT, inc:FILE or inc-direct:FILE"
            )),
        }
    }
}

/// Reads `FILE` or `FILE#BOX`.
fn caches(text: &str, direct: bool) -> Result<Target, String> {
    let wrong = || {
        format!(
            "{text:?} names no topology; write inc:FILE, or inc:FILE#2 for box 2 (see `millrace inc topology`)"
        )
    };
    let (file, tor) = match text.rsplit_once('#') {
        Some((file, tor)) => (file, Some(tor.parse().map_err(|_| wrong())?)),
        None => (text, None),
    };
    if file.is_empty() { Err(wrong()) } else { Ok(Target::Caches { file: file.into(), tor, direct }) }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp(address) => f.write_str(address),
            Target::Tls { address, .. } => write!(f, "tls:{address}"),
            Target::Unix(path) => write!(f, "unix:{}", path.display()),
            Target::Shm(path) => write!(f, "shm:{}", path.display()),
            Target::Redis(address) => write!(f, "redis://{address}"),
            Target::Udp(address) => write!(f, "udp:{address}"),
            Target::Caches { file, tor, direct } => {
                write!(f, "{}:{}", if *direct { "inc-direct" } else { "inc" }, file.display())?;
                tor.map_or(Ok(()), |tor| write!(f, "#{tor}"))
            }
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_print_as_they_are_read() {
        for text in [
            "127.0.0.1:11211",
            "[::1]:1",
            "unix:/tmp/a b",
            "shm:/tmp/b",
            "redis://localhost:6379",
            "udp:[::1]:11211",
            "tls:localhost:11212",
            "inc:rack.toml",
            "inc:/tmp/rack.toml#2",
            "inc-direct:rack.toml",
        ] {
            assert_eq!(text.parse::<Target>().map(|t| t.to_string()).as_deref(), Ok(text));
        }
        for bad in [
            "",
            ":1",
            "host",
            "host:x",
            "unix:",
            "shm:",
            "redis://host",
            "host:70000",
            "udp:1",
            "tls:",
            "inc:",
            "inc:#1",
            "inc:f#x",
        ] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refused_connection_says_what_to_do() {
        // A port that was just free: bound and given back.
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback").port();
        let target: Target = format!("127.0.0.1:{port}").parse().expect("good");
        let text = target.connect().err().expect("refused").to_string();
        assert!(text.contains(&port.to_string()) && text.contains("millrace up"), "{text}");
    }
}
