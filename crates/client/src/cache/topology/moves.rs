//! A topology whose homes move: who is elsewhere than the file said first, and what a file may say of it.

use super::super::book::Book;
use super::super::error::TopologyError;
use super::{Topology, check_addresses};
use protocol::coherence::NodeId;
use protocol::coherence::moved::Moved;
use protocol::wire::HomeId;
use std::net::SocketAddr;
use std::sync::Arc;

impl Topology {
    /// The same, with homes that were at other addresses before. Of two places of one home the later counts.
    #[must_use]
    pub fn with_moved(self, mut moved: Moved) -> Topology {
        let mut book = self.book;
        moved.learn(self.layout.moved());
        book.learn(&moved);
        Topology { layout: Arc::new((*self.layout).clone().with_moved(moved)), book, ..self }
    }

    /// As a home that is started at `address`, wherever the file has it: where that is another place it waits until a controller says that it is there.
    ///
    /// # Errors
    /// There is no such home, nobody can be there, or somebody else is.
    pub fn with_home_at(self, home: HomeId, address: SocketAddr) -> Result<Topology, TopologyError> {
        let node = NodeId::Home(home);
        self.check_move(home, address)?;
        if self.book.address_of(node) == Some(address) {
            return Ok(self);
        }
        let nodes = self.book.iter().map(|(of, at)| (of, if of == node { address } else { at }));
        let book = Book::new(nodes).map_err(|(one, other)| TopologyError::SameAddress(one, other))?;
        Ok(Topology { book, elsewhere: Some(home), ..self })
    }

    /// Whether a home can be at an address, as far as the file says.
    ///
    /// # Errors
    /// There is no such home, nobody can be there, or somebody else is.
    pub fn check_move(&self, home: HomeId, address: SocketAddr) -> Result<(), TopologyError> {
        let node = NodeId::Home(home);
        if self.book.address_of(node).is_none() {
            return Err(TopologyError::Unknown(node, self.nodes()));
        }
        let others = self.book.iter().filter(|(of, _)| *of != node);
        check_addresses(&others.chain([(node, address)]).collect::<Vec<_>>())?;
        match self.book.node_at(address) {
            Some(other) if other != node => Err(TopologyError::SameAddress(other, node)),
            _ => Ok(()),
        }
    }

    /// Whether this home is started at another address than the file says.
    pub fn is_elsewhere(&self, home: HomeId) -> bool {
        self.elsewhere == Some(home)
    }

    /// Whether it is the same as another, wherever copies may be kept, and homes are that have moved.
    pub fn is_but_for_ranges(&self, other: &Topology) -> bool {
        let slots = (self.layout.slots(), other.layout.slots());
        let moves = |node: &NodeId| {
            let moved = |topology: &Topology, home| topology.layout.moved().of(home).is_some();
            matches!(node, NodeId::Home(home) if moved(self, *home) || moved(other, *home))
        };
        let stay = |topology: &Topology| -> Vec<_> {
            topology.book.iter().filter(|(node, _)| !moves(node)).collect()
        };
        slots.0 == slots.1
            && (&self.boxes, &self.homes, &self.streams) == (&other.boxes, &other.homes, &other.streams)
            && stay(self) == stay(other)
            && (self.controllers, &self.config, &self.tuned)
                == (other.controllers, &other.config, &other.tuned)
    }
}
