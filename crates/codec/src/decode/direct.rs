//! Objects straight into an arena of this thread's memory: no crossing, the target bits are not looked at.

use super::sink::{Open, Sink};
use crate::memory::{Arena, OutOfMemory, Place};
use crate::object::{Addr, Object, Ref, grow_in};
use crate::table::{Entry, Message};
use std::ptr::NonNull;

pub(super) struct Direct<'a> {
    arena: &'a Arena,
}

impl<'a> Direct<'a> {
    #[inline]
    pub(super) fn new(arena: &'a Arena) -> Direct<'a> {
        Direct { arena }
    }
}

impl Sink for Direct<'_> {
    #[inline]
    fn open(&mut self, place: Place, message: &Message) -> Result<Open, OutOfMemory> {
        let start = self.arena.alloc_zeroed(message.size as usize)?;
        Ok(Open { object: Object::at(start), place })
    }

    fn reopen(&mut self, addr: Addr, place: Place) -> Option<Open> {
        let start = NonNull::new(addr.pointer()).expect("a present sub-message has an address");
        Some(Open { object: Object::at(start), place })
    }

    #[inline]
    fn close(&mut self, open: Open, _message: &Message, _entries: &[Entry]) -> Result<Addr, OutOfMemory> {
        Ok(Addr::host(open.object.start().as_ptr()))
    }

    #[inline]
    fn bytes(&mut self, _place: Place, bytes: &[u8]) -> Result<Addr, OutOfMemory> {
        let start = self.arena.alloc(bytes.len())?.as_ptr();
        // SAFETY: just given, that long, and not part of the input.
        unsafe { crate::memory::copy(bytes.as_ptr(), start, bytes.len()) };
        Ok(Addr::host(start))
    }

    #[inline]
    fn grow(&mut self, _place: Place, array: Ref, size: usize, more: u32) -> Result<Ref, OutOfMemory> {
        grow_in(self.arena, array, size, more)
    }

    #[inline(always)]
    fn element(&self, array: Ref, size: usize, index: u32) -> *mut u8 {
        array.addr.pointer().wrapping_add(index as usize * size)
    }
}
