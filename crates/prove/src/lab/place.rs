//! Names of places: `box:1`, `home:1`, `controller:0`, as everywhere, and `client:1`.

use super::network::{MAX_CLIENTS, client};
use protocol::coherence::NodeId;
use serve::inc::book;

pub use serve::inc::book::name;

/// Reads a name, a client's too.
///
/// # Errors
/// What is wanted, in words.
pub fn parse(text: &str) -> Result<NodeId, String> {
    let number = |number: &str| number.parse().ok().filter(|number| (1..=MAX_CLIENTS).contains(number));
    match text.strip_prefix("client:") {
        Some(text) => {
            number(text).map(client).ok_or_else(|| format!("clients are client:1 to client:{MAX_CLIENTS}"))
        }
        None => book::parse(text).map_err(|why| format!("{why}, or client:1")),
    }
}

/// The name as a part of an interface's or a namespace's.
pub fn slug(node: NodeId) -> String {
    name(node).replace(':', "")
}
