//! What operations on one key mean, for [`crate::linear`].
//!
//! **Versions.** A change is given a version higher than all before it; a read shows the version of what it reads. Where answers tell
//! versions they must fit; where they do not, nothing is asked of them. A touch leaves the version as it is, as in memcached.
//!
//! **Expiry.** An order of operations knows no clock, so expiry is an operation of its own, [`Act::Expire`], that nobody called and
//! that must be done within a window: not before the earliest moment at which the item may vanish, not after the latest at which it may be
//! seen. An operation with a time to live was done somewhere between its call and its return, so the window is
//! `call + ttl − early ..= return + ttl + late`, with `early` and `late` as the system under test promises (granularity of its clock,
//! skew, how lazily it expires). It is done after the operation that set it; when that operation's deadline is no longer the item's (it was
//! overwritten, deleted, touched), it does nothing. For an operation that never returned the window has no end. So expiry needs no state of
//! the checker but whose deadline the item has, and its bounds are exact on both sides.
//!
//! **Flush** empties each key, as one operation on each; all keys at one moment is not checked. With a delay it does nothing
//! itself, and [`Act::Wipe`] does it in the window `call + delay − early ..= return + delay + late`.
//!
//! **Eviction**, where the rules allow it: an item may be gone whenever it is looked at.

use super::{Compute, Expect, Op, Ret, Status, Value};
use crate::linear::Spec;
use base::Picos;

/// The meaning of operations on one key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meaning {
    /// Items may vanish at any time.
    pub may_evict: bool,
}

/// What happens to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A client's operation, with a number by which its deadline is known.
    Client(Op, u32),
    /// The deadline of operation `setter` has come.
    Expire(u32),
    /// A flush that was delayed takes place.
    Wipe,
}

/// What a key is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// What is there.
    pub item: Option<Item>,
    /// The highest version that is known to have been given.
    pub newest: u64,
}

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// The value.
    pub value: Value,
    /// Its version, if an answer told.
    pub version: Option<u64>,
    /// The operation whose time to live counts.
    pub deadline_of: Option<u32>,
}

/// How an operation may end.
struct End {
    status: Status,
    /// The value that it answers.
    shows: Option<Value>,
    leaves: Leaves,
}

/// What an operation leaves behind.
enum Leaves {
    /// All as it was.
    Same,
    /// Nothing.
    Nothing,
    /// This value; `Some(deadline)` if that is new too.
    Stored(Value, Option<Option<u32>>),
    /// The value with another deadline.
    Touched(Option<u32>),
}

impl Spec for Meaning {
    type State = State;
    type Op = Act;
    type Ret = Ret;

    fn initial(&self) -> State {
        State::default()
    }

    fn apply(&self, state: &State, act: &Act, ret: Option<&Ret>, next: &mut Vec<State>) {
        let emptied = || State { item: None, newest: state.newest };
        let (op, number) = match act {
            Act::Client(op, number) => (op, *number),
            Act::Wipe => return next.push(emptied()),
            Act::Expire(setter) => {
                let is_mine = state.item.as_ref().is_some_and(|item| item.deadline_of == Some(*setter));
                return next.push(if is_mine { emptied() } else { state.clone() });
            }
        };
        apply_client(state, op, number, ret, next);
        if self.may_evict && state.item.is_some() {
            let mut evicted = Vec::new();
            apply_client(&emptied(), op, number, ret, &mut evicted);
            evicted.retain(|state| !next.contains(state));
            next.append(&mut evicted);
        }
    }

    /// Reads, and what was refused. A deadline looks only where it is not the item's, for it never becomes that again; where it is, it
    /// changes the state, which the search sees.
    fn only_looks(&self, act: &Act, ret: Option<&Ret>) -> bool {
        match act {
            Act::Client(Op::Get, _) | Act::Expire(_) => true,
            Act::Client(..) => ret.is_some_and(|ret| ret.status != Status::Ok),
            Act::Wipe => false,
        }
    }

    /// By version, where the answer tells.
    fn guess(&self, _: &Act, ret: Option<&Ret>) -> u64 {
        ret.and_then(|ret| ret.version).unwrap_or(u64::MAX)
    }

    /// A lower version than one that was given already comes no more.
    fn is_lost(&self, state: &State, act: &Act, ret: &Ret) -> bool {
        let (Act::Client(op, _), Some(version), Status::Ok) = (act, ret.version, ret.status) else {
            return false;
        };
        match op {
            Op::Get => version < state.newest,
            Op::Touch { .. } => false,
            _ => version <= state.newest,
        }
    }
}

fn apply_client(state: &State, op: &Op, number: u32, ret: Option<&Ret>, next: &mut Vec<State>) {
    for end in ends(state.item.as_ref(), op, number).into_iter().flatten() {
        let Some(ret) = ret else {
            // Nobody saw the answer: only what changes something matters.
            if !matches!(end.leaves, Leaves::Same) {
                next.extend(state.left(end.leaves, None));
            }
            continue;
        };
        let fits = end.status == ret.status
            && ret.value.as_ref().is_none_or(|value| end.shows.as_ref().is_none_or(|shown| shown == value));
        if fits {
            next.extend(state.left(end.leaves, ret.version));
        }
    }
    let is_refused = |status| matches!(status, Status::Error | Status::NoRoom);
    if ret.is_some_and(|ret| is_refused(ret.status)) && next.is_empty() {
        next.push(state.clone());
    }
}

impl State {
    /// What is left when an answer told `version`; `None` if the version does not fit.
    fn left(&self, leaves: Leaves, version: Option<u64>) -> Option<State> {
        let is_new = version.is_none_or(|version| version > self.newest);
        let newest = version.unwrap_or(self.newest);
        let item = match leaves {
            Leaves::Same => return self.seen_with(version),
            Leaves::Touched(deadline_of) => {
                let mut state = self.seen_with(version)?;
                state.item.as_mut().expect("only what is there is touched").deadline_of = deadline_of;
                return Some(state);
            }
            Leaves::Nothing => None,
            Leaves::Stored(value, deadline) => {
                let kept = self.item.as_ref().and_then(|item| item.deadline_of);
                Some(Item { value, version, deadline_of: deadline.unwrap_or(kept) })
            }
        };
        is_new.then_some(State { item, newest })
    }

    /// The same, when the item was seen with this version.
    fn seen_with(&self, version: Option<u64>) -> Option<State> {
        let (Some(version), Some(item)) = (version, &self.item) else { return Some(self.clone()) };
        let is_known = item.version.is_some();
        let fits = if is_known { item.version == Some(version) } else { version > self.newest };
        let mut state = self.clone();
        if !is_known {
            state.newest = version;
            state.item.as_mut().expect("it is there").version = Some(version);
        }
        fits.then_some(state)
    }
}

/// The ways in which `op` may end on `item`: one, or two where the item's version is not known.
fn ends(item: Option<&Item>, op: &Op, number: u32) -> [Option<End>; 2] {
    let plain = |status| End { status, shows: None, leaves: Leaves::Same };
    let stored = |value: &Value, ttl: Option<Picos>| End {
        leaves: Leaves::Stored(value.clone(), Some(ttl.map(|_| number))),
        ..plain(Status::Ok)
    };
    let end = match (op, item) {
        (Op::Get, Some(item)) => End { shows: Some(item.value.clone()), ..plain(Status::Ok) },
        (Op::Set { value, ttl }, _)
        | (Op::Add { value, ttl }, None)
        | (Op::Replace { value, ttl }, Some(_)) => stored(value, *ttl),
        (Op::Add { .. }, Some(_)) | (Op::Replace { .. } | Op::Append { .. }, None) => {
            plain(Status::NotStored)
        }
        (Op::Cas { value, expect, ttl }, Some(item)) => {
            let is_as_expected = match expect {
                Expect::Value(old) => Some(*old == item.value),
                Expect::Version(old) => item.version.map(|version| version == *old),
            };
            return match is_as_expected {
                Some(true) => [Some(stored(value, *ttl)), None],
                Some(false) => [Some(plain(Status::Exists)), None],
                None => [Some(stored(value, *ttl)), Some(plain(Status::Exists))],
            };
        }
        (Op::Delete, Some(_)) => End { leaves: Leaves::Nothing, ..plain(Status::Ok) },
        (Op::Compute { how, by, .. }, Some(item)) => computed(item, *how, *by),
        (Op::Compute { init: Some(init), ttl, .. }, None) => {
            let value = Value::number(*init);
            End { shows: Some(value.clone()), ..stored(&value, *ttl) }
        }
        (Op::Append { value }, Some(item)) => {
            End { leaves: Leaves::Stored(item.value.joined(value), None), ..plain(Status::Ok) }
        }
        (Op::CondPut { by, ttl }, _) => match item.map(|item| item.value.as_number()) {
            Some(None) => plain(Status::Error),
            Some(Some(old)) if old >= *by => plain(Status::NotStored),
            _ => stored(&Value::number(*by), *ttl),
        },
        (Op::Touch { ttl }, Some(_)) => {
            End { leaves: Leaves::Touched(ttl.map(|_| number)), ..plain(Status::Ok) }
        }
        (Op::Flush { delay: None }, _) => End { leaves: Leaves::Nothing, ..plain(Status::Ok) },
        (Op::Flush { delay: Some(_) }, _) => plain(Status::Ok),
        (Op::Get | Op::Cas { .. } | Op::Delete | Op::Compute { .. } | Op::Touch { .. }, None) => {
            plain(Status::Miss)
        }
    };
    [Some(end), None]
}

fn computed(item: &Item, how: Compute, by: u64) -> End {
    let Some(number) = item.value.as_number() else {
        return End { status: Status::Error, shows: None, leaves: Leaves::Same };
    };
    let value = Value::number(how.apply(number, by));
    End { status: Status::Ok, shows: Some(value.clone()), leaves: Leaves::Stored(value, None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(value: &[u8]) -> State {
        let item = Item { value: Value::of(value), version: Some(7), deadline_of: Some(1) };
        State { item: Some(item), newest: 7 }
    }

    fn after(state: &State, op: Op, ret: Option<Ret>) -> Vec<State> {
        let mut next = Vec::new();
        Meaning::default().apply(state, &Act::Client(op, 9), ret.as_ref(), &mut next);
        next
    }

    fn value_after(state: &State, op: Op) -> Option<Value> {
        let next = after(state, op, Some(Ret::of(Status::Ok).versioned(8)));
        assert_eq!(next.len(), 1);
        next[0].item.as_ref().map(|item| item.value.clone())
    }

    #[test]
    fn numbers_are_computed() {
        let compute = |how, by| Op::Compute { how, by, init: None, ttl: None };
        let five = item(b"5");
        for (how, by, want) in [
            (Compute::Incr, 3, 8),
            (Compute::Incr, u64::MAX, 4),
            (Compute::Decr, 9, 0),
            (Compute::Min, 3, 3),
            (Compute::Max, 3, 5),
            (Compute::Or, 8, 13),
        ] {
            assert_eq!(value_after(&five, compute(how, by)), Some(Value::number(want)));
        }
        assert_eq!(after(&item(b"x"), compute(Compute::Incr, 1), Some(Ret::of(Status::Ok))), []);
        assert_eq!(after(&State::default(), compute(Compute::Incr, 1), Some(Ret::of(Status::Miss))).len(), 1);
        let vivify = Op::Compute { how: Compute::Incr, by: 1, init: Some(40), ttl: None };
        assert_eq!(value_after(&State::default(), vivify), Some(Value::number(40)));
        assert_eq!(value_after(&five, Op::CondPut { by: 6, ttl: None }), Some(Value::number(6)));
        assert_eq!(after(&five, Op::CondPut { by: 5, ttl: None }, Some(Ret::of(Status::Ok))), []);
        assert_eq!(value_after(&five, Op::Append { value: Value::of(b"1") }), Some(Value::of(b"51")));
    }

    #[test]
    fn versions_must_fit() {
        let set = || Op::Set { value: Value::of(b"n"), ttl: None };
        let done = |version| Some(Ret::of(Status::Ok).versioned(version));
        assert_eq!(after(&item(b"o"), set(), done(7)), []);
        assert_eq!(after(&item(b"o"), set(), done(9))[0].newest, 9);
        assert_eq!(after(&item(b"o"), Op::Get, Some(Ret::hit(b"o").versioned(6))), []);
        assert_eq!(after(&item(b"o"), Op::Get, Some(Ret::hit(b"o").versioned(7))), [item(b"o")]);
        // A change of which no answer told the version: the first read tells.
        let unknown = after(&item(b"o"), set(), None).remove(0);
        assert_eq!(after(&unknown, Op::Get, Some(Ret::hit(b"n").versioned(7))), []);
        assert_eq!(after(&unknown, Op::Get, Some(Ret::hit(b"n").versioned(8)))[0].newest, 8);
        let cas = || Op::Cas { value: Value::of(b"c"), expect: Expect::Version(8), ttl: None };
        assert_eq!(after(&item(b"o"), cas(), Some(Ret::of(Status::Ok))), []);
        assert_eq!(after(&unknown, cas(), Some(Ret::of(Status::Ok))).len(), 1);
        assert_eq!(after(&unknown, cas(), Some(Ret::of(Status::Exists))).len(), 1);
    }

    #[test]
    fn a_deadline_is_of_who_set_it_last() {
        let act = |state: &State, act: Act| {
            let mut next = Vec::new();
            Meaning::default().apply(state, &act, None, &mut next);
            next.remove(0)
        };
        assert_eq!(act(&item(b"o"), Act::Expire(1)).item, None);
        assert_eq!(act(&item(b"o"), Act::Expire(2)), item(b"o"));
        assert_eq!(act(&item(b"o"), Act::Wipe).item, None);
        let touched = act(&item(b"o"), Act::Client(Op::Touch { ttl: Some(Picos(5)) }, 2));
        assert!(act(&touched, Act::Expire(1)).item.is_some() && act(&touched, Act::Expire(2)).item.is_none());
        let forever = act(&item(b"o"), Act::Client(Op::Set { value: Value::of(b"o"), ttl: None }, 2));
        assert!(act(&forever, Act::Expire(2)).item.is_some());
    }

    #[test]
    fn what_may_be_evicted_may_miss() {
        let mut next = Vec::new();
        let evicts = Meaning { may_evict: true };
        evicts.apply(&item(b"o"), &Act::Client(Op::Get, 2), Some(&Ret::of(Status::Miss)), &mut next);
        assert_eq!(next, [State { item: None, newest: 7 }]);
        assert_eq!(after(&item(b"o"), Op::Get, Some(Ret::of(Status::Miss))), []);
    }
}
