//! A buffer that is written from its end towards its start.
//!
//! Why backwards: a sub-message's length is known when it has been written, so one pass is enough; forwards one must
//! measure first (prost walks every message twice) or move bytes.
//!
//! ```text
//! start            at                          end
//! │ unused, grows  │ written last … first      │
//! └─ headroom for a header, then the payload follows without a gap
//! ```
//!
//! A [`Pen`] is where the next byte goes. The walk holds it by value while it writes the fields of one message, so that it
//! stays in registers: kept in the buffer, every byte stored might change it as far as the compiler knows, and each field
//! waited for the store of the one before.
//!
//! Invariants: `start <= at <= end`, one allocation. A `put_*` writes below `at` only, at most
//! [`Back::MARGIN`] bytes more than it keeps, and is called after [`Back::reserve`] of what it says. There is one pen at a
//! time: whoever takes it with [`Back::pen`] brings it back with [`Back::set_pen`] before anyone else writes. Of `at..end` all is
//! initialised but what [`Later`] still has to copy, which is nothing once [`Back::finish`] was called.
//! Bounds: a message is at most 2 GiB − 1, checked when the buffer would grow beyond and when it is finished.
//! Cost: a varint is one 8-byte store whatever its length, up to 56 bits; growing doubles and copies.
//! Sources: upb's and protoacc's serialisers write backwards too.

use super::error::EncodeError;
use super::later::Later;
use crate::memory::copy;
use std::alloc::Layout;
use std::mem::MaybeUninit;

/// Bytes written so far, last first.
pub(super) struct Back {
    pen: Pen,
    end: *mut u8,
    later: Later,
}

/// The place before which the next bytes are put, and the start of the room for them.
#[derive(Clone, Copy)]
pub(super) struct Pen {
    at: *mut u8,
    start: *mut u8,
}

// SAFETY: a Back owns its allocation alone.
unsafe impl Send for Back {}
// SAFETY: through &Back the bytes are only read.
unsafe impl Sync for Back {}

/// The longest message.
const LONGEST: usize = i32::MAX as usize;

impl Back {
    /// A varint is stored as 8 bytes, of which up to 7 lie below what is kept.
    const MARGIN: usize = 8;
    /// Room for one scalar field: tag, varint, margin.
    pub(super) const SCALAR: usize = 5 + 10 + Back::MARGIN;
    const FIRST: usize = if cfg!(miri) { 64 } else { 1024 };

    pub(super) fn new() -> Back {
        let start = Back::allocate(Back::FIRST);
        let end = start.wrapping_add(Back::FIRST);
        Back { pen: Pen { at: end, start }, end, later: Later::default() }
    }

    fn allocate(bytes: usize) -> *mut u8 {
        let layout = Layout::array::<u8>(bytes).expect("a length below the address space");
        assert!(bytes > 0, "a buffer has room");
        // SAFETY: the layout is not empty.
        let start = unsafe { std::alloc::alloc(layout) };
        if start.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        start
    }

    fn capacity(&self) -> usize {
        self.end.addr() - self.pen.start.addr()
    }

    /// Takes the pen.
    #[inline(always)]
    pub(super) fn pen(&self) -> Pen {
        self.pen
    }

    /// Brings the pen back.
    #[inline(always)]
    pub(super) fn set_pen(&mut self, pen: Pen) {
        self.pen = pen;
    }

    /// Forgets what was written.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.pen.at = self.end;
        self.later.forget();
    }

    /// Puts bytes that lie elsewhere, perhaps not before [`Back::finish`].
    ///
    /// # Safety
    /// As [`Pen::put_bytes`], and until then the bytes stay as they are.
    #[inline(always)]
    pub(super) unsafe fn put_later(&mut self, pen: &mut Pen, from: *const u8, len: usize) {
        // SAFETY: the caller's promise; nothing else is put where these bytes will be.
        unsafe {
            if len <= Later::AT_ONCE {
                return pen.put_bytes(from, len);
            }
            pen.at = pen.at.wrapping_sub(len);
            self.later.push(from, pen.at, len);
        }
    }

    /// Bytes written.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len_at(self.pen)
    }

    /// Bytes written by `pen`, which was taken from here.
    #[inline(always)]
    pub(super) fn len_at(&self, pen: Pen) -> usize {
        self.end.addr() - pen.at.addr()
    }

    /// What was written; nothing, if it was not finished.
    #[inline]
    pub(super) fn written(&self) -> &[u8] {
        if !self.later.is_empty() {
            return &[];
        }
        // SAFETY: at..end is initialised.
        unsafe { std::slice::from_raw_parts(self.pen.at, self.len()) }
    }

    /// What was written, with `headroom` zeroed bytes before it.
    pub(super) fn with_headroom(&mut self, headroom: usize) -> Result<&mut [u8], EncodeError> {
        self.finish()?;
        self.pen = self.reserve(self.pen, headroom)?;
        let first = self.pen.at.wrapping_sub(headroom);
        // SAFETY: reserved just now.
        unsafe { first.write_bytes(0, headroom) };
        // SAFETY: headroom bytes were zeroed, and at..end is initialised.
        Ok(unsafe { std::slice::from_raw_parts_mut(first, headroom + self.len()) })
    }

    /// Copies what was put off, and checks that the message is not longer than one may be.
    #[inline]
    pub(super) fn finish(&mut self) -> Result<(), EncodeError> {
        // SAFETY: the promises of `put_later`.
        unsafe { self.later.copy() };
        if self.len() > LONGEST { Err(EncodeError::TooLong) } else { Ok(()) }
    }

    /// Makes room for `bytes` before the pen.
    #[inline(always)]
    pub(super) fn reserve(&mut self, pen: Pen, bytes: usize) -> Result<Pen, EncodeError> {
        if pen.room() >= bytes { Ok(pen) } else { self.grow(pen, bytes) }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, pen: Pen, bytes: usize) -> Result<Pen, EncodeError> {
        let len = self.len_at(pen);
        let needed = len.checked_add(bytes).ok_or(EncodeError::TooLong)?;
        if needed > LONGEST + (1 << 20) {
            return Err(EncodeError::TooLong);
        }
        // SAFETY: the promises of `put_later`; where they go will not be there any more.
        unsafe { self.later.copy() };
        let capacity = needed.max(self.capacity() * 2);
        let start = Back::allocate(capacity);
        let end = start.wrapping_add(capacity);
        let at = end.wrapping_sub(len);
        // SAFETY: len bytes are written here, and there is room for more there.
        unsafe { at.copy_from_nonoverlapping(pen.at, len) };
        let pen = Pen { at, start };
        *self = Back { pen, end, later: Later::default() };
        Ok(pen)
    }

    /// Puts `len` bytes that `fill` writes.
    ///
    /// # Safety
    /// At least `len` bytes are reserved, and `fill` initialises all that it is given.
    pub(super) unsafe fn put_with(&mut self, len: usize, fill: impl FnOnce(&mut [MaybeUninit<u8>])) {
        let at = self.pen.at.wrapping_sub(len);
        // SAFETY: reserved by the caller; MaybeUninit may be anything.
        fill(unsafe { std::slice::from_raw_parts_mut(at.cast(), len) });
        self.pen.at = at;
    }
}

impl Pen {
    /// Bytes that fit before the buffer must grow.
    #[inline(always)]
    fn room(self) -> usize {
        self.at.addr() - self.start.addr()
    }

    /// Puts `value` before what was written.
    ///
    /// # Safety
    /// At least that many bytes are reserved.
    #[inline(always)]
    pub(super) unsafe fn put<T: Copy>(&mut self, value: T) {
        self.at = self.at.wrapping_sub(size_of::<T>());
        // SAFETY: the caller reserved it; a lower address of this allocation.
        unsafe { self.at.cast::<T>().write_unaligned(value) };
    }

    /// Puts a varint.
    ///
    /// # Safety
    /// 10 + [`Back::MARGIN`] bytes are reserved.
    #[inline(always)]
    pub(super) unsafe fn put_varint(&mut self, value: u64) {
        // SAFETY: the caller's promise, for each way out.
        unsafe {
            if value < 0x80 {
                self.put(value as u8);
            } else if value < 1 << 56 {
                let (word, len) = spread(value);
                self.put_top(word, len);
            } else {
                self.put_long(value);
            }
        }
    }

    /// Puts a varint with its tag before it.
    ///
    /// # Safety
    /// [`Back::SCALAR`] bytes are reserved.
    #[inline(always)]
    pub(super) unsafe fn put_tagged(&mut self, tag: u32, value: u64) {
        // SAFETY: the caller's promise, for each way out.
        unsafe {
            if tag < 0x80 {
                if value < 0x80 {
                    return self.put((value as u16) << 8 | tag as u16);
                }
                if value < 1 << 14 {
                    // The length of most texts: without counting its bits.
                    let word = (value as u32 & 0x3f80) << 17 | (value as u32 & 0x7f | 0x80) << 16 | tag << 8;
                    self.at.wrapping_sub(4).cast::<u32>().write_unaligned(word);
                    self.at = self.at.wrapping_sub(3);
                    return;
                }
                if value < 1 << 49 {
                    let (word, len) = spread(value);
                    return self.put_top(word << 8 | u64::from(tag), len + 1);
                }
            }
            self.put_varint(value);
            self.put_tag(tag);
        }
    }

    /// Puts a tag.
    ///
    /// # Safety
    /// 5 + [`Back::MARGIN`] bytes are reserved.
    #[inline(always)]
    pub(super) unsafe fn put_tag(&mut self, tag: u32) {
        // SAFETY: the caller's promise, for each way out.
        unsafe {
            if tag < 0x80 {
                self.put(tag as u8);
            } else if tag < 0x4000 {
                self.put((tag as u16 & 0x7f | 0x80) | (tag >> 7 << 8) as u16);
            } else {
                let (word, len) = spread(u64::from(tag));
                self.put_top(word, len);
            }
        }
    }

    /// Puts the low `len` bytes (1 to 8) of `word`.
    ///
    /// # Safety
    /// 8 bytes are reserved.
    #[inline(always)]
    unsafe fn put_top(&mut self, word: u64, len: u32) {
        // SAFETY: the caller's promise; what lies below `len` bytes is written again or never looked at.
        unsafe { self.at.wrapping_sub(8).cast::<u64>().write_unaligned(word << ((8 - len) * 8)) };
        self.at = self.at.wrapping_sub(len as usize);
    }

    /// Puts a varint of nine or ten bytes.
    ///
    /// # Safety
    /// As [`Back::put_varint`].
    #[inline(always)]
    unsafe fn put_long(&mut self, value: u64) {
        let word = groups(value) | 0x8080_8080_8080_8080;
        let high = value >> 56;
        // SAFETY: the caller's promise, for each put.
        unsafe {
            if high < 0x80 {
                self.put(high as u8);
            } else {
                self.put((high & 0x7f | 0x80) as u16 | 1 << 8);
            }
            self.put(word);
        }
    }

    /// Puts bytes that lie elsewhere.
    ///
    /// # Safety
    /// At least `len` bytes are reserved, and `from` is the first of `len` readable bytes outside this buffer.
    #[inline(always)]
    pub(super) unsafe fn put_bytes(&mut self, from: *const u8, len: usize) {
        self.at = self.at.wrapping_sub(len);
        // SAFETY: the caller's promise.
        unsafe { copy(from, self.at, len) };
    }
}

/// A varint of a value below 2^56: its bytes, lowest first, and how many.
#[inline(always)]
fn spread(value: u64) -> (u64, u32) {
    let bits = 64 - (value | 1).leading_zeros();
    let len = (bits * 9 + 64) >> 6;
    (groups(value) | 0x0080_8080_8080_8080 >> ((8 - len) * 8), len)
}

/// The low 56 bits, seven to a byte: 28 to a half, then 14 to a quarter, then 7.
#[inline(always)]
fn groups(value: u64) -> u64 {
    let word = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x0fff_c000_0fff_c000) << 2;
    word & 0x007f_007f_007f_007f | (word & 0x3f80_3f80_3f80_3f80) << 1
}

impl Drop for Back {
    fn drop(&mut self) {
        let layout = Layout::array::<u8>(self.capacity()).expect("it was allocated so");
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.pen.start, layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    #[test]
    fn every_length_of_varint_with_every_length_of_tag() {
        let mut back = Back::new();
        for bits in 0..=64_u32 {
            for value in [0, 1, u64::MAX, 0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa] {
                let value = if bits == 64 { value } else { value & ((1 << bits) - 1) };
                for tag in [8_u32, 0x78, 0x80, 0x3ff8, 0x4000, 0x1f_fff8, 0xffff_fff8] {
                    back.clear();
                    let mut pen = back.reserve(back.pen(), Back::SCALAR).expect("room");
                    // SAFETY: reserved.
                    unsafe { pen.put_tagged(tag, value) };
                    back.set_pen(pen);
                    let expected = [model(u64::from(tag)), model(value)].concat();
                    assert_eq!(back.written(), expected, "tag {tag:x}, value {value:x}");
                }
            }
        }
    }

    #[test]
    fn growing_keeps_what_was_written() {
        let mut back = Back::new();
        let mut expected = Vec::new();
        for len in (0..100_usize).chain([1000, 5000]) {
            let bytes: Vec<u8> = (0..len).map(|byte| (byte * 7 + len) as u8).collect();
            let mut pen = back.reserve(back.pen(), len).expect("room");
            // SAFETY: reserved, and apart.
            unsafe { pen.put_bytes(bytes.as_ptr(), len) };
            back.set_pen(pen);
            expected.splice(0..0, bytes);
            assert_eq!(back.written(), expected);
        }
        let framed = back.with_headroom(20_000).expect("room");
        assert_eq!(framed[..20_000], [0; 20_000]);
        assert_eq!(framed[20_000..], expected);
        assert_eq!(back.reserve(back.pen(), LONGEST + (2 << 20)).err(), Some(EncodeError::TooLong));
        assert_eq!(back.written(), expected);
    }
    #[test]
    fn what_is_put_off_is_there_once_it_is_finished() {
        // More than are put off at once, of lengths on both sides of what is copied at once; the buffer grows on the way.
        let texts: Vec<Vec<u8>> =
            (0..50_usize).map(|index| vec![index as u8; index * 7 % 120 + index / 40 * 3000]).collect();
        let mut back = Back::new();
        for _ in 0..2 {
            back.clear();
            for text in texts.iter().rev() {
                let mut pen = back.reserve(back.pen(), text.len() + Back::SCALAR).expect("room");
                // SAFETY: reserved, and the texts stay.
                unsafe {
                    back.put_later(&mut pen, text.as_ptr(), text.len());
                    pen.put_tagged(10, text.len() as u64);
                }
                back.set_pen(pen);
            }
            assert_eq!(back.written(), [0; 0], "holes are not shown");
            back.finish().expect("short enough");
            let field = |text: &Vec<u8>| [&[10], &model(text.len() as u64)[..], text].concat();
            assert_eq!(back.written(), texts.iter().flat_map(field).collect::<Vec<u8>>());
        }
    }
}
