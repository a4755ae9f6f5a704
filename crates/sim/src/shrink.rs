//! Fewer: which elements of a list that fails are needed for it to fail.
//!
//! Delta debugging: try to leave out halves, then quarters, and so on down to single elements, and begin again with what is left, until
//! no single element can be left out. The result fails and is *1-minimal*; a smaller one may exist that leaves out two at once.
//!
//! Cost: with n elements of which k are needed, about k × log₂(n / k) runs at best and n² at worst; `most_runs` bounds it.
//!
//! Source: Zeller & Hildebrandt, "Simplifying and isolating failure-inducing input" (2002).

/// What is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk<T> {
    /// It fails.
    pub items: Vec<T>,
    /// How often the predicate was asked.
    pub runs: usize,
    /// No single element can be left out; false when `most_runs` came first.
    pub is_minimal: bool,
}

/// Leaves out of `items`, which fail, what is not needed for `fails` to stay true.
pub fn shrink<T: Clone>(items: Vec<T>, most_runs: usize, mut fails: impl FnMut(&[T]) -> bool) -> Shrunk<T> {
    let mut best = items;
    let mut runs = 0;
    let mut size = best.len().div_ceil(2).max(1);
    loop {
        let mut left_out_any = false;
        let mut from = 0;
        while from < best.len() {
            if runs == most_runs {
                return Shrunk { items: best, runs, is_minimal: false };
            }
            runs += 1;
            let until = (from + size).min(best.len());
            let fewer = [&best[..from], &best[until..]].concat();
            if fails(&fewer) {
                best = fewer;
                left_out_any = true;
            } else {
                from = until;
            }
        }
        if size > 1 {
            size = size.div_ceil(2);
        } else if !left_out_any {
            return Shrunk { items: best, runs, is_minimal: true };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_finds_the_pair_that_matters() {
        let fails = |items: &[u32]| items.contains(&17) && items.contains(&83);
        let shrunk = shrink((0..100).collect(), usize::MAX, fails);
        assert_eq!(shrunk.items, [17, 83]);
        assert!(shrunk.is_minimal && shrunk.runs < 60, "{} runs", shrunk.runs);
    }

    #[test]
    fn it_stops_when_told() {
        let shrunk = shrink((0..100).collect(), 5, |items: &[u32]| items.contains(&99));
        assert!(shrunk.items.contains(&99) && shrunk.runs == 5 && !shrunk.is_minimal);
        assert!(shrink(vec![1], 10, |_: &[u32]| true).items.is_empty());
        assert_eq!(shrink(vec![], 10, |_: &[u32]| true), Shrunk { items: vec![], runs: 0, is_minimal: true });
    }

    proptest! {
        #[test]
        fn what_is_left_is_needed(needed in prop::collection::btree_set(0u32..60, 0..6), more in 1u32..60) {
            // It also fails with fewer than all needed, if enough others are there: not monotone.
            let fails = |items: &[u32]| {
                needed.iter().all(|n| items.contains(n)) || items.len() == more as usize
            };
            let shrunk = shrink((0..60).collect(), usize::MAX, fails);
            prop_assert!(fails(&shrunk.items) && shrunk.is_minimal);
            for i in 0..shrunk.items.len() {
                let mut fewer = shrunk.items.clone();
                fewer.remove(i);
                prop_assert!(!fails(&fewer));
            }
        }
    }
}
