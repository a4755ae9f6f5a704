//! Whether the items of a heap that another process wrote are items, and the index's.
//!
//! ```text
//!  segment  │ header key value │ header key value │ … │ used      every step is compared with what is left
//!                    └─ hash ─▶ chain of the index ─▶ an entry with this offset
//! ```
//! Every live item has an entry of its own offset, and the index has as many entries as there are live items: so each entry refers to
//! one item, in the chain of its hash. That is the invariant which all operations stand on; whatever bytes were flipped, what is taken
//! over has it.
//!
//! Cost: one walk over the used bytes, and a bucket for each item, fetched [`AHEAD`] items before it is looked at.

use super::Cold;
use super::meta::Image;
use crate::index::Index;
use crate::item::{DEAD, FETCHED, FREQUENCY, HEADER, Item, LARGE, STALE, WIN_SENT, footprint};
use crate::key::MAX_KEY;
use crate::large::LargeValue;
use crate::log::{Log, NEVER, Queue, Segment, State};
use crate::{MAX_VALUE, store};

const AHEAD: usize = 16;

/// A large value's stub, and where the value is in `millrace.large`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stub {
    /// Offset of the item in the heap.
    pub(super) item: usize,
    pub(super) at: u64,
    pub(super) len: usize,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// The accounts of each segment.
    pub(super) segments: Vec<Segment>,
    pub(super) stubs: Vec<Stub>,
}

/// Walks all items. Who `believes`, a mistake on purpose, does not ask whether the index refers to them.
pub(super) fn walk(
    log: &Log,
    index: &Index,
    hash: impl Fn(&[u8]) -> u64,
    image: &Image,
    believes: bool,
) -> Result<Inventory, Cold> {
    let all_referred_to =
        |items: &[(u64, usize)]| if believes { Ok(()) } else { all_referred_to(index, items) };
    let mut found = Inventory::default();
    let mut live = 0;
    for number in 0..log.segments.len() {
        let mut accounts = Segment::in_state(State::Unbacked, Queue::Small);
        let (start, used) = (log.start_of(number), log.segments[number].used as usize);
        let (mut at, mut ahead, mut count) = (0, [(0, 0); AHEAD], 0);
        while at < used {
            // SAFETY: `used` is at most a segment, and the segment is in the heap: `Log::resumed` saw to it.
            let item = unsafe { Item::at(log.base().add(start + at)) };
            let size = sound(item, used - at, image)?;
            let header = item.load();
            if header.state & DEAD != 0 {
                accounts.dead += size as u32;
            } else {
                accounts.latest = accounts.latest.max(if header.expiry == 0 { NEVER } else { header.expiry });
                accounts.epoch = accounts.epoch.max(header.epoch);
                accounts.large += header.outside() as u64;
                if header.state & LARGE != 0 {
                    found.stubs.push(stub(item, start + at, image)?);
                }
                // SAFETY: `sound` has seen that the key is in the segment; nothing changes meanwhile.
                let hash = hash(unsafe { item.key() });
                index.stage(hash);
                ahead[count] = (hash, start + at);
                (count, live) = (count + 1, live + 1);
                if count == AHEAD {
                    all_referred_to(&ahead)?;
                    count = 0;
                }
            }
            at += size;
        }
        all_referred_to(&ahead[..count])?;
        found.segments.push(accounts);
    }
    if live != index.entries() {
        return Err(Cold::Damaged("the index refers to items that are not there"));
    }
    Ok(found)
}

fn all_referred_to(index: &Index, items: &[(u64, usize)]) -> Result<(), Cold> {
    match items.iter().all(|&(hash, offset)| index.refers(hash, offset)) {
        true => Ok(()),
        false => Err(Cold::Damaged("an item is not in the index")),
    }
}

/// The bytes that the item takes, if all of it lies in the `left` bytes of its segment and it is one that a store writes.
fn sound(item: Item, left: usize, image: &Image) -> Result<usize, Cold> {
    let damaged = Err(Cold::Damaged("what lies among the items is none"));
    if left < HEADER {
        return damaged;
    }
    let header = item.load();
    let known = FREQUENCY | FETCHED | STALE | WIN_SENT | LARGE | DEAD;
    let (key, value) = (usize::from(header.key_len), header.value_len as usize);
    let size = if header.state & LARGE != 0 { header.footprint() } else { footprint(key, value) };
    if key == 0 || key > MAX_KEY || value > MAX_VALUE || header.state & !known != 0 || size > left {
        return damaged;
    }
    let is_later = header.version > image.version && header.version < 1 << 63;
    if is_later || header.epoch > image.epoch {
        return Err(Cold::Damaged("an item is newer than its store"));
    }
    Ok(size)
}

/// What the stub at `item` refers to, if that is in the file of large values.
fn stub(item: Item, offset: usize, image: &Image) -> Result<Stub, Cold> {
    let len = item.load().value_len as usize;
    let at = item.away();
    let end = at.checked_add(LargeValue::footprint(len) as u64);
    if !at.is_multiple_of(4096) || end.is_none_or(|end| end > image.large) {
        return Err(Cold::Damaged("a large value lies outside of its file"));
    }
    Ok(Stub { item: offset, at, len })
}

/// A clock that was set back by so many seconds while no process had the store: no time has passed, as far as items are concerned.
pub(super) fn shorten(store: &mut store::Store, seconds: u32) {
    store.log.shorten(seconds);
    if store.flush_at != u32::MAX {
        store.flush_at = store.flush_at.saturating_sub(seconds).max(1);
    }
    for number in 0..store.log.segments.len() {
        let (start, used) = (store.log.start_of(number), store.log.segments[number].used as usize);
        let mut at = 0;
        while at < used {
            let item = store.item_at(start + at);
            let mut header = item.load();
            if header.expiry != 0 {
                header.expiry = header.expiry.saturating_sub(seconds).max(1);
            }
            header.access = header.access.saturating_sub(seconds);
            item.set_header(header);
            at += header.footprint();
        }
    }
}
