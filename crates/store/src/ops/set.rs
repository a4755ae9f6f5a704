//! SET and its family: `set`, `add`, `replace`, `append`, `prepend`, `cas` and `ms`.

use crate::config::Mode;
use crate::item::{STALE, WIN_SENT};
use crate::key::Key;
use crate::large::LargeValue;
use crate::ops::get::note_access;
use crate::store::{Fresh, Loss, Source, Store};
use std::fmt;

/// When and how a value is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// Always.
    #[default]
    Set,
    /// Only where the key is absent.
    Add,
    /// Only where the key is there.
    Replace,
    /// Behind the value that is there; flags and expiry stay.
    Append,
    /// In front of the value that is there; flags and expiry stay.
    Prepend,
}

/// The options of a SET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetHow {
    /// Which of the family.
    pub verb: Verb,
    /// The client's flags.
    pub flags: u32,
    /// When it expires; 0 is never.
    pub expiry: u32,
    /// Only if the item has this version (`cas`, meta C). As in memcached, no item has version 0, and append and prepend take
    /// `Some(0)` for `None`.
    pub compare: Option<u64>,
    /// With a `compare` below the item's version store nevertheless, but mark the item stale (meta I).
    pub invalidate: bool,
    /// The version to give (meta E).
    pub version: Option<u64>,
    /// For append and prepend: store the value alone with this expiry where the key is absent (meta N).
    pub vivify: Option<u32>,
}

/// What became of a SET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOutcome {
    /// It is stored.
    Stored {
        /// Its version.
        version: u64,
        /// Bytes of the whole value.
        size: usize,
    },
    /// The condition of add, replace, append or prepend was not met.
    NotStored,
    /// The item has another version than the one to compare with.
    Exists,
    /// There is no item to compare with.
    NotFound,
}

/// Why a value could not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetError {
    /// Longer than the longest value allowed.
    TooLarge,
    /// No memory, and nothing that may be evicted for it.
    OutOfMemory,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SetError::TooLarge => "the value is longer than this store takes; raise max_value",
            SetError::OutOfMemory => "the memory is full; raise the limit or delete something",
        })
    }
}

impl std::error::Error for SetError {}

/// What the conditions of a SET say.
enum Decision {
    Done(SetOutcome),
    Write { expiry: u32, flags: u32, state: u8 },
}

impl Store {
    /// Stores `value` under `key`, as `how` says.
    ///
    /// In cache mode a failed plain set removes the old value, as in memcached: who wrote must not read what was before.
    ///
    /// # Errors
    /// [`SetError`]. In store mode the old value stays.
    pub fn set(
        &mut self,
        now: u32,
        key: Key<'_>,
        value: &[u8],
        how: &SetHow,
    ) -> Result<SetOutcome, SetError> {
        self.advance(now);
        let result = self.try_set(now, key, value, how);
        let replaces = how.verb == Verb::Set && how.compare.is_none();
        if result.is_err() && replaces && self.config.mode == Mode::Cache {
            self.discard(key);
        }
        result
    }

    fn try_set(
        &mut self,
        now: u32,
        key: Key<'_>,
        value: &[u8],
        how: &SetHow,
    ) -> Result<SetOutcome, SetError> {
        if value.len() > self.config.max_value {
            return Err(SetError::TooLarge);
        }
        let key_len = key.bytes().len();
        self.prepare(now, if self.is_large(key_len, value.len()) { 0 } else { key_len + value.len() + 32 });
        let mut made_room = false;
        loop {
            let old = self.lookup(now, key);
            let found = old.map(|slot| self.item_in(slot));
            let (expiry, flags, state) = match decide(found.map(|i| i.load()), how) {
                Decision::Write { expiry, flags, state } => (expiry, flags, state),
                Decision::Done(outcome) => {
                    // As memcached: an add that finds the key keeps it young, but did not fetch it.
                    if let (Verb::Add, Some(item)) = (how.verb, found) {
                        note_access(now, item);
                    }
                    return Ok(outcome);
                }
            };
            let source = match how.verb {
                Verb::Append => Source::Appended(value),
                Verb::Prepend => Source::Prepended(value),
                _ => Source::Whole(value),
            };
            let beside = match (source, found) {
                (Source::Whole(_), _) | (_, None) => 0,
                (_, Some(item)) => item.load().value_len as usize,
            };
            let size = beside + value.len();
            if size > self.config.max_value {
                return Err(SetError::TooLarge);
            }
            // Making room may evict what was just found: look again, once.
            if !made_room && self.is_large(key_len, size) {
                made_room = true;
                if !self.make_room(now, LargeValue::footprint(size)) {
                    return Err(SetError::OutOfMemory);
                }
                continue;
            }
            let version = self.next_version(how.version);
            self.write(now, key, old, source, Fresh { flags, expiry, version, state })?;
            return Ok(SetOutcome::Stored { version, size });
        }
    }

    fn discard(&mut self, key: Key<'_>) {
        if let Some(slot) = self.find(key) {
            self.unlink(key.hash(), slot, Loss::Deleted);
        }
    }
}

fn decide(found: Option<crate::item::Header>, how: &SetHow) -> Decision {
    let joins = matches!(how.verb, Verb::Append | Verb::Prepend);
    let compare = how.compare.filter(|&v| v != 0 || !joins);
    let Some(old) = found else {
        return match (how.verb, compare, how.vivify) {
            (Verb::Set | Verb::Replace, Some(_), _) => Decision::Done(SetOutcome::NotFound),
            (Verb::Set | Verb::Add, ..) => Decision::Write { expiry: how.expiry, flags: how.flags, state: 0 },
            (Verb::Append | Verb::Prepend, _, Some(expiry)) => {
                Decision::Write { expiry, flags: how.flags, state: 0 }
            }
            _ => Decision::Done(SetOutcome::NotStored),
        };
    };
    if how.verb == Verb::Add {
        return Decision::Done(SetOutcome::NotStored);
    }
    match compare {
        Some(version) if version == old.version => {}
        // A writer who read before the invalidation: better than nothing, but not to be trusted. It keeps the old expiry.
        Some(version) if how.invalidate && version < old.version && version != 0 && !joins => {
            let state = STALE | old.state & WIN_SENT;
            return Decision::Write { expiry: old.expiry, flags: how.flags, state };
        }
        Some(_) => return Decision::Done(SetOutcome::Exists),
        None => {}
    }
    if joins {
        Decision::Write { expiry: old.expiry, flags: old.flags, state: 0 }
    } else {
        Decision::Write { expiry: how.expiry, flags: how.flags, state: 0 }
    }
}
