//! A value too long for the log: its own mapping, shared by the store and whoever is sending it.
//!
//! Why: a reader that writes 100 MiB into a socket must not pin a segment, and the cleaner must not copy 100 MiB. The log
//! holds a stub item that owns one `Arc`; the memory counts against the budget until the last `Arc` drops.

use base::pages::{PageKind, Region};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// From this length on a mapping asks for huge pages: below, rounding to 2 MiB would waste too much.
const HUGE_FROM: usize = 16 << 20;

/// The bytes of one large value. Immutable.
#[derive(Debug)]
pub struct LargeValue {
    region: Region,
    len: usize,
    /// Behind `region`: fields drop in order, so the memory is gone before it stops counting.
    _charge: Charge,
}

/// Bytes counted against the budget for as long as this lives.
#[derive(Debug)]
struct Charge {
    bytes: usize,
    counter: Arc<AtomicUsize>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl LargeValue {
    /// Bytes of memory that a value of `len` bytes takes.
    pub(crate) fn footprint(len: usize) -> usize {
        len.max(1).next_multiple_of(if len >= HUGE_FROM { base::pages::HUGE_PAGE } else { 4096 })
    }

    /// Copies `front` then `back` into a new mapping and counts it; `None` where the system gives none.
    pub(crate) fn of(front: &[u8], back: &[u8], counter: &Arc<AtomicUsize>) -> Option<Arc<LargeValue>> {
        let len = front.len() + back.len();
        let kind = if len >= HUGE_FROM { PageKind::Transparent } else { PageKind::Base };
        let region = Region::map(len, kind).ok()?;
        // SAFETY: the region is fresh, ours alone and at least front + back bytes long.
        unsafe { std::ptr::copy_nonoverlapping(front.as_ptr(), region.start(), front.len()) };
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(back.as_ptr(), region.start().add(front.len()), back.len()) };
        let charge = Charge { bytes: LargeValue::footprint(len), counter: counter.clone() };
        counter.fetch_add(charge.bytes, Ordering::Relaxed);
        Some(Arc::new(LargeValue { region, len, _charge: charge }))
    }
}

impl std::ops::Deref for LargeValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are inside the mapping, written once before anybody could see them.
        unsafe { std::slice::from_raw_parts(self.region.start(), self.len) }
    }
}
