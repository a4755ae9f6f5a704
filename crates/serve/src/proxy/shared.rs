//! What the threads of one proxy share: counters, bounds, and the stop flag.

use super::connection::BUFFER_LIMIT;
use super::stats::Counters;
use crate::inc::machine;
use crate::memcached::counters::NetCounters;
use crate::memcached::login::Entrance;
use base::budget::Budget;
use base::tls::ServerTls;
use protocol::wire::{BoxId, HomeId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Bounds of a proxy.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads, each with connections and a client of the in-network cache.
    pub threads: usize,
    /// Commands of one connection that are not answered yet.
    pub pipeline: usize,
    /// Connections.
    pub connections: u64,
}

/// See the file's head.
pub struct Shared {
    /// Bounds.
    pub options: Options,
    /// The box that is asked.
    pub tor: BoxId,
    /// All homes, for a flush.
    pub homes: Vec<HomeId>,
    /// Bytes of the longest value; more than a packet holds where homes have streams.
    pub value_max: usize,
    /// Connections and bytes.
    pub net: NetCounters,
    /// Commands.
    pub commands: Counters,
    /// The certificate of listeners that speak TLS, if there are such.
    pub tls: Option<Arc<ServerTls>>,
    /// Who may come in.
    pub entrance: Entrance,
    /// Bytes that connections buffer.
    pub buffered: Arc<Budget>,
    /// Of each thread's client and socket, when the thread last published them.
    clients: Vec<Mutex<machine::Counters>>,
    stopping: AtomicBool,
    started: Instant,
}

impl Shared {
    /// Of a proxy behind this box.
    pub fn new(options: Options, tor: BoxId, homes: Vec<HomeId>, value_max: usize) -> Shared {
        Shared {
            tor,
            homes,
            value_max,
            net: NetCounters::default(),
            commands: Counters::default(),
            tls: None,
            entrance: Entrance::default(),
            buffered: Arc::new(Budget::new(BUFFER_LIMIT)),
            clients: (0..options.threads).map(|_| Mutex::default()).collect(),
            stopping: AtomicBool::new(false),
            started: Instant::now(),
            options,
        }
    }

    /// Threads.
    pub fn workers(&self) -> usize {
        self.clients.len()
    }

    /// Whether all is to end.
    pub fn is_stopping(&self) -> bool {
        // A flag alone: what else a thread sees does not depend on it.
        self.stopping.load(Ordering::Relaxed)
    }

    /// All is to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Seconds since the start.
    pub fn uptime_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// What the client of thread `index` has counted so far.
    pub fn publish(&self, index: usize, counters: machine::Counters) {
        *self.clients[index].lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    /// The same of all threads, summed.
    pub fn client_counters(&self) -> machine::Counters {
        let mut sums = machine::Counters::new();
        for client in &self.clients {
            for &(name, count) in client.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                match sums.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += count,
                    None => sums.push((name, count)),
                }
            }
        }
        sums
    }
}
