//! A box with its shards in one value, for simulations: who has it takes what they tell each other to whom it is for, when he likes.

use super::super::super::{NodeId, Out, Planted};
use super::super::Box;
use super::super::copies::Kept;
use super::super::lent::{Fronted, Model};
use super::{Aside, Asides, Shard, Sharing};
use crate::planted::{Bugs, NoBugs};
use crate::wire::{BoxId, Message};
use base::Nanos;

/// See the head of the file.
#[derive(Clone, Debug)]
pub struct Divided<B = NoBugs> {
    pub(super) shards: Vec<(Sharing<B>, Fronted<B>)>,
    /// By whom, for whom.
    told: Vec<(u8, u8, Aside)>,
    /// Empty, but for its memory.
    asides: Asides,
}

impl<B: Bugs<Planted>> Divided<B> {
    /// Of so many shards, each as `machine` is now, with a tier before it if `has_tiers`.
    pub fn new(machine: &Box<B>, of: u8, has_tiers: bool) -> Divided<B> {
        let planted = &machine.planted;
        let shards = Shard::all(of).map(|shard| {
            let tier = has_tiers.then(|| Model::with_bugs(planted.clone()));
            let machine = Fronted::new(machine.clone().as_shard(shard), tier);
            (Sharing::with_bugs(shard, planted.clone()), machine)
        });
        Divided { shards: shards.collect(), told: Vec::new(), asides: Asides::new() }
    }

    /// How many shards.
    pub fn of(&self) -> u8 {
        self.shards.len() as u8
    }

    /// Whether a packet that shard `at` hears is for another.
    pub fn is_stray(&self, at: u8, message: &Message) -> bool {
        self.shards.len() > 1 && self.shards[usize::from(at)].0.is_stray(message)
    }

    /// Shard `at` takes a message that arrived.
    pub fn handle(&mut self, at: u8, now: Nanos, (from, message): (NodeId, &Message), out: &mut Out) {
        let (sharing, machine) = &mut self.shards[usize::from(at)];
        let hears = |from, message: &Message, out: &mut Out| machine.handle(now, from, message, out);
        sharing.handle((from, message), out, &mut self.asides, hears);
        self.note(at);
    }

    /// Serves what is due in any of them.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        for at in 0..self.of() {
            let (sharing, machine) = &mut self.shards[usize::from(at)];
            sharing.act(out, &mut self.asides, |out| machine.tick(now, out));
            self.note(at);
        }
    }

    /// When it wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        self.shards.iter().map(|(_, machine)| machine.next_deadline()).min().unwrap_or(Nanos::MAX)
    }

    /// What they told each other since it was asked last: by whom, for whom, what. In this order for each of both.
    pub fn take_asides(&mut self) -> Vec<(u8, u8, Aside)> {
        std::mem::take(&mut self.told)
    }

    /// Shard `at` hears what shard `by` told it.
    pub fn hear(&mut self, (by, at): (u8, u8), aside: Aside, now: Nanos, out: &mut Out) {
        let (sharing, machine) = &mut self.shards[usize::from(at)];
        let hears = |from, message: &Message, out: &mut Out| machine.handle(now, from, message, out);
        sharing.hear(by, aside, out, &mut self.asides, hears);
        self.note(at);
    }

    /// The machines.
    pub fn shards(&self) -> impl Iterator<Item = &Box<B>> {
        self.shards.iter().map(|(_, machine)| &**machine)
    }

    /// Its name.
    pub fn id(&self) -> BoxId {
        self.shards[0].1.id()
    }

    /// Copies that are there, also those that are over.
    pub fn copies(&self) -> impl Iterator<Item = &Kept> {
        self.shards().flat_map(Box::copies)
    }

    /// What it would answer at `now` as owner of a key.
    pub fn owned(&self, key: &[u8], now: Nanos) -> Option<&Kept> {
        self.shards().find_map(|machine| machine.owned(key, now))
    }

    fn note(&mut self, by: u8) {
        self.told.extend(self.asides.drain(..).map(|(at, aside)| (by, at, aside)));
    }
}
