//! Who is at which address. Clients are not in it: a client's address travels in its packets (see [`super::driver`]).

use protocol::coherence::NodeId;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// Addresses of boxes, homes and controllers, both ways. It never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    by_node: BTreeMap<NodeId, SocketAddr>,
    by_address: HashMap<SocketAddr, NodeId>,
}

impl Book {
    /// Of these nodes.
    ///
    /// # Errors
    /// The first node that has another's address.
    pub fn new(entries: impl IntoIterator<Item = (NodeId, SocketAddr)>) -> Result<Book, (NodeId, NodeId)> {
        let mut book = Book::default();
        for (node, address) in entries {
            if let Some(other) = book.by_address.insert(address, node) {
                return Err((other, node));
            }
            book.by_node.insert(node, address);
        }
        Ok(book)
    }

    /// Where a node is.
    pub fn address_of(&self, node: NodeId) -> Option<SocketAddr> {
        self.by_node.get(&node).copied()
    }

    /// Who is there.
    pub fn node_at(&self, address: SocketAddr) -> Option<NodeId> {
        self.by_address.get(&address).copied()
    }

    /// All, boxes first.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, SocketAddr)> + '_ {
        self.by_node.iter().map(|(node, address)| (*node, *address))
    }
}

/// A node as people write it: `box:1`, `home:1`, `controller:0`.
pub fn name(node: NodeId) -> String {
    match node {
        NodeId::Client(id) => format!("client:{id}"),
        NodeId::Box(id) => format!("box:{id}"),
        NodeId::Home(id) => format!("home:{id}"),
        NodeId::Controller(index) => format!("controller:{index}"),
    }
}

/// What [`name`] writes, but no client.
///
/// # Errors
/// What is wanted, in words.
pub fn parse(text: &str) -> Result<NodeId, String> {
    use protocol::wire::{BoxId, HomeId};
    let bad = || format!("{text:?} names no node; write box:1, home:1 or controller:0");
    let (kind, number) = text.split_once(':').ok_or_else(bad)?;
    let number: u16 = number.parse().map_err(|_| bad())?;
    match kind {
        "box" => Ok(NodeId::Box(BoxId(number))),
        "home" => Ok(NodeId::Home(HomeId(number))),
        "controller" => u8::try_from(number).map(NodeId::Controller).map_err(|_| bad()),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::wire::{BoxId, HomeId};

    #[test]
    fn names_are_read_as_they_are_written() {
        for node in [NodeId::Box(BoxId(7)), NodeId::Home(HomeId(1)), NodeId::Controller(0)] {
            assert_eq!(parse(&name(node)), Ok(node));
        }
        for bad in ["box", "box:", "box:x", "tor:1", "controller:256", "client:1", ""] {
            assert!(parse(bad).is_err_and(|why| why.contains("write box:1")), "{bad}");
        }
    }

    #[test]
    fn an_address_is_of_one() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let (one, two) = (NodeId::Box(BoxId(1)), NodeId::Home(HomeId(1)));
        let book = Book::new([(one, at(1)), (two, at(2))]).expect("they differ");
        assert_eq!((book.node_at(at(2)), book.address_of(one)), (Some(two), Some(at(1))));
        assert_eq!(book.node_at(at(3)), None);
        assert_eq!(Book::new([(one, at(1)), (two, at(1))]), Err((one, two)));
    }
}
