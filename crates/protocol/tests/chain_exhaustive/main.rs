//! Every order of events of a small chain: three replicas, a controller, two clients, one key; messages overtake each other, logs become durable
//! when they like, a message may come twice, and at any moment one replica may crash, which is noticed later, or lose its way to the
//! controller.
//!
//! Signs of life reach the controller, and what it decides the registry, at once; a new configuration travels as all messages do. Time stands still,
//! but for the moment at which a replica's silence is noticed: then leases are over.
//!
//! In every state: what is durable, received and committed along the chain is as `docs/design/006-chain.md` says; logs agree as far as anything is
//! committed; images that have applied the same are the same; what was answered is where it must be; answers have one order, which real time agrees
//! with. Where nothing more can happen all is answered.
//!
//! Not here, since too many orders come of it: two clients over a crash, and a replica that comes back.
//!
//! Number of states: pinned, so that a change of the protocol that opens or closes orders is seen.

mod check;
mod state;

use protocol::chain::{Planted, ReplicaId};
use state::{Faults, State, Step};
use std::collections::HashSet;

/// A mistake that is not found by then is not found here.
const MAX_STATES: usize = 200_000;
const TOO_MANY: &str = "too many states";
/// So often nothing may move, until something was sent again.
const WAITS: u32 = 20;

/// How many states there are, or what is wrong in one.
fn explore(first: State) -> Result<usize, String> {
    let mut seen = HashSet::from([first.hash()]);
    let mut stack = vec![first];
    while let Some(state) = stack.pop() {
        let all = state.next();
        if state.waits > WAITS {
            return Err(format!("whatever is sent again, not all is answered: {:?}", state.clients));
        }
        for next in all {
            let next = next?;
            if seen.insert(next.hash()) {
                stack.push(next);
            }
        }
        if seen.len() > MAX_STATES {
            return Err(TOO_MANY.into());
        }
    }
    Ok(seen.len())
}

use Step::{Add, Read};

const MIDDLE: ReplicaId = ReplicaId(2);
const TAIL: ReplicaId = ReplicaId(3);
const HEAD: ReplicaId = ReplicaId(1);

const NONE: Faults = Faults { crashes: 0, cut_offs: 0, doubles: 0 };
const DOUBLE: Faults = Faults { doubles: 1, ..NONE };
const CRASH: Faults = Faults { crashes: 1, ..NONE };
const CUT_OFF: Faults = Faults { cut_offs: 1, ..NONE };

#[test]
fn every_order_of_writes() {
    assert_eq!(explore(State::new([&[Add, Add], &[Add, Add]], NONE, None)), Ok(4169));
    assert_eq!(explore(State::new([&[Add], &[Add]], DOUBLE, None)), Ok(2431));
}

#[test]
fn every_order_of_writes_and_reads() {
    let states = explore(State::new([&[Add, Add], &[Read(MIDDLE), Read(TAIL), Read(HEAD)]], NONE, None));
    assert_eq!(states, Ok(3384));
}

#[test]
fn every_order_with_one_crash() {
    assert_eq!(explore(State::new([&[Add], &[]], CRASH, None)), Ok(33_071));
}

#[test]
fn every_order_with_one_replica_that_the_controller_cannot_reach() {
    assert_eq!(explore(State::new([&[Add], &[]], CUT_OFF, None)), Ok(56_837));
}

#[test]
fn mistakes_are_found_in_some_order() {
    let writes: [&'static [Step]; 2] = [&[Add], &[Add]];
    let mut missed: Vec<&str> = Vec::new();
    for (planted, scripts, faults) in [
        (Planted::AckBeforeLog, writes, NONE),
        (Planted::ForwardBeforeLog, writes, NONE),
        (Planted::ReplyBeforeAck, writes, NONE),
        (Planted::IgnoreLocks, writes, NONE),
        (Planted::ForgetReplies, writes, DOUBLE),
        (Planted::ReadDirty, [&[Add], &[Read(TAIL), Read(MIDDLE)]], NONE),
        (Planted::ForgetLocks, writes, CRASH),
        (Planted::TakeOldEpoch, [&[Add], &[]], CRASH),
    ] {
        let found = explore(State::new(scripts, faults, Some(planted)));
        if !found.is_err_and(|why| why != TOO_MANY) {
            missed.push(planted.name());
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
