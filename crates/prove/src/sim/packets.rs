//! What travels in a world: packets as their senders seal them and receivers open them, and what somebody on the way does who has no key.
//!
//! What must hold, besides what machines promise: an honest packet is refused only as one that came before; a damaged, forged or diverted
//! one is never heard; none is heard twice by one life of a receiver; and nobody is answered with more bytes than he sent without proof.

use super::moves::Way;
use super::nodes::Machine;
use super::script::DELAY;
use super::words;
use super::world::{Happening, World};
use base::key::Key;
use base::{Picos, Prng};
use protocol::coherence::guard::{Keys, Refusal, Source};
use protocol::coherence::{Guard, NodeId, Out};
use protocol::wire::{Flags, Incarnation, Message, Opcode, Origin, Packet, Round, Verb};
use sim::network::Payload;
use sim::nodes::Node;
use sim::random;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Packets that a stranger remembers.
const MOST: usize = 24;

/// What travels.
#[derive(Clone, Debug)]
pub struct Datagram {
    bytes: Vec<u8>,
    /// Before it was damaged.
    original: Option<Vec<u8>>,
    /// Somebody wrote it who is not whom he says, or sent it where it was not sent to.
    is_forged: bool,
    /// Where homes are that have to do with it.
    way: Way,
}

impl Datagram {
    /// As it was written.
    pub fn new(bytes: Vec<u8>) -> Datagram {
        Datagram { bytes, original: None, is_forged: false, way: Way::default() }
    }

    /// By a stranger.
    fn forged(bytes: Vec<u8>) -> Datagram {
        Datagram { is_forged: true, ..Datagram::new(bytes) }
    }

    /// What arrives.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// It is not as it was written.
    pub fn is_damaged(&self) -> bool {
        self.original.is_some()
    }

    /// What it says is not what was written; nobody reads padding.
    fn says_otherwise(&self) -> bool {
        let said = |bytes: &[u8]| {
            Packet::parse(bytes).ok().map(|packet| Message { padding: 0, ..packet.to_message() })
        };
        self.original.as_ref().is_some_and(|original| said(original) != said(&self.bytes))
    }

    /// Which bytes were changed, where nothing was cut off.
    fn damage(&self) -> Vec<(usize, u8, u8)> {
        let original = self.original.iter().flatten().copied();
        let bytes = original.zip(self.bytes.iter().copied()).enumerate();
        bytes
            .filter(|(_, (before, after))| before != after)
            .map(|(i, (before, after))| (i, before, after))
            .collect()
    }
}

impl Payload for Datagram {
    fn damage(&mut self, random: &mut Prng) {
        let before = self.bytes.clone();
        self.bytes.damage(random);
        if self.bytes != before {
            self.original.get_or_insert(before);
        }
    }
}

/// Somebody on the way: what he heard last.
#[derive(Debug, Default)]
pub struct Stranger {
    heard: VecDeque<(NodeId, Node, Vec<u8>)>,
    /// Times that he spoke.
    spoke: u64,
}

impl Stranger {
    fn hear(&mut self, from: NodeId, to: Node, bytes: &[u8]) {
        if self.heard.len() == MOST {
            self.heard.pop_front();
        }
        self.heard.push_back((from, to, bytes.to_vec()));
    }
}

impl World<'_> {
    /// A datagram reaches a node.
    pub(super) fn arrive(&mut self, node: Node, from: NodeId, datagram: &Datagram) {
        let way = datagram.way;
        if self.places[node as usize].machine.is_none() || self.is_astray(node, way) {
            return;
        }
        let is_from_before = self.is_from_before(node, from, way);
        let mut source = self.source(from);
        source.node = source.node.and_then(|from| self.whose(node, from, way));
        let at = self.core_for(node, datagram.bytes());
        let place = &mut self.places[node as usize];
        let (sender, message) = match place.guards[usize::from(at)].open(datagram.bytes(), source) {
            Ok(heard) => heard,
            Err(Refusal::Stranger) if is_from_before => return,
            Err(refusal) => return self.refused(node, from, datagram, &refusal),
        };
        if is_from_before {
            let what = format!("{from:?} is heard from where it was: {message:?}");
            return self.broken(what, &message.key);
        }
        if let Some(Machine::Box(machine)) = &place.machine
            && machine.is_stray(at, &message)
        {
            return self.note(|names| format!("{:<13} drops a stray at core {at}", names.name(node)));
        }
        let is_sealed = Packet::parse(datagram.bytes()).is_ok_and(|packet| packet.proof().is_some());
        let is_new = !is_sealed || place.heard.insert(datagram.bytes().to_vec());
        if datagram.says_otherwise() {
            let damage = datagram.damage();
            return self
                .broken(format!("a packet with damage {damage:?} was read as {message:?}"), &message.key);
        }
        if datagram.is_forged {
            return self.broken(format!("{from:?} is believed to have said {message:?}"), &message.key);
        }
        if self.script.key.is_some() && !is_new {
            return self.broken(format!("{from:?} is heard twice: {message:?}"), &message.key);
        }
        self.note(|names| {
            format!("{:<13} ◀ {}: {message:?}", names.name(node), words::sender(names, sender))
        });
        self.act(node, at, Some((sender, &message)));
    }

    fn refused(&mut self, node: Node, from: NodeId, datagram: &Datagram, refusal: &Refusal) {
        let is_honest = !datagram.is_damaged() && !datagram.is_forged;
        // A client that starts anew is another one: what comes for the earlier is not for it.
        let me = self.places[node as usize].id;
        let client = Packet::parse(datagram.bytes()).map(|packet| NodeId::Client(packet.client()));
        let is_for_another = matches!(me, NodeId::Client(_)) && client.is_ok_and(|client| client != me);
        if is_honest && *refusal != Refusal::Repeated && !is_for_another {
            self.broken(format!("a packet that {from:?} wrote is refused: {refusal:?}"), b"");
        }
        self.note(|names| format!("{:<13} drops a packet: {refusal:?}", names.name(node)));
    }

    /// Who is at an address, in a run with keys; without, whoever sent it.
    fn source(&self, from: NodeId) -> Source {
        let is_client = matches!(from, NodeId::Client(_));
        if self.script.key.is_none() {
            return Source { node: Some(from), origin: None };
        }
        let number = self.numbers.node_of(from).unwrap_or_default();
        let address = SocketAddr::from(([10, 0, 0, number as u8], 1));
        Source { node: (!is_client).then_some(from), origin: Origin::new(address) }
    }

    /// Sends what a node says.
    pub(super) fn send_all(&mut self, node: Node, out: &mut Out) {
        let from = self.places[node as usize].id;
        let now = self.queue.now();
        for (receiver, mut message) in out.drain(..) {
            let Some(to) = self.numbers.node_of(receiver) else { continue };
            if node < self.numbers.clients().end {
                self.underway.note_write(node, &message);
            }
            let bytes = self.emit(node, receiver, &mut message);
            if self.network.is_overheard(node, to) {
                self.stranger.hear(from, to, &bytes);
            }
            let way = self.way(from, receiver, &self.places[node as usize].book);
            let datagram = Datagram { way, ..Datagram::new(bytes) };
            let queue = &mut self.queue;
            self.network.send(now, node, to, datagram, |at, datagram| {
                queue.push(at, to, Happening::Arrival { from, datagram });
            });
        }
    }

    fn emit(&mut self, node: Node, to: NodeId, message: &mut Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        let is_keyed = self.script.key.is_some();
        let room = message.header.origin.map_or(0, |origin| origin.room);
        if let NodeId::Client(_) = to {
            message.header.origin = None;
        }
        let is_client = node < self.numbers.clients().end;
        if is_keyed && is_client && goes_plainly(to, message) {
            message.emit(&mut bytes);
            return bytes;
        }
        self.places[node as usize].guards[0].emit(to, room, message, &mut bytes);
        if is_keyed && matches!(to, NodeId::Client(_)) && bytes.len() > room as usize {
            self.broken(format!("{} bytes for {room} of a stranger: {message:?}", bytes.len()), &message.key);
        }
        bytes
    }

    /// What somebody without a key makes of what he heard.
    pub(super) fn speak_as_stranger(&mut self) {
        let heard = std::mem::take(&mut self.stranger.heard);
        if self.script.key.is_none() {
            return;
        }
        self.stranger.spoke += 1;
        let mut random = random::stream(self.script.seed, self.stranger.spoke, "stranger");
        let mut forger = Forger::new(&mut random);
        for (from, to, bytes) in heard {
            let Ok(packet) = Packet::parse(&bytes) else { continue };
            let message = packet.to_message();
            if message.proof.is_some() {
                self.say(&mut random, to, from, Datagram::new(bytes.clone()));
                let other = random.below(self.numbers.count().into()) as Node;
                if other != to {
                    self.say(&mut random, other, from, Datagram::forged(bytes));
                }
                let receiver = self.places[to as usize].id;
                self.say(&mut random, to, from, Datagram::forged(forger.sealed(from, receiver, &message)));
            }
            if let Some(write) = stolen_write(&message) {
                let client = NodeId::Client(message.header.client);
                let home = self.numbers.home(message.header.home).unwrap_or(to);
                self.say(&mut random, home, client, Datagram::forged(write));
            }
        }
    }

    fn say(&mut self, random: &mut Prng, to: Node, from: NodeId, datagram: Datagram) {
        let late = Picos(random.below(self.script.config.lease.0.saturating_mul(1500)));
        let at = self.queue.now().plus(DELAY).plus(late);
        let datagram = Datagram { way: self.straight_way(from, to), ..datagram };
        self.queue.push(at, to, Happening::Arrival { from, datagram });
    }
}

/// Some reads that a client sends to its box go without a seal, some of these with less room than the reply needs.
fn goes_plainly(to: NodeId, message: &mut Message) -> bool {
    let header = &message.header;
    let reads = match header.opcode {
        Opcode::Request(Verb::Get) => header.flags == Flags::NONE,
        Opcode::Request(_) => header.flags == Flags::TRY,
        _ => false,
    };
    let kind = header.operation.0 % 3;
    let is_plain = reads && kind > 0 && message.padding == 0 && matches!(to, NodeId::Box(_));
    if is_plain && kind == 1 {
        message.padding = 24;
    }
    is_plain
}

/// A write in the session of a client, by somebody who saw its numbers.
fn stolen_write(heard: &Message) -> Option<Vec<u8>> {
    let header = &heard.header;
    if heard.key.is_empty() || header.round == Round(0) || !matches!(header.opcode, Opcode::Request(_)) {
        return None;
    }
    let mut message = Message::request(Verb::Set, &heard.key);
    (message.header.client, message.header.home) = (header.client, header.home);
    (message.header.round, message.header.operation) = (header.round, header.operation);
    message.value = b"666".to_vec();
    let mut bytes = Vec::new();
    message.emit(&mut bytes);
    Some(bytes)
}

/// Seals with a key that is not the cluster's.
struct Forger {
    key: Key,
}

impl Forger {
    fn new(random: &mut Prng) -> Forger {
        Forger { key: Key::new(std::array::from_fn(|_| random.below(256) as u8)) }
    }

    /// The same from the same, as if it were said much later.
    fn sealed(&mut self, from: NodeId, to: NodeId, message: &Message) -> Vec<u8> {
        let keys = Keys::of_cluster(&self.key);
        let mut guard = Guard::new(from, Incarnation(u32::MAX), Some(keys));
        let mut bytes = Vec::new();
        guard.emit(to, Origin::PROVEN, &mut message.clone(), &mut bytes);
        bytes
    }
}
