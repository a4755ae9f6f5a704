//! What a driver needs to know of a machine, and that the four of `protocol::coherence` are such.

use base::Nanos;
use protocol::coherence::controller::Drain;
use protocol::coherence::home::items::Items;
use protocol::coherence::moved::Moved;
use protocol::coherence::ranges::Ranges;
use protocol::coherence::{CacheBox, Client, Controller, Home, NodeId, Out, Planted};
use protocol::planted::Bugs;
use protocol::wire::{BoxId, Message};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Counts of a node, each with its name, in the order in which people read them.
pub type Counters = Vec<(&'static str, u64)>;

/// Of these, those that are states: of several cores the highest is shown.
const STATES: [&str; 7] = ["draining", "epoch", "live boxes", "active", SLOTS[0], SLOTS[1], SLOTS[2]];

/// Of boxes and controllers, slots whose keys may be kept in clusters, by some boxes, and nowhere.
pub const SLOTS: [&str; 3] = ["slots cluster", "slots some", "slots nowhere"];

fn slots(ranges: &Ranges) -> impl Iterator<Item = (&'static str, u64)> {
    SLOTS.into_iter().zip(ranges.slots())
}

/// Counts of one core more of the same node.
pub fn add_up(sums: &mut Counters, more: &[(&'static str, u64)]) {
    for (name, count) in more {
        match sums.iter_mut().find(|(sum, _)| sum == name) {
            Some((_, sum)) if STATES.contains(name) => *sum = (*sum).max(*count),
            Some((_, sum)) => *sum += count,
            None => sums.push((name, *count)),
        }
    }
}

/// A state machine that is driven by messages and time.
pub trait Machine {
    /// Takes a message.
    fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out);

    /// Serves what is due at `now`.
    fn tick(&mut self, now: Nanos, out: &mut Out);

    /// When `tick` wants to be called; [`Nanos::MAX`]: not.
    fn next_deadline(&self) -> Nanos;

    /// What it counted.
    fn counters(&self) -> Counters;

    /// Homes that have moved, by what it heard; the same value until it hears of another. None of a machine that sends to no home.
    fn moved(&self) -> Option<&Arc<Moved>> {
        None
    }

    /// Of its node; each has a machine.
    fn cores(&self) -> u8 {
        1
    }

    /// The driver is about to sleep: from here to [`Machine::disarm`] what is there for the machine besides datagrams makes [`Machine::bell`] readable, and
    /// what was there before makes [`Machine::next_deadline`] pass.
    fn arm(&mut self) {}

    /// A descriptor that ends the driver's sleep; none where only datagrams and time do.
    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The driver is awake again.
    fn disarm(&mut self) {}

    /// How long it has heard nothing of each node that it watches.
    fn silences(&self, now: Nanos) -> Vec<(NodeId, Nanos)> {
        let _ = now;
        Vec::new()
    }

    /// Why it serves nobody yet, if so.
    fn silent(&self, now: Nanos) -> Option<&'static str> {
        let _ = now;
        None
    }

    /// Boxes that are to be stopped, by a controller that makes the tables, and whether each may be by now.
    fn drains(&self, now: Nanos) -> Vec<(BoxId, bool)> {
        let _ = now;
        Vec::new()
    }

    /// How long another tier took that answers for it, by outcome: in bucket b how often 2^b to 2^(b+1) - 1 ns.
    fn fast_times(&self) -> Vec<(&'static str, Vec<u64>)> {
        Vec::new()
    }
}

/// Why a home that was told so serves nobody yet.
pub const SILENT: &str = "silent for a lease, since boxes may have copies of its earlier life";
/// The same of one that was started at another address than the file says.
pub const UNNAMED: &str =
    "waits for a controller to say that it is here: `millrace cluster move` has it said";

/// Why a home serves nobody at `now`, if so.
pub fn home_silent<I: Items, B: Bugs<Planted>>(home: &Home<I, B>, now: Nanos) -> Option<&'static str> {
    match home.is_unnamed() {
        true => Some(UNNAMED),
        false => (now < home.serves_from()).then_some(SILENT),
    }
}

macro_rules! machine {
    ($type:ty $(, $of:ident: $bound:path)*; |$self:ident| $counters:expr $(; moved $moved:expr)? $(; silent $silent:expr)? $(; watches $silences:expr)?) => {
        impl<$($of: $bound),*> Machine for $type {
            fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
                <$type>::handle(self, now, from, message, out);
            }

            fn tick(&mut self, now: Nanos, out: &mut Out) {
                <$type>::tick(self, now, out);
            }

            fn next_deadline(&self) -> Nanos {
                <$type>::next_deadline(self)
            }

            fn counters(&self) -> Counters {
                let $self = self;
                $counters
            }

            $(fn moved(&self) -> Option<&Arc<Moved>> {
                let $self = self;
                Some($moved)
            })?

            $(fn silent(&self, now: Nanos) -> Option<&'static str> {
                $silent(self, now)
            })?

            $(fn silences(&self, now: Nanos) -> Vec<(NodeId, Nanos)> {
                $silences(self, now)
            }

            fn drains(&self, now: Nanos) -> Vec<(BoxId, bool)> {
                let drains = <$type>::drains(self, now).into_iter();
                drains.map(|(id, drain)| (id, drain == Drain::Drained)).collect()
            })?
        }
    };
}

machine!(CacheBox<B>, B: Bugs<Planted>; |cache| {
    let stats = cache.stats();
    let mut counters = vec![
        ("hits", stats.hits),
        ("computed", stats.computed),
        ("misses", stats.misses),
        ("fills", stats.fills),
        ("late", stats.late),
        ("granted", stats.granted),
        ("invalidations", stats.invalidations),
        ("done as owner", stats.owned),
        ("given back", stats.returns),
        ("fallbacks", stats.fallbacks),
        ("dropped", stats.dropped),
        ("draining", cache.is_draining().into()),
        ("left", if cache.is_draining() { cache.left() } else { 0 }),
        ("epoch", cache.table().epoch().0.into()),
    ];
    counters.extend(slots(cache.table().ranges()));
    counters
}; moved cache.table().moved());

machine!(Home<I, B>, I: Items, B: Bugs<Planted>; |home| {
    let stats = home.stats();
    let mut counters = vec![
        ("hits", stats.hits),
        ("misses", stats.misses),
        ("granted", stats.granted),
        ("applied", stats.applied),
        ("waited", stats.waited),
        ("busy", stats.busy),
        ("repeated", stats.repeated),
        ("owners", stats.given),
        ("returned", stats.returned),
        ("lost", stats.lost),
        ("dropped", stats.dropped),
    ];
    counters.extend(home.items().counters());
    counters
}; silent home_silent);

machine!(Controller; |controller| {
    let boxes = u64::from(controller.live().0.count_ones());
    let mut counters =
        vec![("epoch", u64::from(controller.epoch().0)), ("live boxes", boxes), ("active", controller.is_active().into())];
    counters.extend(slots(controller.ranges()));
    counters
}; moved controller.moved(); watches Controller::silences);

machine!(Client; |client| {
    let stats = client.stats();
    vec![
        ("under way", client.under_way() as u64),
        ("asked box", stats.asked),
        ("answered by box", stats.answered),
        ("asked home directly", stats.direct),
    ]
}; moved client.moved());
