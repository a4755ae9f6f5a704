//! A value that many threads drive in turns, without waiting for each other: combining.
//!
//! Why: where one thread owns a value and others hand it their work, every piece of work pays two hand-overs between cores. Here whoever
//! finds the value free drives it, for everybody; whoever finds it taken leaves its work beside it and says so, and the driver takes that
//! before it is gone. Nobody ever blocks on the baton, so a thread that sleeps or computes holds nobody up.
//!
//! Shape: three parts, which are used together.
//! * the **baton**: [`Baton::try_take`] gives a [`Held`], [`Baton::leave`] puts it back, or hands it back at once because there is news.
//! * **news**: whoever found it taken leaves its work somewhere, [`Baton::post`]s, and tries once more.
//! * the **watch**: of those who wait for what the value brings, one may sleep on whatever wakes for all ([`Baton::lead`]). A *standby* thread
//!   looks now and then whether somebody drives, and need not while somebody leads ([`Baton::rest`]); the end of a lead calls it.
//!
//! Invariants:
//! 1. One thread at a time has the value.
//! 2. Work that was posted is seen by its poster, by the driver whom the poster found there, or by one after that: never by nobody.
//! 3. While the standby rests somebody leads. Whoever ends a lead sees that it rests, or it sees that nobody leads and does not rest.
//!
//! Ordering:
//! * **held**: put back with Release, taken with Acquire: a driver sees all that the one before it did.
//! * **news**: the poster sets it (Release, and Acquire for the poster before it) after its work is there, a driver takes it (Acquire) before it takes the
//!   work. A SeqCst fence between the poster's swap and its look at `held`, and one between the driver's store of `held` and its look at `news`
//!   (Dekker): not both can miss.
//! * **rest**: the same between the standby, which stores `resting` and looks at `led`, and the end of a lead, which stores `led` and looks at `resting`.
//! * **called**: stored (Release) before the standby is woken, taken (Acquire) by it.
//!
//! Cost: taking is one compare-and-swap, putting back a store, a fence and a load. Who finds it taken reads a line that the driver writes, so
//! look at it with pauses.
//!
//! Sources: Hendler et al., *Flat Combining and the Synchronization-Parallelism Tradeoff*, SPAA 2010; Monga et al., *Birds of a Feather Flock
//! Together* (Flock's thread combining), SOSP 2021.
//!
//! Tests: loom runs invariants 2 and 3, and finds the copies without the driver's second look and without the call.

use crate::sync::{AtomicU32, Ordering, UnsafeCell, fence};
use crate::wait::Waker;
use std::ops::{Deref, DerefMut};

/// Words that different threads write are two lines apart.
#[repr(align(128))]
struct Apart<T>(T);

/// A value that many threads drive in turns.
pub struct Baton<T> {
    held: Apart<AtomicU32>,
    news: Apart<AtomicU32>,
    led: AtomicU32,
    resting: AtomicU32,
    called: AtomicU32,
    standby: Waker,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a `Held` alone, of which there is one at a time (invariant 1).
unsafe impl<T: Send> Sync for Baton<T> {}

/// The right to drive. Dropped, it is put back without a look at the news: [`Baton::leave`] is the regular way.
pub struct Held<'a, T> {
    baton: &'a Baton<T>,
}

impl<T> Baton<T> {
    /// Free, without news; `standby` wakes the thread that [`Baton::rest`]s.
    pub fn new(value: T, standby: Waker) -> Baton<T> {
        Baton {
            held: Apart(AtomicU32::new(0)),
            news: Apart(AtomicU32::new(0)),
            led: AtomicU32::new(0),
            resting: AtomicU32::new(0),
            called: AtomicU32::new(0),
            standby,
            value: UnsafeCell::new(value),
        }
    }

    /// The value, if nobody has it.
    #[inline]
    pub fn try_take(&self) -> Option<Held<'_, T>> {
        // Looked at first, so that those who wait do not take the line away from the driver.
        if self.held.0.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let taken = self.held.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed); // label: held
        // Made only when it was taken: it puts back what it is dropped with.
        taken.is_ok().then(|| Held { baton: self })
    }

    /// Puts the value back; it comes back at once when there is news that nobody else will take.
    #[inline]
    #[must_use = "there is news: take it, then leave again"]
    pub fn leave<'a>(&'a self, held: Held<'a, T>) -> Option<Held<'a, T>> {
        drop(held);
        fence(Ordering::SeqCst); // label: news
        if self.news.0.load(Ordering::Relaxed) == 0 { None } else { self.try_take() }
    }

    /// Says that work was left for the driver. Then try to take the value: if that fails, somebody else takes the work.
    #[inline]
    pub fn post(&self) {
        // Neither is this a store: whoever takes the news of two posters sees the work of both.
        self.news.0.swap(1, Ordering::AcqRel); // label: news
        fence(Ordering::SeqCst); // label: news
    }

    /// Whether there is news.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news.0.load(Ordering::Relaxed) != 0
    }

    /// Whether somebody sleeps where all are woken.
    pub fn is_led(&self) -> bool {
        self.led.load(Ordering::Relaxed) != 0
    }

    /// For whoever has the value: it will sleep where all are woken, once it has put the value back, and then [`Baton::end_lead`].
    pub fn lead(&self) {
        self.led.store(1, Ordering::Relaxed);
    }

    /// Whoever led does so no longer; if the standby rests it is called. Returns whether it was.
    pub fn end_lead(&self) -> bool {
        self.led.store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst); // label: rest
        let rests = self.resting.load(Ordering::Acquire) != 0;
        if rests {
            self.call_standby();
        }
        rests
    }

    /// Calls the standby, whatever it does.
    pub fn call_standby(&self) {
        self.called.store(1, Ordering::Release); // label: called
        self.standby.wake();
    }

    /// For the standby: whether it was called since it last asked.
    pub fn take_call(&self) -> bool {
        self.called.load(Ordering::Relaxed) != 0 && self.called.swap(0, Ordering::Acquire) != 0 // label: called
    }

    /// For the standby, as a condition to wait for: whether it was called.
    pub fn is_called(&self) -> bool {
        self.called.load(Ordering::Acquire) != 0 // label: called
    }

    /// For the standby: true if it may sleep until it is called, for somebody leads. [`Baton::rise`] afterwards.
    pub fn rest(&self) -> bool {
        self.resting.store(1, Ordering::Release);
        fence(Ordering::SeqCst); // label: rest
        let led = self.is_led();
        if !led {
            self.rise();
        }
        led
    }

    /// For the standby: it rests no longer.
    pub fn rise(&self) {
        self.resting.store(0, Ordering::Relaxed);
    }
}

impl<T> Held<'_, T> {
    /// Whether there was news; it counts as taken.
    #[inline]
    pub fn take_news(&mut self) -> bool {
        let news = &self.baton.news.0;
        // A swap, not a store: what it takes away it has seen, and so the work behind it.
        news.load(Ordering::Relaxed) != 0 && news.swap(0, Ordering::Acquire) != 0 // label: news
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: whoever has the `Held` has the value (invariant 1), and gives no reference that outlives it.
        self.baton.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; the `Held` is borrowed mutably, so this reference is the only one.
        self.baton.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.baton.held.0.store(0, Ordering::Release); // label: held
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wait::waiting;
    use std::sync::Mutex;

    #[test]
    fn one_at_a_time_and_news_hands_it_back() {
        let baton = Baton::new(0, waiting().1);
        let mut held = baton.try_take().expect("nobody has it");
        assert!(baton.try_take().is_none() && !held.take_news());
        *held += 1;
        baton.post();
        let mut held = baton.leave(held).expect("there is news");
        assert!(held.take_news() && !held.take_news());
        assert!(baton.leave(held).is_none());
        assert_eq!(baton.try_take().as_deref(), Some(&1));
    }

    #[test]
    fn a_standby_rests_while_somebody_leads_and_is_called_afterwards() {
        let baton = Baton::new((), waiting().1);
        assert!(!baton.rest() && !baton.end_lead());
        let held = baton.try_take().expect("nobody has it");
        baton.lead();
        assert!(baton.leave(held).is_none());
        assert!(baton.is_led() && baton.rest() && !baton.is_called());
        assert!(baton.end_lead() && baton.is_called());
        baton.rise();
        assert!(baton.take_call() && !baton.take_call() && !baton.end_lead());
    }

    #[test]
    fn all_work_of_many_threads_is_done() {
        const EACH: u64 = if cfg!(miri) { 30 } else { 20_000 };
        let (baton, tray) = (Baton::new(0u64, waiting().1), Mutex::new(0));
        let work = || {
            for _ in 0..EACH {
                *tray.lock().expect("no poison") += 1;
                baton.post();
                let mut turn = baton.try_take();
                while let Some(mut held) = turn {
                    if held.take_news() {
                        *held += std::mem::take(&mut *tray.lock().expect("no poison"));
                    }
                    turn = baton.leave(held);
                }
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
        assert_eq!(*baton.try_take().expect("nobody has it"), 4 * EACH);
    }
}
