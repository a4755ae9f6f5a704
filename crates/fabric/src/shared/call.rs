//! A call as a future, for any executor: the waker is in the call's state, and the dispatcher wakes it.
//!
//! Shape:
//! ```text
//! Call (the caller's) ──▶ State ◀── Promise (the dispatcher's)
//!                         Waiting ── settle ──▶ Done ── poll ──▶ Over
//!                            └────── drop of the Call ────────────┘
//! ```
//! Invariant: a state leaves Waiting once. A promise that is dropped unsettled settles as lost, so no future waits for ever.
//!
//! Cost: one allocation, the state, for a request and a reply of [`Packet::INLINE`] bytes with their heads; longer ones one each.

use super::inbox::{Entry, Inbox};
use super::packet;
use crate::channel::{CallId, Response, Scratch, What, undecodable};
use crate::port::Packet;
use crate::status::{Code, Status};
use codec::typed::{Message, Owned};
use std::cell::Cell;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a call and the dispatcher share.
pub(super) struct State {
    stage: Mutex<Stage>,
    /// The number of the channel's call, once it was started. The dispatcher alone reads and writes it.
    number: AtomicU32,
    inbox: Arc<Inbox>,
}

enum Stage {
    Waiting(Option<Waker>),
    Done(Packet),
    Over,
}

impl State {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel's call; any call if none was started.
    pub(super) fn number(&self) -> CallId {
        CallId(self.number.load(Ordering::Relaxed))
    }

    /// Ends it, unless it is over.
    fn settle(&self, outcome: impl FnOnce() -> Packet) {
        self.inbox.leave();
        let mut stage = self.stage();
        let Stage::Waiting(waker) = &mut *stage else { return };
        let waker = waker.take();
        *stage = Stage::Done(outcome());
        drop(stage);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The duty to end one call of a future.
pub(super) struct Promise(Option<Arc<State>>);

impl Promise {
    /// With its outcome.
    pub(super) fn keep(mut self, outcome: Packet) {
        if let Some(state) = self.0.take() {
            state.settle(|| outcome);
        }
    }

    /// Notes which call of the channel it is.
    pub(super) fn started(&self, call: CallId) {
        if let Some(state) = &self.0 {
            state.number.store(call.number(), Ordering::Relaxed);
        }
    }

    /// Whether it is for this call.
    pub(super) fn is_for(&self, state: &Arc<State>) -> bool {
        self.0.as_ref().is_some_and(|own| Arc::ptr_eq(own, state))
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            state.settle(|| packet::failed(0, &Status::lost("the shared channel's thread is gone")));
        }
    }
}

/// A unary call under way: a future of its reply, or of why it failed. Dropped before that, it cancels the call.
///
/// It is under way whether it is polled or not, and may be polled anywhere.
#[must_use = "dropped, it cancels the call"]
pub struct Call(Arc<State>);

impl Call {
    /// Hands `request` to the dispatcher.
    pub(super) fn start(inbox: &Arc<Inbox>, request: Packet) -> Call {
        if !inbox.enter() {
            let status = Status::new(Code::ResourceExhausted, "as many futures' calls are open as may be");
            return Call::failed(inbox, &status);
        }
        let state = Call::state(inbox, Stage::Waiting(None));
        if let Some(Entry::Start(promise, _)) =
            inbox.push(Entry::Start(Promise(Some(Arc::clone(&state))), request))
        {
            promise.keep(packet::failed(0, &stopped()));
        }
        Call(state)
    }

    /// A call that could not be started.
    pub(super) fn failed(inbox: &Arc<Inbox>, status: &Status) -> Call {
        Call(Call::state(inbox, Stage::Done(packet::failed(0, status))))
    }

    fn state(inbox: &Arc<Inbox>, stage: Stage) -> Arc<State> {
        Arc::new(State { stage: Mutex::new(stage), number: AtomicU32::new(0), inbox: Arc::clone(inbox) })
    }

    fn poll_outcome(&self, context: &Context<'_>) -> Poll<Packet> {
        let mut stage = self.0.stage();
        match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Done(outcome) => Poll::Ready(outcome),
            Stage::Waiting(known) => {
                let (waker, other) = match known {
                    Some(known) if known.will_wake(context.waker()) => (known, None),
                    other => (context.waker().clone(), other),
                };
                *stage = Stage::Waiting(Some(waker));
                drop(stage);
                // Not under the lock: what a waker does when it is dropped is its executor's affair.
                drop(other);
                Poll::Pending
            }
            Stage::Over => panic!("a call is not polled after its outcome"),
        }
    }
}

/// The shared channel was stopped before the call was taken.
pub(super) fn stopped() -> Status {
    Status::new(Code::Unavailable, "the shared channel was stopped")
}

impl Future for Call {
    type Output = Result<Response, Status>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_outcome(context).map(|outcome| {
            let (what, metadata) = packet::told(&outcome);
            let body = body_of(what)?;
            Ok(Response { body: body.to_vec(), metadata: metadata.to_vec() })
        })
    }
}

/// The reply's bytes, or why there are none.
#[inline]
pub(super) fn body_of(what: What<'_>) -> Result<&[u8], Status> {
    match what {
        What::Reply(body) => Ok(body),
        What::Failed(status) => Err(status),
        What::Item(_) | What::End => panic!("a unary call has no items"),
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut *self.0.stage(), Stage::Over);
        if matches!(stage, Stage::Waiting(_)) {
            // A closed inbox needs no telling.
            let _ = self.0.inbox.push(Entry::Cancel(Arc::clone(&self.0)));
        }
    }
}

/// A [`Call`] whose reply is a message.
#[must_use = "dropped, it cancels the call"]
pub struct MessageCall<R> {
    call: Call,
    reply: PhantomData<fn() -> R>,
}

impl<R> MessageCall<R> {
    pub(super) fn new(call: Call) -> MessageCall<R> {
        MessageCall { call, reply: PhantomData }
    }
}

impl<R: Message> Future for MessageCall<R> {
    type Output = Result<Owned<R>, Status>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        thread_local! {
            static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
        }
        self.call.poll_outcome(context).map(|outcome| {
            let body = body_of(packet::told(&outcome).0)?;
            let mut scratch = SCRATCH.take().unwrap_or_default();
            let message = Owned::decode(&mut scratch.decoder, body).map_err(undecodable);
            SCRATCH.set(Some(scratch));
            message
        })
    }
}
