//! A descriptor set as it is written, before names are resolved: the parts of descriptor.proto that we need.
//!
//! Why our own reader: a general one would drop the options of `millrace/options.proto` as unknown, and the default build needs
//! nothing else of a protobuf library.
//!
//! Bounds: messages nest at most [`MAX_NESTING`] deep, and there are at most [`MAX_ELEMENTS`] elements, so that a few bytes each
//! do not become a few hundred in memory without end.
//!
//! Errors: bytes that are not protobuf, names that are not UTF-8, features without meaning.

use super::features::{EDITION_2023, FeatureSet, PROTO2, PROTO3};
use super::options::{ACC, RawOptions};
use super::{MAX_ELEMENTS, MAX_NAME, MAX_NESTING, Problem, SchemaError};
use crate::wire;

/// `FileDescriptorProto`.
#[derive(Default)]
pub(crate) struct File {
    pub name: String,
    pub package: String,
    /// Names of the files that it imports.
    pub imports: Vec<String>,
    pub edition: i32,
    pub features: FeatureSet,
    pub messages: Vec<Message>,
    pub enums: Vec<Enum>,
    pub services: Vec<Service>,
    pub extensions: Vec<Field>,
}

/// `DescriptorProto`.
#[derive(Default)]
pub(crate) struct Message {
    pub name: String,
    pub fields: Vec<Field>,
    pub nested: Vec<Message>,
    pub enums: Vec<Enum>,
    pub oneofs: Vec<Oneof>,
    pub extensions: Vec<Field>,
    /// Names that fields may not have, or have no more.
    pub reserved: Vec<String>,
    pub map_entry: bool,
    /// Its extensions are on the wire as items of a group.
    pub message_set: bool,
    pub features: FeatureSet,
}

/// `FieldDescriptorProto`.
#[derive(Default)]
pub(crate) struct Field {
    pub name: String,
    pub json_name: Option<String>,
    pub number: i32,
    pub label: i32,
    pub kind: i32,
    pub type_name: String,
    /// Of an extension: the message that it is for.
    pub extendee: String,
    pub default: Option<String>,
    pub oneof: Option<i32>,
    pub proto3_optional: bool,
    pub packed: Option<bool>,
    pub acc: bool,
    pub features: FeatureSet,
}

/// `OneofDescriptorProto`.
#[derive(Default)]
pub(crate) struct Oneof {
    pub name: String,
    pub features: FeatureSet,
}

/// `EnumDescriptorProto`.
#[derive(Default)]
pub(crate) struct Enum {
    pub name: String,
    pub values: Vec<(String, i32)>,
    pub features: FeatureSet,
}

/// `ServiceDescriptorProto`.
#[derive(Default)]
pub(crate) struct Service {
    pub name: String,
    pub methods: Vec<Method>,
}

/// `MethodDescriptorProto`.
#[derive(Default)]
pub(crate) struct Method {
    pub name: String,
    pub input: String,
    pub output: String,
    pub client_streaming: bool,
    pub server_streaming: bool,
    pub options: RawOptions,
}

/// How many more elements there may be.
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Budget {
        Budget(MAX_ELEMENTS)
    }
}

impl Budget {
    fn take(&mut self) -> Result<(), SchemaError> {
        let left = self.0.checked_sub(1);
        self.0 = left.ok_or(Problem::TooMany("elements", MAX_ELEMENTS + 1, MAX_ELEMENTS).at(""))?;
        Ok(())
    }
}

/// A field's value on the wire. What has neither form is of no use to us.
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Calls `take` with each varint and each length-delimited field in `bytes`.
pub(super) fn each<'a>(
    bytes: &'a [u8],
    mut take: impl FnMut(u32, Value<'a>) -> Result<(), SchemaError>,
) -> Result<(), SchemaError> {
    let mut at = 0;
    while at < bytes.len() {
        let (number, wire_type) = wire::read_tag(bytes, &mut at)?;
        match wire_type {
            0 => take(number, Value::Number(wire::read_varint(bytes, &mut at)?))?,
            2 => take(number, Value::Bytes(wire::read_bytes(bytes, &mut at)?))?,
            _ => wire::skip(bytes, &mut at, number, wire_type)?,
        }
    }
    Ok(())
}

/// A name or a type's name.
pub(super) fn name(bytes: &[u8]) -> Result<String, SchemaError> {
    if bytes.len() > MAX_NAME {
        return Err(Problem::Name.at(""));
    }
    text(bytes)
}

fn text(bytes: &[u8]) -> Result<String, SchemaError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Problem::Name.at(""))
}

/// All files of a `FileDescriptorSet`.
pub(crate) fn read_set(bytes: &[u8]) -> Result<Vec<File>, SchemaError> {
    Ok(read_files(bytes, &mut Budget::default())?.into_iter().map(|(file, _)| file).collect())
}

/// The same, each beside the bytes that it was read from.
pub(super) fn read_files<'a>(
    bytes: &'a [u8],
    budget: &mut Budget,
) -> Result<Vec<(File, &'a [u8])>, SchemaError> {
    let mut files = vec![];
    each(bytes, |number, value| {
        if let (1, Value::Bytes(bytes)) = (number, value) {
            let mut file = File::default();
            file.read(bytes, budget).map_err(|error| error.in_file(&file.name))?;
            files.push((file, bytes));
        }
        Ok(())
    })?;
    Ok(files)
}

impl File {
    fn read(&mut self, bytes: &[u8], budget: &mut Budget) -> Result<(), SchemaError> {
        budget.take()?;
        let mut syntax = String::new();
        let mut edition = 0;
        each(bytes, |number, value| {
            match (number, value) {
                (1, Value::Bytes(b)) => self.name = name(b)?,
                (2, Value::Bytes(b)) => self.package = name(b)?,
                (3, Value::Bytes(b)) => {
                    budget.take()?;
                    self.imports.push(name(b)?);
                }
                (4, Value::Bytes(b)) => self.messages.push(Message::read(b, 1, budget)?),
                (5, Value::Bytes(b)) => self.enums.push(Enum::read(b, budget)?),
                (6, Value::Bytes(b)) => self.services.push(Service::read(b, budget)?),
                (7, Value::Bytes(b)) => self.extensions.push(Field::read(b, budget)?),
                (8, Value::Bytes(b)) => read_features(b, 50, &mut self.features)?,
                (12, Value::Bytes(b)) => syntax = name(b)?,
                (14, Value::Number(n)) => edition = n as i32,
                _ => {}
            }
            Ok(())
        })?;
        self.edition = match (syntax.as_str(), edition) {
            ("" | "proto2", _) => PROTO2,
            ("proto3", _) => PROTO3,
            ("editions", EDITION_2023) => edition,
            ("editions", 1001) => return Err(Problem::Edition("edition 2024".into()).at("")),
            ("editions", other) => return Err(Problem::Edition(format!("edition number {other}")).at("")),
            (other, _) => return Err(Problem::Edition(format!("syntax {other:?}")).at("")),
        };
        Ok(())
    }
}

/// Adds the features in an options message where they have the field number `at`.
fn read_features(options: &[u8], at: u32, features: &mut FeatureSet) -> Result<(), SchemaError> {
    each(options, |number, value| match value {
        Value::Bytes(bytes) if number == at => features.read(bytes),
        _ => Ok(()),
    })
}

impl Message {
    fn read(bytes: &[u8], depth: usize, budget: &mut Budget) -> Result<Message, SchemaError> {
        if depth > MAX_NESTING {
            return Err(Problem::TooMany("levels of nested messages", depth, MAX_NESTING).at(""));
        }
        budget.take()?;
        let mut message = Message::default();
        each(bytes, |number, value| {
            let Value::Bytes(bytes) = value else { return Ok(()) };
            match number {
                1 => message.name = name(bytes)?,
                2 => message.fields.push(Field::read(bytes, budget)?),
                3 => message.nested.push(Message::read(bytes, depth + 1, budget)?),
                4 => message.enums.push(Enum::read(bytes, budget)?),
                6 => message.extensions.push(Field::read(bytes, budget)?),
                7 => message.read_options(bytes)?,
                8 => message.oneofs.push(Oneof::read(bytes, budget)?),
                10 => {
                    budget.take()?;
                    message.reserved.push(name(bytes)?);
                }
                _ => {}
            }
            Ok(())
        })
        .map_err(|error| error.inside("message", &message.name))?;
        Ok(message)
    }

    fn read_options(&mut self, bytes: &[u8]) -> Result<(), SchemaError> {
        each(bytes, |number, value| {
            match (number, value) {
                (1, Value::Number(n)) => self.message_set = n != 0,
                (7, Value::Number(n)) => self.map_entry = n != 0,
                (12, Value::Bytes(b)) => self.features.read(b)?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Field {
    fn read(bytes: &[u8], budget: &mut Budget) -> Result<Field, SchemaError> {
        budget.take()?;
        let mut field = Field::default();
        each(bytes, |number, value| {
            match (number, value) {
                (1, Value::Bytes(b)) => field.name = name(b)?,
                (2, Value::Bytes(b)) => field.extendee = name(b)?,
                (3, Value::Number(n)) => field.number = n as i32,
                (4, Value::Number(n)) => field.label = n as i32,
                (5, Value::Number(n)) => field.kind = n as i32,
                (6, Value::Bytes(b)) => field.type_name = name(b)?,
                (7, Value::Bytes(b)) => field.default = Some(text(b)?),
                (8, Value::Bytes(b)) => field.read_options(b)?,
                (9, Value::Number(n)) => field.oneof = Some(n as i32),
                (10, Value::Bytes(b)) => field.json_name = Some(name(b)?),
                (17, Value::Number(n)) => field.proto3_optional = n != 0,
                _ => {}
            }
            Ok(())
        })
        .map_err(|error| error.inside("field", &field.name))?;
        Ok(field)
    }

    fn read_options(&mut self, bytes: &[u8]) -> Result<(), SchemaError> {
        each(bytes, |number, value| {
            match (number, value) {
                (2, Value::Number(n)) => self.packed = Some(n != 0),
                (21, Value::Bytes(b)) => self.features.read(b)?,
                (ACC, Value::Number(n)) => self.acc = n != 0,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Oneof {
    fn read(bytes: &[u8], budget: &mut Budget) -> Result<Oneof, SchemaError> {
        budget.take()?;
        let mut oneof = Oneof::default();
        each(bytes, |number, value| {
            match (number, value) {
                (1, Value::Bytes(b)) => oneof.name = name(b)?,
                (2, Value::Bytes(b)) => read_features(b, 1, &mut oneof.features)?,
                _ => {}
            }
            Ok(())
        })
        .map_err(|error| error.inside("oneof", &oneof.name))?;
        Ok(oneof)
    }
}

impl Enum {
    fn read(bytes: &[u8], budget: &mut Budget) -> Result<Enum, SchemaError> {
        budget.take()?;
        let mut read = Enum::default();
        each(bytes, |number, value| {
            match (number, value) {
                (1, Value::Bytes(b)) => read.name = name(b)?,
                (2, Value::Bytes(b)) => read.values.push(enum_value(b, budget)?),
                (3, Value::Bytes(b)) => read_features(b, 7, &mut read.features)?,
                _ => {}
            }
            Ok(())
        })
        .map_err(|error| error.inside("enum", &read.name))?;
        Ok(read)
    }
}

fn enum_value(bytes: &[u8], budget: &mut Budget) -> Result<(String, i32), SchemaError> {
    budget.take()?;
    let mut read = (String::new(), 0);
    each(bytes, |number, value| {
        match (number, value) {
            (1, Value::Bytes(b)) => read.0 = name(b)?,
            (2, Value::Number(n)) => read.1 = n as i32,
            _ => {}
        }
        Ok(())
    })?;
    Ok(read)
}

impl Service {
    fn read(bytes: &[u8], budget: &mut Budget) -> Result<Service, SchemaError> {
        budget.take()?;
        let mut service = Service::default();
        each(bytes, |number, value| {
            match (number, value) {
                (1, Value::Bytes(b)) => service.name = name(b)?,
                (2, Value::Bytes(b)) => service.methods.push(Method::read(b, budget)?),
                _ => {}
            }
            Ok(())
        })
        .map_err(|error| error.inside("service", &service.name))?;
        Ok(service)
    }
}

impl Method {
    fn read(bytes: &[u8], budget: &mut Budget) -> Result<Method, SchemaError> {
        budget.take()?;
        let mut method = Method::default();
        each(bytes, |number, value| {
            match (number, value) {
                (1, Value::Bytes(b)) => method.name = name(b)?,
                (2, Value::Bytes(b)) => method.input = name(b)?,
                (3, Value::Bytes(b)) => method.output = name(b)?,
                (4, Value::Bytes(b)) => method.options.read(b)?,
                (5, Value::Number(n)) => method.client_streaming = n != 0,
                (6, Value::Number(n)) => method.server_streaming = n != 0,
                _ => {}
            }
            Ok(())
        })
        .map_err(|error| error.inside("method", &method.name))?;
        Ok(method)
    }
}
