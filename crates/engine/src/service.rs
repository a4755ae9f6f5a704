//! What an engine runs, in two forms with one meaning.
//!
//! * [`Service`], *staged*: says which memory a request is about to need, and then executes it at once. For single-step
//!   operations, a group of which is touched together.
//! * [`TaskService`]: handles a request in steps, as an async function that may wait for memory, time, a log, host threads and other
//!   services ([`Cx`]).
//!
//! Why the staged form has two halves: *touch* is cost, *execute* is meaning. The engine may touch in any way (not at all, stage by
//! stage over a batch, or as one coroutine per request); the answer cannot change, because `execute` alone reads and writes.
//!
//! Why tasks reach their service through [`Cx::with`] and do not borrow it: between two polls the engine polls other tasks that change
//! the service. A captured reference would forbid that; a scoped one is checked.
//!
//! Cost: a staged request 17 ns, one with two touches as a coroutine 9 ns more, as a task `docs/measurements/engine.md`.

use crate::cx::Cx;
use crate::log::Log;
use base::Nanos;
use ring::arena;
use std::future::Future;

/// What travels to a service and back.
pub trait Messages: 'static {
    /// One request, as it travels in a ring slot.
    type Request: Send + 'static;
    /// What goes back in the reply's slot; bulk bytes go beside it, into the port's arena.
    type Reply: Send + 'static;

    /// The bytes beside a reply. Only services that other services call need to say it ([`Cx::call`]).
    fn span(reply: &Self::Reply) -> Option<arena::Span> {
        let _ = reply;
        None
    }
}

/// The staged form.
pub trait Service: Messages + Send {
    /// How many dependent memory accesses lead to a request's data: 2 for a hash table with items outside (bucket, item).
    const TOUCHES: usize;

    /// Whether [`Service::panicked`] answers a request over which the service panicked. If not, the panic goes on through
    /// [`Engine::pass`](crate::Engine::pass), and the request's port is closed.
    const ANSWERS_PANICS: bool = false;

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

    /// A pass ends in which this service may have executed something: what all of it has in common is done here, once. Its replies leave afterwards.
    fn end_pass(&mut self) {}

    /// The reply to a request over which `execute` or `expire` panicked, or `None` when `out` has no room. What they had changed until
    /// then is as they left it.
    fn panicked(&mut self, request: &Self::Request, out: &mut arena::Producer) -> Option<Self::Reply> {
        let _ = (request, out);
        None
    }

    /// Housekeeping while there is nothing to execute: at most about `budget` small steps. True if more is waiting.
    fn idle(&mut self, budget: usize) -> bool {
        let _ = budget;
        false
    }
}

/// Why a task did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Its handler panicked.
    Panicked,
    /// Its deadline passed.
    Expired,
}

/// The task form.
pub trait TaskService: Messages<Request: Sync> + Send {
    /// What a task ends with, and a reply is made of.
    type Output: Send + 'static;

    /// What orders this request: those of one key run one after the other, as they were admitted. `None`: it waits for nobody.
    fn key(request: &Self::Request) -> Option<u64> {
        let _ = request;
        None
    }

    /// Handles a request. The service is reached through [`Cx::with`].
    fn handle(cx: Cx<Self>, request: &Self::Request) -> impl Future<Output = Self::Output> + Send
    where
        Self: Sized;

    /// The reply to a request whose task is over, its bytes written to `out`; or `None` when `out` has no room, and the engine asks again
    /// when the reader has made some.
    fn reply(
        &self,
        request: &Self::Request,
        output: &Self::Output,
        out: &mut arena::Producer,
    ) -> Option<Self::Reply>;

    /// The reply to a request whose task failed, or `None` when `out` has no room.
    fn failed(&self, request: &Self::Request, why: Failure, out: &mut arena::Producer)
    -> Option<Self::Reply>;

    /// The log that [`Cx::durable`] waits for. Without one everything is durable.
    fn log(&self) -> Option<&dyn Log> {
        None
    }

    /// Called once in each pass with the time.
    fn tick(&mut self, now: Nanos) {
        let _ = now;
    }

    /// Housekeeping while there is nothing to execute: at most about `budget` small steps. True if more is waiting.
    fn idle(&mut self, budget: usize) -> bool {
        let _ = budget;
        false
    }
}
