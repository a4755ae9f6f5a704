//! Extensions: fields of another class, which an object keeps as unknown fields.

use super::error::Bad;
use crate::decode::{Decoder, Limits};
use crate::encode::Encoder;
use crate::memory::Arena;
use crate::object::dynamic::{Dynamic, DynamicMut, SetError};
use crate::schema::{Label, Types};

/// The extensions of one message while it is parsed, made when the first is met.
pub(super) struct Extras<'a>(Option<DynamicMut<'a, 'a>>);

impl<'a> Extras<'a> {
    pub fn none() -> Extras<'a> {
        Extras(None)
    }

    /// The message whose fields they are.
    pub fn message(
        &mut self,
        types: &'a Types,
        class: u32,
        arena: &'a Arena,
        at: usize,
    ) -> Result<&mut DynamicMut<'a, 'a>, Bad> {
        if self.0.is_none() {
            let made = DynamicMut::new(types, class, arena);
            self.0 = Some(made.map_err(|error| set_error(at, error.into()))?);
        }
        Ok(self.0.as_mut().expect("made above"))
    }

    /// Puts them among the unknown fields of the message that they extend.
    pub fn put(self, of: &mut DynamicMut<'_, '_>, encoder: &mut Encoder, at: usize) -> Result<(), Bad> {
        let Some(message) = self.0 else { return Ok(()) };
        let bytes = message.freeze().encode(encoder).map_err(|error| Bad::new(at, error.to_string()))?;
        of.push_unknown(bytes).map_err(|error| set_error(at, error))
    }
}

/// The extensions of a message that was decoded, if its schema knows any, and room for them.
pub(super) fn decoded<'a>(
    message: Dynamic<'a>,
    bytes: &'a mut Vec<u8>,
    arena: &'a Arena,
) -> Option<Dynamic<'a>> {
    let class = message.types().schema().extensions(message.class())?;
    message.unknown().for_each(|run| bytes.extend_from_slice(run));
    if bytes.is_empty() {
        return None;
    }
    let mut decoder = Decoder::new(limits_of(bytes.len()));
    Dynamic::decode(message.types(), class, &mut decoder, bytes, arena).ok()
}

/// Limits for something that is in memory already: it may be as large as that.
pub(super) fn limits_of(bytes: usize) -> Limits {
    Limits { input_bytes: bytes.max(Limits::default().input_bytes), ..Limits::default() }
}

/// What stops a value from being set, as an error in the text.
pub(super) fn set_error(at: usize, error: SetError) -> Bad {
    Bad::new(at, error.to_string())
}

/// The first required field that a message has not.
pub(super) fn missing(message: Dynamic<'_>) -> Option<&str> {
    let fields = message.message().fields.iter();
    fields
        .filter(|field| field.label == Label::Required)
        .find(|field| !message.has(*field))
        .map(|field| field.name.as_str())
}
