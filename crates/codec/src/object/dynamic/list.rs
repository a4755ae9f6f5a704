//! Repeated fields and maps.

use super::{Dynamic, Value};
use crate::object::map::Key;
use crate::object::reference::{Addr, Ref};
use crate::object::view::view_at;
use crate::schema::{Field, Types};
use crate::table::Kind;
use std::fmt;

/// The elements of a repeated field.
#[derive(Clone, Copy)]
pub struct List<'a> {
    types: &'a Types,
    field: &'a Field,
    array: Ref,
}

impl<'a> List<'a> {
    /// # Safety
    /// The array is one of the field's elements, and lives, unchanged, for `'a`.
    pub(super) unsafe fn new(types: &'a Types, field: &'a Field, array: Ref) -> List<'a> {
        List { types, field, array }
    }

    /// The field.
    pub fn field(self) -> &'a Field {
        self.field
    }

    /// How many elements.
    pub fn len(self) -> usize {
        self.array.len as usize
    }

    /// True if there are none.
    pub fn is_empty(self) -> bool {
        self.array.len == 0
    }

    /// One element.
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        if index >= self.len() {
            return None;
        }
        let place = self.array.addr.pointer().wrapping_add(index * self.field.kind.size());
        // SAFETY: an element of the array that `new` was promised.
        Some(unsafe { Value::read(self.types, self.field, place) })
    }

    /// All elements.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Value<'a>> {
        (0..self.len()).map(move |index| self.get(index).expect("an index below the length"))
    }
}

impl fmt::Debug for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The entries of a map.
#[derive(Clone, Copy)]
pub struct Map<'a> {
    types: &'a Types,
    field: &'a Field,
    array: Ref,
}

impl<'a> Map<'a> {
    /// # Safety
    /// The array is one of entries of the field, and lives, unchanged, for `'a`.
    pub(super) unsafe fn new(types: &'a Types, field: &'a Field, array: Ref) -> Map<'a> {
        Map { types, field, array }
    }

    /// The field.
    pub fn field(self) -> &'a Field {
        self.field
    }

    /// How many entries.
    pub fn len(self) -> usize {
        self.array.len as usize
    }

    /// True if there are none.
    pub fn is_empty(self) -> bool {
        self.array.len == 0
    }

    fn entry(self, index: usize) -> Dynamic<'a> {
        let class = self.field.message.expect("a map has entries");
        let place = self.array.addr.pointer().cast::<Addr>().wrapping_add(index);
        // SAFETY: an element of the array that `new` was promised; elements of maps are entries.
        unsafe { Dynamic::of(self.types, class, view_at(place.read())) }
    }

    /// All keys and values, in no particular order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (Value<'a>, Value<'a>)> {
        (0..self.len()).map(move |index| {
            let entry = self.entry(index);
            let part = |number: u32| entry.get_or_default(number).expect("an entry has a key and a value");
            (part(1), part(2))
        })
    }

    /// The value of a key, found by looking at one after the other.
    pub fn get(self, key: Value<'_>) -> Option<Value<'a>> {
        let key = to_key(key, self.key_kind())?;
        self.iter().find(|(have, _)| to_key(*have, self.key_kind()) == Some(key)).map(|(_, value)| value)
    }

    pub(super) fn key_kind(self) -> Kind {
        let class = self.field.message.expect("a map has entries");
        self.types.schema().messages()[class as usize].fields[0].kind
    }
}

/// A value as the key of a map with keys of that kind; nothing if it is of another kind.
pub(super) fn to_key(value: Value<'_>, kind: Kind) -> Option<Key<'_>> {
    Some(match (value, kind) {
        (Value::Bool(key), Kind::Bool) => Key::U8(key.into()),
        (Value::I32(key), Kind::Int32 | Kind::Sint32 | Kind::Sfixed32) => Key::U32(key as u32),
        (Value::U32(key), Kind::Uint32 | Kind::Fixed32) => Key::U32(key),
        (Value::I64(key), Kind::Int64 | Kind::Sint64 | Kind::Sfixed64) => Key::U64(key as u64),
        (Value::U64(key), Kind::Uint64 | Kind::Fixed64) => Key::U64(key),
        (Value::Str(key), Kind::String) => Key::Text(key.as_bytes()),
        (Value::Bytes(key), Kind::String) => Key::Text(key),
        _ => return None,
    })
}

impl fmt::Debug for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
