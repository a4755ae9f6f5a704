//! What a handler has of an accelerator while it handles a message that was placed by it.
//!
//! Behind a trait object, so that neither handlers nor generated code know what the accelerator's crossing is.

use super::kernels::MOST;
use crate::status::{Code, Status};
use codec::memory::{Arena, OutOfMemory, Place};
use codec::place::{BytesTarget, Copies, MoveError, Placed, RunError, TextField};
use codec::unit::{KernelError, Span, TaskError, likely_room, longer_room};

/// The accelerator, as a handler's call needs it.
pub(crate) trait Near {
    /// An empty message of a class of the schema of that layout.
    fn message(&self, layout_hash: u64, class: u32) -> Result<Placed, Status>;

    fn bring(&mut self, copies: &mut Copies<'_>, field: &TextField<'_>, to: Place)
    -> Result<bool, MoveError>;

    /// Whether a unit has the kernel of that number.
    fn has_unit(&self, kernel: usize) -> bool;

    /// Runs the kernel of that number; the memory of the result is added to `results`.
    ///
    /// # Safety
    /// As [`codec::place::FieldUnit::run_into`].
    unsafe fn run(
        &mut self,
        kernel: usize,
        input: Span,
        target: &mut BytesTarget<'_, '_>,
        results: &mut Vec<Arena>,
        room: u32,
    ) -> Result<usize, RunError>;
}

/// A call whose request an accelerator has placed.
pub(crate) struct InCall<'a> {
    pub(crate) near: &'a mut dyn Near,
    pub(crate) request: &'a Placed,
    /// Where the reply is put.
    pub(crate) reply: &'a mut Option<Placed>,
}

/// The same while the handler runs.
pub(crate) struct Hand<'a> {
    near: &'a mut dyn Near,
    copies: Copies<'a>,
    /// What units wrote for the reply.
    results: Vec<Arena>,
    /// The arena that the reply is built in; compared, never followed.
    reply: *const Arena,
}

impl<'a> Hand<'a> {
    pub(crate) fn new(near: &'a mut dyn Near, request: &'a Placed, reply: &Placed) -> Hand<'a> {
        Hand { near, copies: Copies::of(request), results: Vec::new(), reply: reply.arena() }
    }

    /// The reply gets what units wrote for it.
    pub(crate) fn finish(self, reply: &mut Placed) {
        self.results.into_iter().for_each(|memory| reply.adopt(memory));
    }

    pub(super) fn is_in_acc(&self, field: &TextField<'_>) -> bool {
        self.copies.is_in_acc(field)
    }

    pub(super) fn is_of_request(&self, field: &TextField<'_>) -> bool {
        self.copies.are_of(field)
    }

    pub(super) fn bring(&mut self, field: &TextField<'_>, to: Place) -> Result<bool, MoveError> {
        self.near.bring(&mut self.copies, field, to)
    }

    /// A field's bytes on the host; brought if they are not there.
    pub(super) fn host_bytes<'c>(&'c mut self, field: &TextField<'c>) -> Result<&'c [u8], Status> {
        self.bring(field, Place::Host).map_err(|error| not_moved(&error))?;
        Ok(self.copies.host_bytes(field).expect("it was brought"))
    }

    pub(super) fn unit_is_there(&self, kernel: usize) -> bool {
        self.near.has_unit(kernel)
    }

    /// Whether a unit would do it.
    pub(super) fn has_unit(
        &self,
        kernel: usize,
        field: &TextField<'_>,
        target: &BytesTarget<'_, '_>,
    ) -> bool {
        let of_call = || self.is_of_request(field) && std::ptr::eq(target.arena(), self.reply);
        field.is_there() && self.near.has_unit(kernel) && of_call()
    }

    /// Has a unit do it: false if none could, for a reason that is not the field's.
    pub(super) fn run(
        &mut self,
        kernel: usize,
        bound: impl FnOnce(usize) -> usize,
        field: &TextField<'_>,
        target: &mut BytesTarget<'_, '_>,
    ) -> Result<bool, KernelError> {
        if self.bring(field, Place::Acc).is_err() {
            return Ok(false);
        }
        let Some(input) = self.copies.span(field) else { return Ok(false) };
        let len = input.len as usize;
        let mut room = likely_room(bound(len), len, MOST);
        loop {
            // SAFETY: the input is of a finished field, or a copy that nobody else knows; `finish` gives the reply the results, and
            // the target is one of the reply's (`has_unit`).
            let done = unsafe { self.near.run(kernel, input, target, &mut self.results, room as u32) };
            match done {
                Ok(_) => return Ok(true),
                Err(RunError::Task(TaskError::Kernel(KernelError::OutputTooSmall { needed }))) => {
                    room = longer_room(room, needed, MOST).ok_or(KernelError::TooLarge)?;
                }
                Err(RunError::Task(TaskError::Kernel(error))) => return Err(error),
                // The unit died, was taken away or has no room, or its memory has none.
                Err(_) => return Ok(false),
            }
        }
    }
}

#[cold]
pub(super) fn not_moved(error: &MoveError) -> Status {
    let code = if *error == MoveError::OutOfMemory { Code::ResourceExhausted } else { Code::Internal };
    Status::new(code, format!("a field of the request could not be moved: {error}"))
}

#[cold]
pub(super) fn not_done(kernel: &str, error: KernelError) -> Status {
    let code = match error {
        KernelError::Corrupt => Code::InvalidArgument,
        KernelError::OutputTooSmall { .. } | KernelError::TooLarge => Code::ResourceExhausted,
        KernelError::Exhausted => Code::FailedPrecondition,
    };
    Status::new(code, format!("{kernel}: {error}"))
}

#[cold]
pub(super) fn no_memory(_: OutOfMemory) -> Status {
    Status::new(Code::ResourceExhausted, "no memory for the reply")
}
