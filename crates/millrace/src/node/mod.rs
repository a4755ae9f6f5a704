//! A node: edges with sockets, a port from each to the engine, the engine with its store, and the admin port.
//!
//! ```text
//!  accept ─▶ inbox ─▶ edge 0 ═ port ═╗
//!        └─▶ inbox ─▶ edge 1 ═ port ═╬═▶ engine (store)      admin: metrics, registers
//!                        …           ╝
//! ```
//! `accept` hands out connections, [`edge`] owns them, `kv` is the service that the engine runs, `shared` is what all of
//! them see.

mod accept;
mod admin;
pub mod config;
mod connection;
pub mod counters;
mod edge;
mod input;
pub mod kv;
mod listen;
mod metrics;
mod output;
pub mod shared;

use crate::registers::Id;
use accept::Inbox;
use admin::Admin;
use config::Config;
use edge::Edge;
use listen::UnixListener;
use rustix::event::{EventfdFlags, eventfd};
use shared::{Report, Shared};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A running node. It stops when dropped.
pub struct Node {
    shared: Arc<Shared>,
    tcp: Vec<SocketAddr>,
    admin: Option<Admin>,
    stop: Arc<OwnedFd>,
    accept: Option<JoinHandle<()>>,
    edges: Vec<JoinHandle<()>>,
    // Held for its Drop: the paths go when the node does.
    _unix: Vec<UnixListener>,
}

/// Why a node did not start.
#[derive(Debug)]
pub enum StartError {
    /// An address could not be had.
    Listen(listen::ListenError),
    /// The store refused its settings.
    Store(store::ConfigError),
    /// The system refused threads, memory or descriptors.
    System(&'static str, io::Error),
    /// Nowhere to listen.
    Nowhere,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(e) => e.fmt(f),
            StartError::Store(e) => write!(f, "the store: {e}"),
            StartError::System(what, e) => write!(f, "cannot {what}: {e}"),
            StartError::Nowhere => {
                write!(f, "nothing to listen on; give a port (-p), a Unix socket (-s) or both")
            }
        }
    }
}

impl std::error::Error for StartError {}

impl Node {
    /// Starts a node: when this returns, clients can connect.
    ///
    /// # Errors
    /// Says what could not be had and what to do.
    pub fn start(config: &Config) -> Result<Node, StartError> {
        let registers = config.registers.clone();
        let backlog = registers.read(Id::NetBacklog) as i32;
        let mut listeners = Vec::new();
        let mut tcp = Vec::new();
        for &address in &config.listen.tcp {
            let (socket, bound) = listen::tcp(address, backlog).map_err(StartError::Listen)?;
            listeners.push(socket);
            tcp.push(bound);
        }
        let mut unix = Vec::new();
        if let Some(path) = &config.listen.unix {
            let listener =
                listen::unix(path, config.listen.unix_mask, backlog).map_err(StartError::Listen)?;
            let duplicate =
                listener.socket.try_clone().map_err(|e| StartError::System("duplicate a socket", e))?;
            listeners.push(duplicate);
            unix.push(listener);
        }
        if listeners.is_empty() {
            return Err(StartError::Nowhere);
        }

        let edges = registers.size(Id::EdgeThreads);
        let system = |what| move |e| StartError::System(what, e);
        let inboxes: Vec<Arc<Inbox>> = (0..edges)
            .map(|_| Inbox::new().map(Arc::new))
            .collect::<io::Result<_>>()
            .map_err(system("make wake-up descriptors"))?;
        let (shared, ports, hasher) = kv::assemble(config, inboxes.clone()).map_err(StartError::Store)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|e| StartError::System("make a descriptor", e.into()))?;

        // From here on the node cleans up after itself when something fails.
        let mut node = Node {
            shared: shared.clone(),
            tcp,
            admin: None,
            stop: Arc::new(stop),
            accept: None,
            edges: Vec::new(),
            _unix: unix,
        };
        let cores = base::cpu::allowed_cores();
        for (i, (port, inbox)) in ports.into_iter().zip(&inboxes).enumerate() {
            let edge =
                Edge::new(shared.clone(), inbox.clone(), port, hasher).map_err(system("make an edge"))?;
            let core = registers.is_on(Id::EdgePin).then(|| cores[i % cores.len()]);
            let run = move || {
                if let Some(core) = core {
                    // Pinning is a preference: a core that was taken away meanwhile costs speed, not service.
                    let _ = base::cpu::pin_to(core);
                }
                edge.run();
            };
            node.edges.push(spawn(format!("edge-{i}"), run)?);
        }
        let (accepting, stop) = (shared.clone(), node.stop.clone());
        let accept = move || accept::run(listeners, &inboxes, &accepting, stop.as_fd());
        node.accept = Some(spawn("accept".into(), accept)?);
        if let Some(address) = config.listen.admin {
            node.admin = Some(Admin::start(address, shared).map_err(system("open the admin port"))?);
        }
        Ok(node)
    }

    /// The TCP addresses that were bound.
    pub fn tcp(&self) -> &[SocketAddr] {
        &self.tcp
    }

    /// The admin address that was bound.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::address)
    }

    /// Everything the node counts.
    pub fn report(&self) -> Report {
        self.shared.report()
    }

    /// What the node's threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
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
        self.shared.stop();
        for edge in self.edges.drain(..) {
            let _ = edge.join();
        }
        self.admin = None;
    }
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StartError> {
    let run = move || {
        let _guard = AbortOnPanic;
        run();
    };
    let thread = std::thread::Builder::new().name(name).spawn(run);
    thread.map_err(|e| StartError::System("start a thread", e))
}

impl Drop for Node {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Ends the process when the thread that holds it panics: requests in flight borrow from their edge's buffers, so no other
/// thread may go on once an edge has lost its own. A panic is a broken invariant of ours, and has said which.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("millrace: a thread of the node panicked; stopping at once");
            std::process::abort();
        }
    }
}
