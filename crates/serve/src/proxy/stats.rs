//! What a proxy counts, and `stats`.
//!
//! Names are memcached's where memcached counts the same thing, so that exporters and dashboards go on working.

use super::command::{Outcome, Trouble, What};
use super::reply;
use super::shared::Shared;
use crate::memcached::counters::Counter;
use crate::memcached::{PROTOCOL_VERSION, command_counters};
use protocol::memcache::binary::HEADER_LEN;
use protocol::memcache::emit::{LINE_BOUND, Reply, stat_bound};
use protocol::memcache::{Asked, Line, Stats};
use std::time::{SystemTime, UNIX_EPOCH};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// Commands by outcome, since the start or `stats reset`.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter),* }

        impl Counters {
            /// Each with its name.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.read())),*]
            }

            fn reset(&self) {
                $(self.$name.reset();)*
            }
        }
    };
}

command_counters! { counters:
    /// Commands to which nobody answered, and that were not done.
    unanswered
    /// Commands to which nobody answered, and that may have been done.
    unknown_outcomes
    /// Commands given up since others changed the item each time.
    contended
    /// Commands that a home refused.
    refused
}

impl Counters {
    /// Counts a command that is done.
    pub fn count(&self, what: &What, outcome: &Outcome) {
        let hit_or_miss =
            |is_hit, hits: &Counter, misses: &Counter| if is_hit { hits } else { misses }.add(1);
        if let Outcome::Failed(trouble) = outcome {
            return self.count_trouble(*trouble);
        }
        match what {
            What::Read(read) => {
                let is_hit = matches!(outcome, Outcome::Hit(_));
                self.cmd_get.add(1);
                hit_or_miss(is_hit, &self.get_hits, &self.get_misses);
                if read.touch.is_some() {
                    self.cmd_touch.add(1);
                    hit_or_miss(is_hit, &self.touch_hits, &self.touch_misses);
                }
            }
            What::Store(store) => {
                self.cmd_set.add(1);
                match outcome {
                    Outcome::Stored { .. } if store.compare.is_some() => self.cas_hits.add(1),
                    Outcome::Exists => self.cas_badval.add(1),
                    Outcome::NotFound => self.cas_misses.add(1),
                    _ => {}
                }
            }
            What::Delete(_) => {
                hit_or_miss(*outcome == Outcome::Deleted, &self.delete_hits, &self.delete_misses);
            }
            What::Count(count) => match (outcome, count.decrement) {
                (Outcome::Counted(_), false) => self.incr_hits.add(1),
                (Outcome::Counted(_), true) => self.decr_hits.add(1),
                (Outcome::NotFound, false) => self.incr_misses.add(1),
                (Outcome::NotFound, true) => self.decr_misses.add(1),
                _ => {}
            },
            What::Touch(_) => {
                self.cmd_touch.add(1);
                hit_or_miss(*outcome == Outcome::Touched, &self.touch_hits, &self.touch_misses);
            }
            What::Flush(_) => self.cmd_flush.add(1),
        }
    }

    fn count_trouble(&self, trouble: Trouble) {
        let counter = match trouble {
            Trouble::NotDone => &self.unanswered,
            Trouble::Unknown => &self.unknown_outcomes,
            Trouble::Contended => &self.contended,
            Trouble::Refused(_) => &self.refused,
        };
        counter.add(1);
    }
}

/// The reply to `stats` of this family. Families that tell of memory are empty: a proxy keeps no items.
pub fn reply(which: &Stats<'_>, asked: Option<Asked>, shared: &Shared) -> Vec<u8> {
    let mut out = Page { bytes: Vec::new(), asked };
    let end = match which {
        Stats::General => {
            general(&mut out, shared);
            Line::End
        }
        Stats::Settings => {
            settings(&mut out, shared);
            Line::End
        }
        Stats::Sizes | Stats::SizesEnable | Stats::SizesDisable => {
            text(&mut out, "sizes_status", "disabled");
            Line::End
        }
        Stats::Conns => {
            number(&mut out, "curr_connections", shared.net.curr_connections.read());
            Line::End
        }
        Stats::Items | Stats::Slabs | Stats::DetailDump | Stats::Cachedump { .. } => Line::End,
        Stats::Reset => {
            shared.commands.reset();
            Line::Reset
        }
        Stats::DetailOn => Line::DetailRefused,
        Stats::DetailOff => Line::Ok,
        Stats::Other(_) => Line::Error,
    };
    out.append(LINE_BOUND, |reply| reply.line(end));
    out.bytes
}

/// Statistics as they are written, for the binary request that asked for them if it was one.
struct Page {
    bytes: Vec<u8>,
    asked: Option<Asked>,
}

impl Page {
    /// Adds what `write` writes: at most `bound` bytes as text.
    fn append(&mut self, bound: usize, write: impl FnOnce(&mut Reply<'_>)) {
        reply::append(&mut self.bytes, self.asked, bound + HEADER_LEN, write);
    }
}

fn general(out: &mut Page, shared: &Shared) {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    number(out, "pid", u64::from(std::process::id()));
    number(out, "uptime", shared.uptime_s());
    number(out, "time", unix);
    text(out, "version", PROTOCOL_VERSION);
    number(out, "pointer_size", 8 * size_of::<usize>() as u64);
    number(out, "threads", shared.workers() as u64);
    number(out, "max_connections", shared.options.connections);
    let net = &shared.net;
    for (name, counter) in [
        ("curr_connections", &net.curr_connections),
        ("total_connections", &net.total_connections),
        ("rejected_connections", &net.rejected_connections),
        ("slow_reader_kicks", &net.slow_reader_kicks),
        ("auth_cmds", &net.auth_cmds),
        ("auth_errors", &net.auth_errors),
        ("bytes_read", &net.bytes_read),
        ("bytes_written", &net.bytes_written),
        ("commands", &net.requests),
    ] {
        number(out, name, counter.read());
    }
    for (name, count) in shared.commands.all() {
        number(out, name, count);
    }
    for (name, count) in shared.client_counters() {
        number(out, &format!("inc_{}", name.replace(' ', "_")), count);
    }
}

fn settings(out: &mut Page, shared: &Shared) {
    number(out, "maxconns", shared.options.connections);
    number(out, "num_threads", shared.workers() as u64);
    number(out, "pipeline", shared.options.pipeline as u64);
    number(out, "item_size_max", shared.value_max as u64);
    text(out, "evictions", "on");
    text(out, "cas_enabled", "yes");
    text(out, "flush_enabled", "yes");
    text(out, "dump_enabled", "no");
    number(out, "box", u64::from(shared.tor.0));
    number(out, "homes", shared.homes.len() as u64);
}

fn text(out: &mut Page, name: &str, value: &str) {
    out.append(stat_bound(name.len(), value.len()), |reply| reply.stat(name, value));
}

fn number(out: &mut Page, name: &str, value: u64) {
    out.append(stat_bound(name.len(), 0), |reply| reply.stat_number(name, value));
}
