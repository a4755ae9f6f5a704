//! What caches on the way answer, in closed form: the most wanted items that they have room for, less what writes took away.
//!
//! A read is answered if the same cache had read the key since it was written. Of several layers, one answers what those before it have not.

use crate::popularity::head_share;
use crate::workload::{Class, Workload};

/// What a cache of a layer could answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Could {
    /// Share of reads, if it sees them all.
    pub answer: f64,
    /// Share of writes before which somebody had read the key there.
    pub hold: f64,
}

impl Could {
    /// Of a layer of `count` caches side by side with so many bytes each, each of which sees an equal part of the requests for every key.
    pub fn of(workload: &Workload, bytes: u64, count: f64) -> Could {
        let item = (workload.working_set / workload.keys.max(1)).max(1);
        let covered = head_share(workload.keys, workload.skew, (bytes / item).max(1));
        let share = |of: &dyn Fn(&&Class) -> bool| -> f64 {
            workload.classes.iter().filter(of).map(|class| class.share).sum()
        };
        let (reads, writes) = (share(&|class| class.cacheable), share(&|class| class.store > 0));
        // None came since the write, or another did.
        let hold = if reads > 0.0 { reads / count / (reads / count + writes) } else { 0.0 };
        Could { answer: covered * hold, hold }
    }
}

/// Of a share of requests, what each of the layers on the way answers, and what is left.
pub fn answered(share: f64, layers: impl Iterator<Item = Could>) -> (Vec<f64>, f64) {
    let mut left = share;
    let each = layers.map(|could| {
        // What is before it has answered already.
        let answered = (share * could.answer - (share - left)).max(0.0);
        left -= answered;
        answered
    });
    let each = each.collect();
    (each, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::shipped::shipped;

    #[test]
    fn layers_answer_what_those_before_have_not_and_writes_take_from_both() {
        let mut workload = shipped("key-value-cache").expect("it is shipped").expect("it is sound");
        let all = Could::of(&workload, u64::MAX, 1.0);
        assert!((all.answer - 0.95).abs() < 1e-9 && (all.hold - 0.95).abs() < 1e-9, "{all:?}");
        let [small, large] = [1 << 20, 1 << 26].map(|bytes| Could::of(&workload, bytes, 2.0));
        assert!(small.answer < large.answer && large.answer < large.hold && large.hold < all.hold);
        let (each, left) = answered(0.5, [small, large, small].into_iter());
        assert!((each[0] - 0.5 * small.answer).abs() < 1e-12 && each[2] == 0.0, "{each:?}");
        assert!(
            (each.iter().sum::<f64>() - 0.5 * large.answer).abs() < 1e-12
                && (left + each.iter().sum::<f64>() - 0.5).abs() < 1e-12
        );
        workload.classes.iter_mut().for_each(|class| class.cacheable = false);
        assert_eq!(Could::of(&workload, 1 << 26, 1.0).answer, 0.0);
    }
}
