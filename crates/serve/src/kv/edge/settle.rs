//! What a connection waits for next, and its end.

use super::planted::Planted;
use super::{Edge, live, token, verbose, watch};
use crate::kv::connection::{Connection, Wire};
use crate::kv::registers::Id;
use crate::kv::system::System;
use crate::memcached::input::BufferLimit;
use crate::memcached::socket::{Interest, peer_of};
use base::Nanos;
use base::closing::{self, Reason};
use protocol::memcache::Line;

impl<Y: System> Edge<Y> {
    /// Decides what a connection waits for next. Call it whenever its input, spill or closing state changed.
    pub(super) fn settle(&mut self, id: u32) {
        let connection = live(&mut self.connections, id);
        if connection.broken {
            return self.close(id);
        }
        if connection.is_stuck() && !self.system.has(Planted::ReadsWhileStuck) {
            self.watch(id, Interest::Write);
            if self.buffered.is_over() {
                self.kick_slowest();
            }
            return;
        }
        if connection.closing && connection.late.is_empty() {
            return self.close(id);
        }
        if connection.watching.is_some() && connection.late.is_empty() && !connection.is_ready {
            return self.show_lines(id);
        }
        if connection.has_work() {
            connection.runnable = true;
            if connection.lags && self.system.has(Planted::LaggardsStarve) {
                return;
            }
            let queue = if connection.lags { &mut self.laggards } else { &mut self.runnable };
            return queue.push_back(id);
        }
        if !connection.late.is_empty() {
            return self.watch(id, Interest::Nothing);
        }
        if connection.has_said_all {
            return self.close(id);
        }
        connection.lags = connection.debt >= self.shared.registers.size(Id::NetPipeline);
        let is_short = self.system.has(Planted::DoesNotGrow) && !connection.input.is_empty();
        let room = if is_short { Ok(()) } else { connection.make_room(&mut self.pool) };
        match room {
            Ok(()) => self.watch(id, Interest::Read),
            Err(BufferLimit) => self.refuse(id),
        }
    }

    pub(super) fn watch(&mut self, id: u32, interest: Interest) {
        let connection = live(&mut self.connections, id);
        let token = token(id, connection.generation);
        // Only streams wait for room with epoll.
        let Wire::Stream(stream) = &mut connection.wire else { return };
        if std::mem::replace(&mut stream.interest, interest) == interest {
            return;
        }
        if stream.socket.watch(&self.epoll, token, interest, false).is_err() {
            self.close_for(id, Reason::Limit("the system watches no more sockets"));
        }
    }

    /// Says that there is no memory for the request that is arriving, and closes.
    pub(super) fn refuse(&mut self, id: u32) {
        self.shared.net.buffer_refusals.add(1);
        let connection = live(&mut self.connections, id);
        // Best effort: the connection closes whether or not the client hears why.
        if let Wire::Stream(stream) = &mut connection.wire {
            let _ = stream.socket.send(&[Line::OutOfMemoryReading.bytes()], &self.buffered);
        }
        self.close_for(id, Reason::Limit("net.buffer_limit"));
    }

    /// Closes the slowest reader: all together buffer too much. That is seldom the one whose reply was one too many.
    pub(super) fn kick_slowest(&mut self) {
        if self.system.has(Planted::KicksNobody) {
            return;
        }
        let burden = |(at, c): (usize, &Option<Connection>)| Some((c.as_ref()?.burden(self.now)?, at));
        let Some((_, at)) = self.connections.iter().enumerate().filter_map(burden).max() else { return };
        self.shared.net.slow_reader_kicks.add(1);
        let id = at as u32;
        if self.owed.iter().any(|owed| owed.connection == id) {
            // Its requests in flight borrow from its input (invariant 1): it is closed at the end of the turn.
            let connection = live(&mut self.connections, id);
            connection.clear(&self.buffered);
            connection.broken = true;
            connection.why = Reason::SlowReader;
        } else {
            self.close_for(id, Reason::SlowReader);
        }
    }

    /// Closes connections that were silent for too long.
    pub(super) fn sweep(&mut self) {
        self.end_handshakes();
        for connection in self.connections.iter().flatten() {
            if let Some(entry) = &connection.entry {
                entry.set(connection.heard, connection.is_stuck());
            }
        }
        let limit = Nanos::from_secs(self.shared.registers.read(Id::NetIdleTimeout));
        if limit == Nanos::ZERO {
            return;
        }
        for id in 0..self.connections.len() as u32 {
            if let Some(connection) = &self.connections[id as usize]
                && !matches!(connection.wire, Wire::Datagrams(_))
                && connection.watching.is_none()
                && self.now.since(connection.heard) > limit
            {
                self.shared.net.idle_kicks.add(1);
                self.close_for(id, Reason::Idle);
            }
        }
    }

    /// Closes a connection, and says that it was for this.
    pub(super) fn close_for(&mut self, id: u32, why: Reason) {
        if let Some(connection) = &mut self.connections[id as usize] {
            connection.why = why;
            self.close(id);
        }
    }

    /// Closes a connection, if it is still open.
    pub(super) fn close(&mut self, id: u32) {
        let Some(mut connection) = self.connections[id as usize].take() else { return };
        if !matches!(connection.wire, Wire::Datagrams(_)) {
            watch::tell(&self.watchers, &connection, Some(&connection.why));
            closing::log("kv", || peer_of(connection.descriptor()), &connection.why);
        }
        if !connection.late.is_empty() {
            self.forget_late(id, connection.generation);
        }
        self.known.leave(connection.descriptor());
        if verbose::is_on() {
            verbose::ends(connection.number());
        }
        if !self.system.has(Planted::KeepsBuffer) {
            connection.input.release(&mut self.pool);
        }
        if !self.system.has(Planted::KeepsCount) {
            connection.clear(&self.buffered);
        }
        self.runnable.retain(|&other| other != id);
        self.laggards.retain(|&other| other != id);
        self.polled.retain(|&other| other != id);
        self.handshakes.forget(id);
        self.vacant.push(id);
        let is_rings = matches!(connection.wire, Wire::Rings(_));
        let is_counted = !matches!(connection.wire, Wire::Datagrams(_));
        // Who reads the counters finds its descriptor and memory given back.
        drop(connection);
        self.shared.net.shm_connections.sub(u64::from(is_rings));
        self.shared.net.curr_connections.sub(u64::from(is_counted));
    }
}
