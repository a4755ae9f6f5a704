//! Machines that write to each other over modelled hardware: packets in, packets out, deadlines between, each charged what it costs.
//!
//! ```text
//!   machine ──out──▶ send ──▶ carry ─────────▶ receive ──▶ machine's handle ──▶ its user: ends operations, begins others
//!                    (thread)  (links, …)      (thread, box, …)
//! ```
//!
//! Packets are bytes: what one machine emits the other parses. What they cost is the business of a [`Hardware`], which says it as programs of the kernel: of
//! hosts on links ([`super::rack`]), and of the published rack with its boxes beside switches ([`super::incbricks`]).
//!
//! A node that has a [`Thread`] does one thing at a time: it takes a packet, handles it, sends what came of it, and takes the next. One that has none does
//! everything at once, and its resources' queues say what waits.

use base::{Nanos, Picos};
use model::sim::Mailbox;
use model::{ProgramId, Sim};
use protocol::coherence::{NodeId, Out};
use protocol::wire::{Message, Packet};
use serve::inc::machine::Machine;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// What a node's only thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Takes it, waiting in order.
    pub take: ProgramId,
    /// Sends a packet.
    pub send: ProgramId,
    /// Gives it back.
    pub give: ProgramId,
}

/// What packets cost.
pub trait Hardware {
    /// The thread of a node that does one thing at a time.
    fn thread(&self, of: NodeId) -> Option<Thread>;

    /// From where a packet comes to a node until its machine has it; a node's thread is taken then, and kept. None: the machine has it at once, for the
    /// node's hardware looked at it from outside, and sent it on by itself.
    fn receive(&self, sim: &Sim, at: NodeId, message: &Message) -> Option<ProgramId>;

    /// From one node's hardware to the other's. `inside`: what made the node send had been received there.
    fn carry(&self, sim: &Sim, way: (NodeId, NodeId), message: &Message, inside: bool) -> ProgramId;
}

/// Whoever drives a machine: takes what ended and begins what is next, at this time; what the machine puts out is sent.
pub type User = Box<dyn FnMut(Picos, &mut Out)>;

struct Node {
    id: NodeId,
    machine: Rc<RefCell<dyn Machine>>,
    user: Option<RefCell<User>>,
    /// When its timer goes off.
    due: Cell<Picos>,
    /// It is to go off sooner.
    bell: Mailbox<()>,
}

/// Nodes on hardware.
pub struct Net<H> {
    sim: Sim,
    /// What packets cost.
    pub hardware: H,
    nodes: RefCell<BTreeMap<NodeId, Rc<Node>>>,
    packets: Cell<u64>,
}

impl<H: Hardware + 'static> Net<H> {
    /// Without nodes.
    pub fn new(sim: &Sim, hardware: H) -> Rc<Net<H>> {
        Rc::new(Net { sim: sim.clone(), hardware, nodes: RefCell::default(), packets: Cell::new(0) })
    }

    /// Adds a node.
    pub fn join<M: Machine + 'static>(
        self: &Rc<Self>,
        id: NodeId,
        machine: &Rc<RefCell<M>>,
        user: Option<User>,
    ) {
        let machine: Rc<RefCell<dyn Machine>> = machine.clone();
        let due = Cell::new(Picos::from(machine.borrow().next_deadline()));
        let bell = Mailbox::new(&self.sim);
        let node = Rc::new(Node { id, machine, user: user.map(RefCell::new), due, bell });
        self.nodes.borrow_mut().insert(id, Rc::clone(&node));
        self.sim.spawn(Rc::clone(self).serve_deadlines(node));
    }

    /// Has a node's user go on as soon as the node has time.
    pub fn call(self: &Rc<Self>, id: NodeId) {
        let node = self.node(id).expect("who is called is there");
        self.have_turn(node, |_, _| ());
    }

    /// Packets sent so far.
    pub fn packets(&self) -> u64 {
        self.packets.get()
    }

    fn node(&self, id: NodeId) -> Option<Rc<Node>> {
        self.nodes.borrow().get(&id).cloned()
    }

    fn now(&self) -> Nanos {
        self.sim.now().nanos()
    }

    /// Puts a packet on its way.
    fn carry(self: &Rc<Self>, from: NodeId, (to, message): (NodeId, Message), inside: bool) {
        self.packets.set(self.packets.get() + 1);
        let program = self.hardware.carry(&self.sim, (from, to), &message, inside);
        let mut bytes = Vec::with_capacity(message.length());
        message.emit(&mut bytes);
        let net = Rc::clone(self);
        self.sim.then(program, 0, move || net.arrive((from, to), &bytes));
    }

    /// Whoever is not there hears nothing.
    fn arrive(self: Rc<Self>, (from, to): (NodeId, NodeId), bytes: &[u8]) {
        let Some(node) = self.node(to) else { return };
        let message = Packet::parse(bytes).expect("a machine's packets are well formed").to_message();
        match self.hardware.receive(&self.sim, to, &message) {
            Some(program) => {
                let net = Rc::clone(&self);
                self.sim.then(program, 0, move || net.handle(&node, from, &message, true));
            }
            None => self.handle(&node, from, &message, false),
        }
    }

    fn handle(self: &Rc<Self>, node: &Rc<Node>, from: NodeId, message: &Message, inside: bool) {
        let mut out = Out::new();
        node.machine.borrow_mut().handle(self.now(), from, message, &mut out);
        self.go_on(node, out, inside);
    }

    /// A node that has its thread, if it has one, does this to its machine, and goes on.
    fn have_turn(self: &Rc<Self>, node: Rc<Node>, act: impl FnOnce(&mut dyn Machine, &mut Out) + 'static) {
        let (net, thread) = (Rc::clone(self), self.hardware.thread(node.id));
        let turn = move || {
            let mut out = Out::new();
            act(&mut *node.machine.borrow_mut(), &mut out);
            net.go_on(&node, out, true);
        };
        match thread {
            Some(thread) => self.sim.then(thread.take, 0, turn),
            None => turn(),
        }
    }

    /// The machine has done something: its user hears of it, and what they put out is sent.
    fn go_on(self: &Rc<Self>, node: &Rc<Node>, mut out: Out, inside: bool) {
        if let Some(user) = &node.user {
            user.borrow_mut()(self.sim.now(), &mut out);
        }
        let next = Picos::from(node.machine.borrow().next_deadline());
        if next < node.due.get() {
            node.due.set(next);
            node.bell.send(());
        }
        match self.hardware.thread(node.id) {
            Some(thread) => Rc::clone(self).send_in_turn(node.id, thread, out.into_iter()),
            None => out.into_iter().for_each(|packet| self.carry(node.id, packet, inside)),
        }
    }

    fn send_in_turn(
        self: Rc<Self>,
        from: NodeId,
        thread: Thread,
        mut out: std::vec::IntoIter<(NodeId, Message)>,
    ) {
        let sim = self.sim.clone();
        let Some(packet) = out.next() else { return sim.with(|kernel| kernel.begin(thread.give, 0)) };
        sim.then(thread.send, 0, move || {
            self.carry(from, packet, true);
            self.send_in_turn(from, thread, out);
        });
    }

    /// Has the machine of a node serve what is due, for ever.
    async fn serve_deadlines(self: Rc<Self>, node: Rc<Node>) {
        loop {
            if receive_until(&self.sim, &node.bell, node.due.get()).await.is_some() {
                continue;
            }
            let next = Picos::from(node.machine.borrow().next_deadline());
            if next > self.sim.now() {
                node.due.set(next);
                continue;
            }
            // Until it has had its turn, it is not due again.
            node.due.set(Picos::MAX);
            let sim = self.sim.clone();
            self.have_turn(Rc::clone(&node), move |machine, out| machine.tick(sim.now().nanos(), out));
        }
    }
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
