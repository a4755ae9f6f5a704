//! Futures that the server drives: streaming handlers, and what was spawned.
//!
//! Invariants: a future is polled on the server's thread only; a wake-up queues it once, however many come; a wake-up of one that
//! has ended finds another generation and does nothing.
//!
//! Ordering: **queued** is taken back before the future is polled (AcqRel), so a wake-up during the poll queues it again.

use super::returns::{Return, Returns};
use crate::service::BoxFuture;
use crate::status::{Code, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Names a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    slot: u32,
    generation: u32,
}

/// Whose future it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Stream { connection: u64, call: u32 },
    Spawned,
}

/// All futures of a server.
#[derive(Default)]
pub(super) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    task: Option<Task>,
}

struct Task {
    future: BoxFuture,
    of: Of,
    bell: Arc<Bell>,
    waker: Waker,
}

struct Bell {
    id: TaskId,
    queued: AtomicBool,
    returns: Arc<Returns>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            // label: queued
            self.returns.push(Return::Woken(self.id));
        }
    }
}

impl Tasks {
    /// Takes a future; it is to be run once now.
    pub(super) fn add(&mut self, future: BoxFuture, of: Of, returns: &Arc<Returns>) -> TaskId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let home = &mut self.slots[slot as usize];
        let id = TaskId { slot, generation: home.generation };
        let bell = Arc::new(Bell { id, queued: AtomicBool::new(false), returns: Arc::clone(returns) });
        let waker = Waker::from(Arc::clone(&bell));
        home.task = Some(Task { future, of, bell, waker });
        id
    }

    /// Polls a future; whose it was and how it ended, if it did.
    pub(super) fn run(&mut self, id: TaskId) -> Option<(Of, Result<(), Status>)> {
        let home = &mut self.slots[id.slot as usize];
        let task = home.task.as_mut().filter(|_| home.generation == id.generation)?;
        task.bell.queued.swap(false, Ordering::AcqRel); // label: queued
        let mut context = Context::from_waker(&task.waker);
        let polled = catch_unwind(AssertUnwindSafe(|| task.future.as_mut().poll(&mut context)));
        let result = match polled {
            Ok(Poll::Pending) => return None,
            Ok(Poll::Ready(result)) => result,
            Err(_) => Err(Status::new(Code::Internal, "the handler panicked")),
        };
        let of = task.of;
        self.remove(id);
        Some((of, result))
    }

    /// Drops a future, if it is still there.
    pub(super) fn remove(&mut self, id: TaskId) {
        let home = &mut self.slots[id.slot as usize];
        if home.generation != id.generation {
            return;
        }
        if let Some(task) = home.task.take() {
            home.generation = home.generation.wrapping_add(1);
            self.free.push(id.slot);
            // What a handler's variables do when they are dropped is the handler's; the server goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
        }
    }
}
