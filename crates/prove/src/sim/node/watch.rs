//! What holds after every step of a node, when it has stopped, and at rest.

use super::client::Line;
use super::world::World;
use base::Picos;

/// An edge waits so long for slow readers when it ends, or a little less: its clock may run fast.
const DRAIN: Picos = Picos::from_micros(1_970_000);
/// Replies on their way to the edges, beyond what all may buffer: `serve::kv::service::DETACHED_MAX`.
const ON_THE_WAY: usize = serve::kv::service::DETACHED_MAX as usize;

/// Requests that are to be answered: all, or those that had come before the node was told to stop.
fn owed(line: &Line) -> usize {
    let asked = line.asked.iter().filter(|asked| !asked.is_quiet);
    asked.filter(|asked| line.promised.is_none_or(|bytes| asked.end <= bytes)).count()
}

impl World<'_> {
    /// After every step of an edge.
    pub(super) fn watch(&mut self) {
        for number in 0..self.clients.len() {
            let Some(line) = &mut self.clients[number].line else { continue };
            if line.peer.was_read_while_stuck() {
                return self
                    .broken(format!("client {number} is read on, though it does not take its replies"));
            }
            if line.peer.is_closed() && line.closed.is_none() {
                line.closed = Some(self.queue.now());
                self.note(|| format!("node          closes the connection of client {number}"));
            }
        }
        let Some(node) = &self.node else { return };
        for (service, buffers) in self.buffers.iter().enumerate() {
            let (taken, connections) = (node.buffered(service), self.clients.len());
            let most = node.limit(service).max(self.limits[service]) + connections * buffers + ON_THE_WAY;
            if taken > most {
                let limit = node.limit(service);
                return self
                    .broken(format!("connections of service {service} buffer {taken} bytes, of {limit}"));
            }
        }
    }

    /// What all connections of each service buffer, and how many were closed for that.
    pub(super) fn buffering(&self) -> Vec<(usize, u64)> {
        let Some(node) = &self.node else { return Vec::new() };
        (0..self.script.services.len()).map(|service| (node.buffered(service), self.kicks(service))).collect()
    }

    /// After a step of an edge: where that left more unsent than all may have, somebody was closed for it.
    pub(super) fn look_at_kicks(&mut self, before: &[(usize, u64)]) {
        let Some(node) = &self.node else { return };
        for (service, (&(taken, kicks), buffer)) in before.iter().zip(&self.buffers).enumerate() {
            let (now, limit) = (node.buffered(service), node.limit(service));
            // Input buffers are lent to who has none, whatever there is.
            let lent = self.clients.len() * buffer;
            if now > limit + lent && now > taken + lent && self.kicks(service) == kicks {
                let text = format!(
                    "service {service} buffers {now} bytes, {taken} before, of {limit}, and closes nobody"
                );
                return self.broken(text);
            }
        }
    }

    /// Whether a connection was closed by the node, and all it said was heard; whether it might be.
    pub(super) fn look_at_closed(&mut self, number: usize) -> bool {
        let client = &self.clients[number];
        let Some(line) = client.line.as_ref().filter(|line| line.peer.unheard() == 0) else { return false };
        let Some(closed) = line.closed else { return false };
        let (service, owed) = (client.service, owed(line));
        let is_over = self.stopped_at.is_some_and(|at| closed.since(at) >= DRAIN);
        let is_right = owed == 0 && (line.has_ended || self.stopped_at.is_some());
        if is_right || is_over {
            return true;
        }
        self.unexplained[service] += 1;
        let kicks = self.kicks(service);
        if self.unexplained[service] > kicks {
            let stopped = if self.stopped_at.is_some() { ", which was told to stop," } else { "" };
            self.broken(format!(
                "the node{stopped} closed the connection of client {number}, and did not answer {owed} requests that had come; it closed \
                 {kicks} for what they buffered"
            ));
        }
        true
    }

    fn kicks(&self, service: usize) -> u64 {
        let Some(node) = &self.node else { return self.kicked[service] };
        node.kicks(service)
    }

    /// All edges have ended: nobody is connected any more, and nothing is kept.
    pub(super) fn look_at_stopped(&mut self) {
        self.watch();
        self.look_at_rest(0);
        if let Some(at) =
            self.clients.iter().position(|c| c.line.as_ref().is_some_and(|l| !l.peer.is_closed()))
        {
            self.broken(format!("the node has ended, and client {at} is still connected"));
        }
    }

    /// Nothing is under way; so many are connected.
    pub(super) fn look_at_rest(&mut self, connected: u64) {
        let Some(node) = &self.node else { return };
        let said: Vec<_> = (0..self.script.services.len()).map(|service| node.said(service)).collect();
        let open: u64 = said.iter().map(|said| said.net.curr_connections).sum();
        for (service, said) in said.iter().enumerate() {
            if said.buffered > 0 {
                let buffered = said.buffered;
                return self
                    .broken(format!("nothing is under way, and service {service} buffers {buffered} bytes"));
            }
        }
        if open != connected {
            self.broken(format!("{connected} clients are connected, and the node counts {open}"));
        }
    }
}
