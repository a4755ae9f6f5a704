//! Nodes and clients for computations: for each choice of coherence.compute a box, a home behind it, and clients before it.
//!
//! In namespaces the nodes are threads of this process, too, with sockets of their namespaces: what differs is the way, not the nodes. There is one
//! more pair of nodes there, processes: a box with its XDP program before it.

use super::way::Way;
use crate::lab::site::require_root;
use crate::lab::{LabError, Plan, Site, namespace, network, place, state};
use protocol::coherence::NodeId;
use protocol::planted::NoBugs;
use protocol::wire::{BoxId, HomeId};
use serve::inc::rack::Rack;
use serve::inc::topology::Shape;
use serve::inc::{Client, Topology, plan};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

/// One box before one home.
const SHAPE: Shape = Shape { tors: 1, roots: 0, homes: 1, controllers: 0 };

/// Everything that runs.
pub struct Rig {
    racks: BTreeMap<&'static str, (Rack, Vec<Client>)>,
    /// Before the boxes with an XDP program, by the choice they go by; without one there is a reason.
    fast: Result<BTreeMap<&'static str, Vec<Client>>, String>,
    /// The namespaces, if there are any; gone when this is dropped.
    site: Option<Site>,
}

impl Rig {
    /// Starts nodes and `clients` clients for each of `choices`; in the namespaces of a lab called `name`, if there is one.
    ///
    /// # Errors
    /// Settings do not fit, or the system gives no sockets or namespaces.
    pub fn start(
        choices: &[&'static str],
        clients: u16,
        settings: &[(String, String)],
        name: Option<&str>,
    ) -> Result<Rig, LabError> {
        let fast = Err("an XDP program needs namespaces".to_string());
        let mut rig = Rig { racks: BTreeMap::new(), fast, site: name.map(stand).transpose()? };
        for (number, &choice) in (0..).zip(choices) {
            let registers = plan::registers(settings)?;
            registers.set("coherence.compute", choice).map_err(serve::inc::IncError::Register)?;
            let rack = match &rig.site {
                None => Rack::start(&SHAPE, &registers)?,
                Some(site) => {
                    let at = |node| beside(network::address_of(node), number);
                    let topology = Topology::two_levels(&SHAPE, at, &registers)?;
                    let bound = sockets(site, &topology)?;
                    Rack::of(topology, bound, NoBugs)?
                }
            };
            let topology = rack.topology().clone();
            let init = || (0..clients).map(|_| Ok(Client::init(&topology, Some(1))?)).collect();
            let clients = match &rig.site {
                None => init()?,
                Some(site) => namespace::within(&site.network().namespace(network::client(1)), init)?,
            };
            rig.racks.insert(choice, (rack, clients));
        }
        if let Some(site) = &mut rig.site {
            let port = choices.len() as u16;
            rig.fast = start_with_xdp(site, port, clients, settings).map_err(|error| error.to_string());
        }
        Ok(rig)
    }

    /// Why no box has an XDP program, if none has.
    pub fn without_xdp(&self) -> Option<&str> {
        self.fast.as_ref().err().map(String::as_str)
    }

    /// Clients that go this way.
    pub fn clients(&mut self, way: &Way) -> &mut [Client] {
        match &mut self.fast {
            Ok(fast) if way.with_xdp => fast.get_mut(way.register).expect("there is a box for each way"),
            _ => &mut self.racks.get_mut(way.register).expect("there is a rack for each choice").1,
        }
    }

    /// Where it runs, in words.
    pub fn place(&self) -> &'static str {
        if self.site.is_some() { "namespaces" } else { "loopback" }
    }

    /// Ends the nodes.
    ///
    /// # Errors
    /// A node's socket failed meanwhile.
    pub fn stop(mut self) -> Result<(), LabError> {
        Ok(self.racks.values_mut().try_for_each(|(rack, _)| rack.stop())?)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(site) = &self.site {
            // `lab down` removes what is left.
            let _ = site.remove();
        }
    }
}

/// Namespaces for client, box and home.
fn stand(name: &str) -> Result<Site, LabError> {
    require_root("a lab in namespaces")?;
    let plan = Plan {
        topology: None,
        shape: SHAPE,
        clients: 1,
        settings: Vec::new(),
        links: Vec::new(),
        xdp: false,
    };
    Site::build(name, &plan, None)
}

/// Home and box as processes, the box with its XDP program, and clients by what they ask of it: an interface has one program, and the choice is the
/// clients'.
fn start_with_xdp(
    site: &mut Site,
    port: u16,
    clients: u16,
    settings: &[(String, String)],
) -> Result<BTreeMap<&'static str, Vec<Client>>, LabError> {
    let registers = plan::registers(settings)?;
    registers.set("coherence.compute", "own_lossy").map_err(serve::inc::IncError::Register)?;
    let topology = Topology::two_levels(&SHAPE, |node| beside(network::address_of(node), port), &registers)?;
    let file = state::folder(site.name()).join("xdp.toml");
    topology.write(&file)?;
    for (node, words) in [
        (NodeId::Home(HomeId(1)), "home 1"),
        (NodeId::Box(BoxId(1)), "box 1 --xdp to-client1 --xdp-required"),
    ] {
        let mut words: Vec<String> = words.split(' ').map(str::to_string).collect();
        words.extend(["--topology".to_string(), file.display().to_string(), "--first".to_string()]);
        let space = site.network().namespace(node);
        site.start(&format!("{} with XDP", place::name(node)), &space, &words)?.await_ready()?;
    }
    let space = site.network().namespace(network::client(1));
    let text = std::fs::read_to_string(&file).map_err(LabError::io("reading the topology"))?;
    let init = |choice| {
        let topology = Topology::parse(&text.replace("own_lossy", choice), &file)?;
        let clients = (0..clients).map(|_| Ok(Client::init(&topology, Some(1))?));
        Ok((choice, clients.collect::<Result<_, LabError>>()?))
    };
    namespace::within(&space, || ["try_first", "own_lossy"].into_iter().map(init).collect())
}

fn beside(address: SocketAddr, number: u16) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port() + number)
}

/// A socket for each node, in its namespace.
fn sockets(site: &Site, topology: &Topology) -> Result<BTreeMap<NodeId, (UdpSocket, SocketAddr)>, LabError> {
    let bind = |(node, address)| {
        let space = site.network().namespace(node);
        let socket = namespace::within(&space, || Ok(topology.bind(node)?))?;
        Ok((node, (socket, address)))
    };
    topology.book().iter().map(bind).collect()
}
