//! Moves the fields with the target bit of a decoded object to accelerator memory, as a lane would have put them there.

use crate::memory::{Arena, CHUNK};
use crate::object::{Addr, Object, Ref};
use crate::table::{Flags, Table};
use std::ptr::NonNull;

pub struct Move<'a> {
    pub table: &'a Table,
    pub acc: &'a Arena,
    /// Fields moved, with all that is below them counted as one.
    pub moved: usize,
}

impl Move<'_> {
    fn copy(&self, from: *const u8, bytes: usize) -> Addr {
        let to = self.acc.alloc(bytes).expect("room").as_ptr();
        // SAFETY: given just now; `from` has that many bytes (an object's word).
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
        self.acc.addr(to)
    }

    fn text(&self, of: Ref) -> Ref {
        if of.len == 0 { of } else { Ref { addr: self.copy(of.addr.pointer(), of.len as usize), ..of } }
    }

    /// An object and what is below it; all of it if `whole`. Its new address.
    pub fn object(&mut self, class: u32, object: Object, whole: bool) -> Addr {
        let table = self.table;
        let message = table.message(class);
        for (index, entry) in table.entries(message).iter().enumerate() {
            // SAFETY: an entry of the object's class, here and below; the test is the only one to touch the object.
            if !entry.is_dereference() || !unsafe { object.has(index as u32) } {
                continue;
            }
            let away = whole || entry.flags.has(Flags::ACC);
            self.moved += usize::from(away && !whole);
            // SAFETY: as above.
            unsafe {
                if entry.is_repeated() {
                    let array = object.read(entry.offset);
                    object.write(entry.offset, self.array(entry, array, away));
                } else if entry.kind().is_message() {
                    let addr = self.message(entry.aux, object.read(entry.offset), away);
                    object.write(entry.offset, addr);
                } else if away {
                    object.write(entry.offset, self.text(object.read(entry.offset)));
                }
            }
        }
        if !whole {
            return Addr::host(object.start().as_ptr());
        }
        // SAFETY: an array of runs.
        unsafe {
            let runs: Ref = object.read(message.unknown);
            for index in 0..runs.len as usize {
                let run = runs.addr.pointer().cast::<Ref>().add(index);
                run.write(self.text(run.read()));
            }
            if runs.len > 0 {
                let addr = self.copy(runs.addr.pointer(), runs.len as usize * size_of::<Ref>());
                object.write(message.unknown, Ref { addr, ..runs });
            }
        }
        self.copy(object.start().as_ptr(), message.size as usize)
    }

    fn message(&mut self, class: u32, at: Addr, whole: bool) -> Addr {
        match NonNull::new(at.pointer()) {
            Some(start) => self.object(class, Object::at(start), whole),
            None => at,
        }
    }

    fn array(&mut self, entry: &crate::table::Entry, array: Ref, away: bool) -> Ref {
        let size = entry.kind().size();
        for index in 0..array.len as usize {
            let element = array.addr.pointer().wrapping_add(index * size);
            // SAFETY: an element of the array, of this kind.
            unsafe {
                if entry.kind().is_message() {
                    let addr = self.message(entry.aux, element.cast::<Addr>().read(), away);
                    element.cast::<Addr>().write(addr);
                } else if !entry.kind().is_scalar() && away {
                    element.cast::<Ref>().write(self.text(element.cast::<Ref>().read()));
                }
            }
        }
        if !away || array.len == 0 {
            return array;
        }
        Ref { addr: self.copy(array.addr.pointer(), array.len as usize * size), ..array }
    }
}

/// Accelerator memory for a test.
pub fn acc_memory() -> std::sync::Arc<crate::memory::Memory> {
    crate::memory::Memory::acc(if cfg!(miri) { 128 } else { 8192 } * CHUNK).expect("memory")
}
