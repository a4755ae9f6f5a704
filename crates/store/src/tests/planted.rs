//! The checkers find planted bugs: a checker that finds nothing proves nothing.

use super::model::{Pair, run};
use super::tiny;
use crate::Mode;
use crate::store::Planted;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn is_found(mode: Mode, bug: Planted) -> bool {
    let mut store = tiny(mode);
    store.planted = Some(bug);
    let found = catch_unwind(AssertUnwindSafe(|| std::mem::forget(run(Pair::new(store), 1, 40_000, 2000))));
    found.is_err()
}

#[test]
fn a_cleaner_that_forgets_the_index_is_found() {
    assert!(is_found(Mode::Cache, Planted::CleanerForgetsIndex));
    assert!(is_found(Mode::Store, Planted::CleanerForgetsIndex));
}

#[test]
fn an_overwrite_that_forgets_the_old_item_is_found() {
    assert!(is_found(Mode::Cache, Planted::OverwriteForgetsDead));
}

#[test]
fn an_ignored_expiry_is_found() {
    assert!(is_found(Mode::Cache, Planted::ExpiryIsIgnored));
}
