//! Flushes that are still to come (`flush_all 1`) at homes that are nodes and lose their items: in a third of these runs each home has one put off, and a
//! second of the wall clock begins there meanwhile.
//!
//! ```text
//!  ask ─▶ OK ··▶ the second begins ─▶ a flush of every key is called ··▶ the node has read its clock, and had time ─▶ it returns
//! ```
//! Nobody may see after its return what was there before its call. Where the home dies in between it depends on its memory: with that the flush is lost,
//! and nothing is called any more; else the next life owes it. Where memory was cut that had no items, or another
//! flush has been asked for, which replaces it, it is called and has no return.

use super::clock::Clock;
use super::homes::Homes;
use super::nodes::{Numbers, Role};
use super::record::WORLD;
use super::script::Script;
use super::world::{Happening, World};
use base::Picos;
use protocol::coherence::client::Call;
use protocol::memcache::client::Expect;
use sim::kv::{self, Op, Ret};
use sim::nodes::Node;
use sim::random;
use std::collections::BTreeMap;

/// A node looks at the wall clock at least so often, if it is called.
const WALL_CLOCK: Picos = Picos::from_micros(51_000);

/// That of one home.
#[derive(Clone, Copy, Debug)]
pub struct PutOff {
    /// Of which.
    pub node: Node,
    /// When it is asked for.
    pub at: Picos,
    /// When it is due.
    pub due: Picos,
}

/// What happens to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is asked for.
    Ask,
    /// Its second begins.
    Due,
    /// In this life: its node has looked at its clock.
    Look(u32),
    /// In this life: its node has had time for it.
    Over(u32),
}

/// Those of a script.
pub fn draw(seed: u64, numbers: &Numbers, until: Picos, homes: Homes) -> Vec<PutOff> {
    let mut random = random::stream(seed, 0, "flushes put off");
    if homes != Homes::Cache || random.below(3) > 0 {
        return Vec::new();
    }
    let mut draw = |node| {
        let due = Picos(until.0 / 4 + random.below(until.0 / 2));
        PutOff { node, at: Picos(1 + random.below(due.0 - 1)), due }
    };
    numbers.homes().map(&mut draw).collect()
}

/// A node's clock, by which a second begins when its flush is due.
pub fn clock(script: &Script, node: Node, clock: Clock) -> Clock {
    let put_off = script.flushes.iter().find(|put_off| put_off.node == node);
    put_off.map_or(clock, |put_off| clock.with_second_at(put_off.due))
}

/// What became of one.
#[derive(Debug)]
struct Asked {
    /// In the record, by key, since it is due.
    numbers: Vec<usize>,
    /// Nothing has replaced it.
    is_sure: bool,
}

/// Those that were asked for and not lost.
#[derive(Debug, Default)]
pub struct Flushes(BTreeMap<Node, Asked>);

impl Flushes {
    /// A home is asked for another flush, and may do it; or it ends, and may have forgotten this one.
    pub fn is_replaced(&mut self, node: Node) {
        if let Some(asked) = self.0.get_mut(&node) {
            asked.is_sure = false;
        }
    }

    /// A home ends, and nothing of it is left.
    pub fn is_lost(&mut self, node: Node) {
        self.0.remove(&node);
    }
}

impl World<'_> {
    /// What the script says of flushes is to happen.
    pub(super) fn plan_flushes(&mut self) {
        for put_off in &self.script.flushes {
            self.queue.push(put_off.at, put_off.node, Happening::PutOff(Step::Ask));
            self.queue.push(put_off.due, put_off.node, Happening::PutOff(Step::Due));
        }
    }

    pub(super) fn put_off(&mut self, node: Node, step: Step) {
        let life = self.places[node as usize].life;
        let is_up = self.places[node as usize].machine.is_some();
        match step {
            Step::Ask if is_up => self.ask_for_flush(node),
            Step::Due => {
                let Some(asked) = self.served.flushes.0.get_mut(&node) else { return };
                let now = self.queue.now();
                for key in self.watch.keys_of(node) {
                    asked.numbers.push(self.record.call(now, WORLD, key, Op::Flush { delay: None }));
                }
                self.note(|names| format!("{:<13} has a flush that is due", names.name(node)));
                self.queue.push(now.plus(WALL_CLOCK), node, Happening::PutOff(Step::Look(life)));
            }
            // As its engine does all the time.
            Step::Look(of) if is_up && of == life => {
                self.act(node, 0, None);
                let lease = self.places[node as usize].clock.real(self.script.config.lease);
                let span = self.script.bound().plus(Picos(2 * lease.0));
                self.queue.push(self.now().plus(span), node, Happening::PutOff(Step::Over(life)));
            }
            Step::Over(of) if is_up && of == life => self.flush_is_over(node),
            Step::Ask | Step::Look(_) | Step::Over(_) => {}
        }
    }

    fn ask_for_flush(&mut self, node: Node) {
        let Role::Home(home) = self.numbers.role(node) else { return };
        self.served.flushes.0.insert(node, Asked { numbers: Vec::new(), is_sure: true });
        // Nothing waits before it on a connection of its own, so that it is answered at once.
        let by = self.now().plus(self.script.bound());
        self.ask_by_text(node, (Call::flush(home), b"flush_all 1\r\n", Expect::Line), usize::MAX, Some(by));
    }

    fn flush_is_over(&mut self, node: Node) {
        let Some(asked) = self.served.flushes.0.get(&node).filter(|asked| asked.is_sure) else { return };
        let now = self.queue.now();
        for &number in &asked.numbers {
            self.record.returns(now, number, None, Ret::of(kv::Status::Ok));
        }
        self.served.flushes.is_lost(node);
        self.note(|names| format!("{:<13} must have done the flush by now", names.name(node)));
    }

    /// A home has begun, which may owe a flush since before.
    pub(super) fn owes_flush(&mut self, node: Node) {
        let life = self.places[node as usize].life;
        if self.served.flushes.0.get(&node).is_some_and(|asked| !asked.numbers.is_empty()) {
            self.queue.push(self.now().plus(Picos(1)), node, Happening::PutOff(Step::Look(life)));
        }
    }
}
