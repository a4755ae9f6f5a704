//! One value of any kind.

use super::{Dynamic, List, Map};
use crate::object::reference::{Addr, Ref};
use crate::object::view::{slice, view_at};
use crate::schema::{DefaultValue, Field, Label, Types};
use crate::table::Kind;

/// A field's value, an element of a list, or a key or value of a map.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Value<'a> {
    Bool(bool),
    /// int32, sint32, sfixed32.
    I32(i32),
    /// uint32, fixed32.
    U32(u32),
    /// int64, sint64, sfixed64.
    I64(i64),
    /// uint64, fixed64.
    U64(u64),
    F32(f32),
    F64(f64),
    Enum(i32),
    Str(&'a str),
    /// A bytes field; or a string that may be anything (proto2) and is not UTF-8.
    Bytes(&'a [u8]),
    Message(Dynamic<'a>),
    List(List<'a>),
    Map(Map<'a>),
}

impl<'a> Value<'a> {
    /// The value of a field whose slot is at `place`.
    ///
    /// # Safety
    /// The field is there, and its object lives, unchanged, for `'a`.
    pub(super) unsafe fn read_slot(types: &'a Types, field: &'a Field, place: *const u8) -> Value<'a> {
        // SAFETY: the caller's promise; a repeated field's slot is a Ref.
        unsafe {
            match field.label {
                Label::Map => Value::Map(Map::new(types, field, place.cast::<Ref>().read())),
                Label::Repeated => Value::List(List::new(types, field, place.cast::<Ref>().read())),
                _ => Value::read(types, field, place),
            }
        }
    }

    /// One value at `place`, singular or an element.
    ///
    /// # Safety
    /// There is a value of the field's kind, which lives, unchanged, for `'a`.
    #[rustfmt::skip]
    pub(super) unsafe fn read(types: &'a Types, field: &'a Field, place: *const u8) -> Value<'a> {
        // SAFETY: the caller's promise, for each kind as it lies in an object or an array.
        unsafe {
            match field.kind {
                Kind::Bool => Value::Bool(place.read() != 0),
                Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(place.cast::<i32>().read()),
                Kind::Uint32 | Kind::Fixed32 => Value::U32(place.cast::<u32>().read()),
                Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(place.cast::<i64>().read()),
                Kind::Uint64 | Kind::Fixed64 => Value::U64(place.cast::<u64>().read()),
                Kind::Float => Value::F32(place.cast::<f32>().read()),
                Kind::Double => Value::F64(place.cast::<f64>().read()),
                Kind::Enum => Value::Enum(place.cast::<i32>().read()),
                Kind::String => Value::text(slice(place.cast::<Ref>().read())),
                Kind::Bytes => Value::Bytes(slice(place.cast::<Ref>().read())),
                Kind::Message | Kind::Group => {
                    let class = field.message.expect("a message field has a class");
                    Value::Message(Dynamic::of(types, class, view_at(place.cast::<Addr>().read())))
                }
            }
        }
    }

    fn text(bytes: &'a [u8]) -> Value<'a> {
        std::str::from_utf8(bytes).map_or(Value::Bytes(bytes), Value::Str)
    }

    /// What a field reads as that is not there.
    pub(super) fn absent(types: &'a Types, field: &'a Field) -> Option<Value<'a>> {
        // SAFETY: there is nothing behind an empty Ref.
        unsafe {
            match field.label {
                Label::Map => return Some(Value::Map(Map::new(types, field, Ref::EMPTY))),
                Label::Repeated => return Some(Value::List(List::new(types, field, Ref::EMPTY))),
                _ if field.kind.is_message() => return None,
                _ => {}
            }
        }
        if let Some(DefaultValue::Bytes(bytes)) = &field.default {
            return Some(if field.kind == Kind::String { Value::text(bytes) } else { Value::Bytes(bytes) });
        }
        let bits = match field.default {
            Some(DefaultValue::Bits(bits)) => bits,
            _ => 0,
        };
        // Wide enough for an empty Ref; the low bytes are the value's, as everywhere in objects.
        let slot = [bits, 0];
        // SAFETY: a value of each kind that is left fits in 16 bytes, and zeros are an empty string.
        Some(unsafe { Value::read(types, field, slot.as_ptr().cast()) })
    }

    /// The integer of an integer or enum field, whatever its width, and of a bool.
    pub fn as_i128(self) -> Option<i128> {
        match self {
            Value::Bool(value) => Some(value.into()),
            Value::I32(value) | Value::Enum(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::I64(value) => Some(value.into()),
            Value::U64(value) => Some(value.into()),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes of a string or bytes field.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Str(text) => Some(text.as_bytes()),
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The message.
    pub fn as_message(self) -> Option<Dynamic<'a>> {
        match self {
            Value::Message(message) => Some(message),
            _ => None,
        }
    }

    /// The list.
    pub fn as_list(self) -> Option<List<'a>> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The map.
    pub fn as_map(self) -> Option<Map<'a>> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }
}
