//! The staged form: one operation on a group of keys, phase by phase, so that the cache misses of the whole group overlap.
//!
//! ```text
//!  bucket of k0, k1, … k15    prefetch
//!  item   of k0, k1, … k15    scan tags, prefetch
//!  execute   k0, k1, … k15    the plain operation; its loads now hit
//! ```
//! The answers are those of the plain operations in the same order: staging is cost, never correctness. An item that an
//! earlier operation of the group moved is fetched for nothing and found where it is.
//!
//! Cost: docs/measurements/store.md.

use crate::key::Key;
use crate::ops::get::{GetHow, Hit};
use crate::store::Store;

/// The group that gains most on the machines measured.
pub const GROUP: usize = 16;

impl Store {
    /// Runs `execute` on every element of `batch`, in order, in groups of `group`, with buckets and items staged. `key_of`
    /// says which key an element will touch.
    #[inline(always)]
    pub fn staged<'k, T>(
        &mut self,
        batch: &[T],
        group: usize,
        key_of: impl Fn(&T) -> Key<'k>,
        mut execute: impl FnMut(&mut Store, &T),
    ) {
        for group in batch.chunks(group.max(1)) {
            group.iter().for_each(|element| self.stage_bucket(key_of(element).hash()));
            group.iter().for_each(|element| self.stage_item(key_of(element).hash()));
            group.iter().for_each(|element| execute(self, element));
        }
    }

    /// Gets all `keys`, in order, in groups of `group`; `answer` hears the number of each with its hit.
    #[inline(always)]
    pub fn get_batch(
        &mut self,
        now: u32,
        keys: &[Key<'_>],
        group: usize,
        how: &GetHow,
        mut answer: impl FnMut(usize, Option<Hit<'_>>),
    ) {
        let mut number = 0;
        self.staged(
            keys,
            group,
            |key| *key,
            |store, key| {
                answer(number, store.get(now, *key, how));
                number += 1;
            },
        );
    }
}
