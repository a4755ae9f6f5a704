//! Memcached's commands on a store: what all files of commands share.

use super::super::config::Config;
use super::super::durable::Durable;
use super::parked::Parked;
use super::prefixes::Prefixes;
use super::put_off::PutOff;
use super::{DETACHED_MAX, Detached, InRing, KvReport, Reply, stats, warm};
use crate::inc::items::{WALL_CLOCK, random_seed};
use crate::kv::clocks::Clocks;
use crate::kv::registers::{Id, Registers};
use crate::memcached::counters::NetCounters;
use crate::memcached::output::Body;
use base::Nanos;
use base::budget::Budget;
use base::pages::PageKind;
use protocol::memcache::{Asks, Binary, Command};
use ring::arena::Producer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::warm::{Asked, Sound, Whose};
use store::{Key, Mode, Store};

/// Memcached's commands on a store.
pub struct Commands {
    pub(super) store: Store,
    pub(super) began: warm::Began,
    pub(super) counters: stats::Counters,
    pub(super) values: stats::ValueBytes,
    pub(super) registers: Arc<Registers>,
    pub(super) net: Arc<NetCounters>,
    pub(super) config: Arc<Config>,
    pub(super) buffered: Arc<Budget>,
    pub(super) detached: Arc<AtomicU64>,
    pub(super) clocks: Clocks,
    /// Unix seconds.
    pub(super) now: u32,
    pub(super) now_is_of: Nanos,
    pub(super) started: u32,
    pub(super) usage: stats::Usage,
    /// What was counted when clients last reset the statistics.
    pub(super) reset: stats::Reset,
    pub(super) prefixes: Prefixes,
    /// Nanoseconds since 1970 when the process's clock began.
    pub(super) clock_began: u64,
    /// Commands that wait for boxes, and replies that wait for the log, where there are any.
    pub(super) parked: Parked,
    /// The log, where there is one.
    pub(super) durable: Option<Box<Durable>>,
    /// Flushes that are to come, at a home of boxes.
    pub(super) put_off: PutOff,
    /// Mistakes on purpose: see [`super::planted`].
    pub(super) gives_what_is_logged: bool,
    pub(super) goes_by_memory: bool,
}

impl Commands {
    /// Over a store as `config` says; if its memory is to lie in files, for `whose` keys and versions, who may say that it never ran before.
    pub(super) fn new(
        config: &Config,
        (whose, is_first): (Whose, bool),
        net: Arc<NetCounters>,
        buffered: Arc<Budget>,
    ) -> Result<Commands, store::warm::Refusal> {
        let settings = Commands::store_settings(config, random_seed());
        let asked = config.memory_file.as_deref().map(|place| Asked { is_first, ..Asked::of(place, whose) });
        let clocks = Clocks::system();
        let (store, began) = warm::open(asked.as_ref(), settings, (&clocks, &Sound))?;
        Ok(Commands::over(store, began, config, (net, buffered), clocks))
    }

    /// What `config` says of the store, whose hash has this seed.
    pub(super) fn store_settings(config: &Config, hash_seed: u64) -> store::Config {
        let registers = &config.registers;
        let mode = if registers.read(Id::StoreMode) == 0 { Mode::Cache } else { Mode::Store };
        let mut settings = store::Config::new(mode, registers.size(Id::StoreMemory));
        settings.max_value = registers.size(Id::StoreMaxValue);
        // Address space is free; memory is taken only as far as the limit allows.
        settings.memory_ceiling = settings.memory.saturating_mul(4).min(1 << 44).max(settings.memory);
        settings.pages = [PageKind::Base, PageKind::Transparent, PageKind::Huge2M, PageKind::Huge1G]
            [registers.size(Id::StorePages)];
        settings.hash_seed = hash_seed;
        settings
    }

    /// Over this store.
    pub(super) fn over(
        store: Store,
        began: warm::Began,
        config: &Config,
        (net, buffered): (Arc<NetCounters>, Arc<Budget>),
        clocks: Clocks,
    ) -> Commands {
        let mut kv = Commands {
            store,
            began,
            counters: stats::Counters::default(),
            values: stats::ValueBytes::default(),
            registers: config.registers.clone(),
            net,
            config: Arc::new(config.clone()),
            parked: Parked::new(&buffered),
            clock_began: 0,
            durable: None,
            put_off: PutOff::default(),
            gives_what_is_logged: false,
            goes_by_memory: false,
            buffered,
            detached: Arc::default(),
            clocks,
            now: 0,
            now_is_of: Nanos::ZERO,
            started: 0,
            usage: stats::Usage::default(),
            reset: stats::Reset::default(),
            prefixes: Prefixes::default(),
        };
        kv.read_wall_clock(kv.clocks.now());
        kv.started = kv.now;
        kv
    }

    /// Looks at the wall clock if that was long before `now`.
    #[inline]
    pub(super) fn tick(&mut self, now: Nanos) {
        if now.since(self.now_is_of) >= WALL_CLOCK {
            self.read_wall_clock(now);
        }
    }

    pub(super) fn read_wall_clock(&mut self, now: Nanos) {
        let since = self.clocks.since_1970();
        self.now = seconds_of(since);
        self.clock_began = Nanos::from(since).0.saturating_sub(now.0);
        self.now_is_of = now;
    }

    /// It is that second at that time of the process's clock.
    pub(super) fn set_clock(&mut self, now: Nanos, second: u32) {
        self.now = second;
        self.clock_began = (u64::from(second) * 1_000_000_000).saturating_sub(now.0);
        self.now_is_of = now;
    }

    /// Follows the memory register, as far as the store can.
    pub fn apply_memory_limit(&mut self, bytes: usize) -> Result<(), store::ConfigError> {
        self.store.set_memory_limit(bytes)
    }

    /// What the store and the commands count.
    pub fn report(&mut self) -> KvReport {
        let durable = self.durable.as_ref().map(|durable| durable.report());
        KvReport { durable, ..stats::report((&self.counters, self.values), &self.store, self.began) }
    }

    #[inline]
    pub(super) fn key<'k>(&self, bytes: &'k [u8], hash: u64) -> Key<'k> {
        Key::with_hash(bytes, hash)
    }

    pub(super) fn detached_now(&self) -> u64 {
        self.detached.load(Ordering::Relaxed)
    }

    /// Whether a value of `len` bytes may be detached now.
    pub(super) fn may_detach(&self, len: usize) -> bool {
        let on_their_way = self.detached_now();
        on_their_way == 0 || self.parked.is_making() || on_their_way + len as u64 <= DETACHED_MAX
    }

    pub(super) fn detach(&self, at: usize, body: Body) -> Detached {
        let bytes = body.len() as u64;
        self.detached.fetch_add(bytes, Ordering::Relaxed);
        Detached { at, body, _in_ring: InRing { bytes, all: self.detached.clone() } }
    }

    /// Does what `command` says; none where `out` has no room for its reply.
    #[inline]
    pub(super) fn execute(&mut self, command: &Command<'_>, hash: u64, out: &mut Producer) -> Option<Reply> {
        match command {
            Command::Get(get) => self.get(get, hash, out),
            Command::Store(store) => self.classic_store(store, hash, out),
            Command::MetaGet(get) => self.meta_get(get, hash, out),
            Command::MetaSet(set) => self.meta_set(set, hash, out),
            Command::Stats(which) => self.stats(which, None, out),
            Command::Binary(Binary { asks: Asks::Stats(which), .. }) => {
                self.stats(which, command.asked(), out)
            }
            other => self.small(other, hash, out),
        }
    }
}

pub(super) fn seconds_of(since: Duration) -> u32 {
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
