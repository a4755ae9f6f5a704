//! AES-256-GCM: seal, so that nobody reads or changes it, and open.
//!
//! Shape:
//! ```text
//! │ nonce: sealer (4 bytes) │ counter (8 bytes) │ ciphertext, as long as the input │ tag (16 bytes) │
//! ```
//! Invariants:
//! 1. A nonce is used once with a key: reuse would give away both messages and the power to forge. The counter therefore belongs
//!    to the [`SealingKey`], which every kernel shares, and not to a kernel: a unit that is killed and programmed again goes
//!    on where the old one stopped. Two keys with the same bytes, in two processes or after a restart, must differ in
//!    their `sealer`.
//!
//! Ordering: the counter is only ever added to, Relaxed: no data hangs on it.
//!
//! Errors: [`KernelError::Corrupt`] for whatever was not sealed with this key; nothing of it is written then.
//!
//! Sources: NIST SP 800-38D, 8.2.1 (deterministic nonces: a fixed field and a counter).

use super::room;
use crate::unit::{Kernel, KernelError};
use aes_gcm::aead::AeadInOut;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{Aes256Gcm, KeyInit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NONCE: usize = 12;
const TAG: usize = 16;

/// A key with the nonces that it has not used.
pub struct SealingKey {
    cipher: Aes256Gcm,
    sealer: u32,
    next: AtomicU64,
}

impl SealingKey {
    /// A key for all kernels that seal with it. `sealer` must never have been used with the same `key` before: give each
    /// start of a process a new key, or a number that was never given.
    pub fn new(key: &[u8; 32], sealer: u32) -> Arc<SealingKey> {
        Arc::new(SealingKey { cipher: Aes256Gcm::new(key.into()), sealer, next: AtomicU64::new(0) })
    }

    fn nonce(&self) -> Result<[u8; NONCE], KernelError> {
        let counter = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
        let counter = counter.map_err(|_| KernelError::Exhausted)?;
        let mut nonce = [0; NONCE];
        nonce[..4].copy_from_slice(&self.sealer.to_le_bytes());
        nonce[4..].copy_from_slice(&counter.to_le_bytes());
        Ok(nonce)
    }
}

/// Seals: nonce, ciphertext, tag.
pub struct Seal(Arc<SealingKey>);

impl Seal {
    /// Seals with this key.
    pub fn new(key: Arc<SealingKey>) -> Seal {
        Seal(key)
    }
}

impl Kernel for Seal {
    fn kernel_type(&self) -> &str {
        "aes-gcm"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        let len = self.output_bound(input.len());
        let (head, rest) = room(output, len)?.split_at_mut(NONCE);
        let (body, tail) = rest.split_at_mut(input.len());
        let nonce = self.0.nonce()?;
        let buffer = InOutBuf::new(input, body).expect("as long as the input");
        let tag = self.0.cipher.encrypt_inout_detached(&nonce.into(), &[], buffer);
        tail.copy_from_slice(&tag.map_err(|_| KernelError::TooLarge)?);
        head.copy_from_slice(&nonce);
        Ok(len)
    }

    fn output_bound(&self, input_len: usize) -> usize {
        input_len.saturating_add(NONCE + TAG)
    }
}

/// Opens what was sealed with the same key.
pub struct Open(Aes256Gcm);

impl Open {
    /// Opens with this key.
    pub fn new(key: &[u8; 32]) -> Open {
        Open(Aes256Gcm::new(key.into()))
    }
}

impl Kernel for Open {
    fn kernel_type(&self) -> &str {
        "aes-gcm.open"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        let (nonce, rest) = input.split_first_chunk::<NONCE>().ok_or(KernelError::Corrupt)?;
        let (body, tag) = rest.split_last_chunk::<TAG>().ok_or(KernelError::Corrupt)?;
        let buffer = InOutBuf::new(body, room(output, body.len())?).expect("as long as the body");
        let opened = self.0.decrypt_inout_detached(nonce.into(), &[], buffer, tag.into());
        opened.map(|()| body.len()).map_err(|_| KernelError::Corrupt)
    }

    fn output_bound(&self, input_len: usize) -> usize {
        input_len.saturating_sub(NONCE + TAG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_go_on_over_kernels_and_end() {
        let key = SealingKey::new(&[7; 32], 0x0403_0201);
        let mut out = [0; NONCE + TAG];
        for counter in [0, 1] {
            Seal::new(key.clone()).run(&[], &mut out).expect("room");
            assert_eq!(out[..NONCE], [1, 2, 3, 4, counter, 0, 0, 0, 0, 0, 0, 0]);
        }
        key.next.store(u64::MAX - 1, Ordering::Relaxed);
        assert_eq!(Seal::new(key.clone()).run(&[], &mut out), Ok(out.len()));
        assert_eq!(Seal::new(key.clone()).run(&[], &mut out), Err(KernelError::Exhausted));
        assert_eq!(Seal::new(key).run(&[], &mut out), Err(KernelError::Exhausted));
    }

    #[test]
    fn it_is_the_standard_cipher() {
        // Test case 14 of the GCM specification (McGrew & Viega): zero key, zero nonce, one zero block.
        let mut out = [0; NONCE + 16 + TAG];
        Seal::new(SealingKey::new(&[0; 32], 0)).run(&[0; 16], &mut out).expect("room");
        let cipher =
            [0xCE, 0xA7, 0x40, 0x3D, 0x4D, 0x60, 0x6B, 0x6E, 0x07, 0x4E, 0xC5, 0xD3, 0xBA, 0xF3, 0x9D, 0x18];
        let tag =
            [0xD0, 0xD1, 0xC8, 0xA7, 0x99, 0x99, 0x6B, 0xF0, 0x26, 0x5B, 0x98, 0xB5, 0xD4, 0x8A, 0xB9, 0x19];
        assert_eq!((&out[NONCE..28], &out[28..]), (&cipher[..], &tag[..]));
    }
}
