//! A ring of buffers that the kernel picks from when data arrives (`IORING_REGISTER_PBUF_RING`, Linux 5.19).
//!
//! Why: with it one receive request stays armed for the life of a connection, and an idle connection owns no buffer.
//!
//! Shape: one region of whole pages, first the entries (16 bytes each: address, length, id), then the buffers. The
//! kernel reads `tail`, which lies in the unused field of entry 0, and takes entries below it in order.
//!
//! Invariants: (1) an id is either with the kernel or was named by exactly one completion since, so a buffer is never
//! read while the kernel may write to it; (2) the region outlives the registration: whoever owns a `Buffers` drops the
//! ring first.
//!
//! Ordering: [R1] release store of `tail` in [`Buffers::publish`], paired with the kernel's acquire load of it.

use super::super::REQUEST_BYTES;
use base::pages::{PageKind, Region};
use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

/// Bytes in one buffer.
pub const BUFFER_BYTES: usize = 64 * REQUEST_BYTES;
/// Buffers in the ring; a power of two.
pub const BUFFERS: u16 = 128;
/// The group id under which receive requests name this ring.
pub const GROUP: u16 = 0;

const ENTRIES_BYTES: usize = 4096;
const _: () = assert!(BUFFERS as usize * size_of::<BufRingEntry>() <= ENTRIES_BYTES);

/// The entries and the buffers.
pub struct Buffers {
    region: Region,
    tail: u16,
}

impl Buffers {
    /// Registers the ring with all its buffers.
    ///
    /// # Errors
    /// The system's; `EINVAL` on kernels before 5.19.
    pub fn register(submitter: &Submitter<'_>) -> io::Result<Buffers> {
        let mut region = Region::map(ENTRIES_BYTES + usize::from(BUFFERS) * BUFFER_BYTES, PageKind::Base)?;
        let len = region.len();
        region.populate(0..len);
        // SAFETY: the region is page-aligned, holds BUFFERS entries at its start, and is dropped after the ring
        // (invariant 2).
        unsafe { submitter.register_buf_ring_with_flags(region.start() as u64, BUFFERS, GROUP, 0)? };
        let mut buffers = Buffers { region, tail: 0 };
        (0..BUFFERS).for_each(|id| buffers.give_back(id));
        buffers.publish();
        Ok(buffers)
    }

    /// The first `len` bytes of buffer `id`, which a completion has just named.
    pub fn received(&self, id: u16, len: usize) -> &[u8] {
        assert!(id < BUFFERS && len <= BUFFER_BYTES, "the kernel named buffer {id} with {len} bytes");
        // SAFETY: inside the region by the assertion; the kernel does not write to it now (invariant 1).
        unsafe { std::slice::from_raw_parts(self.buffer(id), len) }
    }

    /// Returns buffer `id`; the kernel sees it at the next [`Buffers::publish`].
    pub fn give_back(&mut self, id: u16) {
        let slot = usize::from(self.tail % BUFFERS);
        let address = self.buffer(id) as u64;
        // SAFETY: entry `slot` is inside the region and at or above the published tail, so the kernel does not read it.
        // The tail shares entry 0 but not the fields set here.
        unsafe {
            let entry = &mut *self.region.start().cast::<BufRingEntry>().add(slot);
            entry.set_addr(address);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel everything given back.
    pub fn publish(&mut self) {
        // SAFETY: the region starts with a valid entry, and its tail field is aligned to 2 and only accessed atomically.
        let tail = unsafe {
            let field = BufRingEntry::tail(self.region.start().cast_const().cast());
            AtomicU16::from_ptr(field.cast_mut())
        };
        tail.store(self.tail, Ordering::Release); // [R1]
    }

    fn buffer(&self, id: u16) -> *const u8 {
        self.region.start().wrapping_add(ENTRIES_BYTES + usize::from(id) * BUFFER_BYTES)
    }
}
