//! How long clients stood still after each death, beside how long they may.
//!
//! After a death, until the next one: of the client of a kind that waited longest for an answer, how long. What may be is stated by the designs:
//!
//! | who died | memcached's clients | in-network clients | clients of the chain |
//! |---|---|---|---|
//! | the node | until it is back, + lease + retransmission: a home is silent for a lease | the same | nothing |
//! | a box | lease + retransmission: a write waits for the copies that the box may have | the same | nothing |
//! | the rack's controller | nothing | nothing | nothing |
//! | a replica | nothing | nothing | lease and drift, two heartbeats, retransmission; and, as it joins, two heartbeats and a retransmission |
//! | the chain's controller | nothing | nothing | until it is back, + lease and drift, + retransmission: reads end with the leases |
//!
//! Where the node's items lie in the chain, whatever one of these waits for the others wait for, too.
//!
//! "Until it is back" is until `cluster status` says that all is whole: it has been started after a time that the seed draws, up to 0.4 s, and a node or box
//! waits for the next second of the clock, by which its lives are numbered. What a busy machine adds is allowed for with [`ALLOWANCE`].

use super::conduct::Death;
use crate::cluster::Times;
use crate::lab::run::stall::{ALLOWANCE, longest};
use base::Nanos;
use protocol::coherence::NodeId;
use serve::cluster::file::Who;

/// Clients of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Of memcached's protocol.
    Memcached,
    /// In-network ones.
    InNetwork,
    /// Of the chain.
    Transactions,
}

impl Group {
    /// All, and the order of all tables.
    pub const ALL: [Group; 3] = [Group::Memcached, Group::InNetwork, Group::Transactions];

    /// In tables.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Memcached => "memcached",
            Group::InNetwork => "in-network",
            Group::Transactions => "transactions",
        }
    }
}

/// An operation was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Since the beginning.
    pub at: Nanos,
    /// Whose; numbers are one after the other: in-network clients, memcached's, those of the chain.
    pub client: u32,
    /// Of which kind.
    pub group: Group,
}

/// What followed a death, for clients of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Who died.
    pub who: Who,
    /// When, since the beginning.
    pub at: Nanos,
    /// Clients of which kind.
    pub group: Group,
    /// The one that waited longest did so for this long.
    pub worst: Nanos,
    /// May be.
    pub bound: Nanos,
}

impl Stall {
    /// It was no longer than it may be.
    pub fn is_bounded(&self) -> bool {
        self.worst <= self.bound.plus(ALLOWANCE)
    }
}

/// What may be, as the table in the head says.
pub fn bound(death: &Death, group: Group, times: &Times) -> Nanos {
    let gone = death.back.since(death.at);
    let rack = times.lease.plus(times.retransmit);
    if times.is_joint {
        let chain = times.chain_lease.plus(times.chain_retransmit);
        return match death.who {
            Who::Node(NodeId::Home(_)) => gone.plus(rack).plus(times.chain_retransmit),
            Who::Node(NodeId::Box(_)) => rack,
            Who::Node(_) => Nanos(0),
            Who::Replica(..) => chain.plus(times.retransmit),
            Who::Controller(..) => gone.plus(chain).plus(times.retransmit),
        };
    }
    match (death.who, group) {
        (Who::Node(NodeId::Home(_)), Group::Memcached | Group::InNetwork) => gone.plus(rack),
        (Who::Node(NodeId::Box(_)), Group::Memcached | Group::InNetwork) => rack,
        (Who::Replica(..), Group::Transactions) => times.chain_lease.plus(times.chain_retransmit),
        (Who::Controller(..), Group::Transactions) => {
            gone.plus(times.chain_lease).plus(times.chain_retransmit)
        }
        _ => Nanos(0),
    }
}

/// What followed each death, for each kind, by what was answered, in order. There are so many clients, and so many of each kind.
pub fn stalls(
    ends: &[End],
    deaths: &[Death],
    (clients, of_each): (u32, u32),
    end: Nanos,
    times: &Times,
) -> Vec<Stall> {
    let group_of = |client: u32| match client / of_each {
        0 => Group::InNetwork,
        1 => Group::Memcached,
        _ => Group::Transactions,
    };
    let mut stalls = Vec::new();
    for (number, death) in deaths.iter().enumerate() {
        let to = deaths.get(number + 1).map_or(end, |next| next.at);
        // When the last one is over, clients end, too.
        let to = if number + 1 == deaths.len() { to.min(death.back) } else { to };
        let first = ends.partition_point(|end| end.at < death.at);
        let last = ends.partition_point(|end| end.at < to);
        let of_client = |client: u32| {
            let own = ends[first..last].iter().filter(|end| end.client == client).map(|end| end.at);
            longest(own, death.at, to)
        };
        for group in Group::ALL {
            let of_group = (0..clients).filter(|client| group_of(*client) == group);
            let worst = of_group.map(of_client).max().unwrap_or(Nanos(0));
            let bound = bound(death, group, times);
            stalls.push(Stall { who: death.who, at: death.at, group, worst, bound });
        }
    }
    stalls
}
