//! Asynchronous copies: what a CPU hands to its copy engines when a field is too long to copy by hand.
//!
//! RPCAcc III-C gives large fields of the pre-serialiser to the memcpy engines of the CPU (Intel DSA). Here an engine is a
//! trait: [`Inline`] copies at once, [`Worker`] is a thread behind a ring that sleeps when there is nothing to copy.
//!
//! Invariants: bytes that an engine was given belong to it until the copy's ticket is complete. The unsafe
//! [`CopyEngine::submit`] makes that the caller's duty; [`scope`] does it for borrowed slices, and `Pending` for code in
//! this crate: both drain the engine when they are left, by unwinding too.
//! Sources: RPCAcc III-C (item 20).

mod worker;

pub use worker::Worker;

use std::marker::PhantomData;

/// A copy under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Something that copies while the caller goes on.
pub trait CopyEngine {
    /// Starts copying `len` bytes.
    ///
    /// # Safety
    /// Until the ticket is complete, the bytes at `from` are alive and not written, and those at `to` are alive and not
    /// touched; they do not overlap.
    unsafe fn submit(&mut self, from: *const u8, to: *mut u8, len: usize) -> Ticket;

    /// True once that copy is done; what it wrote is visible to this thread then.
    fn is_complete(&mut self, ticket: Ticket) -> bool;

    /// Returns when all copies are done.
    fn drain(&mut self);
}

/// Copies in the call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl CopyEngine for Inline {
    #[inline]
    unsafe fn submit(&mut self, from: *const u8, to: *mut u8, len: usize) -> Ticket {
        // SAFETY: the caller's promise.
        unsafe { to.copy_from_nonoverlapping(from, len) };
        Ticket(0)
    }

    #[inline]
    fn is_complete(&mut self, _ticket: Ticket) -> bool {
        true
    }

    #[inline]
    fn drain(&mut self) {}
}

impl<E: CopyEngine + ?Sized> CopyEngine for &mut E {
    unsafe fn submit(&mut self, from: *const u8, to: *mut u8, len: usize) -> Ticket {
        // SAFETY: the caller's promise.
        unsafe { (**self).submit(from, to, len) }
    }

    fn is_complete(&mut self, ticket: Ticket) -> bool {
        (**self).is_complete(ticket)
    }

    fn drain(&mut self) {
        (**self).drain();
    }
}

/// An engine with copies under way: drained when this is dropped. Crate-internal, since one that is leaked is not.
pub(crate) struct Pending<'e, E: CopyEngine>(pub(crate) &'e mut E);

impl<E: CopyEngine> Drop for Pending<'_, E> {
    fn drop(&mut self) {
        self.0.drain();
    }
}

/// Copies between slices that outlive the scope: see [`scope`].
pub struct Copies<'e, 'env, E: CopyEngine> {
    pending: Pending<'e, E>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env, E: CopyEngine> Copies<'_, 'env, E> {
    /// Starts copying `from` to `to`.
    ///
    /// # Panics
    /// If they are not equally long.
    pub fn copy(&mut self, from: &'env [u8], to: &'env mut [u8]) -> Ticket {
        assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
        // SAFETY: both are borrowed for longer than the scope, which drains the engine before it ends.
        unsafe { self.pending.0.submit(from.as_ptr(), to.as_mut_ptr(), from.len()) }
    }

    /// True once that copy is done.
    pub fn is_complete(&mut self, ticket: Ticket) -> bool {
        self.pending.0.is_complete(ticket)
    }
}

/// Runs `start`, which may start copies; returns when all of them are done.
pub fn scope<'env, E: CopyEngine, R>(
    engine: &mut E,
    start: impl for<'e> FnOnce(&mut Copies<'e, 'env, E>) -> R,
) -> R {
    start(&mut Copies { pending: Pending(engine), env: PhantomData })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies_everything(engine: &mut impl CopyEngine) {
        let from: Vec<Vec<u8>> = (0..200_usize).map(|index| vec![index as u8; index * 37]).collect();
        let mut to: Vec<Vec<u8>> = from.iter().map(|bytes| vec![0xEE; bytes.len()]).collect();
        scope(engine, |copies| {
            for (from, to) in from.iter().zip(&mut to) {
                copies.copy(from, to);
            }
        });
        assert_eq!(from, to);
    }

    #[test]
    fn inline_and_worker_copy_everything() {
        copies_everything(&mut Inline);
        let mut worker = Worker::spawn(8, ring::wait::WaitPolicy::BLOCK).expect("a thread");
        for _ in 0..3 {
            copies_everything(&mut worker);
        }
    }

    #[test]
    fn a_scope_that_panics_still_waits() {
        let mut worker = Worker::spawn(8, ring::wait::WaitPolicy::default()).expect("a thread");
        let (from, mut to) = (vec![7; 100_000], vec![0; 100_000]);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scope(&mut worker, |copies| {
                copies.copy(&from, &mut to);
                panic!("on purpose");
            })
        }));
        assert!(result.is_err());
        assert_eq!(to, from);
    }

    #[test]
    fn tickets_complete() {
        let mut worker = Worker::spawn(2, ring::wait::WaitPolicy::BLOCK).expect("a thread");
        let from = [9; 64];
        let mut to = [[0; 64]; 8];
        scope(&mut worker, |copies| {
            let tickets = to.each_mut().map(|to| copies.copy(&from, to));
            for ticket in tickets {
                while !copies.is_complete(ticket) {
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!(to, [from; 8]);
    }
}
