//! A call of a method with streams: what its handler holds, shared with the server that drives it.
//!
//! Shape:
//! ```text
//!  link ─Item─▶ inbox (by number, early ones wait) ─▶ Requests::next      Credit goes back once half a window was taken
//!  link ◀─Item─ outbox ◀─ Replies::send, which waits for credit and room
//! ```
//!
//! Invariants (numbers modulo 2³²): items below `first` were taken; `items[i]` is item `first + i`; the client may send items below
//! `limit`. In the outbox wait items `sent ..`, all below `granted`. An item outside its window, or that came before, is a
//! violation.
//!
//! Bounds: a window of items in the inbox; [`OUTBOX`] bytes in the outbox, or one item. What may be taken is counted for the whole
//! connection, from which nothing is read while it is too much.

mod inbox;

use super::incoming::{exhausted, unreadable, unwritable};
use super::responder::too_long;
use crate::frame::{self, MAX_MESSAGE};
use crate::server::{Return, Returns};
use crate::status::{Code, Status};
use base::units::Nanos;
use codec::decode::Decoder;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView, Owned};
use inbox::Inbox;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll, Waker};

/// Bytes of items that wait for room in the link.
const OUTBOX: usize = 256 << 10;

/// A streaming call, as its handler gets it.
pub struct StreamCall {
    shared: Arc<Shared>,
    metadata: Box<[u8]>,
    connection: u64,
    deadline: Nanos,
}

impl StreamCall {
    pub(crate) fn new(shared: &Arc<Shared>, metadata: &[u8], connection: u64, deadline: Nanos) -> StreamCall {
        StreamCall { shared: Arc::clone(shared), metadata: metadata.into(), connection, deadline }
    }

    /// What the caller sends. (At the level of bytes `Q` may be anything; so with [`StreamCall::replies`].)
    pub fn requests<Q>(&self) -> Requests<Q> {
        Requests { shared: Arc::clone(&self.shared), decoder: Decoder::default(), of: PhantomData }
    }

    /// Where the answers go. Where the server does not stream, exactly one is to be sent.
    pub fn replies<R>(&self) -> Replies<R> {
        let (arena, encoder) = (Arena::default(), Encoder::default());
        Replies { shared: Arc::clone(&self.shared), arena, encoder, of: PhantomData }
    }

    /// What the caller sent with the call; see [`frame::metadata`].
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// The value of a key of the caller's metadata.
    pub fn metadata_value(&self, key: &str) -> Option<&[u8]> {
        frame::metadata(&self.metadata).find(|&(found, _)| found == key).map(|(_, value)| value)
    }

    /// The server's number of the connection that the call came over.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// When the caller stops to wait, on the clock that drives the server; [`Nanos::MAX`] for never.
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// Whether the call is over: cancelled, its time passed, or its connection lost. The future is dropped then; this is for
    /// other threads.
    pub fn is_cancelled(&self) -> bool {
        self.shared.lock().over
    }
}

impl fmt::Debug for StreamCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamCall(connection {}, call {})", self.connection, self.shared.call)
    }
}

/// The messages that a caller sends.
pub struct Requests<Q> {
    shared: Arc<Shared>,
    decoder: Decoder,
    of: PhantomData<fn() -> Q>,
}

impl<Q: Message> Requests<Q> {
    /// The next message; nothing when the caller has said everything.
    pub async fn next(&mut self) -> Option<Result<Owned<Q>, Status>> {
        let next = self.next_bytes().await?;
        Some(
            next.and_then(|bytes| {
                Owned::decode(&mut self.decoder, &bytes).map_err(|error| unreadable(&error))
            }),
        )
    }
}

impl<Q> Requests<Q> {
    /// The next message, not decoded.
    pub async fn next_bytes(&mut self) -> Option<Result<Box<[u8]>, Status>> {
        poll_fn(|task| self.shared.poll_next(task)).await
    }
}

/// Where a handler's answers go.
pub struct Replies<R> {
    shared: Arc<Shared>,
    arena: Arena,
    encoder: Encoder,
    of: PhantomData<fn() -> R>,
}

impl<R: Message> Replies<R> {
    /// Sends the message that `fill` puts together, as soon as the caller takes one more.
    pub fn send(&mut self, fill: impl FnOnce(&mut R::Mut<'_, '_>) -> Result<(), OutOfMemory>) -> Sending<'_> {
        self.arena.reset();
        let built = R::new(&self.arena).and_then(|mut reply| fill(&mut reply).map(|()| reply));
        let encoded = match built {
            Ok(reply) => R::freeze(reply).encode(&mut self.encoder).map_err(|error| unwritable(&error)),
            Err(full) => Err(exhausted(full)),
        };
        Sending { shared: &self.shared, message: Some(encoded.map(<[u8]>::to_vec)) }
    }
}

impl<R> Replies<R> {
    /// Sends a message that is encoded already.
    pub fn send_bytes(&mut self, message: Vec<u8>) -> Sending<'_> {
        Sending { shared: &self.shared, message: Some(Ok(message)) }
    }
}

/// A message that waits for credit and room.
pub struct Sending<'a> {
    shared: &'a Arc<Shared>,
    message: Option<Result<Vec<u8>, Status>>,
}

impl Future for Sending<'_> {
    type Output = Result<(), Status>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Result<(), Status>> {
        let message = match self.message.take().expect("a future is not polled after it has ended") {
            Ok(message) if message.len() > MAX_MESSAGE => return Poll::Ready(Err(too_long(message.len()))),
            Ok(message) => message,
            Err(status) => return Poll::Ready(Err(status)),
        };
        match self.shared.poll_send(task, message) {
            Ok(result) => Poll::Ready(result),
            Err(message) => {
                self.message = Some(Ok(message));
                Poll::Pending
            }
        }
    }
}

/// How a method streams, and how far each side may be ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) client_streaming: bool,
    pub(crate) server_streaming: bool,
    pub(crate) window: u32,
}

/// Bytes of a connection's items that handlers may take.
///
/// Ordering: **stopped**: the server sets it, then looks at the bytes once more; a handler takes bytes away, then looks at it. All
/// SeqCst, so at least one sees the other.
#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: AtomicUsize,
    /// The server takes nothing from the connection because of them.
    stopped: AtomicBool,
}

impl Held {
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    /// True if the server should hear of it.
    fn take(&self, bytes: usize) -> bool {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst); // label: stopped
        self.stopped.load(Ordering::SeqCst) && self.stopped.swap(false, Ordering::SeqCst)
    }

    /// Whether there are more than `limit`; if so, the server is told of the next change.
    pub(crate) fn exceeds(&self, limit: usize) -> bool {
        if self.bytes.load(Ordering::Relaxed) <= limit {
            return false;
        }
        self.stopped.store(true, Ordering::SeqCst); // label: stopped
        self.bytes.load(Ordering::SeqCst) > limit
    }
}

/// What the handler and the server share.
pub(crate) struct Shared {
    state: Mutex<State>,
    returns: Arc<Returns>,
    held: Arc<Held>,
    pub(crate) connection: u64,
    pub(crate) call: u32,
}

pub(crate) struct State {
    shape: Shape,
    inbox: Inbox,
    outbox: VecDeque<Vec<u8>>,
    outbox_bytes: usize,
    sent: u32,
    granted: u32,
    /// The one reply of a method whose server does not stream.
    single: Option<Vec<u8>>,
    /// The handler has ended so.
    ending: Option<Result<(), Status>>,
    /// Nothing goes in or out any more.
    over: bool,
    /// The server was told that there is something to send.
    told: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// What is to be sent next for a call.
pub(crate) enum Outgoing<'a> {
    /// `Credit` of so many items.
    Credit(u32),
    /// An item with its number.
    Item(u32, &'a [u8]),
    /// The Reply: items before it, and the single message if there is one.
    Reply(u32, Result<Option<&'a [u8]>, &'a Status>),
}

impl Shared {
    pub(crate) fn new(
        shape: Shape,
        returns: &Arc<Returns>,
        held: &Arc<Held>,
        connection: u64,
        call: u32,
    ) -> Shared {
        let state = State {
            shape,
            inbox: Inbox::new(shape.window),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            sent: 0,
            granted: shape.window,
            single: None,
            ending: None,
            over: false,
            told: false,
            reader: None,
            writer: None,
        };
        let (returns, held) = (Arc::clone(returns), Arc::clone(held));
        Shared { state: Mutex::new(state), returns, held, connection, call }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of a user's runs under the lock, so it cannot be poisoned half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // What the handler does.

    fn poll_next(&self, task: &mut Task<'_>) -> Poll<Option<Result<Box<[u8]>, Status>>> {
        let mut state = self.lock();
        if state.over {
            return Poll::Ready(Some(Err(is_over())));
        }
        let Some(item) = state.inbox.take() else {
            if state.inbox.is_finished() {
                return Poll::Ready(None);
            }
            state.reader = Some(task.waker().clone());
            return Poll::Pending;
        };
        let stopped = self.held.take(item.len());
        if stopped || state.shape.client_streaming && state.inbox.owes_credit() {
            self.tell(state);
        }
        Poll::Ready(Some(Ok(item)))
    }

    fn poll_send(&self, task: &mut Task<'_>, message: Vec<u8>) -> Result<Result<(), Status>, Vec<u8>> {
        let mut state = self.lock();
        if state.over {
            return Ok(Err(is_over()));
        }
        if !state.shape.server_streaming {
            if state.single.is_some() {
                return Ok(Err(Status::new(Code::Internal, "this method has one reply")));
            }
            state.single = Some(message);
            return Ok(Ok(()));
        }
        let credit = state.granted.wrapping_sub(state.sent) as usize > state.outbox.len();
        let room = state.outbox.is_empty() || state.outbox_bytes + message.len() <= OUTBOX;
        if !credit || !room {
            state.writer = Some(task.waker().clone());
            return Err(message);
        }
        state.outbox_bytes += message.len();
        state.outbox.push_back(message);
        self.tell(state);
        Ok(Ok(()))
    }

    /// Tells the server that there is something to send.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        if !std::mem::replace(&mut state.told, true) {
            drop(state);
            self.returns.push(Return::Pump { connection: self.connection, call: self.call });
        }
    }

    // What the server does.

    /// An item came.
    pub(crate) fn put(&self, number: u32, body: &[u8]) -> Result<(), &'static str> {
        let mut state = self.lock();
        let ready = state.inbox.put(number, body)?;
        self.held.add(ready);
        wake(state.reader.take(), state);
        Ok(())
    }

    /// The caller has said everything.
    pub(crate) fn finish(&self, total: u32) -> Result<(), &'static str> {
        let mut state = self.lock();
        state.inbox.finish(total)?;
        wake(state.reader.take(), state);
        Ok(())
    }

    /// The caller takes more items.
    pub(crate) fn credit(&self, items: u32) -> Result<(), &'static str> {
        let mut state = self.lock();
        let ahead = state.granted.wrapping_sub(state.sent);
        if ahead.checked_add(items).is_none_or(|ahead| ahead > u32::MAX / 2) {
            return Err("more credit than a stream has numbers");
        }
        state.granted = state.granted.wrapping_add(items);
        wake(state.writer.take(), state);
        Ok(())
    }

    /// The handler has ended.
    pub(crate) fn end(&self, result: Result<(), Status>) {
        let mut state = self.lock();
        let silent = !state.shape.server_streaming && state.single.is_none();
        state.ending = Some(match result {
            Ok(()) if silent => Err(Status::new(Code::Internal, "the handler gave no reply")),
            result => result,
        });
    }

    /// Nothing goes in or out any more; how many items were sent.
    pub(crate) fn abandon(&self) -> u32 {
        let mut state = self.lock();
        state.over = true;
        state.outbox = VecDeque::new();
        self.held.take(state.inbox.clear());
        let (sent, reader, writer) = (state.sent, state.reader.take(), state.writer.take());
        drop(state);
        reader.into_iter().chain(writer).for_each(Waker::wake);
        sent
    }

    /// Offers to `send` what is to be sent, until it has no room (it says false then) or nothing is left.
    pub(crate) fn pump(&self, mut send: impl FnMut(Outgoing<'_>) -> bool) -> Pumped {
        let mut state = self.lock();
        state.told = false;
        if state.over {
            return Pumped::Dry;
        }
        let mut made_room = false;
        let pumped = loop {
            let State { inbox, outbox, sent, single, ending, shape, .. } = &mut *state;
            if shape.client_streaming && ending.is_none() && inbox.owes_credit() {
                if !send(Outgoing::Credit(inbox.owed)) {
                    break Pumped::Full;
                }
                inbox.credited();
            } else if let Some(item) = outbox.front() {
                if !send(Outgoing::Item(*sent, item)) {
                    break Pumped::Full;
                }
                let bytes = outbox.pop_front().map_or(0, |item| item.len());
                *sent = sent.wrapping_add(1);
                state.outbox_bytes -= bytes;
                made_room = true;
            } else if let Some(ending) = ending {
                let result = ending.as_ref().map(|()| single.as_deref());
                break if send(Outgoing::Reply(*sent, result)) { Pumped::Over } else { Pumped::Full };
            } else {
                break Pumped::Dry;
            }
        };
        wake(state.writer.take_if(|_| made_room), state);
        pumped
    }
}

/// How a pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// Nothing is left to be sent.
    Dry,
    /// The link has no room.
    Full,
    /// The Reply was sent.
    Over,
}

fn wake(waker: Option<Waker>, state: MutexGuard<'_, State>) {
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn is_over() -> Status {
    Status::new(Code::Cancelled, "the call is over")
}
