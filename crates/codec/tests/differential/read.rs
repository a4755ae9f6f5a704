//! One of our messages as a [`Tree`].

use crate::tree::{Tree, Value};
use crate::wire::unknown_fields;
use codec::object::Dynamic;
use codec::object::dynamic::Value as Ours;
use std::collections::BTreeMap;

/// What a message says.
pub fn tree(message: Dynamic) -> Tree {
    let unknown: Vec<u8> = message.unknown().flatten().copied().collect();
    Tree {
        fields: message.fields().map(|(field, of)| (field.number, value(of))).collect(),
        unknown: unknown_fields(&unknown),
    }
}

/// What the singular fields of a message read as, there or not; sub-messages aside.
pub fn scalars(message: Dynamic) -> BTreeMap<u32, Value> {
    let fields = message.message().fields.iter().filter(|field| !field.is_repeated());
    let scalars = fields.filter(|field| !field.kind.is_message());
    scalars
        .map(|field| (field.number, value(message.get_or_default(field).expect("its own field"))))
        .collect()
}

fn value(of: Ours) -> Value {
    match of {
        Ours::Bool(value) => Value::Bool(value),
        Ours::I32(value) | Ours::Enum(value) => Value::Int(value.into()),
        Ours::I64(value) => Value::Int(value),
        Ours::U32(value) => Value::Uint(value.into()),
        Ours::U64(value) => Value::Uint(value),
        Ours::F32(value) => Value::Float(value.to_bits()),
        Ours::F64(value) => Value::Double(value.to_bits()),
        Ours::Str(value) => Value::Bytes(value.as_bytes().to_vec()),
        Ours::Bytes(value) => Value::Bytes(value.to_vec()),
        Ours::Message(message) => Value::Message(tree(message)),
        Ours::List(list) => Value::List(list.iter().map(value).collect()),
        Ours::Map(map) => Value::Map(map.iter().map(|(key, of)| (value(key), value(of))).collect()),
    }
}
