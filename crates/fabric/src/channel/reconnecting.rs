//! A client that connects again when its connection is over, and sends again what may be sent again.
//!
//! ```text
//!  call ──▶ not sent: the connection was over before ──▶ connect ──▶ send
//!       └─▶ sent, and the connection broke ── idempotent ──▶ connect ──▶ send again
//!                                          └─ not ─────────▶ UNAVAILABLE, lost: it may have taken effect or not
//! ```
//! Invariants:
//! 1. A call whose method is not idempotent is sent at most once ([`Method::may_repeat`] is the one rule, the gateway's too).
//! 2. A call takes no longer than its timeout, connecting included.
//!
//! Bounds: between two attempts to connect to a server that refuses, 1 ms and twice as long each time, up to 100 ms; altogether the call's
//! timeout, and [`Options::timeout`] if that is shorter or the call has none.
//!
//! What is in flight besides (calls of [`Caller::build`]) is told as for a [`Channel`]: lost with its connection.

use super::typed::Typed;
use super::{CallId, CallOptions, Caller, Channel, Method, Options, Response, StartError, find_method};
use crate::channel::event::undecodable;
use crate::connection::ConnectError;
use crate::connection::handshake::ServiceInfo;
use crate::link::Address;
use crate::status::{Code, Status};
use codec::decode::Decoder;
use codec::memory::OutOfMemory;
use codec::typed::{Message, Owned};
use std::time::{Duration, Instant};

/// Pauses between attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

impl Method {
    /// Whether a call that ended so may be sent again: it was lost with its connection, and twice does what once does.
    pub fn may_repeat(self, outcome: &Status) -> bool {
        self.is_idempotent() && self.is_unary() && outcome.is_lost()
    }
}

/// See the head of the file.
pub struct Reconnecting {
    address: Address,
    options: Options,
    channel: Channel,
    /// What the first server offered: methods are numbered as there.
    services: Vec<ServiceInfo>,
    typed: Typed,
    decoder: Decoder,
    counters: ReconnectingCounters,
}

/// What it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReconnectingCounters {
    /// Connections after the first.
    pub connects: u64,
    /// Calls sent again.
    pub repeated: u64,
    /// Calls that ended as lost: not idempotent, or out of time.
    pub lost: u64,
}

impl Reconnecting {
    /// Connects.
    ///
    /// # Errors
    /// As [`Channel::connect`].
    pub fn connect(address: &Address, options: &Options) -> Result<Reconnecting, ConnectError> {
        let channel = Channel::connect(address, options)?;
        Ok(Reconnecting {
            address: address.clone(),
            options: options.clone(),
            services: channel.services().to_vec(),
            channel,
            typed: Typed::default(),
            decoder: Decoder::default(),
            counters: ReconnectingCounters::default(),
        })
    }

    /// The connection as it is now: for events of calls that [`Caller::build`] started.
    pub fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// What it did.
    pub fn counters(&self) -> ReconnectingCounters {
        self.counters
    }

    /// Calls a unary method and waits for its outcome.
    ///
    /// # Errors
    /// Whatever the call ended with; UNAVAILABLE if the server cannot be reached in time, and [lost](Status::is_lost) if it may have
    /// taken effect.
    pub fn call_bytes(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        body: &[u8],
    ) -> Result<Response, Status> {
        self.call(method, options, body)
    }

    fn call(&mut self, method: Method, options: &CallOptions<'_>, body: &[u8]) -> Result<Response, Status> {
        let begin = Instant::now();
        let mut lost = None;
        loop {
            let timeout = options.timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            if !self.channel.is_open()
                && let Err(status) = self.connect_again(timeout)
            {
                return Err(lost.unwrap_or(status));
            }
            let Some(here) = self.here(method) else {
                return Err(Status::new(Code::Unimplemented, "the server came back without the method"));
            };
            let left = options.timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            if left == Some(Duration::ZERO) {
                let late = || Status::new(Code::DeadlineExceeded, "the call's time is over");
                return Err(lost.unwrap_or_else(late));
            }
            let options = CallOptions { timeout: left, ..*options };
            let call = match self.channel.start_waiting(here, &options, body) {
                Ok(call) => call,
                // Nothing was sent: over the next connection, whatever the method.
                Err(_) if !self.channel.is_open() => continue,
                Err(status) => return Err(status),
            };
            let outcome = self.channel.outcome(call, |body, metadata, _| {
                Ok(Response { body: body.to_vec(), metadata: metadata.to_vec() })
            });
            match outcome {
                Err(status) if method.may_repeat(&status) => {
                    self.counters.repeated += 1;
                    lost = Some(status);
                }
                Err(status) => {
                    self.counters.lost += u64::from(status.is_lost());
                    return Err(status);
                }
                Ok(response) => return Ok(response),
            }
        }
    }

    /// The method as the server of now numbers it.
    fn here(&self, method: Method) -> Option<Method> {
        if self.channel.services() == self.services {
            return Some(method);
        }
        let mut first = self.services.iter().flat_map(|service| {
            service.methods.iter().map(move |info| (info.number, &service.name, &info.name))
        });
        let (_, service, name) = first.find(|(number, ..)| *number == method.number())?;
        let found = find_method(self.channel.services(), &format!("/{service}/{name}"))?;
        let same = found.is_client_streaming() == method.is_client_streaming()
            && found.is_server_streaming() == method.is_server_streaming();
        same.then(|| found.idempotent(method.is_idempotent()))
    }

    /// Another connection, within that time.
    fn connect_again(&mut self, timeout: Option<Duration>) -> Result<(), Status> {
        let begin = Instant::now();
        let patience = timeout.map_or(self.options.timeout, |timeout| timeout.min(self.options.timeout));
        let mut pause = PAUSE_MIN;
        loop {
            let left = patience.saturating_sub(begin.elapsed());
            let options = Options { timeout: left, ..self.options.clone() };
            let error = match Channel::connect(&self.address, &options) {
                Ok(channel) => {
                    self.channel = channel;
                    self.counters.connects += 1;
                    return Ok(());
                }
                Err(error) => error,
            };
            if begin.elapsed() + pause >= patience {
                return Err(Status::new(Code::Unavailable, format!("{}: {error}", self.address)));
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

impl Caller for Reconnecting {
    fn method(&self, path: &str) -> Option<Method> {
        find_method(&self.services, path)
    }

    fn build<M: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        user: u64,
        fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<CallId, StartError> {
        if !self.channel.is_open() {
            self.connect_again(options.timeout).map_err(|_| StartError::Gone)?;
        }
        let here = self.here(method).ok_or(StartError::Shape)?;
        self.channel.build::<M>(here, options, user, fill)
    }

    fn call_built<Q: Message, R: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<Owned<R>, Status> {
        // Out while it is sent from, perhaps twice.
        let mut typed = std::mem::take(&mut self.typed);
        let result = match typed.built::<Q>(fill) {
            Ok(body) => self.call(method, options, body),
            Err(error) => Err(error.into()),
        };
        self.typed = typed;
        let response = result?;
        Owned::decode(&mut self.decoder, &response.body).map_err(undecodable)
    }
}

impl std::fmt::Debug for Reconnecting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reconnecting({}, {:?})", self.address, self.counters)
    }
}
