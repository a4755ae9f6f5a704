//! The slots of one task service: a request and the task that handles it, side by side, pinned, without allocation per request.
//!
//! Shape: one allocation of `capacity` entries, made once; free slots are a stack. A task borrows its request from its entry.
//!
//! Invariants
//! 1. An entry's request is there from [`Slab::claim`] to [`Slab::release`]; while its future is there nobody has a mutable
//!    reference to it.
//! 2. A future is dropped before its request, and is not moved before it is dropped.
//!
//! Why a raw allocation and no `Box`: a box that is moved says that nobody else points into it, and tasks do.

use crate::inflight::Slot;
use std::cell::UnsafeCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

struct Entry<R, F> {
    request: UnsafeCell<Option<R>>,
    future: UnsafeCell<Option<F>>,
}

/// A fixed number of slots for requests `R` and tasks `F`.
pub(crate) struct Slab<R, F> {
    entries: NonNull<[Entry<R, F>]>,
    /// Which slots have a task. Beside them: a look into the entry would be a reference to a future that may point into itself.
    started: Vec<bool>,
    free: Vec<Slot>,
    _owns: PhantomData<Entry<R, F>>,
}

// SAFETY: the slab owns its entries; a future shares its request only with whoever holds the slab.
unsafe impl<R: Send + Sync, F: Send> Send for Slab<R, F> {}

impl<R, F> Slab<R, F> {
    pub(crate) fn new(capacity: usize) -> Slab<R, F> {
        assert!((1..usize::from(u16::MAX)).contains(&capacity), "a slab of {capacity} slots");
        let entry = |_| Entry { request: UnsafeCell::new(None), future: UnsafeCell::new(None) };
        let entries: Box<[Entry<R, F>]> = (0..capacity).map(entry).collect();
        let free = (0..capacity as u16).rev().map(Slot::new).collect();
        let entries = NonNull::from(Box::leak(entries));
        Slab { entries, started: vec![false; capacity], free, _owns: PhantomData }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Slots that are taken.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.capacity() - self.free.len()
    }

    #[inline]
    fn entry(&self, slot: Slot) -> &Entry<R, F> {
        assert!(slot.index() < self.entries.len());
        // SAFETY: inside the allocation, which lives as long as the slab; entries are reached by shared references only.
        unsafe { &*self.entries.as_ptr().cast::<Entry<R, F>>().add(slot.index()) }
    }

    /// Takes a slot for `request`.
    ///
    /// # Errors
    /// The request, when all are taken.
    #[inline]
    pub(crate) fn claim(&mut self, request: R) -> Result<Slot, R> {
        let Some(slot) = self.free.pop() else { return Err(request) };
        // SAFETY: the slot was free, so nobody has a reference into it.
        unsafe { *self.entry(slot).request.get() = Some(request) };
        Ok(slot)
    }

    /// The request in a slot.
    #[inline]
    pub(crate) fn request(&self, slot: Slot) -> &R {
        // SAFETY: invariant 1: it is only shared.
        unsafe { (*self.entry(slot).request.get()).as_ref() }.expect("a slot with a request")
    }

    /// Makes the slot's task.
    ///
    /// # Safety
    /// `make` must not let the reference live on anywhere but in the future that it returns: it does not live for ever.
    #[inline]
    pub(crate) unsafe fn start(&mut self, slot: Slot, make: impl FnOnce(&'static R) -> F)
    where
        R: 'static,
    {
        let entry = self.entry(slot);
        // SAFETY: invariants 1 and 2: the request stays where it is and unchanged until the future is dropped, and by the caller's
        // word nobody else has the reference.
        let request = unsafe { &*entry.request.get() }.as_ref().expect("a slot with a request");
        let future = make(request);
        // SAFETY: `&mut self`: nobody else is at the future.
        unsafe { *entry.future.get() = Some(future) };
        self.started[slot.index()] = true;
    }

    #[inline]
    fn future(&mut self, slot: Slot) -> Pin<&mut Option<F>> {
        // SAFETY: `&mut self`: nobody else is at the future; invariant 2: it is not moved.
        unsafe { Pin::new_unchecked(&mut *self.entry(slot).future.get()) }
    }

    /// Whether the slot's task was started and is not finished.
    #[inline]
    pub(crate) fn is_started(&self, slot: Slot) -> bool {
        self.started[slot.index()]
    }

    /// Polls the slot's task once; a task that is ready is gone afterwards.
    #[inline]
    pub(crate) fn poll(&mut self, slot: Slot) -> Poll<F::Output>
    where
        F: Future,
    {
        let future = self.future(slot).as_pin_mut().expect("poll of a slot with a task");
        let polled = future.poll(&mut Context::from_waker(Waker::noop()));
        if polled.is_ready() {
            self.cancel(slot);
        }
        polled
    }

    /// Drops the slot's task, if there is one.
    #[inline]
    pub(crate) fn cancel(&mut self, slot: Slot) {
        self.started[slot.index()] = false;
        self.future(slot).set(None);
    }

    /// Frees a slot and gives its request back.
    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) -> R {
        debug_assert!(!self.is_started(slot), "a slot's task is dropped before its request");
        self.cancel(slot);
        // SAFETY: no future borrows the request any more, and `&mut self`: nobody else does.
        let request = unsafe { (*self.entry(slot).request.get()).take() };
        self.free.push(slot);
        request.expect("a slot with a request")
    }
}

impl<R, F> Drop for Slab<R, F> {
    fn drop(&mut self) {
        for slot in (0..self.capacity() as u16).map(Slot::new) {
            self.cancel(slot);
        }
        // SAFETY: it came from a box, and no future points into it any more.
        drop(unsafe { Box::from_raw(self.entries.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::touch::yield_once;
    use std::sync::Arc;

    async fn echo(request: &'static Arc<u32>) -> u32 {
        for _ in 0..**request {
            yield_once().await;
        }
        **request
    }

    #[test]
    fn tasks_borrow_their_requests_also_when_the_slab_moves() {
        let witness = Arc::new(3);
        let mut slab = Slab::new(2);
        let slot = slab.claim(witness.clone()).expect("room");
        // SAFETY: `echo` keeps the reference in its future only.
        unsafe { slab.start(slot, echo) };
        assert!(slab.poll(slot).is_pending());
        let mut moved = Box::new(slab);
        assert_eq!(**moved.request(slot), 3);
        assert!(moved.poll(slot).is_pending());
        let mut slab = *moved;
        assert!(slab.poll(slot).is_pending());
        assert_eq!(slab.poll(slot), Poll::Ready(3));
        assert!(!slab.is_started(slot));
        assert_eq!((*slab.release(slot), slab.len()), (3, 0));
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn a_cancelled_task_and_a_dropped_slab_leave_nothing() {
        let witness = Arc::new(3);
        let mut slab = Slab::new(2);
        for _ in 0..3 {
            let slot = slab.claim(witness.clone()).expect("room");
            // SAFETY: as above.
            unsafe { slab.start(slot, echo) };
            assert!(slab.poll(slot).is_pending());
            slab.cancel(slot);
            slab.release(slot);
        }
        for _ in 0..2 {
            let slot = slab.claim(witness.clone()).expect("room");
            // SAFETY: as above.
            unsafe { slab.start(slot, echo) };
            assert!(slab.poll(slot).is_pending());
        }
        assert!(slab.claim(witness.clone()).is_err());
        drop(slab);
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
