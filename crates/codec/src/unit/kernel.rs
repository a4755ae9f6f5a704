//! What a compute unit runs: bytes in, bytes out.

use std::fmt;

/// A function over bytes, with whatever state it keeps between tasks.
///
/// A panic in [`Kernel::run`] ends the unit that runs it; input that is merely wrong is a [`KernelError`].
pub trait Kernel: Send {
    /// What it does, as one word: what a program asks a unit for. The name is taken once, when a unit is programmed.
    fn kernel_type(&self) -> &str;

    /// Reads all of `input`, writes the start of `output` and returns how many bytes that is. `output` may hold anything before
    /// and, on an error, after.
    ///
    /// # Errors
    /// See [`KernelError`].
    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError>;

    /// A length of output that is enough for every input of `input_len` bytes; `usize::MAX` where there is none worth naming.
    fn output_bound(&self, input_len: usize) -> usize;
}

impl<K: Kernel + ?Sized> Kernel for Box<K> {
    fn kernel_type(&self) -> &str {
        (**self).kernel_type()
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        (**self).run(input, output)
    }

    fn output_bound(&self, input_len: usize) -> usize {
        (**self).output_bound(input_len)
    }
}

/// Bytes of output to begin with for an input of `input_len` whose kernel names the bound `bound`. A bound far above the input is one
/// for the worst case; the kernel says what it needs.
pub fn likely_room(bound: usize, input_len: usize, most: usize) -> usize {
    bound.min(input_len.saturating_mul(2).max(4096)).min(most)
}

/// Bytes of output after `len` were too few and the kernel asked for `needed`; nothing if it may not have so many.
pub fn longer_room(len: usize, needed: usize, most: usize) -> Option<usize> {
    (needed <= most && len < most).then(|| needed.max(len.saturating_mul(2)).min(most))
}

/// Runs the kernel, with a longer buffer as often as it asks for one, up to `most` bytes. The length of the result.
///
/// # Errors
/// The kernel's; [`KernelError::TooLarge`] when it asks for more than it may have.
pub fn run_growing(
    kernel: &mut dyn Kernel,
    input: &[u8],
    out: &mut Vec<u8>,
    most: usize,
) -> Result<usize, KernelError> {
    let grow = |out: &mut Vec<u8>, len: usize| out.resize(len.max(out.len()), 0);
    grow(out, likely_room(kernel.output_bound(input.len()), input.len(), most));
    loop {
        match kernel.run(input, out) {
            Err(KernelError::OutputTooSmall { needed }) => {
                let longer = longer_room(out.len(), needed, most).ok_or(KernelError::TooLarge)?;
                grow(out, longer);
            }
            outcome => return outcome,
        }
    }
}

/// Why a kernel has no result. Small and `Copy`: it travels in a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// The output buffer is too short for the result.
    OutputTooSmall {
        /// A length that is enough, or, where the kernel stopped before it knew, more than there was.
        needed: usize,
    },
    /// The input is not what this kernel reads, or was changed on its way.
    Corrupt,
    /// The input asks for more memory than the kernel grants.
    TooLarge,
    /// The key has sealed as many messages as it may.
    Exhausted,
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelError::OutputTooSmall { needed } => write!(f, "the output buffer needs {needed} bytes"),
            KernelError::Corrupt => f.write_str("the input is malformed or was changed on its way"),
            KernelError::TooLarge => f.write_str("the input asks for more memory than the kernel grants"),
            KernelError::Exhausted => f.write_str("the key has no nonce left: use a new one"),
        }
    }
}

impl std::error::Error for KernelError {}
