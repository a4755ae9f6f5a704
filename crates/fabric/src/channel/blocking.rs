//! Calls that wait for their outcome. Events of other calls wait for the next poll.

use super::event::{Scratch, What};
use super::{CallId, CallOptions, Channel, Method, StartError};
use crate::frame::metadata;
use crate::status::{Code, Status};
use base::units::Nanos;
use std::time::Duration;

/// How soon a full link is tried again at the latest: room on it is no event that a wait ends with.
pub(super) const AGAIN: Duration = Duration::from_millis(1);

/// A reply that owns its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The message, encoded.
    pub body: Vec<u8>,
    /// Encoded metadata; see [`Response::metadata_entries`].
    pub metadata: Vec<u8>,
}

impl Response {
    /// The metadata that came with it.
    pub fn metadata_entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        metadata(&self.metadata)
    }
}

impl Channel {
    /// Calls a unary method and waits for its outcome.
    ///
    /// # Errors
    /// Whatever the call ended with; that it could not be started, too.
    pub fn call_bytes(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        body: &[u8],
    ) -> Result<Response, Status> {
        let call = self.start_waiting(method, options, body)?;
        self.outcome(call, |body, metadata, _| {
            Ok(Response { body: body.to_vec(), metadata: metadata.to_vec() })
        })
    }

    /// The descriptor set of all that the server serves: `google.protobuf.FileDescriptorSet`, encoded.
    ///
    /// # Errors
    /// As [`Channel::call_bytes`]; UNIMPLEMENTED if the server does not tell.
    pub fn reflect(&mut self, options: &CallOptions<'_>) -> Result<Vec<u8>, Status> {
        let service = self.services().iter().find(|service| service.name == "millrace.Reflection");
        let method = service.and_then(|service| service.methods.first());
        let path = method.map(|method| format!("/millrace.Reflection/{}", method.name));
        let Some(method) = path.and_then(|path| self.method(&path)) else {
            return Err(Status::new(Code::Unimplemented, "the server does not describe its services"));
        };
        Ok(self.call_bytes(method, options, &[])?.body)
    }

    /// Asks the server for a sign of life; how long it took.
    ///
    /// # Errors
    /// The connection is over, or `timeout` has passed.
    pub fn ping(&mut self, timeout: Duration) -> Result<Duration, Status> {
        let begin = self.time.now();
        let until = begin.plus(Nanos::from(timeout));
        // Not the number of an earlier one that was given up.
        let number = self.core.pong.map_or(begin.0 as u32, |last| last.wrapping_add(1));
        self.core.ping = Some(number);
        loop {
            self.take_turn();
            let now = self.time.now();
            if self.core.pong == Some(number) {
                return Ok(Duration::from(now.since(begin)));
            }
            if let Some(why) = self.end() {
                return Err(Status::new(Code::Unavailable, why));
            }
            if now >= until {
                return Err(Status::new(Code::DeadlineExceeded, "no answer to a ping"));
            }
            self.wait_for_frames(self.policy, Some(Duration::from(until.since(now))));
        }
    }

    /// Starts a call when there is room for it, within its own timeout.
    pub(super) fn start_waiting(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        body: &[u8],
    ) -> Result<CallId, Status> {
        if !method.is_unary() {
            return Err(StartError::Shape.into());
        }
        let begin = self.time.now();
        loop {
            match self.start(method, options, 0, body) {
                Err(StartError::Full) => {}
                other => return other.map_err(Status::from),
            }
            let waited = Duration::from(self.time.now().since(begin));
            if options.timeout.is_some_and(|timeout| waited >= timeout) {
                return Err(Status::new(Code::DeadlineExceeded, "no room for the call within its time"));
            }
            if self.take_turn() == 0 {
                let left = options.timeout.map_or(AGAIN, |timeout| timeout.saturating_sub(waited));
                self.wait_for_frames(self.policy, Some(left.min(AGAIN)));
            }
        }
    }

    /// Waits for a unary call's outcome and takes it with `take`.
    pub(super) fn outcome<T>(
        &mut self,
        call: CallId,
        mut take: impl FnMut(&[u8], &[u8], &mut Scratch) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut taken = None;
        loop {
            let mut others = std::mem::take(&mut self.backlog);
            let now = self.time.now();
            let count = self.turn::<false>(now, 1, |happened, scratch| {
                if happened.call != call {
                    others.push_back(happened.keep());
                    return;
                }
                taken = Some(match happened.what {
                    What::Reply(body) => take(body, happened.metadata, scratch),
                    What::Failed(status) => Err(status),
                    What::Item(_) | What::End => Err(Status::new(Code::Internal, "a unary call streamed")),
                });
            });
            self.backlog = others;
            if let Some(taken) = taken {
                return taken;
            }
            if count == 0 {
                self.wait_for_frames(self.policy, None);
            }
        }
    }

    /// A turn whose events wait for the next poll; how many there were.
    pub(super) fn take_turn(&mut self) -> usize {
        let mut backlog = std::mem::take(&mut self.backlog);
        let now = self.time.now();
        let count = self.turn::<false>(now, 64, |happened, _| backlog.push_back(happened.keep()));
        self.backlog = backlog;
        count
    }
}
