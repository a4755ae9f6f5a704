//! `millrace lab hold`: keeps a program that passes everything on at the ends of a lab's cables. Started by `lab up`.
//!
//! A BPF link ends with the process that holds it. Why not a pin in bpffs: that need not be mounted, a pin outlives its interface's lab, and
//! a process in one of the lab's namespaces ends with the lab.

use super::LabError;
use super::link::Link;
use super::namespace;
use super::network::Network;
use super::state::{self, State, parse_name};
use serve::inc::Topology;

/// Hold XDP programs that pass everything on, for a lab that stands.
#[derive(clap::Args, Debug)]
pub struct Hold {
    /// The lab
    #[arg(value_parser = parse_name)]
    name: String,
}

/// The network of a lab that stands, from what it wrote down.
///
/// # Errors
/// There is none, or what it wrote makes no sense.
pub fn network(name: &str) -> Result<(State, Topology, Network), LabError> {
    let state = State::read(name)?;
    let topology = Topology::read(&state::topology_file(name))?;
    let bad = |why| LabError::State(state::folder(name), why);
    let links: Result<Vec<Link>, String> = state.links.iter().map(|text| text.parse()).collect();
    let cut: Vec<_> = links.map_err(bad)?.iter().map(|link| link.between).collect();
    let network = Network::new(&topology, state.clients, &cut, &state::prefix(name))?;
    Ok((state, topology, network))
}

impl Hold {
    /// Runs until it is ended. Without XDP it says why, and holds nothing: then boxes have their user tier.
    ///
    /// # Errors
    /// The lab is not there.
    pub fn run(&self) -> Result<(), LabError> {
        let (_, _, network) = network(&self.name)?;
        let attach = |(space, interface): &(String, String)| {
            namespace::within(space, || xdp::Pass::attach(interface).map_err(LabError::Xdp))
        };
        let held: Result<Vec<xdp::Pass>, LabError> = network.passing().iter().map(attach).collect();
        match &held {
            Ok(held) => println!("{} ends of cables pass XDP's frames on", held.len()),
            Err(cause) => println!("no XDP between namespaces: {cause}"),
        }
        loop {
            std::thread::park();
        }
    }
}
