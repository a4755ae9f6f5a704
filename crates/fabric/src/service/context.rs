//! What a handler knows of a call besides its message.

use crate::frame;
use crate::monitor::trace::TRACEPARENT;
use base::trace::{Scope, Tracer};
use base::units::Nanos;
use std::time::Duration;

/// A call's circumstances.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) metadata: &'a [u8],
    pub(crate) connection: u64,
    pub(crate) now: Nanos,
    pub(crate) deadline: Nanos,
    /// The `traceparent` of the call's own span; empty without one.
    pub(crate) span: &'a str,
    /// Where the server's spans go, if it has a monitor.
    pub(crate) tracer: Option<&'a Tracer>,
    pub(crate) reply_metadata: &'a mut Vec<u8>,
}

impl Context<'_> {
    /// What the caller sent beside the message; see [`frame::metadata`].
    pub fn metadata(&self) -> &[u8] {
        self.metadata
    }

    /// The value of a key of the caller's metadata.
    pub fn metadata_value(&self, key: &str) -> Option<&[u8]> {
        frame::metadata(self.metadata).find(|&(found, _)| found == key).map(|(_, value)| value)
    }

    /// The `traceparent` for calls that are made because of this one: of its own span if it leaves one, else as the caller sent it.
    pub fn traceparent(&self) -> Option<&[u8]> {
        match self.span {
            "" => self.metadata_value(TRACEPARENT),
            own => Some(own.as_bytes()),
        }
    }

    /// Where the handler may record parts of its own: spans of what it does for this call. Nothing if the call leaves none. Take it along to
    /// whichever thread answers a deferred call.
    pub fn scope(&self) -> Option<Scope> {
        let own = base::trace::Context::parse(self.traceparent()?).filter(|context| context.sampled)?;
        Some(Scope::of(self.tracer?, own))
    }

    /// The server's number of the connection that the call came over.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// How long the caller still waited when the handler was begun; nothing if without end.
    pub fn time_left(&self) -> Option<Duration> {
        (self.deadline != Nanos::MAX).then(|| self.deadline.since(self.now).into())
    }

    /// When the caller stops to wait, on the clock that drives the server; [`Nanos::MAX`] for never.
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// Sends an entry of metadata with the reply; false if it is no entry (see [`frame::push_metadata`]).
    #[must_use]
    pub fn push_metadata(&mut self, key: &str, value: &[u8]) -> bool {
        frame::push_metadata(self.reply_metadata, key, value)
    }
}
