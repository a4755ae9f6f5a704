//! The end of an edge.

use super::planted::Planted;
use super::{DRAIN, DRAIN_LOOK, Edge};
use crate::kv::connection::Wire;
use crate::kv::system::System;
use base::Nanos;
use base::closing::Reason;
use rustix::event::epoll;

impl<Y: System> Edge<Y> {
    /// The last act: answers what clients sent before the node was told to stop, waits a little for slow readers, closes.
    pub(super) fn drain(&mut self, events: &mut Vec<epoll::Event>) {
        let end = self.begin_drain();
        while !self.drain_more(end) {
            if !self.has_work() {
                // Only replies that wait for their readers, or for boxes, are left.
                self.poll_events(events, DRAIN_LOOK);
                self.hear(events);
            }
        }
    }

    /// Takes what happened since.
    pub(in crate::kv) fn hear(&mut self, events: &[epoll::Event]) {
        self.handle(events);
    }

    /// Takes whoever is still to be served; when the last act is over at the latest.
    pub(in crate::kv) fn begin_drain(&mut self) -> Nanos {
        if !self.system.has(Planted::DrainForgetsInbox) {
            self.welcome();
        }
        self.system.now().plus(DRAIN)
    }

    /// Does what can be done now before the `end`. True when all is over, and everybody's connection closed.
    pub(in crate::kv) fn drain_more(&mut self, end: Nanos) -> bool {
        while self.has_work() && self.system.now() < end {
            self.inbox.beat.turn();
            self.now = self.system.now();
            self.serve_later();
            self.turn();
            self.send_packets();
        }
        self.inbox.beat.turn();
        self.now = self.system.now();
        self.handshakes.begin_turn();
        self.serve_later();
        self.send_packets();
        self.read_what_is_left();
        let is_over = self.connections.iter().all(Option::is_none) && !self.is_needed_by_others();
        if !is_over && self.system.now() < end {
            return false;
        }
        for id in 0..self.connections.len() as u32 {
            self.close_for(id, Reason::Drain);
        }
        true
    }

    /// Reads from each connection that has nothing to be executed or written, and closes it if nothing more came.
    fn read_what_is_left(&mut self) {
        for id in 0..self.connections.len() as u32 {
            let Some(connection) = self.connections[id as usize].as_ref().filter(|c| !c.runnable) else {
                continue;
            };
            if connection.is_stuck() && !self.system.has(Planted::DrainLeavesStuck) {
                self.resume(id);
                continue;
            }
            if !connection.late.is_empty() {
                continue;
            }
            let came = match connection.wire {
                _ if self.system.has(Planted::DrainReadsNothing) => false,
                Wire::Stream(_) => self.read(id),
                Wire::Rings(_) | Wire::Datagrams(_) => {
                    self.receive(id);
                    self.connections[id as usize].as_ref().is_some_and(|c| c.runnable)
                }
            };
            if !came {
                self.close_for(id, Reason::Drain);
            }
        }
    }
}
