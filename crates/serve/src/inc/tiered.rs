//! A box with its fast tier: the machine decides, the XDP program answers what it may from the copies that this keeps for it.
//!
//! ```text
//!  driver ──handle, tick──▶ Tiered ──▶ CacheBox          which copies changed
//!                              │ ◀─────── Changes ───────────╯
//!                              ╰──put, remove──▶ xdp::Entries ◀──reads── program      then the driver sends
//! ```
//!
//! Invariants, from the rules at the head of `xdp`:
//! 1. When `handle` or `tick` returns, what the program may answer from are copies that the machine has: nothing that the machine said was
//!    sent before that. So an INVALIDATE is answered, and handed on to boxes below, when no request can hit any more.
//! 2. An entry ends no later than its copy (`Moment`).
//! 3. The program sends a request on to a home where the machine's table has it, before anything is sent that the machine says by that table.
//! 4. What the machine owns it lends to the program, and takes back before it looks at it (`protocol::coherence::boxes::lent`).
//!
//! Of several cores each writes the entries of its own hashes; the first has the program, with its counters, its epoch and its filter.
//!
//! With a filter (`coherence.filter`) the program sends requests of seldom asked-for keys on to their homes; the machine hears of what is asked
//! for again.
//!
//! What the machine keeps and the program has no room for is answered by the machine. Hits of the program count for the machine's
//! admission and eviction, some time (`FEED`) later.
//!
//! Cost: nothing for a message that changes no copy; an entry's bytes for one that does; all entries after a flush of many.
//! Tests: `tests`, against the machine, without root; `tests/inc_xdp.rs` in namespaces.

use super::machine::{Counters, Machine};
use base::{Clock, Nanos};
use protocol::coherence::boxes::changes::Changes;
use protocol::coherence::boxes::copies::Kept;
use protocol::coherence::boxes::lent::{FastTier, Loan};
use protocol::coherence::moved::Moved;
use protocol::coherence::{CacheBox, NodeId, Out, Planted};
use protocol::planted::{Bugs, NoBugs};
use protocol::wire::{KeyHash, Message};
use std::net::SocketAddr;
use std::sync::Arc;
use xdp::{Counter, Entries, Histogram, Item, Live, Tier};

/// How often the machine hears of the program's hits.
const FEED: Nanos = Nanos::from_millis(250);
/// How often the filter's counters are added up: they are one row per core, too much for every turn.
const LOOK: Nanos = Nanos::from_millis(1);

/// The program's table.
pub enum Table {
    /// All of it, or the first core's part, with the program and what it goes by.
    First(Box<Tier>, Live),
    /// Another core's.
    Other(Entries),
}

impl Table {
    fn entries(&self) -> &Entries {
        match self {
            Table::First(tier, _) => tier.entries(),
            Table::Other(entries) => entries,
        }
    }

    fn entries_mut(&mut self) -> &mut Entries {
        match self {
            Table::First(tier, _) => tier.entries_mut(),
            Table::Other(entries) => entries,
        }
    }
}

/// The box, or one of its cores.
pub struct Tiered<B = NoBugs> {
    cache: CacheBox<B>,
    table: Table,
    /// Empty, but for its memory.
    changes: Changes,
    feed_at: Nanos,
    look_at: Nanos,
    /// As it is while the box serves. One that is drained hears of all requests, so that all its clients are told to go round it.
    filter: u8,
    /// Sights at which the filter's counts were halved last.
    aged_at: u64,
}

impl<B: Bugs<Planted>> Tiered<B> {
    /// Of a machine that keeps nothing yet and a table that is empty. Times that the machine is told are those of
    /// [`Clock::shared`].
    pub fn new(mut cache: CacheBox<B>, table: Table) -> Tiered<B> {
        assert!(
            table.entries().is_empty() && cache.copies().next().is_none(),
            "a box begins with nothing in either tier"
        );
        cache.watch_copies();
        let filter = if let Table::First(_, live) = &table { live.filter } else { 0 };
        Tiered {
            filter,
            cache,
            table,
            changes: Changes::default(),
            feed_at: Nanos::ZERO,
            look_at: Nanos::ZERO,
            aged_at: 0,
        }
    }

    /// After the machine did something, and before anything is sent.
    fn follow(&mut self) {
        self.cache.take_changes(&mut self.changes);
        if !self.changes.is_empty() {
            mirror(&self.cache, self.table.entries_mut(), &self.changes, Moment::now());
            self.changes.clear();
        }
        let epoch = self.cache.table().epoch();
        if let Table::First(tier, live) = &mut self.table
            && live.epoch != epoch
        {
            for (home, place) in self.cache.table().moved().iter() {
                match place.address {
                    SocketAddr::V4(address) => tier.set_home(home, address),
                    SocketAddr::V6(_) => tier.forget_home(home),
                }
            }
            live.epoch = epoch;
            live.filter = if self.cache.is_draining() { 0 } else { self.filter };
            tier.set_options(*live);
        }
    }

    /// Halves what the filter counted whenever it has seen as many requests as there are entries: its sketch is not full by then, and what comes
    /// up was asked for twice among so many.
    fn age_filter(&mut self) {
        let Table::First(tier, _) = &self.table else { return };
        let counts = tier.counters();
        let sights: u64 = [Counter::Miss, Counter::Forwarded, Counter::Stranded]
            .map(|counter| counts.of_kind(counter))
            .iter()
            .sum();
        if sights - self.aged_at >= tier.entries().capacity() as u64 {
            self.aged_at = sights;
            tier.age_filter();
        }
    }
}

impl<B: Bugs<Planted>> Machine for Tiered<B> {
    fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        self.cache.handle_behind(&mut Lending(self.table.entries_mut()), now, from, message, out);
        self.follow();
    }

    fn tick(&mut self, now: Nanos, out: &mut Out) {
        self.cache.tick_behind(&mut Lending(self.table.entries_mut()), now, out);
        self.follow();
        if now >= self.feed_at {
            self.feed_at = now.plus(FEED);
            let cache = &mut self.cache;
            self.table.entries_mut().age(|hash, hits| cache.note_hits(hash, hits));
        }
        let has_filter = matches!(&self.table, Table::First(_, live) if live.filter > 1);
        if has_filter && now >= self.look_at {
            self.look_at = now.plus(LOOK);
            self.age_filter();
        }
    }

    fn next_deadline(&self) -> Nanos {
        Machine::next_deadline(&self.cache)
    }

    fn moved(&self) -> Option<&Arc<Moved>> {
        Machine::moved(&self.cache)
    }

    fn counters(&self) -> Counters {
        let mut counters = Machine::counters(&self.cache);
        if let Table::First(tier, _) = &self.table {
            counters.extend(tier.counters().iter().map(|(counter, count)| (counter.full_name(), count)));
        }
        counters.push(("xdp entries", self.table.entries().len() as u64));
        counters
    }

    fn fast_times(&self) -> Vec<(&'static str, Vec<u64>)> {
        let times = |histogram: Histogram| histogram.buckets().to_vec();
        match &self.table {
            Table::First(tier, _) => {
                vec![("hit", times(tier.hit_times())), ("passed", times(tier.pass_times()))]
            }
            Table::Other(_) => Vec::new(),
        }
    }
}

/// The program's table, for what the machine owns.
struct Lending<'a>(&'a mut Entries);

impl FastTier for Lending<'_> {
    fn lend(&mut self, loan: &Loan) -> bool {
        let moment = Moment::now();
        let ends = (moment.of(loan.kept.lease_end), moment.of(loan.kept.life_end));
        self.0.lend(loan, ends, moment.program)
    }

    fn take_back(&mut self, hash: KeyHash) -> Loan {
        self.0.take_back(hash)
    }
}

/// One moment on both clocks. The program's is read first: so what is left of a span by the machine's is no longer than it really is,
/// and ends by the program's when it ends by the machine's, or before.
#[derive(Clone, Copy, Debug)]
struct Moment {
    program: Nanos,
    machine: Nanos,
}

impl Moment {
    fn now() -> Moment {
        let program = xdp::now();
        Moment { program, machine: Clock::shared().now() }
    }

    fn of(self, end: Nanos) -> Nanos {
        if end == Nanos::MAX { Nanos::MAX } else { self.program.plus(end.since(self.machine)) }
    }
}

/// Makes entries what the machine's copies are, where they changed.
fn mirror<B: Bugs<Planted>>(cache: &CacheBox<B>, entries: &mut Entries, changes: &Changes, moment: Moment) {
    match changes.hashes() {
        Some(hashes) => hashes.iter().for_each(|hash| mirror_hash(cache, entries, *hash, moment)),
        None => {
            entries.clear();
            cache.copies().for_each(|kept| put(entries, kept, moment));
        }
    }
}

fn mirror_hash<B: Bugs<Planted>>(cache: &CacheBox<B>, entries: &mut Entries, hash: KeyHash, moment: Moment) {
    entries.retain_of(hash, |key| cache.copies_of(hash).any(|kept| kept.key == key));
    cache.copies_of(hash).for_each(|kept| put(entries, kept, moment));
}

fn put(entries: &mut Entries, kept: &Kept, moment: Moment) {
    let item = Item {
        key: &kept.key,
        value: &kept.value,
        version: kept.version,
        item_flags: kept.flags,
        kind: kept.kind,
        lease_end: moment.of(kept.lease_end),
        expires: moment.of(kept.life_end),
    };
    // What is too large, or had to go for this, the machine answers.
    let _in_the_machine_still = entries.put(&item, moment.program);
}

#[cfg(test)]
mod tests;
