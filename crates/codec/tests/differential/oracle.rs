//! The other side: prost-reflect, and all that it deliberately does otherwise than we do.
//!
//! | prost-reflect | we, and protobuf's own implementations | how the test bears it |
//! |---|---|---|
//! | keeps a value that a closed enum does not have as the field's value | an unknown field | a shadow number (below) |
//! | refuses a known field of another wire type | an unknown field | a shadow number |
//! | refuses proto2 strings that are not UTF-8 | keep them as they are | samples hold UTF-8 only |
//! | takes -0.0 for the default of an implicit field, and does not write it | write it | samples hold no -0.0 |
//! | reads the tenth byte of a varint up to 1, a tag up to ten bytes | see `malformed` | samples stay below |
//! | drops unknown fields in map entries | may keep them | samples have none there |
//!
//! A shadow number means nothing in its message. What would be unknown to us but not to the oracle is written for the
//! oracle under the shadow number of its field, so that it keeps it among the unknown fields; here it gets its own number
//! back.

use crate::schema::Schema;
use crate::tree::{Tree, Value};
use crate::wire::unknown_fields;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage, Value as Theirs,
};
use protox::file::{File, FileResolver, GoogleFileResolver};
use std::collections::{BTreeMap, HashMap};

/// The compiled schema.
pub struct Oracle {
    pool: DescriptorPool,
    shadows: HashMap<(String, u32), u32>,
}

struct Source(String);

impl FileResolver for Source {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == "t.proto" {
            File::from_source(name, &self.0)
        } else {
            GoogleFileResolver::new().open_file(name)
        }
    }
}

/// The one file of a schema, compiled.
pub fn compile(text: &str) -> DescriptorPool {
    let mut compiler = protox::Compiler::with_file_resolver(Source(text.to_owned()));
    if let Err(error) = compiler.include_imports(true).open_file("t.proto") {
        panic!("not a schema: {error}\n{text}");
    }
    compiler.descriptor_pool()
}

impl Oracle {
    pub fn new(schema: &Schema) -> Oracle {
        let pool = compile(&schema.text());
        let mut shadows = HashMap::new();
        for (index, message) in schema.messages.iter().enumerate() {
            let letter = if message.is_group { 'G' } else { 'M' };
            for field in &message.fields {
                shadows.insert((format!("{letter}{index}"), field.shadow), field.number);
            }
        }
        Oracle { pool, shadows }
    }

    /// The schema as a `FileDescriptorSet`.
    pub fn descriptor_set(&self) -> Vec<u8> {
        self.pool.encode_to_vec()
    }

    pub fn class(&self, name: &str) -> MessageDescriptor {
        self.pool.get_message_by_name(name).expect("the schema has that message")
    }

    pub fn decode(&self, class: &MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage, String> {
        DynamicMessage::decode(class.clone(), bytes).map_err(|error| error.to_string())
    }

    pub fn tree(&self, message: &DynamicMessage) -> Tree {
        let mut tree = Tree::default();
        for (field, value) in message.fields() {
            tree.fields.insert(field.number(), self.value(value));
        }
        let mut unknown = Vec::new();
        for field in message.unknown_fields() {
            field.encode(&mut unknown);
        }
        tree.unknown = unknown_fields(&unknown);
        let class = message.descriptor();
        for (number, _) in &mut tree.unknown {
            if let Some(&real) = self.shadows.get(&(class.name().to_owned(), *number)) {
                *number = real;
            }
        }
        tree.unknown.sort_by_key(|field| field.0);
        tree
    }

    /// What the singular fields of a message read as, there or not; sub-messages aside.
    pub fn scalars(&self, message: &DynamicMessage) -> BTreeMap<u32, Value> {
        let class = message.descriptor();
        let scalars =
            class.fields().filter(|field| !field.is_list() && !matches!(field.kind(), Kind::Message(_)));
        scalars.map(|field| (field.number(), self.value(&message.get_field(&field)))).collect()
    }

    fn value(&self, value: &Theirs) -> Value {
        match value {
            Theirs::Bool(value) => Value::Bool(*value),
            Theirs::I32(value) | Theirs::EnumNumber(value) => Value::Int((*value).into()),
            Theirs::I64(value) => Value::Int(*value),
            Theirs::U32(value) => Value::Uint((*value).into()),
            Theirs::U64(value) => Value::Uint(*value),
            Theirs::F32(value) => Value::Float(value.to_bits()),
            Theirs::F64(value) => Value::Double(value.to_bits()),
            Theirs::String(value) => Value::Bytes(value.clone().into_bytes()),
            Theirs::Bytes(value) => Value::Bytes(value.to_vec()),
            Theirs::Message(value) => Value::Message(self.tree(value)),
            Theirs::List(values) => Value::List(values.iter().map(|value| self.value(value)).collect()),
            Theirs::Map(entries) => {
                Value::Map(entries.iter().map(|(key, value)| (map_key(key), self.value(value))).collect())
            }
        }
    }
}

fn map_key(key: &MapKey) -> Value {
    match key {
        MapKey::Bool(value) => Value::Bool(*value),
        MapKey::I32(value) => Value::Int((*value).into()),
        MapKey::I64(value) => Value::Int(*value),
        MapKey::U32(value) => Value::Uint((*value).into()),
        MapKey::U64(value) => Value::Uint(*value),
        MapKey::String(value) => Value::Bytes(value.clone().into_bytes()),
    }
}
