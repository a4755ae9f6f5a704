//! What homes of a world are: machines with a table of their own, or nodes, the service of a server on its store, with a log or without.

use super::bugs::{Bug, Wrong};
use super::chains::Clients;
use super::disks::Disk;
use super::replicas::Chain;
use super::script::Script;
use base::Nanos;
use clap::ValueEnum;
use protocol::coherence::home::items::Tree;
use protocol::coherence::lease::runs;
use protocol::coherence::{Home, NodeId, Out, Planted};
use protocol::wire::{BoxId, HomeId, Message, Version};
use serve::kv::machine::{self, Machine, Place};
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;

/// Items of a home with a table: more than any workload has keys.
const ITEMS: usize = 256;

/// What homes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Homes {
    /// Machines with a table.
    #[default]
    #[value(skip)]
    Bare,
    /// Nodes whose items end with them
    #[value(name = "none")]
    Cache,
    /// Nodes with a redo log and snapshots: what was acknowledged survives their ends
    #[value(name = "log")]
    Logged,
    /// Nodes whose items lie in a chain, which survives them
    #[value(name = "chain")]
    Chained,
}

/// What outlives a home.
#[derive(Debug)]
pub enum Behind<'d> {
    /// Nothing.
    Nothing,
    /// A disk with its log.
    Disk(&'d mut Disk),
    /// The chain that its items lie in.
    Chain(Chain),
    /// Memory, and whether who begins says that it never ran before.
    Memory(machine::Memory, bool),
}

impl Behind<'_> {
    /// Whether who begins with it says that it never ran before.
    pub fn is_first(&self) -> bool {
        matches!(self, Behind::Memory(_, true))
    }
}

impl Homes {
    /// Whether what was acknowledged survives a home's end.
    pub const fn survive(self) -> bool {
        matches!(self, Homes::Logged | Homes::Chained)
    }

    /// What `--durability` says of it.
    pub const fn durability(self) -> Option<&'static str> {
        match self {
            Homes::Bare => None,
            Homes::Cache => Some("none"),
            Homes::Logged => Some("log"),
            Homes::Chained => Some("chain"),
        }
    }
}

/// A home.
pub enum SimulatedHome {
    /// With a table.
    Bare(Box<Home<Tree, Option<Planted>>>),
    /// A node.
    Node(HomeId, Box<Machine<Wrong>>, Option<(Chain, Clients)>),
}

impl fmt::Debug for SimulatedHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "home {}", self.id())
    }
}

impl SimulatedHome {
    /// A life begins.
    ///
    /// # Errors
    /// In words: what is on its disk is damaged.
    pub fn new(
        script: &Script,
        place: Place,
        now: Nanos,
        behind: Behind<'_>,
    ) -> Result<SimulatedHome, String> {
        if script.homes == Homes::Bare {
            let Place { config, id, layout, life } = place;
            let items = Tree::new(ITEMS);
            let planted = script.planted.and_then(Bug::in_cache);
            let home = Home::with_bugs(&config, id, layout, life, now, items, planted);
            return Ok(SimulatedHome::Bare(Box::new(home)));
        }
        let planted = Wrong(script.planted);
        let (machine, chain) = match behind {
            Behind::Nothing => (Machine::new(&place, now, None, planted)?, None),
            Behind::Disk(disk) => {
                let disk = disk.lend(script.planted.and_then(Bug::in_disk));
                (Machine::new(&place, now, Some(disk), planted)?, None)
            }
            Behind::Memory(memory, _) => (Machine::with_memory(&place, now, memory, planted)?, None),
            Behind::Chain(chain) => {
                let claim = u64::from(place.life.0.0);
                let chain = chain.claimed(claim, script.planted.and_then(Bug::in_chain));
                let clients = Clients::default();
                let beside = (chain.transactions(), Box::new(clients.clone()));
                (Machine::over_chain(&place, now, (beside.0, beside.1), planted)?, Some((chain, clients)))
            }
        };
        Ok(SimulatedHome::Node(place.id, Box::new(machine), chain))
    }

    /// It was started at another address than the file says, and has heard nothing yet. Of machines with a table.
    pub fn is_elsewhere(&mut self, here: SocketAddr) {
        if let SimulatedHome::Bare(home) = self {
            **home = home.as_ref().clone().elsewhere(here);
        }
    }

    /// Its name.
    pub fn id(&self) -> HomeId {
        match self {
            SimulatedHome::Bare(home) => home.id(),
            SimulatedHome::Node(id, ..) => *id,
        }
    }

    /// Takes a message.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        match self {
            SimulatedHome::Bare(home) => home.handle(now, from, message, out),
            SimulatedHome::Node(_, machine, _) => machine.handle(now, Some((from, message)), out),
        }
    }

    /// Serves what is due.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        match self {
            SimulatedHome::Bare(home) => home.tick(now, out),
            SimulatedHome::Node(_, machine, _) => machine.handle(now, None, out),
        }
    }

    /// Ends in order, if it is a node.
    pub fn leave(self, now: Nanos) {
        if let SimulatedHome::Node(_, machine, _) = self {
            machine.leave(now);
        }
    }

    /// When it wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        match self {
            SimulatedHome::Bare(home) => home.next_deadline(),
            SimulatedHome::Node(_, machine, _) => machine.next_deadline(),
        }
    }

    /// The version and value that it has of a key at `now`.
    pub fn peek(&self, key: &[u8], now: Nanos) -> Option<(Version, Cow<'_, [u8]>)> {
        match self {
            SimulatedHome::Bare(home) => {
                let item = home.items().peek(key).filter(|item| runs(item.end, now))?;
                Some((item.version, Cow::Borrowed(&item.value)))
            }
            SimulatedHome::Node(_, machine, Some((chain, _))) => {
                let (version, value) = chain.peek(key, machine.second(now))?;
                Some((version, Cow::Owned(value)))
            }
            SimulatedHome::Node(_, machine, None) => {
                machine.peek(key).map(|(version, value)| (version, Cow::Borrowed(value)))
            }
        }
    }

    /// Forgets a key, as a store that is full.
    pub fn evict(&mut self, key: &[u8]) {
        match self {
            SimulatedHome::Bare(home) => {
                protocol::coherence::home::items::Items::remove(home.items_mut(), key);
            }
            SimulatedHome::Node(_, machine, _) => machine.evict(key),
        }
    }

    /// The box that owns a key.
    pub fn owner_of(&self, key: &[u8]) -> Option<BoxId> {
        match self {
            SimulatedHome::Bare(home) => home.owner_of(key),
            SimulatedHome::Node(_, machine, _) => machine.owner_of(key),
        }
    }

    /// Whether it goes by a table that says that a box is to be stopped, and may have to wait for it.
    pub fn may_wait_for(&self, id: BoxId, now: Nanos) -> bool {
        match self {
            SimulatedHome::Bare(home) => home.is_draining(id) && home.waits_for(id, now),
            SimulatedHome::Node(_, machine, _) => machine.may_wait_for(id, now),
        }
    }

    /// A key that was lost with its owner, each once.
    pub fn poll_lost(&mut self) -> Option<Vec<u8>> {
        match self {
            SimulatedHome::Bare(home) => home.poll_lost(),
            SimulatedHome::Node(_, machine, _) => machine.poll_lost(),
        }
    }

    /// Clients of transactions beside it, if its items lie in a chain.
    pub fn clients(&self) -> Option<&Clients> {
        match self {
            SimulatedHome::Node(_, _, Some((_, clients))) => Some(clients),
            _ => None,
        }
    }

    /// The node, if it is one.
    pub fn node_mut(&mut self) -> Option<&mut Machine<Wrong>> {
        match self {
            SimulatedHome::Bare(_) => None,
            SimulatedHome::Node(_, machine, _) => Some(machine),
        }
    }
}
