//! Flows that are translated, found from either side.
//!
//! ```text
//!   inside (address, port) ─┐                 ┌─ outside: port of the gateway
//!   remote (address, port) ─┴──── a flow ─────┴─ remote (address, port)
//!
//!   classes, each a list with the one longest without a packet first:  opening · established · udp · echo
//! ```
//! Invariants (asserted by `check`, which the property tests call after every packet):
//! 1. A flow is found by exactly one key of each side: translation is a bijection.
//! 2. Every flow is in the list of its class, in the order of the last packets; so those whose time is over are at the front.
//! 3. There are at most as many flows as the register says when one is added.
//!
//! Cost: two maps, and four links for each packet. Bounds: `nat.flows`, some 150 bytes each.
//!
//! A flow is five numbers, as Linux' is (RFC 4787 calls that address and port-dependent): a port serves several remotes.

use crate::packet::Proto;
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// An address with a port, or with an echo's identifier.
pub type End = (Ipv4Addr, u16);

/// What is kept of a flow for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// TCP before its handshake is over, or after a side has closed.
    Opening = 0,
    /// TCP.
    Established = 1,
    /// UDP.
    Udp = 2,
    /// ICMP echo.
    Echo = 3,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Of what.
    pub proto: Proto,
    /// The host inside.
    pub inside: End,
    /// The host outside.
    pub remote: End,
    /// The gateway's port, which stands for the host inside.
    pub port: u16,
    /// How long it is kept.
    pub class: Class,
    last_ns: u64,
    before: u32,
    after: u32,
}

type Inside = (Proto, End, End);
type Outside = (Proto, u16, End);

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

/// All of them.
pub struct Flows {
    flows: Vec<Flow>,
    free: Vec<u32>,
    inside: HashMap<Inside, u32>,
    outside: HashMap<Outside, u32>,
    lists: [List; 4],
}

impl Default for Flows {
    fn default() -> Flows {
        let lists = [List { first: NONE, last: NONE }; 4];
        Flows { flows: Vec::new(), free: Vec::new(), inside: HashMap::new(), outside: HashMap::new(), lists }
    }
}

impl Flows {
    /// How many.
    pub fn len(&self) -> usize {
        self.inside.len()
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.inside.is_empty()
    }

    /// By its host inside.
    pub fn by_inside(&self, proto: Proto, inside: End, remote: End) -> Option<u32> {
        self.inside.get(&(proto, inside, remote)).copied()
    }

    /// By the gateway's port.
    pub fn by_outside(&self, proto: Proto, port: u16, remote: End) -> Option<u32> {
        self.outside.get(&(proto, port, remote)).copied()
    }

    /// One of a port's, whatever its remote: for a bug that is planted.
    pub fn by_port(&self, proto: Proto, port: u16) -> Option<u32> {
        let of = |(key, number): (&Outside, &u32)| (key.0 == proto && key.1 == port).then_some(*number);
        self.outside.iter().find_map(of)
    }

    /// One of them.
    pub fn flow(&self, number: u32) -> &Flow {
        &self.flows[number as usize]
    }

    /// Adds a flow. Its keys are in use on neither side.
    pub fn add(
        &mut self,
        proto: Proto,
        inside: End,
        remote: End,
        port: u16,
        class: Class,
        now_ns: u64,
    ) -> u32 {
        let flow = Flow { proto, inside, remote, port, class, last_ns: now_ns, before: NONE, after: NONE };
        let number = match self.free.pop() {
            Some(number) => {
                self.flows[number as usize] = flow;
                number
            }
            None => {
                self.flows.push(flow);
                (self.flows.len() - 1) as u32
            }
        };
        let was = (
            self.inside.insert((proto, inside, remote), number),
            self.outside.insert((proto, port, remote), number),
        );
        assert_eq!(was, (None, None), "a flow's keys are its own");
        self.append(number);
        number
    }

    /// A packet of it came.
    pub fn touch(&mut self, number: u32, class: Class, now_ns: u64) {
        self.unlink(number);
        let flow = &mut self.flows[number as usize];
        flow.class = class;
        flow.last_ns = flow.last_ns.max(now_ns);
        self.append(number);
    }

    /// Ends flows whose class was kept for its time, `most` of each class.
    pub fn expire(&mut self, now_ns: u64, kept_ns: [u64; 4], most: usize) {
        for (class, kept) in kept_ns.into_iter().enumerate() {
            for _ in 0..most {
                let first = self.lists[class].first;
                if first == NONE || now_ns < self.flows[first as usize].last_ns.saturating_add(kept) {
                    break;
                }
                self.remove(first);
            }
        }
    }

    fn remove(&mut self, number: u32) {
        self.unlink(number);
        let Flow { proto, inside, remote, port, .. } = self.flows[number as usize];
        self.inside.remove(&(proto, inside, remote));
        self.outside.remove(&(proto, port, remote));
        self.free.push(number);
    }

    fn unlink(&mut self, number: u32) {
        let Flow { before, after, class, .. } = self.flows[number as usize];
        let list = &mut self.lists[class as usize];
        match before {
            NONE => list.first = after,
            before => self.flows[before as usize].after = after,
        }
        match after {
            NONE => list.last = before,
            after => self.flows[after as usize].before = before,
        }
    }

    fn append(&mut self, number: u32) {
        let list = &mut self.lists[self.flows[number as usize].class as usize];
        let last = std::mem::replace(&mut list.last, number);
        match last {
            NONE => list.first = number,
            last => self.flows[last as usize].after = number,
        }
        let flow = &mut self.flows[number as usize];
        (flow.before, flow.after) = (last, NONE);
    }

    /// Holds what must hold.
    #[cfg(test)]
    pub fn check(&self) {
        assert_eq!(self.inside.len(), self.outside.len());
        for (key, number) in &self.inside {
            let flow = self.flow(*number);
            assert_eq!(*key, (flow.proto, flow.inside, flow.remote));
            assert_eq!(self.by_outside(flow.proto, flow.port, flow.remote), Some(*number));
        }
        let mut listed = 0;
        for (class, list) in self.lists.iter().enumerate() {
            let (mut at, mut before, mut last_ns) = (list.first, NONE, 0);
            while at != NONE {
                let flow = self.flow(at);
                assert_eq!((flow.class as usize, flow.before), (class, before));
                assert!(flow.last_ns >= last_ns, "in the order of the last packets");
                (before, last_ns, at, listed) = (at, flow.last_ns, flow.after, listed + 1);
            }
            assert_eq!(list.last, before);
        }
        assert_eq!(listed, self.inside.len());
        assert_eq!(self.flows.len(), listed + self.free.len());
    }
}
