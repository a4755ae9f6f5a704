//! Links between nodes that carry bytes, in order, each direction for itself.
//!
//! Shape: a *wire* is a direction of a link: a process that takes packets from its mailbox, has them served by the link for as long as their bytes and
//! headers take, and hands them to a second one, which waits out the link's latency. So packets follow each other closely, however long the link.
//!
//! A packet knows its way: the wires that it still has to pass. At the last one's end it is put into the inbox of whom it is for.

use base::Picos;
use model::component::Network;
use model::kernel::Service;
use model::platform::transfer;
use model::sim::Mailbox;
use model::{ResourceId, Sim};
use protocol::coherence::NodeId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What arrives: from whom, and its bytes.
pub type Arrival = (NodeId, Vec<u8>);

/// Names a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireId(usize);

/// The most wires that a packet passes.
pub const LONGEST: usize = 4;

struct Packet {
    from: NodeId,
    to: NodeId,
    bytes: Vec<u8>,
    /// Those still to be passed after this one, the next one last.
    way: [Option<WireId>; LONGEST],
}

/// All wires, and where packets end. Clones are the same.
#[derive(Clone)]
pub struct Wires(Rc<RefCell<Inner>>);

struct Inner {
    sim: Sim,
    ends: Vec<Mailbox<Packet>>,
    inboxes: BTreeMap<NodeId, Mailbox<Arrival>>,
    packets: u64,
}

impl Wires {
    /// None yet.
    pub fn new(sim: &Sim) -> Wires {
        let inner = Inner { sim: sim.clone(), ends: Vec::new(), inboxes: BTreeMap::new(), packets: 0 };
        Wires(Rc::new(RefCell::new(inner)))
    }

    /// Both directions of a link.
    pub fn link(&self, link: Network) -> [WireId; 2] {
        [self.wire(link, link.forth), self.wire(link, link.back)]
    }

    /// The inbox of a node.
    pub fn inbox(&self, of: NodeId) -> Mailbox<Arrival> {
        let mut inner = self.0.borrow_mut();
        let inbox = Mailbox::new(&inner.sim);
        inner.inboxes.insert(of, inbox.clone());
        inbox
    }

    /// Puts a packet on its way.
    ///
    /// # Panics
    /// If the way is longer than [`LONGEST`], or empty.
    pub fn send(&self, from: NodeId, to: NodeId, bytes: Vec<u8>, along: &[WireId]) {
        let mut way = [None; LONGEST];
        for (place, wire) in way.iter_mut().zip(along.iter().rev()) {
            *place = Some(*wire);
        }
        assert!(!along.is_empty() && along.len() <= LONGEST, "{} wires are no way", along.len());
        self.0.borrow_mut().packets += 1;
        self.forward(Packet { from, to, bytes, way });
    }

    /// Packets sent so far.
    pub fn packets(&self) -> u64 {
        self.0.borrow().packets
    }

    fn wire(&self, link: Network, at: ResourceId) -> WireId {
        let mut inner = self.0.borrow_mut();
        let sim = inner.sim.clone();
        let (entry, flight) = (Mailbox::new(&sim), Mailbox::new(&sim));
        inner.ends.push(entry.clone());
        sim.spawn(carry(sim.clone(), link, at, entry, flight.clone()));
        sim.spawn(land(sim.clone(), flight, self.clone()));
        WireId(inner.ends.len() - 1)
    }

    /// To the next wire, or where it is for.
    fn forward(&self, mut packet: Packet) {
        let inner = self.0.borrow();
        match packet.way.iter_mut().rev().find_map(Option::take) {
            Some(WireId(next)) => inner.ends[next].send(packet),
            None => {
                // Whoever is not there hears nothing.
                if let Some(inbox) = inner.inboxes.get(&packet.to) {
                    inbox.send((packet.from, packet.bytes));
                }
            }
        }
    }
}

async fn carry(
    sim: Sim,
    link: Network,
    at: ResourceId,
    entry: Mailbox<Packet>,
    flight: Mailbox<(Picos, Packet)>,
) {
    loop {
        let packet = entry.receive().await;
        let bytes = link.wire_bytes(packet.bytes.len() as u64);
        sim.serve(at, Service::Fixed(transfer(bytes, link.bits)), bytes).await;
        flight.send((sim.now().plus(link.latency), packet));
    }
}

async fn land(sim: Sim, flight: Mailbox<(Picos, Packet)>, wires: Wires) {
    loop {
        let (at, packet) = flight.receive().await;
        sim.sleep_until(at).await;
        wires.forward(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Kernel;
    use protocol::wire::{ClientId, HomeId};

    #[test]
    fn packets_take_bytes_and_latency_of_every_link_and_follow_closely() {
        let mut kernel = Kernel::new(1);
        // 1 Gbit/s: 8 ns for a byte; 36 bytes around the payload.
        let mut link = |name| Network::new(&mut kernel, name, 1e9, (1500, 36), Picos::from_nanos(500));
        let links = [link("near"), link("far")];
        let sim = Sim::new(kernel);
        let wires = Wires::new(&sim);
        let along: Vec<_> = links.iter().map(|link| wires.link(*link)[0]).collect();
        let (from, to) = (NodeId::Client(ClientId(1)), NodeId::Home(HomeId(1)));
        let inbox = wires.inbox(to);
        let seen: Rc<RefCell<Vec<Picos>>> = Rc::default();
        let (into, clock) = (Rc::clone(&seen), sim.clone());
        sim.spawn(async move {
            loop {
                let (sender, bytes) = inbox.receive().await;
                assert_eq!((sender, bytes.len()), (from, 64));
                into.borrow_mut().push(clock.now());
            }
        });
        for _ in 0..3 {
            wires.send(from, to, vec![7; 64], &along);
        }
        sim.run_until(Picos::from_micros(100));
        sim.end_processes();
        // 100 bytes are 800 ns on each of two links; 500 ns behind each; the next one 800 ns later.
        assert_eq!(*seen.borrow(), [2600, 3400, 4200].map(Picos::from_nanos));
        assert_eq!(wires.packets(), 3);
    }
}
