//! Orders of an operator: a replica is to belong to the chain from now on, or not any more.
//!
//! ```text
//!  operator ──ORDER number, action──▶ the controller that leads ──registry: a configuration that has the order in it──▶ all members
//!           ◀─ORDERED done, or why not─
//! ```
//! An order is part of the configuration that it makes ([`Configuration::ordered`](super::Configuration)), and is durable with it: whichever
//! controller leads next goes on with it. Each has a number higher than all before. The same order again is answered as it was, and
//! is not done twice; a lower number is a copy that is late, and is refused.
//!
//! What an order asks for it says as a state and not as a change, so giving it again is harmless.
//!
//! Bounds: [`MOST_REPLICAS`], [`MAX_ADDRESS`].

use super::{Configuration, Epoch, ReplicaId};
use std::fmt;

/// Replicas that belong to a chain at most.
pub const MOST_REPLICAS: usize = 16;
/// Bytes of an address at most.
pub const MAX_ADDRESS: usize = 300;

/// A replica that belongs to a chain, and where it is. An address is text that the drivers understand; an empty one is not known, and what the members
/// were started with counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaAddress {
    /// Which.
    pub replica: ReplicaId,
    /// Where the other members find it.
    pub peers: String,
    /// Where clients find it.
    pub clients: String,
}

/// What an operator wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// This replica belongs to the chain. When it is heard it is given everything, and serves when it has it, as the last.
    Add(ReplicaAddress),
    /// This one does not. If it serves, so many others must go on serving that have everything; one at least.
    Remove(ReplicaId, u16),
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order {
    /// Higher than all before.
    pub number: u64,
    /// What is wanted.
    pub action: Action,
}

/// What a controller answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OrderReply {
    /// Nothing was ordered: this is how it is.
    Known,
    /// It is so, and durable, in this epoch.
    Done(Epoch),
    /// It is not so.
    Refused(OrderRefused),
}

/// Why an order is not obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderRefused {
    /// This controller does not lead: ask another.
    NotLeading,
    /// The chain has not begun.
    NotBegun,
    /// Another configuration is being made: ask again.
    NotNow,
    /// An order with this number was obeyed already.
    Late(u64),
    /// No replica has number 0, and one that is added has an address for the other members.
    BadAddress,
    /// This replica belongs to the chain already, and is elsewhere.
    Elsewhere(ReplicaId),
    /// This replica has the same address.
    Occupied(ReplicaId),
    /// So many replicas belong to the chain, and more may not.
    Full(u16),
    /// So many would go on serving that have everything; so many were asked for.
    TooFew(u16, u16),
    /// So many would go on serving if this one did already, which is still being given what it lacks.
    CatchingUp(ReplicaId),
    /// Nobody serves that could be heard: the chain has to come back first.
    NobodyServes,
}

impl OrderRefused {
    /// Whether it may be obeyed a moment later, as it is.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            OrderRefused::NotLeading
                | OrderRefused::NotNow
                | OrderRefused::CatchingUp(_)
                | OrderRefused::NobodyServes
                | OrderRefused::NotBegun
        )
    }
}

impl fmt::Display for OrderRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderRefused::NotLeading => f.write_str("this controller does not lead the chain"),
            OrderRefused::NotBegun => f.write_str("the chain has not begun: start all its replicas first"),
            OrderRefused::NotNow => f.write_str("another configuration is being made"),
            OrderRefused::Late(last) => {
                write!(f, "order {last} was obeyed before: somebody else gives orders, too")
            }
            OrderRefused::BadAddress => f.write_str(
                "a replica has a number from 1 on, and an address where the other members find it",
            ),
            OrderRefused::Elsewhere(ReplicaId(id)) => write!(
                f,
                "replica {id} belongs to the chain already, at another address: give the new one another number, or remove {id} first"
            ),
            OrderRefused::Occupied(ReplicaId(id)) => {
                write!(f, "replica {id} has the same address: give each its own")
            }
            OrderRefused::Full(most) => {
                write!(f, "{most} replicas belong to the chain, and more may not: remove one first")
            }
            OrderRefused::TooFew(left, least) => write!(
                f,
                "{left} others would go on serving that have everything, and {least} are asked for: add one first, wait until it serves, or ask for less"
            ),
            OrderRefused::CatchingUp(ReplicaId(id)) => {
                write!(f, "replica {id} is still being given what it lacks: wait until it serves")
            }
            OrderRefused::NobodyServes => {
                f.write_str("no replica can be heard that serves: the chain has to come back first")
            }
        }
    }
}

impl std::error::Error for OrderRefused {}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        match &self.action {
            Action::Add(at) => write!(f, "order {number}: add replica {} at {}", at.replica.0, at.peers),
            Action::Remove(ReplicaId(id), _) => write!(f, "order {number}: remove replica {id}"),
        }
    }
}

impl Configuration {
    /// What the configuration's orders say of where a replica is.
    pub fn address(&self, replica: ReplicaId) -> Option<&ReplicaAddress> {
        self.roster.iter().find(|at| at.replica == replica)
    }

    /// Whether a replica belongs to the chain, as far as orders say: before the first order they say nothing.
    pub fn is_removed(&self, replica: ReplicaId) -> bool {
        !self.roster.is_empty() && self.address(replica).is_none()
    }
}
