//! Calls from the tasks of one service to another service of the same engine.
//!
//! Shape: each service that is called has one more port, the *local* one, whose edge all callers of the engine share:
//! ```text
//!  task of A ── submit ──▶ ┌ local port of B ┐ ══▶ B: admitted, ordered and answered like an edge's request
//!  resumed  ◀── deliver ── └ tags → callers  ┘ ◀══
//! ```
//! Why a port: order, back-pressure, deadlines and bytes of replies are then those of every other request.
//!
//! Why a lock although one thread at a time runs an engine: engines move between threads with their services, which keep
//! [`Callee`]s. Nobody ever waits for it.
//!
//! Bounds: [`CALLS`] calls in flight per service; a task that finds no room tries again in the next pass. Nothing is allocated per call.

use crate::context::{TaskId, this_turn, turn};
use crate::cores::Core;
use crate::hosted::Common;
use crate::port::EdgePort;
use crate::service::Messages;
use crate::traced::Wait;
use base::Nanos;
use base::trace::Scope;
use ring::arena::Span;
use ring::pair::Tag;
use ring::tags::TagMap;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// Calls to one service that may be in flight at once.
pub(crate) const CALLS: u32 = 64;

/// Bytes of replies to calls that one service may have out.
pub(crate) const CALL_BYTES: u64 = 1 << 18;

/// A service of an engine, to be called by tasks of the same engine ([`Cx::call`](crate::Cx::call)). Clone it freely.
pub struct Callee<T: Messages> {
    local: Arc<Mutex<Local<T>>>,
}

impl<T: Messages> Clone for Callee<T> {
    fn clone(&self) -> Callee<T> {
        Callee { local: self.local.clone() }
    }
}

/// The callers' side of a local port.
struct Local<T: Messages> {
    edge: EdgePort<T>,
    tags: TagMap<u32>,
    calls: Vec<State<T>>,
    free: Vec<u32>,
    /// Bytes beside replies, in the order of their making, and whether they were read.
    spans: VecDeque<(Span, bool)>,
    /// The number of the first of them.
    first: u64,
}

enum State<T: Messages> {
    Free,
    /// Submitted, for this task.
    Sent(TaskId),
    /// Submitted; nobody waits for it any more.
    GivenUp,
    Done(Result<Answer<T>, CallError>),
}

struct Answer<T: Messages> {
    reply: T::Reply,
    /// Its number among the spans, if it has bytes.
    span: Option<u64>,
}

/// Why a call got no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The service panicked over a call and does not answer panics, or was removed.
    Closed,
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the service that was called has panicked, or was removed")
    }
}

impl std::error::Error for CallError {}

impl<T: Messages> Callee<T> {
    pub(crate) fn over(edge: EdgePort<T>) -> Callee<T> {
        let local = Local {
            edge,
            tags: TagMap::new(CALLS),
            calls: (0..CALLS).map(|_| State::Free).collect(),
            free: (0..CALLS).rev().collect(),
            spans: VecDeque::new(),
            first: 0,
        };
        Callee { local: Arc::new(Mutex::new(local)) }
    }

    fn lock(&self) -> MutexGuard<'_, Local<T>> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the replies that are there and has their callers resumed.
    pub(crate) fn deliver<C: Core>(&self, common: &mut Common<C>) {
        let mut local = self.lock();
        let local = &mut *local;
        while let Some((tag, reply)) = local.edge.poll_tagged() {
            let entry = local.tags.remove(tag).expect("a reply to a call in flight");
            let span = T::span(&reply.body).filter(|span| !span.is_empty());
            let number = span.map(|span| {
                local.spans.push_back((span, false));
                local.first + local.spans.len() as u64 - 1
            });
            let answer = Answer { reply: reply.body, span: number };
            if let Some(task) = local.finish(entry, Ok(answer)) {
                common.desks[usize::from(task.service)].resumed.push(task);
            }
        }
        if local.edge.in_flight() > 0 && local.edge.is_closed() {
            for entry in 0..CALLS {
                if let Some(task) = local.finish(entry, Err(CallError::Closed)) {
                    common.desks[usize::from(task.service)].resumed.push(task);
                }
            }
        }
    }
}

impl<T: Messages> Local<T> {
    /// A call is over; the task to be resumed.
    fn finish(&mut self, entry: u32, result: Result<Answer<T>, CallError>) -> Option<TaskId> {
        match self.calls[entry as usize] {
            State::Sent(task) => {
                self.calls[entry as usize] = State::Done(result);
                Some(task)
            }
            State::GivenUp => {
                self.calls[entry as usize] = State::Free;
                self.free.push(entry);
                if let Ok(Answer { span: Some(number), .. }) = result {
                    self.read(number);
                }
                None
            }
            State::Free | State::Done(_) => None,
        }
    }

    /// The bytes with that number were read. They are given back in order.
    fn read(&mut self, number: u64) {
        self.spans[(number - self.first) as usize].1 = true;
        while let Some(&(span, true)) = self.spans.front() {
            self.edge.release(span);
            self.spans.pop_front();
            self.first += 1;
        }
        self.edge.publish_room();
    }

    /// Submits a request, or gives it back when there is no room.
    fn submit(
        &mut self,
        request: T::Request,
        task: TaskId,
        now: Nanos,
        scope: Option<&Scope>,
    ) -> Result<u32, T::Request> {
        let Some(entry) = self.free.pop() else { return Err(request) };
        let sent: Result<Tag, T::Request> = match scope {
            None => self.edge.submit(now, request),
            Some(scope) => self.edge.submit_traced(now, request, scope),
        };
        match sent {
            Ok(tag) => {
                self.edge.ring();
                self.tags.insert(tag, entry);
                self.calls[entry as usize] = State::Sent(task);
                Ok(entry)
            }
            Err(request) => {
                self.free.push(entry);
                Err(request)
            }
        }
    }
}

/// A reply to a call. Its bytes are given back when it is dropped: read them soon, those of later replies wait for it.
pub struct Called<T: Messages> {
    callee: Callee<T>,
    answer: Answer<T>,
}

impl<T: Messages> Called<T> {
    /// Runs `f` on the bytes beside the reply.
    pub fn bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        let local = self.callee.lock();
        match self.answer.span {
            Some(number) => f(local.edge.bytes(local.spans[(number - local.first) as usize].0)),
            None => f(&[]),
        }
    }
}

impl<T: Messages> std::ops::Deref for Called<T> {
    type Target = T::Reply;

    fn deref(&self) -> &T::Reply {
        &self.answer.reply
    }
}

impl<T: Messages> Drop for Called<T> {
    fn drop(&mut self) {
        if let Some(number) = self.answer.span {
            self.callee.lock().read(number);
            turn(|turn| turn.called.set(true));
        }
    }
}

/// See [`Cx::call`](crate::Cx::call).
pub struct Call<T: Messages> {
    callee: Callee<T>,
    request: Option<T::Request>,
    entry: Option<u32>,
    wait: Wait,
}

// Nothing in it is pinned.
impl<T: Messages> Unpin for Call<T> {}

impl<T: Messages> Call<T> {
    pub(crate) fn new(callee: &Callee<T>, request: T::Request) -> Call<T> {
        Call { callee: callee.clone(), request: Some(request), entry: None, wait: Wait::default() }
    }
}

impl<T: Messages> Future for Call<T> {
    type Output = Result<Called<T>, CallError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let Call { callee, request, entry, wait } = self.get_mut();
        this_turn(|turn| {
            let mut local = callee.lock();
            if let Some(at) = *entry {
                let state = &mut local.calls[at as usize];
                if !matches!(state, State::Done(_)) {
                    turn.wait_resumed();
                    return Poll::Pending;
                }
                let State::Done(result) = std::mem::replace(state, State::Free) else {
                    unreachable!("looked at just now")
                };
                local.free.push(at);
                *entry = None;
                drop(local);
                wait.over(turn);
                return Poll::Ready(result.map(|answer| Called { callee: callee.clone(), answer }));
            }
            if local.edge.is_closed() {
                return Poll::Ready(Err(CallError::Closed));
            }
            let body = request.take().expect("a future that is ready is not polled again");
            let scope = wait.begin(turn, "call");
            match local.submit(body, turn.task.get(), turn.now.get(), scope) {
                Ok(at) => {
                    *entry = Some(at);
                    turn.called.set(true);
                    turn.wait_resumed();
                }
                Err(body) => {
                    *request = Some(body);
                    turn.wait_until(turn.now.get());
                }
            }
            Poll::Pending
        })
    }
}

impl<T: Messages> Drop for Call<T> {
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        let mut local = self.callee.lock();
        let state = &mut local.calls[entry as usize];
        match std::mem::replace(state, State::Free) {
            State::Sent(_) => *state = State::GivenUp,
            State::Done(result) => {
                local.free.push(entry);
                if let Ok(Answer { span: Some(number), .. }) = result {
                    local.read(number);
                }
            }
            State::Free | State::GivenUp => {}
        }
    }
}
