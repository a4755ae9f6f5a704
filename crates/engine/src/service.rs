//! What an engine runs: a [`Service`] says which memory a request is about to need, and then executes it.
//!
//! Why two halves: *touch* is cost, *execute* is meaning. The engine may touch in any way (not at all, stage by stage over a
//! batch, or as one coroutine per request); the answer cannot change, because `execute` alone reads and writes.
//!
//! Why the service is reached through [`with`] from a coroutine and not captured by it: futures live in the engine's
//! in-flight table from one poll to the next, and between polls the engine executes other requests that change the
//! service. A captured reference would forbid that; a scoped one is checked.
//!
//! Cost: a request with two touches is 9 ns more as a coroutine than staged, everything included
//! (`docs/measurements/engine.md`).

use base::Nanos;
use base::touch::yield_once;
use ring::arena;
use std::any::TypeId;
use std::cell::Cell;

/// The work behind a set of rings.
pub trait Service: Send + 'static {
    /// One request, as it travels in a ring slot.
    type Request: Send + 'static;
    /// What goes back in the reply's slot; bulk bytes go beside it, into the port's arena.
    type Reply: Send + 'static;

    /// How many dependent memory accesses lead to a request's data: 2 for a hash table with items outside (bucket, item).
    const TOUCHES: usize;

    /// What `touch` needs to find a request's memory, usually the hash of its key.
    fn touch_key(request: &Self::Request) -> u64;

    /// Prefetches what access number `step` (from 0) of this key will read. A hint: it must change nothing.
    fn touch(&self, step: usize, key: u64);

    /// Called once before each group with the time: services that expire things update their clock here.
    fn tick(&mut self, now: Nanos);

    /// Executes the request and says its reply, or `None` when `out` has no room for it: then nothing may have changed, and
    /// the engine comes back with the same request once the reader has made room.
    fn execute(&mut self, request: &Self::Request, out: &mut arena::Producer) -> Option<Self::Reply>;

    /// The reply to a request whose deadline passed before it was executed, or `None` when `out` has no room.
    fn expire(&mut self, request: &Self::Request, out: &mut arena::Producer) -> Option<Self::Reply>;

    /// Housekeeping while there is nothing to execute: at most about `budget` small steps. True if more is waiting.
    fn idle(&mut self, budget: usize) -> bool {
        let _ = budget;
        false
    }
}

/// The coroutine form of a service's touches: one prefetch, one yield, for every access.
pub(crate) async fn walk<S: Service>(key: u64) {
    for step in 0..S::TOUCHES {
        with(|service: &mut S| service.touch(step, key));
        yield_once().await;
    }
}

thread_local! {
    static CURRENT: Cell<Option<(TypeId, *mut ())>> = const { Cell::new(None) };
}

/// Runs `f` on the service whose engine is polling the calling coroutine.
///
/// # Panics
/// Outside a poll of an engine over an `S`, and when called again from inside `f`.
#[inline]
pub fn with<S: 'static, R>(f: impl FnOnce(&mut S) -> R) -> R {
    let Some((id, service)) = CURRENT.take() else {
        panic!("engine::with is only for coroutines that an engine is polling, and does not nest");
    };
    let _restore = Restore(Some((id, service)));
    assert!(id == TypeId::of::<S>(), "the engine that polls this coroutine runs another service");
    // SAFETY: `lend` put the pointer here from a `&mut S` that it holds for the whole poll, the type id says that it is an
    // S, and taking it out of the cell for the length of `f` makes this the only reference.
    f(unsafe { &mut *service.cast::<S>() })
}

/// Lends `service` to [`with`] while `poll` runs.
#[inline]
pub(crate) fn lend<S: 'static, R>(service: &mut S, poll: impl FnOnce() -> R) -> R {
    let _restore = Restore(CURRENT.replace(Some((TypeId::of::<S>(), (&raw mut *service).cast()))));
    poll()
}

/// Puts back what the cell held, also when the closure panics.
struct Restore(Option<(TypeId, *mut ())>);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_lent_service_is_reached_and_returned() {
        let mut number = 1u32;
        lend(&mut number, || {
            with(|n: &mut u32| *n += 1);
            with(|n: &mut u32| *n += 1);
        });
        assert_eq!(number, 3);
        assert!(catch_unwind(|| with(|_: &mut u32| ())).is_err(), "nothing is lent any more");
    }

    #[test]
    fn nesting_and_the_wrong_type_are_refused() {
        let mut number = 1u32;
        let nested = catch_unwind(std::panic::AssertUnwindSafe(|| {
            lend(&mut number, || with(|_: &mut u32| with(|_: &mut u32| ())));
        }));
        assert!(nested.is_err());
        let wrong =
            catch_unwind(std::panic::AssertUnwindSafe(|| lend(&mut number, || with(|_: &mut u64| ()))));
        assert!(wrong.is_err());
        assert!(CURRENT.get().is_none(), "a panic leaves nothing lent");
    }
}
