//! A compute unit: a thread beside the accelerator's memory that runs one kernel over spans of it, task by task.
//!
//! Why: a service compresses or encrypts a field where it lies while its own thread goes on, and asks at run time whether
//! there is a unit for that. Kernels are exchanged while tasks flow, as partial reconfiguration does it in hardware.
//!
//! Shape:
//! ```text
//!  host                descriptor ring              unit's thread
//!  submit_task ──▶ │ task │ task │ program │ task │ ──▶ kernel ──▶ reads input, writes output ── accelerator memory
//!  poll, wait  ◀── │ {result length, status} │ …    ◀── one write for each completion
//!                      notification ring
//!
//!  a task   submitted ──▶ running ──▶ settled (Ok, or why not) ──▶ taken by poll or wait; unknown from then on
//!                            └── the unit died ──▶ settled (Died) ──▲
//!
//!  a unit   empty ── program ──▶ programmed ── panic, kill ──▶ dead ── program (a new thread) ──▶ programmed
//!              ◀── take_away ────┘  ▲   └── program another ──┐
//!                                   └─────────────────────────┘
//! ```
//!
//! Invariants (held by the model in `tests/model.rs`, which also finds each of five planted bugs):
//! 1. Each accepted task has exactly one outcome, whatever happens to the unit.
//! 2. A task runs on the kernel that was programmed last before it was submitted: programs travel in the descriptor ring, so
//!    its order is the only order there is. Taking the kernel away lets the tasks before it finish.
//! 3. A unit dies with its thread. What that thread sent before its end counts; everything else in flight has died, kernels
//!    that wait in the ring too. [`Unit::kernel_type`] is `None` from then on, and [`Unit::program`] starts anew.
//! 4. When a task's outcome is seen, the unit touches its spans no more.
//!
//! Ordering: the rings' own. The end of an executor is seen by its end of the ring (an acquire, in `ring`) and looked at before
//! the ring is read, so no result is overlooked. The stop flag is a hint that guards no data.
//!
//! Bounds: [`Options::tasks`] tasks at once, from submission until the outcome is taken; then [`Refused::Busy`].
//! A kernel cannot be interrupted: killing, reprogramming a killed unit and dropping one wait for the task that runs.
//!
//! Cost: a round trip with both sides awake 130 to 190 ns where a raw ping-pong between the cores takes some 100, and 510 to 580
//! where it takes 440; 25 to 75 µs when both sleep at once (`benches/unit.rs`, a shared virtual machine with two cores).
//!
//! Sources: RPCAcc III-D and Table II. There `poll` burns the core; here [`Unit::wait`] sleeps. The paper leaves open how a
//! notification entry is found and what a failing unit does.
//!
//! Tests: the model steps both halves in one thread, in any order; `tests/threads.rs` runs them as they are.

mod descriptor;
mod executor;
mod host;
mod kernel;
#[cfg(any(feature = "kernels", feature = "lz4"))]
pub mod kernels;
mod set;

pub use descriptor::{AccMemory, Descriptor, Span};
pub use kernel::{Kernel, KernelError, likely_room, longer_room, run_growing};
pub use set::Units;

use executor::{Executor, Step};
use host::Host;
use ring::wait::{Sleeper, WaitPolicy, Waker, waiting};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

/// How a unit is set up.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Tasks at once, whose outcome was not taken.
    pub tasks: u32,
    /// How both sides wait for the other. By default some 25 µs awake, then asleep.
    pub wait: WaitPolicy,
    /// The core the unit's thread is pinned to, if the process may use it.
    pub core: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options { tasks: 64, wait: WaitPolicy::default(), core: None }
    }
}

/// The name of a submitted task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    unit: u32,
    slot: u32,
    seq: u64,
}

/// What became of a task: the length of its result, or why there is none.
pub type Outcome = Result<usize, TaskError>;

/// Why a task has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskError {
    /// A span leaves the accelerator's memory.
    OutOfBounds,
    /// The output would be written over the input.
    Overlap,
    /// The kernel refused.
    Kernel(KernelError),
    /// The unit died before the task was done: its kernel panicked, or it was killed.
    Died,
    /// This unit has no such task, or its outcome was taken.
    Unknown,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::OutOfBounds => f.write_str("a span leaves the accelerator's memory"),
            TaskError::Overlap => f.write_str("the output span overlaps the input span"),
            TaskError::Kernel(error) => error.fmt(f),
            TaskError::Died => f.write_str("the compute unit died before the task was done"),
            TaskError::Unknown => f.write_str("this unit has no such task, or its outcome was taken"),
        }
    }
}

impl std::error::Error for TaskError {}

impl From<KernelError> for TaskError {
    fn from(error: KernelError) -> TaskError {
        TaskError::Kernel(error)
    }
}

/// Why a task was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many tasks are under way, or not yet asked for, as the unit has room for.
    Busy,
    /// No kernel is programmed, or, of a set, none of that type.
    NoKernel,
    /// The unit died and was not programmed since.
    Dead,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Busy => "the compute unit has no room for another task: take outcomes first",
            Refused::NoKernel => "no compute unit is programmed with this kernel",
            Refused::Dead => "the compute unit died: program it again",
        })
    }
}

impl std::error::Error for Refused {}

/// Why a unit was not programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramError {
    /// As many programs are under way as the unit has room for.
    Busy,
    /// The system gave no thread.
    Thread(io::ErrorKind),
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Busy => f.write_str("too many programs are on their way to the compute unit"),
            ProgramError::Thread(kind) => write!(f, "no thread for the compute unit: {kind}"),
        }
    }
}

impl std::error::Error for ProgramError {}

/// One compute unit, as its host sees it. See the module for its states.
pub struct Unit {
    name: String,
    memory: Arc<dyn AccMemory>,
    options: Options,
    host: Host,
    thread: Option<Thread>,
    sleeper: Sleeper,
    waker: Waker,
}

struct Thread {
    handle: JoinHandle<()>,
    waker: Waker,
}

impl Unit {
    /// An empty unit with a port to `memory`; its thread starts when it is programmed. The system shows 15 bytes of `name`.
    pub fn new(name: &str, memory: Arc<dyn AccMemory>, options: Options) -> Unit {
        static UNITS: AtomicU32 = AtomicU32::new(0);
        let id = UNITS.fetch_add(1, Ordering::Relaxed);
        let (sleeper, waker) = waiting();
        let host = Host::new(id, options.tasks.max(1));
        Unit { name: name.to_owned(), memory, options, host, thread: None, sleeper, waker }
    }

    /// Programs the unit: tasks submitted from now on run on `kernel`, earlier ones on what was there. A dead unit lives again.
    ///
    /// Waits for the end of the task that runs if the unit was killed.
    ///
    /// # Errors
    /// [`ProgramError`]; the kernel is dropped then.
    pub fn program(&mut self, kernel: impl Kernel + 'static) -> Result<(), ProgramError> {
        self.host.collect();
        if self.host.is_dead() {
            self.end_thread();
        }
        if !self.host.has_executor() {
            self.start_thread()?;
        }
        self.order(Some(Box::new(kernel)))
    }

    /// Takes the kernel away, and drops it when the tasks submitted to it are done. Nothing happens to a unit without one.
    ///
    /// # Errors
    /// [`ProgramError::Busy`]; the kernel stays then.
    pub fn take_away(&mut self) -> Result<(), ProgramError> {
        if self.kernel_type().is_some() { self.order(None) } else { Ok(()) }
    }

    fn order(&mut self, kernel: Option<Box<dyn Kernel>>) -> Result<(), ProgramError> {
        self.host.collect();
        if self.host.has_executor() {
            self.host.program(kernel)?;
            self.wake();
        }
        Ok(())
    }

    /// The type of the kernel that the next task would find.
    pub fn kernel_type(&self) -> Option<&str> {
        self.host.kernel_type()
    }

    /// Submits a task: the unit reads all of `input` and writes the start of `output`.
    ///
    /// # Errors
    /// [`Refused`]. Spans that leave the memory, or overlap, are the task's error, not this one's.
    ///
    /// # Safety
    /// Until the task's outcome was seen or the unit was dropped, nobody writes the bytes of `input` and nobody reads or writes
    /// those of `output`: neither through a reference nor as part of another task.
    pub unsafe fn submit_task(&mut self, input: Span, output: Span) -> Result<Task, Refused> {
        let task = self.host.submit(Descriptor { input, output })?;
        self.wake();
        Ok(task)
    }

    /// The task's outcome, when it has one; it can be taken once. Tasks may be asked for in any order.
    pub fn poll(&mut self, task: Task) -> Option<Outcome> {
        self.host.collect();
        self.host.take(task)
    }

    /// Waits for the task's outcome, first awake, then asleep.
    pub fn wait(&mut self, task: Task) -> Outcome {
        let Unit { host, sleeper, options, .. } = self;
        sleeper.wait_until(options.wait, None, || {
            host.collect();
            host.is_settled(task)
        });
        host.take(task).expect("the wait ends when the task is settled")
    }

    /// Tasks that were submitted and have no outcome yet.
    pub fn running(&mut self) -> usize {
        self.host.collect();
        self.host.running()
    }

    /// Ends the unit: the task that runs and those that wait come back as [`TaskError::Died`].
    pub fn kill(&mut self) {
        self.host.kill();
        self.wake();
    }

    /// Whether the task was submitted to this unit.
    fn has(&self, task: Task) -> bool {
        self.host.is_of_unit(task)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.waker.wake();
        }
    }

    fn start_thread(&mut self) -> Result<(), ProgramError> {
        self.end_thread();
        let (sleeper, waker) = waiting();
        let executor = self.host.attach(self.memory.clone());
        let (options, host) = (self.options, self.waker.clone());
        let handle = thread::Builder::new()
            .name(self.name.clone())
            .spawn(move || serve(executor, sleeper, host, options))
            .map_err(|error| ProgramError::Thread(error.kind()))?;
        self.thread = Some(Thread { handle, waker });
        Ok(())
    }

    /// Joins a thread that has ended or was told to.
    fn end_thread(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic was the kernel's; its tasks tell of it.
            let _ = thread.handle.join();
            self.host.collect();
        }
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        self.kill();
        self.end_thread();
    }
}

/// The unit's thread.
fn serve(executor: Executor, mut sleeper: Sleeper, host: Waker, options: Options) {
    // Dropped after the executor, by return or by unwinding: the host is woken when its end can be seen.
    let farewell = Farewell(host);
    let mut executor = executor;
    if let Some(core) = options.core {
        // Refused on a machine without that core; the unit then runs where the system puts it.
        let _ = base::cpu::pin_to(core);
    }
    loop {
        match executor.step() {
            Step::Done => {
                farewell.0.wake();
            }
            Step::Idle => {
                let word = executor.next_word();
                sleeper.wait_on(options.wait, None, word, || executor.is_ready());
            }
            Step::Over => return,
        }
    }
}

/// Wakes the host when the thread ends.
struct Farewell(Waker);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.wake();
    }
}

#[cfg(test)]
mod tests;
