//! What a handler knows of a call besides its message, and what it may have done to its fields.
//!
//! A handler is the same with and without an accelerator. With one, fields of the request may be in its memory, where a view cannot read
//! them: reading one panics with the advice to bring it, which ends that call with INTERNAL and nothing else. Why not read across
//! unasked: it would hide the very thing that automatic field updating is there to make rare, and a view, one pointer, knows no
//! memory. A field goes there only if its .proto says so (`acc`) or a handler of the class brought it there itself, by [`Context::run`] or
//! [`Context::move_to_acc`]; a handler that does either reads that field by [`Context::bytes`], which brings it where it must. So code
//! that knows nothing of accelerators never meets such a field.

use super::hand::{Hand, no_memory, not_done, not_moved};
use super::kernels::{Kernels, OnThisThread};
use crate::frame;
use crate::monitor::trace::TRACEPARENT;
use crate::status::{Code, Status};
use base::Clock;
use base::trace::{self, Kind, OK, Scope, Tracer};
use base::units::Nanos;
use codec::memory::Place;
use codec::place::{BytesTarget, FieldId, MoveError, TextField};
use codec::typed::{MessageEdit, MessageView};
use std::fmt;
use std::time::Duration;

/// Where work on a field was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// By a compute unit; the result is in accelerator memory.
    Unit,
    /// By the kernel on the handler's thread.
    Host,
}

/// A call's circumstances.
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
    pub(crate) kernels: &'a Kernels,
    pub(crate) on_thread: &'a mut OnThisThread,
    /// While a message is handled that an accelerator has placed. Boxed: other calls pay for one word.
    pub(crate) hand: Option<Box<Hand<'a>>>,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context(connection {}, accelerated: {})", self.connection, self.hand.is_some())
    }
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
    /// Has the kernel of that name read a string or bytes field of the request, and puts its result into a bytes field of the reply.
    /// Where a compute unit has the kernel the field is brought to it, which later messages of the class take note of, and the result stays
    /// in accelerator memory; else, or if the unit is lost in the middle, the same kernel runs here.
    ///
    /// The messages may be sub-messages of request and reply. A field that is absent is read as empty.
    ///
    /// # Errors
    /// UNIMPLEMENTED if the server has no kernel of that name; INVALID_ARGUMENT if it cannot read the field;
    /// RESOURCE_EXHAUSTED if the result would be longer than a message may be, or there is no memory. The reply is as before.
    ///
    /// # Panics
    /// If a field is of another message or of another kind.
    pub fn run<'q, 'r, Q: MessageView<'q>, R: MessageEdit<'r>>(
        &mut self,
        kernel: &str,
        request: Q,
        from: FieldId,
        reply: &mut R,
        into: FieldId,
    ) -> Result<Ran, Status> {
        let Some(number) = self.kernels.number(kernel) else { return Err(no_kernel(kernel)) };
        let (field, mut target) = (TextField::of(request, from), BytesTarget::of(reply, into));
        let traced = self.scope().map(|scope| scope.open(Clock::shared().now()));
        let Context { kernels, on_thread, hand, .. } = self;
        if let Some(hand) = hand.as_mut().filter(|hand| hand.has_unit(number, &field, &target)) {
            let bound = |len| on_thread.bound(kernels, number, len);
            let done = hand.run(number, bound, &field, &mut target);
            if done.map_err(|error| not_done(kernel, error))? {
                if let Some(open) = traced {
                    let (name, end) = (format!("unit {kernel}"), Clock::shared().now());
                    open.end_as(Kind::Part, name, trace::Place::Accelerator, end, OK, None, "units".into());
                }
                return Ok(Ran::Unit);
            }
        }
        let input = on_host(hand, &field)?;
        let result = on_thread.run(kernels, number, input).map_err(|error| not_done(kernel, error))?;
        target.set(result).map_err(no_memory)?;
        Ok(Ran::Host)
    }

    /// Whether a compute unit has the kernel of that name now.
    pub fn has_unit(&self, kernel: &str) -> bool {
        let number = self.kernels.number(kernel);
        self.hand.as_ref().zip(number).is_some_and(|(hand, number)| hand.unit_is_there(number))
    }

    /// The bytes of a string or bytes field of the request, brought to the host if they are in accelerator memory.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED: there is no memory for them.
    ///
    /// # Panics
    /// If the field is of another message or of another kind.
    pub fn bytes<'c, Q: MessageView<'c>>(
        &'c mut self,
        request: Q,
        field: FieldId,
    ) -> Result<&'c [u8], Status> {
        on_host(&mut self.hand, &TextField::of(request, field))
    }

    /// RPCAcc Table III, `isInAcc`: whether a string or bytes field of the request is in accelerator memory.
    ///
    /// # Panics
    /// If the field is of another message or of another kind.
    pub fn is_in_acc<'q, Q: MessageView<'q>>(&self, request: Q, field: FieldId) -> bool {
        let field = TextField::of(request, field);
        self.hand.as_ref().is_some_and(|hand| hand.is_in_acc(&field))
    }

    /// RPCAcc Table III, `moveToAcc`: brings a string or bytes field of the request to accelerator memory; true if it was not there. Views
    /// of it read what they did. Without an accelerator nothing happens.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED: there is no memory for it.
    ///
    /// # Panics
    /// If the field is of another message or of another kind.
    pub fn move_to_acc<'q, Q: MessageView<'q>>(
        &mut self,
        request: Q,
        field: FieldId,
    ) -> Result<bool, Status> {
        self.bring(&TextField::of(request, field), Place::Acc)
    }

    /// RPCAcc Table III, `moveToCPU`: the same to host memory, where [`Context::bytes`] reads it.
    ///
    /// # Errors
    /// As [`Context::move_to_acc`].
    ///
    /// # Panics
    /// As there.
    pub fn move_to_cpu<'q, Q: MessageView<'q>>(
        &mut self,
        request: Q,
        field: FieldId,
    ) -> Result<bool, Status> {
        self.bring(&TextField::of(request, field), Place::Host)
    }

    fn bring(&mut self, field: &TextField<'_>, to: Place) -> Result<bool, Status> {
        let Some(hand) = self.hand.as_mut().filter(|hand| hand.is_of_request(field)) else {
            return Ok(false);
        };
        hand.bring(field, to).map_err(|error: MoveError| not_moved(&error))
    }
}

/// A field's bytes on the host.
fn on_host<'c>(hand: &'c mut Option<Box<Hand<'_>>>, field: &TextField<'c>) -> Result<&'c [u8], Status> {
    match (field.host_bytes(), hand) {
        (Some(bytes), _) => Ok(bytes),
        (None, Some(hand)) => hand.host_bytes(field),
        (None, None) => {
            Err(Status::new(Code::Internal, "the field is in the memory of no accelerator of this call"))
        }
    }
}

#[cold]
fn no_kernel(name: &str) -> Status {
    Status::new(
        Code::Unimplemented,
        format!("this server has no kernel {name}: give it one with Server::kernels"),
    )
}
