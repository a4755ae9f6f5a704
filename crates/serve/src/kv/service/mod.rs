//! The key-value service: memcached commands on a store, as the engine executes them.
//!
//! One file per family of commands: `classic`, `meta`, `stats`, `listing`. This file has what they share: the request and reply as
//! they travel in the port's slots, the room that a reply needs, and the counters.
//!
//! Invariant: nothing is executed before the room for its reply is reserved. Small replies and values up to
//! [`INLINE_VALUE`] go into the port's arena; a larger value is *detached*: copied once to the heap, or shared where the
//! store keeps it in a mapping of its own, and sent from there.
//!
//! Bounds: detached bytes on their way to an edge are at most [`DETACHED_MAX`], or one value.

mod classic;
mod listing;
mod meta;
mod stats;
mod warm;

use super::config::Config;
use super::shared::Shared;
use crate::kv::registers::{Id, Registers};
use crate::memcached::accept::Inbox;
use crate::memcached::counters::NetCounters;
use crate::memcached::output::Body;
use base::Nanos;
use base::budget::Budget;
use base::hash::Hasher64;
use base::pages::PageKind;
use engine::{EdgePort, Engine, EngineOptions, Messages, Service, ServiceOptions};
use protocol::memcache::emit::{self, SMALL_BOUND};
use protocol::memcache::{Command, KEY_MAX, Line, Meta, Stats, StoreVerb};
use ring::arena::{Producer, Reservation, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use store::{Hit, Key, Mode, Store};

pub use listing::Listing;
pub use stats::{Counters, KvReport};
pub use warm::Began;

/// Longest value that travels in the arena.
pub const INLINE_VALUE: usize = 16 << 10;

/// Detached bytes that may be on their way to the edges at once.
pub const DETACHED_MAX: u64 = 8 << 20;

/// Room for a reply with a value that travels in the arena.
const VALUE_BOUND: usize = SMALL_BOUND + INLINE_VALUE + 16;

/// Room for the largest family of statistics.
const STATS_BOUND: usize = 16 << 10;

/// What a request that lists statistics costs, in small requests.
const STATS_COST: usize = 32;

/// What a slice of a listing costs.
const SLICE_COST: usize = 16;

/// Bytes in a request or reply that cost as much as a small request.
const BYTES_PER_COST: usize = 4 << 10;

/// How often the wall clock is looked at.
const WALL_CLOCK: Nanos = Nanos::from_millis(50);

/// A command on its way to the engine, with the hash of its key; or a slice of a listing.
pub struct Request {
    hash: u64,
    work: Work,
}

enum Work {
    Command(Command<'static>),
    Slice(Listing),
}

impl Request {
    /// The request for `command`, whose key is hashed here, on the edge's core.
    #[inline]
    pub fn new(command: Command<'static>, hasher: &Hasher64) -> Request {
        let plain = |key: &[u8]| hasher.hash(key);
        let coded = |meta: &Meta<'_>| hasher.hash(meta.key(&mut [0; KEY_MAX]));
        let hash = match &command {
            Command::Get(get) => plain(get.key),
            Command::Store(store) => plain(store.key),
            Command::Delete { key, .. } | Command::Arith { key, .. } | Command::Touch { key, .. } => {
                plain(key)
            }
            Command::MetaGet(get) => coded(&get.meta),
            Command::MetaSet(set) => coded(&set.meta),
            Command::MetaDelete(delete) => coded(&delete.meta),
            Command::MetaArith(arith) => coded(&arith.meta),
            Command::MetaDebug(meta) => coded(meta),
            Command::TooLarge(large) => coded(&large.meta),
            _ => 0,
        };
        Request { hash, work: Work::Command(command) }
    }

    /// The request for the next slice of `listing`.
    pub fn slice(listing: Listing) -> Request {
        Request { hash: 0, work: Work::Slice(listing) }
    }

    /// What it takes of its connection's quantum; 1 for a small request. The bytes of its reply come on top: [`cost_of_bytes`].
    #[inline]
    pub fn cost(&self) -> usize {
        match &self.work {
            Work::Command(Command::Store(store)) => 1 + store.value.len() / BYTES_PER_COST,
            Work::Command(Command::MetaSet(set)) => 1 + set.value.len() / BYTES_PER_COST,
            Work::Command(Command::Stats(Stats::General | Stats::Settings)) => STATS_COST,
            Work::Command(_) => 1,
            Work::Slice(_) => SLICE_COST,
        }
    }
}

/// A reply on its way to the edge.
pub struct Reply {
    /// Its bytes in the port's arena; none where the client wants no reply.
    pub span: Span,
    /// What few replies have.
    pub beside: Option<Box<Beside>>,
}

/// What does not fit the arena, or is not for the client.
pub struct Beside {
    /// A value that stands between the reply's bytes.
    pub value: Option<Detached>,
    /// The listing goes on here.
    pub next: Option<Listing>,
}

impl Reply {
    /// A value that stands between its bytes.
    #[inline]
    pub fn detached(&self) -> Option<&Detached> {
        self.beside.as_ref()?.value.as_ref()
    }

    /// Its bytes, altogether.
    pub fn bytes(&self) -> usize {
        self.span.len() + self.detached().map_or(0, |value| value.body.len())
    }
}

/// What replies of so many bytes cost their connection beyond the requests themselves.
pub fn cost_of_bytes(bytes: usize) -> usize {
    bytes / BYTES_PER_COST
}

/// A value outside the arena.
pub struct Detached {
    /// Bytes of the span that come before it.
    pub at: usize,
    /// The value.
    pub body: Body,
    _in_ring: InRing,
}

/// Counts a detached value while it is between the engine and the edge's write.
struct InRing {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for InRing {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The service.
pub struct Kv {
    store: Store,
    began: warm::Began,
    counters: stats::Counters,
    registers: Arc<Registers>,
    net: Arc<NetCounters>,
    config: Arc<Config>,
    buffered: Arc<Budget>,
    detached: Arc<AtomicU64>,
    /// Unix seconds.
    now: u32,
    now_is_of: Nanos,
    started: u32,
    usage: stats::Usage,
}

/// What a node is wired from: the shared part, a port for each edge, and the hash that edges compute.
pub type Assembled = (Arc<Shared>, Vec<EdgePort<Kv>>, Hasher64);

/// Makes the service, its engine and the ports of all edges, as `config` says.
///
/// # Errors
/// The store's, when it cannot be had with these settings or in these files.
pub fn assemble(config: &Config, inboxes: Vec<Arc<Inbox>>) -> Result<Assembled, store::warm::Refusal> {
    let registers = config.registers.clone();
    let net = Arc::new(NetCounters::default());
    let buffered = Arc::new(Budget::new(registers.size(Id::NetBufferLimit)));
    let kv = Kv::new(config, net.clone(), buffered.clone())?;
    let hasher = *kv.store.hasher();
    let entries = registers.size(Id::RingEntries).next_power_of_two();
    let arena = registers.size(Id::RingArena).next_power_of_two();
    let in_flight = registers.size(Id::EngineInFlight);
    let mut engine = Engine::new(EngineOptions { in_flight, ports: inboxes.len() });
    let kv = engine.add(kv, ServiceOptions::default());
    let ports = inboxes
        .iter()
        .map(|_| engine.open(kv, entries as u32, arena as u64).expect("the engine was made for that many"))
        .collect();
    Ok((Arc::new(Shared::new(registers, net, buffered, (engine, kv), inboxes)), ports, hasher))
}

impl Kv {
    fn new(
        config: &Config,
        net: Arc<NetCounters>,
        buffered: Arc<Budget>,
    ) -> Result<Kv, store::warm::Refusal> {
        let registers = config.registers.clone();
        let mode = if registers.read(Id::StoreMode) == 0 { Mode::Cache } else { Mode::Store };
        let mut settings = store::Config::new(mode, registers.size(Id::StoreMemory));
        settings.max_value = registers.size(Id::StoreMaxValue);
        // Address space is free; memory is taken only as far as the limit allows.
        settings.memory_ceiling = settings.memory.saturating_mul(4).min(1 << 44).max(settings.memory);
        settings.pages = [PageKind::Base, PageKind::Transparent, PageKind::Huge2M, PageKind::Huge1G]
            [registers.size(Id::StorePages)];
        // Strangers choose the keys: a fixed seed would let them aim all of them at one bucket.
        settings.hash_seed = random_seed();
        let (store, began) = warm::open(config.memory_file.as_deref(), settings)?;
        let mut kv = Kv {
            store,
            began,
            counters: stats::Counters::default(),
            registers,
            net,
            config: Arc::new(config.clone()),
            buffered,
            detached: Arc::default(),
            now: 0,
            now_is_of: Nanos::ZERO,
            started: 0,
            usage: stats::Usage::default(),
        };
        kv.read_wall_clock(Nanos::ZERO);
        kv.started = kv.now;
        Ok(kv)
    }

    fn read_wall_clock(&mut self, now: Nanos) {
        self.now = unix_seconds();
        self.now_is_of = now;
    }

    /// Follows the memory register, as far as the store can.
    pub fn apply_memory_limit(&mut self, bytes: usize) -> bool {
        self.store.set_memory_limit(bytes).is_ok()
    }

    /// What the store and the commands count.
    pub fn report(&mut self) -> KvReport {
        stats::report(&self.counters, &self.store, self.began)
    }

    #[inline]
    fn key<'k>(&self, bytes: &'k [u8], hash: u64) -> Key<'k> {
        Key::with_hash(bytes, hash)
    }

    fn detached_now(&self) -> u64 {
        self.detached.load(Ordering::Relaxed)
    }

    /// Whether a value of `len` bytes may be detached now.
    fn may_detach(&self, len: usize) -> bool {
        let on_their_way = self.detached_now();
        on_their_way == 0 || on_their_way + len as u64 <= DETACHED_MAX
    }

    fn detach(&self, at: usize, body: Body) -> Detached {
        let bytes = body.len() as u64;
        self.detached.fetch_add(bytes, Ordering::Relaxed);
        Detached { at, body, _in_ring: InRing { bytes, all: self.detached.clone() } }
    }
}

/// The value of a hit as something that outlives the store's next step.
fn share(hit: &Hit<'_>) -> Body {
    match hit.large() {
        Some(large) => large,
        None => Arc::new(hit.value().to_vec()),
    }
}

fn unix_seconds() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// Random bits from the system, or from address and time where it has none to give.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(SystemTime::now())
}

/// Finishes a reply whose bytes are all in the arena.
fn inline(room: Reservation<'_>, len: usize) -> Reply {
    Reply { span: room.commit(len as u32), beside: None }
}

/// Finishes a reply with a value that may stand outside the arena.
fn with_value(room: Reservation<'_>, len: usize, value: Option<Detached>) -> Reply {
    let beside = value.map(|value| Box::new(Beside { value: Some(value), next: None }));
    Reply { span: room.commit(len as u32), beside }
}

impl Messages for Kv {
    type Request = Request;
    type Reply = Reply;
}

impl Service for Kv {
    /// Bucket, then item.
    const TOUCHES: usize = 2;

    #[inline]
    fn touch_key(request: &Request) -> u64 {
        request.hash
    }

    #[inline]
    fn touch(&self, step: usize, key: u64) {
        if step == 0 { self.store.stage_bucket(key) } else { self.store.stage_item(key) }
    }

    #[inline]
    fn tick(&mut self, now: Nanos) {
        if now.since(self.now_is_of) >= WALL_CLOCK {
            self.read_wall_clock(now);
        }
    }

    #[inline]
    fn execute(&mut self, request: &Request, out: &mut Producer) -> Option<Reply> {
        let hash = request.hash;
        let command = match &request.work {
            Work::Command(command) => command,
            Work::Slice(listing) => return self.slice(listing, out),
        };
        match command {
            Command::Get(get) => self.get(get, hash, out),
            Command::Store(store) => self.classic_store(store, hash, out),
            Command::MetaGet(get) => self.meta_get(get, hash, out),
            Command::MetaSet(set) => self.meta_set(set, hash, out),
            Command::Stats(which) => self.stats(which, out),
            other => self.small(other, hash, out),
        }
    }

    fn expire(&mut self, request: &Request, out: &mut Producer) -> Option<Reply> {
        let mut room = out.reserve(SMALL_BOUND as u32)?;
        let mut reply = emit::Reply::new(&mut room);
        if !matches!(&request.work, Work::Command(command) if command.noreply()) {
            reply.bytes(b"SERVER_ERROR deadline exceeded\r\n");
            // A retrieval is still waiting for its end.
            if matches!(&request.work, Work::Command(Command::Get(get)) if get.last) {
                reply.line(Line::End);
            }
        }
        let len = reply.len();
        Some(inline(room, len))
    }

    fn idle(&mut self, budget: usize) -> bool {
        self.store.maintain(self.now, budget * 64)
    }
}

/// How a store's SET is spelled in memcached's classic verbs.
fn verb_of(verb: StoreVerb) -> store::Verb {
    match verb {
        StoreVerb::Set | StoreVerb::Cas => store::Verb::Set,
        StoreVerb::Add => store::Verb::Add,
        StoreVerb::Replace => store::Verb::Replace,
        StoreVerb::Append => store::Verb::Append,
        StoreVerb::Prepend => store::Verb::Prepend,
    }
}
