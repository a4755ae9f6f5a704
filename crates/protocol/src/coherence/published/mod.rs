//! The protocol as it was published, to show what it leaves open, and to have its measurements repeated: boxes keep whatever reply passes, the home knows
//! sharers by their source address, and counts the answers to a write's invalidations. No tokens, no leases, no queue of writes.
//!
//! ```text
//!  GET   client → ToR → … → home   any box that has the key answers; else the home notes the client, and every box on the
//!                                  way back keeps the reply
//!  SET   client → ToR → … → home   an INVALIDATE along the way to each client noted; boxes on it drop the key, the last one
//!                                  answers; when all have, the home stores, forgets its notes, and answers
//!  INCR, COND_PUT, …               a box that has the key computes on it, answers, and sends the result to the home (RETURN);
//!                                  else the home does it, as a SET
//! ```
//!
//! | file | what |
//! |---|---|
//! | [`boxes`], [`lfu`] | a box, and the table of what it keeps |
//! | [`home`], [`client`] | the other two |
//!
//! For scenarios, simulations and the model's experiments only (`plan::timed::incbricks`). Lost messages are not sent again here: what goes wrong goes wrong
//! without loss. Single path (the way that [`Table::designated`] names). What the paper leaves open and is decided here: the answer to an invalidation goes
//! back through the boxes on its way, which do nothing with it; each sharer's address is asked by a message of its own (G8 of the paper's review); what a box
//! computed is told to the home behind the client's back, and to nobody else (G5); a home's answers to writes go back over the boxes, as all replies.
//!
//! Source: IncBricks (ASPLOS 2017), sections 4.2.1, 4.3, 4.7, figure 5.

pub mod boxes;
pub mod client;
pub mod home;
pub mod lfu;
#[cfg(test)]
mod tests;

use super::compute::{self, Effect, Item, Operation, Outcome};
use super::table::{Layout, Table};
use super::{NodeId, Out};
use crate::wire::{BoxId, ClientId, HomeId, KeyHash, Message, Verb, key_hash};
use base::hash::{Hasher64, WIRE_SEED};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

pub use boxes::PublishedBox;
pub use client::PublishedClient;
pub use home::PublishedHome;

/// Where clients are: what a network's addresses say. One that is not in here is below no box, and asks homes.
pub type Places = Arc<BTreeMap<ClientId, BoxId>>;

/// The way between a client and the home of a key.
#[derive(Clone, Debug)]
struct Ways {
    layout: Arc<Layout>,
    /// Designated boxes of each client's ToR, by slot.
    designated: BTreeMap<ClientId, Arc<[Box<[BoxId]>]>>,
}

impl Ways {
    fn new(layout: Arc<Layout>, clients: &Places) -> Ways {
        let table = Table::first(Arc::clone(&layout));
        // The least hash of each slot.
        let hash = |slot: usize| KeyHash(((slot as u64) << 32).div_euclid(layout.slots() as u64) as u32);
        let of_tor = |tor: BoxId| -> Arc<[Box<[BoxId]>]> {
            (0..layout.slots()).map(|slot| table.designated(tor, hash(slot)).into()).collect()
        };
        let tors: BTreeMap<BoxId, _> = clients.values().map(|tor| (*tor, of_tor(*tor))).collect();
        let designated = clients.iter().map(|(client, tor)| (*client, Arc::clone(&tors[tor]))).collect();
        Ways { layout, designated }
    }

    /// From the client's box to the home's.
    fn of(&self, client: ClientId, key: &[u8]) -> &[BoxId] {
        self.designated.get(&client).map_or(&[], |ways| &ways[self.layout.slot_of(key_hash(key))])
    }

    /// Towards the client: the box before `here`, or itself.
    fn down(&self, here: Option<BoxId>, client: ClientId, key: &[u8]) -> NodeId {
        let before = self.of(client, key).iter().take_while(|id| Some(**id) != here).last();
        before.map_or(NodeId::Client(client), |id| NodeId::Box(*id))
    }

    /// Towards the home: the box after `here`, the client's own if that is none, or the home itself.
    fn up(&self, here: Option<BoxId>, client: ClientId, (key, home): (&[u8], HomeId)) -> NodeId {
        let way = self.of(client, key);
        let after = here.map_or(0, |id| way.iter().take_while(|other| **other != id).count() + 1);
        way.get(after).map_or(NodeId::Home(home), |id| NodeId::Box(*id))
    }
}

/// A table by keys that is never iterated: hashed as all keys of the house are, which is a fraction of what the standard hash takes.
type ByKey<K, V> = HashMap<K, V, BuildHasherDefault<KeyHasher>>;

/// See [`ByKey`].
#[derive(Clone, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        const HASH: Hasher64 = Hasher64::new(WIRE_SEED);
        self.0 = self.0.rotate_left(5) ^ HASH.hash(bytes);
    }

    fn write_usize(&mut self, _: usize) {
        // A key's length: its hash has that.
    }
}

/// Whether a box that has the key does it.
const fn computes(verb: Verb) -> bool {
    matches!(verb, Verb::Incr | Verb::Decr | Verb::CondPut | Verb::Min | Verb::Max | Verb::Or)
}

/// What a request of this verb does to an item, and what is answered to it.
fn done(verb: Verb, request: &Message, item: Option<&Item>) -> (Outcome, Message) {
    let outcome = compute::apply(&Operation::of(verb, request), item);
    let mut reply = request.reply(outcome.status);
    reply.header.operand = outcome.number;
    (outcome, reply)
}

/// Sends an item along as a reply's.
fn show(item: &Item, reply: &mut Message) {
    reply.value.clone_from(&item.value);
    reply.header.kind = item.kind;
    reply.header.item_flags = item.flags;
    reply.header.version = item.version;
}
