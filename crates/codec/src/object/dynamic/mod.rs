//! Reading and building messages by field name or number, for programs that do not know the schema when they are compiled.
//!
//! [`Dynamic`] reads and [`DynamicMut`] builds; both are safe, because every offset comes from the table of the object's own
//! class. Generated accessors  do the same with constants.
//!
//! Errors: reading a field that lies in accelerator memory panics, as [`View`] does; [`Dynamic::is_in_acc`] asks first.
//!
//! Cost: a name is searched among the message's fields, a number is found by bisection.

mod checked;
mod edit;
mod list;
mod print;
mod same;
#[cfg(test)]
mod tests;
mod value;

pub use edit::{DynamicMap, DynamicMut, SetError};
pub use list::{List, Map};
pub use same::Nans;
pub use value::Value;

use super::view::View;
use crate::decode::{DecodeError, Decoder};
use crate::encode::{EncodeError, Encoder};
use crate::memory::Arena;
use crate::schema::{Field, Label, Message, Oneof, Types};
use crate::table::Entry;
use std::fmt;

/// What names a field: its name, its number, or itself.
pub trait FieldKey {
    /// The index of the field in `message`.
    fn index_in(&self, message: &Message) -> Option<usize>;
}

impl FieldKey for &str {
    fn index_in(&self, message: &Message) -> Option<usize> {
        message.index(self)
    }
}

impl FieldKey for u32 {
    fn index_in(&self, message: &Message) -> Option<usize> {
        message.fields.binary_search_by_key(self, |field| field.number).ok()
    }
}

impl FieldKey for &Field {
    fn index_in(&self, message: &Message) -> Option<usize> {
        self.number.index_in(message)
    }
}

/// A message that lives for `'a`, with its schema.
#[derive(Clone, Copy)]
pub struct Dynamic<'a> {
    types: &'a Types,
    class: u32,
    view: View<'a>,
}

impl<'a> Dynamic<'a> {
    /// An object with its class.
    ///
    /// # Safety
    /// The object is of `class` of `types`, or of a table with the same layout.
    ///
    /// # Panics
    /// If there is no such class.
    pub unsafe fn of(types: &'a Types, class: u32, view: View<'a>) -> Dynamic<'a> {
        assert!(class < types.table().classes(), "class {class} is not in this schema");
        Dynamic { types, class, view }
    }

    /// Decodes `input`; strings and bytes of the result point into it.
    ///
    /// # Errors
    /// As [`Decoder::borrowed`].
    pub fn decode(
        types: &'a Types,
        class: u32,
        decoder: &mut Decoder,
        input: &'a [u8],
        arena: &'a Arena,
    ) -> Result<Dynamic<'a>, DecodeError> {
        let view = decoder.borrowed(types.table(), class, input, arena)?;
        Ok(Dynamic { types, class, view })
    }

    /// Decodes `input`, which is not needed any more then.
    ///
    /// # Errors
    /// As [`Decoder::owned`].
    pub fn decode_owned(
        types: &'a Types,
        class: u32,
        decoder: &mut Decoder,
        input: &[u8],
        arena: &'a Arena,
    ) -> Result<Dynamic<'a>, DecodeError> {
        let view = decoder.owned(types.table(), class, input, arena)?;
        Ok(Dynamic { types, class, view })
    }

    /// The message, encoded, until the encoder is used again.
    ///
    /// # Errors
    /// As [`Encoder::encoded`].
    pub fn encode(self, encoder: &mut Encoder) -> Result<&[u8], EncodeError> {
        // SAFETY: the object is of the class.
        unsafe { encoder.encoded(self.types.table(), self.class, self.view) }
    }

    /// The object.
    pub fn view(self) -> View<'a> {
        self.view
    }

    /// Its class id.
    pub fn class(self) -> u32 {
        self.class
    }

    /// The schema and the table.
    pub fn types(self) -> &'a Types {
        self.types
    }

    /// What the schema says of it.
    pub fn message(self) -> &'a Message {
        &self.types.schema().messages()[self.class as usize]
    }

    fn entry(self, index: usize) -> &'a Entry {
        let table = self.types.table();
        &table.entries(table.message(self.class))[index]
    }

    /// True if the field is there: set, not empty if repeated, not zero if its presence is implicit. False for a field that
    /// the message does not have.
    pub fn has(self, field: impl FieldKey) -> bool {
        field.index_in(self.message()).is_some_and(|index| self.has_at(index))
    }

    fn has_at(self, index: usize) -> bool {
        let field = &self.message().fields[index];
        // SAFETY: the index is of one of the class's entries.
        let stored = unsafe { self.view.has(index as u32) };
        // SAFETY: the entry is one of the class's.
        stored && (field.label != Label::Implicit || !unsafe { self.is_zero(index) })
    }

    /// # Safety
    /// The field is singular, and not a message.
    unsafe fn is_zero(self, index: usize) -> bool {
        let (kind, offset) = (self.entry(index).kind(), self.entry(index).offset);
        // SAFETY: the offset and size are those of the class's entry; a string's length is the second part of its Ref.
        unsafe {
            match kind.size() {
                1 => self.view.scalar::<u8>(offset) == 0,
                4 => self.view.scalar::<u32>(offset) == 0,
                8 => self.view.scalar::<u64>(offset) == 0,
                _ => self.view.object().read::<super::Ref>(offset).len == 0,
            }
        }
    }

    /// The value of a field that is there.
    pub fn get(self, field: impl FieldKey) -> Option<Value<'a>> {
        let index = field.index_in(self.message())?;
        self.has_at(index).then(|| self.value(index))
    }

    /// The value of a field, or what it reads as if it is not there: its default, zero, empty; for a message there is
    /// nothing. Nothing for a field that the message does not have.
    pub fn get_or_default(self, field: impl FieldKey) -> Option<Value<'a>> {
        let index = field.index_in(self.message())?;
        if self.has_at(index) {
            return Some(self.value(index));
        }
        Value::absent(self.types, &self.message().fields[index])
    }

    /// The value of a field that is there.
    fn value(self, index: usize) -> Value<'a> {
        let field = &self.message().fields[index];
        let place = self.view.object().start().as_ptr().wrapping_add(self.entry(index).offset as usize);
        // SAFETY: the field is there, so its slot holds a value of the field's kind, or the Ref of an array of them.
        unsafe { Value::read_slot(self.types, field, place) }
    }

    /// The fields that are there, by ascending number.
    pub fn fields(self) -> impl Iterator<Item = (&'a Field, Value<'a>)> {
        let fields = &self.message().fields;
        (0..fields.len())
            .filter(move |&index| self.has_at(index))
            .map(move |index| (&fields[index], self.value(index)))
    }

    /// The member of a oneof that is there.
    pub fn which(self, oneof: &Oneof) -> Option<&'a Field> {
        let fields = &self.message().fields;
        let members = oneof.fields.iter().map(|&member| member as usize);
        members
            .filter(|&member| member < fields.len())
            .find(|&member| self.has_at(member))
            .map(|m| &fields[m])
    }

    /// True if the bytes of a string, bytes, message or repeated field are in accelerator memory.
    pub fn is_in_acc(self, field: impl FieldKey) -> bool {
        field.index_in(self.message()).is_some_and(|index| self.is_in_acc_at(index))
    }

    fn is_in_acc_at(self, index: usize) -> bool {
        let entry = self.entry(index);
        // SAFETY: a dereference field's slot begins with an address; a oneof's slot is this member's if that is there.
        entry.is_dereference() && unsafe { self.view.has(index as u32) && self.view.is_acc(entry.offset) }
    }

    /// The fields that the schema does not know, as they came: runs of whole fields.
    pub fn unknown(self) -> impl Iterator<Item = &'a [u8]> {
        let offset = self.types.table().message(self.class).unknown;
        // SAFETY: every object has a Ref of runs there.
        let runs = unsafe { self.view.refs(offset) };
        // SAFETY: the runs come from this view.
        runs.iter().map(|&run| unsafe { super::bytes_of(run) })
    }
}

impl fmt::Debug for Dynamic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::message(*self, f)
    }
}
