//! One item in the log: a header, then the key, then the value.
//!
//! ```text
//!  0        8        12      16          20       24       25      26      28
//!  │version │ expiry │ flags │ value_len │ access │ keylen │ state │ epoch │ key … │ value … │ pad to 8
//! ```
//! Of a large value the log holds a *stub*: eight bytes in place of the value, an `Arc<LargeValue>` turned raw.
//!
//! Invariants: (1) an item starts at a multiple of 8 and lies in one segment; (2) an item is DEAD or exactly one index
//! entry refers to it (asserted by `check`); (3) a stub that is not DEAD owns its `Arc`.
//!
//! Everything here goes through raw pointers: key and value bytes of one item are borrowed while the header of the same
//! item is changed, which references to the whole could not express.

use crate::large::LargeValue;
use std::sync::Arc;

/// The frequency counter of S3-FIFO: how often an item was asked for since it was written or last spared, to 3.
pub(crate) const FREQUENCY: u8 = 0b11;
/// Somebody has asked for it.
pub(crate) const FETCHED: u8 = 1 << 2;
/// Invalidated, but still served with a warning.
pub(crate) const STALE: u8 = 1 << 3;
/// One client was told to recache it.
pub(crate) const WIN_SENT: u8 = 1 << 4;
/// The value lies outside, this is its stub.
pub(crate) const LARGE: u8 = 1 << 5;
/// Overwritten, deleted or dropped: no index entry refers to it.
pub(crate) const DEAD: u8 = 1 << 6;

/// Packed, so that the key may start right behind it; fields are read and written by value only.
#[repr(C, packed(4))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) version: u64,
    /// Unix seconds; 0 is never.
    pub(crate) expiry: u32,
    pub(crate) flags: u32,
    pub(crate) value_len: u32,
    /// Unix seconds of the last access.
    pub(crate) access: u32,
    pub(crate) key_len: u8,
    pub(crate) state: u8,
    /// The flush epoch it was written in: of another epoch than the store's means flushed.
    pub(crate) epoch: u16,
}

impl Header {
    /// Bytes the item takes in the log.
    #[inline(always)]
    pub(crate) fn footprint(&self) -> usize {
        let payload = if self.state & LARGE != 0 { STUB } else { self.value_len as usize };
        footprint(self.key_len as usize, payload)
    }

    /// Bytes it owns outside the log.
    #[inline(always)]
    pub(crate) fn outside(&self) -> usize {
        if self.state & LARGE != 0 { LargeValue::footprint(self.value_len as usize) } else { 0 }
    }
}

/// Bytes in front of the key.
pub(crate) const HEADER: usize = size_of::<Header>();
const STUB: usize = size_of::<usize>();

/// Where the word begins that holds access, key_len, state and epoch: what an access changes lies in one word.
const USAGE: usize = std::mem::offset_of!(Header, access);
/// Where `state` is in that word.
pub(crate) const STATE_SHIFT: u32 = 40;

const _: () = assert!(HEADER == 28 && USAGE + 8 == HEADER);
const _: () = assert!(std::mem::offset_of!(Header, state) - USAGE == STATE_SHIFT as usize / 8);

/// Bytes in the log of an item with `payload` bytes behind its key.
#[inline(always)]
pub(crate) const fn footprint(key_len: usize, payload: usize) -> usize {
    (HEADER + key_len + payload + 7) & !7
}

/// Bytes in the log of the stub of a large value.
pub(crate) const fn stub_footprint(key_len: usize) -> usize {
    footprint(key_len, STUB)
}

/// Where an item is. Valid until the store is next changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item(*mut u8);

impl Item {
    /// # Safety
    /// An item starts at `at`, or one is about to be written there with [`Item::write`]; the handle is not used after the
    /// store has moved or freed it.
    #[inline(always)]
    pub(crate) unsafe fn at(at: *mut u8) -> Item {
        Item(at)
    }

    #[inline(always)]
    pub(crate) fn address(self) -> *mut u8 {
        self.0
    }

    /// Writes header and key.
    #[inline]
    pub(crate) fn write(self, header: Header, key: &[u8]) {
        debug_assert_eq!(header.key_len as usize, key.len());
        // SAFETY: the log allotted room for header, key and payload here.
        unsafe { self.header().write(header) };
        // SAFETY: as above; the key comes from outside the heap.
        unsafe { std::ptr::copy_nonoverlapping(key.as_ptr(), self.0.add(HEADER), key.len()) };
    }

    #[inline(always)]
    fn header(self) -> *mut Header {
        self.0.cast()
    }

    /// A copy of the header.
    #[inline(always)]
    pub(crate) fn load(self) -> Header {
        // SAFETY: an Item points at a header inside the heap (invariant 1), read by value.
        unsafe { self.header().read() }
    }

    pub(crate) fn set_header(self, header: Header) {
        // SAFETY: as `load`; the store is borrowed mutably by whoever writes.
        unsafe { self.header().write(header) }
    }

    /// Writes the two parts of an inline value; the item has room for both and neither lies in this item.
    #[inline]
    pub(crate) fn put_value(self, front: &[u8], back: &[u8]) {
        // SAFETY: footprint() counted these bytes when the room was allotted.
        unsafe { std::ptr::copy_nonoverlapping(front.as_ptr(), self.payload(), front.len()) };
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(back.as_ptr(), self.payload().add(front.len()), back.len()) };
    }

    /// Writes byte `at` of an inline value.
    pub(crate) fn put_byte(self, at: usize, byte: u8) {
        debug_assert!(at < self.load().value_len as usize);
        // SAFETY: inside the value.
        unsafe { self.payload().add(at).write(byte) };
    }

    #[inline(always)]
    pub(crate) fn state(self) -> u8 {
        // SAFETY: as `load`.
        unsafe { (*self.header()).state }
    }

    #[inline(always)]
    pub(crate) fn set_state(self, state: u8) {
        // SAFETY: as `load`; the store is borrowed mutably by whoever writes.
        unsafe { (*self.header()).state = state }
    }

    /// Access, key_len, state and epoch as one number, `access` lowest.
    #[inline(always)]
    pub(crate) fn usage(self) -> u64 {
        // SAFETY: the last eight bytes of the header, read by value.
        u64::from_le(unsafe { self.0.add(USAGE).cast::<u64>().read_unaligned() })
    }

    /// Writes the usage word where it differs from `before`, without a branch.
    ///
    /// Why: whether an item's frequency rises is not predictable, and a branch on it resolves only when the item has come from
    /// memory; mispredicted, it throws away all the loads that the core had started for the requests behind. Writing always
    /// would do too, but dirties every line that is read.
    #[inline(always)]
    pub(crate) fn set_usage_if_changed(self, before: u64, usage: u64) {
        let mut elsewhere = 0u64;
        // The compiler must not see that nobody reads it: it would leave that store out, by a branch.
        let elsewhere = std::hint::black_box(&raw mut elsewhere);
        // SAFETY: the last eight bytes of the header.
        let here = unsafe { self.0.add(USAGE).cast::<u64>() };
        let to = std::hint::select_unpredictable(usage != before, here, elsewhere);
        // SAFETY: `to` is one of two places of eight bytes that are ours to write.
        unsafe { to.write_unaligned(usage.to_le()) };
    }

    #[inline(always)]
    pub(crate) fn set_version(self, version: u64) {
        // SAFETY: as `set_state`; the struct is packed, so this is an unaligned store by value.
        unsafe { (*self.header()).version = version }
    }

    #[inline(always)]
    pub(crate) fn set_expiry(self, expiry: u32) {
        // SAFETY: as `set_state`.
        unsafe { (*self.header()).expiry = expiry }
    }

    /// The key.
    ///
    /// # Safety
    /// In `'a` the store neither moves nor frees this item.
    #[inline(always)]
    pub(crate) unsafe fn key<'a>(self) -> &'a [u8] {
        // SAFETY: key_len bytes behind the header belong to the item and are never rewritten while it lives.
        unsafe { std::slice::from_raw_parts(self.0.add(HEADER), (*self.header()).key_len as usize) }
    }

    /// First byte behind the key.
    #[inline(always)]
    pub(crate) fn payload(self) -> *mut u8 {
        // SAFETY: still inside the item.
        unsafe { self.0.add(HEADER + (*self.header()).key_len as usize) }
    }

    #[inline(always)]
    pub(crate) fn is_large(self) -> bool {
        self.state() & LARGE != 0
    }

    /// The value, wherever it lies.
    ///
    /// # Safety
    /// In `'a` the store neither moves, frees nor overwrites this item.
    #[inline(always)]
    pub(crate) unsafe fn value<'a>(self) -> &'a [u8] {
        // SAFETY: as `load`.
        let len = unsafe { (*self.header()).value_len } as usize;
        let at = if self.is_large() { self.large_bytes() } else { self.payload().cast_const() };
        // SAFETY: `len` bytes of value are there, inline behind the key or in the large value the stub owns.
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    #[cold]
    fn large_bytes(self) -> *const u8 {
        // SAFETY: a stub owns its Arc while it is not DEAD (invariant 3), so the target is alive.
        unsafe { (*self.large_pointer()).as_ptr() }
    }

    /// One more owner of the large value. Only for stubs that are not DEAD.
    pub(crate) fn large_clone(self) -> Arc<LargeValue> {
        let raw = self.large_pointer();
        // SAFETY: the stub owns one count of this Arc (invariant 3).
        unsafe { Arc::increment_strong_count(raw) };
        // SAFETY: the count just added is the one this Arc owns.
        unsafe { Arc::from_raw(raw) }
    }

    fn large_pointer(self) -> *const LargeValue {
        // SAFETY: a stub holds a raw Arc pointer behind its key, unaligned.
        unsafe { self.payload().cast::<*const LargeValue>().read_unaligned() }
    }

    /// Takes the stub's ownership away; the stub must be marked DEAD or rewritten at once.
    pub(crate) fn large_take(self) -> Arc<LargeValue> {
        // SAFETY: the stub owns one count (invariant 3) and gives it up here.
        unsafe { Arc::from_raw(self.large_pointer()) }
    }

    pub(crate) fn large_put(self, value: Arc<LargeValue>) {
        // SAFETY: a stub has eight bytes behind its key.
        unsafe { self.payload().cast::<*const LargeValue>().write_unaligned(Arc::into_raw(value)) };
    }

    /// Of a stub whose value lies in a file meanwhile: where it is there.
    pub(crate) fn away(self) -> u64 {
        // SAFETY: a stub has eight bytes behind its key.
        unsafe { self.payload().cast::<u64>().read_unaligned() }
    }

    /// The value lies at `at` of a file from now on; what the stub owned was taken.
    pub(crate) fn put_away(self, at: u64) {
        // SAFETY: as `away`; the store is borrowed mutably by whoever writes.
        unsafe { self.payload().cast::<u64>().write_unaligned(at) };
    }

    /// Bytes it takes in the log.
    #[inline(always)]
    pub(crate) fn footprint(self) -> usize {
        self.load().footprint()
    }
}
