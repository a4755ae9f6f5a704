//! A history of counters, and its judge: for what must be done exactly once, and in an order that clients could have seen.
//!
//! Each call adds one to the counter of its key and is told the new value. That makes the history easy to judge without a search: values say the
//! order in which calls were done.

use std::collections::BTreeMap;

/// A call as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Whose counter.
    pub key: u32,
    /// What it was told.
    pub value: u64,
    /// A moment before it was sent, by a clock of all clients.
    pub began: u64,
    /// A moment after it was answered, by the same.
    pub ended: u64,
}

/// What was wrong with a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Values that nobody was told.
    pub lost: u64,
    /// Values that more than one was told.
    pub doubled: u64,
    /// Calls that were done before one that had ended when they began.
    pub reordered: u64,
}

/// Judges a history in which every counter began at 0 and every call has ended.
pub fn judge(history: &[Counted]) -> Wrong {
    let mut keys: BTreeMap<u32, Vec<Counted>> = BTreeMap::new();
    for &call in history {
        keys.entry(call.key).or_default().push(call);
    }
    let mut wrong = Wrong::default();
    for calls in keys.values_mut() {
        calls.sort_by_key(|call| call.value);
        wrong.doubled += calls.windows(2).filter(|two| two[0].value == two[1].value).count() as u64;
        let mut values: Vec<u64> = calls.iter().map(|call| call.value).collect();
        values.dedup();
        wrong.lost += values.last().unwrap_or(&0) - values.len() as u64;
        let mut first_end = u64::MAX;
        for call in calls.iter().rev() {
            wrong.reordered += u64::from(call.began > first_end);
            first_end = first_end.min(call.ended);
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(of: &[(u64, u64, u64)]) -> Wrong {
        let call = |&(value, began, ended): &(u64, u64, u64)| Counted { key: 7, value, began, ended };
        judge(&of.iter().map(call).collect::<Vec<_>>())
    }

    #[test]
    fn calls_that_overlap_may_have_any_order() {
        assert_eq!(history(&[]), Wrong::default());
        assert_eq!(history(&[(2, 0, 3), (1, 1, 4), (3, 5, 6)]), Wrong::default());
    }

    #[test]
    fn each_wrong_is_found() {
        assert_eq!(history(&[(1, 0, 3), (2, 1, 4), (4, 5, 6)]), Wrong { lost: 1, ..Wrong::default() });
        assert_eq!(history(&[(1, 0, 3), (2, 1, 4), (2, 5, 6)]), Wrong { doubled: 1, ..Wrong::default() });
        assert_eq!(history(&[(3, 0, 3), (1, 1, 4), (2, 5, 6)]), Wrong { reordered: 1, ..Wrong::default() });
    }

    #[test]
    fn keys_have_nothing_to_do_with_each_other() {
        let call = |key, value, began, ended| Counted { key, value, began, ended };
        assert_eq!(judge(&[call(1, 1, 5, 6), call(2, 1, 0, 1)]), Wrong::default());
    }
}
