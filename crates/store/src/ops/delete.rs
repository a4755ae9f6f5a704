//! DELETE: `delete` and `md`, which may also mark an item stale or take only its value.

use crate::item::{STALE, WIN_SENT, footprint};
use crate::key::Key;
use crate::ops::set::SetError;
use crate::store::{Fresh, Loss, Source, Store};

/// The options of a DELETE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteHow {
    /// Only if the item has this version (meta C).
    pub compare: Option<u64>,
    /// Keep the item, but mark it stale, give it a new version and let the next get win (meta I).
    pub invalidate: bool,
    /// New expiry of an item that is kept (meta T).
    pub touch: Option<u32>,
    /// Keep the item, but empty and with flags 0 (meta x). Without `touch` it never expires, as in memcached.
    pub remove_value: bool,
    /// The version to give where the item is kept (meta E).
    pub version: Option<u64>,
}

/// What became of a DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The item is gone.
    Deleted,
    /// The item was kept and changed; this is its new version.
    Kept(u64),
    /// There is no such item.
    NotFound,
    /// It has another version than the one to compare with.
    Exists,
}

impl Store {
    /// Deletes the item of `key`, or changes it as `how` says.
    ///
    /// # Errors
    /// `OutOfMemory`, only with `remove_value` and where even the empty item cannot be written; the item stays.
    pub fn delete(&mut self, now: u32, key: Key<'_>, how: &DeleteHow) -> Result<DeleteOutcome, SetError> {
        self.advance(now);
        if how.remove_value {
            self.prepare(now, footprint(key.bytes().len(), 0));
        }
        let Some(slot) = self.lookup(now, key) else { return Ok(DeleteOutcome::NotFound) };
        let mut item = self.item_in(slot);
        if how.compare.is_some_and(|version| version != item.load().version) {
            return Ok(DeleteOutcome::Exists);
        }
        if !how.remove_value && !how.invalidate {
            self.unlink(key.hash(), slot, Loss::Deleted);
            return Ok(DeleteOutcome::Deleted);
        }
        let version = self.next_version(how.version);
        if how.remove_value {
            let fresh = Fresh { flags: 0, expiry: how.touch.unwrap_or(0), version, state: 0 };
            item = self.write(now, key, Some(slot), Source::Whole(&[]), fresh)?;
        }
        if how.invalidate {
            item.set_version(version);
            item.set_state((item.state() | STALE) & !WIN_SENT);
            if let Some(expiry) = how.touch {
                item.set_expiry(expiry);
                self.log.extend(self.offset_of(item), expiry);
            }
        }
        Ok(DeleteOutcome::Kept(version))
    }
}
