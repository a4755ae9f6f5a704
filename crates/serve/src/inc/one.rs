//! `millrace box`, `millrace home`, `millrace controller`: one node of a topology, thin over `run`.

use super::IncError;
use super::fast::Fast;
use super::node::Equipment;
use super::run::Common;
use protocol::coherence::NodeId;
use protocol::wire::{BoxId, HomeId};
use std::net::SocketAddr;

/// Run a box of the in-network cache: it keeps copies on the way between clients and homes, and answers from them.
///
/// Clients and boxes below it send it requests; what it cannot answer it sends on. Where it has its address, and which boxes are above it, is
/// in the topology file, the same for all nodes (`millrace inc topology` prints one).
///
/// With --xdp it has a fast tier: an XDP program on those interfaces answers GETs of cached keys before the kernel has made a packet of
/// them. That needs root (or CAP_BPF and CAP_NET_ADMIN), Linux 5.18, x86-64 and IPv4: what comes by IPv6 the user tier answers. Without one of
/// them the box says what is missing, and answers everything itself, unless --xdp-required.
///
/// A reply is never longer than its request: clients pad theirs for values to 184 bytes, the Rust client for those to 1024 that it knows; what
/// is longer, or sealed, the user tier answers. On veth, in native mode, the interface at the other end needs an XDP program as well, if only one that passes
/// everything, else the kernel drops what is sent back.
///
/// With register coherence.filter in the topology file, requests of keys that are seldom asked for pass by the box without waking it, if the
/// kernel routes (net.ipv4.ip_forward) and knows a way to their home.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  millrace box 1 --topology rack.toml
  millrace box 1 --topology rack.toml --xdp eth0 --xdp eth1 --xdp-required --admin 127.0.0.1:9101")]
pub struct BoxNode {
    /// Its id in the topology
    #[arg(value_name = "ID")]
    id: u16,

    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    fast: Fast,
}

/// Run a home of the in-network cache: it has the items of its slots, and does all writes.
///
/// It keeps items in memory (register coherence.memory in the topology file) and knows which boxes may have copies: a write is done when none
/// has. A home that may have run before is silent for one lease after its start.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  millrace home 1 --topology rack.toml
  millrace home 1 --topology rack.toml --listen 10.0.0.9:7104")]
pub struct HomeNode {
    /// Its id in the topology
    #[arg(value_name = "ID")]
    id: u16,

    /// It is moved here (`millrace cluster move`), wherever the file has it: it serves nobody until a controller says that it is here, and a lease more
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "first")]
    listen: Option<SocketAddr>,

    #[command(flatten)]
    common: Common,
}

/// Run a controller of the in-network cache: it watches boxes and tells all of them which live.
///
/// Nothing that is promised needs one: without it requests go round a dead box more slowly. Several stand by for each other; the first of the
/// topology that lives makes the tables.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:\n  millrace controller 0 --topology rack.toml")]
pub struct ControllerNode {
    /// Its place among the topology's controllers, from 0
    #[arg(value_name = "INDEX")]
    index: u8,

    #[command(flatten)]
    common: Common,
}

impl BoxNode {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// As those of `millrace inc run`; and the fast tier's, if it is required.
    pub fn run(&self) -> Result<(), IncError> {
        let topology = self.common.topology()?;
        let fast = self.fast.clone();
        let equip = move |topology: &_, node| {
            Ok(Equipment { fast: fast.load(topology, node)?, ..Equipment::default() })
        };
        self.common.serve(topology, vec![NodeId::Box(BoxId(self.id))], Box::new(equip))
    }
}

impl HomeNode {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// As those of `millrace inc run`.
    pub fn run(&self) -> Result<(), IncError> {
        let (id, topology) = (HomeId(self.id), self.common.topology()?);
        let topology = match self.listen {
            Some(address) => topology.with_home_at(id, address)?,
            None => topology,
        };
        self.common.serve(topology, vec![NodeId::Home(id)], Box::new(|_, _| Ok(Equipment::default())))
    }
}

impl ControllerNode {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// As those of `millrace inc run`.
    pub fn run(&self) -> Result<(), IncError> {
        self.common.serve(
            self.common.topology()?,
            vec![NodeId::Controller(self.index)],
            Box::new(|_, _| Ok(Equipment::default())),
        )
    }
}
