//! Who may say what: the keys of nodes and clients, the tags that they put on packets, and numbers by which a repeated packet is known.
//!
//! ```text
//!  cluster key ──"cache/member"──▶ boxes, homes, controllers, among themselves
//!              ──"cache/client"──▶ clients, and nodes to clients: who has only this one can pass for a client, not for a node
//!
//!  emit: packet ─▶ sealed: sender, counter, tag over packet, sender, counter and receiver
//!  open: packet ─▶ sealed ─ tag right? ─ counter not heard yet? ─▶ believed
//!                  plain  ─ a stranger's read ─▶ answered with no more bytes than it has
//!                         ─ anything else     ─▶ refused
//! ```
//! Plain reads stay: they change nothing, and are what a box's XDP program answers. A plain reply is believed by a client for a read alone.
//!
//! Invariants:
//! 1. What a machine hears of a node, that node said to this one, once. A counter begins with the sender's incarnation, so that it rises from
//!    life to life.
//! 2. A write was sealed by somebody who has the clients' key; the box that it comes by has seen that.
//! 3. Nobody who has not proven who he is gets an answer that is longer than what he sent: whose address he wrote as his own gets no more
//!    from us than from him.
//!
//! A receiver that starts anew has heard nothing, so that something that its earlier life heard may be repeated to it, once. Rounds, tokens,
//! sessions and epochs do not outlive the life that they are of: it means nothing there.
//!
//! Bounds: a window for each node of the layout; one for each of [`CLIENTS`] clients, those that were heard last. Repeated requests of a
//! client beyond these are answered once more; its writes are known by their sessions.
//! Cost: about 1 ns a byte, each way (`benches/wire.rs`).

use super::client::READ;
use super::{NodeId, Planted, is_read};
use crate::planted::{Bugs, NoBugs};
use crate::wire::{
    BoxId, ClientId, Header, HomeId, Incarnation, Malformed, Message, Opcode, Origin, Packet, Proof, Role,
    Sharers, Status, Verb, length,
};
use base::key::{Key, Tag};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clients whose counters a node remembers.
pub const CLIENTS: usize = 4096;

/// What a node or client has of the cluster's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// A client has none.
    members: Option<Key>,
    clients: Key,
}

impl Keys {
    /// All, for a node.
    pub fn of_cluster(key: &Key) -> Keys {
        Keys { members: Some(key.derive("cache/member")), clients: Keys::client_key(key) }
    }

    /// Those of a client, which knows no more than its own.
    pub fn of_client(key: Key) -> Keys {
        Keys { members: None, clients: key }
    }

    /// What clients get of a cluster's key.
    pub fn client_key(key: &Key) -> Key {
        key.derive("cache/client")
    }
}

/// Where a datagram came from, as far as its address says.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The node that is there.
    pub node: Option<NodeId>,
    /// The address, for an answer.
    pub origin: Option<Origin>,
}

/// Why a datagram is not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no packet.
    Malformed(Malformed),
    /// From an address that has no business to send it.
    Stranger,
    /// Whoever wrote it has another key, or none.
    Unproven,
    /// It was heard before, or is so old that it may have been.
    Repeated,
    /// A stranger asks for what only clients with a key may have: to be sent to him.
    Answered(Box<Message>),
}

/// Says a higher number each time, to whoever asks.
pub type Numbering = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Numbers the packets that are sealed.
#[derive(Clone)]
enum Counter {
    /// The last.
    Own(u64),
    /// Another tier of this node seals, too.
    Shared(Numbering),
}

impl Counter {
    fn next(&mut self) -> u64 {
        match self {
            Counter::Own(last) => {
                *last += 1;
                *last
            }
            Counter::Shared(next) => next(),
        }
    }
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Counter::Own(last) => write!(f, "{last}"),
            Counter::Shared(_) => write!(f, "shared"),
        }
    }
}

/// What a node or client knows of the others' proofs, and makes its own with.
#[derive(Clone, Debug)]
pub struct Guard<B = NoBugs> {
    me: NodeId,
    /// None: whoever is at a node's address is believed.
    keys: Option<Keys>,
    counter: Counter,
    nodes: BTreeMap<NodeId, Window>,
    clients: Recent,
    planted: B,
}

impl Guard {
    /// Of a node in this life.
    pub fn new(me: NodeId, incarnation: Incarnation, keys: Option<Keys>) -> Guard {
        Guard::with_bugs(me, incarnation, keys, NoBugs)
    }

    /// Of a client, whose number nobody had before.
    pub fn of_client(me: ClientId, keys: Option<Keys>) -> Guard {
        Guard::new(NodeId::Client(me), Incarnation(0), keys)
    }
}

impl<B: Bugs<Planted>> Guard<B> {
    /// The same, with mistakes made on purpose.
    pub fn with_bugs(me: NodeId, incarnation: Incarnation, keys: Option<Keys>, planted: B) -> Guard<B> {
        let counter = Counter::Own(u64::from(incarnation.0) << 32);
        Guard { me, keys, counter, nodes: BTreeMap::new(), clients: Recent::default(), planted }
    }

    /// A faster tier takes and gives proofs as this node, too: `with` is told the clients' key and the last number, and says who numbers packets
    /// from now on. Not called where there are no keys.
    pub fn share(&mut self, with: impl FnOnce(&Key, u64) -> Numbering) {
        if let (Some(keys), Counter::Own(last)) = (&self.keys, &self.counter) {
            self.counter = Counter::Shared(with(&keys.clients, *last));
        }
    }

    /// What a datagram says, and who says it.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn open(&mut self, bytes: &[u8], source: Source) -> Result<(NodeId, Message), Refusal> {
        let packet = Packet::parse(bytes).map_err(Refusal::Malformed)?;
        let mut message = packet.to_message();
        match (message.proof.take(), self.keys.is_some()) {
            (_, false) => self.believe(message, source),
            (None, true) => self.hear_plain(message, bytes.len(), source),
            (Some(proof), true) => self.hear_sealed(message, &proof, bytes, source),
        }
    }

    /// Appends a message to `to` as a packet, sealed if this has keys: but for the answer to somebody who has not proven who he is, which is then
    /// made short enough. `room` is the [`Origin`]'s.
    pub fn emit(&mut self, to: NodeId, room: u32, message: &mut Message, out: &mut Vec<u8>) {
        let Some(keys) = &self.keys else { return message.emit(out) };
        let me_is_client = matches!(self.me, NodeId::Client(_));
        let to_client = matches!(to, NodeId::Client(_));
        if to_client && room != Origin::PROVEN {
            if message.length() > room as usize && !self.planted.has(Planted::LongAnswers) {
                *message = too_long(message);
            }
            return message.emit(out);
        }
        let key = if to_client || me_is_client { Some(&keys.clients) } else { keys.members.as_ref() };
        let key = key.expect("a node has the nodes' key");
        if me_is_client {
            // Who proves who he is gets whatever the answer needs.
            message.padding = 0;
        }
        let counter = self.counter.next();
        let (role, id) = role_of(self.me);
        let room = if to_client || me_is_client { 0 } else { room };
        let mut proof = Proof { role, id, room, counter, tag: [0; 16] };
        message.proof = Some(proof);
        let start = out.len();
        message.emit(out);
        let end = start + length(message.key.len(), message.value.len());
        let receiver = (!self.planted.has(Planted::AnyReceiver)).then_some(to);
        proof.tag = tag(key, &out[start..end], &proof, receiver).0;
        out[end..end + Proof::BYTES].copy_from_slice(&proof.to_bytes());
    }

    /// Without keys an address is all that is known of anybody.
    fn believe(&self, message: Message, source: Source) -> Result<(NodeId, Message), Refusal> {
        match source.node {
            Some(node) => Ok((node, with_room(message, Origin::PROVEN))),
            None if self.serves(&message) => Ok(of_client(message, source.origin, Origin::PROVEN)),
            None => Err(Refusal::Stranger),
        }
    }

    fn hear_plain(
        &self,
        message: Message,
        room: usize,
        source: Source,
    ) -> Result<(NodeId, Message), Refusal> {
        let header = &message.header;
        if let NodeId::Client(_) = self.me {
            let to_read = matches!(header.opcode, Opcode::Reply(_)) && header.operation.0 & READ != 0;
            return match source.node {
                Some(node) if to_read => Ok((node, message)),
                Some(_) => Err(Refusal::Unproven),
                None => Err(Refusal::Stranger),
            };
        }
        let (Opcode::Request(verb), true) = (header.opcode, self.serves(&message)) else {
            return Err(if source.node.is_some() { Refusal::Unproven } else { Refusal::Stranger });
        };
        let room = u32::try_from(room).unwrap_or(0);
        let changes = !is_read(verb, header.flags) && verb != Verb::Noop;
        if changes && !self.planted.has(Planted::PlainWrites) {
            let (_, mut reply) = of_client(message.reply(Status::Unproven), source.origin, room);
            reply.header.round = message.header.round;
            return Err(Refusal::Answered(Box::new(reply)));
        }
        Ok(of_client(message, source.origin, room))
    }

    fn hear_sealed(
        &mut self,
        message: Message,
        proof: &Proof,
        bytes: &[u8],
        source: Source,
    ) -> Result<(NodeId, Message), Refusal> {
        let sender = sender_of(proof, &message.header);
        let is_client = matches!(sender, NodeId::Client(_));
        let known = if is_client { self.serves(&message) } else { source.node == Some(sender) };
        if !known {
            return Err(Refusal::Stranger);
        }
        let Some(keys) = &self.keys else { return Err(Refusal::Unproven) };
        let among_nodes = !is_client && !matches!(self.me, NodeId::Client(_));
        let key = if among_nodes { keys.members.as_ref() } else { Some(&keys.clients) };
        let end = length(message.key.len(), message.value.len());
        let receiver = (!self.planted.has(Planted::AnyReceiver)).then_some(self.me);
        let right = key.is_some_and(|key| tag(key, &bytes[..end], proof, receiver) == Tag(proof.tag));
        if !right && !self.planted.has(Planted::TagNotChecked) {
            return Err(Refusal::Unproven);
        }
        let window = match sender {
            NodeId::Client(client) => self.clients.of(client),
            node => self.nodes.entry(node).or_default(),
        };
        if !window.take(proof.counter) && !self.planted.has(Planted::NoReplayWindow) {
            return Err(Refusal::Repeated);
        }
        Ok(match sender {
            NodeId::Client(_) => of_client(message, source.origin, Origin::PROVEN),
            node => (node, with_room(message, proof.room)),
        })
    }

    /// Whether clients ask this node for such a thing.
    fn serves(&self, message: &Message) -> bool {
        matches!(self.me, NodeId::Box(_) | NodeId::Home(_))
            && matches!(message.header.opcode, Opcode::Request(_))
    }
}

/// Where it came from is where the answer goes; what a client says of boxes and of its address is not believed. Padding was for a reply on this
/// way: from here on it is a burden.
fn of_client(mut message: Message, origin: Option<Origin>, room: u32) -> (NodeId, Message) {
    message.header.origin = origin.map(|origin| origin.with_room(room));
    message.header.sharers = Sharers::default();
    message.padding = 0;
    (NodeId::Client(message.header.client), message)
}

fn with_room(mut message: Message, room: u32) -> Message {
    message.header.origin = message.header.origin.map(|origin| origin.with_room(room));
    message
}

/// What is answered instead of this reply: how long it is.
fn too_long(reply: &Message) -> Message {
    let header = Header {
        request: reply.header.request,
        client: reply.header.client,
        operation: reply.header.operation,
        round: reply.header.round,
        epoch: reply.header.epoch,
        home: reply.header.home,
        attempt: reply.header.attempt,
        flags: reply.header.flags,
        status: Status::Pad,
        operand: reply.length() as u64,
        ..Header::new(reply.header.opcode)
    };
    Message { header, value: Vec::new(), padding: 0, ..reply.clone() }
}

fn role_of(node: NodeId) -> (Role, u16) {
    match node {
        NodeId::Client(_) => (Role::Client, 0),
        NodeId::Box(id) => (Role::Box, id.0),
        NodeId::Home(id) => (Role::Home, id.0),
        NodeId::Controller(index) => (Role::Controller, index.into()),
    }
}

fn sender_of(proof: &Proof, header: &Header) -> NodeId {
    match proof.role {
        Role::Client => NodeId::Client(header.client),
        Role::Box => NodeId::Box(BoxId(proof.id)),
        Role::Home => NodeId::Home(HomeId(proof.id)),
        // No index is so high: it is at no address.
        Role::Controller => NodeId::Controller(u8::try_from(proof.id).unwrap_or(u8::MAX)),
    }
}

/// Over the packet with its filler, what the proof says, and for whom it is.
fn tag(key: &Key, packet: &[u8], proof: &Proof, to: Option<NodeId>) -> Tag {
    let mut receiver = [0; 16];
    if let Some(to) = to {
        let (role, id) = role_of(to);
        receiver[0] = role as u8;
        receiver[2..4].copy_from_slice(&id.to_le_bytes());
    }
    if let Some(NodeId::Client(id)) = to {
        receiver[8..].copy_from_slice(&id.0.to_le_bytes());
    }
    key.tag(&[packet, &proof.said(), &receiver])
}

/// Which of a sender's counters were heard: the newest, and of so many before it each one. What is older is taken for heard.
#[derive(Clone, Debug, Default)]
struct Window {
    newest: u64,
    /// By counter, modulo their number.
    heard: [u64; Window::WORDS],
}

impl Window {
    const WORDS: usize = 16;
    const COUNTERS: u64 = 64 * Window::WORDS as u64;

    /// Whether it is heard for the first time, which it is then no more.
    fn take(&mut self, counter: u64) -> bool {
        if counter == 0 || self.newest.saturating_sub(counter) >= Window::COUNTERS {
            return false;
        }
        if counter > self.newest {
            if counter - self.newest >= Window::COUNTERS {
                self.heard = [0; Window::WORDS];
            } else {
                (self.newest + 1..=counter).for_each(|passed| *self.word(passed) &= !bit(passed));
            }
            self.newest = counter;
        }
        let word = self.word(counter);
        let is_new = *word & bit(counter) == 0;
        *word |= bit(counter);
        is_new
    }

    fn word(&mut self, counter: u64) -> &mut u64 {
        &mut self.heard[(counter / 64) as usize % Window::WORDS]
    }
}

const fn bit(counter: u64) -> u64 {
    1 << (counter % 64)
}

/// Windows of the clients that were heard last.
#[derive(Clone, Debug, Default)]
struct Recent {
    windows: BTreeMap<ClientId, (u64, Window)>,
    /// When each was heard last, in hearings.
    by_use: BTreeMap<u64, ClientId>,
    uses: u64,
}

impl Recent {
    fn of(&mut self, client: ClientId) -> &mut Window {
        if self.windows.len() >= CLIENTS
            && !self.windows.contains_key(&client)
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.windows.remove(&oldest);
        }
        self.uses += 1;
        let (used, window) = self.windows.entry(client).or_default();
        self.by_use.remove(used);
        *used = self.uses;
        self.by_use.insert(self.uses, client);
        window
    }
}

#[cfg(test)]
mod tests;
