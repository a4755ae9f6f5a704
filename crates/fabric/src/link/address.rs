//! Where a server is: `memory:NAME`, `shm:/path`, `udp:HOST:PORT`, `unix:/path`, `tcp:HOST:PORT`, `tls:HOST:PORT`.
//!
//! A host may be left out (`tcp:7000`): then it is 127.0.0.1, so that nothing is open to a network unless its address is written
//! down. IPv6 addresses stand in brackets. Port 0 is one of the system's choice; a listener's address says which.

use super::Transport;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// Bytes of the longest path of a Unix socket.
const MAX_PATH: usize = 107;

/// A place to listen at or to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A name within this process.
    Memory(String),
    /// The socket over which shared memory is handed over.
    Shm(PathBuf),
    /// A UDP port.
    Udp(Endpoint),
    /// A Unix stream socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(Endpoint),
    /// A TCP port where TLS is spoken; the server's certificate has the host's name.
    Tls(Endpoint),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// A name or a number; IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    /// The first address that the host has.
    ///
    /// # Errors
    /// The resolver's.
    pub fn resolve(&self) -> std::io::Result<SocketAddr> {
        let mut found = (self.host.as_str(), self.port).to_socket_addrs()?;
        found.next().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Endpoint {
        Endpoint { host: address.ip().to_string(), port: address.port() }
    }
}

impl Address {
    /// The transport that leads there.
    pub fn transport(&self) -> Transport {
        match self {
            Address::Memory(_) => Transport::Memory,
            Address::Shm(_) => Transport::Shm,
            Address::Udp(_) => Transport::Udp,
            Address::Unix(_) => Transport::Unix,
            Address::Tcp(_) => Transport::Tcp,
            Address::Tls(_) => Transport::Tls,
        }
    }

    /// Whether nobody on another machine can reach it. A name that cannot be resolved may be anything.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Memory(_) | Address::Shm(_) | Address::Unix(_) => true,
            Address::Udp(endpoint) | Address::Tcp(endpoint) | Address::Tls(endpoint) => {
                endpoint.resolve().is_ok_and(|address| address.ip().is_loopback())
            }
        }
    }
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// It begins with no transport.
    Transport(String),
    /// Nothing stands behind the transport.
    Empty(Transport),
    /// The port is no number from 0 to 65535.
    Port(String),
    /// The brackets around an IPv6 address are missing or do not match.
    Brackets(String),
    /// The path is longer than the system allows for sockets.
    LongPath(usize),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressError::Transport(text) => write!(
                f,
                "'{text}' is no address: write memory:NAME, shm:/path, udp:HOST:PORT, unix:/path, tcp:HOST:PORT or tls:HOST:PORT"
            ),
            AddressError::Empty(transport) => {
                let missing = match transport {
                    Transport::Memory => "name",
                    Transport::Shm | Transport::Unix => "path",
                    Transport::Udp | Transport::Tcp | Transport::Tls => "port",
                };
                write!(f, "'{}:' lacks its {missing}", transport.name())
            }
            AddressError::Port(text) => write!(f, "'{text}' is no port: a number from 0 to 65535 is one"),
            AddressError::Brackets(text) => {
                write!(f, "'{text}': an IPv6 address stands in brackets, as in [::1]:7000")
            }
            AddressError::LongPath(len) => {
                write!(f, "a socket's path has at most {MAX_PATH} bytes, and this one has {len}")
            }
        }
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let unknown = || AddressError::Transport(text.into());
        let (name, rest) = text.split_once(':').ok_or_else(unknown)?;
        let transport = Transport::ALL.into_iter().find(|t| t.name() == name).ok_or_else(unknown)?;
        if rest.is_empty() {
            return Err(AddressError::Empty(transport));
        }
        Ok(match transport {
            Transport::Memory => Address::Memory(rest.into()),
            Transport::Shm => Address::Shm(path(rest)?),
            Transport::Udp => Address::Udp(endpoint(rest)?),
            Transport::Unix => Address::Unix(path(rest)?),
            Transport::Tcp => Address::Tcp(endpoint(rest)?),
            Transport::Tls => Address::Tls(endpoint(rest)?),
        })
    }
}

fn path(text: &str) -> Result<PathBuf, AddressError> {
    if text.len() > MAX_PATH { Err(AddressError::LongPath(text.len())) } else { Ok(text.into()) }
}

fn endpoint(text: &str) -> Result<Endpoint, AddressError> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(|| AddressError::Brackets(text.into()))?,
        None if host.contains([':', ']']) => return Err(AddressError::Brackets(text.into())),
        None if host.is_empty() => "127.0.0.1",
        None => host,
    };
    // A sign would be read as part of a number.
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|_| digits).ok_or_else(|| AddressError::Port(port.into()))?;
    Ok(Endpoint { host: host.into(), port })
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.transport().name())?;
        match self {
            Address::Memory(name) => f.write_str(name),
            Address::Shm(path) | Address::Unix(path) => write!(f, "{}", path.display()),
            Address::Udp(endpoint) | Address::Tcp(endpoint) | Address::Tls(endpoint) => endpoint.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_they_print() {
        for text in [
            "memory:echo",
            "memory:a:b",
            "shm:/run/echo.sock",
            "unix:relative.sock",
            "udp:localhost:7000",
            "tcp:127.0.0.1:0",
            "tcp:[::1]:65535",
            "tls:example.org:7000",
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), text);
        }
        for text in ["tcp:7000", "tcp::7000"] {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()), Ok("tcp:127.0.0.1:7000".into()));
        }
        let resolved = Endpoint { host: "::1".into(), port: 9 }.resolve().expect("a number");
        assert_eq!(Endpoint::from(resolved).to_string(), "[::1]:9");
    }

    #[test]
    fn what_is_no_address_says_what_would_be() {
        for (text, says) in [
            ("", "no address"),
            ("echo", "write memory:NAME"),
            ("http://x", "no address"),
            ("memory:", "lacks its name"),
            ("unix:", "lacks its path"),
            ("tcp:", "lacks its port"),
            ("tcp:host:", "no port"),
            ("tcp:host:65536", "no port"),
            ("udp:host:+1", "no port"),
            ("tcp:::1:7", "brackets"),
            ("tcp:[::1:7", "brackets"),
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let long = format!("unix:/{}", "x".repeat(200));
        assert_eq!(long.parse::<Address>(), Err(AddressError::LongPath(201)));
    }
}
