//! Links that were accepted and have not said Hello: the server's half of the handshake.
//!
//! What is refused is told why and closed. A Hello with a token makes the link the second one of that connection (see
//! [`switch`](crate::connection::switch)); while the connection is still leaving its old link, the Hello waits.
//!
//! Bounds: as many links as connections may still be made, each for [`Options::handshake_limit`](super::Options::handshake_limit).

use super::connection::Connection;
use super::{Core, Options, Server};
use crate::connection::handshake::{Hello, Token, VERSION, Welcome};
use crate::connection::switch::{Links, Side};
use crate::frame::{Frame, Header, Kind};
use crate::link::{Address, Frames, Link, Lost};
use crate::status::{Code, Status};
use base::units::Nanos;
use rustix::fd::BorrowedFd;

/// Clients taken from a listener in one look.
const ACCEPT_MOST: usize = 16;

/// A link without a Hello.
pub(super) struct Greeting {
    link: Box<dyn Link>,
    since: Nanos,
    /// One that waits until its connection has left its old link.
    hello: Option<Hello>,
}

/// What to do with a link.
enum Verdict {
    Wait,
    Drop,
    Refuse(Status),
    Join(Token),
    Open(Hello),
}

impl Greeting {
    pub(super) fn new(link: Box<dyn Link>, now: Nanos) -> Greeting {
        Greeting { link, since: now, hello: None }
    }

    pub(super) fn link(&mut self) -> &mut dyn Link {
        &mut *self.link
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
        if self.hello.is_none() {
            let mut frames = Frames::default();
            match self.link.recv(now, 1, &mut frames) {
                Ok(_) => {}
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

    /// Tells the client why not, and ends the link.
    fn refuse(mut self, status: &Status, now: Nanos) {
        let header = Header { method: status.code() as u16, ..Header::new(Kind::Refuse, 0) };
        let _ = self.link.try_send(&header.emit(), status.message().as_bytes());
        self.link.flush(now);
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

    /// Takes a link whose client will say Hello. Beyond [`Options::max_connections`](super::Options::max_connections) it is refused.
    pub fn accept(&mut self, link: Box<dyn Link>, now: Nanos) {
        let greeting = Greeting::new(link, now);
        if self.core.draining {
            greeting.refuse(&Status::new(Code::Unavailable, "the server is shutting down"), now);
        } else if self.greetings.len() + self.connections.len() >= self.core.options.max_connections {
            greeting
                .refuse(&Status::new(Code::ResourceExhausted, "the server has no room for connections"), now);
        } else {
            self.greetings.push(greeting);
        }
    }

    /// Answers the Hellos that came; how many. A server with work reads sockets only when it `looks`, as it does with calm
    /// connections.
    pub(super) fn greet(&mut self, looks: bool, now: Nanos) -> usize {
        let reads_sockets = looks || self.calm.is_idle(now);
        let (mut at, mut done) = (0, 0);
        while let Some(greeting) = self.greetings.get_mut(at) {
            if !reads_sockets && !greeting.link.transport().is_ring() {
                at += 1;
                continue;
            }
            let verdict = greeting.poll(&self.core, now);
            if matches!(verdict, Verdict::Wait) || self.must_wait(&verdict, at, now) {
                at += 1;
                continue;
            }
            done += 1;
            let greeting = self.greetings.swap_remove(at);
            match verdict {
                Verdict::Open(hello) => self.open(greeting, &hello, now),
                Verdict::Join(token) => self.join(greeting, &token, now),
                Verdict::Refuse(status) => {
                    self.core.refused += 1;
                    greeting.refuse(&status, now);
                }
                Verdict::Drop | Verdict::Wait => {}
            }
        }
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
        let links = Links::new(greeting.link, 0, 1);
        let mut connection = Connection::new(number, links, token, calls, window, now);
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
        connection.take_up(&mut self.calm, now);
        connection.links.replace(greeting.link, 1, 1);
        connection.switch_traffic(&mut self.core);
        // What was received and not taken yet came over what is the old link now.
        connection.kept.side = Side::Old;
        connection.dirty = true;
        connection.flush(now);
    }
}
