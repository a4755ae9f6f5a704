//! What an engine lends to the tasks that it polls: their service, and the turn that they are in.
//!
//! Invariants
//! 1. What is lent is lent for the length of [`lend`], on one thread; nothing of it is reachable afterwards.
//! 2. The service is reached by one closure at a time: [`with`] does not nest.
//!
//! Cost: [`with`] is a load, a store and a comparison of two words on each side.

use crate::host::HostPort;
use crate::inflight::Slot;
use crate::traced::TracedTask;
use base::Nanos;
use std::any::TypeId;
use std::cell::{Cell, RefCell};
use std::ptr::{null, null_mut};

/// One task of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) service: u16,
    pub(crate) slot: Slot,
    /// Tells the tasks that had the same slot apart.
    pub(crate) generation: u32,
}

/// What the task that was polled last waits for; any of it is enough to poll it again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// To be polled again in its turn.
    pub(crate) yielded: bool,
    /// It said what it waits for. (If not, it is polled again in its turn.)
    pub(crate) said: bool,
    /// For this moment.
    pub(crate) until: Nanos,
    /// For this entry of the log.
    pub(crate) entry: u64,
}

impl Wait {
    const NOTHING: Wait = Wait { yielded: false, said: false, until: Nanos::MAX, entry: u64::MAX };
}

/// The turn that a task is in: what it may ask the engine, and what it tells it.
pub(crate) struct Turn {
    pub(crate) now: Cell<Nanos>,
    /// Entries of the service's log that are durable.
    pub(crate) durable: Cell<u64>,
    /// Who is polled.
    pub(crate) task: Cell<TaskId>,
    wait: Cell<Wait>,
    /// Accesses asked for since the core was last told.
    pub(crate) touched: Cell<usize>,
    /// Something was asked of another service, or room was made for its replies: another pass has something to do.
    pub(crate) called: Cell<bool>,
    /// The way to the host threads.
    pub(crate) host: RefCell<Option<HostPort>>,
    /// The task that is polled, if it leaves spans.
    pub(crate) traced: RefCell<Option<TracedTask>>,
}

impl Turn {
    pub(crate) fn new(now: Nanos) -> Turn {
        Turn {
            now: Cell::new(now),
            durable: Cell::new(u64::MAX),
            task: Cell::new(TaskId { service: 0, slot: Slot::new(0), generation: 0 }),
            wait: Cell::new(Wait::NOTHING),
            touched: Cell::new(0),
            called: Cell::new(false),
            host: RefCell::new(None),
            traced: RefCell::new(None),
        }
    }

    /// `task` is polled next.
    #[inline]
    pub(crate) fn begin(&self, task: TaskId) {
        self.task.set(task);
        self.wait.set(Wait::NOTHING);
    }

    /// The task that is polled next leaves spans; its time is now.
    #[cold]
    pub(crate) fn trace(&self, now: Nanos, task: &mut Option<TracedTask>) {
        self.now.set(now);
        self.traced.replace(task.take());
    }

    /// The task that was polled, given back.
    #[cold]
    pub(crate) fn give_back(&self, task: &mut Option<TracedTask>) {
        *task = self.traced.take();
    }

    /// What the task waits for that was polled last.
    #[inline]
    pub(crate) fn wait(&self) -> Wait {
        self.wait.get()
    }

    /// The task waits for one access.
    #[inline]
    pub(crate) fn wait_touch(&self) {
        self.touched.set(self.touched.get() + 1);
        self.wait.set(Wait { said: true, yielded: true, ..self.wait.get() });
    }

    pub(crate) fn wait_until(&self, until: Nanos) {
        let wait = self.wait.get();
        self.wait.set(Wait { said: true, until: wait.until.min(until), ..wait });
    }

    pub(crate) fn wait_entry(&self, entry: u64) {
        let wait = self.wait.get();
        self.wait.set(Wait { said: true, entry: wait.entry.min(entry), ..wait });
    }

    /// The task waits until somebody resumes it.
    pub(crate) fn wait_resumed(&self) {
        self.wait.set(Wait { said: true, ..self.wait.get() });
    }
}

/// What is lent on a thread.
struct Lent {
    /// The type of the service. Apart from its address, which `with` takes out and puts back: a load of what was stored just before in
    /// other pieces makes the core wait.
    id: Cell<Option<TypeId>>,
    service: Cell<*mut ()>,
    turn: Cell<*const Turn>,
}

thread_local! {
    static LENT: Lent = const {
        Lent { id: Cell::new(None), service: Cell::new(null_mut()), turn: Cell::new(null()) }
    };
}

/// Runs `f` on the service whose engine is polling the calling coroutine or task.
///
/// # Panics
/// Outside a poll of an engine over an `S`, and when called again from inside `f`.
#[inline]
pub fn with<S: 'static, R>(f: impl FnOnce(&mut S) -> R) -> R {
    LENT.with(|lent| {
        let service = lent.service.replace(null_mut());
        assert!(
            !service.is_null(),
            "engine::with is only for coroutines and tasks that an engine is polling, and does not nest"
        );
        let _restore = RestoreService(lent, service);
        assert!(
            lent.id.get() == Some(TypeId::of::<S>()),
            "the engine that polls this coroutine or task runs another service"
        );
        // SAFETY: `lend` put the pointer here from a `&mut S` that it holds for the whole poll, the type id says that it is an
        // S, and taking it out of the cell for the length of `f` makes this the only reference.
        f(unsafe { &mut *service.cast::<S>() })
    })
}

/// As [`with`]; `None` where that would panic.
pub(crate) fn try_with<S: 'static, R>(f: impl FnOnce(&mut S) -> R) -> Option<R> {
    let is_lent = LENT.with(|lent| !lent.service.get().is_null() && lent.id.get() == Some(TypeId::of::<S>()));
    is_lent.then(|| with(f))
}

/// The turn of the task that is being polled; `None` outside a poll.
#[inline]
pub(crate) fn turn<R>(f: impl FnOnce(&Turn) -> R) -> Option<R> {
    let turn = LENT.with(|lent| lent.turn.get());
    // SAFETY: `lend` put the pointer here from a reference that it holds for the whole poll, and takes it away afterwards.
    (!turn.is_null()).then(|| f(unsafe { &*turn }))
}

/// As [`turn`].
///
/// # Panics
/// Outside a poll.
#[inline]
pub(crate) fn this_turn<R>(f: impl FnOnce(&Turn) -> R) -> R {
    turn(f).expect("what a Cx offers is awaited in tasks that an engine polls")
}

/// Lends `service` to [`with`] and `turn` to [`turn`] while `poll` runs.
#[inline]
pub(crate) fn lend<S: 'static, R>(service: &mut S, turn: Option<&Turn>, poll: impl FnOnce() -> R) -> R {
    LENT.with(|lent| {
        let _restore = Restore {
            lent,
            id: lent.id.replace(Some(TypeId::of::<S>())),
            service: lent.service.replace((&raw mut *service).cast()),
            turn: lent.turn.replace(turn.map_or(null(), |turn| &raw const *turn)),
        };
        poll()
    })
}

/// Puts the service back, also when the closure panics.
struct RestoreService<'l>(&'l Lent, *mut ());

impl Drop for RestoreService<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.service.set(self.1);
    }
}

/// Puts everything back, also when the closure panics.
struct Restore<'l> {
    lent: &'l Lent,
    id: Option<TypeId>,
    service: *mut (),
    turn: *const Turn,
}

impl Drop for Restore<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lent.id.set(self.id);
        self.lent.service.set(self.service);
        self.lent.turn.set(self.turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_lent_service_is_reached_and_returned() {
        let mut number = 1u32;
        lend(&mut number, None, || {
            with(|n: &mut u32| *n += 1);
            with(|n: &mut u32| *n += 1);
        });
        assert_eq!(number, 3);
        assert!(catch_unwind(|| with(|_: &mut u32| ())).is_err(), "nothing is lent any more");
        assert_eq!(try_with(|_: &mut u32| ()), None);
        lend(&mut number, None, || {
            assert_eq!(try_with(|_: &mut u64| ()), None, "it is none");
            let nested = try_with(|n: &mut u32| try_with(|_: &mut u32| *n));
            assert_eq!(nested, Some(None));
        });
    }

    #[test]
    fn a_turn_is_there_for_the_length_of_its_loan() {
        let (outer, inner) = (Turn::new(Nanos(1)), Turn::new(Nanos(2)));
        let now = || turn(|turn| turn.now.get().0);
        assert_eq!(now(), None);
        lend(&mut 1u32, Some(&outer), || {
            lend(&mut 2u64, Some(&inner), || assert_eq!(now(), Some(2)));
            assert_eq!(now(), Some(1));
        });
        assert_eq!(now(), None);
    }

    #[test]
    fn nesting_and_the_wrong_type_are_refused() {
        let mut number = 1u32;
        let nested = catch_unwind(std::panic::AssertUnwindSafe(|| {
            lend(&mut number, None, || with(|_: &mut u32| with(|_: &mut u32| ())));
        }));
        assert!(nested.is_err());
        let wrong = catch_unwind(std::panic::AssertUnwindSafe(|| {
            lend(&mut number, None, || with(|_: &mut u64| ()));
        }));
        assert!(wrong.is_err());
        assert!(LENT.with(|lent| lent.service.get().is_null()), "a panic leaves nothing lent");
    }
}
