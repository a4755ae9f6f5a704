//! Whole operations as rows of legs: what nobody decides on the way. A test of `plan::timed::incbricks` holds
//! them against what the protocol's machines do.

use super::rack::{Leg, Which, Work};

/// Between whom, over which switches, and at which of these boxes take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Who asks.
    pub client: Which,
    /// Who has the key.
    pub server: Which,
    /// From the client's to the server's.
    pub switches: Vec<usize>,
    /// Of these, by place on the way: its box takes part.
    pub boxes: Vec<bool>,
}

impl Route {
    /// All boxes take part, or none.
    pub fn new(client: Which, server: Which, switches: &[usize], boxes: bool) -> Route {
        Route { client, server, switches: switches.into(), boxes: vec![boxes; switches.len()] }
    }

    /// One after the other, from place `from` (inclusive) to `to`, up or down; each box that takes part has the message in its hands.
    fn pass(&self, from: usize, to: usize, bytes: u64, legs: &mut Vec<Leg>) {
        let mut place = from;
        loop {
            self.detour(place, bytes, bytes, legs);
            if place == to {
                return;
            }
            let next = if from < to { place + 1 } else { place - 1 };
            legs.push(Leg::Trunk(self.switches[place], self.switches[next], bytes));
            place = next;
        }
    }

    fn detour(&self, place: usize, bytes: u64, after: u64, legs: &mut Vec<Leg>) {
        if self.boxes[place] {
            let at = self.switches[place];
            legs.extend([Leg::Enter(at, bytes, Work::Key), Leg::Leave(at, after)]);
        }
    }

    fn last(&self) -> usize {
        self.switches.len() - 1
    }

    /// A request of so many bytes goes to the server, which does it.
    pub fn to_server(&self, bytes: u64) -> Vec<Leg> {
        let mut legs = vec![Leg::ClientSends(self.client, bytes)];
        self.pass(0, self.last(), bytes, &mut legs);
        legs.extend([Leg::ServerReceives(self.server, bytes), Leg::Serves(self.server)]);
        legs
    }

    /// Its reply comes back.
    pub fn from_server(&self, bytes: u64) -> Vec<Leg> {
        let mut legs = vec![Leg::ServerSends(self.server, bytes)];
        self.pass(self.last(), 0, bytes, &mut legs);
        legs.push(Leg::ClientReceives(self.client, bytes));
        legs
    }

    /// Both; `between` comes after the server's work.
    pub fn at_server(&self, request: u64, reply: u64, between: Vec<Leg>) -> Vec<Leg> {
        [self.to_server(request), between, self.from_server(reply)].concat()
    }

    /// A request that the box at this place answers.
    pub fn at_box(&self, place: usize, request: u64, reply: u64) -> Vec<Leg> {
        let mut legs = vec![Leg::ClientSends(self.client, request)];
        for below in 0..place {
            self.detour(below, request, request, &mut legs);
            legs.push(Leg::Trunk(self.switches[below], self.switches[below + 1], request));
        }
        self.detour(place, request, reply, &mut legs);
        if place > 0 {
            legs.push(Leg::Trunk(self.switches[place], self.switches[place - 1], reply));
            self.pass(place - 1, 0, reply, &mut legs);
        }
        legs.push(Leg::ClientReceives(self.client, reply));
        legs
    }

    /// The home has one sharer at the end of this way drop its copies: a message of `key` bytes, answered by one of `bare`.
    pub fn invalidation(&self, key: u64, bare: u64) -> Vec<Leg> {
        let Some(end) = self.boxes.iter().position(|takes_part| *takes_part) else { return Vec::new() };
        let mut legs = vec![Leg::FromServer(self.server, key)];
        for place in (end..self.switches.len()).rev() {
            let at = self.switches[place];
            if place < self.last() {
                legs.push(Leg::Trunk(self.switches[place + 1], at, key));
            }
            self.detour(place, key, if place == end { bare } else { key }, &mut legs);
        }
        for place in end + 1..self.switches.len() {
            let at = self.switches[place];
            legs.push(Leg::Trunk(self.switches[place - 1], at, bare));
            if self.boxes[place] {
                legs.extend([Leg::Enter(at, bare, Work::Bounce), Leg::Leave(at, bare)]);
            }
        }
        legs.push(Leg::ToServer(self.server, bare));
        legs
    }
}
