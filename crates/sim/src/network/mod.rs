//! A network that delays, reorders, loses, doubles, damages, holds back and cuts, as its weather says, from a seed.
//!
//! It holds no message: [`Network::send`] hands each copy that will arrive, with its time, to the caller, who pushes it into
//! his queue. So what is on its way when a link is cut still arrives, as it does on a wire.
//!
//! Randomness: each message has a stream of its own, from (seed, link, how many that link has carried). What happens to it depends
//! on nothing else that was drawn, so taking one fault or one message away changes the fate of later messages on its own
//! link at most.
//!
//! Effects come and go ([`Network::begin`], [`Network::end`]), each on the links from one set of nodes to another. Of several weathers
//! on a link the latest counts; a link is cut while any cut is on it; messages sent into a clog leave when it ends.
//!
//! Bounds: 128 nodes; a count for each link. Cost: 20–40 ns a message, and a look at each effect that is on.

mod weather;

pub use weather::{PerMillion, Weather};

use crate::nodes::{Node, NodeSet};
use crate::random;
use base::{Picos, Prng};

/// What a network carries.
pub trait Payload: Clone {
    /// Becomes what a faulty wire makes of it.
    fn damage(&mut self, random: &mut Prng);
}

impl Payload for Vec<u8> {
    /// One to three bits change, or the end is lost.
    fn damage(&mut self, random: &mut Prng) {
        if self.is_empty() {
            return;
        }
        if random.below(4) == 0 {
            self.truncate(random.below(self.len() as u64) as usize);
            return;
        }
        for _ in 0..1 + random.below(3) {
            let bit = random.below(8 * self.len() as u64) as usize;
            self[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// The links from each node of one set to each of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Where they begin.
    pub from: NodeSet,
    /// Where they end.
    pub to: NodeSet,
    /// The way back too.
    pub both_ways: bool,
}

impl Links {
    /// Every link.
    pub const ALL: Links = Links { from: NodeSet::ALL, to: NodeSet::ALL, both_ways: false };

    /// The one link from `from` to `to`.
    pub const fn one(from: Node, to: Node) -> Links {
        Links { from: NodeSet::one(from), to: NodeSet::one(to), both_ways: false }
    }

    /// Whether the link from `from` to `to` is one of them.
    #[inline]
    pub const fn contain(&self, from: Node, to: Node) -> bool {
        (self.from.contains(from) && self.to.contains(to))
            || (self.both_ways && self.from.contains(to) && self.to.contains(from))
    }
}

/// What may be on links for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing gets through.
    Cut,
    /// What is sent leaves at this time, when the clog ends.
    Clog(Picos),
    /// This weather instead of the usual.
    Weather(Weather),
    /// Somebody listens. What he does with what he hears is the world's business.
    Overheard,
}

/// How many messages met what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Handed to [`Network::send`].
    pub sent: u64,
    /// Copies that arrive.
    pub arriving: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Sent into a cut.
    pub cut: u64,
    /// Sent into a clog.
    pub held: u64,
    /// That have a second copy.
    pub doubled: u64,
    /// Copies that are damaged.
    pub damaged: u64,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    number: u32,
    links: Links,
    effect: Effect,
}

/// The links between `nodes` nodes.
#[derive(Clone, Debug)]
pub struct Network {
    seed: u64,
    nodes: u32,
    usual: Weather,
    /// In the order in which they began.
    active: Vec<Active>,
    /// Messages that each link has carried, from × nodes + to.
    carried: Vec<u64>,
    counts: Counts,
}

impl Network {
    /// A network of `nodes` nodes (128 at most), numbered from 0, with `usual` weather.
    pub fn new(seed: u64, nodes: u32, usual: Weather) -> Network {
        assert!(nodes <= NodeSet::MOST, "a network has {} nodes at most", NodeSet::MOST);
        let carried = vec![0; (nodes * nodes) as usize];
        Network { seed, nodes, usual, active: Vec::new(), carried, counts: Counts::default() }
    }

    /// The weather where nothing else is on.
    pub fn set_usual(&mut self, usual: Weather) {
        self.usual = usual;
    }

    /// An effect sets in; `number` is what [`Network::end`] will be told.
    pub fn begin(&mut self, number: u32, links: Links, effect: Effect) {
        self.active.push(Active { number, links, effect });
    }

    /// The effects that began with this number are over.
    pub fn end(&mut self, number: u32) {
        self.active.retain(|active| active.number != number);
    }

    /// All effects are over; the usual weather is on.
    pub fn calm(&mut self) {
        self.active.clear();
    }

    /// Whether a message from `from` to `to` could get through.
    pub fn reaches(&self, from: Node, to: Node) -> bool {
        !self.effects(from, to).any(|effect| effect == Effect::Cut)
    }

    /// Whether somebody listens on the link from `from` to `to`.
    pub fn is_overheard(&self, from: Node, to: Node) -> bool {
        self.effects(from, to).any(|effect| effect == Effect::Overheard)
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn effects(&self, from: Node, to: Node) -> impl Iterator<Item = Effect> {
        self.active.iter().filter(move |active| active.links.contain(from, to)).map(|active| active.effect)
    }

    /// Sends `payload`; `arrive` is called for each copy that will arrive (none, one or two), with the time it does.
    pub fn send<P: Payload>(
        &mut self,
        now: Picos,
        from: Node,
        to: Node,
        payload: P,
        mut arrive: impl FnMut(Picos, P),
    ) {
        assert!(from < self.nodes && to < self.nodes, "no link from {from} to {to} among {}", self.nodes);
        let mut random = self.stream_of_message(from, to);
        self.counts.sent += 1;
        let (mut weather, mut leaves, mut is_cut) = (self.usual, now, false);
        for effect in self.effects(from, to) {
            match effect {
                Effect::Cut => is_cut = true,
                Effect::Clog(until) => leaves = leaves.max(until),
                Effect::Weather(new) => weather = new,
                Effect::Overheard => {}
            }
        }
        if is_cut {
            self.counts.cut += 1;
            return;
        }
        self.counts.held += u64::from(leaves > now);
        if weather.lose.strikes(&mut random) {
            self.counts.lost += 1;
            return;
        }
        if weather.double.strikes(&mut random) {
            self.counts.doubled += 1;
            self.carry(&weather, leaves, payload.clone(), &mut random, &mut arrive);
        }
        self.carry(&weather, leaves, payload, &mut random, &mut arrive);
    }

    fn carry<P: Payload>(
        &mut self,
        weather: &Weather,
        leaves: Picos,
        mut payload: P,
        random: &mut Prng,
        arrive: &mut impl FnMut(Picos, P),
    ) {
        let delay = weather.draw_delay(random);
        if weather.damage.strikes(random) {
            self.counts.damaged += 1;
            payload.damage(random);
        }
        self.counts.arriving += 1;
        arrive(leaves.plus(delay), payload);
    }

    fn stream_of_message(&mut self, from: Node, to: Node) -> Prng {
        let carried = &mut self.carried[(from * self.nodes + to) as usize];
        *carried += 1;
        let link = u64::from(from) << 32 | u64::from(to);
        random::stream(self.seed ^ base::prng::mix64(*carried), link, "message")
    }
}

#[cfg(test)]
mod tests;
