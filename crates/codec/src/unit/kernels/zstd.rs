//! Zstandard frames, with checksum.
//!
//! Why this library: the one pure Rust implementation that is widely used. It has one level of compression, about that of zstd's
//! fastest, and is slower than the C library; a binding to that would need a C compiler.
//!
//! Bounds: compressing takes a few blocks of 128 KiB, decompressing the window of the frame, 8 MiB at most as the RFC recommends, and
//! one block.
//!
//! Errors: a frame that ends early, does not match its checksum, or has anything behind it is corrupt; a larger window is
//! refused.
//!
//! Sources: RFC 8878.

use super::Sink;
use crate::unit::{Kernel, KernelError};
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress};
use std::io::Read;

/// The most a block holds.
const BLOCK: usize = 128 << 10;
const WINDOW: u64 = 8 << 20;

/// Compresses into one frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZstdCompress;

impl Kernel for ZstdCompress {
    fn kernel_type(&self) -> &str {
        "zstd"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        let mut sink = Sink::new(output);
        compress(input, &mut sink, CompressionLevel::Fastest);
        sink.finish()
    }

    /// The library stores what does not shrink only where it would not fit a block; shorter blocks may grow a little.
    fn output_bound(&self, input_len: usize) -> usize {
        input_len.saturating_add(input_len / 16 + 256)
    }
}

/// Decompresses one frame.
pub struct ZstdDecompress {
    decoder: FrameDecoder,
}

impl ZstdDecompress {
    /// A decompressor without a dictionary.
    pub fn new() -> ZstdDecompress {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW);
        ZstdDecompress { decoder }
    }

    fn decode(&mut self, mut input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        let decoder = &mut self.decoder;
        decoder.reset(&mut input).map_err(refusal)?;
        let mut len = 0;
        while !decoder.is_finished() {
            decoder.decode_blocks(&mut input, BlockDecodingStrategy::UptoBytes(BLOCK)).map_err(refusal)?;
            len += decoder.read(&mut output[len..]).map_err(|_| KernelError::Corrupt)?;
            if decoder.can_collect() > 0 {
                let stated = usize::try_from(decoder.content_size()).unwrap_or(usize::MAX);
                return Err(KernelError::OutputTooSmall { needed: stated.max(len + 1) });
            }
        }
        let is_whole = match decoder.get_checksum_from_data() {
            Some(stated) => decoder.get_calculated_checksum() == Some(stated),
            None => true,
        };
        if is_whole && input.is_empty() { Ok(len) } else { Err(KernelError::Corrupt) }
    }
}

impl Default for ZstdDecompress {
    fn default() -> ZstdDecompress {
        ZstdDecompress::new()
    }
}

fn refusal(error: FrameDecoderError) -> KernelError {
    match error {
        FrameDecoderError::WindowSizeTooBig { .. } => KernelError::TooLarge,
        _ => KernelError::Corrupt,
    }
}

impl Kernel for ZstdDecompress {
    fn kernel_type(&self) -> &str {
        "zstd.decompress"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        self.decode(input, output)
    }

    /// Four bytes can stand for a whole block of one byte repeated.
    fn output_bound(&self, input_len: usize) -> usize {
        (input_len / 4).saturating_mul(BLOCK)
    }
}
