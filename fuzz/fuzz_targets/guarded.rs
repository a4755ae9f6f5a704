//! What the in-network cache promises of packets to nodes with keys, held against what a stranger without them sends: `coherence_hostile`.
//!
//! 1. Whatever is heard as sealed was sealed by whom it names, to whom it reached, and is heard once.
//! 2. A home has the items that the client asked for: nothing that a stranger wrote, by whatever way, and nothing that he removed is gone.
//! 3. A stranger is answered with no more bytes than he sent.
//!
//! Each is seen to be looked at: `MILLRACE_PLANTED=plain-writes` (or another mistake of a guard, `protocol::coherence::planted`) is found.

use base::Nanos;
use base::key::Key;
use protocol::coherence::client::Call;
use protocol::coherence::compute::Item;
use protocol::coherence::guard::{Guard, Keys, Refusal, Source};
use protocol::coherence::home::items::{Items, Tree};
use protocol::coherence::{NodeId, Planted};
use protocol::wire::{Flags, Incarnation, Message, Opcode, Origin, Packet, Proof, Verb, Version, length};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// What the client asks for.
pub const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

/// The guards of all nodes and of the client.
pub struct Guards {
    guards: BTreeMap<NodeId, Guard<Option<Planted>>>,
    /// With a key that is not the cluster's.
    stranger: Keys,
    /// Packets as far as they are sealed, and for whom; until they are heard.
    sealed: BTreeSet<(NodeId, Vec<u8>)>,
}

impl Guards {
    pub fn new(nodes: &[NodeId]) -> Guards {
        let key = Key::new([7; 16]);
        let planted = std::env::var("MILLRACE_PLANTED").ok();
        let planted = planted.map(|name| Planted::from_name(&name).expect("a mistake's name"));
        let guard = |me: NodeId| {
            let (life, keys) = match me {
                NodeId::Client(_) => (0, Keys::of_client(Keys::client_key(&key))),
                _ => (1, Keys::of_cluster(&key)),
            };
            Guard::with_bugs(me, Incarnation(life), Some(keys), planted)
        };
        Guards {
            guards: nodes.iter().map(|node| (*node, guard(*node))).collect(),
            stranger: Keys::of_cluster(&Key::new([8; 16])),
            sealed: BTreeSet::new(),
        }
    }

    /// What `from`, which is one of us, says to `to`; nothing to a client whose address it does not know.
    pub fn emit(&mut self, from: NodeId, to: NodeId, mut message: Message) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let room = message.header.origin.map_or(0, |origin| origin.room);
        if let NodeId::Client(_) = to {
            message.header.origin.take()?;
        }
        if goes_plainly(from, &message) {
            message.emit(&mut bytes);
            return Some(bytes);
        }
        self.guards.get_mut(&from).expect("one of us").emit(to, room, &mut message, &mut bytes);
        if let NodeId::Client(_) = to {
            assert!(
                bytes.len() <= room as usize,
                "{} bytes for {room} of a stranger: {message:?}",
                bytes.len()
            );
        }
        if let Some(sealed) = sealed_part(&bytes) {
            self.sealed.insert((to, sealed));
        }
        Some(bytes)
    }

    /// What somebody without the cluster's key makes of a message, in the name of `from`.
    pub fn forge(&self, from: NodeId, to: NodeId, mut message: Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut guard = Guard::new(from, Incarnation(u32::MAX), Some(self.stranger.clone()));
        guard.emit(to, Origin::PROVEN, &mut message, &mut bytes);
        bytes
    }

    /// What `to` hears of bytes from the address of `from`.
    ///
    /// # Errors
    /// What is answered instead of hearing it, if anything is.
    pub fn open(
        &mut self,
        from: NodeId,
        to: NodeId,
        bytes: &[u8],
    ) -> Result<(NodeId, Message), Option<Message>> {
        let Some(guard) = self.guards.get_mut(&to) else { return Err(None) };
        let node = (!matches!(from, NodeId::Client(_))).then_some(from);
        let source = Source { node, origin: Origin::new(SocketAddr::from(([10, 0, 0, 1], 99))) };
        match guard.open(bytes, source) {
            Ok(heard) => {
                if let Some(sealed) = sealed_part(bytes) {
                    assert!(
                        self.sealed.remove(&(to, sealed)),
                        "{to:?} believes what nobody sealed, or again: {heard:?}"
                    );
                }
                Ok(heard)
            }
            Err(Refusal::Answered(reply)) => {
                assert!(reply.length() <= bytes.len(), "a refusal is longer than what it refuses");
                Err(Some(*reply))
            }
            Err(_) => Err(None),
        }
    }
}

/// Some reads of the client go without a seal.
fn goes_plainly(from: NodeId, message: &Message) -> bool {
    let header = &message.header;
    let is_read = header.opcode == Opcode::Request(Verb::Get) && header.flags == Flags::NONE;
    matches!(from, NodeId::Client(_)) && is_read && header.operation.0 % 3 == 0
}

/// What somebody who saw a packet makes of it: the same without its seal, or a write in its place.
pub fn stolen(bytes: &[u8], as_write: bool) -> Vec<u8> {
    let Ok(packet) = Packet::parse(bytes) else { return bytes.to_vec() };
    let mut message = packet.to_message();
    message.proof = None;
    if as_write && !message.key.is_empty() && matches!(message.header.opcode, Opcode::Request(_)) {
        message.header.opcode = Opcode::Request(Verb::Set);
        message.value = b"666".to_vec();
    }
    let mut stolen = Vec::new();
    message.emit(&mut stolen);
    stolen
}

/// A packet with its proof: what follows says nothing.
fn sealed_part(bytes: &[u8]) -> Option<Vec<u8>> {
    let packet = Packet::parse(bytes).ok()?;
    packet.proof()?;
    Some(bytes[..length(packet.key().len(), packet.value().len()) + Proof::BYTES].to_vec())
}

/// What the client asked to be done to a key.
#[derive(Default)]
struct Asked {
    written: BTreeSet<u64>,
    added: u64,
    removed: bool,
}

/// What may be in a home.
#[derive(Default)]
pub struct Promise {
    asked: BTreeMap<Vec<u8>, Asked>,
    there: BTreeSet<Vec<u8>>,
}

impl Promise {
    /// The client asks for this.
    pub fn note(&mut self, call: &Call, number: u64) {
        let asked = self.asked.entry(call.key.clone()).or_default();
        match call.verb {
            Verb::Set | Verb::CondPut => _ = asked.written.insert(number),
            Verb::Incr => asked.added += number,
            Verb::Delete => asked.removed = true,
            _ => {}
        }
    }

    /// Looks at a home. `may_lose`: keys go away from it for other reasons than that the client wants it.
    pub fn check(&mut self, home: &Watched, may_lose: bool) {
        for key in KEYS {
            let asked = self.asked.entry(key.to_vec()).or_default();
            let Some(item) = home.tree.peek(key) else {
                let was_there = self.there.remove(key);
                assert!(!was_there || asked.removed || may_lose, "{key:?} is gone, and nobody removed it");
                continue;
            };
            self.there.insert(key.to_vec());
            let number = str::from_utf8(&item.value).ok().and_then(|text| text.parse::<u64>().ok());
            let highest = asked.written.last().unwrap_or(&0) + asked.added;
            let is_asked = number.is_some_and(|number| match asked.added {
                0 => asked.written.contains(&number),
                _ => number <= highest,
            });
            // Nothing added to nothing is 0.
            assert!(is_asked || number == Some(0), "{key:?} is {item:?}, for which nobody asked");
        }
    }
}

/// A home's store.
pub struct Watched {
    tree: Tree,
    /// Only what the client asks for may come here.
    is_guarded: bool,
}

impl Watched {
    pub fn new(capacity: usize, is_guarded: bool) -> Watched {
        Watched { tree: Tree::new(capacity), is_guarded }
    }
}

impl Items for Watched {
    fn read(&mut self, key: &[u8], now: Nanos) -> Option<Item> {
        self.tree.read(key, now)
    }

    fn store(&mut self, key: &[u8], item: Item) -> bool {
        assert!(!self.is_guarded || KEYS.contains(&key), "{key:?} comes into a home, and nobody asked");
        self.tree.store(key, item)
    }

    fn remove(&mut self, key: &[u8]) {
        self.tree.remove(key);
    }

    fn clear(&mut self) {
        assert!(!self.is_guarded, "a home is flushed, and nobody asked");
        self.tree.clear();
    }

    fn begin_versions(&mut self, last: Version) {
        self.tree.begin_versions(last);
    }

    fn take_versions(&mut self, count: u64) -> Version {
        self.tree.take_versions(count)
    }
}
