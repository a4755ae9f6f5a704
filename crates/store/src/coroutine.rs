//! The coroutine form: an `async fn` per operation that touches the bucket, lets others run, touches the item, lets others
//! run, and then executes the plain operation.
//!
//! Why beside the staged form: a request that also parses, walks and answers at its own pace fits no phase of a group. It
//! costs two yields (docs/measurements/store.md).
//!
//! The store is borrowed only between yields, never across one, so any number of these may be in flight on one thread. What
//! moved meanwhile was prefetched for nothing; the operation finds it where it is.

use crate::key::Key;
use crate::ops::arith::{ArithHow, ArithOutcome};
use crate::ops::delete::{DeleteHow, DeleteOutcome};
use crate::ops::get::{GetHow, Hit};
use crate::ops::set::{SetError, SetHow, SetOutcome};
use crate::store::Store;
use base::touch::yield_once;
use std::cell::RefCell;

/// A store that many coroutines of one thread share.
#[derive(Debug)]
pub struct SharedStore(RefCell<Store>);

impl SharedStore {
    /// Shares `store`.
    pub fn new(store: Store) -> SharedStore {
        SharedStore(RefCell::new(store))
    }

    /// The store back.
    pub fn into_inner(self) -> Store {
        self.0.into_inner()
    }

    /// Runs `work` on the store. Never across an await: it is an ordinary call.
    ///
    /// # Panics
    /// When called from within itself.
    #[inline(always)]
    pub fn with<R>(&self, work: impl FnOnce(&mut Store) -> R) -> R {
        work(&mut self.0.borrow_mut())
    }

    /// Brings bucket and item of `hash` near, and yields twice.
    #[inline(always)]
    pub async fn stage(&self, hash: u64) {
        self.with(|store| store.stage_bucket(hash));
        yield_once().await;
        self.with(|store| store.stage_item(hash));
        yield_once().await;
    }

    /// [`Store::get`]; `answer` reads the hit where it lies.
    #[inline(always)]
    pub async fn get<R>(
        &self,
        now: u32,
        key: Key<'_>,
        how: GetHow,
        answer: impl FnOnce(Option<Hit<'_>>) -> R,
    ) -> R {
        self.stage(key.hash()).await;
        self.with(|store| answer(store.get(now, key, &how)))
    }

    /// [`Store::set`].
    pub async fn set(
        &self,
        now: u32,
        key: Key<'_>,
        value: &[u8],
        how: SetHow,
    ) -> Result<SetOutcome, SetError> {
        self.stage(key.hash()).await;
        self.with(|store| store.set(now, key, value, &how))
    }

    /// [`Store::delete`].
    pub async fn delete(&self, now: u32, key: Key<'_>, how: DeleteHow) -> Result<DeleteOutcome, SetError> {
        self.stage(key.hash()).await;
        self.with(|store| store.delete(now, key, &how))
    }

    /// [`Store::arith`].
    pub async fn arith(&self, now: u32, key: Key<'_>, how: ArithHow) -> Result<ArithOutcome, SetError> {
        self.stage(key.hash()).await;
        self.with(|store| store.arith(now, key, &how))
    }

    /// [`Store::touch`].
    pub async fn touch(&self, now: u32, key: Key<'_>, expiry: u32) -> bool {
        self.stage(key.hash()).await;
        self.with(|store| store.touch(now, key, expiry))
    }
}
