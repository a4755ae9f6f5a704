//! The messages that have a text of their own, and the parts that both formats take of them.

use super::error::Bad;
use crate::schema::{Field, Message, Schema, Types};
use crate::table::Kind;

/// A well-known type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// None: an object with the fields for members.
    Plain,
    Any,
    Timestamp,
    Duration,
    FieldMask,
    Struct,
    Value,
    List,
    /// A scalar in a message.
    Wrapper,
}

impl Known {
    pub fn of(message: &Message) -> Known {
        match message.name.strip_prefix("google.protobuf.") {
            Some("Any") => Known::Any,
            Some("Timestamp") => Known::Timestamp,
            Some("Duration") => Known::Duration,
            Some("FieldMask") => Known::FieldMask,
            Some("Struct") => Known::Struct,
            Some("Value") => Known::Value,
            Some("ListValue") => Known::List,
            Some(
                "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value" | "UInt32Value"
                | "BoolValue" | "StringValue" | "BytesValue",
            ) => Known::Wrapper,
            _ => Known::Plain,
        }
    }

    /// That of a field which is a message.
    pub fn of_field(types: &Types, field: &Field) -> Known {
        field.message.map_or(Known::Plain, |class| Known::of(&types.schema().messages()[class as usize]))
    }
}

/// Whether a field is of the enum whose only value JSON calls null.
pub(super) fn is_null_value(types: &Types, field: &Field) -> bool {
    let enumeration = field.enumeration.map(|index| &types.schema().enums()[index as usize]);
    enumeration.is_some_and(|item| item.name == "google.protobuf.NullValue")
}

/// The class that a type URL, or the name behind its last slash, stands for.
pub(super) fn class_of_url(schema: &Schema, url: &str, at: usize) -> Result<u32, Bad> {
    let name = url.rsplit_once('/').filter(|(host, _)| !host.is_empty()).map(|(_, name)| name);
    let Some(name) = name else {
        return Err(Bad::new(at, format!("{url:?} is no type URL: write it as type.googleapis.com/NAME")));
    };
    schema.class(name).ok_or_else(|| {
        Bad::new(at, format!("no message is called {name}: its .proto file is not among ours"))
    })
}

/// The number of an enum's value by its name.
pub(super) fn enum_value(types: &Types, field: &Field, name: &str) -> Option<i32> {
    let item = &types.schema().enums()[field.enumeration? as usize];
    item.values.iter().find(|(own, _)| own == name).map(|(_, number)| *number)
}

/// The name of an enum's value; of aliases the first.
pub(super) fn enum_name<'t>(types: &'t Types, field: &Field, number: i32) -> Option<&'t str> {
    let item = &types.schema().enums()[field.enumeration? as usize];
    item.values.iter().find(|(_, own)| *own == number).map(|(name, _)| name.as_str())
}

/// The enum's name, for errors.
pub(super) fn enum_of<'t>(types: &'t Types, field: &Field) -> &'t str {
    field.enumeration.map_or("enum", |index| &types.schema().enums()[index as usize].name)
}

/// The limits of an integer field.
pub(super) fn range(kind: Kind) -> Option<(i128, i128)> {
    Some(match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Enum => (i32::MIN.into(), i32::MAX.into()),
        Kind::Uint32 | Kind::Fixed32 => (0, u32::MAX.into()),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => (i64::MIN.into(), i64::MAX.into()),
        Kind::Uint64 | Kind::Fixed64 => (0, u64::MAX.into()),
        _ => return None,
    })
}
