//! A call as a future, for any executor: the waker is in the call's state, and whoever drives wakes it, without the baton.
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

use super::hub::Hub;
use super::letters;
use super::mailbox::Told;
use super::tray::{Entry, Tray};
use crate::channel::{Response, Scratch, What, undecodable};
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
    /// The dispatcher's place for it, once it was started. The dispatcher alone reads and writes it.
    place: AtomicU32,
    tray: Arc<Tray>,
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

    /// The dispatcher's place; any if it was not started.
    pub(super) fn place(&self) -> u32 {
        self.place.load(Ordering::Relaxed)
    }

    /// Ends it, unless it is over; whom to wake.
    fn settle(&self, outcome: impl FnOnce() -> Packet) -> Option<Waker> {
        self.tray.leave();
        let mut stage = self.stage();
        let Stage::Waiting(waker) = &mut *stage else { return None };
        let waker = waker.take();
        *stage = Stage::Done(outcome());
        waker
    }
}

/// The duty to end one call of a future.
pub(super) struct Promise(Option<Arc<State>>);

impl Promise {
    /// With its outcome; whom to wake, when the baton was put back.
    pub(super) fn keep(mut self, outcome: Packet) -> Option<Waker> {
        self.0.take().and_then(|state| state.settle(|| outcome))
    }

    /// Notes the dispatcher's place for it.
    pub(super) fn started(&self, place: u32) {
        if let Some(state) = &self.0 {
            state.place.store(place, Ordering::Relaxed);
        }
    }

    /// Whether it is for this call.
    pub(super) fn is_for(&self, state: &Arc<State>) -> bool {
        self.0.as_ref().is_some_and(|own| Arc::ptr_eq(own, state))
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let lost = || letters::failed(&Status::lost("the shared channel is gone"));
        if let Some(waker) = self.0.take().and_then(|state| state.settle(lost)) {
            waker.wake();
        }
    }
}

/// A unary call under way: a future of its reply, or of why it failed. Dropped before that, it cancels the call.
///
/// It is under way whether it is polled or not, and may be polled anywhere.
#[must_use = "dropped, it cancels the call"]
pub struct Call {
    state: Arc<State>,
    hub: Arc<Hub>,
}

impl Call {
    /// Hands `request` to the dispatcher.
    pub(super) fn start(hub: &Arc<Hub>, request: Packet) -> Call {
        if !hub.tray.enter(request.bytes().len()) {
            let status = Status::new(Code::ResourceExhausted, "as many futures' calls are open as may be");
            return Call::failed(hub, &status);
        }
        let call = Call::new(hub, Stage::Waiting(None));
        let promise = Promise(Some(Arc::clone(&call.state)));
        match hub.tray.push(Entry::Start(promise, request)) {
            None => hub.settle(&mut Told::default()),
            // Nobody polls it yet.
            Some(Entry::Start(promise, _)) => drop(promise.keep(letters::failed(&stopped()))),
            Some(_) => unreachable!("the entry comes back"),
        }
        call
    }

    /// A call that could not be started.
    pub(super) fn failed(hub: &Arc<Hub>, status: &Status) -> Call {
        Call::new(hub, Stage::Done(letters::failed(status)))
    }

    fn new(hub: &Arc<Hub>, stage: Stage) -> Call {
        let tray = Arc::clone(&hub.tray);
        let state = State { stage: Mutex::new(stage), place: AtomicU32::new(0), tray };
        Call { state: Arc::new(state), hub: Arc::clone(hub) }
    }

    fn poll_outcome(&self, context: &Context<'_>) -> Poll<Packet> {
        let mut stage = self.state.stage();
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
            let (what, metadata) = letters::told(outcome.bytes());
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
        let stage = std::mem::replace(&mut *self.state.stage(), Stage::Over);
        if matches!(stage, Stage::Waiting(_)) {
            // A closed tray needs no telling.
            if self.hub.tray.push(Entry::Cancel(Arc::clone(&self.state))).is_none() {
                self.hub.settle(&mut Told::default());
            }
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
            let body = body_of(letters::told(outcome.bytes()).0)?;
            let mut scratch = SCRATCH.take().unwrap_or_default();
            let message = Owned::decode(&mut scratch.decoder, body).map_err(undecodable);
            SCRATCH.set(Some(scratch));
            message
        })
    }
}
