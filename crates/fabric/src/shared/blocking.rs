//! A member's calls that wait for their outcome, and messages instead of bytes. Events of other calls wait for the next poll.

use super::call::body_of;
use super::letters;
use super::member::{Arrived, Member};
use crate::channel::{CallId, CallOptions, Method, Response, Scratch, StartError, Typed, undecodable};
use crate::status::{Code, Status};
use codec::memory::OutOfMemory;
use codec::typed::{Message, Owned};
use std::time::Instant;

/// Outcomes that are taken in one go.
const BATCH: usize = 64;

impl Member {
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
        self.outcome(method, options, body, |body, metadata, _| {
            Ok(Response { body: body.to_vec(), metadata: metadata.to_vec() })
        })
    }

    /// As [`Member::start`], with a message.
    ///
    /// # Errors
    /// As [`Member::start`].
    pub fn start_message<M: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        user: u64,
        message: M::View<'_>,
    ) -> Result<CallId, StartError> {
        self.with_typed(|member, typed| member.start(method, options, user, typed.encoded::<M>(message)?))
    }

    /// As [`Member::start`], with a message that `fill` builds.
    ///
    /// # Errors
    /// As [`Member::start`].
    pub fn build<M: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        user: u64,
        fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<CallId, StartError> {
        self.with_typed(|member, typed| member.start(method, options, user, typed.built::<M>(fill)?))
    }

    /// Calls a unary method and waits for its outcome.
    ///
    /// # Errors
    /// As [`Member::call_bytes`]; INTERNAL if the reply is no `R`.
    pub fn call<Q: Message, R: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        request: Q::View<'_>,
    ) -> Result<Owned<R>, Status> {
        self.with_typed(|member, typed| {
            let body = typed.encoded::<Q>(request)?;
            member.outcome(method, options, body, owned)
        })
    }

    /// As [`Member::call`], with a message that `fill` builds.
    ///
    /// # Errors
    /// As [`Member::call`].
    pub fn call_built<Q: Message, R: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<Owned<R>, Status> {
        self.with_typed(|member, typed| {
            let body = typed.built::<Q>(fill)?;
            member.outcome(method, options, body, owned)
        })
    }

    /// Calls, waits, and takes the reply with `take`.
    fn outcome<T>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        body: &[u8],
        take: impl FnOnce(&[u8], &[u8], &mut Scratch) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let call = self.start_waiting(method, options, body)?;
        let (mut take, mut taken) = (Some(take), None);
        loop {
            // Whoever waits hands the request in.
            self.wait_for_letters(self.policy, None);
            self.take_aside(|arrived, scratch| {
                let is_it = arrived.call == call;
                if is_it {
                    let (what, metadata) = letters::told(arrived.bytes);
                    let take = take.take().expect("a call has one outcome");
                    taken = Some(body_of(what).and_then(|body| take(body, metadata, scratch)));
                }
                is_it
            });
            if let Some(taken) = taken {
                return taken;
            }
        }
    }

    /// Starts a call when there is room for it, within its own timeout.
    fn start_waiting(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        body: &[u8],
    ) -> Result<CallId, Status> {
        let mut begin = None;
        loop {
            match self.write(method, options, 0, body) {
                Err(StartError::Full) => {}
                other => return other.map_err(Status::from),
            }
            // The clock is read only by those who have to wait.
            let waited = begin.get_or_insert_with(Instant::now).elapsed();
            let left = options.timeout.map(|timeout| timeout.saturating_sub(waited));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Status::new(Code::DeadlineExceeded, "no room for the call within its time"));
            }
            self.wait_for_letters(self.policy, left);
            self.take_aside(|_, _| false);
        }
    }

    /// Takes outcomes that have arrived. They wait for the next poll, but for those that `each` takes.
    fn take_aside(&mut self, mut each: impl FnMut(&Arrived<'_>, &mut Scratch) -> bool) {
        let mut backlog = std::mem::take(&mut self.backlog);
        self.take_arrived(BATCH, |arrived, scratch| {
            if !each(&arrived, scratch) {
                backlog.push_back(arrived.keep());
            }
        });
        self.backlog = backlog;
    }

    /// Takes the encoder out for a while, so that what it holds can be sent. (After a panic of `with` there is a new one.)
    #[inline]
    fn with_typed<T>(&mut self, with: impl FnOnce(&mut Member, &mut Typed) -> T) -> T {
        let mut typed = self.typed.take().unwrap_or_default();
        let result = with(self, &mut typed);
        self.typed = Some(typed);
        result
    }
}

/// The reply as a message that owns its memory.
fn owned<R: Message>(body: &[u8], _: &[u8], scratch: &mut Scratch) -> Result<Owned<R>, Status> {
    Owned::decode(&mut scratch.decoder, body).map_err(undecodable)
}
