//! The checkers find planted bugs: a checker that finds nothing proves nothing.

use super::model::{Pair, run};
use super::tiny;
use crate::Mode;
use crate::store::Planted;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn is_found(mode: Mode, bug: Option<Planted>) -> bool {
    let mut store = tiny(mode);
    store.planted = bug;
    let found = catch_unwind(AssertUnwindSafe(|| std::mem::forget(run(Pair::new(store), 1, 40_000, 2000))));
    found.is_err()
}

#[test]
fn a_cleaner_that_forgets_the_index_is_found() {
    assert!(is_found(Mode::Cache, Some(Planted::CleanerForgetsIndex)));
    assert!(is_found(Mode::Store, Some(Planted::CleanerForgetsIndex)));
}

#[test]
fn an_overwrite_that_forgets_the_old_item_is_found() {
    assert!(is_found(Mode::Cache, Some(Planted::OverwriteForgetsDead)));
}

#[test]
fn an_ignored_expiry_is_found() {
    assert!(is_found(Mode::Cache, Some(Planted::ExpiryIsIgnored)));
}

#[test]
fn without_a_bug_nothing_is_found() {
    assert!(!is_found(Mode::Cache, None));
    assert!(!is_found(Mode::Store, None));
}
