//! What each operation does to an item: one pure function for homes, boxes, clients and the specification of the checker.
//!
//! | verb | nothing there | something there |
//! |---|---|---|
//! | SET | stores | stores |
//! | ADD | stores | EXISTS |
//! | REPLACE | MISS | stores |
//! | CAS | MISS | stores if `version` is the item's, else EXISTS |
//! | DELETE | MISS | removes if `version` is 0 or the item's, else EXISTS |
//! | INCR, DECR | MISS; the request's value, if it has one, is stored | number ± operand; wraps at 2⁶⁴ upwards, stays at 0 downwards |
//! | COND_PUT | stores the operand | stores the operand if the number is smaller, else NOT_STORED |
//! | MIN, MAX, OR | stores the operand | the result; OK also where it is the same |
//! | APPEND | MISS | appends, or NO_ROOM beyond `operand` bytes (0: beyond what a packet holds) |
//! | TOUCH | MISS | a new life if `version` is 0 or the item's, else EXISTS |
//!
//! Numbers are unsigned 64-bit ones in decimal digits; an item that is none answers NOT_NUMBER. The result is the reply's
//! operand. (memcached pads a shrinking decremented number with blanks; that is the edge's business.) Arithmetic and
//! APPEND leave an item its life and flags; where they make an item, it has the request's.
//!
//! Which outcomes change nothing: all whose [`Effect`] is [`Effect::Nothing`]. Such an outcome may be answered wherever a read
//! may.

use crate::wire::{Kind, MAX_VALUE, Message, Status, Verb, Version};
use base::Nanos;

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// Its bytes.
    pub value: Vec<u8>,
    /// The client's flags.
    pub flags: u32,
    /// What the value is.
    pub kind: Kind,
    /// The write that made it.
    pub version: Version,
    /// When it dies, on its keeper's clock; [`Nanos::MAX`]: never.
    pub end: Nanos,
}

/// An operation and its arguments, without its key.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// Which.
    pub verb: Verb,
    /// To store or append.
    pub value: &'a [u8],
    /// For arithmetic, or the limit of an append.
    pub operand: u64,
    /// The one that must be there, for CAS, DELETE and TOUCH.
    pub version: Version,
    /// Flags of an item that it makes.
    pub flags: u32,
    /// What the value is.
    pub kind: Kind,
}

impl Operation<'_> {
    /// What a request of this verb asks for.
    pub fn of(verb: Verb, request: &Message) -> Operation<'_> {
        let header = &request.header;
        Operation {
            verb,
            value: &request.value,
            operand: header.operand,
            version: header.version,
            flags: header.item_flags,
            kind: header.kind,
        }
    }
}

/// What becomes of the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It stays as it is.
    Nothing,
    /// It is this; `lives_on`: with the life that the old one had, else the request's.
    Store {
        /// Bytes.
        value: Vec<u8>,
        /// The client's flags.
        flags: u32,
        /// What the value is.
        kind: Kind,
        /// Keeps the life of the item before it.
        lives_on: bool,
    },
    /// It is gone.
    Remove,
    /// It has the request's life.
    Touch,
}

/// What is answered, and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it went.
    pub status: Status,
    /// The result of arithmetic, else 0.
    pub number: u64,
    /// To be done to the item.
    pub effect: Effect,
}

impl Outcome {
    fn refused(status: Status) -> Outcome {
        Outcome { status, number: 0, effect: Effect::Nothing }
    }

    fn done(effect: Effect) -> Outcome {
        Outcome { status: Status::Ok, number: 0, effect }
    }
}

/// Whether some outcome on an item that is there changes nothing, so that it is worth asking a box first.
pub const fn may_change_nothing(verb: Verb) -> bool {
    use Verb::{Add, Append, Cas, CondPut, Delete, Max, Min, Or};
    matches!(verb, Add | Cas | Delete | CondPut | Min | Max | Or | Append)
}

/// What `operation` does to `item`.
pub fn apply(operation: &Operation<'_>, item: Option<&Item>) -> Outcome {
    let op = operation;
    let stored = || {
        Outcome::done(Effect::Store {
            value: op.value.to_vec(),
            flags: op.flags,
            kind: op.kind,
            lives_on: false,
        })
    };
    let right_version = |item: &Item| item.version == op.version;
    match (op.verb, item) {
        (Verb::Set | Verb::Add, None) | (Verb::Set | Verb::Replace, Some(_)) => stored(),
        (Verb::Add, Some(_)) => Outcome::refused(Status::Exists),
        (Verb::Cas, Some(item)) if right_version(item) => stored(),
        (Verb::Cas, Some(_)) => Outcome::refused(Status::Exists),
        (Verb::Delete, Some(item)) if op.version == Version(0) || right_version(item) => {
            Outcome::done(Effect::Remove)
        }
        (Verb::Delete, Some(_)) => Outcome::refused(Status::Exists),
        (Verb::Incr | Verb::Decr, None) if !op.value.is_empty() => match number(op.value) {
            Some(n) => Outcome { number: n, ..stored() },
            None => Outcome::refused(Status::NotNumber),
        },
        (Verb::Incr | Verb::Decr | Verb::CondPut | Verb::Min | Verb::Max | Verb::Or, item) => {
            arithmetic(op, item)
        }
        (Verb::Append, Some(item)) => append(op, item),
        (Verb::Touch, Some(item)) if op.version == Version(0) || right_version(item) => {
            Outcome::done(Effect::Touch)
        }
        (Verb::Touch, Some(_)) => Outcome::refused(Status::Exists),
        (Verb::Replace | Verb::Cas | Verb::Delete | Verb::Append | Verb::Touch, None) => {
            Outcome::refused(Status::Miss)
        }
        (Verb::Get | Verb::Flush | Verb::Noop | Verb::Session, _) => Outcome::refused(Status::Bad),
    }
}

fn arithmetic(op: &Operation<'_>, item: Option<&Item>) -> Outcome {
    let Some(item) = item else {
        return match op.verb {
            Verb::Incr | Verb::Decr => Outcome::refused(Status::Miss),
            _ => store_number(op.operand, op.flags, false),
        };
    };
    let Some(old) = number(&item.value) else { return Outcome::refused(Status::NotNumber) };
    let new = match op.verb {
        Verb::Incr => old.wrapping_add(op.operand),
        Verb::Decr => old.saturating_sub(op.operand),
        Verb::Min => old.min(op.operand),
        Verb::Or => old | op.operand,
        _ => old.max(op.operand),
    };
    if new != old || matches!(op.verb, Verb::Incr | Verb::Decr) {
        return store_number(new, item.flags, true);
    }
    let status = if op.verb == Verb::CondPut { Status::NotStored } else { Status::Ok };
    Outcome { status, number: old, effect: Effect::Nothing }
}

fn store_number(number: u64, flags: u32, lives_on: bool) -> Outcome {
    let value = number.to_string().into_bytes();
    let effect = Effect::Store { value, flags, kind: Kind::Number, lives_on };
    Outcome { status: Status::Ok, number, effect }
}

fn append(op: &Operation<'_>, item: &Item) -> Outcome {
    let limit = if op.operand == 0 { MAX_VALUE as u64 } else { op.operand.min(MAX_VALUE as u64) };
    if (item.value.len() + op.value.len()) as u64 > limit {
        return Outcome::refused(Status::NoRoom);
    }
    let value = [&item.value, op.value].concat();
    // Whatever it was before, a number or out of date: it is something new.
    Outcome::done(Effect::Store { value, flags: item.flags, kind: Kind::Bytes, lives_on: true })
}

/// A number as items hold it: 1 to 20 decimal digits below 2⁶⁴.
pub fn number(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 20 {
        return None;
    }
    value.iter().try_fold(0u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(value: &str) -> Item {
        Item { value: value.into(), flags: 7, kind: Kind::Bytes, version: Version(3), end: Nanos::MAX }
    }

    fn op(verb: Verb, value: &str, operand: u64, version: u64) -> Outcome {
        on(verb, value, operand, version, Some(&item("10")))
    }

    fn on(verb: Verb, value: &str, operand: u64, version: u64, item: Option<&Item>) -> Outcome {
        let version = Version(version);
        apply(
            &Operation { verb, value: value.as_bytes(), operand, version, flags: 1, kind: Kind::Bytes },
            item,
        )
    }

    fn becomes(outcome: &Outcome) -> Option<&str> {
        match &outcome.effect {
            Effect::Store { value, .. } => std::str::from_utf8(value).ok(),
            _ => None,
        }
    }

    #[test]
    fn stores_ask_what_is_there() {
        for (verb, there, not_there) in [
            (Verb::Set, Status::Ok, Status::Ok),
            (Verb::Add, Status::Exists, Status::Ok),
            (Verb::Replace, Status::Ok, Status::Miss),
            (Verb::Touch, Status::Ok, Status::Miss),
            (Verb::Append, Status::Ok, Status::Miss),
            (Verb::Delete, Status::Ok, Status::Miss),
            (Verb::Get, Status::Bad, Status::Bad),
        ] {
            assert_eq!(op(verb, "x", 0, 0).status, there, "{verb:?}");
            assert_eq!(on(verb, "x", 0, 0, None).status, not_there, "{verb:?}");
        }
        for verb in [Verb::Cas, Verb::Delete, Verb::Touch] {
            assert_eq!(op(verb, "x", 0, 3).status, Status::Ok);
            assert_eq!(op(verb, "x", 0, 4), Outcome::refused(Status::Exists));
            assert_eq!(on(verb, "x", 0, 3, None).status, Status::Miss);
        }
    }

    #[test]
    fn arithmetic_wraps_and_stays() {
        assert_eq!(op(Verb::Incr, "", u64::MAX, 0).number, 9);
        assert_eq!(op(Verb::Decr, "", 11, 0).number, 0);
        assert_eq!(becomes(&op(Verb::Decr, "", 1, 0)), Some("9"));
        assert_eq!(on(Verb::Incr, "", 1, 0, None).status, Status::Miss);
        assert_eq!(becomes(&on(Verb::Incr, "5", 1, 0, None)), Some("5"));
        assert_eq!(on(Verb::Incr, "five", 1, 0, None).status, Status::NotNumber);
        assert_eq!(on(Verb::Max, "", 1, 0, Some(&item("ten"))).status, Status::NotNumber);
        assert_eq!(becomes(&on(Verb::Min, "", 4, 0, None)), Some("4"));
    }

    #[test]
    fn some_outcomes_change_nothing() {
        assert_eq!(op(Verb::CondPut, "", 10, 0).status, Status::NotStored);
        assert_eq!(becomes(&op(Verb::CondPut, "", 11, 0)), Some("11"));
        for (verb, operand) in [(Verb::Min, 11), (Verb::Max, 9), (Verb::Or, 2)] {
            let outcome = op(verb, "", operand, 0);
            assert_eq!((outcome.status, outcome.number, outcome.effect), (Status::Ok, 10, Effect::Nothing));
            assert!(may_change_nothing(verb));
        }
        // Even by 0: who counts wants a new version.
        assert_ne!(op(Verb::Incr, "", 0, 0).effect, Effect::Nothing);
    }

    #[test]
    fn appending_has_a_limit() {
        assert_eq!(becomes(&op(Verb::Append, "ab", 4, 0)), Some("10ab"));
        assert_eq!(op(Verb::Append, "abc", 4, 0), Outcome::refused(Status::NoRoom));
        let Effect::Store { flags, lives_on, .. } = op(Verb::Append, "ab", 0, 0).effect else { panic!() };
        assert_eq!((flags, lives_on), (7, true));
        let full = Item { value: vec![0; MAX_VALUE], ..item("") };
        assert_eq!(on(Verb::Append, "x", u64::MAX, 0, Some(&full)).status, Status::NoRoom);
    }

    #[test]
    fn numbers_are_decimal_and_small() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["18446744073709551616", "", "-1", " 1", "1 ", "000000000000000000001"] {
            assert_eq!(number(bad.as_bytes()), None, "{bad}");
        }
    }
}
