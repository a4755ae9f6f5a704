//! Nodes of a topology as a process: `millrace inc run`, and what the commands of single nodes share with it.

use super::in_node::{Equip, Nodes};
use super::machine::Counters;
use super::node::Equipment;
use super::topology::Topology;
use super::{IncError, book};
use crate::admin::parse_address;
use crate::process::listen::ListenArgs;
use crate::process::logger::LogArgs;
use crate::process::{Stop, say};
use crate::shell::Shell;
use protocol::coherence::NodeId;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Which topology, and what is known of earlier lives: on command lines and in config files.
#[derive(clap::Args, Clone, Debug)]
pub struct Lives {
    /// The file of the rack, or of the cluster; `millrace inc topology` prints one
    #[arg(long, visible_alias = "cluster", value_name = "FILE")]
    pub(super) topology: PathBuf,

    /// It never ran before, so that it need not be silent. Wrong if it did: then what is promised does not hold
    #[arg(long)]
    pub(super) first: bool,

    /// Keep the number of this life here, for the next: it must rise, though the clock be set back. Nodes of one machine share it. Without this:
    /// a file beside the topology, rack.life for rack.toml
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,

    /// No key: every process of this machine may pass for a node or a client. Only where all addresses are loopback
    #[arg(long)]
    pub(super) no_key: bool,
}

/// What all commands that run nodes are told.
#[derive(clap::Args, Debug)]
pub struct Common {
    #[command(flatten)]
    lives: Lives,

    /// End when standard input is closed, too
    #[arg(long)]
    until_eof: bool,

    /// HTTP port for metrics, registers and health; on loopback unless an address is given. Without this, what the file says of these nodes
    #[arg(long, alias = "metrics", value_name = "[ADDR:]PORT", value_parser = parse_address)]
    admin: Option<SocketAddr>,

    #[command(flatten)]
    listening: ListenArgs,

    #[command(flatten)]
    log: LogArgs,
}

/// Run nodes of a topology until Ctrl-C or SIGTERM.
///
/// A node has the address that the file gives it. It prints a line when it is ready, and at its end what it counted. A node that may have
/// run before is silent for one lease (register coherence.lease): copies and promises of its earlier life end by then.
///
/// One node each, with more to say about it: `millrace box`, `millrace home`, `millrace controller`.
#[derive(clap::Args, Debug)]
pub struct Run {
    #[command(flatten)]
    common: Common,

    /// Which: box:1, home:1, controller:0; may be repeated
    #[arg(long, value_name = "NODE", value_parser = book::parse, required_unless_present = "all")]
    node: Vec<NodeId>,

    /// All of them, in this process
    #[arg(long, conflicts_with = "node")]
    all: bool,
}

impl Run {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// The file is wrong, or an address cannot be had, or a socket failed.
    pub fn run(&self) -> Result<(), IncError> {
        let topology = self.common.topology()?;
        let nodes = if self.all { topology.nodes() } else { self.node.clone() };
        self.common.serve(topology, nodes, Box::new(|_, _| Ok(Equipment::default())))
    }
}

impl Common {
    /// As the file says.
    pub fn topology(&self) -> Result<Topology, IncError> {
        Ok(Topology::read_file(&self.lives.topology)?)
    }

    /// Runs nodes until they are told to stop. `equip` is called for each when its address is its own.
    pub fn serve(&self, topology: Topology, nodes: Vec<NodeId>, equip: Equip) -> Result<(), IncError> {
        self.log.start("inc");
        self.listening.apply()?;
        let stop = Stop::on_signals().map_err(IncError::Signal)?;
        if self.until_eof {
            stop.at_eof();
        }
        let admin = self.admin.or_else(|| topology.admin_of(&nodes));
        let nodes = Nodes::new(topology, nodes, equip, &self.lives);
        let shell = Shell::of(nodes, self.listening.access(admin)?, stop)?;
        shell.addresses().iter().for_each(|line| say(line));
        if let Some(admin) = shell.admin() {
            say(&format!("metrics at {}/metrics", admin.url()));
        }
        Ok(shell.wait()?)
    }
}

/// A node's counts in a line, without those that are 0.
pub fn show(node: NodeId, counters: &Counters) -> String {
    let mut line = format!("{}:", book::name(node));
    for (name, count) in counters.iter().filter(|(_, count)| *count > 0) {
        let _ = write!(line, " {name} {count}");
    }
    line
}
