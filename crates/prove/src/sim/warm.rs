//! Homes that are nodes whose memory outlives them (`millrace up -e`): how they end, and what becomes of their memory until they begin again.
//!
//! ```text
//!  crash ─┬─ killed ──────────────────▶ "in use" ──▶ cold: all is lost
//!         └─ in order ─▶ left ─┬─ as it was ───────▶ warm: nothing is lost but what boxes own
//!                              └─ spoilt ──────────▶ cold: all is lost
//!  begin ─── first, perhaps, in a wrong way ───────▶ refused ──▶ again, rightly
//! ```
//! Spoilt is cut, changed by a bit, or another version's. Wrong is while another process has it, with a copy of another home's, or as a home that never ran.
//! Files, what is in them and who believes it are those of servers ([`store::warm`], by [`serve::kv::machine`]); here is only who does what to them when.
//! What is drawn has streams of its own.
//!
//! What must hold: where memory is as it was left, nothing of it is missing, nothing is older than it was, versions go on; where it is not, nothing of it is
//! seen again; a home has items of its own keys alone; and what is refused has changed nothing.

use super::homes::{Behind, Homes};
use super::nodes::Machine;
use super::world::World;
use base::Prng;
use protocol::wire::HomeId;
use serve::kv::machine;
use sim::nodes::Node;
use sim::random;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::warm::{Place, Spoiled, Unnamed};

/// Bytes of memory in a life: what there is fits each.
const LIMITS: [usize; 3] = [8 << 20, 9 << 20, 12 << 20];
/// What must be so for a run to be played.
const ROOM: &str = "the system has room for files without names";

/// How a home is begun in a wrong way.
#[derive(Clone, Debug)]
enum Attempt {
    /// While another process has the memory.
    Taken,
    /// With a copy of what another home left.
    Anothers(Arc<Unnamed>),
    /// As one that never ran before.
    First,
}

/// How a home ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    /// In order; then this becomes of its memory.
    Left(Option<Spoiled>),
}

/// That of one home.
#[derive(Debug)]
struct Memory {
    files: Arc<Unnamed>,
    luck: Prng,
    /// How its last life ended.
    end: End,
    /// A copy of what it left once.
    copy: Option<Arc<Unnamed>>,
    /// What is tried first when it begins again, and then what it began with.
    attempt: Option<Attempt>,
    tried: Option<Attempt>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Memories {
    of: BTreeMap<Node, Memory>,
    /// Lives that began with what there was.
    pub handed_over: u64,
    /// Lives that did not, though there was something; and wrong ways to begin.
    pub refused: u64,
}

impl Memories {
    /// What a home begins with: memory, if in this run it outlives its process.
    pub fn behind(&mut self, node: Node, seed: u64) -> Behind<'static> {
        if random::stream(seed, 0, "memory files").below(4) == 0 {
            return Behind::Nothing;
        }
        let memory = self.of.entry(node).or_insert_with(|| Memory {
            files: Arc::new(Unnamed::new().expect(ROOM)),
            luck: random::stream(seed, u64::from(node), "memory's luck"),
            end: End::Killed,
            copy: None,
            attempt: None,
            tried: None,
        });
        memory.tried = memory.attempt.take();
        let files = match &memory.tried {
            Some(Attempt::Anothers(copy)) => copy,
            _ => &memory.files,
        };
        if let Some(Attempt::Taken) = memory.tried {
            files.set_taken(true);
        }
        let limit = LIMITS[memory.luck.below(LIMITS.len() as u64) as usize];
        let is_first = matches!(memory.tried, Some(Attempt::First));
        let place = Place::Unnamed(Arc::clone(files));
        Behind::Memory(machine::Memory { place, limit }, is_first)
    }

    /// A life begins, not the first.
    pub fn begins(&mut self, node: Node, is_warm: bool) {
        if self.of.contains_key(&node) {
            self.handed_over += u64::from(is_warm);
            self.refused += u64::from(!is_warm);
        }
    }

    /// Whether it was begun in a wrong way, so that a refusal is no surprise: the next way is right.
    pub fn is_refused(&mut self, node: Node) -> bool {
        let Some(memory) = self.of.get_mut(&node) else { return false };
        match memory.tried.take() {
            None => return false,
            Some(Attempt::Taken) => memory.files.set_taken(false),
            Some(Attempt::Anothers(_) | Attempt::First) => {}
        }
        self.refused += 1;
        true
    }

    /// Before a home ends: how it does, and what becomes of its memory. Whether all of it will be there.
    fn draw_end(&mut self, node: Node) -> bool {
        let Some(memory) = self.of.get_mut(&node) else { return false };
        let luck = &mut memory.luck;
        let spoiled = match luck.below(8) {
            0 => Some(Spoiled::OtherLayout),
            1 => Some(Spoiled::Cut),
            2 => Some(Spoiled::Bit(luck.below(1 << 16) as usize)),
            _ => None,
        };
        memory.end = if luck.below(4) == 0 { End::Killed } else { End::Left(spoiled) };
        let is_kept = memory.end == End::Left(None);
        self.draw_attempt(node);
        is_kept
    }

    /// How a home will be begun again, first.
    fn draw_attempt(&mut self, node: Node) {
        let others = self.of.iter().filter(|(other, _)| **other != node);
        let copy = others.filter_map(|(_, memory)| memory.copy.clone()).next();
        let memory = self.of.get_mut(&node).expect("it has one");
        memory.attempt = match memory.luck.below(8) {
            0 => Some(Attempt::Taken),
            1 => copy.map(Attempt::Anothers),
            2 => Some(Attempt::First),
            _ => None,
        };
    }
}

impl World<'_> {
    /// Before a home ends: how it does. Whether its next life will have all that it has.
    pub(super) fn draw_end(&mut self, node: Node) -> bool {
        self.places[node as usize].machine.is_some() && self.served.memories.draw_end(node)
    }

    /// A home ends, in order perhaps, and something becomes of its memory.
    pub(super) fn home_ends(&mut self, node: Node, id: HomeId, is_kept: bool) {
        if self.script.homes == Homes::Cache && self.places[node as usize].machine.is_none() {
            return;
        }
        self.home_loses_all(node, id, is_kept);
        let memory = self.served.memories.of.get_mut(&node);
        match memory.as_ref().map(|memory| memory.end) {
            _ if is_kept => {}
            // Where there were no items nothing is cut, and the next life may go on with the flush.
            Some(End::Left(Some(Spoiled::Cut))) => self.served.flushes.is_replaced(node),
            _ => self.served.flushes.is_lost(node),
        }
        let Some(memory) = memory else { return };
        let place = &mut self.places[node as usize];
        let now = place.clock.read(self.queue.now());
        let End::Left(spoiled) = memory.end else { return };
        let Some(Machine::Home(home)) = place.machine.take() else { return };
        home.leave(now);
        if memory.luck.below(2) == 0 {
            memory.copy = Some(Arc::new(memory.files.copy().expect(ROOM)));
        }
        if let Some(how) = spoiled {
            memory.files.spoil(how).expect(ROOM);
        }
        self.note(|names| {
            let what = spoiled.map_or("nothing".to_owned(), |how| format!("{how:?}"));
            format!("{:<13} ends in order and leaves its memory, of which becomes: {what}", names.name(node))
        });
    }

    /// A home has begun, not for the first time: it may have gone on with memory, and has items of its own keys alone.
    pub(super) fn look_at_memory(&mut self, node: Node) {
        if self.script.homes != Homes::Cache {
            return;
        }
        let now = self.places[node as usize].clock.read(self.now());
        let Some(Machine::Home(home)) = &mut self.places[node as usize].machine else { return };
        let is_warm = home.node_mut().is_some_and(|machine| machine.began_warm());
        self.served.memories.begins(node, is_warm);
        let others = self.watch.keys_of_others(node).find(|key| home.peek(key, now).is_some()).cloned();
        if let Some(key) = others {
            let what =
                format!("{} has {}, which is another home's", self.numbers.name(node), key.escape_ascii());
            self.broken(what, &key);
        }
        self.owes_flush(node);
        if is_warm {
            self.note(|names| format!("{:<13} goes on with its memory", names.name(node)));
        }
    }
}
