//! The judge of key-value histories: is every key linearizable, expiry and flush included?
//!
//! Each key is judged for itself. First its versions, where answers tell them, are held against real time (`witness`): quick, and what it
//! finds is easy to read. Then [`linear::search`](crate::linear::search()) looks for an order that explains every answer. It is bounded: a
//! key that it gave up on is reported as such, and is neither good nor bad.
//!
//! What a violation shows: the operation at which no order explains the answers any more, what the key may have been just before, and the
//! operations around it.

mod window;
mod witness;

use crate::history::{History, Operation};
use crate::kv::{Act, Meaning, Op, Ret, State};
use crate::linear::{Entry, Outcome, Stuck, search};
use base::Picos;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;
use window::Windows;

/// What the system promises about time and memory.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Items may vanish this long before their deadline.
    pub early: Picos,
    /// They may be seen this long after it.
    pub late: Picos,
    /// They may vanish at any time.
    pub may_evict: bool,
    /// Configurations that a search may look at, for each key; one takes some hundred bytes.
    pub most_configurations: usize,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { early: Picos::ZERO, late: Picos::ZERO, may_evict: false, most_configurations: 1 << 20 }
    }
}

/// A key that could not be shown to be linearizable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The key.
    pub key: Vec<u8>,
    /// In words, of some lines.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key \"{}\": {}", self.key.escape_ascii(), self.text)
    }
}

/// What the judge found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Keys that are linearizable.
    pub good: usize,
    /// Keys that are not linearizable.
    pub violations: Vec<Finding>,
    /// Keys of which nothing is known.
    pub gave_up: Vec<Finding>,
}

impl Report {
    /// Every key is linearizable.
    pub fn is_linearizable(&self) -> bool {
        self.violations.is_empty() && self.gave_up.is_empty()
    }
}

type Kv<'a> = Operation<'a, Op, Ret>;

/// What is known of one key.
struct Case<'a> {
    /// Its operations, and every flush.
    operations: Vec<Kv<'a>>,
    /// The same, and what the clock does, as [`Entry`]s: entry i is operation i, the clock's come after.
    entries: Vec<Entry<Act, Ret>>,
    meaning: Meaning,
}

/// Judges every key of `history`.
pub fn check(history: &History<Op, Ret>, rules: &Rules) -> Report {
    let mut keys: BTreeMap<&Arc<[u8]>, Vec<Kv<'_>>> = BTreeMap::new();
    // One that names a key is of that key alone.
    let is_of_all = |o: &Kv<'_>| matches!(o.op, Op::Flush { .. }) && o.key.is_empty();
    for operation in history.operations().filter(|o| !is_of_all(o)) {
        keys.entry(operation.key).or_default().push(operation);
    }
    let flushes: Vec<Kv<'_>> = history.operations().filter(is_of_all).collect();
    let windows = Windows::of(history);
    let mut report = Report::default();
    for (key, mut operations) in keys {
        operations.extend(flushes.iter().cloned());
        operations.sort_by_key(|operation| operation.called.1);
        let entries = windows.entries(&operations, rules);
        let case = Case { operations, entries, meaning: Meaning { may_evict: rules.may_evict } };
        case.judge(rules, key, &mut report);
    }
    report
}

impl Case<'_> {
    fn judge(&self, rules: &Rules, key: &[u8], report: &mut Report) {
        let finding = |text| Finding { key: key.to_vec(), text };
        if let Some(text) = witness::contradiction(self) {
            return report.violations.push(finding(text));
        }
        match search(&self.meaning, &self.entries, rules.most_configurations) {
            Outcome::Linearizable(_) => report.good += 1,
            Outcome::Violation(stuck) => report.violations.push(finding(self.explain(&stuck))),
            Outcome::GaveUp { looked_at } => report.gave_up.push(finding(format!(
                "gave up after {looked_at} configurations of {} operations",
                self.operations.len()
            ))),
        }
    }

    fn explain(&self, stuck: &Stuck<State>) -> String {
        let mut text = format!("no order explains the return of\n  {}", self.show(stuck.at));
        for state in &stuck.states {
            let _ = write!(text, "\n  which met {}", show_state(state));
        }
        let _ = write!(text, "\nafter, or beside:");
        for entry in self.around(stuck.at) {
            let _ = write!(text, "\n  {}", self.show(entry));
        }
        text
    }

    /// The entries that overlap the one at `at`, or were the last before it, by their calls; not too many.
    fn around(&self, at: usize) -> Vec<usize> {
        const SHOWN: usize = 24;
        const BEFORE: usize = 4;
        let end = self.entries[at].returned.unwrap_or(u64::MAX);
        let called = self.entries[at].called;
        let order = |&i: &usize| (self.entries[i].called, i);
        let known = (0..self.entries.len()).filter(|&i| i != at && self.entries[i].called < end);
        let (mut overlapping, mut before): (Vec<usize>, Vec<usize>) =
            known.partition(|&i| self.entries[i].returned.is_none_or(|r| r > called));
        before.sort_by_key(|&i| (self.entries[i].returned, i));
        before.drain(..before.len().saturating_sub(BEFORE));
        overlapping.sort_by_key(order);
        overlapping.drain(..overlapping.len().saturating_sub(SHOWN));
        before.append(&mut overlapping);
        before.sort_by_key(order);
        before
    }

    /// One entry in a line.
    fn show(&self, entry: usize) -> String {
        let Some(operation) = self.operations.get(entry) else {
            let Entry { op, after, .. } = &self.entries[entry];
            let cause = &self.operations[after.expect("the clock acts because of an operation")];
            let what = if *op == Act::Wipe { "takes place" } else { "ends what it stored" };
            return format!("the clock: operation {} {what}", cause.id);
        };
        let Operation { client, id, op, called, returned, .. } = operation;
        let mut text = format!("client {client}, operation {id}: {op:?} called at {} ps", called.0.0);
        let _ = match returned {
            Some((at, _, ret)) => write!(text, ", returned {} at {} ps", show_ret(ret), at.0),
            None => write!(text, ", never returned"),
        };
        text
    }
}

fn show_ret(ret: &Ret) -> String {
    let mut text = format!("{:?}", ret.status);
    if let Some(value) = &ret.value {
        let _ = write!(text, " {value:?}");
    }
    if let Some(version) = ret.version {
        let _ = write!(text, " version {version}");
    }
    text
}

fn show_state(state: &State) -> String {
    match &state.item {
        None => "nothing".to_string(),
        Some(item) => match item.version {
            Some(version) => format!("{:?} of version {version}", item.value),
            None => format!("{:?}", item.value),
        },
    }
}

#[cfg(test)]
mod tests;
