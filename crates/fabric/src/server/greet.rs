//! Links that were accepted and have not said Hello: the server's half of the handshake.
//!
//! What is refused is told why and closed; a client that begins as one of HTTP/2 is handed over to whoever speaks that, if somebody does. A Hello with a
//! token makes the link the second one of that connection (see [`switch`](crate::connection::switch)); while the connection is still leaving its old
//! link, the Hello waits.
//!
//! Bounds: as many links as connections may still be made, each for [`Options::handshake_limit`](super::Options::handshake_limit) and with one
//! frame of [`HELLO_MAX`] bytes.
//!
//! A socket without a Hello is watched by the set of [`calm`](super::calm), and read when something came: hundreds of links that say nothing cost a turn
//! nothing. Rings and sessions of a shared socket are looked at in every turn, which is no system call.

use super::calm::Calm;
use super::connection::Connection;
use super::{Core, Options, Server};
use crate::connection::handshake::{Hello, Token, VERSION, Welcome};
use crate::connection::switch::{Links, Side};
use crate::frame::{Frame, Header, Kind};
use crate::link::{Address, Frames, HTTP2, Link, Lost, Transport};
use crate::status::{Code, Status};
use base::closing::{self, Reason};
use base::units::Nanos;
use rustix::fd::BorrowedFd;

/// Bytes of a frame from a link that has not said Hello: all that it can have buffered.
const HELLO_MAX: usize = 4 << 10;
/// To make room for a new connection, one without calls that was silent for as long is closed.
const EVICT_AFTER: Nanos = Nanos::from_secs(5);
/// Clients taken from a listener in one look.
const ACCEPT_MOST: usize = 16;

/// A link without a Hello.
pub(super) struct Greeting {
    link: Box<dyn Link>,
    since: Nanos,
    /// One that waits until its connection has left its old link.
    hello: Option<Hello>,
    /// Told apart in the set.
    number: u64,
    /// It is in the set.
    is_watched: bool,
    /// The set says that something came, or nobody has looked yet.
    is_called: bool,
}

/// What to do with a link.
enum Verdict {
    Wait,
    Drop,
    Refuse(Status),
    Join(Token),
    Open(Hello),
    /// It speaks HTTP/2.
    HandOver,
}

impl Greeting {
    fn new(mut link: Box<dyn Link>, number: u64, now: Nanos) -> Greeting {
        link.set_max_frame(HELLO_MAX);
        Greeting { link, since: now, hello: None, number, is_watched: false, is_called: true }
    }

    pub(super) fn link(&mut self) -> &mut dyn Link {
        &mut *self.link
    }

    /// Whether the set wakes whoever waits for it.
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Has the set watch it, if its descriptor is its own.
    fn watch(&mut self, calm: &mut Calm) {
        let is_socket = !self.link.transport().is_ring() && self.link.shared_socket().is_none();
        self.is_watched = is_socket && calm.add_greeting(self.link.descriptor(), self.number).is_ok();
    }

    /// Out of the set, before the link is closed or somebody else's.
    pub(super) fn leave(&mut self, calm: &mut Calm) {
        if std::mem::take(&mut self.is_watched) {
            calm.remove(self.link.descriptor());
        }
    }

    /// When it must be looked at next, unless the set says so before.
    fn look_at(&self, core: &Core) -> Nanos {
        let rests = self.is_watched && !self.is_called && self.hello.is_none();
        if rests { self.next_deadline(core) } else { Nanos::ZERO }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.link.descriptor()
    }

    /// When it has waited too long, or time asks for something.
    pub(super) fn next_deadline(&self, core: &Core) -> Nanos {
        self.link.next_deadline().min(self.since.plus(core.options.handshake_limit))
    }

    /// Looks for the Hello.
    fn poll(&mut self, core: &Core, now: Nanos) -> Verdict {
        if self.link.next_deadline() <= now {
            self.link.flush(now);
        }
        self.is_called = false;
        if self.hello.is_none() {
            let mut frames = Frames::default();
            match self.link.recv(now, 1, &mut frames) {
                Ok(_) => {}
                Err(Lost::Violation) if core.http2.is_some() && self.is_http2() => return Verdict::HandOver,
                Err(Lost::Violation) => return Verdict::Refuse(not_ours()),
                Err(_) => return Verdict::Drop,
            }
            if let Some(bytes) = frames.pop() {
                match read(bytes) {
                    Ok(hello) => self.hello = Some(hello),
                    Err(status) => return Verdict::Refuse(status),
                }
            }
        }
        match &self.hello {
            None if now >= self.since.plus(core.options.handshake_limit) => {
                Verdict::Refuse(Status::new(Code::DeadlineExceeded, "no Hello came in time"))
            }
            None => Verdict::Wait,
            Some(hello) => hello.join.map_or_else(|| Verdict::Open(hello.clone()), Verdict::Join),
        }
    }

    /// Whether its client has come over TCP and begun as one of HTTP/2.
    fn is_http2(&self) -> bool {
        matches!(self.link.transport(), Transport::Tcp | Transport::Tls)
            && self.link.foreign_bytes().starts_with(HTTP2)
    }

    /// The link of a client that said Hello: it carries any frame that may be answered.
    fn into_link(mut self, max_frame: usize) -> Box<dyn Link> {
        self.link.set_max_frame(max_frame);
        self.link
    }

    /// Tells the client why not, and ends the link.
    fn refuse(mut self, status: &Status, now: Nanos) {
        let header = Header { method: status.code() as u16, ..Header::new(Kind::Refuse, 0) };
        let _ = self.link.try_send(&header.emit(), status.message().as_bytes());
        self.link.flush(now);
        let reason = Reason::Refused(status.message().to_owned());
        closing::log("rpc", || format!("a new link ({})", self.link.transport().name()), &reason);
    }
}

#[cold]
fn not_ours() -> Status {
    Status::new(Code::FailedPrecondition, "the first frame is no Hello of this protocol")
}

fn read(bytes: &[u8]) -> Result<Hello, Status> {
    let frame = Frame::parse(bytes).map_err(|_| not_ours())?;
    if frame.header.kind != Kind::Hello {
        return Err(not_ours());
    }
    // The version comes first whatever the rest looks like.
    match frame.body.first_chunk().map(|version| u16::from_le_bytes(*version)) {
        Some(VERSION) => Ok(Hello::parse(frame.body)?),
        Some(theirs) => Err(Status::new(
            Code::FailedPrecondition,
            format!("the client speaks version {theirs}, this server {VERSION}: update the older one"),
        )),
        None => Err(not_ours()),
    }
}

impl Server {
    /// Where it listens; for addresses that leave something to the system, what that chose.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.listeners.iter().map(|listener| listener.address())
    }

    /// Takes the clients that wait at a listener. Its error is one client's, or passes; it is asked again.
    pub(super) fn accept_clients(&mut self, place: usize, now: Nanos) {
        for _ in 0..ACCEPT_MOST {
            let Ok(Some(link)) = self.listeners[place].accept(now) else { break };
            self.accept(link, now);
        }
    }

    /// Takes a link whose client will say Hello. At [`Options::max_connections`](super::Options::max_connections) whoever has the least to lose
    /// makes room: the oldest link without a Hello, or else the connection without calls that was silent for longest, if that is a while. So
    /// nobody keeps others out by doing nothing. If there is none, the new one is refused.
    pub fn accept(&mut self, link: Box<dyn Link>, now: Nanos) {
        self.greeted += 1;
        let mut greeting = Greeting::new(link, self.greeted, now);
        if self.core.draining {
            greeting.refuse(&Status::new(Code::Unavailable, "the server is shutting down"), now);
        } else if self.is_full() && !self.make_room(now) {
            greeting
                .refuse(&Status::new(Code::ResourceExhausted, "the server has no room for connections"), now);
        } else {
            greeting.watch(&mut self.calm);
            self.greetings.push(greeting);
            self.greet_at = Nanos::ZERO;
        }
    }

    /// The set says that something came for a link without a Hello.
    pub(super) fn call_greeting(&mut self, number: u64) {
        if let Some(greeting) = self.greetings.iter_mut().find(|greeting| greeting.number == number) {
            greeting.is_called = true;
            self.greet_at = Nanos::ZERO;
        }
    }

    fn is_full(&self) -> bool {
        self.greetings.len() + self.connections.len() >= self.core.options.max_connections
    }

    /// Ends a link or a connection that nobody will miss; whether there was one.
    fn make_room(&mut self, now: Nanos) -> bool {
        let first = self.greetings.iter().enumerate().min_by_key(|(_, greeting)| greeting.since);
        if let Some((oldest, greeting)) = first
            && now >= greeting.since.plus(EVICT_AFTER)
        {
            self.greetings.swap_remove(oldest).leave(&mut self.calm);
            self.core.refused += 1;
            return true;
        }
        let silent = self.connections.iter().filter(|connection| connection.silent_since().is_some());
        let longest = silent.min_by_key(|connection| connection.silent_since());
        let number =
            longest.filter(|longest| now >= longest.heard.plus(EVICT_AFTER)).map(|longest| longest.number);
        number.is_some_and(|number| self.evict(number, now))
    }

    /// Answers the Hellos that came; how many. A server with work reads sockets only when it `looks`, as it does with calm
    /// connections.
    pub(super) fn greet(&mut self, looks: bool, now: Nanos) -> usize {
        let reads_sockets = looks || self.calm.is_idle(now);
        let (mut at, mut done) = (0, 0);
        while let Some(greeting) = self.greetings.get_mut(at) {
            let is_due = greeting.look_at(&self.core) <= now;
            let may_read = reads_sockets || greeting.is_called || greeting.is_watched;
            if !is_due || !may_read && !greeting.link.transport().is_ring() {
                at += 1;
                continue;
            }
            let verdict = greeting.poll(&self.core, now);
            if matches!(verdict, Verdict::Wait) || self.must_wait(&verdict, at, now) {
                at += 1;
                continue;
            }
            done += 1;
            let mut greeting = self.greetings.swap_remove(at);
            greeting.leave(&mut self.calm);
            match verdict {
                Verdict::Open(hello) => self.open(greeting, &hello, now),
                Verdict::Join(token) => self.join(greeting, &token, now),
                Verdict::Refuse(status) => {
                    self.core.refused += 1;
                    greeting.refuse(&status, now);
                }
                Verdict::HandOver => {
                    if let (Some(hand_over), Some(foreign)) =
                        (&mut self.core.http2, greeting.link.into_foreign())
                    {
                        hand_over(foreign);
                    }
                }
                Verdict::Drop | Verdict::Wait => {}
            }
        }
        let next = self.greetings.iter().map(|greeting| greeting.look_at(&self.core));
        self.greet_at = next.fold(Nanos::MAX, Nanos::min);
        done
    }

    /// Whether the link's connection is still leaving another one.
    fn must_wait(&self, verdict: &Verdict, at: usize, now: Nanos) -> bool {
        let Verdict::Join(token) = verdict else { return false };
        let in_time = now < self.greetings[at].since.plus(self.core.options.handshake_limit);
        let connection = self.connections.iter().find(|connection| connection.token == *token);
        in_time && connection.is_some_and(|connection| connection.links.is_switching())
    }

    fn open(&mut self, greeting: Greeting, hello: &Hello, now: Nanos) {
        if let Some(status) = self.mismatch(hello) {
            self.core.refused += 1;
            return greeting.refuse(&status, now);
        }
        let Options { max_calls, window, .. } = self.core.options;
        let calls = if hello.calls == 0 { max_calls } else { hello.calls.min(max_calls) };
        let mut token = Token::default();
        if rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty()) != Ok(token.len()) {
            return greeting.refuse(&Status::new(Code::Unavailable, "the system gives no randomness"), now);
        }
        let number = self.core.next_number;
        self.core.next_number += 1;
        // The Hello came.
        let peer = self.core.gate.as_ref().and_then(|gate| gate.peer_of(&*greeting.link));
        let links = Links::new(greeting.into_link(self.core.options.max_frame()), 0, 1);
        let mut connection = Connection::new(number, links, token, calls, window, now);
        connection.peer = peer;
        connection.traffic = self.core.watch_connection(number, connection.transport());
        let body = self.welcome(&connection).emit();
        connection.send(&Header::new(Kind::Welcome, 0).emit(), &body, now);
        connection.flush(now);
        self.connections.push(connection);
    }

    /// Why a client that asks for the same schemas cannot be served.
    fn mismatch(&self, hello: &Hello) -> Option<Status> {
        if !hello.exact {
            return None;
        }
        let served = self.core.router.services();
        let differs = |name: &str, hash: u64| {
            let hash_here = served.iter().find(|service| service.name == name).map(|service| service.hash);
            hash_here.is_none_or(|here| hash != 0 && here != hash)
        };
        let (name, _) = hello.services.iter().find(|(name, hash)| differs(name, *hash))?;
        let text = if served.iter().any(|service| service.name == *name) {
            format!("the server's schema of {name} is another one")
        } else {
            format!("{name} is not served here")
        };
        Some(Status::new(Code::FailedPrecondition, text))
    }

    fn welcome(&self, connection: &Connection) -> Welcome {
        Welcome {
            version: VERSION,
            token: connection.token,
            connection: connection.number,
            calls: connection.max_calls as u32,
            window: connection.window,
            services: self.core.router.services().to_vec(),
        }
    }

    fn join(&mut self, mut greeting: Greeting, token: &Token, now: Nanos) {
        let found = self.connections.iter().position(|connection| connection.token == *token);
        let Some(at) = found.filter(|&at| !self.connections[at].links.is_switching()) else {
            self.core.refused += 1;
            return greeting
                .refuse(&Status::new(Code::NotFound, "there is no connection of this token"), now);
        };
        let body = self.welcome(&self.connections[at]).emit();
        if greeting.link.try_send(&Header::new(Kind::Welcome, 0).emit(), &body).is_err() {
            return;
        }
        let connection = &mut self.connections[at];
        let peer = self.core.gate.as_ref().and_then(|gate| gate.peer_of(&*greeting.link));
        match (&mut connection.peer, peer) {
            (Some(before), Some(peer)) => before.meet(&peer),
            (before, peer) => *before = before.take().or(peer),
        }
        connection.take_up(&mut self.calm, now);
        connection.links.replace(greeting.into_link(self.core.options.max_frame()), 1, 1);
        connection.switch_traffic(&mut self.core);
        // What was received and not taken yet came over what is the old link now.
        connection.kept.side = Side::Old;
        connection.dirty = true;
        connection.flush(now);
    }
}
