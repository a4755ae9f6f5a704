//! The connection manager: what is connected, closing, and shutting down without losing a call.
//!
//! Draining: Goodbye, and a Ping behind it. When the Pong is there, the client has seen the Goodbye and starts nothing more; what it
//! started before is refused as UNAVAILABLE (it did not run). When all that was open is answered, the connection ends.

use super::connection::{Connection, Counters, End, Phase};
use super::{Server, find};
use crate::frame::{Header, Kind};
use crate::link::{Lost, Transport};
use crate::status::Code;
use base::closing::{self, Reason};
use base::units::Nanos;

/// A connection, as lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Its number; the first of a server is 1.
    pub number: u64,
    /// What it goes over now.
    pub transport: Transport,
    /// How long it is there.
    pub age: Nanos,
    /// Calls that are deferred, with workers, or streaming.
    pub open_calls: usize,
    /// It has no room for what it is owed.
    pub is_blocked: bool,
    /// It goes on over another link, and the one before is not empty yet.
    pub is_switching: bool,
    /// It is silent, and watched together with others; see `calm`.
    pub is_calm: bool,
    /// What it did.
    pub counters: Counters,
}

impl Server {
    /// All connections, oldest first.
    pub fn connections(&self, now: Nanos) -> impl Iterator<Item = ConnectionInfo> {
        self.connections.iter().map(move |connection| ConnectionInfo {
            number: connection.number,
            transport: connection.transport(),
            age: now.since(connection.opened),
            open_calls: connection.calls.len(),
            is_blocked: connection.is_blocked(),
            is_switching: connection.links.is_switching(),
            is_calm: connection.is_calm(),
            counters: connection.counters,
        })
    }

    /// What all connections did, those that ended included.
    pub fn totals(&self) -> Counters {
        let mut totals = self.core.ended;
        self.connections.iter().for_each(|connection| totals.add(&connection.counters));
        totals
    }

    /// Links that were refused.
    pub fn refused(&self) -> u64 {
        self.core.refused
    }

    /// Ends a connection; false if there is none of that number. Its calls are lost to its client.
    pub fn close(&mut self, number: u64, now: Nanos) -> bool {
        let Some(connection) = find(&mut self.connections, number) else { return false };
        connection.end(End::Closed);
        self.bury(now);
        true
    }

    /// Ends a connection that makes room for another.
    pub(super) fn evict(&mut self, number: u64, now: Nanos) -> bool {
        let Some(connection) = find(&mut self.connections, number) else { return false };
        connection.end(End::Idle);
        self.bury(now);
        true
    }

    /// Takes nothing new, answers what is open, and then ends all connections; [`Server::is_drained`] says when.
    pub fn drain(&mut self, now: Nanos) {
        self.core.draining = true;
        self.calm.remove_listeners(&self.listeners);
        self.listeners.clear();
        self.greetings.drain(..).for_each(|mut greeting| greeting.leave(&mut self.calm));
        for connection in &mut self.connections {
            // Sessions over UDP are calm beside their listener alone.
            connection.take_up(&mut self.calm, now);
            connection.drain(now);
        }
    }

    /// Whether a drain has ended.
    pub fn is_drained(&self) -> bool {
        self.core.draining && self.connections.is_empty()
    }

    /// Ends the connections that are over.
    #[cold]
    pub(super) fn bury(&mut self, now: Nanos) {
        let Server { core, connections, calm, .. } = self;
        for mut connection in connections.extract_if(.., |connection| connection.over.is_some()) {
            connection.take_up(calm, now);
            connection.abandon_calls(core);
            if let Some(places) = &mut core.places {
                places.closed(connection.number);
            }
            connection.say_why(now);
            connection.log_why();
            connection.watch_traffic();
            core.ended.add(&connection.counters);
        }
    }
}

impl Connection {
    fn drain(&mut self, now: Nanos) {
        if self.phase == Phase::Open {
            self.phase = Phase::Draining { since: now, answered: false };
            self.send_header(Header::new(Kind::Goodbye, 0), now);
            self.send_header(Header::new(Kind::Ping, 0), now);
        }
    }

    /// For operators.
    fn log_why(&self) {
        let Some(end) = self.over else { return };
        let reason = match end {
            End::Lost(Lost::Closed) => Reason::Client,
            End::Lost(Lost::Dead | Lost::Restarted) => Reason::Gone,
            End::Lost(Lost::Violation) => Reason::Protocol("of its transport"),
            End::Lost(Lost::NoRoom) => Reason::Limit("link.buffers, or too long for one frame"),
            End::Violation(what) => Reason::Protocol(what),
            End::Stuck => Reason::SlowReader,
            End::Idle => Reason::Idle,
            End::Closed | End::Drained => Reason::Drain,
        };
        // A link does not say who is at its other end.
        closing::log("rpc", || format!("connection {} ({})", self.number, self.transport().name()), &reason);
    }

    /// The last frame, when the client is still there.
    fn say_why(&mut self, now: Nanos) {
        let Some(end) = self.over else { return };
        let code = match end {
            End::Lost(_) => return,
            End::Violation(_) => Code::FailedPrecondition,
            End::Stuck => Code::ResourceExhausted,
            End::Idle | End::Closed | End::Drained => Code::Unavailable,
        };
        let header = Header { method: code as u16, ..Header::new(Kind::Refuse, 0) };
        // No room for it, or nobody there: the end of the link says enough.
        let _ = self.links.send(&header.emit(), end.to_string().as_bytes());
        self.links.flush(now);
    }
}
