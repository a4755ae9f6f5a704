//! `set`, `add`, `replace`, `append`, `prepend`, `cas` and `ms`.

use super::{Decision, Found, KEPT, Outcome, Write, marked, refused};
use base::Nanos;
use protocol::coherence::client::{Answer, Call};
use protocol::memcache::SetMode;
use protocol::wire::{Kind, Status, Verb, Version};

/// The options of a storage command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Store {
    /// Which of the family.
    pub mode: SetMode,
    /// Bytes.
    pub value: Vec<u8>,
    /// The client's flags.
    pub flags: u32,
    /// How long it lives; [`Nanos::MAX`]: for ever.
    pub life: Nanos,
    /// Only over this version (`cas`, meta C). Append and prepend take 0 for none.
    pub compare: Option<u64>,
    /// With a `compare` below the item's version store nevertheless, but marked stale (meta I).
    pub invalidate: bool,
    /// For append and prepend: where nothing is store the value alone, to live so long (meta N).
    pub vivify: Option<Nanos>,
    /// The reply says how long the whole value is (meta s).
    pub wants_size: bool,
}

impl Store {
    fn joins(&self) -> bool {
        matches!(self.mode, SetMode::Append | SetMode::Prepend)
    }

    pub(super) fn compare(&self) -> Option<u64> {
        self.compare.filter(|&version| version != 0 || !self.joins())
    }

    pub(super) fn direct(&self, key: &[u8]) -> Option<Call> {
        let verb = match (self.mode, self.compare()) {
            (SetMode::Set, None) => Verb::Set,
            (SetMode::Replace, None) => Verb::Replace,
            (SetMode::Set | SetMode::Replace, Some(_)) if !self.invalidate => Verb::Cas,
            (SetMode::Add, _) => Verb::Add,
            (SetMode::Append, None) if self.vivify.is_none() && !self.wants_size => Verb::Append,
            _ => return None,
        };
        let version = Version(self.compare().filter(|_| verb == Verb::Cas).unwrap_or(0));
        let call = Call::new(verb, key).value(&self.value);
        Some(Call { flags: self.flags, life: self.life, version, ..call })
    }

    pub(super) fn concluded(&self, answer: &Answer) -> Outcome {
        match (answer.status, self.mode) {
            (Status::Ok, _) => Outcome::Stored { version: answer.version.0, size: self.value.len() },
            (Status::Exists, SetMode::Add) => Outcome::NotStored,
            (Status::Exists, _) => Outcome::Exists,
            (Status::Miss, _) if self.compare().is_some() => Outcome::NotFound,
            (Status::Miss, _) => Outcome::NotStored,
            // Of the value that would result, not of the home's memory.
            (Status::NoRoom, SetMode::Append) => Outcome::TooLarge,
            (status, _) => refused(status),
        }
    }

    pub(super) fn decide(&self, found: Option<Found>) -> Decision {
        let Some(found) = found else { return self.decide_of_nothing() };
        if self.mode == SetMode::Add {
            return Decision::nothing(Outcome::NotStored);
        }
        let stored = |value: Vec<u8>, flags, kind, life| {
            let outcome = Outcome::Stored { version: 0, size: value.len() };
            Decision::write(Write::Put { value, flags, kind, life }, outcome)
        };
        match self.compare() {
            Some(version) if version == found.version => {}
            // Somebody who read before the invalidation: better than nothing, but not to be trusted.
            Some(version) if self.invalidate && version < found.version && version != 0 && !self.joins() => {
                return stored(self.value.clone(), self.flags, marked(true, found.is_claimed()), KEPT);
            }
            Some(_) => return Decision::nothing(Outcome::Exists),
            None => {}
        }
        match self.mode {
            SetMode::Append => {
                stored([found.value, self.value.clone()].concat(), found.flags, Kind::Bytes, KEPT)
            }
            SetMode::Prepend => {
                stored([self.value.clone(), found.value].concat(), found.flags, Kind::Bytes, KEPT)
            }
            _ => stored(self.value.clone(), self.flags, Kind::Bytes, self.life),
        }
    }

    fn decide_of_nothing(&self) -> Decision {
        let life = match (self.mode, self.compare()) {
            (SetMode::Set | SetMode::Replace, Some(_)) => return Decision::nothing(Outcome::NotFound),
            (SetMode::Set | SetMode::Add, _) => Some(self.life),
            (SetMode::Append | SetMode::Prepend, _) => self.vivify,
            (SetMode::Replace, None) => None,
        };
        let Some(life) = life else { return Decision::nothing(Outcome::NotStored) };
        let write = Write::Put { value: self.value.clone(), flags: self.flags, kind: Kind::Bytes, life };
        Decision::write(write, Outcome::Stored { version: 0, size: self.value.len() })
    }
}
