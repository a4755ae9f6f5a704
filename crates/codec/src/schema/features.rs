//! What a file's syntax or edition, and the `features` options on the way down to an element, make of that element.
//!
//! Shape: an element's features are those of its parent, overwritten by its own `FeatureSet` option: file → message → field,
//! oneof, enum or nested message. A proto2 or proto3 file is a fixed set of features, in the terms of the editions.
//!
//! Sources: descriptor.proto (`FeatureSet` and its `edition_defaults`).

use super::{Problem, SchemaError};
use crate::wire;

/// proto2, as a number of descriptor.proto's `Edition`.
pub(crate) const PROTO2: i32 = 998;
/// proto3, likewise.
pub(crate) const PROTO3: i32 = 999;
/// Edition 2023, likewise.
pub(crate) const EDITION_2023: i32 = 1000;

/// When a field that is not repeated counts as there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Explicit,
    Implicit,
    Required,
}

/// The features that change what is on the wire or in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    pub presence: Presence,
    pub closed: bool,
    pub packed: bool,
    pub utf8: bool,
    pub delimited: bool,
}

impl Features {
    /// Those of a whole file.
    pub fn of_edition(edition: i32) -> Features {
        let proto2 = edition == PROTO2;
        let presence = if edition == PROTO3 { Presence::Implicit } else { Presence::Explicit };
        Features { presence, closed: proto2, packed: !proto2, utf8: !proto2, delimited: false }
    }

    /// These, overwritten by an element's own.
    pub fn with(mut self, own: &FeatureSet) -> Features {
        self.presence = own.presence.unwrap_or(self.presence);
        self.closed = own.closed.unwrap_or(self.closed);
        self.packed = own.packed.unwrap_or(self.packed);
        self.utf8 = own.utf8.unwrap_or(self.utf8);
        self.delimited = own.delimited.unwrap_or(self.delimited);
        self
    }
}

/// descriptor.proto's `FeatureSet`, as far as it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct FeatureSet {
    presence: Option<Presence>,
    closed: Option<bool>,
    packed: Option<bool>,
    utf8: Option<bool>,
    delimited: Option<bool>,
}

impl FeatureSet {
    /// Adds what the bytes of a `FeatureSet` say; features of languages are passed over.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), SchemaError> {
        let mut at = 0;
        while at < bytes.len() {
            let (number, wire_type) = wire::read_tag(bytes, &mut at)?;
            if wire_type != 0 {
                wire::skip(bytes, &mut at, number, wire_type)?;
                continue;
            }
            let value = wire::read_varint(bytes, &mut at)? as i32;
            match number {
                1 => self.presence = Some(presence(value)?),
                2 => self.closed = Some(either("features.enum_type", value, 1, 2)?),
                3 => self.packed = Some(either("features.repeated_field_encoding", value, 2, 1)?),
                4 => self.utf8 = Some(either("features.utf8_validation", value, 3, 2)?),
                5 => self.delimited = Some(either("features.message_encoding", value, 1, 2)?),
                _ => {}
            }
        }
        Ok(())
    }
}

fn presence(value: i32) -> Result<Presence, SchemaError> {
    match value {
        1 => Ok(Presence::Explicit),
        2 => Ok(Presence::Implicit),
        3 => Ok(Presence::Required),
        _ => Err(Problem::Meaningless("features.field_presence", value).at("")),
    }
}

fn either(what: &'static str, value: i32, no: i32, yes: i32) -> Result<bool, SchemaError> {
    if value != no && value != yes {
        return Err(Problem::Meaningless(what, value).at(""));
    }
    Ok(value == yes)
}
