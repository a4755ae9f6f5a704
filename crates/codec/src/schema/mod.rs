//! The schema as a reader of .proto files knows it: names, numbers, defaults. Cold; the table is made from it.
//!
//! Shape: a descriptor set's bytes are read (`descriptor`), names are resolved and features applied (`resolve`), and
//! [`Schema::table`] lays the table out (`layout`). A message's class id is its index in [`Schema::messages`]: files in the
//! order of the set, a message before those nested in it. Extensions of a message are a message of their own, behind all others
//! ([`Schema::extensions`]): on the wire, and in objects, they are unknown fields of the message that they extend, and these
//! decode as that other one. `google/protobuf/descriptor.proto` and `millrace/options.proto` are left out when they are there only for
//! options: nothing decodes them. What methods say by the latter is in [`Method::options`] (`options`).
//!
//! Bounds: [`MAX_SET`], [`MAX_ELEMENTS`], [`MAX_MESSAGES`], [`MAX_FIELDS`], [`MAX_OBJECT`], [`MAX_NAME`], [`MAX_NESTING`]. A set within them makes a
//! table, always: whatever could fail, fails in [`Schema::from_descriptor_set`].
//!
//! Errors: [`SchemaError`]; no bytes panic.
//!
//! Tests: proto2, proto3 and editions against expected models and random schemas against the table's rules
//! (`schema/tests.rs`); against protoc's output with feature `compile` (`tests/protoc.rs`).

mod catalog;
mod default;
mod descriptor;
mod error;
mod extensions;
mod features;
mod layout;
mod options;
mod resolve;
pub(crate) mod source_info;
#[cfg(test)]
pub(crate) mod tests;
mod types;

use std::collections::HashMap;

pub use catalog::Catalog;
pub use default::DefaultValue;
pub use error::{Position, Problem, SchemaError};
pub use options::{
    Cacheable, Contradiction, KeyPath, MAX_KEY_DEPTH, MAX_TTL_SECONDS, MethodOptions, Order, Place, Places,
};
pub use types::Types;

use crate::table::{Kind, Table};

/// Bytes of a descriptor set.
pub const MAX_SET: usize = 64 << 20;
/// Files, imports, messages, fields, extensions, reserved names, oneofs, enums, values, services and methods of a descriptor set,
/// all together.
pub const MAX_ELEMENTS: usize = 1 << 19;
/// Messages of a schema, map entries included.
pub const MAX_MESSAGES: usize = 1 << 16;
/// Fields of a message.
pub const MAX_FIELDS: usize = u16::MAX as usize;
/// Bytes of an object, without what its fields refer to.
pub const MAX_OBJECT: usize = 1 << 20;
/// Bytes of a full name.
pub const MAX_NAME: usize = 512;
/// How deep messages may be declared within messages. (How deep they may nest on the wire is the decoder's limit.)
pub const MAX_NESTING: usize = 64;

/// Files that are imported for the options that they declare.
pub(crate) const FOR_OPTIONS: [&str; 2] = ["google/protobuf/descriptor.proto", "millrace/options.proto"];

/// Every message, enum and service of a descriptor set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    files: Vec<File>,
    messages: Vec<Message>,
    enums: Vec<Enum>,
    services: Vec<Service>,
    names: HashMap<String, Symbol>,
    /// From a message's class to that of its extensions.
    extensions: HashMap<u32, u32>,
}

/// What a full name stands for, as an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    Message(u32),
    Enum(u32),
    Service(u32),
}

/// A .proto file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// As imports write it.
    pub name: String,
    /// Package, may be empty.
    pub package: String,
}

/// A message type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Full name, without a dot in front.
    pub name: String,
    /// Index in [`Schema::files`].
    pub file: u32,
    /// Class id: index in [`Schema::messages`].
    pub class: u32,
    /// In ascending order of number, as in the table.
    pub fields: Vec<Field>,
    /// In the order of the .proto file.
    pub oneofs: Vec<Oneof>,
    /// True for the entry of a map: field 1 is the key, field 2 the value.
    pub map_entry: bool,
    /// Names of fields that there may not be, or are no more: text format skips them.
    pub reserved: Vec<String>,
    /// The class that these are the extensions of; their names are full ones. No accessors are generated for it.
    pub extends: Option<u32>,
}

/// How often a field may be there, and what tells that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// Zero counts as not there.
    Implicit,
    /// There or not, also when it is zero. Always so: sub-messages, members of oneofs, and both fields of a map entry (which
    /// a serialiser writes in any case).
    Explicit,
    /// Must be there.
    Required,
    /// Any number of times.
    Repeated,
    /// Repeated entries with distinct keys.
    Map,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// As in the .proto file.
    pub name: String,
    /// As in JSON.
    pub json_name: String,
    /// Number on the wire.
    pub number: u32,
    /// What the value, or each element, is; [`Kind::Group`] for every delimited sub-message.
    pub kind: Kind,
    /// How often.
    pub label: Label,
    /// Repeated scalars written as one run.
    pub packed: bool,
    /// Strings that must be valid UTF-8.
    pub utf8: bool,
    /// The option `(millrace.acc)`.
    pub acc: bool,
    /// Index in [`Message::oneofs`].
    pub oneof: Option<u32>,
    /// Class id of a sub-message or map entry.
    pub message: Option<u32>,
    /// Index in [`Schema::enums`].
    pub enumeration: Option<u32>,
    /// What an absent field reads as, if that is not zero or empty.
    pub default: Option<DefaultValue>,
}

/// A oneof. (A proto3 `optional` is none: its field has explicit presence.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oneof {
    /// As in the .proto file.
    pub name: String,
    /// Indices in [`Message::fields`], ascending.
    pub fields: Vec<u32>,
}

/// An enum type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enum {
    /// Full name.
    pub name: String,
    /// Index in [`Schema::files`].
    pub file: u32,
    /// Names and numbers in the order of the .proto file; aliases share a number.
    pub values: Vec<(String, i32)>,
    /// True if other numbers belong to the unknown fields.
    pub closed: bool,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Full name.
    pub name: String,
    /// Index in [`Schema::files`].
    pub file: u32,
    /// In the order of the .proto file.
    pub methods: Vec<Method>,
}

/// A method of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// As in the .proto file.
    pub name: String,
    /// Class id of the request.
    pub input: u32,
    /// Class id of the response.
    pub output: u32,
    /// The client sends a stream of requests.
    pub client_streaming: bool,
    /// The server sends a stream of responses.
    pub server_streaming: bool,
    /// What it says of itself.
    pub options: MethodOptions,
}

impl Schema {
    /// The schema that a serialised `google.protobuf.FileDescriptorSet` describes. The set must hold all imports
    /// (`protoc --include_imports`).
    pub fn from_descriptor_set(bytes: &[u8]) -> Result<Schema, SchemaError> {
        if bytes.len() > MAX_SET {
            return Err(Problem::TooMany("bytes of descriptors", bytes.len(), MAX_SET).at(""));
        }
        let schema = descriptor::read_set(bytes).and_then(resolve::resolve);
        let schema = schema.map_err(|error| source_info::locate(bytes, error))?;
        for message in &schema.messages {
            let size = layout::Placement::of(message).size;
            if size > MAX_OBJECT {
                let file = &schema.files[message.file as usize].name;
                let element = format!("message {}", message.name);
                return Err(Problem::TooMany("bytes in an object", size, MAX_OBJECT)
                    .at(element)
                    .in_file(file));
            }
        }
        Ok(schema)
    }

    /// The table of this schema: always the same one, byte for byte.
    pub fn table(&self) -> Table {
        layout::table(self)
    }

    /// The .proto files.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// All messages, by class id.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// All enums.
    pub fn enums(&self) -> &[Enum] {
        &self.enums
    }

    /// All services.
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// The class id of the message with that full name.
    pub fn class(&self, name: &str) -> Option<u32> {
        match self.names.get(name) {
            Some(Symbol::Message(class)) => Some(*class),
            _ => None,
        }
    }

    /// The message with that full name.
    pub fn message(&self, name: &str) -> Option<&Message> {
        self.class(name).map(|class| &self.messages[class as usize])
    }

    /// The class whose fields are the extensions of `class`, if it has any: its unknown fields decode as that. Extensions of message
    /// sets, which are groups on the wire, are not in it.
    pub fn extensions(&self, class: u32) -> Option<u32> {
        self.extensions.get(&class).copied()
    }

    /// The enum with that full name.
    pub fn enumeration(&self, name: &str) -> Option<&Enum> {
        match self.names.get(name) {
            Some(Symbol::Enum(index)) => Some(&self.enums[*index as usize]),
            _ => None,
        }
    }

    /// The service with that full name.
    pub fn service(&self, name: &str) -> Option<&Service> {
        match self.names.get(name) {
            Some(Symbol::Service(index)) => Some(&self.services[*index as usize]),
            _ => None,
        }
    }
}

impl Message {
    /// Index of the field with that name: also its entry's index in the table.
    pub fn index(&self, field: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == field)
    }

    /// The field with that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// The field with that number.
    pub fn field_numbered(&self, number: u32) -> Option<&Field> {
        self.fields.binary_search_by_key(&number, |f| f.number).ok().map(|i| &self.fields[i])
    }
}

impl Field {
    /// True for repeated fields and maps.
    pub fn is_repeated(&self) -> bool {
        matches!(self.label, Label::Repeated | Label::Map)
    }

    /// True if an object holds an address rather than the value: string, bytes, repeated, sub-message.
    pub fn is_dereference(&self) -> bool {
        self.is_repeated() || !self.kind.is_scalar()
    }
}
