//! A replica as its client sees it: an address, a channel while there is one, and what was asked over it.
//!
//! ```text
//!           ask                 a thread connects and asks who is there
//!  Closed ──────▶ Opening ──────────────────────────────────────────────▶ Open
//!     ▲              │ nobody, or somebody else: back-off                   │ the connection ends: at once
//!     └──────────────┴──────────────────────────────────────────────────────┘
//! ```
//! Connecting may block, so a thread does it; whoever waits is woken. What is asked meanwhile is held. What was asked over a connection
//! that ends has no answer: the machine asks again, here or elsewhere.
//!
//! Over a connection that lives nothing is lost, so what is under way there is not sent again before [`AGAIN`].
//!
//! Bounds: [`HELD`] messages while connecting; further ones are dropped, as a network would. Calls: those of the channel.

use super::info::Info;
use super::proto::millrace as proto;
use super::words;
use base::Nanos;
use base::trace::{Context, TRACEPARENT};
use fabric::channel::{CallOptions, Channel, Event, Options};
use fabric::frame::push_metadata;
use fabric::link::Address;
use fabric::status::{Code, Status};
use fabric::stub::StartError;
use proto::TxnClient;
use protocol::chain::message::{Refusal, RequestId};
use protocol::chain::{Message, ReplicaId, SessionId};
use ring::wait::Waker;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// Messages that wait for a connection.
pub(super) const HELD: usize = 1024;
/// The first pause after a connection could not be made; then twice that, …
const PAUSE: Nanos = Nanos::from_millis(5);
/// … and never longer than this.
const LONGEST_PAUSE: Nanos = Nanos::from_millis(320);
/// What was asked is sent again over the same connection after this at the earliest.
const AGAIN: Nanos = Nanos::from_millis(500);

/// A connection to a replica that said who it is.
pub(super) struct Opened {
    pub(super) channel: Channel,
    pub(super) stub: TxnClient,
    pub(super) info: Info,
}

/// A connection to who is there.
struct Connected {
    channel: Channel,
    stub: TxnClient,
    /// What a replica says; homes say nothing.
    info: Option<Info>,
}

/// Connects and asks who is there.
pub(super) fn open(address: &Address, options: &Options) -> Result<Opened, String> {
    let mut channel = Channel::connect(address, options).map_err(|error| error.to_string())?;
    let stub = TxnClient::new(&channel).map_err(|error| error.to_string())?;
    let info = ask_info(&mut channel, &stub, None, options.timeout).map_err(|status| status.to_string())?;
    Ok(Opened { channel, stub, info })
}

/// Connects to the home of boxes that takes transactions there.
fn open_home(address: &Address, options: &Options) -> Result<Connected, String> {
    let channel = Channel::connect(address, options).map_err(|error| error.to_string())?;
    let stub = TxnClient::new(&channel).map_err(|error| error.to_string())?;
    Ok(Connected { channel, stub, info: None })
}

fn open_replica(address: &Address, options: &Options) -> Result<Connected, String> {
    let Opened { channel, stub, info } = open(address, options)?;
    Ok(Connected { channel, stub, info: Some(info) })
}

/// Asks a replica for its view; with a checksum of its store as of an LSN (0: now) if that is given.
pub(super) fn ask_info(
    channel: &mut Channel,
    stub: &TxnClient,
    digest: Option<u64>,
    patience: Duration,
) -> Result<Info, Status> {
    let reply = stub.info(channel, &CallOptions::within(patience), |request| {
        request.set_digest(digest.is_some());
        request.set_digest_at(digest.unwrap_or(0));
        Ok(())
    })?;
    Info::take(reply.view())
}

/// What a call asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Open(u64),
    Close(SessionId),
    Execute(RequestId),
    Status(RequestId),
}

impl Asked {
    fn of(message: &Message) -> Option<Asked> {
        match message {
            Message::Open { token } => Some(Asked::Open(*token)),
            Message::Close { session } => Some(Asked::Close(*session)),
            Message::Request { id, .. } => Some(Asked::Execute(*id)),
            Message::Ask { id } => Some(Asked::Status(*id)),
            _ => None,
        }
    }

    /// Which request a refusal of this names.
    fn id(self) -> RequestId {
        match self {
            Asked::Open(token) => RequestId { session: SessionId(0), sequence: token },
            Asked::Close(session) => RequestId { session, sequence: 0 },
            Asked::Execute(id) | Asked::Status(id) => id,
        }
    }
}

/// Calls under way over one connection.
#[derive(Default)]
struct Calls {
    by_number: HashMap<u64, Asked>,
    /// When each was sent last.
    sent: HashMap<Asked, Nanos>,
    next: u64,
}

enum State {
    /// Not tried again before.
    Closed {
        until: Nanos,
    },
    Opening {
        opened: Receiver<Result<Connected, String>>,
        came: Option<Box<Result<Connected, String>>>,
        held: Vec<Message>,
    },
    Open {
        channel: Box<Channel>,
        stub: TxnClient,
        calls: Calls,
    },
}

/// A replica, or the home of boxes.
pub(super) struct Place {
    pub(super) replica: ReplicaId,
    is_home: bool,
    pub(super) address: Address,
    state: State,
    /// Connections that could not be made since one was.
    failures: u32,
    /// Why there was no connection, or no answer, the last time.
    trouble: Option<String>,
    /// What it said of the chain when the connection was made.
    news: Option<Box<Info>>,
}

impl Place {
    pub(super) fn new(replica: ReplicaId, address: Address) -> Place {
        let state = State::Closed { until: Nanos::ZERO };
        Place { replica, is_home: false, address, state, failures: 0, trouble: None, news: None }
    }

    /// The home of boxes. It is no replica.
    pub(super) fn home(address: Address) -> Place {
        Place { is_home: true, ..Place::new(ReplicaId(0), address) }
    }

    /// From now on this is the connection.
    pub(super) fn opened(&mut self, opened: Opened) {
        let Opened { channel, stub, info } = opened;
        self.connected_to(Connected { channel, stub, info: Some(info) });
    }

    fn connected_to(&mut self, Connected { channel, stub, info }: Connected) {
        self.state = State::Open { channel: Box::new(channel), stub, calls: Calls::default() };
        self.news = info.map(Box::new);
        (self.failures, self.trouble) = (0, None);
    }

    /// What it said of the chain, if it was connected to since this was asked.
    pub(super) fn take_news(&mut self) -> Option<Box<Info>> {
        self.news.take()
    }

    /// Whether it could not be connected to when that was tried last, or its connection ended and was not made anew.
    pub(super) fn is_out_of_reach(&self) -> bool {
        match &self.state {
            State::Open { .. } => false,
            State::Closed { .. } | State::Opening { .. } => self.failures > 0,
        }
    }

    /// The same replica, as somebody else tells of it: at another address, or with a connection. What is connected stays as it is.
    pub(super) fn become_other(&mut self, other: Place) {
        match (&self.state, &other.state) {
            (State::Open { .. }, _) => {}
            (_, State::Open { .. }) => *self = other,
            (State::Closed { .. }, _) if self.address != other.address => *self = other,
            _ => {}
        }
    }

    /// Why the last that was tried did not work.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The channel, if there is one: to be armed and waited for, or for a call of its own.
    pub(super) fn channel(&mut self) -> Option<(&mut Channel, &TxnClient)> {
        match &mut self.state {
            State::Open { channel, stub, .. } => Some((channel, stub)),
            State::Closed { .. } | State::Opening { .. } => None,
        }
    }

    /// The channel, made now if there is none: for calls that wait.
    pub(super) fn connected(&mut self, options: &Options) -> Result<(&mut Channel, &TxnClient), String> {
        let lives = matches!(&self.state, State::Open { channel, .. } if channel.is_open());
        if !lives {
            let opened = open(&self.address, options)?;
            self.opened(opened);
        }
        Ok(self.channel().expect("it is open"))
    }

    pub(super) fn channel_ref(&self) -> Option<&Channel> {
        match &self.state {
            State::Open { channel, .. } => Some(channel),
            State::Closed { .. } | State::Opening { .. } => None,
        }
    }

    /// Whether there is a connection, as of the last poll.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Whether a thread is connecting.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.state, State::Opening { .. })
    }

    /// Looks whether a poll would find something, and publishes what was asked.
    pub(super) fn look(&mut self) -> bool {
        match &mut self.state {
            State::Closed { .. } => false,
            State::Open { channel, .. } => channel.end().is_some() || channel.is_ready(),
            State::Opening { opened, came, .. } => {
                if came.is_none() {
                    *came = match opened.try_recv() {
                        Ok(opened) => Some(Box::new(opened)),
                        Err(TryRecvError::Empty) => None,
                        Err(TryRecvError::Disconnected) => {
                            Some(Box::new(Err("no thread to connect with".to_owned())))
                        }
                    };
                }
                came.is_some()
            }
        }
    }

    /// Asks; over a new connection if there is none and it is time to try.
    pub(super) fn ask(&mut self, now: Nanos, message: Message, options: &Options, waker: &Waker) {
        match &mut self.state {
            State::Closed { until } if now < *until => {}
            State::Closed { .. } => self.begin(vec![message], options, waker),
            State::Opening { held, .. } if held.len() < HELD => held.push(message),
            State::Opening { .. } => {}
            State::Open { channel, stub, calls } => send(channel, stub, calls, now, &message),
        }
    }

    fn begin(&mut self, held: Vec<Message>, options: &Options, waker: &Waker) {
        let (said, opened) = channel();
        let (address, options, waker) = (self.address.clone(), options.clone(), waker.clone());
        let open = if self.is_home { open_home } else { open_replica };
        let connect = move || {
            // Nobody listens when the client is gone.
            let _ = said.send(open(&address, &options));
            waker.wake();
        };
        // Without a thread `opened` hears nothing more, which is as good as a failure.
        let _ = std::thread::Builder::new().name("txn-connect".to_owned()).spawn(connect);
        self.state = State::Opening { opened, came: None, held };
    }

    /// Takes what came; how much that is.
    pub(super) fn poll(&mut self, now: Nanos, mut hear: impl FnMut(Message)) -> usize {
        self.look();
        if let State::Opening { came, held, .. } = &mut self.state {
            let Some(opened) = came.take() else { return 0 };
            let held = std::mem::take(held);
            return self.settle(now, *opened, &held);
        }
        let State::Open { channel, calls, .. } = &mut self.state else { return 0 };
        let mut trouble = None;
        let count = channel.poll(usize::MAX, |event| {
            let Some(asked) = calls.by_number.remove(&event.user) else { return };
            calls.sent.remove(&asked);
            match answered(asked, event) {
                Ok(Some(message)) => hear(message),
                Ok(None) => {}
                // Else as good as silence: it may have been done.
                Err(status) => {
                    if let Some(why) = denial(&status) {
                        hear(Message::Refused { id: asked.id(), why });
                    }
                    trouble = Some(status.to_string());
                }
            }
        });
        let over = channel.end().is_some() || (!channel.is_open() && channel.in_flight() == 0);
        if over && count == 0 {
            trouble = channel.end().map(str::to_owned);
            self.state = State::Closed { until: now };
        }
        self.trouble = trouble.or(self.trouble.take());
        count + usize::from(over)
    }

    /// What came of connecting.
    fn settle(&mut self, now: Nanos, opened: Result<Connected, String>, held: &[Message]) -> usize {
        let checked = opened.and_then(|opened| match &opened.info {
            Some(info) if info.replica != self.replica => Err(format!("replica {} is there", info.replica.0)),
            _ => Ok(opened),
        });
        match checked {
            Ok(opened) => {
                self.connected_to(opened);
                if let State::Open { channel, stub, calls } = &mut self.state {
                    held.iter().for_each(|message| send(channel, stub, calls, now, message));
                }
            }
            Err(why) => {
                let pause = Nanos(PAUSE.0 << self.failures.min(16)).min(LONGEST_PAUSE);
                self.failures += 1;
                self.state = State::Closed { until: now.plus(pause) };
                self.trouble = Some(why);
            }
        }
        1
    }
}

/// What a server says by this status of whoever has no right to a call.
pub(super) fn denial(status: &Status) -> Option<Refusal> {
    (status.code() == Code::PermissionDenied).then(|| Refusal::Denied(status.message().to_owned()))
}

/// Sends what is not under way. What does not fit is dropped: it will be asked again.
fn send(channel: &mut Channel, stub: &TxnClient, calls: &mut Calls, now: Nanos, message: &Message) {
    let Some(asked) = Asked::of(message) else { return };
    if calls.sent.get(&asked).is_some_and(|sent| now.since(*sent) < AGAIN) {
        return;
    }
    let number = calls.next;
    if start(channel, stub, number, message).is_ok() {
        calls.next += 1;
        calls.by_number.insert(number, asked);
        calls.sent.insert(asked, now);
    }
}

fn start(channel: &mut Channel, stub: &TxnClient, number: u64, message: &Message) -> Result<(), StartError> {
    let mut metadata = Vec::new();
    if let Message::Request { transaction, .. } = message
        && let Some(context) = transaction.trace.0.as_ref().and_then(Context::from_bytes)
    {
        // One entry has room.
        let _ = push_metadata(&mut metadata, TRACEPARENT, context.emit().as_bytes());
    }
    let options = CallOptions { metadata: &metadata, ..CallOptions::default() };
    match message {
        Message::Open { .. } => stub.open_async(channel, &options, number, |_| Ok(())),
        Message::Close { session } => stub.close_async(channel, &options, number, |request| {
            words::put_session(*session, |bytes| request.set_session(bytes))
        }),
        Message::Request { id, transaction } => stub.execute_async(channel, &options, number, |request| {
            words::put_request(*id, transaction, request)
        }),
        Message::Ask { id } => stub.status_async(channel, &options, number, |request| {
            request.set_sequence(id.sequence);
            words::put_session(id.session, |bytes| request.set_session(bytes))
        }),
        _ => return Ok(()),
    }
    .map(|_| ())
}

/// The end of a call as the machine's message; nothing for what it does not wait for.
fn answered(asked: Asked, mut event: Event<'_>) -> Result<Option<Message>, Status> {
    let id = asked.id();
    let refused = |why| Message::Refused { id, why };
    Ok(match asked {
        Asked::Open(token) => Some(match words::take_opened(event.message::<proto::OpenReply>()?)? {
            Ok((session, window)) => Message::Opened { token, session, window },
            Err(why) => refused(why),
        }),
        Asked::Execute(_) => Some(match words::take_answer(event.message::<proto::ExecuteReply>()?)? {
            Ok(outcome) => Message::Reply { id, outcome },
            Err(why) => refused(why),
        }),
        Asked::Status(_) => Some(match words::take_status(event.message::<proto::StatusReply>()?)? {
            Ok(status) => Message::Told { id, status },
            Err(why) => refused(why),
        }),
        Asked::Close(_) => {
            let reply = event.message::<proto::CloseReply>()?;
            reply.refusal().map(words::take_refusal).transpose()?.map(refused)
        }
    })
}
