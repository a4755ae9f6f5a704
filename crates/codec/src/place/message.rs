//! A message whose fields lie in two memories, and the memory that it owns.

use super::live::FieldId;
use super::transfer::{MoveError, Slot};
use crate::memory::{Arena, Memory, OutOfMemory, Place};
use crate::object::{Addr, Dynamic, DynamicMut, Edit, Object, Ref, View};
use crate::schema::Types;
use crate::table::{Entry, Flags, Kind, Table};
use crate::unit::Span;
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

    /// Whether an object lies in the host memory that this message took when it was made.
    pub fn owns(&self, object: Object) -> bool {
        self.host.holds(object.start().as_ptr())
    }

    /// Takes over memory that its fields refer to.
    pub fn adopt(&mut self, memory: Arena) {
        self.moved.push(memory);
    }

    /// The message, read by name.
    ///
    /// # Panics
    /// If it is not of these types.
    pub fn dynamic<'a>(&'a self, types: &'a Types) -> Dynamic<'a> {
        self.assert_of(types);
        // SAFETY: of this class, laid out as the types say.
        unsafe { Dynamic::of(types, self.class, self.view()) }
    }

    /// The message, changed by name. What is lent to it must live for ever, since nobody knows when the message ends.
    ///
    /// # Panics
    /// If it is not of these types.
    pub fn dynamic_mut<'a>(&'a mut self, types: &'static Types) -> DynamicMut<'a, 'static> {
        self.assert_of(types);
        // SAFETY: of this class, laid out as the types say, and borrowed alone.
        unsafe { DynamicMut::of(types, self.class, Edit::of(self.root, &self.host)) }
    }

    fn assert_of(&self, types: &Types) {
        let same = self.table.layout_hash() == types.table().layout_hash();
        assert!(same, "the message was made with another schema");
    }

    /// Where the field at the end of `path` lies: all but the last are singular sub-messages.
    /// `None` if it is not present, or has no bytes that could lie anywhere.
    ///
    /// # Panics
    /// If the path is not one of dereference fields through this message's classes.
    pub fn place_of(&self, path: &[FieldId]) -> Option<Place> {
        let (object, field) = self.follow(path)?;
        let entry = self.entry(field);
        assert!(entry.is_dereference(), "only a dereference field has a place of its own");
        // SAFETY: `follow` checked the classes.
        let addr = match unsafe { Slot::read(object, entry) } {
            Slot::Message(addr) => addr,
            Slot::Array(Ref { len: 0, .. }) => return None,
            Slot::Array(array) => array.addr,
        };
        Some(if addr.is_acc() { Place::Acc } else { Place::Host })
    }

    /// RPCAcc Table III, `isInAcc`: true if the field is present and in accelerator memory.
    ///
    /// # Panics
    /// As [`Placed::place_of`].
    pub fn is_in_acc(&self, path: &[FieldId]) -> bool {
        self.place_of(path) == Some(Place::Acc)
    }

    /// Where the bytes of a string or bytes field are in accelerator memory, if it is there: what a compute unit may read.
    ///
    /// # Panics
    /// As [`Placed::place_of`], or if the field is of another kind.
    pub fn acc_bytes(&self, path: &[FieldId]) -> Option<Span> {
        let (object, field) = self.follow(path)?;
        let entry = self.entry(field);
        assert!(is_text(entry), "a unit reads a string or bytes field");
        // SAFETY: such a field of this object.
        let text: Ref = unsafe { object.read(entry.offset) };
        (text.len != 0 && text.addr.is_acc()).then(|| Span::new(text.addr.offset() as u64, text.len))
    }

    /// Sets a bytes field to `len` bytes of accelerator memory at `at`. The messages around it must be present.
    ///
    /// # Errors
    /// [`MoveError::Absent`] if they are not.
    ///
    /// # Safety
    /// The bytes are part of what [`Placed::acc_room`] of this message gave, and nobody writes them as long as it lives.
    ///
    /// # Panics
    /// If the path does not lead to a bytes field.
    pub unsafe fn set_acc(&mut self, path: &[FieldId], at: Addr, len: u32) -> Result<(), MoveError> {
        let (object, field) = self.reach(path).ok_or(MoveError::Absent)?;
        let entry = self.entry(field);
        assert!(entry.kind() == Kind::Bytes && is_text(entry), "a unit writes a bytes field");
        let bytes = if len == 0 { Ref::EMPTY } else { Ref { addr: at, len, capacity: 0 } };
        // SAFETY: such a field of this object, which only this call has.
        unsafe {
            if entry.flags.has(Flags::ONEOF) {
                object.choose(field.entry, entry.offset);
            }
            object.set(field.entry);
            object.write(entry.offset, bytes);
        }
        Ok(())
    }

    /// The object that has the last field of `path`, if it and the field are present.
    pub(super) fn follow(&self, path: &[FieldId]) -> Option<(Object, FieldId)> {
        let (object, field) = self.reach(path)?;
        // SAFETY: `reach` checked the classes.
        unsafe { object.has(field.entry) }.then_some((object, field))
    }

    /// The object that has the last field of `path`, if it is present, the field or not.
    fn reach(&self, path: &[FieldId]) -> Option<(Object, FieldId)> {
        let (&last, around) = path.split_last().expect("a path names a field");
        let (mut object, mut class) = (self.root, self.class);
        for &field in around {
            assert_eq!(field.class, class, "the field belongs to another message");
            let entry = self.entry(field);
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
        assert_eq!(last.class, class, "the field belongs to another message");
        // That it is a field of the message at all.
        self.entry(last);
        Some((object, last))
    }

    /// True if [`Placed::set_acc`] would set the field at the end of `path`.
    ///
    /// # Panics
    /// As there.
    pub(super) fn takes_acc(&self, path: &[FieldId]) -> bool {
        self.reach(path).is_some_and(|(_, field)| {
            let entry = self.entry(field);
            assert!(entry.kind() == Kind::Bytes && is_text(entry), "a unit writes a bytes field");
            true
        })
    }

    /// What the table says of a field.
    pub(super) fn entry(&self, field: FieldId) -> &Entry {
        &self.table.entries(self.table.message(field.class))[field.entry as usize]
    }
}

fn is_text(entry: &Entry) -> bool {
    matches!(entry.kind(), Kind::String | Kind::Bytes) && !entry.is_repeated()
}

impl std::fmt::Debug for Placed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (host, acc) = (self.host.held_bytes(), self.acc.held_bytes());
        write!(f, "Placed(class {}, {host} bytes of host memory, {acc} of the accelerator's)", self.class)
    }
}
