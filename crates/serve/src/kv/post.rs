//! What edges, the service and the threads of its log leave for each other, where replies come later: at a home of boxes, and at a server with a log.
//!
//! ```text
//!  edge 0 ── packets that arrived ──▶ service        service ── packets that leave, deadline ──▶ edge 0
//!  edges ── connections that are gone ──▶            service ── connections whose replies are ready ──▶ their edges
//!  log's threads ── something is done ──▶ edge 0 ── Serve ──▶ service
//! ```
//! Why not through the ports: what the service says here belongs to no request. Whoever runs the engine may be any edge, or the core's thread; who
//! has to act is woken by its inbox.
//!
//! Cost: nothing for a command that waits for nobody; else a lock that nobody has for long, and a wake-up.

use crate::inc::machine::{SILENT, UNNAMED};
use crate::inc::wire::Traffic;
use crate::kv::service::{Origin, Parked};
use crate::memcached::accept::Inbox;
use base::{Clock, Nanos};
use protocol::coherence::{NodeId, Out};
use protocol::wire::Message;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// See the head of the file.
pub struct Post {
    arrived: Mutex<Vec<(NodeId, Message)>>,
    leaving: Mutex<Out>,
    /// Something is in it.
    leaves: AtomicBool,
    deadline: AtomicU64,
    /// When the home begins to serve; while it does not know, the end of all time.
    serves_from: AtomicU64,
    /// By edge.
    done: Vec<Mutex<Vec<Origin>>>,
    gone: Mutex<Vec<Origin>>,
    has_gone: AtomicBool,
    waiting: AtomicUsize,
    traffic: Mutex<Traffic>,
    /// A thread of the log has done something.
    is_due: AtomicBool,
    /// When the sync that is under way was begun, nanoseconds; 0: none is.
    sync_began: AtomicU64,
    /// Why the log takes nothing more.
    failed: OnceLock<String>,
    inboxes: Vec<Arc<Inbox>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Post {
    /// Between the service and the edges with these inboxes.
    pub fn new(inboxes: Vec<Arc<Inbox>>) -> Post {
        Post { done: inboxes.iter().map(|_| Mutex::default()).collect(), inboxes, ..Post::unattended() }
    }

    /// Between the service and one edge that looks by itself and is woken by nobody: in a simulation.
    pub fn unattended() -> Post {
        Post {
            arrived: Mutex::default(),
            leaving: Mutex::default(),
            leaves: AtomicBool::new(false),
            deadline: AtomicU64::new(u64::MAX),
            serves_from: AtomicU64::new(0),
            done: vec![Mutex::default()],
            gone: Mutex::default(),
            has_gone: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            traffic: Mutex::default(),
            is_due: AtomicBool::new(false),
            sync_began: AtomicU64::new(0),
            failed: OnceLock::new(),
            inboxes: Vec::new(),
        }
    }

    // ---- edges

    /// Packets arrived, in this order.
    pub fn arrive(&self, packets: &mut Vec<(NodeId, Message)>) {
        lock(&self.arrived).append(packets);
    }

    /// Whether packets leave.
    #[inline]
    pub fn has_leaving(&self) -> bool {
        self.leaves.load(Ordering::Acquire)
    }

    /// All that leave.
    pub fn take_leaving(&self) -> Out {
        let mut leaving = lock(&self.leaving);
        self.leaves.store(false, Ordering::Release);
        std::mem::take(&mut *leaving)
    }

    /// When the home wants to be served, whatever comes.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        Nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Connections of edge `edge` whose replies are ready.
    pub fn take_done(&self, edge: usize) -> Vec<Origin> {
        std::mem::take(&mut *lock(&self.done[edge]))
    }

    /// A connection with commands that wait is gone.
    pub fn gone(&self, origin: Origin) {
        lock(&self.gone).push(origin);
        self.has_gone.store(true, Ordering::Release);
    }

    /// Connections that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Edge 0 has counted so much.
    pub fn set_traffic(&self, traffic: Traffic) {
        *lock(&self.traffic) = traffic;
    }

    /// Whether the service is to look at its log, once.
    #[inline]
    pub fn take_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire) && self.is_due.swap(false, Ordering::AcqRel)
    }

    // ---- the log's threads, and who asks for it

    /// Something is done: edge 0 has the service look.
    pub fn due(&self) {
        self.is_due.store(true, Ordering::Release);
        self.wake(0);
    }

    /// For how long the sync that is under way has been.
    pub fn outstanding(&self, now: Nanos) -> Nanos {
        match self.sync_began.load(Ordering::Relaxed) {
            0 => Nanos::ZERO,
            began => now.since(Nanos(began)),
        }
    }

    /// Why the home serves nobody yet, if so.
    pub fn silent(&self) -> Option<&'static str> {
        match Nanos(self.serves_from.load(Ordering::Relaxed)) {
            Nanos::MAX => Some(UNNAMED),
            from => (Clock::shared().now() < from).then_some(SILENT),
        }
    }

    /// Why the log takes nothing more, if so.
    pub fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    // ---- the service

    fn wake(&self, edge: usize) {
        if let Some(inbox) = self.inboxes.get(edge) {
            inbox.wake();
        }
    }

    /// The home begins to serve then.
    pub fn set_serves_from(&self, from: Nanos) {
        self.serves_from.store(from.0, Ordering::Relaxed);
    }

    /// A sync is under way since then, or none.
    pub fn set_sync(&self, began: Option<Nanos>) {
        self.sync_began.store(began.map_or(0, |began| began.0.max(1)), Ordering::Relaxed);
    }

    /// The log failed. Said once.
    pub fn fail(&self, why: String) {
        // In a simulation it is no news.
        if self.failed.set(why).is_ok() && !self.inboxes.is_empty() {
            log::error!("{}", self.failed().unwrap_or_default());
        }
    }

    /// All that arrived.
    pub fn take_arrived(&self) -> Vec<(NodeId, Message)> {
        std::mem::take(&mut *lock(&self.arrived))
    }

    /// These packets leave, and this is the home's deadline now; edge 0 is woken if it `wakes` and must act otherwise than it thinks.
    pub fn leave(&self, out: &mut Out, deadline: Nanos, wakes: bool) {
        let is_earlier = self.deadline.swap(deadline.0, Ordering::AcqRel) > deadline.0;
        let is_empty = out.is_empty();
        if !is_empty {
            lock(&self.leaving).append(out);
            self.leaves.store(true, Ordering::Release);
        }
        if wakes && (is_earlier || !is_empty) {
            self.wake(0);
        }
    }

    /// The replies to what waited of this connection are ready.
    pub fn done(&self, origin: Origin) {
        lock(&self.done[origin.edge()]).push(origin);
        self.wake(origin.edge());
    }

    /// Says which connections are gone since the last time; whether any is.
    #[inline]
    pub fn tell_gone(&self, parked: &mut Parked) -> bool {
        let has_gone = self.has_gone.load(Ordering::Acquire);
        if has_gone {
            self.take_gone().into_iter().for_each(|origin| parked.gone(origin));
        }
        has_gone
    }

    fn take_gone(&self) -> Vec<Origin> {
        let mut gone = lock(&self.gone);
        self.has_gone.store(false, Ordering::Release);
        std::mem::take(&mut *gone)
    }

    /// So many connections wait.
    pub fn set_waiting(&self, connections: usize) {
        self.waiting.store(connections, Ordering::Release);
    }

    /// What went through the home's socket.
    pub fn traffic(&self) -> Traffic {
        *lock(&self.traffic)
    }
}
