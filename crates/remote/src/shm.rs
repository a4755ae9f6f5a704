//! Works on the same machine: whoever rings does them itself, in memory that both processes map. No thread of the owner has a part in it.
//!
//! ```text
//!  owner: Listener ── thread "regions" ── hands descriptors over ──┐
//!  peer:  Queue ── open ──────── Unix socket ──────────────────────┘
//!               └─ ring ──▶ the mapped region
//! ```
//! The socket stays: its end says that the owner is gone, which a queue looks at once in [`LOOK`]. What it did until then was done to memory that nobody has
//! any more. An owner that ends in order revokes what it lent.
//!
//! Over the socket: `name length u8 │ access u8 │ name`, answered by `0 for yes │ key u64`, with the descriptor. Regions in files are not lent this way.
//!
//! Bounds: [`CONNECTIONS_MAX`] connections of peers, each with a request under way.

use crate::queue::{Ledger, OpenError, PostError};
use crate::regions::{Access, Info, NAME_MAX, Regions, perform};
use crate::work::{Completion, Key, Outcome, Verb, Work};
use base::{Clock, Nanos};
use fabric::link::unix_socket::{UnixSocket, dial};
use ring::shm::handover::{receive_with, send_with};
use ring::shm::region::{Region, State};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::ioctl_fionbio;
use rustix::net::{RecvFlags, recv};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an owner that is gone may not be noticed.
pub const LOOK: Nanos = Nanos::from_millis(1);
/// Connections of peers at most.
pub const CONNECTIONS_MAX: usize = 1024;
/// How long an owner may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// After a connection that the system did not give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

const YES: u8 = 0;
const NOT_FOUND: u8 = 1;
const DENIED: u8 = 2;
const REPLY: usize = 9;

/// Hands regions to peers on this machine, until it is dropped.
pub struct Listener {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// At a path, for processes whom `permissions` of its file allow.
    ///
    /// # Errors
    /// `AddrInUse` when somebody listens there; else the system's.
    pub fn start(path: &Path, permissions: u32, regions: Arc<Regions>) -> io::Result<Listener> {
        let socket = UnixSocket::listen(path, permissions)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("regions".to_owned());
        let thread = Some(thread.spawn(move || serve(&socket, &told, &regions))?);
        Ok(Listener { stop, thread })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}

/// A peer's connection.
struct Connection {
    socket: OwnedFd,
    /// What has come of its request.
    asked: Vec<u8>,
}

impl Connection {
    /// Takes what has come and answers what is whole; false when it is over.
    fn turn(&mut self, regions: &Regions) -> bool {
        let mut bytes = [0; 2 + NAME_MAX];
        match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return false,
            Ok((_, len)) => self.asked.extend_from_slice(&bytes[..len]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
            Err(_) => return false,
        }
        while let Some((&len, rest)) = self.asked.split_first() {
            let Some((&access, name)) = rest.split_first() else { break };
            let Some(name) = name.get(..usize::from(len)) else { break };
            let Ok((reply, file)) = answer(regions, name, access) else { return false };
            if send_with(&self.socket, &reply, file.as_ref().map(AsFd::as_fd)).is_err() {
                return false;
            }
            self.asked.drain(..2 + usize::from(len));
        }
        self.asked.len() <= 2 + NAME_MAX
    }
}

/// The answer to a request, and what goes with it.
fn answer(regions: &Regions, name: &[u8], access: u8) -> io::Result<([u8; REPLY], Option<OwnedFd>)> {
    let mut reply = [0; REPLY];
    let lent = std::str::from_utf8(name).ok().and_then(|name| regions.find(name));
    let Some(lent) = lent else {
        reply[0] = NOT_FOUND;
        return Ok((reply, None));
    };
    let access = Access::of_bits(u32::from(access)).filter(|access| lent.access.has(*access));
    let Some(access) = access.filter(|_| !lent.region.is_file()) else {
        reply[0] = DENIED;
        return Ok((reply, None));
    };
    reply[0] = YES;
    reply[1..].copy_from_slice(&lent.info().key.0.to_le_bytes());
    Ok((reply, Some(lent.region.lend(access.changes())?)))
}

fn serve(socket: &UnixSocket, stop: &OwnedFd, regions: &Regions) {
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let mut fds = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        fds.extend(connections.iter().map(|connection| PollFd::new(&connection.socket, PollFlags::IN)));
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            return;
        }
        let mut at = 2..;
        connections.retain_mut(|connection| {
            let is_ready = at.next().is_some_and(|at| ready[at]);
            !is_ready || connection.turn(regions)
        });
        if ready[1] {
            match socket.accept() {
                // A peer that does not read its answers is closed, and not waited for.
                Ok(Some(socket))
                    if connections.len() < CONNECTIONS_MAX && ioctl_fionbio(&socket, true).is_ok() =>
                {
                    connections.push(Connection { socket, asked: Vec::new() });
                }
                Ok(_) => {}
                // It stays readable: without descriptors this would go round and round.
                Err(_) => std::thread::sleep(ACCEPT_PAUSE),
            }
        }
    }
}

/// A region that was opened.
struct Opened {
    key: Key,
    access: Access,
    region: Region,
}

/// A queue whose works its own thread does.
pub struct Queue {
    socket: UnixStream,
    regions: Vec<Opened>,
    /// Which of them the last work was of.
    last: usize,
    ledger: Ledger,
    clock: Clock,
    /// When the owner was seen last.
    seen: Nanos,
}

impl Queue {
    /// So many works deep, with so many bytes of local memory, to the owner that has a [`Listener`] there.
    ///
    /// # Errors
    /// Nobody listens there, or one is not let in.
    pub fn connect(path: &Path, depth: usize, local: usize) -> io::Result<Queue> {
        let socket = dial(path, TIMEOUT)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        let (clock, ledger) = (Clock::shared(), Ledger::new(depth, local));
        let seen = clock.now();
        Ok(Queue { socket, regions: Vec::new(), last: 0, ledger, clock, seen })
    }

    /// Whether the owner's end of the socket is open.
    fn is_alive(&self) -> bool {
        let mut byte = [0];
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(
            recv(&self.socket, &mut byte[..], peek),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
        )
    }

    /// Sees whether the owner is there, if it was not looked at for [`LOOK`].
    #[inline]
    fn look(&mut self) {
        let now = self.clock.now();
        if now.since(self.seen) < LOOK {
            return;
        }
        self.seen = now;
        if !self.is_alive() && !self.ledger.is_broken() {
            self.ledger.lose();
        }
    }

    /// Which of the regions that were opened.
    #[inline]
    fn find(&mut self, key: Key) -> Option<usize> {
        if self.regions.get(self.last).is_none_or(|opened| opened.key != key) {
            self.last = self.regions.iter().position(|opened| opened.key == key)?;
        }
        Some(self.last)
    }

    #[inline]
    fn perform(&mut self, work: Work) -> Outcome {
        let Some(at) = self.find(work.remote.key) else { return Outcome::Denied };
        let Queue { regions, ledger, .. } = self;
        let Opened { access, region, .. } = &regions[at];
        let is_open = || region.state() == State::Open;
        // What is read is judged afterwards: what was there when it was revoked may be gone.
        if !access.has(Access::of_verb(work.verb)) || (work.verb != Verb::Read && !is_open()) {
            return Outcome::Denied;
        }
        match perform(region, work.verb, work.remote.offset, ledger.local_mut(work.local)) {
            Outcome::Done if is_open() => Outcome::Done,
            _ => Outcome::Denied,
        }
    }
}

impl crate::queue::Queue for Queue {
    fn open(&mut self, name: &str, access: Access) -> Result<Info, OpenError> {
        let gone = |error: io::Error| OpenError::Unreachable(error.to_string());
        let len = u8::try_from(name.len()).map_err(|_| OpenError::NotFound)?;
        let asked = [&[len, access.bits()], name.as_bytes()].concat();
        send_with(&self.socket, &asked, None).map_err(gone)?;
        let mut reply = [0; REPLY];
        let (mut got, file) = receive_with(&self.socket, &mut reply).map_err(gone)?;
        while (1..REPLY).contains(&got) {
            match receive_with(&self.socket, &mut reply[got..]).map_err(gone)? {
                (0, _) => got = 0,
                (more, _) => got += more,
            }
        }
        let [kind, key @ ..] = reply;
        let file = match (got, kind, file) {
            (REPLY, YES, Some(file)) => file,
            (REPLY, NOT_FOUND, _) => return Err(OpenError::NotFound),
            (REPLY, DENIED, _) => return Err(OpenError::Denied),
            _ => return Err(OpenError::Unreachable("it ended the connection".to_owned())),
        };
        let region = Region::attach(file, access.changes());
        let region = region.map_err(|error| OpenError::Unreachable(error.to_string()))?;
        let key = Key(u64::from_le_bytes(key));
        let info = Info { key, len: region.len() as u64, is_persistent: false };
        self.regions.retain(|opened| opened.key != key);
        self.regions.push(Opened { key, access, region });
        Ok(info)
    }

    fn local_len(&self) -> usize {
        self.ledger.local_len()
    }

    #[inline]
    fn put(&mut self, at: u32, bytes: &[u8]) {
        self.ledger.put(at, bytes);
    }

    #[inline]
    fn take(&self, at: u32, bytes: &mut [u8]) {
        self.ledger.take(at, bytes);
    }

    #[inline]
    fn post(&mut self, work: Work) -> Result<(), PostError> {
        self.ledger.post(work)?;
        if let Some(at) = self.find(work.remote.key) {
            self.regions[at].region.touch(work.remote.offset, work.local.len as usize);
        }
        Ok(())
    }

    #[inline]
    fn ring(&mut self) {
        self.look();
        while let Some(work) = self.ledger.begin() {
            let outcome = self.perform(work);
            self.ledger.end(outcome);
        }
    }

    #[inline]
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.look();
        self.ledger.poll(done)
    }
}
