//! Connections that watch: the lines that wait for each are written as far as it takes them, and what it sends is not looked at.

use super::{Edge, live};
use crate::kv::connection::{Connection, Wire};
use crate::kv::stream::Piece;
use crate::kv::system::System;
use crate::kv::watchers::Watchers;
use crate::memcached::accept::Inbox;
use crate::memcached::socket::Interest;
use base::closing::Reason;
use protocol::memcache::Line;
use protocol::memcache::watch::Streams;
use std::fmt::Write as _;
use std::sync::Arc;

/// What a client that wants to watch is told; it does from now on if that is OK. Rings and datagrams carry an answer to a question and nothing else.
pub(super) fn begin(
    connection: &mut Connection,
    streams: Streams,
    watchers: &Watchers,
    inbox: &Arc<Inbox>,
) -> Line {
    if !watchers.plan().is_allowed || !matches!(connection.wire, Wire::Stream(_)) {
        return Line::WatchRefused;
    }
    let Some(watching) = watchers.enter(streams, inbox) else { return Line::WatchersTooMany };
    connection.watching = Some(watching);
    connection.entry.iter().for_each(|entry| entry.set_watching());
    Line::Ok
}

/// Tells who watches connections that one has come, or ended for this reason.
pub(super) fn tell(watchers: &Watchers, connection: &Connection, ended: Option<&Reason>) {
    if !watchers.streams().has_any(Streams::CONNEVENTS) {
        return;
    }
    let Some((address, port)) = connection.entry.as_ref().map(|entry| entry.client()) else { return };
    let transport = if port == 0 { "local" } else { "tcp" };
    let reason = ended.map(|why| match why {
        Reason::Client => "normal",
        Reason::Idle => "idle_timeout",
        Reason::Drain => "shutdown",
        _ => "error",
    });
    watchers.say(Streams::CONNEVENTS, |line| {
        let what = if reason.is_some() { "conn_close" } else { "conn_new" };
        // Writing to a string does not fail.
        let _ = write!(line, "type={what} rip={address} rport={port} transport={transport}");
        let _ = reason.map_or(Ok(()), |reason| write!(line, " reason={reason}"));
        let _ = write!(line, " cfd={}", connection.number());
    });
}

impl<Y: System> Edge<Y> {
    /// Shows all that watch here what waits for them.
    pub(super) fn show_all_lines(&mut self) {
        let mut all = std::mem::take(&mut self.watching);
        all.sort_unstable();
        all.dedup();
        let watches = |edge: &Edge<Y>, id: u32| {
            edge.connections[id as usize].as_ref().is_some_and(|connection| connection.watching.is_some())
        };
        all.retain(|&id| watches(self, id));
        for &id in &all {
            if !live(&mut self.connections, id).runnable {
                self.settle(id);
            }
        }
        all.append(&mut self.watching);
        self.watching = all;
    }

    /// Writes what waits for a connection that watches and has taken all before, and waits for more of it.
    pub(super) fn show_lines(&mut self, id: u32) {
        let connection = live(&mut self.connections, id);
        let read = connection.input.bytes().len();
        connection.input.consume(read);
        connection.input.release(&mut self.pool);
        let mut lines = Vec::new();
        connection.watching.iter().for_each(|watching| watching.take(&mut lines));
        let (Wire::Stream(stream), false) = (&mut connection.wire, lines.is_empty()) else {
            return match connection.has_said_all {
                true => self.close(id),
                false => self.watch(id, Interest::Read),
            };
        };
        match stream.write(&[Piece::Bytes(&lines)], &self.buffered) {
            Ok(bytes) => {
                self.shared.net.writes.add(u64::from(bytes > 0));
                self.shared.net.bytes_written.add(bytes as u64);
                // Lines that come from now on wake this edge.
                let interest = if stream.is_stuck() { Interest::Write } else { Interest::Read };
                self.watch(id, interest);
            }
            Err(_) => self.close_for(id, Reason::Gone),
        }
    }
}
