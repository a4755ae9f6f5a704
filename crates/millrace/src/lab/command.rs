//! What a lab starts: command lines of this program, all in this place.

use super::link::Faults;
use super::place;
use protocol::coherence::{Life, NodeId};
use std::path::Path;

fn words<'a>(all: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    all.into_iter().map(str::to_string).collect()
}

/// A box, home or controller.
pub fn node(topology: &Path, node: NodeId, life: Life) -> Vec<String> {
    let path = topology.to_str().expect("a lab's folder is text");
    let mut arguments = words(["inc", "run", "--topology", path, "--node", &place::name(node)]);
    if life == Life::First {
        arguments.push("--first".into());
    }
    arguments
}

/// The program of a link.
pub fn link([a, b]: &[String; 2], faults: &Faults) -> Vec<String> {
    words(["lab", "link", a, b, "--faults", &faults.to_string()])
}

/// The holder.
pub fn holder(name: &str) -> Vec<String> {
    words(["lab", "hold", name])
}
