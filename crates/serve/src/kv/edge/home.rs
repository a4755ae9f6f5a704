//! What edges do where replies come later, at a home of boxes and with a log: edge 0 has the home's socket and deadlines, and hears of the log's threads;
//! each
//! collects the replies that waited.
//!
//! ```text
//!  socket ─▶ hear_packets ─▶ Post ─▶ serve_later: one request to the engine ─▶ Post ─▶ send_packets ─▶ socket
//!  command waits ─▶ note_late: the connection writes nothing and, a stream, reads nothing ··▶ hear_of_late ─▶ Collect ─▶ write_late
//! ```
//!
//! Bounds: a batch of packets a turn.
//! Errors: a socket that fails is said once and not looked at any more; boxes then take the home for dead.

use super::{Edge, Owed, live, verbose};
use crate::inc::datagrams::BATCH;
use crate::inc::wire::Wire;
use crate::kv::post::Post;
use crate::kv::service::{LateReply, Origin, Request};
use crate::kv::shared::Shared;
use crate::kv::system::System;
use base::Nanos;
use engine::Core;
use protocol::coherence::NodeId;
use protocol::wire::Message;
use rustix::event::epoll;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The epoll token of the home's socket.
pub const HOME: u64 = u64::MAX - 1;
/// In place of a connection: requests of the home itself.
pub const NOBODY: u32 = u32::MAX;

/// The home's socket, at edge 0.
pub struct HomeSocket {
    wire: Wire,
    heard: Vec<(NodeId, Message)>,
}

impl HomeSocket {
    /// That of the node, if it has one and this is edge 0; watched by `epoll`.
    ///
    /// # Errors
    /// The system's.
    pub fn of<C: Core>(shared: &Shared<C>, edge: usize, epoll: &OwnedFd) -> io::Result<Option<HomeSocket>> {
        let Some(home) = shared.home.as_ref().filter(|_| edge == 0) else { return Ok(None) };
        let Some(wire) = home.take_wire() else { return Ok(None) };
        epoll::add(epoll, &wire, epoll::EventData::new_u64(HOME), epoll::EventFlags::IN)?;
        Ok(Some(HomeSocket { wire, heard: Vec::new() }))
    }

    /// Takes what arrived, a batch at most.
    fn receive(&mut self) -> io::Result<()> {
        let (mut taken, mut more) = (0, true);
        while more && taken < BATCH {
            let count;
            (count, more) = self.wire.receive(taken)?;
            self.heard.extend((0..count).filter_map(|at| self.wire.open(at)));
            taken += count.max(1);
        }
        self.wire.received(taken);
        Ok(())
    }
}

impl<Y: System> Edge<Y> {
    // ---- edge 0

    /// Packets wait in the home's socket.
    pub(super) fn hear_packets(&mut self) {
        let Some(home) = &mut self.home else { return };
        if let Err(error) = home.receive() {
            log::error!("the socket of the home fails, boxes will take it for dead: {error}");
            let _ = epoll::delete(&self.epoll, &home.wire);
        }
    }

    /// Between the service and this edge, if it is the first.
    fn post(&self) -> Option<&Arc<Post>> {
        self.shared.post.as_ref().filter(|_| self.number == 0)
    }

    /// Has the service hear what arrived and do what is due.
    pub(super) fn serve_later(&mut self) {
        let Some(post) = self.shared.post.as_ref().filter(|_| self.number == 0) else { return };
        let has_heard = self.home.as_ref().is_some_and(|home| !home.heard.is_empty());
        if !has_heard && !post.take_due() && self.now < post.deadline() {
            return;
        }
        if let Some(home) = &mut self.home {
            post.arrive(&mut home.heard);
        }
        let refused = self.port.submit(self.now, Request::serve()).is_err();
        assert!(!refused, "the ring has room between turns");
        self.owed.push_back(Owed::new(NOBODY, 1, false));
        self.shared.net.requests.add(1);
        self.finish(Nanos::ZERO, &mut Vec::new());
        self.hear_of_late();
        self.send_packets();
    }

    /// Sends what the home says.
    pub(super) fn send_packets(&mut self) {
        let (Some(home), Some(post)) = (&mut self.home, &self.shared.post) else { return };
        if post.has_leaving() {
            for (to, message) in post.take_leaving() {
                home.wire.depart(to, message, false);
                if home.wire.is_full() {
                    home.wire.send();
                }
            }
        }
        home.wire.send();
        post.set_traffic(home.wire.traffic());
    }

    /// How long until the home wants to be served.
    pub(super) fn until_due(&self) -> Nanos {
        let deadline = self.post().map_or(Nanos::MAX, |post| post.deadline());
        if deadline == Nanos::MAX { Nanos::MAX } else { deadline.since(self.system.now()) }
    }

    /// Whether others wait for what comes by the home's socket, or from the log.
    pub(super) fn is_needed_by_others(&self) -> bool {
        self.post().is_some_and(|post| post.waiting() > 0)
    }

    /// What the home answered itself, which is nothing.
    pub(super) fn drop_gathered(&mut self) {
        if let Some(last) = self.gathered.last().map(|last| last.span) {
            self.port.release(last);
        }
        self.gathered.clear();
    }

    // ---- all edges

    /// Of the replies that a connection is owed, so many wait; true where a message that `ends` here must wait with them, or behind others.
    pub(super) fn note_late(&mut self, id: u32, late: usize, ends: bool) -> bool {
        let connection = live(&mut self.connections, id);
        if late == 0 && connection.late.is_empty() {
            return false;
        }
        if late > 0 || ends {
            connection.late.push_back((late, ends));
        }
        true
    }

    /// The service says whose replies are ready.
    pub(super) fn hear_of_late(&mut self) {
        let Some(post) = &self.shared.post else { return };
        for origin in post.take_done(self.number) {
            let (id, generation) = origin.place();
            let Some(Some(connection)) = self.connections.get_mut(id as usize) else { continue };
            if connection.generation != generation {
                continue;
            }
            connection.is_ready = true;
            if !connection.runnable {
                self.settle(id);
            }
        }
    }

    /// Submits that the replies of a connection are collected; what it costs.
    pub(super) fn submit_collect(&mut self, id: u32) -> usize {
        let connection = live(&mut self.connections, id);
        let request = Request::collect(Origin::new(self.number, id, connection.generation));
        let cost = request.cost();
        (connection.submitted, connection.spent, connection.heard) = (1, cost, self.now);
        let refused = self.port.submit(self.now, request).is_err();
        assert!(!refused, "the ring has room for a request");
        self.owed.push_back(Owed::new(id, 1, false));
        self.shared.net.requests.add(1);
        cost
    }

    /// Writes replies that waited, to the connection that is owed them.
    pub(super) fn write_late(&mut self, replies: Vec<LateReply>) {
        let owed = self.owed.front().expect("somebody asked for them");
        let (begun, id) = (self.system.now(), owed.connection);
        let connection = live(&mut self.connections, id);
        if self.traces.logs() {
            replies.iter().for_each(|reply| verbose::reply(connection.number(), &reply.bytes));
        }
        let mut rest = replies.as_slice();
        while let Some((count, ends)) = connection.late.front_mut() {
            let (now, later) = rest.split_at(rest.len().min(*count));
            rest = later;
            *count -= now.len();
            let is_over = *count == 0;
            let ends = *ends && is_over;
            if !connection.broken && connection.write_late(now, ends, &self.buffered).is_err() {
                connection.set_gone();
            }
            if !is_over {
                break;
            }
            connection.late.pop_front();
        }
        debug_assert!(rest.is_empty(), "a reply was kept for each that waited");
        self.traces.wrote_late(id, Some(&replies), begun, connection.broken);
    }

    /// A connection is gone that replies wait for.
    pub(super) fn forget_late(&mut self, id: u32, generation: u32) {
        self.traces.wrote_late(id, None, self.system.now(), true);
        if let Some(post) = &self.shared.post {
            post.gone(Origin::new(self.number, id, generation));
        }
    }
}
