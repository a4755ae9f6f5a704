//! `incr`, `decr` and `ma`.
//!
//! A home's INCR knows numbers in digits alone. As memcached counts, a number may have blanks before and anything behind a blank, and
//! a result that is no longer than what was there is filled with blanks to its length: that is done by hand. So is `decr`, which makes
//! numbers shorter.

use super::{Counted, Decision, Found, KEPT, Outcome, Write};
use base::Nanos;
use protocol::coherence::client::{Answer, Call};
use protocol::wire::{Kind, Verb};

/// The options of counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How far.
    pub delta: u64,
    /// Down, to 0 at the least; up wraps at 2⁶⁴.
    pub decrement: bool,
    /// Where nothing is: the number to make, and its life (meta J and N).
    pub create: Option<(u64, Nanos)>,
    /// New life (meta T).
    pub touch: Option<Nanos>,
    /// Only on this version (meta C); 0 is none.
    pub compare: Option<u64>,
    /// The reply says what is left of its life (meta t).
    pub wants_life: bool,
}

impl Counted {
    /// What a home's INCR says. It does not tell lives.
    pub(super) fn of(answer: &Answer) -> Counted {
        Counted {
            number: answer.number,
            version: answer.version.0,
            life: Nanos::MAX,
            life_before: Nanos::MAX,
            created: false,
        }
    }
}

impl Count {
    pub(super) fn compare(&self) -> Option<u64> {
        self.compare.filter(|&version| version != 0)
    }

    pub(super) fn direct(&self, key: &[u8]) -> Option<Call> {
        let by_hand = self.decrement || self.wants_life || self.create.is_some() || self.touch.is_some();
        (!by_hand && self.compare().is_none()).then(|| Call::new(Verb::Incr, key).operand(self.delta))
    }

    pub(super) fn decide(&self, found: Option<Found>) -> Decision {
        let Some(found) = found else { return self.decide_of_nothing() };
        // Before the version is looked at, as memcached does.
        if found.value.is_empty() {
            return Decision::nothing(Outcome::NotNumeric);
        }
        if self.compare().is_some_and(|version| version != found.version) {
            return Decision::nothing(Outcome::Exists);
        }
        let Some(before) = store::number(&found.value) else { return Decision::nothing(Outcome::NotNumeric) };
        let number = match self.decrement {
            true => before.saturating_sub(self.delta),
            false => before.wrapping_add(self.delta),
        };
        let (value, kind) = written(number, &found);
        let life = self.touch.unwrap_or(found.life);
        let counted = Counted { number, version: 0, life, life_before: found.life, created: false };
        let write = Write::Put { value, flags: found.flags, kind, life: self.touch.unwrap_or(KEPT) };
        Decision::write(write, Outcome::Counted(counted))
    }

    fn decide_of_nothing(&self) -> Decision {
        let Some((number, life)) = self.create else { return Decision::nothing(Outcome::NotFound) };
        let counted = Counted { number, version: 0, life, life_before: Nanos::MAX, created: true };
        let value = number.to_string().into_bytes();
        let write = Write::Put { value, flags: 0, kind: Kind::Number, life };
        Decision::write(write, Outcome::Counted(counted))
    }
}

/// The number over what is there: in its place where it fits, with its marks; else it is something new.
fn written(number: u64, over: &Found) -> (Vec<u8>, Kind) {
    let mut value = number.to_string().into_bytes();
    let (digits, len) = (value.len(), over.value.len());
    value.resize(digits.max(len), b' ');
    let kind = match digits <= len {
        true if over.is_stale() || over.is_claimed() => over.kind,
        true if digits < len => Kind::Bytes,
        _ => Kind::Number,
    };
    (value, kind)
}
