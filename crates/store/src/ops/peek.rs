//! PEEK: what the store knows of an item, changing nothing. `me` and the key listing read this.

use crate::item::{FETCHED, Header, Item, STALE, WIN_SENT};
use crate::key::Key;
use crate::store::Store;

/// What is known of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek<'s> {
    /// The key.
    pub key: &'s [u8],
    /// The value.
    pub value: &'s [u8],
    /// The client's flags.
    pub flags: u32,
    /// The version.
    pub version: u64,
    /// When it expires; 0 is never.
    pub expiry: u32,
    /// When it was last accessed.
    pub access: u32,
    /// Whether it was ever asked for.
    pub fetched: bool,
    /// Whether it is marked stale.
    pub stale: bool,
    /// Whether somebody was told to refill it.
    pub win_sent: bool,
    /// Bytes it takes altogether.
    pub footprint: usize,
}

impl Store {
    /// What is known of the item of `key`.
    pub fn peek(&self, now: u32, key: Key<'_>) -> Option<Peek<'_>> {
        let item = self.item_in(self.find(key)?);
        self.is_visible(now, &item.load()).then(|| self.describe(item))
    }

    /// Whether the item of `header` is there at `now`, also where a flush is due that no operation has carried out yet.
    pub(crate) fn is_visible(&self, now: u32, header: &Header) -> bool {
        now < self.flush_at && self.gone(now, header).is_none()
    }

    pub(crate) fn describe(&self, item: Item) -> Peek<'_> {
        let header = item.load();
        Peek {
            // SAFETY: the store is borrowed as long as the result.
            key: unsafe { item.key() },
            // SAFETY: as above.
            value: unsafe { item.value() },
            flags: header.flags,
            version: header.version,
            expiry: header.expiry,
            access: header.access,
            fetched: header.state & FETCHED != 0,
            stale: header.state & STALE != 0,
            win_sent: header.state & WIN_SENT != 0,
            footprint: header.footprint() + header.outside(),
        }
    }
}
