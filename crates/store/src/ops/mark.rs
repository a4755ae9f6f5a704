//! MARK: what leases and invalidations left on an item, set from outside: for an item that comes back from somewhere else.

use crate::item::{STALE, WIN_SENT};
use crate::key::Key;
use crate::store::Store;

impl Store {
    /// Says of the item of `key` whether it is stale and whether somebody was told to refill it; false where it is not there.
    pub fn mark(&mut self, now: u32, key: Key<'_>, stale: bool, win_sent: bool) -> bool {
        self.advance(now);
        let Some(slot) = self.lookup(now, key) else { return false };
        let item = self.item_in(slot);
        let marks = if stale { STALE } else { 0 } | if win_sent { WIN_SENT } else { 0 };
        item.set_state(item.state() & !(STALE | WIN_SENT) | marks);
        true
    }

    /// Gives the item of `key` this version and expiry,; false where it is not there.
    pub fn amend(&mut self, now: u32, key: Key<'_>, version: u64, expiry: u32) -> bool {
        self.advance(now);
        let Some(slot) = self.lookup(now, key) else { return false };
        let version = self.next_version(Some(version));
        let item = self.item_in(slot);
        item.set_version(version);
        item.set_expiry(expiry);
        self.log.extend(self.offset_of(item), expiry);
        true
    }
}
