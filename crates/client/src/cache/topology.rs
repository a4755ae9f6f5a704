//! Which boxes, homes and controllers there are, at which addresses, and how they are tuned: a file that all of them, and clients, read.
//!
//! ```toml
//! slots = 64                  # a power of two; keys are spread over homes by slot
//!
//! [cluster]
//! key = "cluster.key"         # of nodes; paths are from this file's folder. `millrace key new` makes one
//! client_key = "client.key"   # all that clients need; `millrace key client` makes it of the other
//!
//! [[box]]
//! id = 1                      # 1 to 64
//! address = "127.0.0.1:7101"
//! above = [3]                 # boxes on the way up; none at the top
//! draining = false            # true: it is to be stopped; `millrace cluster drain` writes it
//!
//! [[home]]
//! id = 1
//! address = "127.0.0.1:7104"
//! box = 2                     # the box before it
//! stream = "127.0.0.1:11211"  # its memcached listener, for values too long for a packet; all homes have one, or none
//! admin = "127.0.0.1:9104"    # of any node: where operators find it, unless its --admin says so
//! moved = 1048578             # it is at its address by an order of this epoch; `millrace cluster move` writes it
//!
//! [[controller]]              # in the order in which they take over
//! address = "127.0.0.1:7105"
//!
//! [[range]]                   # where copies of some slots may be kept; without one, in all boxes
//! slots = "0-31"
//! cache = "cluster"           # only boxes that the client is under; "nowhere"; [1, 2]: only these boxes
//!
//! [coherence]                 # registers
//! lease = 500000
//! ```
//! The same file may have chains of replicas in it, `[[chain]]`, which `serve::chain::members` reads: the file of a cluster.
//!
//! Invariant of a [`Topology`]: it was checked; its nodes have addresses of one family that others can send to.

use super::book::Book;
use super::error::TopologyError;
use super::registers::{self, Registers};
use super::secret::{self, Secret};
use crate::controllers::Controllers;
use crate::table::Source;
use base::Bytes;
use base::key::Key;
use protocol::coherence::guard::Keys;
use protocol::coherence::holders::Boxes;
use protocol::coherence::ranges::{Caching, Range, Ranges};
use protocol::coherence::table::{BoxPlace, Layout};
use protocol::coherence::{Config, NodeId};
use protocol::wire::{BoxId, HomeId, MAX_VALUE};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;

mod file;
mod found;
mod moves;

/// Slots where none are given.
const SLOTS: usize = 64;

/// How many of each, for a topology of two levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "flags", derive(clap::Args))]
pub struct Shape {
    /// Boxes that clients and homes are next to (top of rack)
    #[cfg_attr(feature = "flags", arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=32)))]
    pub tors: u16,

    /// Boxes above all of these
    #[cfg_attr(feature = "flags", arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=32)))]
    pub roots: u16,

    /// Homes of items, behind the last ToRs
    #[cfg_attr(feature = "flags", arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=32)))]
    pub homes: u16,

    /// Controllers: the first that lives makes the tables
    #[cfg_attr(feature = "flags", arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=16)))]
    pub controllers: u8,
}

impl Shape {
    /// All nodes, in the order in which files list them.
    pub fn nodes(&self) -> Vec<NodeId> {
        let boxes = (1..=self.tors + self.roots).map(|id| NodeId::Box(BoxId(id)));
        let homes = (1..=self.homes).map(|id| NodeId::Home(HomeId(id)));
        boxes.chain(homes).chain((0..self.controllers).map(NodeId::Controller)).collect()
    }
}

/// A checked topology.
#[derive(Debug)]
pub struct Topology {
    boxes: Vec<BoxPlace>,
    homes: Vec<(HomeId, BoxId)>,
    /// Memcached listeners, of all homes or of none.
    streams: BTreeMap<HomeId, SocketAddr>,
    layout: Arc<Layout>,
    book: Book,
    /// A home that is started here at another address than the file says.
    elsewhere: Option<HomeId>,
    controllers: u8,
    /// Boxes that are to be stopped.
    draining: Boxes,
    /// Where operators find nodes, of those that say it.
    admin: BTreeMap<NodeId, SocketAddr>,
    config: Config,
    secret: Secret,
    memory: Bytes,
    cores: u8,
    filter: u8,
    pad_waste: u64,
    value_max: usize,
    /// As text, of registers that are not at their defaults.
    tuned: Vec<(&'static str, String)>,
}

impl Topology {
    /// As a client has it: reads a file, or asks the controllers that are named instead (`http://HOST:PORT`).
    ///
    /// # Errors
    /// Says what is wrong and what would be right.
    pub fn read(path: &Path) -> Result<Topology, TopologyError> {
        if Controllers::named(path).is_none() {
            return Topology::read_file(path);
        }
        let source = Source::of_cluster(path).map_err(TopologyError::File)?;
        Topology::parse(source.text(), path)
    }

    /// As a node has it: reads a file.
    ///
    /// # Errors
    /// As [`Topology::read`].
    pub fn read_file(path: &Path) -> Result<Topology, TopologyError> {
        if Controllers::named(path).is_some() {
            return Err(TopologyError::NoFile(path.to_path_buf()));
        }
        let text =
            std::fs::read_to_string(path).map_err(|cause| TopologyError::Read(path.to_path_buf(), cause))?;
        Topology::parse(&text, path)
    }

    /// Of the text of a file; `path` is for errors.
    ///
    /// # Errors
    /// As [`Topology::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Topology, TopologyError> {
        let source = Source::of(path, text);
        let parsed = source.parse().map_err(TopologyError::File)?;
        file::read(&source.table(&parsed), path)
    }

    /// Two levels, as [`Layout::two_levels`] has them: every ToR below every root. It has a new key.
    ///
    /// # Errors
    /// As [`Topology::read`]: the addresses, or the registers, do not fit.
    pub fn two_levels(
        shape: &Shape,
        address_of: impl Fn(NodeId) -> SocketAddr,
        registers: &Registers,
    ) -> Result<Topology, TopologyError> {
        let above: Vec<_> = (shape.tors + 1..=shape.tors + shape.roots).map(BoxId).collect();
        let tors = (1..=shape.tors).map(|id| BoxPlace { id: BoxId(id), above: above.clone() });
        let roots = above.iter().map(|id| BoxPlace { id: *id, above: vec![] });
        let homes = (0..shape.homes).map(|i| (HomeId(i + 1), BoxId(shape.tors - i % shape.tors))).collect();
        let addresses = shape.nodes().into_iter().map(|node| (node, address_of(node))).collect();
        let topology = Topology::new(tors.chain(roots).collect(), homes, SLOTS, addresses, registers)?;
        Ok(Topology { secret: Secret::Held(Key::generate()), ..topology })
    }

    /// The same, with homes that are memcached nodes at these addresses.
    ///
    /// # Errors
    /// Some homes have one and others do not, or nobody can connect to one.
    pub fn with_streams(
        self,
        streams: impl IntoIterator<Item = (HomeId, SocketAddr)>,
    ) -> Result<Topology, TopologyError> {
        let streams: BTreeMap<_, _> = streams.into_iter().collect();
        let nobodys = |address: &SocketAddr| address.ip().is_unspecified() || address.port() == 0;
        if let Some((home, address)) = streams.iter().find(|(_, address)| nobodys(address)) {
            return Err(TopologyError::NobodysAddress(NodeId::Home(*home), *address));
        }
        match self.homes.iter().find(|(home, _)| !streams.is_empty() && !streams.contains_key(home)) {
            Some((home, _)) => Err(TopologyError::SomeStreams(NodeId::Home(*home))),
            None => Ok(Topology { streams, ..self }),
        }
    }

    /// The same, with copies kept only as these ranges of slots say.
    ///
    /// # Errors
    /// They overlap, or name slots or boxes that are not there.
    pub fn with_ranges(self, ranges: Vec<Range>) -> Result<Topology, TopologyError> {
        let ranges = Ranges::new(ranges, self.layout.slots()).map_err(TopologyError::Ranges)?;
        let layout = (*self.layout).clone().with_ranges(ranges).map_err(TopologyError::Layout)?;
        Ok(Topology { layout: Arc::new(layout), ..self })
    }

    fn new(
        boxes: Vec<BoxPlace>,
        homes: Vec<(HomeId, BoxId)>,
        slots: usize,
        addresses: Vec<(NodeId, SocketAddr)>,
        registers: &Registers,
    ) -> Result<Topology, TopologyError> {
        let layout = Layout::new(&boxes, &homes, slots).map_err(TopologyError::Layout)?;
        check_addresses(&addresses)?;
        let config = registers::config(registers);
        config.check().map_err(TopologyError::Config)?;
        let controllers = addresses.iter().filter(|(node, _)| matches!(node, NodeId::Controller(_))).count();
        let book = Book::new(addresses).map_err(|(one, other)| TopologyError::SameAddress(one, other))?;
        let shown = registers.show().into_iter();
        let tuned = shown.filter(|shown| shown.value != shown.default).map(|shown| (shown.name, shown.value));
        Ok(Topology {
            layout: Arc::new(layout),
            book,
            elsewhere: None,
            controllers: controllers as u8,
            draining: Boxes::default(),
            admin: BTreeMap::new(),
            config,
            secret: Secret::None,
            memory: registers::memory(registers),
            cores: registers::cores(registers),
            filter: registers::filter(registers),
            pad_waste: registers::pad_waste(registers),
            value_max: registers::value_max(registers),
            streams: BTreeMap::new(),
            tuned: tuned.collect(),
            boxes,
            homes,
        })
    }

    /// What never changes.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Who is where, by the file.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// What its registers say.
    pub fn registers(&self) -> Registers {
        let registers = Registers::default();
        for (name, text) in &self.tuned {
            registers.set(name, text).expect("it was read from registers");
        }
        registers
    }

    /// Bounds and times of all machines.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Bytes of items that a home keeps.
    pub fn memory(&self) -> Bytes {
        self.memory
    }

    /// Cores that a node of this rack has.
    pub fn cores(&self, node: NodeId) -> u8 {
        if let NodeId::Box(_) = node { self.cores } else { 1 }
    }

    /// Sights of a key before a box's XDP program tells the box of it.
    pub fn filter(&self) -> u8 {
        self.filter
    }

    /// Bytes that clients pad in vain, for a hundred useful ones.
    pub fn pad_waste(&self) -> u64 {
        self.pad_waste
    }

    /// Memcached listeners of homes, for values that are too long for a packet: of all, or of none.
    pub fn streams(&self) -> &BTreeMap<HomeId, SocketAddr> {
        &self.streams
    }

    /// Bytes of the longest value that its clients read or write.
    pub fn value_max(&self) -> usize {
        if self.streams.is_empty() { MAX_VALUE } else { self.value_max.max(MAX_VALUE) }
    }

    /// How many controllers.
    pub fn controllers(&self) -> u8 {
        self.controllers
    }

    /// Boxes that are to be stopped, as the file says: what controllers begin with.
    pub fn draining(&self) -> Boxes {
        self.draining
    }

    /// Where operators find a node, if the file says so.
    pub fn admin(&self, node: NodeId) -> Option<SocketAddr> {
        self.admin.get(&node).copied()
    }

    /// The same of nodes in one process: if all of them are said to be at one address.
    pub fn admin_of(&self, nodes: &[NodeId]) -> Option<SocketAddr> {
        let first = self.admin(*nodes.first()?);
        first.filter(|_| nodes.iter().all(|node| self.admin(*node) == first))
    }

    /// Boxes, each with those above it.
    pub fn places(&self) -> &[BoxPlace] {
        &self.boxes
    }

    /// Homes, each with the box before it.
    pub fn homes(&self) -> &[(HomeId, BoxId)] {
        &self.homes
    }

    /// All nodes.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.book.iter().map(|(node, _)| node).collect()
    }

    /// The box that a client asks: `tor`, or the first.
    ///
    /// # Errors
    /// There is no such box.
    pub fn tor(&self, tor: Option<u16>) -> Result<BoxId, TopologyError> {
        let mut ids = self.layout.boxes();
        let found = ids.find(|id| tor.is_none_or(|tor| id.0 == tor));
        let all = || self.layout.boxes().map(|id| id.0).collect();
        found.ok_or_else(|| TopologyError::NoTor(tor.unwrap_or(0), all()))
    }

    /// A socket at the address of `node`.
    ///
    /// # Errors
    /// The topology has no such node, or this machine no such address, or somebody else has it.
    pub fn bind(&self, node: NodeId) -> Result<UdpSocket, TopologyError> {
        let unknown = || TopologyError::Unknown(node, self.nodes());
        let address = self.book.address_of(node).ok_or_else(unknown)?;
        UdpSocket::bind(address).map_err(|cause| TopologyError::Bind(node, address, cause))
    }

    /// A socket for a client: any port, and loopback where all nodes are there.
    ///
    /// # Errors
    /// The system's.
    pub fn bind_client(&self) -> std::io::Result<UdpSocket> {
        let addresses: Vec<IpAddr> = self.book.iter().map(|(_, address)| address.ip()).collect();
        let is_near = addresses.iter().all(IpAddr::is_loopback);
        let ip: IpAddr = match (addresses.first(), is_near) {
            (Some(IpAddr::V6(_)), true) => Ipv6Addr::LOCALHOST.into(),
            (Some(IpAddr::V6(_)), false) => Ipv6Addr::UNSPECIFIED.into(),
            (_, true) => Ipv4Addr::LOCALHOST.into(),
            (_, false) => Ipv4Addr::UNSPECIFIED.into(),
        };
        UdpSocket::bind((ip, 0))
    }

    /// The keys of a topology that was made in this process.
    pub fn held_keys(&self) -> Option<Keys> {
        self.secret.held().map(Keys::of_cluster)
    }

    /// What its nodes prove themselves with; none only if `no_key` says so, and then on one machine alone. On one machine the key is made where
    /// it is not there.
    ///
    /// # Errors
    /// There is no key, or none that only its owner can read.
    pub fn node_keys(&self, no_key: bool) -> Result<Option<Keys>, TopologyError> {
        let elsewhere = self.elsewhere();
        match (no_key, elsewhere) {
            (true, Some((node, address))) => Err(TopologyError::Exposed(node, address)),
            (true, None) => Ok(None),
            (false, _) => {
                let key = self.secret.cluster_key(elsewhere.is_none())?.ok_or(TopologyError::NoKey)?;
                Ok(Some(Keys::of_cluster(&key)))
            }
        }
    }

    /// A node that other machines reach.
    fn elsewhere(&self) -> Option<(NodeId, SocketAddr)> {
        self.book.iter().find(|(_, address)| !address.ip().is_loopback())
    }

    /// What its clients prove themselves with; none where the file names no key. On one machine it is made, as for nodes: who comes first makes it.
    ///
    /// # Errors
    /// A file that it names holds no key that only its owner can read.
    pub fn client_keys(&self) -> Result<Option<Keys>, TopologyError> {
        Ok(self.secret.client_key(self.elsewhere().is_none())?.map(Keys::of_client))
    }

    /// The same with its key in this process, to be written beside it elsewhere; with a new key where it names none.
    ///
    /// # Errors
    /// It names one that cannot be read.
    pub fn holding_its_key(self) -> Result<Topology, TopologyError> {
        let key = self.secret.cluster_key(false)?.unwrap_or_else(Key::generate);
        Ok(Topology { secret: Secret::Held(key), ..self })
    }

    /// Writes it into a file, and a key that only this process has into one beside it: `rack.key` for `rack.toml`.
    ///
    /// # Errors
    /// The system's, or there is another key.
    pub fn write(&self, path: &Path) -> Result<(), TopologyError> {
        let key = path.with_extension("key");
        self.secret.write(&key)?;
        let name = Path::new(key.file_name().unwrap_or_default());
        std::fs::write(path, self.text_with(name))
            .map_err(|cause| TopologyError::Write(path.to_path_buf(), cause))
    }

    /// As a file.
    pub fn text(&self) -> String {
        self.text_with(Path::new(secret::FILE))
    }

    fn text_with(&self, key: &Path) -> String {
        let mut text = format!("slots = {}\n", self.layout.slots());
        text.push_str(&self.secret.text(key));
        let at = |node| {
            let address = self.book.address_of(node).map_or(String::new(), |address| address.to_string());
            let admin = self.admin(node).map_or(String::new(), |admin| format!("\nadmin = \"{admin}\""));
            format!("address = \"{address}\"{admin}\n")
        };
        for place in &self.boxes {
            let above: Vec<_> = place.above.iter().map(BoxId::to_string).collect();
            let address = at(NodeId::Box(place.id));
            let _ = write!(text, "\n[[box]]\nid = {}\n{address}", place.id);
            let _ = writeln!(text, "above = [{}]", above.join(", "));
            if self.draining.contains(place.id) {
                text.push_str("draining = true\n");
            }
        }
        for (id, before) in &self.homes {
            let address = at(NodeId::Home(*id));
            let _ = write!(text, "\n[[home]]\nid = {id}\n{address}box = {before}\n");
            if let Some(stream) = self.streams.get(id) {
                let _ = writeln!(text, "stream = \"{stream}\"");
            }
            if let Some(place) = self.layout.moved().of(*id) {
                let _ = writeln!(text, "moved = {}", place.epoch);
            }
        }
        for index in 0..self.controllers {
            let _ = write!(text, "\n[[controller]]\n{}", at(NodeId::Controller(index)));
        }
        for Range { first, last, caching } in self.layout.ranges().iter() {
            let caching =
                if let Caching::Only(_) = caching { caching.to_string() } else { format!("\"{caching}\"") };
            let _ = write!(text, "\n[[range]]\nslots = \"{first}-{last}\"\ncache = {caching}\n");
        }
        text.push_str(
            "\n# Registers, the same for all: `millrace registers --inc` lists them.\n[coherence]\n",
        );
        for (name, value) in &self.tuned {
            let _ = writeln!(text, "{} = \"{value}\"", name.trim_start_matches("coherence."));
        }
        text
    }
}

fn check_addresses(addresses: &[(NodeId, SocketAddr)]) -> Result<(), TopologyError> {
    let nobodys = |address: &SocketAddr| address.ip().is_unspecified() || address.port() == 0;
    if let Some((node, address)) = addresses.iter().find(|(_, address)| nobodys(address)) {
        return Err(TopologyError::NobodysAddress(*node, *address));
    }
    let some_v4 = addresses.iter().any(|(_, address)| address.is_ipv4());
    match addresses.iter().find(|(_, address)| some_v4 && address.is_ipv6()) {
        Some((node, _)) => Err(TopologyError::MixedFamilies(*node)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
