//! Nodes as people write them. Who is at which address: [`Book`].

pub use protocol::coherence::Book;
use protocol::coherence::NodeId;

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
}
