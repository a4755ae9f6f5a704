//! Pieces of routes, and what makes them: what a part does to a request that passes it, and what it does to answer one, as steps.

use crate::alternative::{Place, Power};
use crate::kernel::{ResourceId, Step};
use crate::system::host::Link;
use crate::workload::{Class, Workload};
use std::collections::BTreeMap;

/// How a request comes to who answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// A message into the host's memory, which a core takes.
    Cores,
    /// A WRITE into a ring in the host's memory, which an accelerator watches.
    Ring,
    /// A message to the cores of the network card.
    Card,
    /// A READ of the host's memory, which nobody answers but the card.
    Memory,
}

/// What passes once, and comes back.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// Where it is answered.
    pub door: Door,
    /// Bytes there.
    pub request: u64,
    /// Bytes back.
    pub reply: u64,
    /// What is done for it behind the door.
    pub steps: Vec<Step>,
}

/// A way to answer a share of a class's requests: one round after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Of the class.
    pub share: f64,
    /// In order.
    pub rounds: Vec<Round>,
}

impl Way {
    /// All of them, with one message and its reply.
    pub fn message(door: Door, class: &Class, steps: Vec<Step>) -> Way {
        Way { share: 1.0, rounds: vec![Round { door, request: class.request, reply: class.reply, steps }] }
    }
}

/// A place that a server offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Short.
    pub name: String,
    /// In a line.
    pub what: String,
    /// Who answers.
    pub place: Place,
    /// What clients with sockets ask over.
    pub link: Link,
    /// Of each class of the workload, in order.
    pub ways: Vec<Vec<Way>>,
}

/// A part that is passed, on the way there and back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hop {
    /// There.
    pub forth: Vec<Step>,
    /// And back.
    pub back: Vec<Step>,
    /// Once the client's card has the reply.
    pub acknowledged: Vec<Step>,
}

/// What a client does with a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// It asks, up to what is between it and the server.
    pub forth: Vec<Step>,
    /// The reply reaches its card.
    pub card: Vec<Step>,
    /// Its program has it.
    pub back: Vec<Step>,
}

/// Machines that ask.
pub trait Clients {
    /// What one does for a round of a class's request, over this link; the class has the bytes of the round.
    fn asks(&self, class: &Class, link: Link, door: Door) -> Asked;

    /// Whether they can read a server's memory.
    fn can_read(&self) -> bool {
        false
    }
}

/// A cache that is passed.
pub trait Passed {
    /// A message comes in, and goes on where the cache has no part in it.
    fn pass(&self, bytes: u64) -> Vec<Step>;
    /// It goes into the cache, which looks for its key.
    fn enter(&self, bytes: u64) -> Vec<Step>;
    /// It comes out of the cache, and goes on.
    fn leave(&self, bytes: u64) -> Vec<Step>;
    /// It has no key: in and out.
    fn bounce(&self, bytes: u64) -> Vec<Step>;
    /// What works in it.
    fn cores(&self) -> ResourceId;
}

/// What the parts of a server are made for.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// What is asked; bytes as they travel in this machine.
    pub workload: &'a Workload,
    /// Servers side by side, among which requests are spread.
    pub servers: u64,
    /// Which parts of the server are of the model that is asked.
    pub parts: Parts,
    /// Whether clients are on the same machine.
    pub is_local: bool,
    /// Whether clients can read memory, and nothing between has to see requests.
    pub can_read: bool,
    /// Bytes of what goes to caches to have copies dropped, as [`Server::passes`] wants it.
    pub told: (u64, u64),
}

/// Which parts there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The network card.
    pub card: bool,
    /// The accelerator.
    pub accelerator: bool,
    /// The host.
    pub host: bool,
}

impl Task<'_> {
    /// Host cores of a server that has so many, as far as the workload may use them.
    pub fn cores(&self, has: u64) -> u64 {
        self.workload.host_cores.map_or(has, |may| may.div_ceil(self.servers).clamp(1, has))
    }

    /// For each class what `ways` says.
    ///
    /// # Errors
    /// Those of `ways`.
    pub fn each<E>(&self, ways: impl FnMut(&Class) -> Result<Vec<Way>, E>) -> Result<Vec<Vec<Way>>, E> {
        self.workload.classes.iter().map(ways).collect()
    }
}

/// Arguments of operations choose cores, banks, channels: many more than there are of any.
pub const ARGUMENTS: u64 = 1 << 20;

/// What a server is, as pieces.
#[derive(Default)]
pub struct Server {
    /// Places.
    pub offers: Vec<Offer>,
    /// Its card or cables, by door and bytes.
    hops: BTreeMap<(Door, u64, u64), Hop>,
    /// What the host does to have a copy elsewhere dropped.
    pub tells: Vec<Step>,
    /// Its cores.
    pub host_cores: Vec<ResourceId>,
    /// What draws power, where all of the server's is known.
    pub power: Vec<Power>,
    /// Arguments are drawn below this, if a small range of addresses is slower.
    pub arguments: Option<u64>,
    /// Clients on the same machine.
    pub clients: Option<Box<dyn Clients>>,
}

impl Server {
    /// What every round of the offers passes, and every message of these bytes there and back for cores: `hop` says it.
    pub fn passes(&mut self, told: (u64, u64), mut hop: impl FnMut(Door, u64, u64) -> Hop) {
        let rounds =
            self.offers.iter().flat_map(|offer| offer.ways.iter().flatten()).flat_map(|way| &way.rounds);
        let mut all: Vec<_> = rounds.map(|round| (round.door, round.request, round.reply)).collect();
        all.push((Door::Cores, told.0, told.1));
        for (door, request, reply) in all {
            self.hops.entry((door, request, reply)).or_insert_with(|| hop(door, request, reply));
        }
    }

    /// Its card or cables, for such a round.
    pub fn hop(&self, door: Door, request: u64, reply: u64) -> Hop {
        self.hops.get(&(door, request, reply)).cloned().unwrap_or_default()
    }
}

/// Bytes that an invalidation has on its way to a cache, and the answer to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// With the key.
    pub key: u64,
    /// Without.
    pub bare: u64,
}
