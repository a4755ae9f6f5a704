//! Opening the sockets that a node listens on.

use crate::process::systemd;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, sockopt,
};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const PORT: &str = "another port with -p";
const UDP_PORT: &str = "another port with -U";
const PATH: &str = "another path with -s or --shm";

/// A socket that could not be opened, and where.
#[derive(Debug)]
pub struct ListenError {
    place: String,
    /// How another place is chosen.
    choose: &'static str,
    source: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.place, self.source)?;
        match self.source.kind() {
            io::ErrorKind::AddrInUse => {
                write!(f, "; another program has it: choose {}, or stop that program", self.choose)
            }
            io::ErrorKind::AlreadyExists => {
                write!(f, ", and stays as it is: remove it, or choose {}", self.choose)
            }
            io::ErrorKind::AddrNotAvailable => {
                write!(f, "; this machine has no such address: see `ip address`")
            }
            io::ErrorKind::PermissionDenied => {
                write!(f, "; ports below 1024 and foreign directories need privileges")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ListenError {}

/// A TCP listener on `address`, and the address that was bound (a port of 0 becomes a real one): the service manager's, if it opened one there.
///
/// # Errors
/// With the address and what to do.
pub fn tcp(address: SocketAddr, backlog: i32) -> Result<(OwnedFd, SocketAddr), ListenError> {
    let open = || -> io::Result<(OwnedFd, SocketAddr)> {
        if let Some(listener) = systemd::tcp_listener(address)? {
            return Ok((listener.into(), address));
        }
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        bind(&socket, &address)?;
        listen(&socket, backlog)?;
        let bound = std::net::TcpListener::from(socket);
        let address = bound.local_addr()?;
        Ok((bound.into(), address))
    };
    open().map_err(|source| ListenError { place: address.to_string(), choose: PORT, source })
}

/// A UDP socket on `address`, and the address that was bound.
///
/// # Errors
/// With the address and what to do.
pub fn udp(address: SocketAddr) -> Result<(OwnedFd, SocketAddr), ListenError> {
    let open = || -> io::Result<(OwnedFd, SocketAddr)> {
        let socket = std::net::UdpSocket::bind(address)?;
        let bound = socket.local_addr()?;
        Ok((socket.into(), bound))
    };
    open().map_err(|source| ListenError { place: format!("UDP {address}"), choose: UDP_PORT, source })
}

/// A Unix stream listener; it removes its path when dropped, if it made it.
pub struct UnixListener {
    /// The socket.
    pub socket: OwnedFd,
    /// None: it is the service manager's.
    path: Option<PathBuf>,
}

impl Drop for UnixListener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Somebody may have removed or replaced it already; then there is nothing of ours to remove.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A Unix stream listener at `path` with access `mask` (octal, as memcached's -a). A socket left by a server that died is
/// replaced; one that answers is not.
///
/// # Errors
/// With the path and what to do.
pub fn unix(path: &Path, mask: u32, backlog: i32) -> Result<UnixListener, ListenError> {
    let open = || -> io::Result<UnixListener> {
        if let Some(socket) = systemd::unix_listener(path)? {
            return Ok(UnixListener { socket, path: None });
        }
        remove_stale(path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let listener = UnixListener { socket, path: Some(path.to_path_buf()) };
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mask))?;
        listen(&listener.socket, backlog)?;
        Ok(listener)
    };
    open().map_err(|source| ListenError { place: path.display().to_string(), choose: PATH, source })
}

fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
            Err(_) => std::fs::remove_file(path),
        },
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket")),
        // Nothing there, or bind says what is wrong.
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_taken_port_says_what_to_do() {
        let loopback = "127.0.0.1:0".parse().expect("an address");
        let (_held, address) = tcp(loopback, 8).expect("a free port");
        assert_ne!(address.port(), 0);
        let error = tcp(address, 8).expect_err("taken").to_string();
        assert!(error.contains("choose another port with -p"), "{error}");
    }

    #[test]
    fn a_dead_servers_socket_is_replaced_and_a_live_ones_is_not() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("s");
        let first = unix(&path, 0o700, 8).expect("a fresh path");
        let error = unix(&path, 0o700, 8).err().expect("in use").to_string();
        assert!(error.contains("another program has it"), "{error}");
        // A server that was killed leaves its path behind.
        let copy = path.with_extension("dead");
        std::fs::rename(&path, &copy).expect("same directory");
        drop(first);
        let replaced = unix(&copy, 0o700, 8).expect("a stale socket is replaced");
        drop(replaced);
        assert!(!copy.exists());
        std::fs::write(&copy, "precious").expect("a file");
        let error = unix(&copy, 0o700, 8).err().expect("a file is there").to_string();
        assert!(
            error.contains("no socket, and stays as it is: remove it, or choose another path with -s"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&copy).expect("still there"), "precious");
    }
}
