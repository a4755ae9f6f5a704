//! One of the two memories, cut into slots: a packet is in exactly one, and whoever has the slot's number has the packet.
//!
//! Invariant: a number is in one place only, be it a free list, a ring, a task of a unit, or a hand. So no two threads touch a slot at once, and the
//! rings that pass numbers on order the bytes.

use base::pages::{PageKind, Region};
use codec::unit::Span;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of a slot.
pub const SLOT: usize = 2048;
/// Bytes before a frame when it comes, for the tunnel's headers.
pub const ROOM: usize = 128;
/// The longest frame.
pub const MOST_FRAME: usize = SLOT - ROOM;

/// See the head of the file.
pub struct Slots {
    region: Arc<Region>,
    count: u32,
}

impl Slots {
    /// So many.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn new(count: u32) -> io::Result<Slots> {
        let region = Arc::new(Region::map(count as usize * SLOT, PageKind::Base)?);
        Ok(Slots { region, count })
    }

    /// The memory itself, for units.
    pub fn memory(&self) -> Arc<Region> {
        self.region.clone()
    }

    /// The first byte of a slot.
    fn start(&self, number: u32) -> NonNull<u8> {
        assert!(number < self.count, "a slot's number is below their count");
        NonNull::new(self.region.start().wrapping_add(number as usize * SLOT))
            .expect("a region does not begin at zero")
    }

    /// Where `range` of a slot is, for a crossing.
    pub fn at(&self, number: u32, range: Range<usize>) -> NonNull<u8> {
        assert!(range.start <= range.end && range.end <= SLOT, "a frame lies in its slot");
        // SAFETY: within the slot, which lies in the region.
        unsafe { self.start(number).add(range.start) }
    }

    /// Where `range` of a slot is, for a unit.
    pub fn span(&self, number: u32, range: Range<usize>) -> Span {
        assert!(
            number < self.count && range.start <= range.end && range.end <= SLOT,
            "a frame lies in its slot"
        );
        Span::new((number as usize * SLOT + range.start) as u64, range.len() as u32)
    }

    /// A slot's bytes.
    ///
    /// # Safety
    /// The caller has the slot's number, see the head of the file, and makes no second reference to it.
    #[allow(clippy::mut_from_ref)] // the number is what is unique
    pub unsafe fn slot(&self, number: u32) -> &mut [u8] {
        // SAFETY: within the region, whose bytes are initialised; the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start(number).as_ptr(), SLOT) }
    }
}
