//! What versions bear witness of: contradictions between the versions that answers tell and real time, found in one pass.
//!
//! A version is the place of a change in the order that the system itself claims. So, for one key:
//! 1. No two changes have the same version.
//! 2. A read shows the value that was written with its version; a version that no answered change has is that of a change that was called
//!    before the read returned and was never answered.
//! 3. A read's version is not lower, and a change's is higher, than every version that an operation had shown which returned before it
//!    was called.
//!
//! What breaks one of these is not linearizable in the order that the system claims, and the text says which two operations
//! disagree: better than what a search can say. What breaks none may still be wrong (a miss shows no version), so the search has the last
//! word; with versions to go by it hardly ever turns back.
//!
//! Cost: O(n log n).

use super::{Case, Kv};
use crate::kv::{Op, Status, Value};
use std::collections::BTreeMap;

/// What an answer with a version shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Change(u64),
    Read(u64),
}

impl Shown {
    fn version(self) -> u64 {
        match self {
            Shown::Change(version) | Shown::Read(version) => version,
        }
    }
}

fn shown(operation: &Kv<'_>) -> Option<Shown> {
    let (_, _, ret) = operation.returned?;
    let version = ret.version.filter(|_| ret.status == Status::Ok)?;
    match operation.op {
        Op::Get => Some(Shown::Read(version)),
        // It changes the deadline, not the version.
        Op::Touch { .. } | Op::Flush { .. } => None,
        _ => Some(Shown::Change(version)),
    }
}

/// The value that a change leaves, where the call and its answer alone tell.
fn value_left(operation: &Kv<'_>) -> Option<Value> {
    match operation.op {
        Op::Set { value, .. } | Op::Add { value, .. } | Op::Replace { value, .. } | Op::Cas { value, .. } => {
            Some(value.clone())
        }
        Op::CondPut { by, .. } => Some(Value::number(*by)),
        Op::Compute { .. } => operation.returned?.2.value.clone(),
        Op::Get | Op::Delete | Op::Append { .. } | Op::Touch { .. } | Op::Flush { .. } => None,
    }
}

/// The first contradiction, in words.
pub(super) fn contradiction(case: &Case<'_>) -> Option<String> {
    changes_share_a_version(case)
        .or_else(|| a_read_shows_what_was_not_written(case))
        .or_else(|| versions_go_back(case))
}

/// Rule 1, and the changes by version for rule 2.
fn changes(case: &Case<'_>) -> Result<BTreeMap<u64, usize>, (usize, usize)> {
    let mut changes = BTreeMap::new();
    for (i, operation) in case.operations.iter().enumerate() {
        if let Some(Shown::Change(version)) = shown(operation)
            && let Some(other) = changes.insert(version, i)
        {
            return Err((other, i));
        }
    }
    Ok(changes)
}

fn changes_share_a_version(case: &Case<'_>) -> Option<String> {
    let (one, other) = changes(case).err()?;
    Some(case.two("two changes have the same version", one, other))
}

fn a_read_shows_what_was_not_written(case: &Case<'_>) -> Option<String> {
    let changes = changes(case).unwrap_or_default();
    let mut unanswered: Vec<u64> = Vec::new();
    for (operation, entry) in case.operations.iter().zip(&case.entries) {
        if operation.returned.is_none() && !matches!(operation.op, Op::Get) {
            unanswered.push(entry.called);
        }
    }
    let first_unanswered = unanswered.into_iter().min().unwrap_or(u64::MAX);
    let mut values: BTreeMap<u64, (&Value, usize)> = BTreeMap::new();
    for (i, operation) in case.operations.iter().enumerate() {
        let Some(Shown::Read(version)) = shown(operation) else { continue };
        let Some(value) = operation.returned.and_then(|returned| returned.2.value.as_ref()) else { continue };
        let (first, reader) = *values.entry(version).or_insert((value, i));
        if first != value {
            return Some(case.two("two reads of one version show different values", reader, i));
        }
        match changes.get(&version) {
            Some(&change) => {
                let is_removed = matches!(case.operations[change].op, Op::Delete);
                if is_removed || value_left(&case.operations[change]).is_some_and(|left| left != *value) {
                    return Some(case.two("a read shows what its version is not", change, i));
                }
            }
            None if case.entries[i].returned.is_some_and(|returned| returned < first_unanswered) => {
                return Some(format!("a read shows a version that no change has\n  {}", case.show(i)));
            }
            None => {}
        }
    }
    None
}

/// Rule 3: in the order of calls and returns, with the highest version that has been shown.
fn versions_go_back(case: &Case<'_>) -> Option<String> {
    let mut moments: Vec<(u64, usize)> = Vec::new();
    let with_versions = (0..case.operations.len()).filter(|&i| shown(&case.operations[i]).is_some());
    for i in with_versions {
        let entry = &case.entries[i];
        moments.extend([(entry.called, i), (entry.returned.expect("what is shown was answered"), i)]);
    }
    moments.sort_unstable();
    let mut highest: Option<(u64, usize)> = None;
    for (position, i) in moments {
        let shown = shown(&case.operations[i]).expect("only those have moments");
        if position != case.entries[i].called {
            highest = highest.max(Some((shown.version(), i)));
            continue;
        }
        let Some((floor, before)) = highest else { continue };
        match shown {
            Shown::Read(version) if version < floor => {
                return Some(case.two(
                    "a read shows an older version than was shown before it was called",
                    before,
                    i,
                ));
            }
            Shown::Change(version) if version <= floor => {
                return Some(case.two(
                    "a change has no higher version than was shown before it was called",
                    before,
                    i,
                ));
            }
            _ => {}
        }
    }
    None
}

impl Case<'_> {
    fn two(&self, what: &str, one: usize, other: usize) -> String {
        format!("{what}\n  {}\n  {}", self.show(one), self.show(other))
    }
}
