//! The key-value server: edges with sockets, a port from each to the engine, the engine with its store.
//!
//! ```text
//!  accept ─▶ inbox ─▶ edge 0 ═ port ═╗
//!        └─▶ inbox ─▶ edge 1 ═ port ═╬═▶ engine core (store)
//!                        …           ╝
//! ```
//! `memcached::accept` hands out connections, `edge` owns them, `service` is what the engine runs, `shared` is what all of
//! them see. A `connection` has one of three wires: `stream`, `rings`, `datagrams`; the last two carry `messages`. With
//! `engine.mode = dedicated` the thread of its [engine core](crate::engine_cores) runs the engine: `dedicated`. With boxes before it the server is their
//! `home`.

mod admin;
pub mod by_hand;
mod chain_client;
mod chains;
mod claiming;
mod clocks;
pub mod config;
mod connection;
mod datagrams;
mod dedicated;
pub mod durable;
mod edge;
mod extended;
pub mod flags;
pub mod home;
mod ignored;
mod in_node;
pub mod machine;
mod messages;
pub mod metrics;
mod post;
pub mod registers;
mod rings;
pub mod service;
pub mod shared;
mod stream;
mod system;
mod tls_flags;
mod txn_door;
pub mod watchers;

pub use chain_client::{AtChain, Figures, Relayed, Transactions, Work};
pub use chains::Place;
pub use claiming::{Claiming, ConnectError};
pub use in_node::Kv;

use crate::admin::Routes;
use crate::admin::health::Pulse;
use crate::engine_cores::{EngineCore, EngineCores, EngineError, EngineWishes};
use crate::guard::AbortOnPanic;
use crate::memcached::accept::{self, Door, Inbox, Purpose};
use crate::memcached::connections::Connections;
use crate::memcached::listen::{self, UnixListener};
use crate::memcached::login::Entrance;
use base::Clock;
use base::tls::{ServerTls, TlsError};
use config::Config;
use edge::Edge;
use fabric::link::TlsOptions;
use home::Seat;
use registers::{Id, Registers};
use rustix::event::{EventfdFlags, eventfd};
use shared::{Report, Shared};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use system::Machine;
use watchers::Watchers;

/// A running server. It stops when dropped.
pub struct Server {
    shared: Arc<Shared>,
    tcp: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
    udp: Vec<SocketAddr>,
    stop: Arc<OwnedFd>,
    accept: Option<JoinHandle<()>>,
    edges: Vec<JoinHandle<()>>,
    /// What says that the threads turn, until whoever shows it has it.
    pulses: Vec<Pulse>,
    // Held for its Drop: the paths go when the node does.
    _unix: Vec<UnixListener>,
    /// Of a server that is alone; after the service has left.
    cores: Option<EngineCores>,
}

/// Sockets that are taken, and nobody is served at.
struct Bound {
    listeners: Vec<(Purpose, OwnedFd)>,
    tcp: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
    unix: Vec<UnixListener>,
    datagrams: Vec<(OwnedFd, SocketAddr)>,
}

/// Whether who listens at `address` is reached at `wanted`.
fn covers(address: &SocketAddr, wanted: SocketAddr) -> bool {
    let has_ip =
        address.ip() == wanted.ip() || address.ip().is_unspecified() && address.is_ipv4() == wanted.is_ipv4();
    has_ip && address.port() == wanted.port()
}

impl Bound {
    /// As `config` says; and where a topology promises that a home listens, unless that is said anyway.
    fn of(config: &Config, promised: Option<SocketAddr>) -> Result<Bound, StartError> {
        let backlog = config.registers.read(Id::NetBacklog) as i32;
        let mut listeners = Vec::new();
        let (mut tcp, mut tls) = (Vec::new(), Vec::new());
        let promised =
            promised.filter(|wanted| !config.listen.tcp.iter().any(|address| covers(address, *wanted)));
        for address in config.listen.tcp.iter().copied().chain(promised) {
            let (socket, bound) = listen::tcp(address, backlog).map_err(StartError::Listen)?;
            listeners.push((Purpose::Stream, socket));
            tcp.push(bound);
        }
        for address in &config.listen.tls {
            let (socket, bound) = listen::tcp(*address, backlog).map_err(StartError::Listen)?;
            listeners.push((Purpose::Tls, socket));
            tls.push(bound);
        }
        let mut unix = Vec::new();
        for (purpose, path) in [(Purpose::Stream, &config.listen.unix), (Purpose::Rings, &config.listen.shm)]
        {
            let Some(path) = path else { continue };
            let listener =
                listen::unix(path, config.listen.unix_mask, backlog).map_err(StartError::Listen)?;
            let duplicate =
                listener.socket.try_clone().map_err(|e| StartError::System("duplicate a socket", e))?;
            listeners.push((purpose, duplicate));
            unix.push(listener);
        }
        let datagrams = config.listen.udp.iter().map(|&address| listen::udp(address));
        let datagrams = datagrams.collect::<Result<Vec<_>, _>>().map_err(StartError::Listen)?;
        if listeners.is_empty() && datagrams.is_empty() {
            return Err(StartError::Nowhere);
        }
        Ok(Bound { listeners, tcp, tls, unix, datagrams })
    }
}

/// Why a node did not start.
#[derive(Debug)]
pub enum StartError {
    /// An address could not be had.
    Listen(listen::ListenError),
    /// The store refused its settings.
    Store(store::ConfigError),
    /// The files that its memory was to lie in.
    Memory(store::warm::Refusal),
    /// The system refused threads, memory or descriptors.
    System(&'static str, io::Error),
    /// The engine core has no room for it, or no thread.
    Engine(EngineError),
    /// It cannot be the home of boxes.
    Home(String),
    /// What is acknowledged cannot survive.
    Durable(durable::DurableError),
    /// The chain that its items lie in is not there.
    Chain(String),
    /// Its certificate cannot be used.
    Tls(TlsError),
    /// Nobody could come in as it was told.
    Login(String),
    /// It is to listen for TLS, and has no certificate.
    NoCertificate,
    /// Nowhere to listen.
    Nowhere,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(e) => e.fmt(f),
            StartError::Store(e) => write!(f, "the store: {e}"),
            StartError::Memory(e) => write!(f, "memory in files (--memory-file): {e}"),
            StartError::System(what, e) => write!(f, "cannot {what}: {e}"),
            StartError::Engine(e) => e.fmt(f),
            StartError::Home(why) => f.write_str(why),
            StartError::Durable(e) => e.fmt(f),
            StartError::Chain(why) => write!(f, "--durability chain: {why}"),
            StartError::Tls(e) => e.fmt(f),
            StartError::Login(why) => f.write_str(why),
            StartError::NoCertificate => {
                f.write_str("listening for TLS wants a certificate: name it with --tls-cert FILE, and its key with --tls-key FILE")
            }
            StartError::Nowhere => {
                write!(f, "nothing to listen on; give a port (-p), a Unix socket (-s or --shm), or several")
            }
        }
    }
}

impl std::error::Error for StartError {}

impl From<store::warm::Refusal> for StartError {
    fn from(refusal: store::warm::Refusal) -> StartError {
        match refusal {
            store::warm::Refusal::Config(e) => StartError::Store(e),
            other => StartError::Memory(other),
        }
    }
}

impl Server {
    /// Starts a node with an engine core of its own: when this returns, clients can connect.
    ///
    /// # Errors
    /// Says what could not be had and what to do.
    pub fn start(config: &Config) -> Result<Server, StartError> {
        let cores = EngineCores::for_one(wishes(&config.registers));
        let cores = cores.map_err(|e| StartError::Engine(EngineError::System(e)))?;
        let mut server = Server::start_on(config, cores.core(0))?;
        server.cores = Some(cores);
        Ok(server)
    }

    /// Starts a node on an engine core of its process.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_on(config: &Config, core: &Arc<EngineCore>) -> Result<Server, StartError> {
        // Who has the same settings has other connections.
        let (connections, detail) = (Connections::default(), config.detail.apart());
        let watchers = watchers(config);
        let config = &Config { connections, detail, watchers, ..config.clone() };
        let registers = config.registers.clone();
        let entrance = entrance(config)?;
        let seat = Seat::take_place(&config.home)?;
        let promised = seat.as_ref().and_then(Seat::stream);
        let Bound { listeners, tcp, tls, unix, datagrams } = Bound::of(config, promised)?;
        let edges = registers.size(Id::EdgeThreads);
        let system = |what| move |e| StartError::System(what, e);
        let inboxes: Vec<Arc<Inbox>> = (0..edges)
            .map(|_| Inbox::new().map(Arc::new))
            .collect::<io::Result<_>>()
            .map_err(system("make wake-up descriptors"))?;
        let (shared, ports, hasher) = service::assemble(config, inboxes.clone(), core, (seat, entrance))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|e| StartError::System("make a descriptor", e.into()))?;

        // Boxes and chains have replies come later, too.
        let has_log = config.durable.durability == durable::Durability::Log;
        for (purpose, socket) in &listeners {
            config.connections.enter_listener(purpose.name(), socket.as_fd(), Clock::shared().now());
        }
        // From here on the node cleans up after itself when something fails.
        let mut server = Server {
            shared: shared.clone(),
            tcp,
            tls,
            udp: datagrams.iter().map(|(_, bound)| *bound).collect(),
            stop: Arc::new(stop),
            accept: None,
            edges: Vec::new(),
            pulses: accept::pulses("edge", &inboxes)
                .into_iter()
                .chain(durable::pulse(shared.post.as_ref().filter(|_| has_log)))
                .collect(),
            _unix: unix,
            cores: None,
        };
        for (i, ((port, link), inbox)) in ports.into_iter().zip(&inboxes).enumerate() {
            let edge = Edge::new(shared.clone(), inbox.clone(), (port, link), hasher, Machine::default())
                .map_err(system("make an edge"))?;
            let edge =
                edge.traced_by(&config.tracer).known_to(&config.connections).counted_by(&config.detail);
            let edge = edge.watched_by(&config.watchers);
            let thread = start(format!("edge-{i}"), pin(&registers, i), move || edge.run())?;
            server.edges.push(thread);
        }
        // All on the first edge: datagrams are the exception, and their order is kept.
        datagrams.into_iter().for_each(|(socket, _)| inboxes[0].put(Purpose::Datagrams, socket));
        let (accepting, stop) = (shared.clone(), server.stop.clone());
        let accept = move || {
            let most = || accepting.registers.read(Id::NetMaxConnections);
            accept::run(listeners, &inboxes, &Door { net: &accepting.net, most: &most }, stop.as_fd());
        };
        server.accept = Some(start("accept".into(), None, accept)?);
        Ok(server)
    }

    /// The TCP addresses that were bound.
    pub fn tcp(&self) -> &[SocketAddr] {
        &self.tcp
    }

    /// The TCP addresses that were bound for TLS.
    pub fn tls(&self) -> &[SocketAddr] {
        &self.tls
    }

    /// The UDP addresses that were bound.
    pub fn udp(&self) -> &[SocketAddr] {
        &self.udp
    }

    /// Where it takes transactions of the chain's clients, if it does.
    pub fn takes_transactions_at(&self) -> Option<String> {
        self.shared.home.as_ref()?.takes_transactions_at()
    }

    /// What operators are shown of it, once.
    pub fn routes(&mut self) -> Routes {
        admin::routes(&self.shared, std::mem::take(&mut self.pulses))
    }

    /// Everything it counts.
    pub fn report(&self) -> Report {
        self.shared.report()
    }

    /// What its threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Why it acknowledges nothing more, if its log failed.
    pub fn failed(&self) -> Option<String> {
        self.shared.post.as_ref()?.failed().map(str::to_owned)
    }

    /// Answers what has arrived, then closes everything. Returns when that is done.
    pub fn stop(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        // Nobody may be handed to an edge that has ended, so accepting ends first.
        // Cannot fail: the counter is far from full.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        // A thread that panicked has said so already.
        let _ = self.accept.take().map(JoinHandle::join);
        self.shared.home.iter().for_each(home::AtHome::close_door);
        self.shared.stop();
        for edge in self.edges.drain(..) {
            let _ = edge.join();
        }
        // Only now: the edges needed it to answer what had arrived.
        self.shared.on_core.leave();
        // Last: nobody asks for anything any more.
        self.shared.leave_memory();
    }
}

/// The processor of thread `i`: edges come first, then the engine's.
fn pin(registers: &Registers, i: usize) -> Option<usize> {
    let cores = base::cpu::allowed_cores();
    registers.is_on(Id::EdgePin).then(|| cores[i % cores.len()])
}

/// The certificate of its listeners that speak TLS, if there are such.
fn certificate(config: &Config) -> Result<Option<Arc<ServerTls>>, StartError> {
    if config.listen.tls.is_empty() {
        return Ok(None);
    }
    // Else as the process's other services.
    let of_process = || TlsOptions::of_process().certificate.map(|tls| tls.files().clone());
    let files = config.tls.clone().or_else(of_process).ok_or(StartError::NoCertificate)?;
    // No name for memcached's protocol is registered: clients of it say none.
    ServerTls::new(&files, &[]).map(Some).map_err(StartError::Tls)
}

/// Reads the files that say who may come in, as the start does.
fn check(config: &Config) -> Result<(), StartError> {
    entrance(config).and_then(|_| certificate(config)).map(drop)
}

/// Nobody yet. Where commands end later than they begin, or elsewhere, nobody may watch.
fn watchers(config: &Config) -> Watchers {
    let is_alone = config.home.boxes.is_none() && config.durable.chain.is_empty();
    if is_alone { config.watchers.apart() } else { config.watchers.refusing() }
}

/// Who may come in.
fn entrance(config: &Config) -> Result<Entrance, StartError> {
    let entrance = Entrance::of(&config.login).map_err(StartError::Login)?.with_rights(config.rights.clone());
    let entrance = entrance.checked_by(config.checks.clone());
    let why = match entrance.has_users() {
        true if !config.listen.udp.is_empty() => {
            "a datagram cannot log in: leave out -U where there is -S or -Y"
        }
        true if config.home.boxes.is_some() => {
            "clients of a home of boxes cannot log in there: give the users to the proxy before it, and leave out -S and -Y here"
        }
        _ if config.home.boxes.is_some() && config.rights.is_some() => {
            "what boxes pass on to a home is nobody's in particular: give the rights to the proxy before it, and leave out --rights here"
        }
        _ => return Ok(entrance),
    };
    Err(StartError::Login(why.to_owned()))
}

/// What it wishes of engine cores.
fn wishes(registers: &Registers) -> EngineWishes {
    EngineWishes { pin: pin(registers, registers.size(Id::EdgeThreads)), ..EngineWishes::default() }
}

fn start(
    name: String,
    core: Option<usize>,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let run = move || {
        // Requests in flight borrow from their edge's buffers: no other thread may go on once an edge has lost its own.
        let _guard = AbortOnPanic("the node");
        if let Some(core) = core {
            // Pinning is a preference: a core that was taken away meanwhile costs speed, not service.
            let _ = base::cpu::pin_to(core);
        }
        run();
    };
    std::thread::Builder::new().name(name).spawn(run).map_err(|e| StartError::System("start a thread", e))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.finish();
    }
}
