//! Clients of another protocol, at the homes themselves: what memcached clients of a node are to its boxes.
//!
//! ```text
//!  client ──packets──▶ boxes ──▶ home ◀──ticket── client of another protocol         one history, one judge
//! ```
//! They are part of their home's node: what they ask goes over no network and is lost with the home before it was done, so that it is
//! known what became of it. In the record they have the node's number.

use super::homes::{Homes, SimulatedHome};
use super::issue::Running;
use super::memcached;
use super::nodes::Machine;
use super::record;
use super::watch::answer_in;
use super::words;
use super::world::World;
use base::Picos;
use protocol::coherence::Out;
use protocol::coherence::client::{Call, Failed, OpId};
use protocol::coherence::home::items::Replied;
use protocol::wire::{Message, Status, Ttl, Verb};
use sim::kv::{self, Op, Ret};
use sim::nodes::Node;

impl World<'_> {
    /// Somebody asks the home of the call's key.
    pub(super) fn ask(&mut self, call: Call, must: Option<Picos>) {
        let node = self.home_of(&call.key);
        if self.places[node as usize].machine.is_none() {
            return;
        }
        let call = if self.script.homes == Homes::Bare { call } else { memcached::call_of(call) };
        let call = self.expecting(node, call);
        let op = record::asked(&call, &self.places[node as usize].clock);
        let number = self.record.call(self.now(), node, &call.key, op);
        self.ask_home(node, call, number, must);
    }

    /// Somebody has all homes flushed; if one is down, nothing is begun.
    pub(super) fn flush_by_ticket(&mut self) {
        let homes = self.numbers.homes();
        if homes.clone().any(|node| self.places[node as usize].machine.is_none()) {
            return;
        }
        let number = self.record.call(self.now(), homes.start, b"", Op::Flush { delay: None });
        self.underway.begin_flush(number, homes.len());
        for (node, home) in homes.zip(self.topology.layout.homes()) {
            self.ask_home(node, Call::flush(home), number, None);
        }
    }

    /// In the liveness phases: at each home, what clients by packet write and read at the same time.
    pub(super) fn ask_all_homes(&mut self, turn: usize, by: Picos, keys: usize) {
        for (i, key) in self.script.keys.iter().take(keys).enumerate() {
            let value = format!("{}", 2_000_000 + 1000 * turn + i).into_bytes();
            self.ask(Call::new(Verb::Set, key).value(&value), Some(by));
            self.ask(Call::new(Verb::Get, key), Some(by));
        }
    }

    fn ask_home(&mut self, node: Node, call: Call, number: usize, must: Option<Picos>) {
        if self.script.homes != Homes::Bare {
            return self.ask_node(node, call, number, must);
        }
        let now = self.places[node as usize].clock.read(self.now());
        let mut out = Out::new();
        let Some(Machine::Home(SimulatedHome::Bare(home))) = self.machine(node) else { return };
        let ticket = home.ask(now, request_of(&call), &mut out);
        self.note(|names| {
            format!("{:<13} is asked operation {number}: {}", names.name(node), words::call(&call))
        });
        self.underway.begin(node, OpId(ticket.0), Running::new(call, number, now, must));
        self.acted(node, None, &mut out);
    }

    /// Takes what a home has answered by ticket.
    pub(super) fn collect_tickets(&mut self, node: Node) {
        self.collect_said(node);
        while let Some(Machine::Home(SimulatedHome::Bare(home))) = self.machine(node)
            && let Some(Replied { ticket, reply, made }) = home.items_mut().poll_reply()
        {
            let Some(running) = self.underway.end(node, OpId(ticket.0)) else {
                return self.broken(format!("{} ends {ticket:?} twice", self.numbers.name(node)), b"");
            };
            self.print.number(ticket.0);
            self.check_in_time(node, &running);
            if made {
                self.watch.note_made_by_ticket(node, reply.header.version);
            }
            match reply.header.status {
                Status::Busy => self.failed(node, running, Failed::NotDone),
                _ => self.succeeded(node, &running, &answer_in(&reply), made),
            }
        }
    }

    /// A home dies: what waits there is not done. Of a flush, which other homes may have done, nobody hears.
    pub(super) fn forget_tickets(&mut self, node: Node, is_kept: bool) {
        self.hang_up(node);
        for running in self.underway.end_all(node) {
            // What has a log, or a chain, or leaves its memory, may have done it: a reply waits for those before it.
            if !is_kept && !self.script.homes.survive() && running.call.verb != Verb::Flush {
                self.record.returns(self.now(), running.number, None, Ret::of(kv::Status::Error));
            }
        }
    }
}

fn request_of(call: &Call) -> Message {
    let mut request = Message::request(call.verb, &call.key);
    request.value.clone_from(&call.value);
    let header = &mut request.header;
    (header.operand, header.version, header.ttl) = (call.operand, call.version, Ttl::new(call.life));
    request
}
