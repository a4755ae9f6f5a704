//! Which connections there are, for `stats conns`: their addresses, whether their client reads, when they last said something.
//!
//! Who owns a connection enters it, says from time to time how it is, and takes it out. Nothing of it is on a request's way.
//!
//! Bounds: an entry for each connection and listener.

use base::Nanos;
use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, getsockname};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Bound;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Those of a server. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Mutex<BTreeMap<i32, Arc<Entry>>>>);

/// One of them.
#[derive(Debug)]
pub struct Entry {
    address: String,
    /// Where its client found us; of a listener nothing.
    listener: Option<String>,
    is_stuck: AtomicBool,
    is_watching: AtomicBool,
    heard: AtomicU64,
}

impl Entry {
    /// When its client last sent something, and whether it does not take its replies.
    pub fn set(&self, heard: Nanos, is_stuck: bool) {
        self.heard.store(heard.0, Ordering::Relaxed);
        self.is_stuck.store(is_stuck, Ordering::Relaxed);
    }

    /// From now on it is shown what happens.
    pub fn set_watching(&self) {
        self.is_watching.store(true, Ordering::Relaxed);
    }

    /// Its client's address and port, as memcached's log has them.
    pub fn client(&self) -> (String, u16) {
        let address = self.address.split_once(':').and_then(|(_, rest)| rest.parse::<SocketAddr>().ok());
        address.map_or_else(|| ("unix".to_owned(), 0), |address| (address.ip().to_string(), address.port()))
    }

    /// Its lines, as memcached has them.
    fn write(&self, number: i32, now: Nanos, text: &mut String) {
        let state = match &self.listener {
            None => "conn_listening",
            Some(_) if self.is_watching.load(Ordering::Relaxed) => "conn_watch",
            Some(_) if self.is_stuck.load(Ordering::Relaxed) => "conn_mwrite",
            Some(_) => "conn_read",
        };
        let seconds = now.since(Nanos(self.heard.load(Ordering::Relaxed))).0 / 1_000_000_000;
        // Writing to a string does not fail.
        let _ = write!(text, "STAT {number}:addr {}\r\n", self.address);
        if let Some(listener) = &self.listener {
            let _ = write!(text, "STAT {number}:listen_addr {listener}\r\n");
        }
        let _ =
            write!(text, "STAT {number}:state {state}\r\nSTAT {number}:secs_since_last_cmd {seconds}\r\n");
    }
}

impl Connections {
    /// Enters a connection whose socket this is; `kind` is its transport, as addresses begin with it.
    pub fn enter(&self, kind: &str, socket: BorrowedFd<'_>, now: Nanos) -> Arc<Entry> {
        let listener = named(kind, getsockname(socket).ok());
        let peer = getpeername(socket).ok().flatten();
        // A Unix socket's client has no name, and a UDP socket has no one client.
        let address = peer.map(|peer| named(kind, Some(peer))).filter(|name| !name.ends_with(':'));
        let address = address.unwrap_or_else(|| listener.clone());
        self.insert(socket.as_raw_fd(), address, Some(listener), now)
    }

    /// Enters a listener.
    pub fn enter_listener(&self, kind: &str, socket: BorrowedFd<'_>, now: Nanos) {
        self.insert(socket.as_raw_fd(), named(kind, getsockname(socket).ok()), None, now);
    }

    fn insert(&self, number: i32, address: String, listener: Option<String>, now: Nanos) -> Arc<Entry> {
        let (is_stuck, is_watching) = (AtomicBool::new(false), AtomicBool::new(false));
        let heard = AtomicU64::new(now.0);
        let entry = Arc::new(Entry { address, listener, is_stuck, is_watching, heard });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::clone(&entry));
        entry
    }

    /// Takes out the one whose socket this is.
    pub fn leave(&self, socket: BorrowedFd<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&socket.as_raw_fd());
    }

    /// Adds the lines of those behind number `from`, or of all, until there are so many bytes; the number of the last, if there are more.
    pub fn list(&self, from: Option<i32>, now: Nanos, bytes: usize, text: &mut String) -> Option<i32> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = None;
        for (&number, entry) in
            entries.range((from.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded))
        {
            if text.len() >= bytes {
                return last;
            }
            entry.write(number, now, text);
            last = Some(number);
        }
        None
    }
}

/// An address as memcached writes it: `tcp:127.0.0.1:11211`, `tcp6:[::1]:11211`, `unix:/run/m.sock`.
fn named(kind: &str, address: Option<SocketAddrAny>) -> String {
    let Some(address) = address else { return format!("{kind}:") };
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        let six = if address.is_ipv6() { "6" } else { "" };
        return format!("{kind}{six}:{address}");
    }
    let path = SocketAddrUnix::try_from(address).ok();
    let path = path.as_ref().and_then(|path| path.path_bytes()).unwrap_or_default();
    let kind = if kind == "tcp" { "unix" } else { kind };
    format!("{kind}:{}", String::from_utf8_lossy(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    #[test]
    fn each_is_listed_once_in_slices() {
        let connections = Connections::default();
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("it is bound");
        connections.enter_listener("tcp", listener.as_fd(), Nanos::ZERO);
        let clients: Vec<TcpStream> =
            (0..5).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        let now = Nanos::from_secs(7);
        let sockets: Vec<TcpStream> = clients.iter().map(|_| listener.accept().expect("it came").0).collect();
        let entries: Vec<_> =
            sockets.iter().map(|s| connections.enter("tcp", s.as_fd(), Nanos::ZERO)).collect();
        entries[0].set(Nanos::from_secs(4), true);
        let (mut text, mut from, mut slices) = (String::new(), None, 0);
        loop {
            let mut slice = String::new();
            from = connections.list(from, now, 200, &mut slice);
            text += &slice;
            slices += 1;
            if from.is_none() {
                break;
            }
        }
        assert!(slices > 1 && text.matches(":addr tcp:127.0.0.1:").count() == 6, "{slices} {text}");
        assert_eq!(text.matches(&format!(":listen_addr tcp:{address}\r\n")).count(), 5, "{text}");
        let number = sockets[0].as_raw_fd();
        let peer = clients[0].local_addr().expect("it is bound");
        for line in [
            format!("STAT {}:state conn_listening\r\n", listener.as_raw_fd()),
            format!("STAT {number}:addr tcp:{peer}\r\n"),
            format!("STAT {number}:state conn_mwrite\r\nSTAT {number}:secs_since_last_cmd 3\r\n"),
            format!("STAT {}:state conn_read\r\nSTAT {0}:secs_since_last_cmd 7\r\n", sockets[1].as_raw_fd()),
        ] {
            assert!(text.contains(&line), "{line} is not in {text}");
        }
        sockets.iter().for_each(|socket| connections.leave(socket.as_fd()));
        let mut text = String::new();
        assert_eq!(connections.list(None, now, 1 << 20, &mut text), None);
        assert_eq!(text.matches(":addr ").count(), 1, "the listener: {text}");
    }
}
