//! Kernels for compute units: each a well-kept library in pure Rust behind one file.
//!
//! | kernel | type | input | output |
//! |---|---|---|---|
//! | `Lz4Compress` | `lz4` | bytes | an LZ4 frame with length and checksum |
//! | `Lz4Decompress` | `lz4.decompress` | one LZ4 frame | bytes |
//! | `ZstdCompress` | `zstd` | bytes | a zstd frame with checksum |
//! | `ZstdDecompress` | `zstd.decompress` | one zstd frame | bytes |
//! | `Seal` | `aes-gcm` | bytes | nonce, ciphertext, tag |
//! | `Open` | `aes-gcm.open` | what `Seal` wrote | bytes |
//! | `Crc32c` | `crc32c` | bytes | 4 bytes, little-endian |
//! | `Sha256` | `sha256` | bytes | 32 bytes |
//! | `Jpeg` | `jpeg` | `image` | JPEG |
//! | `Thumbnail` | `thumbnail` | `image` or JPEG | a smaller JPEG |
//! | `Chain` | its own | the first one's | the last one's |
//!
//! With feature `lz4` the first two alone.
//!
//! Bounds: none allocates more than it says in its file, whatever the input claims of itself.

#[cfg(feature = "kernels")]
mod chain;
#[cfg(feature = "kernels")]
mod digest;
#[cfg(feature = "kernels")]
pub mod image;
mod lz4;
#[cfg(feature = "kernels")]
mod seal;
#[cfg(feature = "kernels")]
mod zstd;

#[cfg(feature = "kernels")]
pub use chain::Chain;
#[cfg(feature = "kernels")]
pub use digest::{Crc32c, Sha256};
#[cfg(feature = "kernels")]
pub use image::{Jpeg, Thumbnail};
pub use lz4::{Lz4Compress, Lz4Decompress};
#[cfg(feature = "kernels")]
pub use seal::{Open, Seal, SealingKey};
#[cfg(feature = "kernels")]
pub use zstd::{ZstdCompress, ZstdDecompress};

use super::KernelError;
use std::io;

/// Where a library writes its result: what does not fit is counted and dropped, so that the length it would have is known.
struct Sink<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> Sink<'a> {
    fn new(out: &'a mut [u8]) -> Sink<'a> {
        Sink { out, len: 0 }
    }

    /// The length of what was written.
    fn finish(self) -> Result<usize, KernelError> {
        if self.len <= self.out.len() {
            Ok(self.len)
        } else {
            Err(KernelError::OutputTooSmall { needed: self.len })
        }
    }
}

impl io::Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.out.get_mut(self.len..).unwrap_or_default();
        let fits = bytes.len().min(room.len());
        room[..fits].copy_from_slice(&bytes[..fits]);
        self.len += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The first `len` bytes of the output, if it has so many.
#[cfg(feature = "kernels")]
fn room(output: &mut [u8], len: usize) -> Result<&mut [u8], KernelError> {
    output.get_mut(..len).ok_or(KernelError::OutputTooSmall { needed: len })
}

#[cfg(all(test, feature = "kernels"))]
mod tests;
