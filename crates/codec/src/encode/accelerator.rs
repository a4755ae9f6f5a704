//! The accelerator's side of serialising: from a doorbell to a packet in the TX arena.
//!
//! ```text
//! TX arena:   │ unused │ headroom for the RPC header │ payload, written from its end │
//! ```
//!
//! Bounds: reads of prepared bytes are cut into pieces of `piece_bytes`; scratch memory holds one path through a message.
//! Sources: RPCAcc III-C (items 17, 23).

use super::back::Back;
use super::error::EncodeError;
use super::host::Bell;
use super::merge::merge;
use super::source::{Across, Source};
use super::walk::Walk;
use super::wire::Wire;
use super::{DEPTH, Strategy};
use crate::crossing::Crossing;
use crate::memory::{Arena, Memory};
use crate::object::{Addr, Object};
use crate::table::Table;
use std::ptr::NonNull;
use std::sync::Arc;

/// The serialiser of the accelerator.
pub struct Accelerator {
    memory: Arc<Memory>,
    scratch: Arena,
    inbox: Vec<u8>,
    back: Back,
    depth: u32,
    piece_bytes: usize,
}

impl Accelerator {
    /// The most that one read of prepared bytes brings, unless told otherwise.
    pub const PIECE_BYTES: usize = 1 << 20;

    /// The serialiser of the accelerator whose own memory is `memory`.
    pub fn new(memory: &Arc<Memory>) -> Accelerator {
        Accelerator::with(memory, DEPTH, Accelerator::PIECE_BYTES)
    }

    /// As [`Accelerator::new`], with a limit of depth and a length of reads.
    ///
    /// # Panics
    /// If a read should bring nothing.
    pub fn with(memory: &Arc<Memory>, depth: u32, piece_bytes: usize) -> Accelerator {
        assert!(piece_bytes > 0, "a read brings something");
        let (memory, scratch) = (Arc::clone(memory), Arena::new(memory));
        Accelerator { memory, scratch, inbox: Vec::new(), back: Back::new(), depth, piece_bytes }
    }

    /// Does the accelerator's part of what `bell` asks for: the encoded message behind `headroom` zeroed bytes, where the
    /// RPC header goes. It lies in the TX arena until the next call.
    ///
    /// # Errors
    /// Too deep, too long, no memory, or what was read makes no sense.
    ///
    /// # Safety
    /// The bell comes from [`Host::prepare`](super::Host::prepare) for a message of a table of the same layout; that host
    /// has prepared nothing else since, and the message is alive and not written. Nobody writes, meanwhile, what it refers
    /// to in accelerator memory.
    pub unsafe fn serialise<C: Crossing>(
        &mut self,
        crossing: &C,
        table: &Table,
        bell: &Bell,
        headroom: usize,
    ) -> Result<&mut [u8], EncodeError> {
        self.back.clear();
        // SAFETY: the caller's promise, for each strategy.
        unsafe {
            match bell.strategy {
                Strategy::CpuOnly => self.fetch_encoded(crossing, bell)?,
                Strategy::AcceleratorOnly => self.walk_objects(crossing, table, bell)?,
                Strategy::MemoryAffinity => {
                    self.fetch_records(crossing, bell)?;
                    self.merge_records::<C>(table, bell.class)?;
                }
            }
        }
        self.back.with_headroom(headroom)
    }

    /// The host has encoded: the bytes only have to come over.
    unsafe fn fetch_encoded(&mut self, crossing: &impl Crossing, bell: &Bell) -> Result<(), EncodeError> {
        let (from, len) = prepared(bell)?;
        let pen = self.back.reserve(self.back.pen(), len)?;
        self.back.set_pen(pen);
        let piece = self.piece_bytes;
        // SAFETY: reserved; the pieces fill all of it, from what the host prepared.
        unsafe {
            self.back.put_with(len, |into| {
                for (index, into) in into.chunks_mut(piece).enumerate() {
                    crossing.read(from.add(index * piece), into);
                }
            });
        }
        Ok(())
    }

    /// The host has done nothing: walk its objects, a read for each object, array and string.
    unsafe fn walk_objects(
        &mut self,
        crossing: &impl Crossing,
        table: &Table,
        bell: &Bell,
    ) -> Result<(), EncodeError> {
        let held = self.scratch.mark();
        let mut source =
            Across { crossing: Some(crossing), memory: &self.memory, scratch: &mut self.scratch };
        // SAFETY: the caller's promise: the root object is there.
        let root = unsafe { source.fetch(bell.addr, table.message(bell.class).size as usize, 8)? };
        let root = root.and_then(|root| NonNull::new(root.cast_mut())).ok_or(EncodeError::Address)?;
        let mut walk = Walk { table, source, visitor: Wire { back: &mut self.back }, depth: self.depth };
        // SAFETY: the caller's promise: an object of that class; what is read here is a copy of it.
        let walked = unsafe { walk.message(bell.class, Object::at(root)) };
        self.scratch.release(held);
        walked
    }

    /// Reads what the host has pre-serialised.
    unsafe fn fetch_records(&mut self, crossing: &impl Crossing, bell: &Bell) -> Result<(), EncodeError> {
        let (from, len) = prepared(bell)?;
        self.inbox.clear();
        self.inbox.reserve(len);
        let room = &mut self.inbox.spare_capacity_mut()[..len];
        for (index, into) in room.chunks_mut(self.piece_bytes).enumerate() {
            // SAFETY: the caller's promise: len bytes are there.
            unsafe { crossing.read(from.add(index * self.piece_bytes), into) };
        }
        // SAFETY: the pieces filled all of it.
        unsafe { self.inbox.set_len(len) };
        Ok(())
    }

    /// Encodes the records in the inbox, with what they refer to in this side's own memory. The records may be any bytes.
    ///
    /// # Safety
    /// Nobody writes this side's memory meanwhile.
    pub(super) unsafe fn merge_records<C: Crossing>(
        &mut self,
        table: &Table,
        class: u32,
    ) -> Result<(), EncodeError> {
        // Whatever the records say, no host address is followed.
        let source = Across::<C> { crossing: None, memory: &self.memory, scratch: &mut self.scratch };
        let mut walk = Walk { table, source, visitor: Wire { back: &mut self.back }, depth: self.depth };
        merge(&mut walk, class, &self.inbox)
    }

    /// That no scratch memory is held between messages.
    #[cfg(test)]
    pub(super) fn holds_nothing(&self) {
        assert_eq!(self.scratch.held_bytes(), 0);
    }

    /// Encodes `records` as if they had been fetched.
    #[cfg(test)]
    pub(super) fn merge_bytes(
        &mut self,
        table: &Table,
        class: u32,
        records: &[u8],
    ) -> Result<&[u8], EncodeError> {
        self.inbox.clear();
        self.inbox.extend_from_slice(records);
        self.back.clear();
        // SAFETY: tests have one thread.
        unsafe { self.merge_records::<crate::crossing::Shared>(table, class)? };
        Ok(self.back.written())
    }
}

/// Where the host has prepared bytes, and how many.
fn prepared(bell: &Bell) -> Result<(NonNull<u8>, usize), EncodeError> {
    let from = if bell.addr.is_acc() { Addr::NULL } else { bell.addr };
    Ok((NonNull::new(from.pointer()).ok_or(EncodeError::Address)?, bell.len as usize))
}

impl std::fmt::Debug for Accelerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Accelerator({} bytes in the TX arena, {:?})", self.back.len(), self.memory)
    }
}
