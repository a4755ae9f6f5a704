//! A lab that stands: its network in the kernel, its folder, and the processes that are started in it.
//!
//! Processes outlive this value; [`Site::remove`], or `millrace lab down` by whomever, ends them.
//!
//! XDP: a box answers in its driver by sending the frame back or into another cable, and a veth takes such frames only from a peer that has
//! an XDP program, too. One process for the lab, the *holder* (see `hold`), puts a program that passes everything on all ends but those that
//! are a box's own.

use super::LabError;
use super::command;
use super::ip;
use super::link::Link;
use super::namespace;
use super::network::Network;
use super::place;
use super::plan::Plan;
use super::process::{Process, Started};
use super::state::{self, State};
use protocol::coherence::{Life, NodeId};
use serve::inc::Topology;
use std::fs;

/// What every namespace is told, before it has a cable. A root's answer may take the other root's way (`rp_filter`), and nobody speaks of
/// itself (IPv6).
const SYSCTLS: [(&str, &str); 6] = [
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/fib_multipath_hash_policy", "1"),
    ("net/ipv4/icmp_ratelimit", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];

/// A lab that was made here.
#[derive(Debug)]
pub struct Site {
    name: String,
    network: Network,
    topology: Topology,
    links: Vec<Link>,
    /// Boxes have the tier.
    xdp: bool,
    state: State,
    programs: Vec<Started>,
}

/// Root, or a sentence for who is not.
///
/// # Errors
/// [`LabError::Root`].
pub fn require_root(what: &'static str) -> Result<(), LabError> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(LabError::Root(what)) }
}

impl Site {
    /// Builds network, holder and link programs; no nodes yet. With a keeper, only that process takes it down.
    ///
    /// # Errors
    /// There is one of this name, or it cannot be built; then nothing is left of it.
    pub fn build(name: &str, plan: &Plan, keeper: Option<Process>) -> Result<Site, LabError> {
        let topology = plan.topology()?;
        let cut: Vec<_> = plan.links.iter().map(|link| link.between).collect();
        let network = Network::new(&topology, plan.clients, &cut, &state::prefix(name))?;
        state::create(name)?;
        let links: Vec<String> = plan.links.iter().map(Link::to_string).collect();
        let state = State { clients: plan.clients, links, keeper, processes: Vec::new() };
        let (name, links) = (name.to_string(), plan.links.clone());
        let mut site = Site { name, network, topology, links, xdp: plan.xdp, state, programs: Vec::new() };
        match site.establish() {
            Ok(()) => Ok(site),
            Err(cause) => {
                // The first failure says more than what follows from it.
                let _ = site.remove();
                Err(cause)
            }
        }
    }

    fn establish(&mut self) -> Result<(), LabError> {
        self.state.write(&self.name)?;
        let file = state::topology_file(&self.name);
        self.topology.write(&file)?;
        let batches = self.network.batches();
        ip::run(&batches[0])?;
        for node in self.network.places().keys() {
            let is_box = matches!(node, NodeId::Box(_));
            prepare(&self.network.namespace(*node), is_box)?;
        }
        for link in &self.links {
            prepare(&self.network.namespace_of_link(link.between).0, false)?;
        }
        batches[1..].iter().try_for_each(ip::run)?;
        let space = self.network.namespaces().swap_remove(0);
        let mut holder = self.start("holder", &space, &command::holder(&self.name))?;
        for link in self.links.clone() {
            let program = self.start_link(&link)?;
            self.programs.push(program);
        }
        self.programs.iter_mut().chain([&mut holder]).try_for_each(Started::await_ready)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Its nodes.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Its link programs.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The programs of its links, in their order, for whoever wants to kill them.
    pub fn take_programs(&mut self) -> Vec<Started> {
        std::mem::take(&mut self.programs)
    }

    /// Starts this program in a namespace, and notes it down; of a role there is one at a time.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&mut self, role: &str, namespace: &str, arguments: &[String]) -> Result<Started, LabError> {
        let started = Started::new(role, namespace, arguments, &state::log(&self.name, role))?;
        self.state.processes.retain(|process| process.role != role);
        self.state.processes.push(started.process.clone());
        self.state.write(&self.name)?;
        Ok(started)
    }

    /// Starts a node.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_node(&mut self, node: NodeId, life: Life) -> Result<Started, LabError> {
        let interfaces = if self.xdp { self.network.towards_hosts(node) } else { Vec::new() };
        let arguments = command::node(&state::topology_file(&self.name), node, life, &interfaces);
        self.start(&place::name(node), &self.network.namespace(node), &arguments)
    }

    /// Starts the program of a link.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_link(&mut self, link: &Link) -> Result<Started, LabError> {
        let (namespace, interfaces) = self.network.namespace_of_link(link.between);
        self.start(&link.role(), &namespace, &command::link(&interfaces, &link.faults))
    }

    /// Starts all nodes for the first time, and waits until they are ready.
    ///
    /// # Errors
    /// One cannot be started, or ends.
    pub fn start_nodes(&mut self) -> Result<Vec<(NodeId, Started)>, LabError> {
        let nodes = self.topology.nodes();
        let started: Result<Vec<_>, LabError> =
            nodes.into_iter().map(|node| Ok((node, self.start_node(node, Life::First)?))).collect();
        let mut started = started?;
        started.iter_mut().try_for_each(|(_, process)| process.await_ready())?;
        Ok(started)
    }

    /// Takes all of it away.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn remove(&self) -> Result<(), LabError> {
        state::remove(&self.name).map(drop)
    }
}

fn prepare(space: &str, forwards: bool) -> Result<(), LabError> {
    let forward = forwards.then_some(("net/ipv4/ip_forward", "1"));
    namespace::within(space, || {
        for (name, value) in SYSCTLS.into_iter().chain(forward) {
            let path = format!("/proc/sys/{name}");
            // A kernel without IPv6 has nothing to switch off.
            if fs::exists(&path).unwrap_or(false) {
                fs::write(&path, value)
                    .map_err(LabError::io(format!("writing {value} to {path} in {space}")))?;
            }
        }
        Ok(())
    })
}
