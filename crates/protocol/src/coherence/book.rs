//! Who is at which address, as far as one node or client knows: a value of whatever drives a machine. Clients are not in it: a client's address travels in
//! its packets.
//!
//! ```text
//!   file ──▶ Book ◀──learn── what the machine heard of homes that moved ([`super::moved`])
//!             ├──address_of──▶ where what is said leaves for
//!             ╰──node_at─────▶ [`guard::Source`](super::guard::Source): whose words come from there
//! ```
//! Invariants:
//! 1. An address is of one node, and a node has one address.
//! 2. Where a home is changes when an entry of a higher epoch is learnt, and by nothing else. In the same step its old address stops being its own: what
//!    comes from there is a stranger's, and nothing is sent there any more.
//! 3. A driver learns before it sends what the machine said when it heard so.
//!
//! What it cannot see is whether the old life has ended: who gives an order to move does ([`Controller::move_home`](super::Controller::move_home)).
//!
//! Bounds: the nodes of the layout.

use super::moved::{Moved, Place};
use super::{NodeId, Planted};
use crate::planted::{Bugs, NoBugs};
use crate::wire::Epoch;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// Addresses of boxes, homes and controllers, both ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book<B = NoBugs> {
    by_node: BTreeMap<NodeId, Place>,
    by_address: HashMap<SocketAddr, NodeId>,
    planted: B,
}

impl Book {
    /// Of these nodes, as a file says.
    ///
    /// # Errors
    /// The first node that has another's address, after the one whose it is.
    pub fn new(entries: impl IntoIterator<Item = (NodeId, SocketAddr)>) -> Result<Book, (NodeId, NodeId)> {
        Book::with_bugs(entries, NoBugs)
    }
}

impl<B: Bugs<Planted>> Book<B> {
    /// The same, with mistakes made on purpose.
    ///
    /// # Errors
    /// As [`Book::new`].
    pub fn with_bugs(
        entries: impl IntoIterator<Item = (NodeId, SocketAddr)>,
        planted: B,
    ) -> Result<Book<B>, (NodeId, NodeId)> {
        let mut book = Book { by_node: BTreeMap::new(), by_address: HashMap::new(), planted };
        for (node, address) in entries {
            if let Some(other) = book.by_address.insert(address, node) {
                return Err((other, node));
            }
            book.by_node.insert(node, Place { address, epoch: Epoch(0) });
        }
        Ok(book)
    }

    /// Goes by what is news in `moved`; whether anything is. An address that another node has is no home's, and a home that is not in the book has none.
    pub fn learn(&mut self, moved: &Moved) -> bool {
        let is_news = |known: &Place, place: &Place| {
            known.epoch < place.epoch || (self.planted.has(Planted::LowerEpochTaken) && known != place)
        };
        let new: Vec<(NodeId, Place)> = moved
            .iter()
            .map(|(home, place)| (NodeId::Home(home), place))
            .filter(|(node, place)| self.by_node.get(node).is_some_and(|known| is_news(known, place)))
            .collect();
        // First all old addresses: one home may come to where another was.
        for (node, _) in &new {
            let old = self.by_node[node].address;
            if self.by_address.get(&old) == Some(node) && !self.planted.has(Planted::OldAddressBelieved) {
                self.by_address.remove(&old);
            }
        }
        let mut has_learnt = false;
        for (node, place) in new {
            if self.by_address.get(&place.address).is_some_and(|other| *other != node) {
                // It has no address that is heard until a newer entry says one: better nobody than two at one.
                self.by_node.insert(node, Place { epoch: place.epoch, ..self.by_node[&node] });
                continue;
            }
            self.by_address.insert(place.address, node);
            self.by_node.insert(node, place);
            has_learnt = true;
        }
        has_learnt
    }

    /// Where a node is.
    pub fn address_of(&self, node: NodeId) -> Option<SocketAddr> {
        self.by_node.get(&node).map(|place| place.address)
    }

    /// Where a node is, and since which table.
    pub fn place_of(&self, node: NodeId) -> Option<Place> {
        self.by_node.get(&node).copied()
    }

    /// Who is there.
    pub fn node_at(&self, address: SocketAddr) -> Option<NodeId> {
        self.by_address.get(&address).copied()
    }

    /// All, boxes first.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, SocketAddr)> + '_ {
        self.by_node.iter().map(|(node, place)| (*node, place.address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{BoxId, HomeId};

    const BOX: NodeId = NodeId::Box(BoxId(1));
    const HOMES: [NodeId; 2] = [NodeId::Home(HomeId(1)), NodeId::Home(HomeId(2))];

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn moved(entries: &[(u16, u16, u32)]) -> Moved {
        let entry = |&(home, port, epoch): &(u16, u16, u32)| {
            (HomeId(home), Place::new(at(port), Epoch(epoch)).expect("somebody's"))
        };
        entries.iter().map(entry).collect()
    }

    fn book<B: Bugs<Planted>>(planted: B) -> Book<B> {
        Book::with_bugs([(BOX, at(1)), (HOMES[0], at(2)), (HOMES[1], at(3))], planted).expect("they differ")
    }

    #[test]
    fn an_address_is_of_one() {
        let book = book(NoBugs);
        assert_eq!((book.node_at(at(2)), book.address_of(BOX)), (Some(HOMES[0]), Some(at(1))));
        assert_eq!(book.node_at(at(9)), None);
        assert_eq!(Book::new([(BOX, at(1)), (HOMES[0], at(1))]), Err((BOX, HOMES[0])));
    }

    /// Whether a home's old address is nobody's in the step in which it has a new one, and what is older is nothing.
    fn moves_in_one_step<B: Bugs<Planted>>(planted: B) -> bool {
        let mut book = book(planted);
        let first = book.learn(&moved(&[(1, 7, 5)]));
        let is_there = (book.address_of(HOMES[0]), book.node_at(at(7))) == (Some(at(7)), Some(HOMES[0]));
        let is_gone = book.node_at(at(2)).is_none();
        let older = book.learn(&moved(&[(1, 8, 4)])) || book.learn(&moved(&[(1, 8, 5)]));
        let stays = (book.address_of(HOMES[0]), book.node_at(at(8))) == (Some(at(7)), None);
        first && is_there && is_gone && !older && stays
    }

    #[test]
    fn a_home_moves_in_one_step_and_never_back_by_what_is_older() {
        assert!(moves_in_one_step(NoBugs));
        for planted in [Planted::OldAddressBelieved, Planted::LowerEpochTaken] {
            assert!(!moves_in_one_step(Some(planted)), "{}", planted.name());
        }
    }

    #[test]
    fn homes_may_change_places_and_nobody_takes_another_nodes() {
        let mut book = book(NoBugs);
        assert!(book.learn(&moved(&[(1, 3, 5), (2, 2, 6)])));
        assert_eq!((book.node_at(at(2)), book.node_at(at(3))), (Some(HOMES[1]), Some(HOMES[0])));
        // The box's: the entry counts, and nobody is heard as home 1 until there is a better one.
        assert!(!book.learn(&moved(&[(1, 1, 7)])));
        assert_eq!((book.node_at(at(1)), book.node_at(at(3))), (Some(BOX), None));
        assert!(!book.learn(&moved(&[(1, 9, 6), (8, 10, 9)])), "it is older, or of no home here");
        assert!(book.learn(&moved(&[(1, 9, 8)])));
        assert_eq!(book.node_at(at(9)), Some(HOMES[0]));
    }
}
