//! Moving a field from one memory to the other, with everything that it refers to.
//!
//! Runs on the accelerator. What is in host memory is read across, each object, array and string with one read; what goes to
//! host memory is gathered and written as a lane does (one-shot). Bytes and scalars, where no address is, go from place to place
//! without a copy between. The field's old bytes stay in their arena until the
//! message is dropped.
//!
//! Bounds: depth, as for decoding; memory, that of the two arenas.

use crate::crossing::Crossing;
use crate::decode::across::Across;
use crate::decode::sink::Sink;
use crate::memory::{Memory, OutOfMemory, Place};
use crate::object::{Addr, Object, Ref};
use crate::table::{Entry, Table};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Why a field was not moved. It stays where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveError {
    /// The field is not present, or lies within a part of the message that is in accelerator memory.
    Absent,
    /// Messages are nested too deeply in it.
    Depth,
    /// The memory it should move to is full.
    OutOfMemory,
}

impl std::fmt::Display for MoveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MoveError::Absent => "the field is not present, or is part of a message in accelerator memory",
            MoveError::Depth => "messages are nested too deeply in the field",
            MoveError::OutOfMemory => "the memory that the field should move to is full",
        })
    }
}

impl std::error::Error for MoveError {}

impl From<OutOfMemory> for MoveError {
    fn from(_: OutOfMemory) -> MoveError {
        MoveError::OutOfMemory
    }
}

/// What lies in the slot of a dereference field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    Message(Addr),
    Array(Ref),
}

impl Slot {
    /// # Safety
    /// The object has that dereference field.
    pub(super) unsafe fn read(object: Object, entry: &Entry) -> Slot {
        // SAFETY: the caller's promise.
        unsafe {
            if entry.slot() == size_of::<Ref>() {
                Slot::Array(object.read(entry.offset))
            } else {
                Slot::Message(object.read(entry.offset))
            }
        }
    }

    /// # Safety
    /// As [`Slot::read`], which gave a slot of this form; nobody reads the object meanwhile.
    pub(super) unsafe fn write(self, object: Object, entry: &Entry) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Slot::Array(array) => object.write(entry.offset, array),
                Slot::Message(addr) => object.write(entry.offset, addr),
            }
        }
    }
}

/// A move under way.
pub(super) struct Transfer<'a, C> {
    pub(super) table: &'a Table,
    pub(super) crossing: &'a C,
    /// The accelerator's memory, where it reads directly.
    pub(super) acc: &'a Memory,
    pub(super) sink: Across<'a, C>,
    pub(super) to: Place,
    pub(super) depth: u32,
}

impl<C: Crossing> Transfer<'_, C> {
    /// Moves what a field refers to: what its slot holds then.
    ///
    /// # Safety
    /// The slot is that of a finished object's field of this entry, alive and not written meanwhile.
    pub(super) unsafe fn run(mut self, entry: &Entry, slot: Slot) -> Result<Slot, MoveError> {
        // SAFETY: the caller's promise.
        let moved = unsafe { self.slot(entry, slot)? };
        self.sink.finish();
        Ok(moved)
    }

    /// # Safety
    /// As [`Transfer::run`]; so for the functions below.
    unsafe fn slot(&mut self, entry: &Entry, slot: Slot) -> Result<Slot, MoveError> {
        // SAFETY: the caller's promise.
        unsafe {
            Ok(match slot {
                Slot::Message(addr) => Slot::Message(self.object(entry.aux, addr)?),
                Slot::Array(array) if !entry.is_repeated() => Slot::Array(self.array(array, 1)?),
                Slot::Array(array) => Slot::Array(self.elements(entry, array)?),
            })
        }
    }

    unsafe fn object(&mut self, class: u32, from: Addr) -> Result<Addr, MoveError> {
        self.depth = self.depth.checked_sub(1).ok_or(MoveError::Depth)?;
        let message = self.table.message(class);
        // SAFETY: an object of that class is there.
        let mut bytes = unsafe { self.load(from, message.size as usize) };
        let object = Object::at(NonNull::from(&mut *bytes).cast());
        for (index, entry) in
            self.table.entries(message).iter().enumerate().filter(|(_, e)| e.is_dereference())
        {
            // SAFETY: an entry of the class of this copy of an object.
            unsafe {
                if object.has(index as u32) {
                    let moved = self.slot(entry, Slot::read(object, entry))?;
                    moved.write(object, entry);
                }
            }
        }
        // SAFETY: every object has a Ref to its runs of unknown fields, and each run is bytes.
        unsafe {
            let runs: Ref = object.read(message.unknown);
            object.write(message.unknown, self.texts(runs)?);
        }
        self.depth += 1;
        self.keep(&bytes, message.size as usize)
    }

    /// The elements of a repeated field.
    unsafe fn elements(&mut self, entry: &Entry, array: Ref) -> Result<Ref, MoveError> {
        let kind = entry.kind();
        // SAFETY: the caller's promise.
        unsafe {
            if kind.is_scalar() {
                return self.array(array, kind.size());
            }
            if !kind.is_message() {
                return self.texts(array);
            }
            let mut bytes = self.load(array.addr, array.len as usize * size_of::<Addr>());
            for element in 0..array.len as usize {
                let at = bytes.as_mut_ptr().cast::<Addr>().add(element);
                at.write(self.object(entry.aux, at.read())?);
            }
            let addr = self.keep(&bytes, array.len as usize * size_of::<Addr>())?;
            Ok(Ref { addr, len: array.len, capacity: array.len })
        }
    }

    /// An array of strings, bytes or runs.
    unsafe fn texts(&mut self, array: Ref) -> Result<Ref, MoveError> {
        if array.len == 0 {
            return Ok(Ref::EMPTY);
        }
        // SAFETY: the caller's promise: len elements are there.
        unsafe {
            let mut bytes = self.load(array.addr, array.len as usize * size_of::<Ref>());
            for element in 0..array.len as usize {
                let at = bytes.as_mut_ptr().cast::<Ref>().add(element);
                at.write(self.array(at.read(), 1)?);
            }
            let addr = self.keep(&bytes, array.len as usize * size_of::<Ref>())?;
            Ok(Ref { addr, len: array.len, capacity: array.len })
        }
    }

    /// Bytes, or an array of scalars of `size` bytes.
    unsafe fn array(&mut self, array: Ref, size: usize) -> Result<Ref, MoveError> {
        if array.len == 0 {
            return Ok(Ref::EMPTY);
        }
        let (from, len) = (array.addr, array.len as usize * size);
        let addr = if from.is_acc() {
            // SAFETY: the caller's promise; `own` checks that it lies in this memory, where nobody writes a message's bytes, and
            // what is written now goes elsewhere.
            let bytes = unsafe { std::slice::from_raw_parts(self.own(from, len), len) };
            self.sink.bytes(self.to, bytes)?
        } else if self.to == Place::Acc {
            let room = self.sink.acc.alloc(len)?;
            // SAFETY: just given, that long; the caller's promise for what is read.
            unsafe {
                let into = std::slice::from_raw_parts_mut(room.as_ptr().cast::<MaybeUninit<u8>>(), len);
                self.crossing.read(NonNull::new(from.pointer()).expect("bytes have an address"), into);
            }
            self.sink.acc.addr(room.as_ptr())
        } else {
            // SAFETY: the caller's promise.
            let bytes = unsafe { self.load(from, len) };
            self.keep(&bytes, len)?
        };
        Ok(Ref { addr, len: array.len, capacity: 0 })
    }

    /// Where bytes of accelerator memory are.
    fn own(&self, from: Addr, len: usize) -> *const u8 {
        assert!(from.offset() + len <= self.acc.len(), "an address in accelerator memory is in it");
        self.acc.start().wrapping_add(from.offset())
    }

    /// A copy of `len` bytes at `from`, in whole words.
    unsafe fn load(&self, from: Addr, len: usize) -> Box<[MaybeUninit<*mut u8>]> {
        // Pointers, so that addresses among the bytes keep what they may reach.
        let mut words = Box::new_uninit_slice(len.div_ceil(8));
        let bytes = words.as_mut_ptr().cast::<MaybeUninit<u8>>();
        if from.is_acc() {
            let start = self.own(from, len).cast::<MaybeUninit<u8>>();
            // SAFETY: within the region; nobody writes a message's bytes there.
            unsafe { bytes.copy_from_nonoverlapping(start, len) };
        } else if let Some(start) = NonNull::new(from.pointer()) {
            // SAFETY: as many bytes were just allocated; the caller promises those at `from`.
            unsafe { self.crossing.read(start, std::slice::from_raw_parts_mut(bytes, len)) };
        }
        words
    }

    /// Puts bytes into the memory that the field moves to.
    fn keep(&mut self, words: &[MaybeUninit<*mut u8>], len: usize) -> Result<Addr, MoveError> {
        // SAFETY: `load` filled the first len bytes.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), len) };
        Ok(self.sink.bytes(self.to, bytes)?)
    }
}
