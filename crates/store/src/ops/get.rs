//! GET: `get`, `gets`, `gat`, `gats` and `mg`, with memcached's leases.
//!
//! Leases: who misses may have an empty item made (*vivify*) and wins the right to fill it; who finds an item about to expire
//! (*recache*) or a stale one wins likewise. There is one winner until the item is set or invalidated again; others see that
//! the win was sent.
//!
//! Cost: the path without options is one bucket, one item header with the key behind it, and a write to the header only where
//! something changes. See docs/measurements/store.md.

use crate::item::{FETCHED, FREQUENCY, Item, STALE, STATE_SHIFT, WIN_SENT};
use crate::key::Key;
use crate::large::LargeValue;
use crate::store::{Fresh, Source, Store};
use std::marker::PhantomData;
use std::sync::Arc;

/// The options of a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetHow {
    /// A new expiry (`gat`, meta T).
    pub touch: Option<u32>,
    /// On a miss, make an empty item that expires then, and win (meta N).
    pub vivify: Option<u32>,
    /// Win if fewer seconds than this remain (meta R).
    pub recache_below: Option<u32>,
    /// Whether `recache_below` looks at the expiry that `touch` sets rather than at the one before. (memcached obeys the order
    /// in which the client wrote the two.)
    pub touch_first: bool,
    /// Count it as an access; off is meta u.
    pub bump: bool,
    /// Version of an item made by `vivify` (meta E).
    pub version: Option<u64>,
    /// Whether the caller can be told that it won (`mg`). A classic get that won would leave nobody to refill the item.
    pub lease: bool,
}

impl GetHow {
    /// A plain get.
    pub const PLAIN: GetHow = GetHow {
        touch: None,
        vivify: None,
        recache_below: None,
        touch_first: false,
        bump: true,
        version: None,
        lease: false,
    };

    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.touch.is_none() && self.vivify.is_none() && self.recache_below.is_none()
    }
}

impl Default for GetHow {
    fn default() -> Self {
        GetHow::PLAIN
    }
}

const HIT_BEFORE: u8 = 1;
const WON: u8 = 2;
const SENT_BEFORE: u8 = 4;
const IS_STALE: u8 = 8;

/// An item that was found: a view, read where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'s> {
    item: Item,
    access_before: u32,
    expiry_before: u32,
    bits: u8,
    store: PhantomData<&'s Store>,
}

impl<'s> Hit<'s> {
    /// The value.
    #[inline(always)]
    pub fn value(&self) -> &'s [u8] {
        // SAFETY: the store is borrowed for 's, so the item stays.
        unsafe { self.item.value() }
    }

    /// A share of the value where it is a large one, to be kept while the store goes on.
    pub fn large(&self) -> Option<Arc<LargeValue>> {
        self.item.is_large().then(|| self.item.large_clone())
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'s [u8] {
        // SAFETY: as `value`.
        unsafe { self.item.key() }
    }

    /// The client's flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.item.load().flags
    }

    /// The version (memcached: cas).
    #[inline]
    pub fn version(&self) -> u64 {
        self.item.load().version
    }

    /// When it expires, after this get; 0 is never.
    #[inline]
    pub fn expiry(&self) -> u32 {
        self.item.load().expiry
    }

    /// When it would have expired before this get touched it; 0, never, where this get made it.
    #[inline]
    pub fn expiry_before(&self) -> u32 {
        self.expiry_before
    }

    /// When it was last accessed before this get (unix seconds).
    #[inline]
    pub fn access_before(&self) -> u32 {
        self.access_before
    }

    /// Whether it had been asked for before this get.
    #[inline]
    pub fn was_hit_before(&self) -> bool {
        self.bits & HIT_BEFORE != 0
    }

    /// Whether the caller is to refill it (meta W).
    #[inline]
    pub fn won(&self) -> bool {
        self.bits & WON != 0
    }

    /// Whether it is marked stale (meta X).
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.bits & IS_STALE != 0
    }

    /// Whether somebody else was told to refill it (meta Z).
    #[inline]
    pub fn win_was_sent(&self) -> bool {
        self.bits & SENT_BEFORE != 0
    }
}

impl Store {
    /// The item of `key`, or `None`.
    #[inline(always)]
    pub fn get(&mut self, now: u32, key: Key<'_>, how: &GetHow) -> Option<Hit<'_>> {
        self.advance(now);
        let Some(slot) = self.lookup(now, key) else {
            self.missed(key);
            return if how.vivify.is_some() { self.vivify(now, key, how) } else { None };
        };
        let item = self.item_in(slot);
        let header = item.load();
        let mut bits = u8::from(header.state & FETCHED != 0) * HIT_BEFORE;
        if header.state & (STALE | WIN_SENT) != 0 || !how.is_plain() {
            bits |= self.options(now, item, how);
        }
        if how.bump {
            bump(now, item);
        }
        Some(Hit {
            item,
            access_before: header.access,
            expiry_before: header.expiry,
            bits,
            store: PhantomData,
        })
    }

    /// What more memory would have found is counted.
    #[inline(never)]
    fn missed(&mut self, key: Key<'_>) {
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.note_miss(key.hash());
        }
    }

    /// Touch, recache, stale and win: what a plain get of a plain item has none of.
    #[inline(never)]
    fn options(&mut self, now: u32, item: Item, how: &GetHow) -> u8 {
        let before = item.load();
        if let Some(expiry) = how.touch {
            item.set_expiry(expiry);
            self.log.extend(self.offset_of(item), expiry);
        }
        let expiry = match how.touch {
            Some(expiry) if how.touch_first => expiry,
            _ => before.expiry,
        };
        let sent = before.state & WIN_SENT != 0;
        let stale = before.state & STALE != 0;
        let ageing = how.recache_below.is_some_and(|t| expiry != 0 && expiry < now.saturating_add(t));
        let won = how.lease && !sent && (stale || ageing);
        if won {
            item.set_state(item.state() | WIN_SENT);
        }
        [(won, WON), (sent, SENT_BEFORE), (stale, IS_STALE)]
            .iter()
            .fold(0, |bits, &(is, bit)| bits | if is { bit } else { 0 })
    }

    #[cold]
    fn vivify(&mut self, now: u32, key: Key<'_>, how: &GetHow) -> Option<Hit<'_>> {
        let expiry = how.vivify?;
        self.prepare(now, crate::item::footprint(key.bytes().len(), 0));
        let version = self.next_version(how.version);
        let fresh = Fresh { flags: 0, expiry, version, state: WIN_SENT };
        // Without room the get stays a miss.
        let item = self.write(now, key, None, Source::Whole(&[]), fresh).ok()?;
        if how.bump {
            bump(now, item);
        }
        Some(Hit { item, access_before: now, expiry_before: 0, bits: WON, store: PhantomData })
    }
}

/// Counts a fetch: the moment, FETCHED, and one more of frequency.
#[inline(always)]
pub(crate) fn bump(now: u32, item: Item) {
    count(now, item, FETCHED);
}

/// Counts an access by which nobody was shown the item: the moment and one more of frequency.
pub(crate) fn note_access(now: u32, item: Item) {
    count(now, item, 0);
}

#[inline(always)]
fn count(now: u32, item: Item, fetched: u8) {
    let before = item.usage();
    let state = (before >> STATE_SHIFT) as u8;
    let state = (state | fetched) + u8::from(state & FREQUENCY != FREQUENCY);
    let kept = before & !(u64::from(u32::MAX) | 0xFF << STATE_SHIFT);
    item.set_usage_if_changed(before, kept | u64::from(now) | u64::from(state) << STATE_SHIFT);
}
