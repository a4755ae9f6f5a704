//! What a lab starts: command lines of this program, all in this place.

use super::link::Faults;
use super::place;
use super::run::solo::Solo;
use protocol::coherence::{Life, NodeId};
use std::path::Path;

fn words<'a>(all: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    all.into_iter().map(str::to_string).collect()
}

/// A box, home or controller; with interfaces, a box with its XDP tier on these.
pub fn node(topology: &Path, node: NodeId, life: Life, xdp: &[String]) -> Vec<String> {
    let path = topology.to_str().expect("a lab's folder is text");
    let mut arguments = match node {
        NodeId::Box(id) if !xdp.is_empty() => words(["box", &id.to_string(), "--xdp-required"]),
        node => words(["inc", "run", "--node", &place::name(node)]),
    };
    arguments.extend(xdp.iter().flat_map(|interface| ["--xdp".to_string(), interface.clone()]));
    arguments.extend(words(["--topology", path]));
    if life == Life::First {
        arguments.push("--first".into());
    }
    arguments
}

/// The program of a link.
pub fn link([a, b]: &[String; 2], faults: &Faults) -> Vec<String> {
    words(["lab", "link", a, b, "--faults", &faults.to_string()])
}

/// An RPC server or gateway, with the cache of a topology or without.
pub fn rpc(said: &[&str], cache: Option<&Path>) -> Vec<String> {
    let cache = cache.map(|path| path.to_str().expect("a lab's folder is text"));
    words(
        ["rpc"]
            .into_iter()
            .chain(said.iter().copied())
            .chain(cache.into_iter().flat_map(|file| ["--cache", file])),
    )
}

/// The holder.
pub fn holder(name: &str) -> Vec<String> {
    words(["lab", "hold", name])
}

/// A client of a run.
pub fn client(solo: &Solo) -> Vec<String> {
    let text = |path: &Path| path.to_str().expect("a lab's folder is text").to_string();
    let mut arguments = words(["lab", "client"]);
    for (name, value) in [
        ("--topology", text(&solo.topology)),
        ("--number", solo.number.to_string()),
        ("--tor", solo.tor.to_string()),
        ("--journal", text(&solo.journal)),
        ("--every", format!("{}us", solo.every.as_nanos() as f64 / 1e3)),
    ] {
        arguments.extend([name.to_string(), value]);
    }
    if let Some(of) = solo.of {
        arguments.extend(["--of".to_string(), of.to_string()]);
    }
    arguments.extend(solo.load.arguments());
    arguments
}
