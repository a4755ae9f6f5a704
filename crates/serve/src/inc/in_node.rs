//! Nodes of a topology as a service of a process.
//!
//! **Incarnations** rise from life to life, whatever the clock does: `inc::life` keeps the last.

use super::machine::Counters;
use super::metrics::Seen;
use super::node::{Equipment, Watched};
use super::orders::Orders;
use super::registers::Shared;
use super::run::{Lives, show};
use super::told::Told;
use super::topology::Topology;
use super::{IncError, TopologyError, book, life, machine, metrics, node};
use crate::admin::Routes;
use crate::admin::ask::{Asker, ask_all, questions};
use crate::admin::health::{Beat, Pulse};
use crate::cluster;
use crate::engine_cores::EngineCore;
use crate::process::table::{Table, Wrong};
use crate::process::{Stop, say};
use crate::shell::{Failure, Loop, Service};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::put;
use base::Nanos;
use base::registers::Shown;
use clap::Args;
use fabric::link::Address;
use protocol::coherence::{Life, NodeId};
use protocol::wire::{BoxId, HomeId, Incarnation};
use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds that a clock is behind an earlier life before that is said.
const SET_BACK: u32 = 60;

/// What a node has besides, once its address is its own.
pub type Equip = Box<dyn Fn(&Topology, NodeId) -> Result<Equipment, IncError> + Send>;

/// What a config file says of nodes.
#[derive(Args, Debug)]
struct Keys {
    #[command(flatten)]
    lives: Lives,

    /// Which: box:1, home:1, controller:0; all, unless said
    #[arg(long, value_name = "NODE", value_parser = book::parse)]
    nodes: Vec<NodeId>,
}

/// See the head of the file.
pub struct Nodes {
    topology: Arc<Topology>,
    nodes: Vec<NodeId>,
    equip: Equip,
    life: Life,
    no_key: bool,
    /// The topology's.
    file: PathBuf,
    orders: Orders,
    /// Has the number of the last life.
    state: PathBuf,
    bound: Vec<(NodeId, UdpSocket, Equipment)>,
    /// What is said of each that runs.
    ready: Vec<String>,
    running: Vec<(NodeId, Loop<io::Result<Counters>>)>,
}

impl Nodes {
    /// These nodes of a topology.
    pub fn new(topology: Topology, nodes: Vec<NodeId>, equip: Equip, lives: &Lives) -> Nodes {
        let Lives { topology: file, first, state, no_key } = lives;
        Nodes {
            topology: Arc::new(topology),
            nodes,
            equip,
            life: if *first { Life::First } else { Life::Again },
            no_key: *no_key,
            file: file.clone(),
            orders: Orders::default(),
            state: state.clone().unwrap_or_else(|| file.with_extension("life")),
            bound: Vec::new(),
            ready: Vec::new(),
            running: Vec::new(),
        }
    }

    /// As a table of a config file says.
    ///
    /// # Errors
    /// Says which key is wrong, or what is wrong with the topology.
    pub fn of(table: &Table<'_>) -> Result<Nodes, Wrong> {
        let keys: Keys = table.flags(&["kind"])?;
        table.no_registers("the topology file sets its registers in [coherence]")?;
        let file = table.need("topology", "a file; `millrace inc topology` prints one")?;
        let topology =
            Topology::read_file(&keys.lives.topology).map_err(|error| file.wrong(error.to_string()))?;
        let nodes = if keys.nodes.is_empty() { topology.nodes() } else { keys.nodes };
        Ok(Nodes::new(topology, nodes, Box::new(|_, _| Ok(Equipment::default())), &keys.lives))
    }

    /// How long nodes are silent at first.
    fn silence(&self) -> Option<Nanos> {
        let is_silent = self.nodes.iter().any(|node| is_silent(*node, self.life));
        is_silent.then(|| self.topology.config().lease)
    }

    fn try_open(&mut self, is_shown: bool) -> Result<Routes, IncError> {
        // First the sockets: whoever has them runs, and is the only one.
        let keys = self.topology.node_keys(self.no_key)?;
        for node in &self.nodes {
            let socket = node::bind(&self.topology, *node)?;
            let (keys, orders) = (keys.clone(), self.orders.clone());
            let equipment = Equipment { keys, orders, ..(self.equip)(&self.topology, *node)? };
            self.bound.push((*node, socket, equipment));
        }
        if !is_shown {
            return Ok(Routes::default());
        }
        let (mut ends, mut homes, mut controllers) = (Vec::new(), Vec::new(), Vec::new());
        for (node, _, equipment) in &mut self.bound {
            for core in 0..self.topology.cores(*node) {
                let ((asker, questions), beat) = (questions(), Beat::default());
                match node {
                    NodeId::Home(_) => homes.push(asker.clone()),
                    NodeId::Controller(_) => controllers.push(asker.clone()),
                    _ => {}
                }
                let name = book::name(*node);
                let name = if core == 0 { name } else { format!("{name}/{core}") };
                ends.push((asker, beat.pulse(name)));
                equipment.watched.push(Watched { questions: Some(questions), beat });
            }
        }
        let (askers, pulses): (Vec<Asker<Seen>>, Vec<Pulse>) = ends.into_iter().unzip();
        let serves_from = Instant::now() + Duration::from_nanos(self.silence().unwrap_or_default().0);
        let ready = move || match Instant::now() < serves_from {
            true => Err("silent for a lease, since it may have run before".to_owned()),
            false => ask_all(&homes).iter().find_map(Seen::silent).map_or(Ok(()), |why| Err(why.to_owned())),
        };
        let mut routes = cluster::live::routes(self.file.clone());
        if self.nodes.iter().any(|node| matches!(node, NodeId::Controller(_))) {
            let (topology, orders) = (Arc::clone(&self.topology), self.orders.clone());
            let order =
                async move |Path(id): Path<u16>, text: String| take_order(&topology, &orders, id, &text);
            let what = "true: the box is to be stopped; false: it serves again. With the token";
            routes = routes.with("PUT /boxes/{id}/draining", what, put(order));
            let (topology, orders) = (Arc::clone(&self.topology), self.orders.clone());
            let order =
                async move |Path(id): Path<u16>, text: String| take_move(&topology, &orders, id, &text);
            let what =
                "ADDR:PORT: the home is there from now on; its life elsewhere has ended. With the token";
            routes = routes.with("PUT /homes/{id}/address", what, put(order));
            let told = Told::new(&self.file, &self.topology);
            let text = move || told.text(ask_all(&controllers).iter().map(Seen::moved));
            let what = "the cluster's file, with homes where they are now: what clients may be given instead of the file";
            routes = routes.text("GET /topology", what, "text/plain; charset=utf-8", text);
        }
        Ok(routes
            .registers(Arc::new(Shared(self.topology.registers())))
            .metrics(move |page| metrics::collect(&askers, page))
            .ready(ready)
            .loops(pulses))
    }

    fn try_start(&mut self, stop: &Stop) -> Result<(), IncError> {
        let (life, incarnation) = (self.life, incarnation(&self.state, self.life)?);
        for (node, socket, equipment) in self.bound.drain(..) {
            self.ready.push(ready(&self.topology, node, incarnation, life, &equipment));
            let topology = Arc::clone(&self.topology);
            let run =
                move |stop: &_| node::run_with(equipment, &topology, node, socket, (incarnation, life), stop);
            let running = Loop::start(book::name(node), stop, run).map_err(IncError::Socket)?;
            self.running.push((node, running));
        }
        Ok(())
    }
}

impl Service for Nodes {
    fn kind(&self) -> &'static str {
        "cache"
    }

    fn role(&self) -> String {
        format!(
            "of the in-network cache: {}",
            self.nodes.iter().map(|node| book::name(*node)).collect::<Vec<_>>().join(", ")
        )
    }

    fn protocols(&self) -> &'static [&'static str] {
        &[]
    }

    fn listen(&mut self, _protocol: &str, _address: &Address) -> Result<(), String> {
        Err("the topology says where its nodes are".to_owned())
    }

    fn registers(&self) -> Vec<Shown> {
        self.topology.registers().show()
    }

    fn open(&mut self, _core: &Arc<EngineCore>, is_shown: bool) -> Result<Routes, Failure> {
        Ok(self.try_open(is_shown)?)
    }

    fn start(&mut self, stop: &Stop) -> Result<(), Failure> {
        Ok(self.try_start(stop)?)
    }

    fn addresses(&self) -> Vec<String> {
        self.ready.clone()
    }

    /// Reads the file anew, if there are controllers here: they have copies kept as it says now. All else in it is for good.
    fn reload(&self) -> bool {
        if !self.nodes.iter().any(|node| matches!(node, NodeId::Controller(_))) {
            return false;
        }
        let file = self.file.display();
        match Topology::read_file(&self.file) {
            Ok(read) if read.layout().slots() != self.topology.layout().slots() => {
                log::error!("{file}: what is in force stays: `slots` cannot change while nodes run");
            }
            Ok(read) => {
                if !read.is_but_for_ranges(&self.topology) {
                    log::warn!(
                        "{file}: only [[range]] and `draining` are taken up while nodes run; for all else end them and start them"
                    );
                }
                let ranges = read.layout().ranges();
                let shown: Vec<String> = ranges.iter().map(ToString::to_string).collect();
                log::info!(
                    "copies are kept by all boxes{}{}",
                    if shown.is_empty() { "" } else { ", but for slots " },
                    shown.join(", ")
                );
                self.orders.set_ranges((**ranges).clone());
                let draining = read.draining();
                self.orders.set_draining(read.layout().boxes().map(|id| (id, draining.contains(id))));
            }
            Err(error) => log::error!("what is in force stays: {error}"),
        }
        true
    }

    fn finish(&mut self) -> Result<(), Failure> {
        // All at the same time.
        self.running.iter().for_each(|(_, running)| running.stop());
        for (node, mut running) in self.running.drain(..) {
            if let Some(counters) = running.finish() {
                say(&show(node, &counters.map_err(IncError::Socket)?));
            }
        }
        Ok(())
    }
}

/// An operator's order to the controllers here: whether a box is to be stopped.
fn take_order(topology: &Topology, orders: &Orders, id: u16, text: &str) -> (StatusCode, String) {
    let id = BoxId(id);
    if !topology.layout().boxes().any(|known| known == id) {
        return (StatusCode::NOT_FOUND, format!("there is no box {id}\n"));
    }
    match text.trim().parse() {
        Ok(is_draining) => {
            let what = if is_draining { "is to be stopped" } else { "is to serve" };
            log::info!("box {id} {what}, by order of an operator");
            orders.set_draining([(id, is_draining)]);
            (StatusCode::OK, format!("box {id} {what}\n"))
        }
        Err(_) => (StatusCode::BAD_REQUEST, "write true or false\n".to_owned()),
    }
}

/// An operator's order to the controllers here: a home is elsewhere, whose life where it was he has seen end.
fn take_move(topology: &Topology, orders: &Orders, id: u16, text: &str) -> (StatusCode, String) {
    let id = HomeId(id);
    let Ok(address) = text.trim().parse::<SocketAddr>() else {
        return (StatusCode::BAD_REQUEST, "write ADDR:PORT, such as 10.0.0.9:7104\n".to_owned());
    };
    match topology.check_move(id, address) {
        // Where another home was when the file was read; who orders has the file as it is.
        Ok(()) | Err(TopologyError::SameAddress(NodeId::Home(_), _)) => {
            log::info!("home {id} is at {address}, by order of an operator");
            orders.move_home(id, address);
            (StatusCode::OK, format!("home {id} is at {address}\n"))
        }
        Err(error) => (StatusCode::CONFLICT, format!("{error}\n")),
    }
}

/// Whether a node says nothing for a lease.
fn is_silent(node: NodeId, life: Life) -> bool {
    matches!((node, life), (NodeId::Box(_) | NodeId::Home(_), Life::Again))
}

/// The number of this life, by the system's clock.
pub(crate) fn incarnation(file: &std::path::Path, life: Life) -> Result<Incarnation, IncError> {
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
    let is_elsewhere = matches!(node, NodeId::Home(id) if topology.is_elsewhere(id));
    if is_elsewhere {
        let _ = write!(line, ", {}", machine::UNNAMED);
    } else if is_silent(node, life) {
        let _ = write!(line, ", silent for {}", topology.config().lease);
    }
    if topology.cores(node) > 1 {
        let _ = write!(line, ", {} cores", topology.cores(node));
    }
    if let Some((tier, _)) = &equipment.fast {
        let (capacity, count) = (tier.entries().capacity(), tier.attached());
        let plural = if count == 1 { "" } else { "s" };
        let _ = write!(line, ", XDP on {count} interface{plural}, {capacity} entries");
    }
    line
}
