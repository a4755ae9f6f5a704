//! Tests of the store as a whole: against a model, in its three forms, under pressure, and of the checkers themselves.
//!
//! Under Miri: `cargo +nightly miri test -p millrace-store --lib -- semantics short ghost`.

mod forms;
mod limits;
mod listing;
pub(crate) mod model;
mod planted;
mod semantics;

use crate::{Config, Mode, Store};

/// A store so small that cleaning and eviction run all the time.
pub(crate) fn tiny(mode: Mode) -> Store {
    let mut config = Config::new(mode, 1 << 20);
    config.max_value = 96 << 10;
    let mut store = Store::new(config).expect("1 MiB is enough");
    // Seven bits at either end: long chains, and equal tags in one bucket.
    store.hash_mask = 0xFE00_0000_0000_007F;
    store
}
