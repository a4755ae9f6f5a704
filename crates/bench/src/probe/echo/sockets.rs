//! Connected pairs of sockets on this machine, ready to be measured.

use rustix::net::sockopt::set_tcp_nodelay;
use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// How two ends are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP over the loopback interface, `TCP_NODELAY` at both ends.
    Tcp,
    /// A Unix stream socket.
    Unix,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Transport::Tcp => "tcp",
            Transport::Unix => "unix",
        })
    }
}

/// The client's and the server's ends of some connections, in the same order.
#[derive(Debug)]
pub struct Pairs {
    /// The ends that ask.
    pub client: Vec<OwnedFd>,
    /// The ends that answer.
    pub server: Vec<OwnedFd>,
}

/// Connects `n` pairs; all ends are non-blocking where `nonblocking`.
///
/// # Errors
/// The system's: no loopback interface, or too few file descriptors.
pub fn connect(transport: Transport, n: usize, nonblocking: bool) -> io::Result<Pairs> {
    let mut pairs = Pairs { client: Vec::with_capacity(n), server: Vec::with_capacity(n) };
    let listener = match transport {
        Transport::Tcp => Some(TcpListener::bind("127.0.0.1:0")?),
        Transport::Unix => None,
    };
    for _ in 0..n {
        let (client, server): (OwnedFd, OwnedFd) = match &listener {
            Some(listener) => {
                let client = TcpStream::connect(listener.local_addr()?)?;
                let (server, _) = listener.accept()?;
                set_tcp_nodelay(&client, true)?;
                set_tcp_nodelay(&server, true)?;
                (client.into(), server.into())
            }
            None => {
                let (client, server) = UnixStream::pair()?;
                (client.into(), server.into())
            }
        };
        rustix::io::ioctl_fionbio(&client, nonblocking)?;
        rustix::io::ioctl_fionbio(&server, nonblocking)?;
        pairs.client.push(client);
        pairs.server.push(server);
    }
    Ok(pairs)
}
