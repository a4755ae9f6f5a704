//! Compute units that work on fields of messages, without unsafe code of the user's.
//!
//! A task reads a bytes field of one message, where it lies in accelerator memory, and its result becomes a bytes field of
//! another one, which stays there too: no byte crosses, only a descriptor and a notification.
//!
//! Invariants: (1) the messages of a task live, unchanged, until its outcome is here: borrowed ([`FieldUnit::run`]) or held
//! ([`FieldUnit::submit`]); (2) the unit ends before what is held is dropped (order of fields); (3) the messages are in the
//! memory that the unit has its port to (asserted).
//!
//! Sources: RPCAcc III-D (descriptor ring, notification ring), Table II.

use super::accelerator::Accelerator;
use super::live::FieldId;
use super::message::Placed;
use crate::crossing::Crossing;
use crate::memory::{Arena, Memory, OutOfMemory};
use crate::object::Addr;
use crate::unit::{Descriptor, Kernel, Options, ProgramError, Refused, Span, Task, TaskError, Unit};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The input field is not present or not in accelerator memory, or a message around the output field is not present.
    NotThere,
    /// The unit takes no task now.
    Refused(Refused),
    /// The task failed.
    Task(TaskError),
    /// The accelerator's memory has no room for the result.
    OutOfMemory,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::NotThere => f.write_str("the field is not present in accelerator memory"),
            RunError::Refused(refused) => refused.fmt(f),
            RunError::Task(error) => error.fmt(f),
            RunError::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

/// A task with its messages.
#[derive(Debug)]
pub struct Work {
    /// Has the field that is read.
    pub input: Placed,
    /// Path to that field, see [`Placed::place_of`].
    pub from: Vec<FieldId>,
    /// Gets the result.
    pub output: Placed,
    /// Path to the bytes field that the result becomes.
    pub into: Vec<FieldId>,
    /// Bytes of accelerator memory for the result.
    pub room: u32,
}

/// A compute unit beside an accelerator's memory.
pub struct FieldUnit<C> {
    unit: Unit,
    held: HashMap<Task, (Work, Addr)>,
    memory: Arc<Memory>,
    crossing: Arc<C>,
}

/// Bytes of an entry of the notification ring: length and status of a result.
const NOTIFICATION: usize = 16;

impl<C: Crossing + Send + Sync + 'static> FieldUnit<C> {
    /// An empty unit beside the memory of `accelerator`; see [`Unit::new`].
    pub fn new(name: &str, accelerator: &Accelerator<C>, options: Options) -> FieldUnit<C> {
        let memory = Arc::clone(accelerator.memory());
        let unit = Unit::new(name, Arc::<Memory>::clone(&memory), options);
        FieldUnit { unit, held: HashMap::new(), memory, crossing: Arc::clone(accelerator.shared_crossing()) }
    }

    /// As [`Unit::program`].
    ///
    /// # Errors
    /// As there.
    pub fn program(&mut self, kernel: impl Kernel + 'static) -> Result<(), ProgramError> {
        self.unit.program(kernel)
    }

    /// As [`Unit::take_away`].
    ///
    /// # Errors
    /// As there.
    pub fn take_away(&mut self) -> Result<(), ProgramError> {
        self.unit.take_away()
    }

    /// As [`Unit::kernel_type`].
    pub fn kernel_type(&self) -> Option<&str> {
        self.unit.kernel_type()
    }

    /// As [`Unit::kill`].
    pub fn kill(&mut self) {
        self.unit.kill();
    }

    /// Runs the kernel on field `from` of `input`; the result, at most `room` bytes, becomes field `into` of `output`, in
    /// accelerator memory. Its length.
    ///
    /// # Errors
    /// [`RunError`]; `output` is as before.
    ///
    /// # Panics
    /// If a path does not fit its message, or a message is in another accelerator's memory.
    pub fn run(
        &mut self,
        input: &Placed,
        from: &[FieldId],
        output: &mut Placed,
        into: &[FieldId],
        room: u32,
    ) -> Result<usize, RunError> {
        let (task, at) = self.begin(input, from, output, into, room)?;
        // Both messages are borrowed until the outcome is here.
        let outcome = self.unit.wait(task);
        self.finish(outcome, output, into, at)
    }

    /// Runs the kernel on bytes of accelerator memory: where the result is, in `results`, and its length.
    ///
    /// # Safety
    /// Nobody writes the bytes of `input` until this returns.
    pub(super) unsafe fn run_span(
        &mut self,
        input: Span,
        results: &Arena,
        room: u32,
    ) -> Result<(Addr, u32), RunError> {
        assert!(
            Arc::ptr_eq(results.memory(), &self.memory),
            "results are in the memory that the unit writes"
        );
        let start = results.alloc(room as usize).map_err(|_| RunError::OutOfMemory)?;
        let at = results.addr(start.as_ptr());
        let target = Span::new(at.offset() as u64, room);
        // SAFETY: the caller's promise; the room was just given and nobody else knows of it until the outcome is here.
        let task = unsafe { self.unit.submit_task(input, target) }.map_err(RunError::Refused)?;
        self.crossing.doorbell(size_of::<Descriptor>());
        let outcome = self.unit.wait(task);
        self.crossing.notify(NOTIFICATION);
        let len = outcome.map_err(RunError::Task)?;
        Ok((at, u32::try_from(len).expect("a result fits in its room")))
    }

    /// Submits a task and holds its messages; take the outcome with [`FieldUnit::poll`] or [`FieldUnit::wait`].
    ///
    /// # Errors
    /// [`RunError`], and the messages.
    ///
    /// # Panics
    /// As [`FieldUnit::run`].
    pub fn submit(&mut self, work: Work) -> Result<Task, (RunError, Box<Work>)> {
        let mut work = work;
        match self.begin(&work.input, &work.from, &mut work.output, &work.into, work.room) {
            Ok((task, at)) => {
                self.held.insert(task, (work, at));
                Ok(task)
            }
            Err(error) => Err((error, Box::new(work))),
        }
    }

    /// A task's outcome and messages, when it is done; once.
    pub fn poll(&mut self, task: Task) -> Option<(Result<usize, RunError>, Work)> {
        if !self.held.contains_key(&task) {
            return None;
        }
        let outcome = self.unit.poll(task)?;
        Some(self.let_go(task, outcome))
    }

    /// Waits for a task.
    ///
    /// # Panics
    /// If it was not submitted here, or its outcome was taken.
    pub fn wait(&mut self, task: Task) -> (Result<usize, RunError>, Work) {
        assert!(self.held.contains_key(&task), "this unit holds no messages of that task");
        let outcome = self.unit.wait(task);
        self.let_go(task, outcome)
    }

    fn let_go(&mut self, task: Task, outcome: Result<usize, TaskError>) -> (Result<usize, RunError>, Work) {
        let (mut work, at) = self.held.remove(&task).expect("a task that was submitted is held");
        let into = std::mem::take(&mut work.into);
        let done = self.finish(outcome, &mut work.output, &into, at);
        work.into = into;
        (done, work)
    }

    /// The caller keeps both messages as they are until the task has its outcome.
    fn begin(
        &mut self,
        input: &Placed,
        from: &[FieldId],
        output: &mut Placed,
        into: &[FieldId],
        room: u32,
    ) -> Result<(Task, Addr), RunError> {
        let here = |message: &Placed| Arc::ptr_eq(message.acc.memory(), &self.memory);
        assert!(here(input) && here(output), "the messages are in another accelerator's memory");
        let source = input.acc_bytes(from).ok_or(RunError::NotThere)?;
        output.takes_acc(into).then_some(()).ok_or(RunError::NotThere)?;
        let at = output.acc_room(room as usize).map_err(|_| RunError::OutOfMemory)?;
        let target = Span::new(at.offset() as u64, room);
        // SAFETY: the input's bytes are those of a decoded field, which nobody writes; the room was just given and belongs
        // to `output` alone; invariants 1 to 3 keep both until the outcome is here.
        let task = unsafe { self.unit.submit_task(source, target) }.map_err(RunError::Refused)?;
        self.crossing.doorbell(size_of::<Descriptor>());
        Ok((task, at))
    }

    fn finish(
        &self,
        outcome: Result<usize, TaskError>,
        output: &mut Placed,
        into: &[FieldId],
        at: Addr,
    ) -> Result<usize, RunError> {
        self.crossing.notify(NOTIFICATION);
        let len = outcome.map_err(RunError::Task)?;
        let bytes = u32::try_from(len).expect("a result fits in its room");
        // SAFETY: the result is at the start of the room that this message gave; the task is over.
        unsafe { output.set_acc(into, at, bytes) }.map_err(|_| RunError::NotThere)?;
        Ok(len)
    }
}

impl<C> fmt::Debug for FieldUnit<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldUnit({:?}, {} tasks held)", self.unit.kernel_type(), self.held.len())
    }
}
