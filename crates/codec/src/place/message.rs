//! A message whose fields lie in two memories, and the memory that it owns.

use super::live::FieldId;
use crate::memory::{Arena, Memory, OutOfMemory, Place};
use crate::object::{Addr, Object, View};
use crate::table::Table;
use std::ptr::NonNull;
use std::sync::Arc;

/// An owned message: its objects are in host memory, some of its fields in accelerator memory. Dropping it returns the
/// chunks of both.
pub struct Placed {
    pub(super) root: Object,
    pub(super) class: u32,
    pub(super) table: Arc<Table>,
    pub(super) host: Arena,
    pub(super) acc: Arena,
    /// Memory of fields that were moved.
    pub(super) moved: Vec<Arena>,
}

// SAFETY: it owns the memory that its objects are in; what they refer to is there too, or in accelerator memory.
unsafe impl Send for Placed {}

impl Placed {
    /// An empty message of `class`, to be filled on the host.
    ///
    /// # Errors
    /// The host's memory is full.
    pub fn new(
        table: Arc<Table>,
        class: u32,
        host: &Arc<Memory>,
        acc: &Arc<Memory>,
    ) -> Result<Placed, OutOfMemory> {
        let (host, acc) = (Arena::new(host), Arena::new(acc));
        let size = table.message(class).size as usize;
        let start = host.alloc(size)?;
        // SAFETY: just given, that long.
        unsafe { start.as_ptr().write_bytes(0, size) };
        Ok(Placed { root: Object::at(start), class, table, host, acc, moved: Vec::new() })
    }

    /// The message, to be read. Fields in accelerator memory cannot be: ask [`Placed::is_in_acc`], or move them.
    pub fn view(&self) -> View<'_> {
        // SAFETY: the root is finished, and its memory lives and is not written while self is borrowed.
        unsafe { View::of(self.root) }
    }

    /// Its class id.
    pub fn class(&self) -> u32 {
        self.class
    }

    /// The table that it was decoded with.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The arena of its host part, for editing.
    pub fn arena(&self) -> &Arena {
        &self.host
    }

    /// The root object, for editing.
    pub fn root(&mut self) -> Object {
        self.root
    }

    /// Room in accelerator memory that lives as long as this message: where a compute unit writes a result.
    ///
    /// # Errors
    /// The accelerator's memory is full.
    pub fn acc_room(&mut self, bytes: usize) -> Result<Addr, OutOfMemory> {
        let start = self.acc.alloc(bytes)?;
        Ok(self.acc.addr(start.as_ptr()))
    }

    /// Where the field at the end of `path` lies: all but the last are singular sub-messages.
    /// `None` if it is not present.
    ///
    /// # Panics
    /// If the path is not one of dereference fields through this message's classes.
    pub fn place_of(&self, path: &[FieldId]) -> Option<Place> {
        let (object, field) = self.follow(path)?;
        let entry = self.table.entries(self.table.message(field.class))[field.entry as usize];
        assert!(entry.is_dereference(), "only a dereference field has a place of its own");
        // SAFETY: `follow` checked the classes; a dereference field begins with an address.
        let addr: Addr = unsafe { object.read(entry.offset) };
        Some(if addr.is_acc() { Place::Acc } else { Place::Host })
    }

    /// RPCAcc Table III, `isInAcc`: true if the field is present and in accelerator memory.
    ///
    /// # Panics
    /// As [`Placed::place_of`].
    pub fn is_in_acc(&self, path: &[FieldId]) -> bool {
        self.place_of(path) == Some(Place::Acc)
    }

    /// The object that has the last field of `path`, if it and the field are present.
    pub(super) fn follow(&self, path: &[FieldId]) -> Option<(Object, FieldId)> {
        let (&last, around) = path.split_last().expect("a path names a field");
        let (mut object, mut class) = (self.root, self.class);
        for &field in around {
            let entry = self.entry(class, field);
            assert!(
                entry.kind().is_message() && !entry.is_repeated(),
                "the way to a field leads through sub-messages"
            );
            // SAFETY: the object is of this class and the entry is one of its entries; a present sub-message has an address.
            let addr: Addr = unsafe {
                if !object.has(field.entry) {
                    return None;
                }
                object.read(entry.offset)
            };
            if addr.is_acc() {
                return None;
            }
            object = Object::at(NonNull::new(addr.pointer()).expect("a present sub-message has an address"));
            class = entry.aux;
        }
        self.entry(class, last);
        // SAFETY: as above.
        unsafe { object.has(last.entry) }.then_some((object, last))
    }

    fn entry(&self, class: u32, field: FieldId) -> crate::table::Entry {
        assert_eq!(field.class, class, "the field belongs to another message");
        self.table.entries(self.table.message(class))[field.entry as usize]
    }
}

impl std::fmt::Debug for Placed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (host, acc) = (self.host.held_bytes(), self.acc.held_bytes());
        write!(f, "Placed(class {}, {host} bytes of host memory, {acc} of the accelerator's)", self.class)
    }
}
