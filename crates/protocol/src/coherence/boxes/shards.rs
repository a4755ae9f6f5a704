//! A box of several cores: one machine for each, which has the keys of its hashes alone, and what these *shards* tell each other.
//!
//! ```text
//!                    ┌─ shard 0: hashes of its groups, and what has no key ─┐ Heard: a flush, a table, an answer to a round of theirs
//!  datagram, by hash ┼─ shard 1                                            ◀┤
//!                    └─ shard 2                                            ◀┘──▶ shard 0: Dropped, Goes
//! ```
//! A shard is a box that never sees other keys. [`Sharing`] stands before its machine: it says what the machine is to hear, and takes out of what the
//! machine says what is not to be sent. Whoever drives shards takes what they tell each other ([`Asides`]) to the shard that is named, in the order in which
//! it was told, and may lose some: a bounded queue. What is lost is told again, when whoever asked asks again.
//!
//! Invariants:
//! 1. A packet with a key is heard by the shard of its hash, or by none; one without a key by shard 0, or by none.
//! 2. An INVALIDATE without a key is answered when all shards have answered it, each as a box of its own.
//! 3. No two shards of a box give the same number to a round or token: they count in steps of [`Shard::MOST`]. So an answer that has no key finds its shard.
//!
//! Shape: a hash's lowest six bits are its *group*, and groups go to shards in turn. They are the first byte of the hash on the wire, and the same bits
//! choose buckets of a faster tier's table, so that each bucket has one writer.
//!
//! Signs of life are those of all: shard 0 has the others hear each heartbeat, and answers none while one of them has not answered the last
//! `MOST_MISSED`, so that a box of which a core stands still is taken for dead. It says as *left* (a box that is drained) what all of them have left.
//!
//! Bounds: `MOST_FLUSHES` flushes that are not answered yet; the oldest is forgotten, and asked for again.

mod divided;

pub use divided::Divided;

use super::super::rounds::Target;
use super::super::{NodeId, Out, Planted};
use super::invalidate::answer;
use crate::planted::{Bugs, NoBugs};
use crate::wire::{Control, Epoch, HASH_AT, HomeId, KeyHash, Message, Opcode, Round};
use std::collections::VecDeque;

/// Flushes that are not answered by all shards yet.
const MOST_FLUSHES: usize = 64;

/// Heartbeats that a shard may leave unanswered: rings lose some, and the answer to the last is under way.
const MOST_MISSED: u8 = 4;

/// Which of a box's shards: `index` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    index: u8,
    of: u8,
}

impl Shard {
    /// A box that is not divided.
    pub const WHOLE: Shard = Shard { index: 0, of: 1 };
    /// Shards that a box may have.
    pub const MOST: u8 = 8;
    /// Groups of hashes that are divided among shards.
    pub const GROUPS: u8 = 64;
    /// Bits of a hash that choose its group.
    pub const GROUP_BITS: u32 = Shard::GROUPS.ilog2();

    /// All shards of a box that has so many.
    ///
    /// # Panics
    /// If it has none, or more than [`Shard::MOST`].
    pub fn all(of: u8) -> impl ExactSizeIterator<Item = Shard> {
        assert!((1..=Shard::MOST).contains(&of), "a box has 1 to {} shards", Shard::MOST);
        (0..of).map(move |index| Shard { index, of })
    }

    /// From 0.
    pub const fn index(self) -> u8 {
        self.index
    }

    /// How many there are.
    pub const fn of(self) -> u8 {
        self.of
    }

    /// Of so many shards the one that has keys with this hash.
    pub const fn of_hash(hash: KeyHash, of: u8) -> u8 {
        (hash.0 as u8 % Shard::GROUPS) % of
    }

    /// Of so many shards the one that a datagram is for, as whoever hands datagrams out sees it: what is too short for a packet goes to the first.
    pub fn of_datagram(bytes: &[u8], of: u8) -> u8 {
        bytes.get(HASH_AT).map_or(0, |byte| (byte % Shard::GROUPS) % of)
    }

    /// Whether it has the keys of a group: the hashes, or buckets, whose lowest bits are these.
    pub const fn has_group(self, low_bits: usize) -> bool {
        (low_bits % Shard::GROUPS as usize) % self.of as usize == self.index as usize
    }

    /// Of so many places of a whole box, its share.
    pub const fn share(self, places: usize) -> usize {
        let share = places.div_ceil(self.of as usize);
        if share == 0 { 1 } else { share }
    }

    /// From the first number that a whole box would give: its first, and the step from one to the next.
    pub(super) const fn numbers(self, first: u64) -> (u64, u64) {
        if self.of == 1 { (first, 1) } else { (first + self.index as u64, Shard::MOST as u64) }
    }

    /// Whose a round is: the upper half of its number is the box's incarnation, and the count begins with 1.
    const fn of_round(round: Round) -> u8 {
        (round.0.wrapping_sub(1) % Shard::MOST as u64) as u8
    }
}

/// What one shard tells another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Aside {
    /// By shard 0: what arrived there and is for the other's machine.
    Heard {
        /// Who sent it.
        from: NodeId,
        /// What it says.
        message: Box<Message>,
    },
    /// To shard 0: nothing of a home is left here, as a round of `asker` wanted.
    Dropped {
        /// Who asked.
        asker: NodeId,
        /// Whose keys.
        home: HomeId,
        /// In which round.
        round: Round,
    },
    /// To shard 0: it runs.
    Goes {
        /// The table that it goes by.
        epoch: Epoch,
        /// What it has left, if it is being drained.
        left: u64,
    },
}

/// What shard 0 knows of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Other {
    /// Heartbeats since it was heard.
    missed: u8,
    /// What it said that it has left.
    left: u64,
}

/// What is to be told, each with the index of the shard that is to hear it.
pub type Asides = Vec<(u8, Aside)>;

/// A flush that not all shards have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flush {
    asker: NodeId,
    home: HomeId,
    round: Round,
    /// Shards that have not answered, as bits.
    missing: u8,
}

/// What stands before a shard's machine. Of a whole box it lets everything through.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharing<B = NoBugs> {
    shard: Shard,
    flushes: VecDeque<Flush>,
    /// The last that arrived, and who has not said that he goes by it.
    table: Option<(NodeId, Message)>,
    untold: u8,
    /// By index; the first is not looked at.
    others: [Other; Shard::MOST as usize],
    strays: u64,
    planted: B,
}

impl Sharing {
    /// Of a shard.
    pub fn new(shard: Shard) -> Sharing {
        Sharing::with_bugs(shard, NoBugs)
    }
}

impl<B: Bugs<Planted>> Sharing<B> {
    /// The same, with mistakes made on purpose.
    pub fn with_bugs(shard: Shard, planted: B) -> Sharing<B> {
        Sharing {
            shard,
            flushes: VecDeque::new(),
            table: None,
            untold: 0,
            others: Default::default(),
            strays: 0,
            planted,
        }
    }

    /// Which it is.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Packets that were for another shard.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Whether a packet came to a wrong shard: those are as good as lost.
    pub fn is_stray(&self, message: &Message) -> bool {
        let index = if message.key.is_empty() { 0 } else { Shard::of_hash(message.hash(), self.shard.of) };
        index != self.shard.index && !self.planted.has(Planted::StrayServed)
    }

    /// Takes a packet that arrived. `machine` hears it, if it is for this shard's.
    pub fn handle(
        &mut self,
        (from, message): (NodeId, &Message),
        out: &mut Out,
        asides: &mut Asides,
        machine: impl FnOnce(NodeId, &Message, &mut Out),
    ) {
        if self.shard.of == 1 {
            return machine(from, message, out);
        }
        if self.is_stray(message) {
            self.strays += 1;
            return;
        }
        if message.key.is_empty() && !self.direct(from, message, asides) {
            return;
        }
        self.act(out, asides, |out| machine(from, message, out));
    }

    /// Takes what shard `by` tells. `machine` hears what arrived there.
    pub fn hear(
        &mut self,
        by: u8,
        aside: Aside,
        out: &mut Out,
        asides: &mut Asides,
        machine: impl FnOnce(NodeId, &Message, &mut Out),
    ) {
        match aside {
            Aside::Heard { from, message } => self.act(out, asides, |out| machine(from, &message, out)),
            Aside::Dropped { asker, home, round } => self.dropped(by, (asker, home, round), out),
            Aside::Goes { epoch, left } => {
                self.others[usize::from(by)] = Other { missed: 0, left };
                if self.table.as_ref().is_some_and(|(_, table)| table.header.epoch <= epoch) {
                    self.untold &= !bit(by);
                }
            }
        }
    }

    /// Has the machine do something, and takes out of what it says what is not to be sent.
    pub fn act(&mut self, out: &mut Out, asides: &mut Asides, machine: impl FnOnce(&mut Out)) {
        let before = out.len();
        machine(out);
        if self.shard.of == 1 {
            return;
        }
        let is_first = self.shard.index == 0;
        let is_held = |message: &Message| match message.header.opcode {
            Opcode::Control(Control::InvalidateAck) => message.key.is_empty(),
            Opcode::Control(Control::TableAck | Control::HeartbeatAck) => !is_first || self.stands_still(),
            _ => false,
        };
        let held: Vec<_> = out.extract_if(before.., |(_, message)| is_held(message)).collect();
        for (to, message) in held {
            let header = &message.header;
            match header.opcode {
                Opcode::Control(Control::InvalidateAck) if is_first => {
                    self.dropped(0, (to, header.home, header.round), out);
                }
                Opcode::Control(Control::InvalidateAck) => {
                    asides.push((0, Aside::Dropped { asker: to, home: header.home, round: header.round }));
                }
                _ if is_first => {}
                _ => asides.push((0, Aside::Goes { epoch: header.epoch, left: header.operand })),
            }
        }
        if is_first {
            out[before..].iter_mut().for_each(|(_, message)| self.add_left(message));
        }
    }

    /// Whether another shard has not answered for too long.
    pub fn stands_still(&self) -> bool {
        self.named_others().any(|other| other.missed > MOST_MISSED)
    }

    /// To a sign of life, what the others have left; something, while one of them has not said that it goes by the table.
    fn add_left(&self, message: &mut Message) {
        if matches!(message.header.opcode, Opcode::Control(Control::TableAck | Control::HeartbeatAck)) {
            let others: u64 = self.named_others().map(|other| other.left).sum();
            message.header.operand += others + u64::from(self.untold.count_ones());
        }
    }

    fn named_others(&self) -> impl Iterator<Item = &Other> {
        self.others[1..usize::from(self.shard.of)].iter()
    }

    /// What has no key, at shard 0: tells others of it where it is for them; whether it is for this shard's machine.
    fn direct(&mut self, from: NodeId, message: &Message, asides: &mut Asides) -> bool {
        match message.header.opcode {
            Opcode::Control(Control::Invalidate) => {
                let missing = self.flush(from, message);
                self.tell(missing & !bit(0), from, message, asides);
                // Also where this shard has answered: it does so again, and that is heard once.
                true
            }
            Opcode::Control(Control::InvalidateAck) => {
                let whose = Shard::of_round(message.header.round);
                if whose > 0 && whose < self.shard.of {
                    self.tell(bit(whose), from, message, asides);
                }
                whose == 0
            }
            Opcode::Control(Control::Table) => {
                let known = self.table.as_ref().map(|(_, table)| table.header.epoch);
                if known.is_none_or(|known| known < message.header.epoch) {
                    self.table = Some((from, message.clone()));
                    self.untold = self.other_bits();
                }
                self.tell_table(asides);
                true
            }
            Opcode::Control(Control::Heartbeat) => {
                self.tell_table(asides);
                let others = self.other_bits();
                for other in &mut self.others[1..usize::from(self.shard.of)] {
                    other.missed = other.missed.saturating_add(1);
                }
                self.tell(others, from, message, asides);
                true
            }
            _ => true,
        }
    }

    /// Who has not answered a flush.
    fn flush(&mut self, from: NodeId, message: &Message) -> u8 {
        let header = &message.header;
        if !matches!(from, NodeId::Home(_) | NodeId::Box(_)) {
            return 0;
        }
        let is_it =
            |flush: &&Flush| (flush.asker, flush.home, flush.round) == (from, header.home, header.round);
        if let Some(flush) = self.flushes.iter().find(is_it) {
            return flush.missing;
        }
        if self.flushes.len() == MOST_FLUSHES {
            self.flushes.pop_front();
        }
        let alone = self.planted.has(Planted::FlushByOneShard);
        let missing = if alone { bit(0) } else { self.other_bits() | bit(0) };
        self.flushes.push_back(Flush { asker: from, home: header.home, round: header.round, missing });
        missing
    }

    /// A shard has answered a flush. When it is the last, so does the box.
    fn dropped(&mut self, by: u8, (asker, home, round): (NodeId, HomeId, Round), out: &mut Out) {
        let is_it = |flush: &Flush| (flush.asker, flush.home, flush.round) == (asker, home, round);
        let Some(at) = self.flushes.iter().position(is_it) else { return };
        self.flushes[at].missing &= !bit(by);
        if self.flushes[at].missing == 0 {
            self.flushes.remove(at);
            out.push((asker, answer(&Target { home, key: Vec::new() }, round)));
        }
    }

    fn tell_table(&self, asides: &mut Asides) {
        if let Some((from, table)) = &self.table {
            self.tell(self.untold, *from, table, asides);
        }
    }

    fn tell(&self, whom: u8, from: NodeId, message: &Message, asides: &mut Asides) {
        let named = (0..self.shard.of).filter(|index| whom & bit(*index) != 0);
        asides.extend(named.map(|index| (index, Aside::Heard { from, message: Box::new(message.clone()) })));
    }

    /// All shards but the first.
    fn other_bits(&self) -> u8 {
        (1..self.shard.of).map(bit).fold(0, |all, one| all | one)
    }
}

const fn bit(index: u8) -> u8 {
    1 << index
}

#[cfg(test)]
mod tests;
