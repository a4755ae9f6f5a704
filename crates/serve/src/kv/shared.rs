//! What the threads of one node share: registers, counters, the service on its engine core, and the stop flag.

use super::chain_client::Figures;
use super::chains::EachChain;
use super::home::AtHome;
use super::post::Post;
use super::service::{Kv, KvReport};
use crate::engine_cores::OnCore;
use crate::kv::registers::{Id, Register, Registers};
use crate::memcached::accept::Inbox;
use crate::memcached::counters::{NetCounters, NetSnapshot};
use crate::memcached::login::Entrance;
use base::budget::Budget;
use base::tls::ServerTls;
use engine::{Core, Counters, CycleCore, StageSummary};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What the threads of one node share.
pub struct Shared<C: Core = CycleCore> {
    /// Everything that may be tuned.
    pub registers: Arc<Registers>,
    /// What the edges count.
    pub net: Arc<NetCounters>,
    /// Bytes that connections buffer.
    pub buffered: Arc<Budget>,
    /// Bytes of the segments of shared-memory connections.
    pub segments: Arc<Budget>,
    /// The service on its core.
    pub on_core: OnCore<Kv, C>,
    /// The home of boxes, if it is one.
    pub home: Option<AtHome>,
    /// Between edges, service and what it waits for, where replies come later.
    pub post: Option<Arc<Post>>,
    /// Of the clients of the chains that items lie in, where they do.
    pub chain: Option<EachChain>,
    /// The certificate of its listeners that speak TLS, if there are such.
    pub tls: Option<Arc<ServerTls>>,
    /// Who may come in.
    pub entrance: Entrance,
    inboxes: Vec<Arc<Inbox>>,
    stopping: AtomicBool,
    started: Instant,
}

/// Everything that a node counts, at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// This program's version.
    pub version: &'static str,
    /// Process id.
    pub pid: u32,
    /// Seconds since the node started.
    pub uptime_s: u64,
    /// What the engine counted of this service.
    pub engine: EngineReport,
    /// The edges' totals.
    pub net: NetSnapshot,
    /// Bytes that connections buffer now.
    pub buffered_bytes: u64,
    /// Bytes of the segments of shared-memory connections.
    pub segment_bytes: u64,
    /// Commands and store.
    pub kv: KvReport,
    /// Each chain that items lie in.
    pub chains: Vec<ChainState>,
    /// Where the home of boxes takes transactions of the chain's clients, if it does.
    pub transactions: Option<String>,
    /// Where requests spend their time.
    pub stages: Vec<StageReport>,
}

/// A chain that items lie in, as its client sees it.
#[derive(Clone, Debug, Serialize)]
pub struct ChainState {
    /// Its number.
    pub chain: u32,
    /// Whether the last transaction that ended had an answer.
    pub answers: bool,
    /// Transactions that have no outcome yet.
    pub under_way: u64,
    /// Questions for what became of a transaction.
    pub asked_again: u64,
}

impl From<&Figures> for ChainState {
    fn from(figures: &Figures) -> ChainState {
        ChainState {
            chain: figures.chain(),
            answers: !figures.is_silent(),
            under_way: figures.under_way(),
            asked_again: figures.asked_again(),
        }
    }
}

/// [`Counters`] for programs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct EngineReport {
    /// Requests executed.
    pub executed: u64,
    /// Requests whose deadline had passed.
    pub expired: u64,
    /// Times a port waited for room for its replies.
    pub blocked: u64,
    /// Passes that found work.
    pub passes: u64,
}

impl From<Counters> for EngineReport {
    fn from(c: Counters) -> EngineReport {
        EngineReport { executed: c.executed, expired: c.expired, blocked: c.blocked, passes: c.passes }
    }
}

/// [`StageSummary`] for programs.
#[derive(Clone, Debug, Serialize)]
pub struct StageReport {
    /// `queue`, `execute` or `reply`.
    pub name: &'static str,
    /// Requests recorded.
    pub count: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Mean, nanoseconds.
    pub mean_ns: f64,
}

impl StageReport {
    /// All time spent in the stage, nanoseconds.
    pub fn total_ns(&self) -> u64 {
        (self.mean_ns * self.count as f64) as u64
    }
}

impl From<StageSummary> for StageReport {
    fn from(s: StageSummary) -> StageReport {
        let StageSummary { name, count, p50_ns, p99_ns, mean_ns } = s;
        StageReport { name, count, p50_ns, p99_ns, mean_ns }
    }
}

impl<C: Core> Shared<C> {
    /// A node around the service on its core, whose edges look into `inboxes`.
    pub fn new(
        registers: Arc<Registers>,
        net: Arc<NetCounters>,
        buffered: Arc<Budget>,
        on_core: OnCore<Kv, C>,
        inboxes: Vec<Arc<Inbox>>,
        (home, post, chain): (Option<AtHome>, Option<Arc<Post>>, Option<EachChain>),
    ) -> Shared<C> {
        let segments = Arc::new(Budget::new(registers.size(Id::ShmMemory)));
        Shared {
            registers,
            net,
            buffered,
            segments,
            on_core,
            home,
            post,
            chain,
            tls: None,
            entrance: Entrance::default(),
            inboxes,
            stopping: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    /// With what connections begin with, and the certificate of listeners that speak TLS.
    #[must_use]
    pub fn entered_by(mut self, entrance: Entrance, tls: Option<Arc<ServerTls>>) -> Shared<C> {
        (self.entrance, self.tls) = (entrance, tls);
        self
    }

    /// Which edge looks into this inbox.
    pub fn number_of(&self, inbox: &Arc<Inbox>) -> usize {
        self.inboxes.iter().position(|other| Arc::ptr_eq(other, inbox)).expect("it is one of the node's")
    }

    /// Whether edges are to leave the engine to its core's thread.
    #[inline]
    pub fn is_dedicated(&self) -> bool {
        super::dedicated::is_on(&self.registers)
    }

    /// Tells every thread of the node to finish.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.inboxes.iter().for_each(|inbox| inbox.wake());
    }

    /// Whether the node was told to stop.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Seconds since the node started.
    pub fn uptime_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Passes a live register on to whoever does not read it on every pass.
    pub fn register_changed(&self, name: &str) {
        let is = |id: Id| name == Id::SPECS[id as usize].name;
        if is(Id::StoreMemory) {
            // The store has taken it (`admin::refuses`); of two that set it at once it has what the register says in the end.
            let bytes = self.registers.size(Id::StoreMemory);
            let _ = self.on_core.ask(|kv, _| kv.apply_memory_limit(bytes));
        } else if is(Id::NetBufferLimit) {
            self.buffered.set_limit(self.registers.size(Id::NetBufferLimit));
        } else if is(Id::ShmMemory) {
            self.segments.set_limit(self.registers.size(Id::ShmMemory));
        }
    }

    /// Leaves the items to the next process, if their memory lies in files. Every thread of the node has ended.
    pub fn leave_memory(&self) {
        self.on_core.ask(|kv, _| kv.leave_memory());
    }

    /// Everything counted, now.
    pub fn report(&self) -> Report {
        let (engine, kv) = self.on_core.ask(|kv, counters| (counters, kv.report()));
        Report {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_s: self.uptime_s(),
            engine: engine.into(),
            net: self.net.snapshot(),
            buffered_bytes: self.buffered.taken() as u64,
            segment_bytes: self.segments.taken() as u64,
            kv,
            chains: self.chain.iter().flatten().map(|figures| (&**figures).into()).collect(),
            transactions: self.home.as_ref().and_then(AtHome::takes_transactions_at),
            stages: self.on_core.stages.summary().into_iter().map(StageReport::from).collect(),
        }
    }
}
