//! What the tests of units share: a memory to work on and a kernel that does as its input says.

mod model;
mod threads;

use super::{Kernel, KernelError, Span};
use base::pages::{PageKind, Region};
use std::sync::Arc;

/// What a task asks the test's kernel to do: its one byte of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// Write the kernel's mark.
    Mark,
    /// Refuse.
    Refuse,
    /// Panic.
    Die,
}

/// Writes its mark, so that a result tells which kernel made it.
struct Marker(u8);

impl Kernel for Marker {
    fn kernel_type(&self) -> &str {
        ["mark 0", "mark 1", "mark 2"][usize::from(self.0)]
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        match input.first() {
            Some(&ask) if ask == Ask::Mark as u8 => {
                *output.first_mut().ok_or(KernelError::OutputTooSmall { needed: 1 })? = self.0;
                Ok(1)
            }
            // As a panic, without a message on the terminal.
            Some(&ask) if ask == Ask::Die as u8 => std::panic::resume_unwind(Box::new("asked to")),
            _ => Err(KernelError::Corrupt),
        }
    }

    fn output_bound(&self, _: usize) -> usize {
        1
    }
}

/// A memory with a place of its own for each task.
struct Bench(Arc<Region>);

impl Bench {
    fn new() -> Bench {
        Bench(Arc::new(Region::map(1 << 16, PageKind::Base).expect("a few pages")))
    }

    /// Writes the question of the `n`th task and returns its input and output spans.
    fn ask(&self, n: usize, ask: Ask) -> (Span, Span) {
        let (input, output) = (Span::new(16 * n as u64, 1), Span::new(16 * n as u64 + 8, 1));
        self.write(input, ask as u8);
        self.write(output, 0xEE);
        (input, output)
    }

    fn write(&self, span: Span, byte: u8) {
        assert!((span.addr as usize) < self.0.len());
        // SAFETY: inside the region; no task that was submitted has this place.
        unsafe { self.0.start().add(span.addr as usize).write(byte) };
    }

    /// What the `n`th task wrote. Only after its outcome was seen.
    fn mark(&self, n: usize) -> u8 {
        // SAFETY: inside the region, and the task that had this place is over.
        unsafe { self.0.start().add(16 * n + 8).read() }
    }
}
