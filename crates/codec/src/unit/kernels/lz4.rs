//! LZ4 in its frame format, as the `lz4` tool reads and writes it.
//!
//! Why frames and not bare blocks: a changed byte in a bare block is often just other bytes; a frame carries length and checksum.
//!
//! Bounds: compressing takes a few blocks of 64 KiB; decompressing three blocks of what the frame says, 4 MiB each at most.
//!
//! Errors: a frame that ends early, does not match its length or checksum, or has anything behind it is corrupt.
//!
//! Sources: LZ4 Frame Format Description 1.6.

use super::Sink;
use crate::unit::{Kernel, KernelError};
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use std::io::{self, Read, Write};

/// Blocks of 64 KiB: larger ones gain little and cost memory on both sides.
const BLOCK: usize = 64 << 10;

/// Compresses into one frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lz4Compress;

impl Kernel for Lz4Compress {
    fn kernel_type(&self) -> &str {
        "lz4"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        let frame = FrameInfo::new()
            .block_size(BlockSize::Max64KB)
            .block_mode(BlockMode::Linked)
            .content_size(Some(input.len() as u64))
            .content_checksum(true);
        let mut encoder = FrameEncoder::with_frame_info(frame, Sink::new(output));
        encoder.write_all(input).expect("the sink takes everything");
        encoder.finish().expect("the sink takes everything").finish()
    }

    /// Blocks that do not shrink are stored: a header, a length for each block, an end mark and a checksum.
    fn output_bound(&self, input_len: usize) -> usize {
        input_len.saturating_add(input_len / BLOCK * 4 + 64)
    }
}

/// Decompresses one frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lz4Decompress;

impl Kernel for Lz4Decompress {
    fn kernel_type(&self) -> &str {
        "lz4.decompress"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        let mut decoder = FrameDecoder::new(Feed { left: input, starved: false });
        let mut len = 0;
        while len < output.len() {
            match decoder.read(&mut output[len..]).map_err(|_| KernelError::Corrupt)? {
                0 => break,
                n => len += n,
            }
        }
        // One byte more: it makes the decoder look at the end mark and the checksum, if this is the end.
        if len == output.len() && decoder.read(&mut [0]).map_err(|_| KernelError::Corrupt)? > 0 {
            return Err(KernelError::OutputTooSmall { needed: len + 1 });
        }
        let Feed { left, starved } = decoder.into_inner();
        // The decoder takes the end of the input between two blocks for the end of the frame.
        if starved || !left.is_empty() { Err(KernelError::Corrupt) } else { Ok(len) }
    }

    /// A byte of a match's length stands for 255 bytes at most.
    fn output_bound(&self, input_len: usize) -> usize {
        input_len.saturating_mul(255)
    }
}

/// The input, and whether more was asked of it than it has.
struct Feed<'a> {
    left: &'a [u8],
    starved: bool,
}

impl Read for Feed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.starved |= self.left.len() < buffer.len();
        self.left.read(buffer)
    }
}
