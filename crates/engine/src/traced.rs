//! Requests that leave spans ([`base::trace`]): how their scope comes to the engine, and what of their time is whose.
//!
//! ```text
//!  EdgePort::submit_traced ─┬─ ring: the request, its stamp marked ──▶ admitted ─▶ queue ─┬─ staged: execute
//!                           └─ Marks: (tag, scope), behind a lock ───▶ taken              └─ task ─┬─ sleep, durable, call
//!                                                                                                  └─ host ─▶ waiting, running
//! ```
//! Why one bit of the stamp and the scope beside the ring: a slot is as long as it was, and a request without spans costs a test of a bit that
//! was loaded anyway. Only those that are marked take the lock.
//!
//! Invariants
//! 1. Parts are recorded before the reply leaves: who has the reply finds them.
//! 2. A wait of a task lies within its task: both are by the engine's core, which is asked anew whenever a task with spans is polled.
//! 3. Work on a host thread belongs to the call that sent it, also when nobody waits for it any more.
//!
//! Bounds: as many marks as a port has requests that were not admitted, or not answered where they are staged.

use crate::context::{Turn, turn};
use base::Nanos;
use base::trace::{OK, Open, Place, Scope};
use ring::pair::Tag;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Set in the stamp of a request that has a mark. What is left tells 292 years; a stamp beyond looks marked, is looked up, and has no mark.
const MARK: u64 = 1 << 63;

/// A request's stamp without a mark.
#[inline(always)]
pub(crate) fn unmarked(at: Nanos) -> Nanos {
    Nanos(at.0 & !MARK)
}

/// The same with one.
pub(crate) fn marked(at: Nanos) -> Nanos {
    Nanos(at.0 | MARK)
}

/// Whether a request's stamp is marked, or looks so.
#[inline(always)]
pub(crate) fn is_marked(at: Nanos) -> bool {
    at.0 & MARK != 0
}

/// The scopes of the marked requests of one port, in the order of their submission.
#[derive(Default)]
pub(crate) struct Marks(Mutex<VecDeque<(Tag, Scope)>>);

impl Marks {
    pub(crate) fn lock(&self) -> MutexGuard<'_, VecDeque<(Tag, Scope)>> {
        // A push or a removal leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scope of a request that was marked, once.
    #[cold]
    pub(crate) fn take(&self, tag: Tag) -> Option<Scope> {
        let mut marks = self.lock();
        let at = marks.iter().position(|(other, _)| *other == tag)?;
        marks.remove(at).map(|(_, scope)| scope)
    }
}

/// A task that leaves spans.
pub(crate) struct TracedTask(Box<Open>);

impl TracedTask {
    /// It was admitted.
    pub(crate) fn admitted(request: &Scope, submitted: Nanos, now: Nanos) -> TracedTask {
        let now = now.max(submitted);
        request.part("queue", Place::Engine, submitted, now);
        TracedTask(Box::new(request.open(now)))
    }

    pub(crate) fn end(self, now: Nanos, outcome: &'static str) {
        self.0.end("task", Place::Engine, now, outcome);
    }

    fn scope(&self) -> &Scope {
        self.0.scope()
    }
}

/// A wait of a task that leaves spans: from the first poll in vain until it is over, or given up. Of other tasks it is nothing.
#[derive(Debug, Default)]
pub(crate) struct Wait(Option<Box<(Open, &'static str)>>);

impl Wait {
    /// The task that is polled waits for this, from now on if it did not before. Where parts of the wait belong, if it leaves spans.
    #[inline]
    pub(crate) fn begin(&mut self, turn: &Turn, what: &'static str) -> Option<&Scope> {
        if self.0.is_none()
            && let Some(task) = &*turn.traced.borrow()
        {
            self.0 = Some(Box::new((task.scope().open(turn.now.get()), what)));
        }
        self.0.as_deref().map(|(open, _)| open.scope())
    }

    /// It is over.
    #[inline]
    pub(crate) fn over(&mut self, turn: &Turn) {
        if self.0.is_some() {
            self.end(turn.now.get(), OK);
        }
    }

    #[cold]
    fn end(&mut self, now: Nanos, outcome: &'static str) {
        if let Some((open, what)) = self.0.take().map(|open| *open) {
            open.end(what, Place::Engine, now, outcome);
        }
    }
}

impl Drop for Wait {
    #[inline]
    fn drop(&mut self) {
        // Outside a poll the engine itself is being dropped.
        if self.0.is_some() {
            turn(|turn| self.end(turn.now.get(), "given up"));
        }
    }
}
