//! Linearizability: could these answers have come from one copy that does one operation at a time, each at some moment
//! between its call and its return?
//!
//! The meaning of operations is a [`Spec`]; what happened is a list of [`Entry`]s; [`search()`] answers. Objects that do not touch
//! each other (keys) are checked apart: a history is linearizable when each object's part is.
//!
//! Source: Herlihy & Wing, "Linearizability: a correctness condition for concurrent objects" (1990).

mod search;

pub use search::search;

use std::hash::Hash;

/// What operations mean, one after another. They may leave a choice (what may be lost at any time, say).
pub trait Spec {
    /// What the object is at a moment.
    type State: Clone + Eq + Hash;
    /// What is asked of it.
    type Op;
    /// What it answers.
    type Ret;

    /// Before the first operation.
    fn initial(&self) -> Self::State;

    /// Pushes each state that `op` may leave behind when it is done in `state` and answers `ret`: none when it cannot answer that.
    /// Without `ret` it may answer anything: nobody saw it.
    fn apply(&self, state: &Self::State, op: &Self::Op, ret: Option<&Self::Ret>, next: &mut Vec<Self::State>);

    /// Whether `op`, when it answers `ret`, never changes anything that a later operation could tell, wherever in an order it is done.
    fn only_looks(&self, op: &Self::Op, ret: Option<&Self::Ret>) -> bool {
        let _ = (op, ret);
        false
    }

    /// A guess at the place of an operation in the order: what has a lower one is tried first. It makes the search quicker, never wrong.
    fn guess(&self, op: &Self::Op, ret: Option<&Self::Ret>) -> u64 {
        let _ = (op, ret);
        u64::MAX
    }

    /// Whether it is certain that neither in `state` nor after anything that may follow can `op` answer `ret`.
    fn is_lost(&self, state: &Self::State, op: &Self::Op, ret: &Self::Ret) -> bool {
        let _ = (state, op, ret);
        false
    }
}

/// One operation. Positions are places in the order of all calls and returns; only their order matters. Where they are equal a
/// call counts as before a return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<O, R> {
    /// What was asked.
    pub op: O,
    /// What was answered; `None` if nobody saw an answer.
    pub ret: Option<R>,
    /// It was done after this position.
    pub called: u64,
    /// It was done before this position; `None` if it may have been done later, or never.
    pub returned: Option<u64>,
    /// The entry without which it cannot be done.
    pub after: Option<usize>,
}

/// What became of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<S> {
    /// The entries done in this order explain every answer. Entries that never returned may be missing.
    Linearizable(Vec<usize>),
    /// No order does.
    Violation(Stuck<S>),
    /// The search was bounded before it knew.
    GaveUp {
        /// How many configurations it looked at.
        looked_at: usize,
    },
}

/// Where every order ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck<S> {
    /// No order explains the answers up to the return of this entry together with what was answered later by operations that were
    /// open then. Up to just before that return there is one.
    pub at: usize,
    /// Some of the states that the object may have been in then.
    pub states: Vec<S>,
}
