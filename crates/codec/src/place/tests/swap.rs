//! Every interleaving of a writer and a reader, by loom: the very file, with loom's atomics.

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(super) use loom::sync::{Mutex, MutexGuard};
}

#[path = "../swap.rs"]
#[expect(clippy::duplicate_mod, reason = "loom's types instead of std's")]
mod loomed;

use loomed::Swap;
use std::sync::Arc;

/// Values are their numbers, twice: a torn one would differ from itself.
fn explore(early: bool) {
    loom::model(move || {
        let mut swap = Swap::new([0_u64; 2]);
        swap.early = early;
        let swap = Arc::new(swap);
        let theirs = Arc::clone(&swap);
        let reader = loom::thread::spawn(move || {
            let swap = theirs;
            let mut reader = swap.reader();
            let mut before = 0;
            for _ in 0..2 {
                let seen = swap.epoch();
                let [value, again] = **reader.latest(&swap);
                assert_eq!(value, again, "a torn value");
                assert!(value >= seen, "number {seen} was seen, and then value {value}");
                assert!(value >= before, "back from {before} to {value}");
                before = value;
            }
        });
        swap.replace([1; 2]);
        assert_eq!(*swap.value(), [1; 2]);
        reader.join().expect("the assertions hold");
    });
}

#[test]
#[cfg_attr(miri, ignore = "loom switches stacks")]
fn a_reader_never_holds_less_than_it_has_seen() {
    explore(false);
}

#[test]
#[cfg_attr(miri, ignore = "loom switches stacks")]
#[should_panic(expected = "was seen, and then value")]
fn a_number_published_too_early_is_found() {
    explore(true);
}
