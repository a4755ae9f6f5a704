//! The accelerator's half of a compute unit: takes orders from the descriptor ring, runs the kernel, notifies.
//!
//! A value without a thread, so that tests can put every step of it between any two of the host's.
//!
//! Invariants:
//! 1. Orders are executed in the order of the ring: a task runs on the kernel that was programmed last before it.
//! 2. A span is touched only between the receipt of its order and the notification, or the end of this value: dropped, or
//!    unwound by a panicking kernel, it drops its end of the rings last of all it does.
//! 3. After the stop flag was seen, no order is executed and no notification sent.

use super::descriptor::{AccMemory, Descriptor, overlap};
use super::{Kernel, TaskError};
use ring::Server;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What the host sends.
pub(super) enum Order {
    /// Run this kernel from now on, or none.
    Program(Option<Box<dyn Kernel>>),
    /// Run the kernel on these bytes; the slot is the host's name for the task.
    Task { slot: u32, descriptor: Descriptor },
}

/// What comes back, one for each order.
pub(super) enum Notification {
    Programmed,
    Done { slot: u32, outcome: Result<u32, TaskError> },
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An order was executed and a notification sent.
    Done,
    /// No order waits.
    Idle,
    /// The host is gone or wants this to end.
    Over,
}

pub(super) struct Executor {
    kernel: Option<Box<dyn Kernel>>,
    memory: Arc<dyn AccMemory>,
    stop: Arc<AtomicBool>,
    /// The last field, so that it is dropped last: its end tells the host that nothing here touches memory any more.
    server: Server<Order, Notification>,
}

impl Executor {
    pub(super) fn new(
        server: Server<Order, Notification>,
        memory: Arc<dyn AccMemory>,
        stop: Arc<AtomicBool>,
    ) -> Executor {
        Executor { kernel: None, memory, stop, server }
    }

    /// Executes the next order, if there is one.
    ///
    /// # Panics
    /// When the kernel does, or when it claims to have written more than it was given. The executor is of no use then.
    pub(super) fn step(&mut self) -> Step {
        if self.is_over() {
            return Step::Over;
        }
        let Some((tag, order)) = self.server.try_recv() else { return Step::Idle };
        let notification = match order {
            Order::Program(kernel) => {
                self.kernel = kernel;
                Notification::Programmed
            }
            Order::Task { slot, descriptor } => {
                let outcome = self.run(descriptor);
                if self.is_over() {
                    return Step::Over; // killed while it ran: the host was told that this task died
                }
                Notification::Done { slot, outcome }
            }
        };
        self.server.reply(tag, notification);
        self.server.flush();
        Step::Done
    }

    /// Whether a step would not be idle.
    pub(super) fn is_ready(&mut self) -> bool {
        self.server.is_ready() || self.is_over()
    }

    /// The word that changes with the next order.
    pub(super) fn next_word(&self) -> *const AtomicU32 {
        self.server.next_word()
    }

    fn is_over(&self) -> bool {
        // Relaxed: the flag guards no data, and a sleeper's wake-up has its own fences.
        self.stop.load(Ordering::Relaxed) || self.server.is_abandoned()
    }

    fn run(&mut self, Descriptor { input, output }: Descriptor) -> Result<u32, TaskError> {
        let from = self.memory.resolve(input).ok_or(TaskError::OutOfBounds)?;
        let to = self.memory.resolve(output).ok_or(TaskError::OutOfBounds)?;
        if overlap(from, input.len, to, output.len) {
            return Err(TaskError::Overlap);
        }
        // SAFETY: `input.len` readable bytes by the contract of AccMemory; nobody writes them until the task's outcome is taken,
        // by the contract of submit_task.
        let from = unsafe { slice::from_raw_parts(from.as_ptr(), input.len as usize) };
        // SAFETY: writable bytes as above; nobody else touches them until then, and they do not overlap the input.
        let to = unsafe { slice::from_raw_parts_mut(to.as_ptr(), output.len as usize) };
        let kernel = self.kernel.as_mut().expect("the host submits only to a kernel");
        let written = kernel.run(from, to)?;
        assert!(written <= to.len(), "{} claims to have written {written} bytes", kernel.kernel_type());
        Ok(written as u32)
    }
}
