//! The network of a laboratory, computed: namespaces, cables, addresses, routes, and the commands that make them.
//!
//! ```text
//!   client:1 ─┐                 ┌─ box:3 ─┐
//!   client:3 ─┴─ box:1 ── ✂ ────┤         ├── box:2 ─┬─ home:1
//!                               └─ box:4 ─┘          └─ controller:0        ✂: a link program in a namespace of its own
//! ```
//!
//! Each node has a namespace and one address, on its loopback interface; so an address does not depend on the way. A box's namespace is the
//! switch: it forwards between its cables whether or not the box itself runs. Homes are next to the box of the topology; controllers and
//! clients take the lowest boxes in turn.
//!
//! An interface is named after what is at the other end (`to-box3`). Its hardware address is computed and known to the neighbour for good:
//! nobody asks by ARP, so that no question is lost on a bad link, and a program that looks routes up (`bpf_fib_lookup`) finds neighbours
//! known.
//!
//! Routes: shortest paths. Where several are equally short they are used side by side, by addresses and ports (ECMP), as in a data centre.
//!
//! Bounds: 64 boxes, 32 homes, 16 controllers, [`MAX_CLIENTS`] clients; a route per box and node.

use super::LabError;
use super::place::{name, slug};
use protocol::coherence::NodeId;
use protocol::wire::{BoxId, ClientId};
use serve::inc::Topology;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Clients that a laboratory may have.
pub const MAX_CLIENTS: u32 = 256;
/// The port of all nodes of a computed topology: each has an address of its own.
const PORT: u16 = 7100;

/// Where a node of a computed topology is.
pub fn address_of(node: NodeId) -> SocketAddr {
    let (kind, number) = match node {
        NodeId::Box(id) => (1, id.0 as u8),
        NodeId::Home(id) => (2, id.0 as u8),
        NodeId::Controller(index) => (3, index + 1),
        NodeId::Client(id) => return SocketAddr::from((client_address(id.0 as u32), 0)),
    };
    SocketAddr::from(([10, 77, kind, number], PORT))
}

fn client_address(number: u32) -> Ipv4Addr {
    let (row, place) = ((number - 1) / 200, (number - 1) % 200);
    Ipv4Addr::new(10, 77, 100 + row as u8, 1 + place as u8)
}

/// The `number`th client, counted from 1.
pub fn client(number: u32) -> NodeId {
    NodeId::Client(ClientId(number.into()))
}

/// One end of a cable, in a node's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Its interface.
    pub interface: String,
    mac: String,
    /// Who is at the other end.
    pub to: NodeId,
    peer_mac: String,
}

/// A node in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of the node.
    pub address: Ipv4Addr,
    /// Its cables.
    pub ends: Vec<End>,
    /// To each other node: the neighbours on shortest ways. A host's is everything's.
    routes: Vec<(Option<Ipv4Addr>, Vec<NodeId>)>,
}

/// Lines for one `ip -batch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// In this namespace; in the caller's where there is none.
    pub namespace: Option<String>,
    /// In this order.
    pub lines: Vec<String>,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Network {
    prefix: String,
    places: BTreeMap<NodeId, Place>,
    cables: Vec<(NodeId, NodeId)>,
    /// Cables that a link program is in.
    cut: Vec<(NodeId, NodeId)>,
}

impl Network {
    /// Of a topology's nodes and so many clients, with link programs in the cables of `cut`. Namespaces begin with `prefix`.
    ///
    /// # Errors
    /// Addresses that do not fit, nodes without a way to each other, or a cable that is not there.
    pub fn new(
        topology: &Topology,
        clients: u32,
        cut: &[(NodeId, NodeId)],
        prefix: &str,
    ) -> Result<Network, LabError> {
        let cables = cables(topology, clients);
        let is = |(a, b): (NodeId, NodeId)| cables.contains(&(a, b)) || cables.contains(&(b, a));
        if let Some((a, b)) = cut.iter().find(|pair| !is(**pair)) {
            return Err(LabError::NoCable(*a, *b, cables.clone()));
        }
        let same =
            |(a, b): &(NodeId, NodeId), other: &(NodeId, NodeId)| *other == (*a, *b) || *other == (*b, *a);
        if let Some((_, (a, b))) =
            cut.iter().enumerate().find(|(i, pair)| cut[..*i].iter().any(|other| same(pair, other)))
        {
            return Err(LabError::TwoLinks(*a, *b));
        }
        let mut places = addresses(topology, clients)?;
        for (number, (a, b)) in cables.iter().enumerate() {
            let mac = |side: u8| format!("02:6d:72:{:02x}:{:02x}:{side:02x}", number >> 8, number & 0xff);
            for (from, to, side) in [(a, b, 0), (b, a, 1)] {
                let (interface, mac, peer_mac) = (format!("to-{}", slug(*to)), mac(side), mac(1 - side));
                let place = places.get_mut(from).expect("cables are between nodes");
                place.ends.push(End { interface, mac, to: *to, peer_mac });
            }
        }
        let mut network = Network { prefix: prefix.into(), places, cables, cut: cut.to_vec() };
        network.find_routes()?;
        Ok(network)
    }

    /// All nodes, and clients.
    pub fn places(&self) -> &BTreeMap<NodeId, Place> {
        &self.places
    }

    /// The namespace of a node.
    pub fn namespace(&self, node: NodeId) -> String {
        format!("{}{}", self.prefix, slug(node))
    }

    /// The namespace of a link program, and its interface at each end.
    pub fn namespace_of_link(&self, (a, b): (NodeId, NodeId)) -> (String, [String; 2]) {
        (format!("{}{}-{}", self.prefix, slug(a), slug(b)), [a, b].map(|node| format!("to-{}", slug(node))))
    }

    /// The box that a host is next to.
    pub fn tor(&self, host: NodeId) -> Option<BoxId> {
        match self.places.get(&host)?.ends.first()?.to {
            NodeId::Box(id) if !matches!(host, NodeId::Box(_)) => Some(id),
            _ => None,
        }
    }

    /// A box's interfaces to homes, controllers and clients, where an XDP program of its own may be; of others none.
    pub fn towards_hosts(&self, node: NodeId) -> Vec<String> {
        let ends = self.places.get(&node).filter(|_| is_box(node)).map_or(&[][..], |place| &place.ends);
        ends.iter().filter(|end| !is_box(end.to)).map(|end| end.interface.clone()).collect()
    }

    /// Interfaces, by namespace, that pass XDP's frames on: all but a box's towards hosts, where its own program may be.
    pub fn passing(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (node, place) in &self.places {
            let own = self.towards_hosts(*node);
            let ends = place.ends.iter().filter(|end| !own.contains(&end.interface));
            all.extend(ends.map(|end| (self.namespace(*node), end.interface.clone())));
        }
        for pair in &self.cut {
            let (namespace, interfaces) = self.namespace_of_link(*pair);
            all.extend(interfaces.map(|interface| (namespace.clone(), interface)));
        }
        all
    }

    /// All namespaces.
    pub fn namespaces(&self) -> Vec<String> {
        let nodes = self.places.keys().map(|node| self.namespace(*node));
        nodes.chain(self.cut.iter().map(|pair| self.namespace_of_link(*pair).0)).collect()
    }

    /// What makes it, in order: namespaces, cables, then each namespace from within.
    pub fn batches(&self) -> Vec<Batch> {
        let add = |namespace: &String| format!("netns add {namespace}");
        let outside = |lines| Batch { namespace: None, lines };
        let mut batches = vec![
            outside(self.namespaces().iter().map(add).collect()),
            outside(self.cables.iter().flat_map(|cable| self.lay(*cable)).collect()),
        ];
        batches.extend(self.places.iter().map(|(node, place)| self.inside(*node, place)));
        batches.extend(self.cut.iter().map(|pair| {
            let (namespace, interfaces) = self.namespace_of_link(*pair);
            let lines = interfaces.map(|interface| format!("link set {interface} up"));
            Batch { namespace: Some(namespace), lines: lines.into() }
        }));
        batches
    }

    fn lay(&self, (a, b): (NodeId, NodeId)) -> Vec<String> {
        let end = |from: NodeId, to: NodeId| {
            let end = self.places[&from].ends.iter().find(|end| end.to == to).expect("a cable has two ends");
            let (interface, mac, namespace) = (&end.interface, &end.mac, self.namespace(from));
            format!("name {interface} address {mac} netns {namespace}")
        };
        let Some(cut) = self.cut.iter().find(|pair| **pair == (a, b) || **pair == (b, a)) else {
            return vec![format!("link add {} type veth peer {}", end(a, b), end(b, a))];
        };
        let (namespace, _) = self.namespace_of_link(*cut);
        let half = |from, to| {
            let middle = format!("name to-{} netns {namespace}", slug(from));
            format!("link add {} type veth peer {middle}", end(from, to))
        };
        vec![half(a, b), half(b, a)]
    }

    fn inside(&self, node: NodeId, place: &Place) -> Batch {
        let mut lines =
            vec!["link set lo up".to_string(), format!("address add {}/32 dev lo", place.address)];
        for End { interface, to, peer_mac, .. } in &place.ends {
            let next = self.places[to].address;
            lines.push(format!("link set {interface} up"));
            lines.push(format!("neighbour add {next} lladdr {peer_mac} dev {interface} nud permanent"));
            lines.push(format!("route add {next}/32 dev {interface} src {}", place.address));
        }
        for (to, hops) in &place.routes {
            let to = to.map_or("default".to_string(), |to| format!("{to}/32"));
            let mut line = format!("route add {to} src {}", place.address);
            let word = if hops.len() > 1 { " nexthop" } else { "" };
            for hop in hops {
                let end = place.ends.iter().find(|end| end.to == *hop).expect("a hop is a neighbour");
                let _ = write!(line, "{word} via {} dev {}", self.places[hop].address, end.interface);
            }
            lines.push(line);
        }
        Batch { namespace: Some(self.namespace(node)), lines }
    }

    fn find_routes(&mut self) -> Result<(), LabError> {
        let nodes: Vec<NodeId> = self.places.keys().copied().collect();
        let mut routes: BTreeMap<NodeId, Vec<_>> = BTreeMap::new();
        for to in &nodes {
            let far = self.distances(*to);
            if let Some(apart) = nodes.iter().find(|node| !far.contains_key(node)) {
                return Err(LabError::Apart(*apart, *to));
            }
            for (from, place) in self.places.iter().filter(|(from, _)| far[from] > 1 && is_box(**from)) {
                let hops = place.ends.iter().map(|end| end.to).filter(|hop| far[hop] + 1 == far[from]);
                // Hosts do not forward.
                let hops = hops.filter(|hop| is_box(*hop)).collect();
                routes.entry(*from).or_default().push((Some(self.places[to].address), hops));
            }
        }
        for (node, place) in &mut self.places {
            place.routes = match is_box(*node) {
                true => routes.remove(node).unwrap_or_default(),
                false => vec![(None, vec![place.ends[0].to])],
            };
        }
        Ok(())
    }

    /// Cables from every node to `to`, on shortest ways.
    fn distances(&self, to: NodeId) -> BTreeMap<NodeId, usize> {
        let mut far = BTreeMap::from([(to, 0)]);
        let mut reached = vec![to];
        let mut next = 0;
        while let Some(&node) = reached.get(next) {
            next += 1;
            if !is_box(node) && node != to {
                continue;
            }
            for end in &self.places[&node].ends {
                if !far.contains_key(&end.to) {
                    far.insert(end.to, far[&node] + 1);
                    reached.push(end.to);
                }
            }
        }
        far
    }
}

fn is_box(node: NodeId) -> bool {
    matches!(node, NodeId::Box(_))
}

/// Who is next to whom: boxes to those above, hosts to their box.
fn cables(topology: &Topology, clients: u32) -> Vec<(NodeId, NodeId)> {
    let mut cables = Vec::new();
    for place in topology.places() {
        cables.extend(place.above.iter().map(|above| (NodeId::Box(place.id), NodeId::Box(*above))));
    }
    cables.sort();
    cables.dedup();
    cables.extend(topology.homes().iter().map(|(home, before)| (NodeId::Box(*before), NodeId::Home(*home))));
    let is_low = |id: &BoxId| !topology.places().iter().any(|place| place.above.contains(id));
    let tors: Vec<BoxId> = topology.places().iter().map(|place| place.id).filter(is_low).collect();
    let tor = |number: u32| NodeId::Box(tors[number as usize % tors.len()]);
    // Away from the first: there the first client is.
    let last = tors.len() as u32 - 1;
    cables.extend((0..topology.controllers()).map(|i| (tor(last + u32::from(i)), NodeId::Controller(i))));
    cables.extend((1..=clients).map(|number| (tor(number - 1), client(number))));
    cables
}

/// Everybody's address, without cables yet.
fn addresses(topology: &Topology, clients: u32) -> Result<BTreeMap<NodeId, Place>, LabError> {
    let mut places = BTreeMap::new();
    let mut taken = BTreeMap::new();
    let clients = (1..=clients).map(|number| (client(number), SocketAddr::from((client_address(number), 0))));
    for (node, address) in topology.book().iter().chain(clients) {
        let address = match address.ip() {
            IpAddr::V4(address) if !address.is_loopback() => address,
            _ => return Err(LabError::Address(node, address)),
        };
        if let Some(other) = taken.insert(address, node) {
            return Err(LabError::Shared(name(other), name(node), address));
        }
        places.insert(node, Place { address, ends: Vec::new(), routes: Vec::new() });
    }
    Ok(places)
}

#[cfg(test)]
mod tests;
