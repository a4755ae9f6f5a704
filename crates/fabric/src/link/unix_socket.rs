//! A listening Unix socket and its file.
//!
//! A file that a dead server left is replaced; one behind which a server answers, or that is no socket, is not. The file has its
//! permissions before anybody can connect, and goes with the listener, unless another server has replaced it meanwhile.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
    sockopt,
};
use std::fs::symlink_metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const BACKLOG: i32 = 128;

/// A listening socket and its file.
#[derive(Debug)]
pub struct UnixSocket {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode: which file is ours.
    file: (u64, u64),
}

impl UnixSocket {
    /// Listens at `path`, for those whom `permissions` allow.
    ///
    /// # Errors
    /// `AddrInUse` when a server answers there; else the system's.
    pub fn listen(path: &Path, permissions: u32) -> io::Result<UnixSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The file that bind makes inherits this, less the umask; a chmod afterwards would come too late.
        fchmod(&socket, Mode::from_raw_mode(permissions))?;
        let name = SocketAddrUnix::new(path)?;
        match bind(&socket, &name) {
            Err(Errno::ADDRINUSE) if is_stale(path) => {
                std::fs::remove_file(path)?;
                bind(&socket, &name)?;
            }
            bound => bound?,
        }
        let file = identity(path)?;
        let listening = UnixSocket { socket, path: path.into(), file };
        listen(&listening.socket, BACKLOG)?;
        Ok(listening)
    }

    /// The next client's socket, blocking, if there is one. A client that left while it waited is nobody.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        match accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => Ok(Some(socket)),
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The user whose process connected this socket, or listens at it.
pub fn peer_user(socket: &OwnedFd) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(socket).ok().map(|peer| peer.uid.as_raw())
}

/// Connects to the socket at `path`, and waits at most `timeout` for a place among those that wait to be accepted.
///
/// # Errors
/// `WouldBlock` when there is none; else the system's.
pub fn dial(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Whether a socket lies there and nobody listens to it.
fn is_stale(path: &Path) -> bool {
    let is_socket = symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    #[test]
    fn a_dead_servers_file_is_replaced_and_a_live_ones_is_not() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("s");
        let first = UnixSocket::listen(&path, 0o600).expect("a fresh path");
        assert_eq!(symlink_metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        let error = UnixSocket::listen(&path, 0o600).expect_err("in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        // As if the first had been killed: its socket ends, its file stays.
        let moved = path.with_extension("moved");
        std::fs::rename(&path, &moved).expect("the same directory");
        drop(first);
        std::fs::rename(&moved, &path).expect("the same directory");
        let second = UnixSocket::listen(&path, 0o600).expect("a stale file is replaced");
        // A third that found the file gone is not robbed of its own by the second's end.
        std::fs::remove_file(&path).expect("a file");
        let third = UnixSocket::listen(&path, 0o600).expect("a free path");
        drop(second);
        assert!(path.exists());
        drop(third);
        assert!(!path.exists());
        std::fs::write(&path, "no socket").expect("written");
        let error = UnixSocket::listen(&path, 0o600).expect_err("not ours to remove");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        std::fs::remove_file(&path).expect("a file");
    }
}
