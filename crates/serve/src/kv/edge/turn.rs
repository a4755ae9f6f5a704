//! A turn: what runnable connections ask is submitted, executed and answered.

use super::home::NOBODY;
use super::planted::Planted;
use super::traced::Coming;
use super::{Edge, Owed, live, verbose, watch};
use crate::kv::connection::Parsed;
use crate::kv::registers::Id;
use crate::kv::service::{Late, Listing, Origin, Reply, Request, cost_of_bytes};
use crate::kv::system::System;
use base::Nanos;
use engine::StageRun;
use protocol::memcache::Command;
use protocol::memcache::watch::Streams;

/// What laggards may cost in a turn in which the others cost less, and what who asks for little asks for at most.
const LAGGARDS_COST: usize = 16;
/// What a connection may cost in a turn while somebody asks for little now and then: such a one comes in the middle of a turn, and waits for its end.
/// Shorter turns are mostly system calls.
const SHORT_TURN: usize = 64;
/// For so long after it asked, it is thought to ask again.
const SHORT_TURNS_FOR: Nanos = Nanos::from_millis(5);

impl<Y: System> Edge<Y> {
    /// A round for those that have waited for this turn, and one for a laggard.
    pub(super) fn turn(&mut self) {
        self.pool.resize(self.shared.registers.size(Id::EdgeReadBuffer));
        let is_counted = self.detail.is_on() || self.watchers.streams().has_any(Streams::OF_ITEMS);
        self.traces.sample(self.shared.registers.read(Id::TraceSample), is_counted);
        let mut quantum = self.shared.registers.size(Id::NetPipeline);
        if self.now.since(self.asked_little) < SHORT_TURNS_FOR {
            quantum = quantum.min(SHORT_TURN);
        }
        let others = self.round(quantum, usize::MAX, |edge| edge.runnable.pop_front());
        // Laggards have half of a turn. Among themselves they do more at a time, which is cheaper.
        let share = others.unwrap_or(0).max(LAGGARDS_COST);
        let quantum = if others.is_some() { quantum.min(share) } else { quantum };
        self.round(quantum, share, |edge| edge.laggards.pop_front());
    }

    /// Submits from the connections that `next` gives, `quantum` from each, until that has cost `most` or the ring has no room; has the engine
    /// execute it, and writes the replies. What it cost, if there was any.
    fn round(
        &mut self,
        quantum: usize,
        most: usize,
        next: impl Fn(&mut Edge<Y>) -> Option<u32>,
    ) -> Option<usize> {
        let mut ran = std::mem::take(&mut self.ran);
        let (mut cost, mut begun) = (0, None);
        while cost < most
            && self.port.free() > 0
            && let Some(id) = next(self)
        {
            begun.get_or_insert_with(|| self.system.now());
            let asked = self.submit(id, quantum);
            if (1..quantum.min(LAGGARDS_COST)).contains(&asked) && !live(&mut self.connections, id).lags {
                self.asked_little = self.now;
            }
            cost += asked;
            ran.push(id);
        }
        if let Some(begun) = begun {
            let woken = std::mem::replace(&mut self.now, begun);
            self.finish(begun.since(woken), &mut ran);
        }
        self.ran = ran;
        begun.map(|_| cost)
    }

    /// The second half of a round: what those that `ran` have submitted is executed and answered.
    pub(super) fn finish(&mut self, waited: Nanos, ran: &mut Vec<u32>) {
        self.shared.on_core.stages.received(waited, self.port.in_flight());
        self.traces.saw(self.port.in_flight());
        self.is_led = self.shared.is_dedicated();
        let is_counted = self.is_led && !self.system.has(Planted::IsNotCounted);
        if is_counted {
            self.shared.on_core.count_on_thread();
        }
        self.port.ring();
        if self.is_led {
            self.shared.on_core.announce();
        }
        self.answer();
        if is_counted {
            self.shared.on_core.count_no_more();
        }
        for id in ran.drain(..) {
            if let Some(Some(connection)) = self.connections.get_mut(id as usize) {
                connection.runnable = false;
                connection.lags = true;
                if connection.submitted > 0 {
                    connection.size_turn(self.shared.registers.size(Id::NetPipeline));
                }
                self.settle(id);
            }
        }
    }

    /// Parses and submits requests that have arrived on one connection, up to what it has of this quantum, or the next slice of its listing.
    /// Returns what they cost.
    fn submit(&mut self, id: u32, quantum: usize) -> usize {
        let connection = live(&mut self.connections, id);
        connection.submitted = 0;
        if std::mem::take(&mut connection.is_ready) {
            return self.submit_collect(id);
        }
        let allowance = connection.allowance(quantum);
        if allowance == 0 {
            return 0;
        }
        match connection.listing.take() {
            Some(listing) => self.submit_slice(id, listing, allowance),
            None => self.submit_commands(id, allowance),
        }
    }

    fn submit_slice(&mut self, id: u32, listing: Listing, allowance: usize) -> usize {
        let request = Request::slice(listing);
        let cost = request.cost();
        let refused = self.port.submit(self.now, request).is_err();
        assert!(!refused, "the ring has room for a request");
        self.owed.push_back(Owed::new(id, 1, false));
        self.shared.net.requests.add(1);
        let connection = live(&mut self.connections, id);
        // Its client is busy taking what it asked for: it is not idle.
        connection.heard = self.now;
        (connection.submitted, connection.spent) = (1, cost);
        connection.debt += cost.saturating_sub(allowance);
        cost
    }

    fn submit_commands(&mut self, id: u32, allowance: usize) -> usize {
        let (number, connection) = (self.number, live(&mut self.connections, id));
        let origin = Origin::new(number, id, connection.generation);
        let limit = connection.turn.min(self.port.free());
        let (mut submitted, mut requests, mut cost) = (0, 0, 0);
        while (submitted < limit && cost < allowance) || connection.is_at_message_end() {
            // SAFETY: requests in flight borrow from the input buffer. It is neither written, moved nor freed before every
            // request of this turn is answered (invariant 1): `answer` returns only then, and nothing between here and
            // there touches an input buffer except to advance its start.
            let input: &'static [u8] = unsafe { &*std::ptr::from_ref(connection.visible()) };
            let command = match connection.step(input) {
                Parsed::Request(command) => connection.admit(command),
                Parsed::Login(login) => {
                    let is_right = self.shared.entrance.admits(&login, &self.shared.net);
                    connection.answer(&login, is_right)
                }
                Parsed::MessageEnd => {
                    self.owed.push_back(Owed::new(id, requests, true));
                    requests = 0;
                    continue;
                }
                Parsed::Dry => break,
            };
            let command = match command {
                Command::Watch(streams) => {
                    let line = watch::begin(connection, streams, &self.watchers, &self.inbox);
                    Command::Answered { line, noreply: false }
                }
                command => command,
            };
            connection.listing =
                Listing::of(&command).filter(|listing| listing.may_be(&self.shared.registers));
            if connection.listing.is_some() {
                // What follows waits for its end.
                break;
            }
            let request = Request::new(command, origin, &self.hasher);
            cost += request.cost();
            let hit = self.traces.look(&request);
            if hit.is_any() {
                let bytes = input.len().saturating_sub(connection.visible().len());
                let (connection, woken) = ((id, connection.number()), self.now);
                let coming = Coming { hit, connection, bytes, woken, is_led: self.shared.is_dedicated() };
                self.traces.submit(&mut self.port, request, &coming);
            } else {
                let refused = self.port.submit(self.now, request).is_err();
                assert!(!refused, "the ring has room for {limit} requests");
            }
            submitted += 1;
            requests += 1;
            if connection.watching.is_some() {
                // What follows is not looked at.
                self.watching.push(id);
                break;
            }
        }
        if (submitted == limit || cost >= allowance) && connection.can_parse() {
            self.shared.net.conn_yields.add(1);
        }
        if std::mem::take(&mut connection.unreadable) {
            self.shared.net.protocol_kicks.add(1);
        }
        (connection.submitted, connection.spent) = (submitted, cost);
        connection.debt += cost.saturating_sub(allowance);
        if requests > 0 {
            self.owed.push_back(Owed::new(id, requests, false));
        }
        self.shared.net.requests.add(submitted as u64);
        cost
    }

    /// Has the engine execute what is in flight and writes the replies, until nothing is in flight.
    fn answer(&mut self) {
        let mut idle_passes = 0u32;
        while self.port.in_flight() > 0 {
            if self.collect() > 0 {
                idle_passes = 0;
                continue;
            }
            if self.is_led && self.link.wait_awake(&self.system, &mut self.port, &self.shared.registers) {
                continue;
            }
            // Nothing to read from the ring: whatever was gathered may be what the engine waits for room for.
            self.write_gathered(false);
            self.port.publish_room();
            if self.is_led {
                self.shared.on_core.made_room();
                self.link.wait_on(&self.system, &mut self.port, &self.shared.registers);
            } else {
                self.run_engine(idle_passes);
            }
            idle_passes += 1;
        }
        self.collect();
        debug_assert!(self.owed.is_empty() && self.gathered.is_empty(), "every reply went to its connection");
        if self.shared.on_core.is_led() {
            self.port.publish_room();
            self.shared.on_core.made_room();
        }
    }

    /// A pass of the service, for all edges.
    fn run_engine(&mut self, idle_passes: u32) {
        if self.system.may_pass() && self.shared.on_core.try_pass() {
            return;
        }
        // Another edge runs the engine, or the thread of the core does, and for us too.
        self.system.pause(idle_passes);
    }

    /// Takes replies from the ring; whenever those of one connection are complete, writes them. Returns how many it took.
    fn collect(&mut self) -> usize {
        let now = self.system.now();
        let mut waited = StageRun::default();
        let mut taken = 0;
        self.finish_answered();
        while let Some(reply) = self.port.poll() {
            waited.add(now.since(reply.at), |span, n| self.shared.on_core.stages.replied(span, n));
            taken += 1;
            self.traces.took(&reply.body);
            self.gather(reply.body);
            let owed = self.owed.front_mut().expect("a reply belongs to a request in flight");
            owed.requests -= 1;
            if owed.requests == 0 {
                self.finish_answered();
            }
        }
        waited.finish(|span, n| self.shared.on_core.stages.replied(span, n));
        taken
    }

    /// Takes a reply: to be written with its neighbours, or for later.
    fn gather(&mut self, mut reply: Reply) {
        let owed = self.owed.front_mut().expect("a reply belongs to a request in flight");
        match reply.beside.as_mut().and_then(|beside| beside.late.take()) {
            Some(Late::Waits) => {
                let before: usize =
                    live(&mut self.connections, owed.connection).late.iter().map(|(count, _)| count).sum();
                self.traces.put_off(before + owed.late);
                owed.late += 1;
            }
            Some(Late::Done(replies)) => self.write_late(replies),
            None => {
                if let Some(beside) = &reply.beside {
                    live(&mut self.connections, owed.connection).listing = beside.next;
                }
                self.gathered.push(reply);
            }
        }
    }

    /// Writes the replies of whoever is owed nothing more.
    fn finish_answered(&mut self) {
        while let Some(&Owed { connection, requests: 0, ends, late }) = self.owed.front() {
            if connection == NOBODY {
                self.drop_gathered();
                self.owed.pop_front();
                continue;
            }
            let is_late = self.note_late(connection, late, ends);
            self.write_gathered(ends && !is_late);
            self.owed.pop_front();
            if self.owed.front().is_none_or(|next| next.connection != connection) {
                live(&mut self.connections, connection).flush();
            }
        }
    }

    /// Writes the gathered replies to the connection they belong to and gives their arena bytes back; `ends` says that a message
    /// ends with them.
    fn write_gathered(&mut self, ends: bool) {
        let end = self.gathered.last().map(|last| last.span);
        if end.is_none() && !ends {
            return;
        }
        let crossed = self.system.has(Planted::RepliesCross).then(|| self.owed.back()).flatten();
        let owed =
            crossed.or(self.owed.front()).expect("gathered replies belong to the first connection owed");
        let connection = live(&mut self.connections, owed.connection);
        let port = &self.port;
        if !connection.is_stuck() {
            connection.made_room = self.now;
        }
        let cost = cost_of_bytes(self.gathered.iter().map(Reply::bytes).sum());
        connection.debt += cost;
        connection.spent += cost;
        if self.traces.logs() {
            let number = connection.number();
            self.gathered.iter().for_each(|reply| verbose::reply(number, port.bytes(reply.span)));
        }
        let begun = self.system.now();
        if !connection.broken {
            match connection.write(&self.gathered, |span| port.bytes(span), ends, &self.buffered) {
                Ok(bytes) => {
                    self.shared.net.writes.add(u64::from(bytes > 0));
                    self.shared.net.bytes_written.add(bytes as u64);
                    self.shared.on_core.stages.sent(self.system.now().since(begun), self.gathered.len());
                }
                // The client is gone: its other replies are taken from the ring and dropped, then it is closed.
                Err(_) => connection.set_gone(),
            }
            if connection.reply_is_too_long() {
                connection.listing = None;
            }
        }
        self.traces.wrote(begun, connection.broken);
        self.gathered.clear();
        if let Some(end) = end {
            self.port.release(end);
        }
        if self.buffered.is_over() {
            self.kick_slowest();
        }
    }
}
