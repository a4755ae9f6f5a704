//! The in-flight table: requests that one core works on at the same time, as an array of one concrete future type.
//!
//! Why an array of a concrete type: a switch between two requests is then a predictable call of 1–2 ns; a boxed or `dyn`
//! future costs 5–18 ns more, which is the whole gain of overlapping their cache misses.
//!
//! Shape: `slots` never move once made (they are pinned), free slots are a stack. Slot numbers are small and dense, so
//! whoever needs more per request keeps a parallel array.
//!
//! Bounds: the capacity is fixed when the table is made; a full table refuses.
//!
//! Source: ORCA, section III-C: the application processing unit keeps 256 requests outstanding in a table of state
//! machines.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The number of one place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(u16);

impl Slot {
    pub(crate) fn new(at: u16) -> Slot {
        Slot(at)
    }

    /// The slot as an index into arrays beside the table.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A fixed number of places for futures of type `F`.
pub struct InFlight<F> {
    slots: Pin<Box<[Option<F>]>>,
    free: Vec<Slot>,
}

impl<F: Future> InFlight<F> {
    /// The most places that a table can have.
    pub const MAX_CAPACITY: usize = u16::MAX as usize;

    /// An empty table of `capacity` places.
    ///
    /// # Panics
    /// When `capacity` is 0 or beyond [`InFlight::MAX_CAPACITY`].
    pub fn new(capacity: usize) -> InFlight<F> {
        assert!((1..=Self::MAX_CAPACITY).contains(&capacity), "an in-flight table of {capacity}");
        let slots: Box<[Option<F>]> = (0..capacity).map(|_| None).collect();
        InFlight { slots: Box::into_pin(slots), free: (0..capacity as u16).rev().map(Slot).collect() }
    }

    /// Requests in flight.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the next insert would be refused.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes `future` in, not yet polled.
    ///
    /// # Errors
    /// The future itself, when the table is full.
    #[inline]
    pub fn insert(&mut self, future: F) -> Result<Slot, F> {
        let Some(slot) = self.free.pop() else { return Err(future) };
        self.place(slot).set(Some(future));
        Ok(slot)
    }

    /// Polls one request once. When it is ready its place is free again.
    ///
    /// # Panics
    /// When nothing is in that place.
    #[inline]
    pub fn poll(&mut self, slot: Slot) -> Poll<F::Output> {
        let mut cx = Context::from_waker(Waker::noop());
        let place = self.place(slot);
        let future = place.as_pin_mut().expect("poll of a place that holds a request");
        let polled = future.poll(&mut cx);
        if polled.is_ready() {
            self.remove(slot);
        }
        polled
    }

    /// Drops the request in that place without finishing it: its deadline passed, or its caller is gone.
    ///
    /// # Panics
    /// When nothing is in that place.
    pub fn cancel(&mut self, slot: Slot) {
        assert!(self.slots[slot.index()].is_some(), "cancel of a place that holds a request");
        self.remove(slot);
    }

    fn remove(&mut self, slot: Slot) {
        self.place(slot).set(None);
        self.free.push(slot);
    }

    fn place(&mut self, slot: Slot) -> Pin<&mut Option<F>> {
        // SAFETY: projecting a pinned slice to one element keeps the element pinned: the boxed slice never moves or
        // reallocates, and elements are only ever replaced through `Pin::set`, which drops them in place.
        unsafe { self.slots.as_mut().map_unchecked_mut(|slots| &mut slots[slot.index()]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::touch::yield_once;
    use std::cell::Cell;
    use std::rc::Rc;

    async fn steps(n: usize, count: Rc<Cell<usize>>) -> usize {
        for _ in 0..n {
            count.set(count.get() + 1);
            yield_once().await;
        }
        n
    }

    #[test]
    fn requests_interleave_and_finish_in_their_own_time() {
        let count = Rc::new(Cell::new(0));
        let mut table = InFlight::new(4);
        let slots: Vec<Slot> =
            (1..=4).map(|n| table.insert(steps(n, count.clone())).ok().expect("room")).collect();
        assert!(table.is_full());
        assert!(table.insert(steps(9, count.clone())).is_err());
        let mut done = vec![];
        for round in 0..5 {
            for (i, &slot) in slots.iter().enumerate() {
                if i + 1 >= round
                    && let Poll::Ready(n) = table.poll(slot)
                {
                    done.push((round, n));
                }
            }
        }
        assert_eq!(done, [(1, 1), (2, 2), (3, 3), (4, 4)]);
        assert_eq!(count.get(), 1 + 2 + 3 + 4);
        assert!(table.is_empty());
    }

    #[test]
    fn cancelling_drops_the_future_and_frees_the_place() {
        let witness = Rc::new(Cell::new(0));
        let mut table = InFlight::new(1);
        let slot = table.insert(steps(3, witness.clone())).ok().expect("room");
        assert!(table.poll(slot).is_pending());
        assert_eq!(Rc::strong_count(&witness), 2);
        table.cancel(slot);
        assert_eq!((Rc::strong_count(&witness), table.len()), (1, 0));
        assert!(table.insert(steps(1, witness)).is_ok());
    }

    #[test]
    #[should_panic(expected = "holds a request")]
    fn an_empty_place_cannot_be_polled() {
        let mut table = InFlight::new(1);
        let slot = table.insert(std::future::ready(())).expect("room");
        assert!(table.poll(slot).is_ready());
        let _ = table.poll(slot);
    }
}
