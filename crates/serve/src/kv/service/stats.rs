//! What the commands count, and the statistics that clients ask for: `stats` and its families.
//!
//! Names are memcached's where memcached counts the same thing, so that the exporters and dashboards people have go on working.

use super::by_home::ByHomeReport;
use super::chained::ChainedCounters;
use super::{Began, Commands, Reply, STATS_BOUND, inline};
use crate::inc::wire::Traffic;
use crate::kv::durable::DurableReport;
use crate::kv::registers::Id;
use crate::memcached::counters::NetSnapshot;
use crate::memcached::{PROTOCOL_VERSION, command_counters};
use base::Nanos;
use protocol::coherence::home;
use protocol::memcache::emit;
use protocol::memcache::{Asked, Line, Stats};
use ring::arena::Producer;
use serde::Serialize;
use store::{ArithOutcome, DeleteOutcome, SetError, SetOutcome, Store};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// Commands by outcome, since the start or `stats reset`.
        #[derive(Clone, Copy, Debug, Default, Serialize)]
        pub struct Counters { $($(#[$doc])* pub $name: u64),* }

        impl Counters {
            fn each(&self, mut show: impl FnMut(&str, u64)) {
                $(show(stringify!($name), self.$name);)*
            }
        }
    };
}

command_counters! { counters:
    /// Values beyond the limit.
    store_too_large
    /// Values that found no memory.
    store_no_memory
}

/// Bytes of values since the start, over all commands.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ValueBytes {
    /// Of items that were found, sent to clients.
    pub sent: u64,
    /// Brought by clients to be stored, whether they were or not.
    pub received: u64,
}

/// What was counted when clients last reset the statistics; metrics go on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reset {
    net: NetSnapshot,
    evicted: u64,
    expired: u64,
    version: u64,
}

impl Counters {
    pub(super) fn count_touch(&mut self, asked: bool, found: bool) {
        if asked {
            self.cmd_touch += 1;
            *(if found { &mut self.touch_hits } else { &mut self.touch_misses }) += 1;
        }
    }

    pub(super) fn count_set(&mut self, outcome: &Result<SetOutcome, SetError>, is_cas: bool) {
        match outcome {
            Ok(SetOutcome::Stored { .. }) if is_cas => self.cas_hits += 1,
            Ok(SetOutcome::Exists) => self.cas_badval += 1,
            Ok(SetOutcome::NotFound) => self.cas_misses += 1,
            Err(SetError::TooLarge) => self.store_too_large += 1,
            Err(SetError::OutOfMemory) => self.store_no_memory += 1,
            _ => {}
        }
    }

    pub(super) fn count_delete(&mut self, outcome: &Result<DeleteOutcome, SetError>) {
        match outcome {
            Ok(DeleteOutcome::NotFound) => self.delete_misses += 1,
            Ok(DeleteOutcome::Exists) => self.cas_badval += 1,
            Ok(_) => self.delete_hits += 1,
            Err(_) => self.store_no_memory += 1,
        }
    }

    pub(super) fn count_arith(&mut self, outcome: &Result<ArithOutcome, SetError>, decrement: bool) {
        match outcome {
            Ok(ArithOutcome::Done { .. }) if decrement => self.decr_hits += 1,
            Ok(ArithOutcome::Done { .. }) => self.incr_hits += 1,
            Ok(ArithOutcome::NotFound) if decrement => self.decr_misses += 1,
            Ok(ArithOutcome::NotFound) => self.incr_misses += 1,
            Ok(ArithOutcome::Exists) => self.cas_badval += 1,
            Ok(ArithOutcome::NotNumeric) => {}
            Err(_) => self.store_no_memory += 1,
        }
    }
}

/// Commands and store, at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KvReport {
    /// Commands by outcome.
    pub commands: Counters,
    /// Bytes of values that they sent and brought.
    pub values: ValueBytes,
    /// The store.
    pub store: StoreReport,
    /// How its memory began.
    pub began: Began,
    /// The home, where boxes are before this server.
    pub home: Option<HomeReport>,
    /// The log, where there is one.
    pub durable: Option<DurableReport>,
    /// The chain that items lie in, where they do.
    pub chain: Option<ChainReport>,
}

/// What a server counts whose items lie in a chain.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChainReport {
    /// Commands and their transactions.
    pub counters: ChainedCounters,
    /// Commands that wait for the chain.
    pub waiting: u64,
    /// Transactions of clients that go by the home.
    pub by_home: ByHomeReport,
}

/// What the home of boxes counts, since the start.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HomeReport {
    /// Requests and keys, by what became of them; packets of its socket.
    pub events: Vec<(&'static str, u64)>,
    /// Connections whose commands wait for boxes, or whose replies are ready.
    pub waiting: u64,
}

impl HomeReport {
    /// Of these counts.
    pub fn of(stats: &home::Stats, waiting: usize, traffic: &Traffic) -> HomeReport {
        let mut events = vec![
            ("hits", stats.hits),
            ("misses", stats.misses),
            ("granted", stats.granted),
            ("applied", stats.applied),
            ("waited", stats.waited),
            ("busy", stats.busy),
            ("repeated", stats.repeated),
            ("given", stats.given),
            ("returned", stats.returned),
            ("lost", stats.lost),
            ("dropped", stats.dropped),
        ];
        events.extend(traffic.named());
        HomeReport { events, waiting: waiting as u64 }
    }
}

/// [`store::Stats`] for programs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StoreReport {
    /// Items in the index.
    pub items: u64,
    /// Bytes of items.
    pub item_bytes: u64,
    /// Items evicted.
    pub evictions: u64,
    /// Items that expired.
    pub expired: u64,
    /// Items that were flushed.
    pub flushed: u64,
    /// New keys that had been evicted lately.
    pub ghost_hits: u64,
    /// Gets that missed a key which had been evicted lately, by quarters of what is remembered, the latest first.
    pub ghost_misses: [u64; store::GHOST_QUARTERS],
    /// Keys of evicted items that are remembered at most.
    pub ghost_room: u64,
    /// Segments cleaned.
    pub cleaned: u64,
    /// Bytes that the cleaner copied.
    pub copied: u64,
    /// The memory limit.
    pub limit_bytes: u64,
    /// Memory in use.
    pub memory_bytes: u64,
    /// of that, segments.
    pub segment_bytes: u64,
    /// of that, large values.
    pub large_bytes: u64,
    /// of that, index and overflow buckets.
    pub index_bytes: u64,
    /// of that, the memory of evicted keys.
    pub ghost_bytes: u64,
    /// Segments with memory.
    pub segments: u64,
    /// Segments with nothing in them.
    pub segments_free: u64,
    /// Index buckets.
    pub buckets: u64,
    /// Overflow buckets in use.
    pub overflow_buckets: u64,
    /// Pages under the segments.
    pub heap_pages: String,
    /// Pages under the index.
    pub index_pages: String,
}

pub(super) fn report((commands, values): (&Counters, ValueBytes), store: &Store, began: Began) -> KvReport {
    let s = store.stats();
    KvReport {
        commands: *commands,
        values,
        began,
        home: None,
        durable: None,
        chain: None,
        store: StoreReport {
            items: s.items as u64,
            item_bytes: s.item_bytes,
            evictions: s.evicted,
            expired: s.expired,
            flushed: s.flushed,
            ghost_hits: s.ghost_hits,
            ghost_misses: s.ghost_misses,
            ghost_room: s.ghost_room as u64,
            cleaned: s.segments_cleaned,
            copied: s.bytes_copied,
            limit_bytes: s.memory_limit as u64,
            memory_bytes: s.memory as u64,
            segment_bytes: s.segment_memory as u64,
            large_bytes: s.large_memory as u64,
            index_bytes: (s.index_memory + s.overflow_memory) as u64,
            ghost_bytes: s.ghost_memory as u64,
            segments: s.segments as u64,
            segments_free: s.segments_free as u64,
            buckets: s.buckets as u64,
            overflow_buckets: s.overflow_buckets as u64,
            heap_pages: s.heap_pages.to_string(),
            index_pages: s.index_pages.to_string(),
        },
    }
}

/// The beginning of a path, since a reply has a bound.
fn cut(path: &str) -> &str {
    let end = (0..=path.len().min(256)).rev().find(|&at| path.is_char_boundary(at));
    &path[..end.unwrap_or(0)]
}

impl Commands {
    /// `stats` and its families.
    pub(super) fn stats(
        &mut self,
        which: &Stats<'_>,
        asked: Option<Asked>,
        out: &mut Producer,
    ) -> Option<Reply> {
        let mut room = out.reserve(STATS_BOUND as u32)?;
        let mut reply = emit::Reply::to(&mut room, asked);
        let end = match which {
            Stats::General => self.general(&mut reply),
            Stats::Settings => self.settings(&mut reply),
            Stats::Items => self.items(&mut reply),
            Stats::Slabs => self.slabs(&mut reply),
            Stats::Sizes | Stats::SizesEnable | Stats::SizesDisable => {
                reply.stat("sizes_status", "disabled");
                Line::End
            }
            Stats::Reset => {
                let s = self.store.stats();
                self.counters = Counters::default();
                self.prefixes.clear();
                self.reset = Reset {
                    net: self.net.snapshot(),
                    evicted: s.evicted,
                    expired: s.expired,
                    version: s.version,
                };
                Line::Reset
            }
            Stats::DetailOn => self.switch_detail(true),
            Stats::DetailOff => self.switch_detail(false),
            // In text it is answered in slices, as listings are. In binary all is one figure.
            Stats::DetailDump => {
                let mut text = String::new();
                self.prefixes.list(0, STATS_BOUND / 2, &mut text);
                reply.stat("detail", &text);
                Line::End
            }
            // Where it may be done, it is answered in slices: `listing`.
            Stats::Cachedump { .. } => Line::CachedumpRefused,
            // So is this one, always.
            Stats::Conns | Stats::Other(_) => Line::Error,
        };
        reply.line(end);
        let len = reply.len();
        Some(inline(room, len))
    }

    fn general(&mut self, reply: &mut emit::Reply<'_>) -> Line {
        let net = self.net.snapshot();
        let s = self.store.stats();
        let Reset { net: then, evicted, expired, version } = self.reset;
        self.usage.refresh(self.now_is_of);
        reply.stat_number("pid", std::process::id().into());
        reply.stat_number("uptime", self.now.saturating_sub(self.started).into());
        reply.stat_number("time", self.now.into());
        reply.stat("version", PROTOCOL_VERSION);
        reply.stat_number("pointer_size", usize::BITS.into());
        reply.stat("rusage_user", &self.usage.user);
        reply.stat("rusage_system", &self.usage.system);
        reply.stat_number("max_connections", self.registers.read(Id::NetMaxConnections));
        reply.stat_number("curr_connections", net.curr_connections);
        reply.stat_number("total_connections", net.total_connections - then.total_connections);
        reply.stat_number("rejected_connections", net.rejected_connections - then.rejected_connections);
        reply.stat_number("idle_kicks", net.idle_kicks - then.idle_kicks);
        reply.stat_number("auth_cmds", net.auth_cmds - then.auth_cmds);
        reply.stat_number("auth_errors", net.auth_errors - then.auth_errors);
        self.counters.each(|name, value| reply.stat_number(name, value));
        reply.stat_number("bytes_read", net.bytes_read - then.bytes_read);
        reply.stat_number("bytes_written", net.bytes_written - then.bytes_written);
        reply.stat_number("conn_yields", net.conn_yields - then.conn_yields);
        let watched = self.config.watchers.counts();
        reply.stat_number("log_worker_dropped", 0);
        reply.stat_number("log_worker_written", watched.written);
        reply.stat_number("log_watcher_skipped", watched.skipped);
        reply.stat_number("log_watcher_sent", watched.sent);
        reply.stat_number("log_watchers", watched.watchers);
        reply.stat_number("limit_maxbytes", s.memory_limit as u64);
        reply.stat_number("accepting_conns", 1);
        reply.stat_number("threads", self.registers.read(Id::EdgeThreads));
        reply.stat_number("hash_bytes", (s.index_memory + s.overflow_memory) as u64);
        reply.stat_number("bytes", s.item_bytes);
        reply.stat_number("curr_items", s.items as u64);
        reply.stat_number("total_items", s.version.saturating_sub(version));
        reply.stat_number("evictions", s.evicted - evicted);
        reply.stat_number("reclaimed", s.expired - expired);
        reply.stat_number("memory_bytes", s.memory as u64);
        reply.stat_number("large_bytes", s.large_memory as u64);
        reply.stat_number("buffered_bytes", self.buffered.taken() as u64);
        reply.stat_number("ghost_hits", s.ghost_hits);
        Line::End
    }

    fn settings(&mut self, reply: &mut emit::Reply<'_>) -> Line {
        let registers = self.registers.clone();
        let number = |id| registers.read(id);
        reply.stat_number("maxbytes", number(Id::StoreMemory));
        reply.stat_number("maxconns", number(Id::NetMaxConnections));
        reply.stat_number("tcpport", self.config.listen.tcp.first().map_or(0, |a| a.port().into()));
        reply.stat_number("udpport", self.config.listen.udp.first().map_or(0, |a| a.port().into()));
        let inter = self.config.listen.tcp.first().map_or("NULL".to_string(), |a| a.ip().to_string());
        reply.stat("inter", &inter);
        reply.stat_number("verbosity", self.config.verbosity.into());
        reply.stat("evictions", if number(Id::StoreMode) == 0 { "on" } else { "off" });
        let unix = self.config.listen.unix.as_ref().map_or("NULL".to_string(), |p| p.display().to_string());
        reply.stat("domain_socket", &unix[..unix.len().min(108)]);
        reply.stat("umask", &format!("{:o}", self.config.listen.unix_mask));
        reply.stat_number("num_threads", number(Id::EdgeThreads));
        reply.stat("cas_enabled", "yes");
        reply.stat_number("tcp_backlog", number(Id::NetBacklog));
        reply.stat("stat_key_prefix", self.config.detail.delimiter().encode_utf8(&mut [0; 4]));
        reply.stat("detail_enabled", if self.config.detail.is_on() { "yes" } else { "no" });
        for (name, value) in self.config.login.settings() {
            reply.stat(name, cut(&value));
        }
        // As memcached, only where there is one.
        if let Some(place) = &self.config.memory_file {
            reply.stat("memory_file", cut(&place.to_string_lossy()));
        }
        reply.stat_number("item_size_max", number(Id::StoreMaxValue));
        reply.stat("flush_enabled", if registers.is_on(Id::StoreFlushAll) { "yes" } else { "no" });
        reply.stat("dump_enabled", if registers.is_on(Id::StoreDumps) { "yes" } else { "no" });
        reply.stat_number("idle_timeout", number(Id::NetIdleTimeout));
        reply.stat("watch_enabled", if self.config.watchers.plan().is_allowed { "yes" } else { "no" });
        reply.stat_number("watcher_logbuf_size", self.config.watchers.plan().buffer_bytes as u64);
        for register in registers.show() {
            reply.stat(register.name, &register.value);
        }
        Line::End
    }

    /// Items are kept in one log, not in slab classes: everything is class 1.
    fn items(&mut self, reply: &mut emit::Reply<'_>) -> Line {
        let s = self.store.stats();
        if s.items > 0 {
            reply.stat_number("items:1:number", s.items as u64);
            reply.stat_number("items:1:mem_requested", s.item_bytes);
            reply.stat_number("items:1:evicted", s.evicted);
            reply.stat_number("items:1:outofmemory", self.counters.store_no_memory);
            reply.stat_number("items:1:reclaimed", s.expired);
        }
        Line::End
    }

    fn slabs(&mut self, reply: &mut emit::Reply<'_>) -> Line {
        let s = self.store.stats();
        reply.stat_number("1:chunk_size", s.segment_bytes as u64);
        reply.stat_number("1:chunks_per_page", 1);
        reply.stat_number("1:total_pages", s.segments as u64);
        reply.stat_number("1:total_chunks", s.segments as u64);
        reply.stat_number("1:used_chunks", (s.segments - s.segments_free) as u64);
        reply.stat_number("1:free_chunks", s.segments_free as u64);
        reply.stat_number("1:mem_requested", s.item_bytes);
        reply.stat_number("active_slabs", 1);
        reply.stat_number("total_malloced", s.memory as u64);
        Line::End
    }
}

/// CPU time of this process, as memcached prints it: seconds and microseconds. Kept for a while: the system is slow to say it.
#[derive(Default)]
pub(super) struct Usage {
    user: String,
    system: String,
    /// The look at the wall clock that it is as old as.
    of: Option<Nanos>,
}

impl Usage {
    fn refresh(&mut self, now: Nanos) {
        if self.of.replace(now) != Some(now) {
            (self.user, self.system) = rusage();
        }
    }
}

fn rusage() -> (String, String) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15, counted behind the command's name, which may hold spaces.
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut ticks = after.split_whitespace().skip(11).map(|t| t.parse::<u64>().unwrap_or(0));
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let mut next = || {
        let t = ticks.next().unwrap_or(0);
        format!("{}.{:06}", t / per_second, t % per_second * 1_000_000 / per_second)
    };
    (next(), next())
}
