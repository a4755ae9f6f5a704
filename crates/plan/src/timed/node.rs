//! A machine of the in-network cache at a core: packets in, packets out, deadlines between, each charged what it costs.
//!
//! Packets are bytes: what one machine emits the other parses, so that lengths on wires are those of production. A node that has nothing to do
//! polls, or sleeps and then pays for being woken.

use super::wire::{Arrival, WireId, Wires};
use base::{Nanos, Picos};
use model::kernel::Service;
use model::sim::Mailbox;
use model::{ResourceId, Sim};
use protocol::coherence::{NodeId, Out};
use protocol::wire::{Message, Packet};
use serve::inc::machine::Machine;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// What packets cost a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// To take one from the network.
    pub receive: Picos,
    /// To send one.
    pub send: Picos,
    /// To handle one.
    pub handle: Picos,
    /// From its arrival to the first instruction of a node that slept; zero for one that polls.
    pub wake: Picos,
}

/// Who a node is and what it is connected with.
pub struct Place {
    /// Its name.
    pub id: NodeId,
    /// Its core.
    pub core: ResourceId,
    /// Its costs.
    pub cost: Cost,
    /// The way to every node that it may write to.
    pub ways: BTreeMap<NodeId, Vec<WireId>>,
}

/// A node.
pub struct Node<M> {
    sim: Sim,
    /// Its machine, for who drives it or looks at it.
    pub machine: Rc<RefCell<M>>,
    place: Place,
    inbox: Mailbox<Arrival>,
    wires: Wires,
}

impl<M: Machine + 'static> Node<M> {
    /// Of this machine at this place.
    pub fn new(sim: &Sim, wires: &Wires, place: Place, machine: M) -> Node<M> {
        Node {
            sim: sim.clone(),
            machine: Rc::new(RefCell::new(machine)),
            inbox: wires.inbox(place.id),
            place,
            wires: wires.clone(),
        }
    }

    /// Its clock.
    pub fn now(&self) -> Nanos {
        self.sim.now().nanos()
    }

    /// The simulation's.
    pub fn picos(&self) -> Picos {
        self.sim.now()
    }

    /// Serves packets and deadlines for ever.
    pub async fn serve(self) {
        let mut out = Out::new();
        loop {
            self.turn(&mut out).await;
        }
    }

    /// Waits for a packet or a deadline, and does what it asks for.
    pub async fn turn(&self, out: &mut Out) {
        let deadline = self.machine.borrow().next_deadline();
        let was_idle = self.inbox.is_empty();
        match receive_until(&self.sim, &self.inbox, Picos::from(deadline)).await {
            Some((from, bytes)) => {
                if was_idle {
                    self.sim.sleep(self.place.cost.wake).await;
                }
                self.pay(self.place.cost.receive.plus(self.place.cost.handle)).await;
                let packet = Packet::parse(&bytes).expect("a machine's packets are well formed");
                self.machine.borrow_mut().handle(self.now(), from, &packet.to_message(), out);
            }
            None => self.machine.borrow_mut().tick(self.now(), out),
        }
        self.send(out).await;
    }

    /// Sends what a machine put out.
    pub async fn send(&self, out: &mut Out) {
        for (to, message) in out.drain(..) {
            self.pay(self.place.cost.send).await;
            let way = self
                .place
                .ways
                .get(&to)
                .unwrap_or_else(|| panic!("{:?} has no way to {to:?}", self.place.id));
            self.wires.send(self.place.id, to, bytes_of(&message), way);
        }
    }

    async fn pay(&self, span: Picos) {
        self.sim.serve(self.place.core, Service::Fixed(span), 1).await;
    }
}

fn bytes_of(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.emit(&mut bytes);
    bytes
}

/// The next message, or none by then.
pub async fn receive_until<T>(sim: &Sim, from: &Mailbox<T>, until: Picos) -> Option<T> {
    if until == Picos::MAX {
        return Some(from.receive().await);
    }
    let (mut message, mut timer) = (pin!(from.receive()), pin!(sim.sleep_until(until)));
    poll_fn(|cx| match message.as_mut().poll(cx) {
        Poll::Ready(message) => Poll::Ready(Some(message)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}
