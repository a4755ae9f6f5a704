//! Nodes of a topology as a process: `millrace inc run`, and what the commands of single nodes share with it.
//!
//! **Incarnations** rise from life to life, whatever the clock does: `inc::life` keeps the last.

use super::machine::Counters;
use super::node::Equipment;
use super::registers::Shared;
use super::topology::Topology;
use super::{IncError, book, life, metrics, node};
use crate::admin::ask::questions;
use crate::admin::{Admin, Routes, parse_address};
use crate::process::logger::LogArgs;
use crate::process::{stop_at_eof, stop_flag};
use base::Nanos;
use protocol::coherence::{Life, NodeId};
use protocol::wire::Incarnation;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds that a clock is behind an earlier life before that is said.
const SET_BACK: u32 = 60;

/// What all commands that run nodes are told.
#[derive(clap::Args, Debug)]
pub struct Common {
    /// The file; `millrace inc topology` prints one
    #[arg(long, value_name = "FILE")]
    topology: PathBuf,

    /// It never ran before, so that it need not be silent. Wrong if it did: then what is promised does not hold
    #[arg(long)]
    first: bool,

    /// Keep the number of this life here, for the next: it must rise, though the clock be set back. Nodes of one machine share it. Without this:
    /// a file beside the topology, rack.life for rack.toml
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// No key: every process of this machine may pass for a node or a client. Only where all addresses are loopback
    #[arg(long)]
    no_key: bool,

    /// End when standard input is closed, too
    #[arg(long)]
    until_eof: bool,

    /// HTTP port for metrics, registers and health; on loopback unless an address is given
    #[arg(long, alias = "metrics", value_name = "[ADDR:]PORT", value_parser = parse_address)]
    admin: Option<SocketAddr>,

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
        self.common.serve(&topology, &nodes, |_| Ok(Equipment::default()))
    }
}

impl Common {
    /// As the file says.
    pub fn topology(&self) -> Result<Topology, IncError> {
        Topology::read(&self.topology)
    }

    /// Runs nodes until they are told to stop. `equip` is called for each when its address is its own.
    pub fn serve(
        &self,
        topology: &Topology,
        nodes: &[NodeId],
        equip: impl Fn(NodeId) -> Result<Equipment, IncError>,
    ) -> Result<(), IncError> {
        self.log.start("inc");
        let stop = stop_flag().map_err(IncError::Signal)?;
        if self.until_eof {
            stop_at_eof(Arc::clone(&stop));
        }
        let life = if self.first { Life::First } else { Life::Again };
        // First the sockets: whoever has them runs, and is the only one.
        let keys = topology.node_keys(self.no_key)?;
        let mut bound: Vec<(NodeId, UdpSocket, Equipment)> = nodes
            .iter()
            .map(|node| {
                let socket = topology.bind(*node)?;
                Ok((*node, socket, Equipment { keys: keys.clone(), ..equip(*node)? }))
            })
            .collect::<Result<_, IncError>>()?;
        let silent = nodes.iter().any(|node| is_silent(*node, life)).then(|| topology.config().lease);
        let admin = self.admin.map(|address| {
            let routes = routes(topology, &mut bound, Arc::clone(&stop), silent.unwrap_or_default());
            Admin::start(address, routes).map_err(|cause| IncError::Admin(address, cause))
        });
        let admin = admin.transpose()?;
        let file = self.state.clone().unwrap_or_else(|| self.topology.with_extension("life"));
        let incarnation = incarnation(&file, life)?;
        for (node, _, equipment) in &bound {
            say(&ready(topology, *node, incarnation, life, equipment))?;
        }
        if let Some(admin) = &admin {
            say(&format!("metrics at http://{}/metrics", admin.address()))?;
        }
        std::thread::scope(|scope| {
            let serve = |(node, socket, equipment)| {
                let stop = &stop;
                scope.spawn(move || {
                    let _guard = crate::guard::AbortOnPanic("the in-network cache");
                    let life = (incarnation, life);
                    let counters = node::run_with(equipment, topology, node, socket, life, stop);
                    // One that fails takes the others with it.
                    stop.store(true, Ordering::Relaxed);
                    (node, counters)
                })
            };
            let threads: Vec<_> = bound.into_iter().map(serve).collect();
            for thread in threads {
                let (node, counters) = thread.join().expect("a node's thread does not panic");
                say(&show(node, &counters.map_err(IncError::Socket)?))?;
            }
            Ok(())
        })
    }
}

/// What a port shows of these nodes, which are silent for so long at first.
fn routes(
    topology: &Topology,
    nodes: &mut [(NodeId, UdpSocket, Equipment)],
    stop: Arc<AtomicBool>,
    silent: Nanos,
) -> Routes {
    let ends = nodes.iter_mut().map(|(node, _, equipment)| {
        let (asker, questions) = questions();
        equipment.questions = Some(questions);
        (asker, equipment.beat.pulse(book::name(*node)))
    });
    let (askers, pulses): (Vec<_>, Vec<_>) = ends.unzip();
    let serves_from = Instant::now() + Duration::from_nanos(silent.0);
    let ready = move || match stop.load(Ordering::Relaxed) {
        true => Err("it ends".to_owned()),
        false if Instant::now() < serves_from => {
            Err("silent for a lease, since it may have run before".to_owned())
        }
        false => Ok(()),
    };
    Routes::default()
        .registers(Arc::new(Shared(topology.registers())))
        .metrics(move |page| metrics::collect(&askers, page))
        .ready(ready)
        .loops(pulses)
}

/// Whether a node says nothing for a lease.
fn is_silent(node: NodeId, life: Life) -> bool {
    matches!((node, life), (NodeId::Box(_) | NodeId::Home(_), Life::Again))
}

/// The number of this life, by the system's clock.
fn incarnation(file: &Path, life: Life) -> Result<Incarnation, IncError> {
    let clock = || Nanos::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let wait = |span: Nanos| std::thread::sleep(Duration::from_nanos(span.0));
    let next = life::next(file, life == Life::Again, clock, wait)?;
    // Nodes that begin in one second take numbers that are a little ahead of it.
    if next.behind > SET_BACK {
        let (behind, file) = (next.behind, file.display());
        log::warn!("the clock is {behind} s behind an earlier life that {file} knows of: it was set back");
    }
    Ok(Incarnation(next.number))
}

fn ready(
    topology: &Topology,
    node: NodeId,
    incarnation: Incarnation,
    life: Life,
    equipment: &Equipment,
) -> String {
    let address = topology.book().address_of(node).expect("it was bound there");
    let mut line = format!("{} at {address}, incarnation {incarnation}", book::name(node));
    if is_silent(node, life) {
        let _ = write!(line, ", silent for {}", topology.config().lease);
    }
    if let Some((tier, _)) = &equipment.fast {
        let (capacity, count) = (tier.entries().capacity(), tier.attached());
        let plural = if count == 1 { "" } else { "s" };
        let _ = write!(line, ", XDP on {count} interface{plural}, {capacity} entries");
    }
    line
}

/// A node's counts in a line, without those that are 0.
pub fn show(node: NodeId, counters: &Counters) -> String {
    let mut line = format!("{}:", book::name(node));
    for (name, count) in counters.iter().filter(|(_, count)| *count > 0) {
        let _ = write!(line, " {name} {count}");
    }
    line
}

fn say(line: &str) -> Result<(), IncError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(IncError::Output)
}
