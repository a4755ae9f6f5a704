//! How a tier asks others: handlers leave calls here, the tier's thread starts them on its channels, and futures that wait go on with their answers.
//!
//! ```text
//! handler ─▶ Job::spawn ─ future ─ ask ─▶ Asks (outbox) ─ turn ─▶ Channel ─▶ other tier
//!                            ▲                                      │
//!                            └────── Slot (answer, waker) ◀─────────┘
//! ```
//! Why an outbox: futures run within the server's turn, which waits beside the channels and so has them. A lock that one thread takes costs nothing
//! much.
//!
//! Invariant: each ask is settled once, by its answer or by why there is none; a tier that ends drops its slots, and with them the futures.
//!
//! Bounds: futures are at most [`fabric::server::Options::max_tasks`] of the tier's server; each has a handful of asks.

use super::book::Book;
use super::parts::{KEY, Stay, Told, application, arrived, take_application};
use base::{Clock, Nanos};
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView, Owned};
use fabric::channel::{CallId, CallOptions, Channel, Event, StartError, What};
use fabric::frame::push_metadata;
use fabric::monitor::trace::TRACEPARENT;
use fabric::server::Spawner;
use fabric::service::{Context, ServiceDescriptor};
use fabric::status::{Code, Status};
use fabric::stub::Deferred;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a call; asked again where the channel is full.
type Start = Box<dyn FnMut(&mut Channel, &CallOptions<'_>, u64) -> Result<CallId, StartError> + Send>;

/// A call that waits to be started.
struct Ask {
    to: To,
    start: Start,
    slot: Arc<dyn Settle>,
    asked: Nanos,
    /// Of whoever waits for it: [`Nanos::MAX`] for without end.
    deadline: Nanos,
    metadata: Arc<[u8]>,
}

/// A method of a tier that is asked, by the number of its channel.
#[derive(Clone, Copy)]
pub struct To {
    pub channel: usize,
    pub service: &'static ServiceDescriptor,
    pub method: usize,
}

/// A call under way.
struct Pending {
    to: To,
    slot: Arc<dyn Settle>,
    asked: Nanos,
    encoded: Nanos,
}

/// The handlers' end. Clones are handles of the same.
#[derive(Clone, Default)]
pub struct Asks {
    outbox: Arc<Mutex<Vec<Ask>>>,
    /// Of the tier's server, once there is one.
    spawner: Arc<OnceLock<Spawner>>,
}

impl Asks {
    /// Futures run on this server.
    pub fn run_on(&self, spawner: Spawner) {
        assert!(self.spawner.set(spawner).is_ok(), "a tier has one server");
    }

    /// A request whose handler asks others; at the begin of the handler.
    pub fn job(&self, context: &Context<'_>) -> Job {
        let mut metadata = Vec::new();
        if let Some(parent) = context.traceparent() {
            assert!(push_metadata(&mut metadata, TRACEPARENT, parent), "there is room for it");
        }
        let arrived = arrived();
        let codec = Clock::shared().now().since(arrived);
        Job {
            asks: self.clone(),
            metadata: metadata.into(),
            deadline: context.deadline(),
            arrived,
            codec,
            waits: Waits::default(),
        }
    }

    /// Has the tier's thread run what a request's handler does further.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        // The work has the request's right to answer: dropped, it says INTERNAL.
        let _ = self.spawner.get().expect("a tier serves when it has its server").spawn(work);
    }
}

/// What waits of a request came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    took: Nanos,
    app: Nanos,
    codec: Nanos,
}

impl Waits {
    fn add(&mut self, wait: Nanos, told: &Told) {
        let (app, codec) = told.split(wait);
        *self = Waits { took: self.took.plus(wait), app: self.app.plus(app), codec: self.codec.plus(codec) };
    }

    /// The stay of a request that took so long, of which so much was its own codec.
    fn stay(&self, took: Nanos, own_codec: Nanos) -> Stay {
        let own_app = took.since(self.took).since(own_codec);
        let (app, codec) = (self.app.plus(own_app), self.codec.plus(own_codec));
        Stay { took, app, codec, own_app, own_codec }
    }
}

/// A request whose handler asks others.
pub struct Job {
    asks: Asks,
    metadata: Arc<[u8]>,
    deadline: Nanos,
    arrived: Nanos,
    /// Decoding it took.
    codec: Nanos,
    waits: Waits,
}

impl Job {
    /// Calls a method of another tier; under way when this returns. Dropped, the answer is not waited for.
    pub fn ask<R: Message>(
        &self,
        to: To,
        start: impl FnMut(&mut Channel, &CallOptions<'_>, u64) -> Result<CallId, StartError> + Send + 'static,
    ) -> Answer<R> {
        let slot = Arc::new(Slot(Mutex::new(State::Waiting(None))));
        let ask = Ask {
            to,
            start: Box::new(start),
            slot: Arc::<Slot<R>>::clone(&slot),
            asked: Clock::shared().now(),
            deadline: self.deadline,
            metadata: Arc::clone(&self.metadata),
        };
        locked(&self.asks.outbox).push(ask);
        Answer(slot)
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// How the call ended, if not with a reply.
    pub async fn answer<R: Message>(&mut self, answer: Answer<R>) -> Result<Owned<R>, Status> {
        let begun = Clock::shared().now();
        let Settled { result, told, at } = answer.settled().await;
        self.waits.add(at.since(begun), &told);
        result
    }

    /// Answers the request with what `fill` makes of `outcome`, or with why there is none.
    pub fn reply<R: Message, T>(
        self,
        reply: Deferred<R>,
        outcome: Result<T, Status>,
        fill: impl FnOnce(&mut R::Mut<'_, '_>, T) -> Result<(), OutOfMemory>,
    ) {
        let value = match outcome {
            Ok(value) => value,
            Err(status) => return reply.fail(status),
        };
        let arena = Arena::default();
        let built = R::new(&arena).and_then(|mut message| fill(&mut message, value).map(|()| message));
        let Ok(message) = built else {
            return reply.fail(Status::new(Code::ResourceExhausted, "no memory for the reply"));
        };
        let clock = Clock::shared();
        let (begin, mut encoder) = (clock.now(), Encoder::default());
        let encoded = R::freeze(message).encode(&mut encoder);
        let end = clock.now();
        let body = match encoded {
            Ok(body) => body,
            Err(error) => {
                return reply
                    .fail(Status::new(Code::Internal, format!("the reply cannot be encoded: {error}")));
            }
        };
        let stay = self.waits.stay(end.since(self.arrived), self.codec.plus(end.since(begin)));
        let mut responder = reply.into_responder();
        // Where there is no room its caller learns nothing.
        let _ = responder.push_metadata(KEY, &stay.bytes());
        responder.reply_bytes(body);
    }
}

/// A call under way.
pub struct Answer<R: Message>(Arc<Slot<R>>);

impl<R: Message> Answer<R> {
    async fn settled(self) -> Settled<R> {
        poll_fn(move |context| {
            let mut state = locked(&self.0.0);
            match &mut *state {
                State::Waiting(waker) => {
                    *waker = Some(context.waker().clone());
                    Poll::Pending
                }
                State::Settled(settled) => Poll::Ready(settled.take().expect("an answer is taken once")),
            }
        })
        .await
    }
}

/// Where an answer is waited for.
struct Slot<R: Message>(Mutex<State<R>>);

enum State<R: Message> {
    Waiting(Option<Waker>),
    Settled(Option<Settled<R>>),
}

struct Settled<R: Message> {
    result: Result<Owned<R>, Status>,
    told: Told,
    at: Nanos,
}

trait Settle: Send + Sync {
    /// With the event of the call's end; what was told of its time.
    fn settle(&self, event: &mut Event<'_>, pending: &Pending) -> Told;

    /// With why it was not started.
    fn fail(&self, status: Status);
}

impl<R: Message> Slot<R> {
    fn set(&self, settled: Settled<R>) {
        let before = std::mem::replace(&mut *locked(&self.0), State::Settled(Some(settled)));
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<R: Message> Settle for Slot<R> {
    fn settle(&self, event: &mut Event<'_>, pending: &Pending) -> Told {
        let (clock, stay) = (Clock::shared(), Stay::told(event));
        let begin = clock.now();
        let result = event.owned::<R>();
        let at = clock.now();
        let codec = pending.encoded.plus(at.since(begin));
        let told = Told { took: at.since(pending.asked), codec, stay };
        self.set(Settled { result, told, at });
        told
    }

    fn fail(&self, status: Status) {
        self.set(Settled { result: Err(status), told: Told::default(), at: Clock::shared().now() });
    }
}

/// The thread's end: starts what was asked, and settles what was answered.
pub struct Started {
    asks: Asks,
    waiting: VecDeque<Ask>,
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
    book: Arc<Book>,
}

impl Started {
    pub fn new(asks: Asks, book: Arc<Book>) -> Started {
        Started { asks, waiting: VecDeque::new(), pending: Vec::new(), free: Vec::new(), book }
    }

    /// Whether calls wait for room in their channels.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes answers, then starts what was asked; how much that was.
    pub fn turn(&mut self, channels: &mut [Channel]) -> usize {
        let mut done = 0;
        for channel in channels.iter_mut() {
            let Started { pending, free, book, .. } = self;
            done += channel.poll(64, |mut event| {
                let at = event.user as usize;
                let call = pending[at].take().expect("a call ends once");
                free.push(at);
                let told = call.slot.settle(&mut event, &call);
                if let What::Reply(body) = event.what {
                    book.call(
                        call.to.service.name,
                        call.to.service.methods[call.to.method].name,
                        body.len(),
                        &told,
                    );
                }
            });
        }
        let fresh = std::mem::take(&mut *locked(&self.asks.outbox));
        done += fresh.len();
        self.waiting.extend(fresh);
        let mut full = vec![false; channels.len()];
        for _ in 0..self.waiting.len() {
            let Some(ask) = self.waiting.pop_front() else { break };
            let channel = ask.to.channel;
            // In order: one that found no room keeps later ones of its channel back.
            if full[channel] {
                self.waiting.push_back(ask);
            } else if let Err(ask) = self.start(&mut channels[channel], ask) {
                full[channel] = true;
                self.waiting.push_back(ask);
            }
        }
        done
    }

    /// Starts a call; gives it back where there is no room.
    fn start(&mut self, channel: &mut Channel, mut ask: Ask) -> Result<(), Ask> {
        let at = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        let clock = Clock::shared();
        let begin = clock.now();
        let timeout = (ask.deadline != Nanos::MAX).then(|| ask.deadline.since(begin).into());
        let options = CallOptions { timeout, metadata: &ask.metadata, ..CallOptions::default() };
        take_application();
        let started = (ask.start)(channel, &options, at as u64);
        // Building the message was the application's.
        let encoded = clock.now().since(begin).since(take_application());
        match started {
            Ok(_) => {
                let Ask { to, slot, asked, .. } = ask;
                self.pending[at] = Some(Pending { to, slot, asked, encoded });
                return Ok(());
            }
            Err(StartError::Full) => {
                self.free.push(at);
                return Err(ask);
            }
            Err(error) => ask.slot.fail(error.into()),
        }
        self.free.push(at);
        Ok(())
    }
}

/// Has a message built as the application's work.
pub fn built<M>(
    message: &mut M,
    fill: impl FnOnce(&mut M) -> Result<(), OutOfMemory>,
) -> Result<(), OutOfMemory> {
    application(|| fill(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two calls at once, of 100 and of 60: the second was there when it was waited for.
    #[test]
    fn a_stay_is_its_waits_and_its_own() {
        let told = |took, app| Told {
            took: Nanos(took),
            codec: Nanos(10),
            stay: Stay { took: Nanos(app), app: Nanos(app), own_app: Nanos(app), ..Stay::default() },
        };
        let mut waits = Waits::default();
        waits.add(Nanos(100), &told(100, 40));
        waits.add(Nanos::ZERO, &told(60, 60));
        let stay = waits.stay(Nanos(150), Nanos(5));
        assert_eq!((stay.took, stay.own_app, stay.own_codec), (Nanos(150), Nanos(45), Nanos(5)));
        assert_eq!((stay.app, stay.codec), (Nanos(85), Nanos(15)));
    }
}
