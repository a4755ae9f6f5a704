//! A value that was found right for a field, as wide as it lies in objects.

use super::{SetError, Value};
use crate::object::{Edit, Slot};
use crate::schema::{Field, Types};
use crate::table::{Entry, Flags, Kind};

pub(super) enum Checked<'v> {
    Byte(u8),
    Word(u32),
    Long(u64),
    Bytes(&'v [u8]),
}

impl<'v> Checked<'v> {
    /// `value` for a field that is no message, or for one of its elements.
    pub(super) fn of(
        types: &Types,
        field: &Field,
        entry: &Entry,
        value: Value<'v>,
    ) -> Result<Checked<'v>, SetError> {
        Ok(match (value, field.kind) {
            (Value::Bool(value), Kind::Bool) => Checked::Byte(value.into()),
            (Value::I32(value), Kind::Int32 | Kind::Sint32 | Kind::Sfixed32) => Checked::Word(value as u32),
            (Value::U32(value), Kind::Uint32 | Kind::Fixed32) => Checked::Word(value),
            (Value::I64(value), Kind::Int64 | Kind::Sint64 | Kind::Sfixed64) => Checked::Long(value as u64),
            (Value::U64(value), Kind::Uint64 | Kind::Fixed64) => Checked::Long(value),
            (Value::F32(value), Kind::Float) => Checked::Word(value.to_bits()),
            (Value::F64(value), Kind::Double) => Checked::Long(value.to_bits()),
            (Value::Enum(value), Kind::Enum) => {
                let closed = entry.flags.has(Flags::CLOSED);
                if closed && !types.table().is_enum_value(entry.aux, value) {
                    return Err(SetError::EnumValue(value));
                }
                Checked::Word(value as u32)
            }
            (Value::Str(text), Kind::String) => Checked::Bytes(text.as_bytes()),
            (Value::Bytes(bytes), Kind::Bytes) => Checked::Bytes(bytes),
            (Value::Bytes(bytes), Kind::String) if !field.utf8 => Checked::Bytes(bytes),
            (Value::Bytes(_), Kind::String) => return Err(SetError::Utf8),
            _ => return Err(SetError::Kind),
        })
    }

    /// Sets a singular field.
    ///
    /// # Safety
    /// The slot is of the field that the value was checked for, in an object of its class.
    pub(super) unsafe fn set(self, edit: &mut Edit<'_, '_>, slot: Slot) -> Result<(), SetError> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Checked::Byte(value) => edit.set(slot, value),
                Checked::Word(value) => edit.set(slot, value),
                Checked::Long(value) => edit.set(slot, value),
                Checked::Bytes(bytes) => edit.set_bytes(slot, bytes)?,
            }
        }
        Ok(())
    }

    /// Appends to a repeated field.
    ///
    /// # Safety
    /// As [`Checked::set`].
    pub(super) unsafe fn push(self, edit: &mut Edit<'_, '_>, slot: Slot) -> Result<(), SetError> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Checked::Byte(value) => edit.push(slot, value)?,
                Checked::Word(value) => edit.push(slot, value)?,
                Checked::Long(value) => edit.push(slot, value)?,
                Checked::Bytes(bytes) => edit.push_bytes(slot, bytes)?,
            }
        }
        Ok(())
    }
}
