//! Several kernels as one: each reads what the one before it wrote, under a type of the caller's choice.
//!
//! Bounds: what travels between two of them stays in a buffer of the chain's, [`BETWEEN`] bytes at most.

use crate::unit::{Kernel, KernelError, run_growing};

/// The longest result of a kernel that is not the last.
pub const BETWEEN: usize = 64 << 20;

/// Kernels in a row. Without any, the input is copied.
pub struct Chain {
    kernel_type: String,
    stages: Vec<Box<dyn Kernel>>,
    /// What was written last, and what is being written.
    buffers: [Vec<u8>; 2],
}

impl Chain {
    /// `stages` in a row, first to last, known as `kernel_type`.
    pub fn new(kernel_type: &str, stages: Vec<Box<dyn Kernel>>) -> Chain {
        Chain { kernel_type: kernel_type.to_owned(), stages, buffers: [Vec::new(), Vec::new()] }
    }
}

impl Kernel for Chain {
    fn kernel_type(&self) -> &str {
        &self.kernel_type
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        let [from, to] = &mut self.buffers;
        let Some((last, earlier)) = self.stages.split_last_mut() else {
            super::room(output, input.len())?.copy_from_slice(input);
            return Ok(input.len());
        };
        let mut len = None;
        for stage in earlier {
            let input = len.map_or(input, |len| &from[..len]);
            len = Some(run_growing(stage.as_mut(), input, to, BETWEEN)?);
            std::mem::swap(from, to);
        }
        last.run(len.map_or(input, |len| &from[..len]), output)
    }

    fn output_bound(&self, input_len: usize) -> usize {
        self.stages.iter().fold(input_len, |len, stage| stage.output_bound(len))
    }
}
