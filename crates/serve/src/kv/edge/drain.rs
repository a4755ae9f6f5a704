//! The end of an edge.

use super::{DRAIN, DRAIN_LOOK, Edge};
use crate::kv::connection::Wire;
use base::closing::Reason;
use rustix::event::epoll;

impl Edge {
    /// The last act: answers what clients sent before the node was told to stop, waits a little for slow readers, closes.
    pub(super) fn drain(&mut self, events: &mut Vec<epoll::Event>) {
        self.welcome();
        let end = self.clock.now().plus(DRAIN);
        loop {
            while self.has_work() && self.clock.now() < end {
                self.inbox.beat.turn();
                self.now = self.clock.now();
                self.serve_later();
                self.turn();
                self.send_packets();
            }
            self.inbox.beat.turn();
            self.now = self.clock.now();
            self.handshakes.begin_turn();
            self.serve_later();
            self.send_packets();
            self.read_what_is_left();
            let is_over = self.connections.iter().all(Option::is_none) && !self.is_needed_by_others();
            if is_over || self.clock.now() >= end {
                break;
            }
            if !self.has_work() {
                // Only replies that wait for their readers, or for boxes, are left.
                self.poll_events(events, DRAIN_LOOK);
                self.handle(events);
            }
        }
        for id in 0..self.connections.len() as u32 {
            self.close_for(id, Reason::Drain);
        }
    }

    /// Reads from each connection that has nothing to be executed or written, and closes it if nothing more came.
    fn read_what_is_left(&mut self) {
        for id in 0..self.connections.len() as u32 {
            let Some(connection) = self.connections[id as usize].as_ref().filter(|c| !c.runnable) else {
                continue;
            };
            if connection.is_stuck() {
                self.resume(id);
                continue;
            }
            if !connection.late.is_empty() {
                continue;
            }
            let came = match connection.wire {
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
