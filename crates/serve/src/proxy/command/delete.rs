//! `delete` and `md`, which may also mark an item as stale, or take only its value.

use super::{Decision, Found, KEPT, Outcome, Write, marked};
use base::Nanos;
use protocol::coherence::client::Call;
use protocol::wire::{Verb, Version};

/// The options of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    /// Only this version (meta C). No item has version 0.
    pub compare: Option<u64>,
    /// Keep the item, but mark it stale: the next to read it wins (meta I).
    pub invalidate: bool,
    /// New life of an item that is kept (meta T).
    pub touch: Option<Nanos>,
    /// Keep the item, but empty and with flags 0 (meta x). Without `touch` it lives for ever.
    pub remove_value: bool,
}

impl Delete {
    pub(super) fn direct(&self, key: &[u8]) -> Option<Call> {
        // To a home, version 0 is any.
        let says_it_all = !self.invalidate && !self.remove_value && self.compare != Some(0);
        let version = Version(self.compare.unwrap_or(0));
        says_it_all.then(|| Call { version, ..Call::new(Verb::Delete, key) })
    }

    pub(super) fn decide(&self, found: Option<Found>) -> Decision {
        let Some(found) = found else { return Decision::nothing(Outcome::NotFound) };
        if self.compare.is_some_and(|version| version != found.version) {
            return Decision::nothing(Outcome::Exists);
        }
        let kind = marked(self.invalidate, false);
        let write = match (self.remove_value, self.invalidate) {
            (true, _) => {
                let life = self.touch.unwrap_or(Nanos::MAX);
                Write::Put { value: Vec::new(), flags: 0, kind, life }
            }
            (false, true) => {
                let life = self.touch.unwrap_or(KEPT);
                Write::Put { value: found.value, flags: found.flags, kind, life }
            }
            (false, false) => Write::Remove,
        };
        Decision::write(write, Outcome::Deleted)
    }
}
