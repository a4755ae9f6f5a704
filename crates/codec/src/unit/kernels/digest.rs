//! Checksums and digests: CRC32C (with the processor's own instruction where it has one) and SHA-256.

use super::room;
use crate::unit::{Kernel, KernelError};
use sha2::Digest;

/// The CRC32C of the input, little-endian.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crc32c;

impl Kernel for Crc32c {
    fn kernel_type(&self) -> &str {
        "crc32c"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        room(output, 4)?.copy_from_slice(&crc32c::crc32c(input).to_le_bytes());
        Ok(4)
    }

    fn output_bound(&self, _: usize) -> usize {
        4
    }
}

/// The SHA-256 of the input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sha256;

impl Kernel for Sha256 {
    fn kernel_type(&self) -> &str {
        "sha256"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        room(output, 32)?.copy_from_slice(&sha2::Sha256::digest(input));
        Ok(32)
    }

    fn output_bound(&self, _: usize) -> usize {
        32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_agree_with_their_standards() {
        let mut out = [0; 32];
        // RFC 3720, B.4: 32 bytes of zeros; FIPS 180-4's "abc".
        assert_eq!(Crc32c.run(&[0; 32], &mut out), Ok(4));
        assert_eq!(out[..4], [0xAA, 0x36, 0x91, 0x8A]);
        assert_eq!(Sha256.run(b"abc", &mut out), Ok(32));
        assert_eq!(out[..8], [0xBA, 0x78, 0x16, 0xBF, 0x8F, 0x01, 0xCF, 0xEA]);
        assert_eq!(Sha256.run(b"abc", &mut out[..31]), Err(KernelError::OutputTooSmall { needed: 32 }));
    }
}
