//! Building messages by field name or number.
//!
//! Errors: [`SetError`]. A call that failed on a list, map or message may have done a part of it; what it left is a right
//! message all the same.

use super::checked::Checked;
use super::list::to_key;
use super::{Dynamic, FieldKey, Value};
use crate::decode::{DecodeError, Decoder};
use crate::memory::{Arena, OutOfMemory};
use crate::object::map::{Key, MapEdit, MapSlot};
use crate::object::reference::{Addr, Ref};
use crate::object::{Edit, Slot};
use crate::schema::{Field, Label, Message, Types};
use crate::table::Entry;
use crate::wire;
use std::fmt;

/// Why a field was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetError {
    /// The message has no such field, or the list no such element.
    NotThere,
    /// The value is not what the field holds.
    Kind,
    /// A string that must be UTF-8 is not.
    Utf8,
    /// The closed enum has no such value.
    EnumValue(i32),
    /// Unknown fields that are not whole fields.
    Malformed,
    /// The arena's memory is full.
    OutOfMemory,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::NotThere => f.write_str("there is no such field or element"),
            SetError::Kind => f.write_str("the value is not of the kind that the field holds"),
            SetError::Utf8 => f.write_str("the string is not valid UTF-8"),
            SetError::EnumValue(value) => write!(f, "{value} is no value of this closed enum"),
            SetError::Malformed => f.write_str("unknown fields must be whole fields"),
            SetError::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl std::error::Error for SetError {}

impl From<OutOfMemory> for SetError {
    fn from(_: OutOfMemory) -> SetError {
        SetError::OutOfMemory
    }
}

/// A message being built; see [`Edit`] for the two lives.
#[derive(Debug)]
pub struct DynamicMut<'m, 'a> {
    types: &'a Types,
    class: u32,
    pub(super) edit: Edit<'m, 'a>,
}

impl<'a> DynamicMut<'a, 'a> {
    /// An empty message of `class`.
    ///
    /// # Errors
    /// The memory is full.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn new(types: &'a Types, class: u32, arena: &'a Arena) -> Result<DynamicMut<'a, 'a>, OutOfMemory> {
        let edit = Edit::new(arena, types.table().message(class).size)?;
        Ok(DynamicMut { types, class, edit })
    }

    /// Decodes `input` to be changed.
    ///
    /// # Errors
    /// As [`Decoder::owned`].
    pub fn decode(
        types: &'a Types,
        class: u32,
        decoder: &mut Decoder,
        input: &[u8],
        arena: &'a Arena,
    ) -> Result<DynamicMut<'a, 'a>, DecodeError> {
        let view = decoder.owned(types.table(), class, input, arena)?;
        // SAFETY: just decoded, and the view goes no further.
        Ok(DynamicMut { types, class, edit: unsafe { Edit::of(view.object(), arena) } })
    }
}

impl<'m, 'a> DynamicMut<'m, 'a> {
    /// Goes on with an object.
    ///
    /// # Safety
    /// The object is of `class` of `types`, or of a table with the same layout.
    pub unsafe fn of(types: &'a Types, class: u32, edit: Edit<'m, 'a>) -> DynamicMut<'m, 'a> {
        DynamicMut { types, class, edit }
    }

    /// What the schema says of it.
    pub fn message(&self) -> &'a Message {
        &self.types.schema().messages()[self.class as usize]
    }

    /// Reads it as it is now.
    pub fn as_dynamic(&self) -> Dynamic<'_> {
        // SAFETY: the edit's object is of the class.
        unsafe { Dynamic::of(self.types, self.class, self.edit.view()) }
    }

    /// No more changes.
    pub fn freeze(self) -> Dynamic<'m>
    where
        'a: 'm,
    {
        // SAFETY: the edit's object is of the class.
        unsafe { Dynamic::of(self.types, self.class, self.edit.freeze()) }
    }

    fn find(&self, field: impl FieldKey) -> Result<(&'a Field, &'a Entry, Slot), SetError> {
        let index = field.index_in(self.message()).ok_or(SetError::NotThere)?;
        let table = self.types.table();
        let entry = &table.entries(table.message(self.class))[index];
        Ok((&self.message().fields[index], entry, Slot::of(entry, index)))
    }

    fn size_of(&self, class: u32) -> u32 {
        self.types.table().message(class).size
    }

    /// Sets a field: a singular one to a value, a repeated one to the elements of a list, a map to the entries of a map.
    /// What the value refers to is copied.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn set(&mut self, field: impl FieldKey, value: Value<'_>) -> Result<(), SetError> {
        let (field, entry, slot) = self.find(field)?;
        match (field.label, value) {
            (Label::Map, Value::Map(map)) => {
                self.clear(field)?;
                self.merge_map(field, map)
            }
            (Label::Repeated, Value::List(list)) => {
                self.clear(field)?;
                list.iter().try_for_each(|value| self.push(field, value))
            }
            (Label::Map | Label::Repeated, _) => Err(SetError::Kind),
            (_, Value::Message(message)) => {
                self.clear(field)?;
                self.message_mut(field)?.merge(message)
            }
            _ => {
                let checked = Checked::of(self.types, field, entry, value)?;
                // SAFETY: the slot is of a singular field of this class, and the value is right for it.
                unsafe { checked.set(&mut self.edit, slot) }
            }
        }
    }

    /// Appends to a repeated field.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn push(&mut self, field: impl FieldKey, value: Value<'_>) -> Result<(), SetError> {
        let (field, entry, slot) = self.find(field)?;
        if field.label != Label::Repeated {
            return Err(SetError::Kind);
        }
        if let Value::Message(message) = value {
            return self.push_message(field)?.merge(message);
        }
        let checked = Checked::of(self.types, field, entry, value)?;
        // SAFETY: the slot is of a repeated field of this class, and the value is right for its elements.
        unsafe { checked.push(&mut self.edit, slot) }
    }

    /// A singular sub-message, made if it is not there.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn message_mut(&mut self, field: impl FieldKey) -> Result<DynamicMut<'_, 'a>, SetError> {
        let (field, _, slot) = self.find(field)?;
        let class = field.message.filter(|_| !field.is_repeated()).ok_or(SetError::Kind)?;
        let (types, size) = (self.types, self.size_of(class));
        // SAFETY: the slot is of a sub-message of this class; the size is that of its class.
        let edit = unsafe { self.edit.message(slot, size)? };
        Ok(DynamicMut { types, class, edit })
    }

    /// Appends an empty message to a repeated field.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn push_message(&mut self, field: impl FieldKey) -> Result<DynamicMut<'_, 'a>, SetError> {
        let (field, _, slot) = self.find(field)?;
        let class = field.message.filter(|_| field.label == Label::Repeated).ok_or(SetError::Kind)?;
        let (types, size) = (self.types, self.size_of(class));
        // SAFETY: the slot is of a repeated sub-message of this class; the size is that of its class.
        let edit = unsafe { self.edit.push_message(slot, size)? };
        Ok(DynamicMut { types, class, edit })
    }

    /// One element of a repeated sub-message.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn element_mut(
        &mut self,
        field: impl FieldKey,
        index: usize,
    ) -> Result<DynamicMut<'_, 'a>, SetError> {
        let (field, _, slot) = self.find(field)?;
        let class = field.message.filter(|_| field.label == Label::Repeated).ok_or(SetError::Kind)?;
        let types = self.types;
        self.check_index(slot, index)?;
        // SAFETY: the slot is of a repeated sub-message of this class.
        let edit = unsafe { self.edit.element(slot, index) };
        Ok(DynamicMut { types, class, edit })
    }

    fn check_index(&self, slot: Slot, index: usize) -> Result<(), SetError> {
        // SAFETY: the slot is of a repeated field of this class.
        let len = unsafe { self.edit.object().read::<Ref>(slot.offset) }.len as usize;
        if index < len { Ok(()) } else { Err(SetError::NotThere) }
    }

    /// A map, to be changed.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn map_mut(&mut self, field: impl FieldKey) -> Result<DynamicMap<'_, 'a>, SetError> {
        let (field, _, slot) = self.find(field)?;
        let class = field.message.filter(|_| field.label == Label::Map).ok_or(SetError::Kind)?;
        let (types, table) = (self.types, self.types.table());
        let entry = table.message(class);
        let [key, value] = table.entries(entry) else { unreachable!("a map entry has two fields") };
        let message = if value.kind().is_message() { self.size_of(value.aux) } else { 0 };
        let map = MapSlot { field: slot, entry: entry.size, key: key.offset, value: value.offset, message };
        // SAFETY: the slot is of a map of this class; `DynamicMap` makes keys of its kind only.
        let edit = unsafe { MapEdit::new(self.edit.borrow(), map) };
        Ok(DynamicMap { types, class, edit })
    }

    /// Sets the value of a key of a map. To add many, use one [`DynamicMut::map_mut`].
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn insert(&mut self, field: impl FieldKey, key: Value<'_>, value: Value<'_>) -> Result<(), SetError> {
        self.map_mut(field)?.insert(key, value)
    }

    /// Makes a field absent.
    ///
    /// # Errors
    /// The message has no such field.
    pub fn clear(&mut self, field: impl FieldKey) -> Result<(), SetError> {
        let (_, entry, slot) = self.find(field)?;
        // SAFETY: the slot is of a field of this class, that large.
        unsafe { self.edit.clear(slot, entry.slot()) };
        Ok(())
    }

    /// Keeps the first `len` elements of a repeated field or map.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn truncate(&mut self, field: impl FieldKey, len: usize) -> Result<(), SetError> {
        let (field, _, slot) = self.find(field)?;
        if !field.is_repeated() {
            return Err(SetError::Kind);
        }
        // SAFETY: the slot is of a repeated field of this class.
        unsafe { self.edit.truncate(slot, len) };
        Ok(())
    }

    /// Takes one element out of a repeated field.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn remove(&mut self, field: impl FieldKey, index: usize) -> Result<(), SetError> {
        let (field, _, slot) = self.find(field)?;
        if field.label != Label::Repeated {
            return Err(SetError::Kind);
        }
        self.check_index(slot, index)?;
        // SAFETY: the slot is of a repeated field of this class, with elements that large.
        unsafe {
            match field.kind.size() {
                1 => self.edit.remove::<u8>(slot, index)?,
                4 => self.edit.remove::<u32>(slot, index)?,
                8 if field.kind.is_message() => self.edit.remove::<Addr>(slot, index)?,
                8 => self.edit.remove::<u64>(slot, index)?,
                _ => self.edit.remove::<Ref>(slot, index)?,
            }
        }
        Ok(())
    }

    /// Appends whole fields, as they are on the wire, to the unknown ones.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn push_unknown(&mut self, fields: &[u8]) -> Result<(), SetError> {
        let mut at = 0;
        while at < fields.len() {
            let skipped = wire::read_tag(fields, &mut at)
                .and_then(|(number, wire_type)| wire::skip(fields, &mut at, number, wire_type));
            skipped.map_err(|_| SetError::Malformed)?;
        }
        let offset = self.types.table().message(self.class).unknown;
        // SAFETY: the offset is this class's; the fields are whole.
        unsafe { self.edit.push_unknown(offset, fields) }.map_err(SetError::from)
    }

    /// Adds what is in another message of the same name, as protobuf merges: singular fields are replaced, sub-messages are
    /// merged, elements appended, entries inserted.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn merge(&mut self, other: Dynamic<'_>) -> Result<(), SetError> {
        if other.message().name != self.message().name {
            return Err(SetError::Kind);
        }
        for (field, value) in other.fields() {
            match value {
                Value::List(list) => list.iter().try_for_each(|value| self.push(field, value))?,
                Value::Map(map) => self.merge_map(field, map)?,
                Value::Message(message) => self.message_mut(field)?.merge(message)?,
                value => self.set(field, value)?,
            }
        }
        other.unknown().try_for_each(|run| self.push_unknown(run))
    }

    fn merge_map(&mut self, field: &Field, map: super::Map<'_>) -> Result<(), SetError> {
        let mut target = self.map_mut(field)?;
        map.iter().try_for_each(|(key, value)| target.insert(key, value))
    }
}

/// A map being changed.
#[derive(Debug)]
pub struct DynamicMap<'m, 'a> {
    types: &'a Types,
    /// Of the entries.
    class: u32,
    edit: MapEdit<'m, 'a>,
}

impl<'a> DynamicMap<'_, 'a> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.edit.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.edit.is_empty()
    }

    fn key<'k>(&self, key: Value<'k>) -> Result<Key<'k>, SetError> {
        let field = &self.types.schema().messages()[self.class as usize].fields[0];
        match key {
            Value::Bytes(_) if field.utf8 => Err(SetError::Utf8),
            key => to_key(key, field.kind).ok_or(SetError::Kind),
        }
    }

    /// The value's field and entry in the table.
    fn value(&self) -> (&'a Field, &'a Entry) {
        let table = self.types.table();
        let entries = table.entries(table.message(self.class));
        (&self.types.schema().messages()[self.class as usize].fields[1], &entries[1])
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn insert(&mut self, key: Value<'_>, value: Value<'_>) -> Result<(), SetError> {
        if let Value::Message(message) = value {
            let mut target = self.message_mut(key)?;
            let size = target.size_of(target.class);
            // SAFETY: the target is of that class.
            unsafe { target.edit.clear_all(size) };
            return target.merge(message);
        }
        let (field, entry) = self.value();
        let (key, value) = (self.key(key)?, Checked::of(self.types, field, entry, value)?);
        // SAFETY: the key is of the map's kind; slot 1 is the value, and the value is right for it.
        unsafe { value.set(&mut self.edit.entry(key)?, Slot::of(entry, 1)) }
    }

    /// The message that is the value of a key, made if there is none.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn message_mut(&mut self, key: Value<'_>) -> Result<DynamicMut<'_, 'a>, SetError> {
        let (field, entry) = self.value();
        let (types, key, class) = (self.types, self.key(key)?, field.message.ok_or(SetError::Kind)?);
        let size = types.table().message(class).size;
        // SAFETY: the key is of the map's kind; slot 1 is the value, a message of `class`.
        let edit = unsafe { self.edit.entry(key)?.into_message(Slot::of(entry, 1), size)? };
        Ok(DynamicMut { types, class, edit })
    }

    /// Takes a key out: true if it was there.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn remove(&mut self, key: Value<'_>) -> Result<bool, SetError> {
        let key = self.key(key)?;
        Ok(self.edit.remove(key)?)
    }
}
