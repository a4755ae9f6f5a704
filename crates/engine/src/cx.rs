//! What a task may ask for and wait for: its service, memory, time, its log, host threads, other services.
//!
//! Nothing here blocks the core: a task that waits is not polled, and others are.
//!
//! Several waits at once (joined or raced by a combinator) are fine: the task is polled when any of them may be over.

use crate::call::{Call, Callee};
use crate::context::{this_turn, try_with, with};
use crate::host::HostCall;
use crate::service::Messages;
use crate::traced::Wait;
use base::Nanos;
use base::trace::OK;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a task of the service `S` gets. A token: what it offers works while the engine polls the task, and panics elsewhere.
pub struct Cx<S>(PhantomData<fn() -> S>);

impl<S> Clone for Cx<S> {
    fn clone(&self) -> Cx<S> {
        *self
    }
}

impl<S> Copy for Cx<S> {}

impl<S: Messages> Cx<S> {
    pub(crate) fn new() -> Cx<S> {
        Cx(PhantomData)
    }

    /// Runs `f` on the service.
    ///
    /// # Panics
    /// When called again from inside `f`.
    #[inline]
    pub fn with<R>(self, f: impl FnOnce(&mut S) -> R) -> R {
        with(f)
    }

    /// As [`Cx::with`], for destructors of what a task keeps: a task that is ended (by its deadline, or a panic) still reaches its service,
    /// one that is dropped with its engine does not.
    pub fn try_with<R>(self, f: impl FnOnce(&mut S) -> R) -> Option<R> {
        try_with(f)
    }

    /// The time, by the engine's core; it is read between polls.
    #[inline]
    pub fn now(self) -> Nanos {
        this_turn(|turn| turn.now.get())
    }

    /// The request is answered, or all but: what the task does from now on is not done for it, and leaves no spans of its. A task that goes
    /// on for others says so before its reply may be there by another way than the port. `now` is by the clock of the engine's core, and is
    /// asked only if it leaves any.
    pub fn answered(self, now: impl FnOnce() -> Nanos) {
        if let Some(task) = this_turn(|turn| turn.traced.take()) {
            task.end(now(), OK);
        }
    }

    /// Runs `prefetch` on the service now, and gives what it said once others had their turn and the memory may have come.
    #[inline]
    pub fn touch<R>(self, prefetch: impl FnOnce(&mut S) -> R) -> Touch<R> {
        Touch { found: Some(with(prefetch)), waited: false }
    }

    /// Waits for `span` at least.
    pub fn sleep(self, span: Nanos) -> Sleep {
        self.sleep_until(self.now().plus(span))
    }

    /// Waits until that moment or a little longer; [`Nanos::MAX`] is never.
    pub fn sleep_until(self, until: Nanos) -> Sleep {
        Sleep { until, wait: Wait::default() }
    }

    /// Waits until that entry of the service's log is durable.
    pub fn durable(self, entry: u64) -> Durable {
        Durable { entry, wait: Wait::default() }
    }

    /// Runs `work` on a host thread and gives what it said: for what blocks, allocates much or is irregular. Work that captures, or says,
    /// more than 96 bytes is boxed, each once; otherwise nothing is allocated.
    pub fn host<R: Send + 'static, F: FnOnce() -> R + Send + 'static>(self, work: F) -> HostCall<F, R> {
        HostCall::new(work)
    }

    /// Asks another service of this engine, which has the request in the next pass at the latest, in its own order and under its own
    /// deadline. A task that asks for what waits for itself (a key that it holds) waits until its deadline.
    pub fn call<T: Messages>(self, to: &Callee<T>, request: T::Request) -> Call<T> {
        Call::new(to, request)
    }
}

/// See [`Cx::touch`].
#[derive(Debug)]
pub struct Touch<R> {
    found: Option<R>,
    waited: bool,
}

// Nothing in it is pinned.
impl<R> Unpin for Touch<R> {}

impl<R> Future for Touch<R> {
    type Output = R;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<R> {
        if !std::mem::replace(&mut self.waited, true) {
            this_turn(|turn| turn.wait_touch());
            return Poll::Pending;
        }
        Poll::Ready(self.found.take().expect("a future that is ready is not polled again"))
    }
}

/// See [`Cx::sleep`].
#[derive(Debug)]
pub struct Sleep {
    until: Nanos,
    wait: Wait,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        this_turn(|turn| {
            if turn.now.get() >= self.until && self.until != Nanos::MAX {
                self.wait.over(turn);
                return Poll::Ready(());
            }
            self.wait.begin(turn, "sleep");
            turn.wait_until(self.until);
            Poll::Pending
        })
    }
}

/// See [`Cx::durable`].
#[derive(Debug)]
pub struct Durable {
    entry: u64,
    wait: Wait,
}

impl Future for Durable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        this_turn(|turn| {
            if self.entry < turn.durable.get() {
                self.wait.over(turn);
                return Poll::Ready(());
            }
            self.wait.begin(turn, "durable");
            turn.wait_entry(self.entry);
            Poll::Pending
        })
    }
}
