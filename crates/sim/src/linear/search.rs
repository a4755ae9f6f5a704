//! The search for an order: depth first through configurations, each looked at once.
//!
//! Just in time: calls and returns are taken in order, and an operation is done only when a return needs it, that is when it itself
//! returns without having been done, or when that helps the one that returns. Any order that explains a history can be
//! changed into one of this kind. A *configuration* is (the return that is next, the state, what is done of what is open); from one
//! that failed no other way leads on, so each is remembered and looked at once.
//!
//! Operations that only look, and whose answer fits the state, are done at once and never undone: whatever explains the history with
//! such an operation later does so with it now. So reads and refusals make no branches.
//!
//! Operations that never returned are optional. One is tried only where it makes a difference: what comes right after it must not be possible
//! without it with the same result, unless something must come after it by name. So they are tried where someone saw them, and not everywhere.
//!
//! Cost: linear for histories without overlap. It is exponential at worst in how many operations overlap that change the state and whose
//! answers do not say what they met (the problem is NP-complete), hence the bound; many operations that never returned
//! make every wrong turn dearer. What is open is kept as a sorted list, so that a configuration is small however long the history is.
//!
//! Sources: Wing & Gong, "Testing and verifying concurrent objects" (1993); Lowe, "Testing for linearizability" (2017), for memory
//! of configurations and just-in-time order.
//!
//! Tests: against all permutations of small histories.

use super::{Entry, Outcome, Spec, Stuck};
use std::collections::HashSet;

/// States kept for the report of a violation.
const STATES_SHOWN: usize = 4;

/// Looks for an order of `entries` that explains their answers, at `most` configurations.
pub fn search<S: Spec>(spec: &S, entries: &[Entry<S::Op, S::Ret>], most: usize) -> Outcome<S::State> {
    let history = Steps::of(entries);
    let mut search = Search {
        spec,
        entries,
        history: &history,
        seen: HashSet::new(),
        order: Vec::new(),
        stuck_step: 0,
        stuck_states: Vec::new(),
        next: Vec::new(),
    };
    search.run(most)
}

/// Calls and returns in order.
struct Steps {
    /// Entry numbers; the return of entry i is `!i`.
    steps: Vec<u32>,
    /// For each step that is a return: the entries that are open then and return, those that return first first.
    open: Vec<Box<[u32]>>,
    /// Entries that never return, with the positions of their calls, by those.
    optional: Vec<(u64, u32)>,
    /// Which entries another must come after.
    is_awaited: Vec<bool>,
}

impl Steps {
    fn of<O, R>(entries: &[Entry<O, R>]) -> Steps {
        let count =
            u32::try_from(entries.len()).expect("a history of one object has less than 2³² operations");
        let mut moments: Vec<(u64, bool, u32)> = Vec::new();
        for (i, entry) in (0..count).zip(entries) {
            assert!(
                entry.returned.is_none_or(|r| r >= entry.called),
                "entry {i} returned before it was called"
            );
            moments.push((entry.called, false, i));
            moments.extend(entry.returned.map(|returned| (returned, true, i)));
        }
        moments.sort_unstable();
        let order = |i: u32| (entries[i as usize].returned.unwrap_or(u64::MAX), i);
        let mut now_open: Vec<u32> = Vec::new();
        let mut is_awaited = vec![false; entries.len()];
        entries.iter().filter_map(|entry| entry.after).for_each(|other| is_awaited[other] = true);
        let mut steps = Steps { steps: Vec::new(), open: Vec::new(), optional: Vec::new(), is_awaited };
        for (position, is_return, i) in moments {
            if entries[i as usize].returned.is_none() {
                steps.optional.push((position, i));
                continue;
            }
            let place = now_open.binary_search_by_key(&order(i), |&other| order(other));
            if is_return {
                steps.steps.push(!i);
                steps.open.push(now_open.clone().into_boxed_slice());
                now_open.remove(place.expect("what returns was called"));
            } else {
                steps.steps.push(i);
                steps.open.push(Box::default());
                now_open.insert(place.expect_err("nothing is called twice"), i);
            }
        }
        steps
    }

    /// The entry that returns at `step`, if that is a return.
    fn returning(&self, step: usize) -> Option<u32> {
        let number = self.steps[step];
        (number > u32::MAX / 2).then_some(!number)
    }
}

/// A point that the search has come to.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Configuration<S> {
    /// All steps before this one are taken.
    step: u32,
    state: S,
    /// Entries that are open and done, by number.
    done: Vec<u32>,
}

/// A configuration at which something must be done, and what has not been tried.
struct Branch<S> {
    at: Configuration<S>,
    /// How long the order was here.
    order: usize,
    /// The state before the optional entry that was done last, if nothing was done since.
    without: Option<S>,
    /// What may be done, the most promising last.
    candidates: Vec<u32>,
    /// Optional entries are among them, or have been.
    has_optional: bool,
    /// What can be done, and the state that it leaves.
    untried: Vec<(u32, S)>,
}

struct Search<'a, S: Spec> {
    spec: &'a S,
    entries: &'a [Entry<S::Op, S::Ret>],
    history: &'a Steps,
    seen: HashSet<Configuration<S::State>>,
    order: Vec<usize>,
    stuck_step: usize,
    stuck_states: Vec<S::State>,
    next: Vec<S::State>,
}

impl<S: Spec> Search<'_, S> {
    fn run(&mut self, most: usize) -> Outcome<S::State> {
        let mut branches: Vec<Branch<S::State>> = Vec::new();
        let mut at = Configuration { step: 0, state: self.spec.initial(), done: Vec::new() };
        let mut without: Option<S::State> = None;
        loop {
            let done = self.order.len();
            if self.settle(&mut at) {
                return Outcome::Linearizable(std::mem::take(&mut self.order));
            }
            // What was done at once since then could not be done before: the optional entry made a difference.
            without = without.filter(|_| self.order.len() == done);
            if !self.seen.contains(&at) && !self.is_hopeless(&at) {
                if self.seen.len() == most {
                    return Outcome::GaveUp { looked_at: most };
                }
                self.seen.insert(at.clone());
                self.note(&at);
                branches.push(self.branch(at, without.take()));
            }
            (at, without) = loop {
                let Some(branch) = branches.last_mut() else { return self.violation() };
                self.order.truncate(branch.order);
                if let Some((entry, state)) = self.next_choice(branch) {
                    self.order.push(entry as usize);
                    let mut done = branch.at.done.clone();
                    insert(&mut done, entry);
                    let is_optional = self.entries[entry as usize].returned.is_none();
                    let makes_way = self.history.is_awaited[entry as usize];
                    let without = (is_optional && !makes_way).then(|| branch.at.state.clone());
                    break (Configuration { step: branch.at.step, state, done }, without);
                }
                branches.pop();
            };
        }
    }

    /// Takes steps until something must be done. True at the end of the history.
    fn settle(&mut self, at: &mut Configuration<S::State>) -> bool {
        while (at.step as usize) < self.history.steps.len() {
            if let Some(entry) = self.history.returning(at.step as usize) {
                if at.done.binary_search(&entry).is_err() {
                    self.do_what_changes_nothing(at);
                }
                match at.done.binary_search(&entry) {
                    Ok(place) => drop(at.done.remove(place)),
                    Err(_) => return false,
                }
            }
            at.step += 1;
        }
        true
    }

    fn do_what_changes_nothing(&mut self, at: &mut Configuration<S::State>) {
        let history = self.history;
        for &entry in &history.open[at.step as usize] {
            let Entry { op, ret, .. } = &self.entries[entry as usize];
            if self.spec.only_looks(op, ret.as_ref())
                && self.can_be_done(at, entry)
                && self.states_after(&at.state, entry)
                && *self.next == [at.state.clone()]
            {
                insert(&mut at.done, entry);
                self.order.push(entry as usize);
            }
        }
    }

    /// An open operation can never answer what it did.
    fn is_hopeless(&mut self, at: &Configuration<S::State>) -> bool {
        let is_lost = |&entry: &u32| {
            let Entry { op, ret: Some(ret), .. } = &self.entries[entry as usize] else { return false };
            at.done.binary_search(&entry).is_err() && self.spec.is_lost(&at.state, op, ret)
        };
        let is_hopeless = self.history.open[at.step as usize].iter().any(is_lost);
        if is_hopeless {
            self.note(at);
        }
        is_hopeless
    }

    /// Candidates are ordered by the specification's guess, then by their return: first what returns now.
    fn branch(&self, at: Configuration<S::State>, without: Option<S::State>) -> Branch<S::State> {
        let mut candidates = self.history.open[at.step as usize].to_vec();
        candidates.sort_by_key(|&entry| {
            let Entry { op, ret, .. } = &self.entries[entry as usize];
            self.spec.guess(op, ret.as_ref())
        });
        candidates.reverse();
        Branch { at, order: self.order.len(), without, candidates, has_optional: false, untried: Vec::new() }
    }

    /// What to do next at `branch`; optional entries only when nothing else is left.
    fn next_choice(&mut self, branch: &mut Branch<S::State>) -> Option<(u32, S::State)> {
        loop {
            if let Some(choice) = branch.untried.pop() {
                return Some(choice);
            }
            let Some(entry) = branch.candidates.pop() else {
                if std::mem::replace(&mut branch.has_optional, true) {
                    return None;
                }
                branch.candidates.extend(self.optional_at(branch.at.step));
                continue;
            };
            if self.can_be_done(&branch.at, entry) && self.states_after(&branch.at.state, entry) {
                branch.untried.extend(self.next.drain(..).map(|state| (entry, state)));
            }
            // Nothing that could be done without the optional entry, with the same result.
            if let Some(without) = branch.without.as_ref().filter(|_| !branch.untried.is_empty())
                && self.states_after(without, entry)
            {
                branch.untried.retain(|(_, state)| !self.next.contains(state));
            }
        }
    }

    /// Entries that never return and were called before `step`, which is a return.
    fn optional_at(&self, step: u32) -> impl Iterator<Item = u32> {
        let now = self.history.returning(step as usize).expect("the search stops at returns only");
        let position = self.entries[now as usize].returned.expect("it returns now");
        let optional = &self.history.optional;
        optional[..optional.partition_point(|&(called, _)| called <= position)]
            .iter()
            .map(|&(_, entry)| entry)
    }

    fn can_be_done(&self, at: &Configuration<S::State>, entry: u32) -> bool {
        let is_done = |other: usize| {
            let returned = self.entries[other].returned;
            at.done.binary_search(&(other as u32)).is_ok()
                || returned.is_some_and(|returned| self.has_passed(at.step, returned, other))
        };
        at.done.binary_search(&entry).is_err() && self.entries[entry as usize].after.is_none_or(is_done)
    }

    /// Whether the return of `other`, at position `returned`, is a step before `step`, which is a return.
    fn has_passed(&self, step: u32, returned: u64, other: usize) -> bool {
        let now = self.history.returning(step as usize).expect("the search stops at returns only") as usize;
        let position = self.entries[now].returned.expect("it returns now");
        (returned, other) < (position, now)
    }

    /// Fills `next`; false if `entry` cannot answer what it did.
    fn states_after(&mut self, state: &S::State, entry: u32) -> bool {
        let Entry { op, ret, .. } = &self.entries[entry as usize];
        self.next.clear();
        self.spec.apply(state, op, ret.as_ref(), &mut self.next);
        !self.next.is_empty()
    }

    fn note(&mut self, at: &Configuration<S::State>) {
        let step = at.step as usize;
        if step > self.stuck_step || self.stuck_states.is_empty() {
            self.stuck_step = step;
            self.stuck_states.clear();
        }
        if step == self.stuck_step
            && self.stuck_states.len() < STATES_SHOWN
            && !self.stuck_states.contains(&at.state)
        {
            self.stuck_states.push(at.state.clone());
        }
    }

    fn violation(&mut self) -> Outcome<S::State> {
        let at =
            self.history.returning(self.stuck_step).expect("the search is stuck at returns only") as usize;
        Outcome::Violation(Stuck { at, states: std::mem::take(&mut self.stuck_states) })
    }
}

fn insert(done: &mut Vec<u32>, entry: u32) {
    let place = done.binary_search(&entry).expect_err("nothing is done twice");
    done.insert(place, entry);
}

#[cfg(test)]
mod tests;
