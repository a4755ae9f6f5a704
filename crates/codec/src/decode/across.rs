//! Objects that end in another memory: the accelerator decodes, the host reads.
//!
//! ```text
//! open object, its arrays ── lane's own memory (the SRAM stack) ──close──▶ temp buffer, 4 KiB ──one write──▶ host chunk
//! strings ─────────────────────────────────────────────────────append──▶      │
//! fields with the target bit ─────────────────────────────────────────────────┴──▶ accelerator chunk, written in place
//! ```
//!
//! *One-shot* (RPCAcc III-B items 10, 11): the temp buffer is append-only. It is flushed by one write when it is full, when
//! the host chunk is exhausted (the next address does not follow), or when the message is done; fields of different
//! messages never share a write. Why objects are appended when they are *closed*, parents after children: only then are
//! they whole, so nothing that was flushed is ever written again. Bytes longer than the temp buffer are written from where
//! they are.
//!
//! *Field by field* is the baseline that the paper compares with (ProtoACC on PCIe): each value is a write of its own.
//!
//! Invariants: bytes `0..len` of the temp buffer belong to the host addresses from `start` on, in order, without gaps
//! (checked by the tests against the direct sink); an address is put into a parent only after its bytes were appended.

use super::sink::{Open, Sink};
use crate::crossing::Crossing;
use crate::memory::{Arena, CHUNK, Mark, OutOfMemory, Place};
use crate::object::grow_in;
use crate::object::{Addr, Object, Ref};
use crate::table::{Entry, Flags, Message};
use std::ptr::NonNull;

/// How host-bound bytes cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Gathered in the temp buffer.
    OneShot,
    /// Each value on its own: the baseline.
    FieldByField,
}

/// A lane's temp buffer.
pub(crate) struct Temp {
    bytes: Box<[u8; CHUNK]>,
    len: usize,
    start: NonNull<u8>,
    /// A bug that the tests must find: what is in the buffer when the chunk changes is forgotten.
    #[cfg(test)]
    pub(crate) forgets: bool,
}

// SAFETY: `start` is where the lane's message will be; only the lane uses it.
unsafe impl Send for Temp {}

impl Temp {
    /// Forgets what was gathered.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }
}

impl Default for Temp {
    fn default() -> Temp {
        Temp {
            bytes: Box::new([0; CHUNK]),
            len: 0,
            start: NonNull::dangling(),
            #[cfg(test)]
            forgets: false,
        }
    }
}

/// Host-bound objects of one message cross; the others stay.
pub(crate) struct Across<'a, C> {
    pub(crate) crossing: &'a C,
    pub(crate) writes: Writes,
    /// Gives host addresses; the memory behind them is written through `crossing` only.
    pub(crate) host: &'a Arena,
    /// Accelerator memory, which this thread writes.
    pub(crate) acc: &'a Arena,
    /// This lane's own memory: open objects and the arrays in them.
    pub(crate) scratch: &'a mut Arena,
    pub(crate) marks: &'a mut Vec<Mark>,
    pub(crate) temp: &'a mut Temp,
}

impl<C: Crossing> Across<'_, C> {
    /// The message is done: what is left in the temp buffer crosses.
    pub(crate) fn finish(&mut self) {
        self.flush();
    }

    fn flush(&mut self) {
        let temp = &mut *self.temp;
        if temp.len != 0 {
            // SAFETY: `host` gave these addresses for this message, and nobody reads them before it is announced.
            unsafe { self.crossing.write(temp.start, &temp.bytes[..temp.len]) };
            temp.len = 0;
        }
    }

    /// Sends bytes to the host's memory, sooner or later: where they will be.
    fn append(&mut self, bytes: &[u8]) -> Result<Addr, OutOfMemory> {
        let at = self.host.alloc(bytes.len())?;
        if self.writes == Writes::FieldByField || bytes.len() > CHUNK {
            // SAFETY: as in `flush`.
            unsafe { self.crossing.write(at, bytes) };
            return Ok(Addr::host(at.as_ptr()));
        }
        let padded = bytes.len().next_multiple_of(8);
        let next = self.temp.start.as_ptr().wrapping_add(self.temp.len);
        if next != at.as_ptr() || self.temp.len + padded > CHUNK {
            #[cfg(test)]
            if self.temp.forgets {
                self.temp.clear();
            }
            self.flush();
            self.temp.start = at;
        }
        let gap = &mut self.temp.bytes[self.temp.len..][..padded];
        gap[..bytes.len()].copy_from_slice(bytes);
        gap[bytes.len()..].fill(0);
        self.temp.len += padded;
        Ok(Addr::host(at.as_ptr()))
    }

    /// Gives the array of an open object its final address.
    fn seal(&mut self, array: Ref, size: usize, place: Place) -> Result<Ref, OutOfMemory> {
        let local = array.addr.pointer();
        let addr = match place {
            Place::Acc => self.acc.addr(local),
            Place::Host => {
                // SAFETY: `grow` gave this memory, and len elements were written.
                let bytes = unsafe { std::slice::from_raw_parts(local, array.len as usize * size) };
                self.append(bytes)?
            }
        };
        Ok(Ref { addr, len: array.len, capacity: array.len })
    }

    /// Sends a closed object to the host's memory.
    fn send(&mut self, object: Object, message: &Message, entries: &[Entry]) -> Result<Addr, OutOfMemory> {
        let start = object.start().as_ptr();
        // SAFETY: the object is that long, zeroed when it was opened.
        let bytes = unsafe { std::slice::from_raw_parts(start, message.size as usize) };
        if self.writes == Writes::OneShot {
            return self.append(bytes);
        }
        let at = self.host.alloc(bytes.len())?;
        let write = |offset: usize, len: usize| {
            // SAFETY: as in `flush`; offset and len are within the object.
            unsafe { self.crossing.write(at.add(offset), &bytes[offset..offset + len]) };
        };
        // The object as it is made: presence words, and zeros where nothing came. Then its fields, each on its own.
        write(0, bytes.len());
        for (index, entry) in entries.iter().enumerate() {
            // SAFETY: an entry of this object.
            if unsafe { object.has(index as u32) } {
                let case = if entry.flags.has(Flags::ONEOF) { 8 } else { 0 };
                write(entry.offset as usize - case, case + entry.slot());
            }
        }
        Ok(Addr::host(at.as_ptr()))
    }
}

impl<C: Crossing> Sink for Across<'_, C> {
    fn open(&mut self, place: Place, message: &Message) -> Result<Open, OutOfMemory> {
        let from = match place {
            Place::Acc => self.acc,
            Place::Host => {
                self.marks.push(self.scratch.mark());
                &*self.scratch
            }
        };
        let start = from.alloc(message.size as usize)?;
        // SAFETY: just given, that long.
        unsafe { start.as_ptr().write_bytes(0, message.size as usize) };
        Ok(Open { object: Object::at(start), place })
    }

    /// What was sent is not read back: see `Fault::Split`.
    fn reopen(&mut self, _addr: Addr, _place: Place) -> Option<Open> {
        None
    }

    fn close(&mut self, open: Open, message: &Message, entries: &[Entry]) -> Result<Addr, OutOfMemory> {
        let object = open.object;
        let place_of = |entry: &Entry| if entry.flags.has(Flags::ACC) { Place::Acc } else { open.place };
        if message.flags & Message::PLAIN == 0 {
            for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.is_repeated()) {
                // SAFETY: an entry of this object, repeated: a Ref to an array that `grow` gave.
                unsafe {
                    if object.has(index as u32) {
                        let array =
                            self.seal(object.read(entry.offset), entry.kind().size(), place_of(entry))?;
                        object.write(entry.offset, array);
                    }
                }
            }
        }
        // SAFETY: every object has a Ref to its runs of unknown fields there.
        unsafe {
            let runs: Ref = object.read(message.unknown);
            if runs.len != 0 {
                object.write(message.unknown, self.seal(runs, size_of::<Ref>(), open.place)?);
            }
        }
        if open.place == Place::Acc {
            return Ok(self.acc.addr(object.start().as_ptr()));
        }
        let addr = self.send(object, message, entries)?;
        self.scratch.release(self.marks.pop().expect("an object that was opened"));
        Ok(addr)
    }

    fn bytes(&mut self, place: Place, bytes: &[u8]) -> Result<Addr, OutOfMemory> {
        match place {
            // Nothing lies nowhere: an empty value needs no move to be read.
            _ if bytes.is_empty() => Ok(Addr::NULL),
            Place::Host => self.append(bytes),
            Place::Acc => {
                let start = self.acc.alloc(bytes.len())?.as_ptr();
                // SAFETY: just given, that long, and not part of the input.
                unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                Ok(self.acc.addr(start))
            }
        }
    }

    fn grow(&mut self, place: Place, array: Ref, size: usize, more: u32) -> Result<Ref, OutOfMemory> {
        let arena = if place == Place::Acc { self.acc } else { &*self.scratch };
        grow_in(arena, array, size, more)
    }

    fn element(&self, array: Ref, size: usize, index: u32) -> *mut u8 {
        array.addr.pointer().wrapping_add(index as usize * size)
    }
}
