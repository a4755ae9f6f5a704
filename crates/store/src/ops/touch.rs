//! TOUCH: a new expiry without reading the value.

use crate::key::Key;
use crate::ops::get::bump;
use crate::store::Store;

impl Store {
    /// Lets the item of `key` expire at `expiry` and counts an access; false where it is not there. The version stays, as in
    /// memcached: the value has not changed.
    pub fn touch(&mut self, now: u32, key: Key<'_>, expiry: u32) -> bool {
        self.advance(now);
        let Some(slot) = self.lookup(now, key) else { return false };
        let item = self.item_in(slot);
        item.set_expiry(expiry);
        self.log.extend(self.offset_of(item), expiry);
        bump(now, item);
        true
    }
}
