//! Descriptors as the .proto text that they came from, but for comments and for options that are not ours: good to read, and to compile.

use super::descriptions::Descriptions;
use codec::schema::{MethodOptions, Order, Places, Schema, Service};
use prost_reflect::FileDescriptor;
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, MethodDescriptorProto,
    ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
    method_options::IdempotencyLevel,
};
use std::fmt::Write;

/// All files but those that come with protobuf and millrace, each under a line with its name.
pub fn files(descriptions: &Descriptions) -> String {
    let is_own = |file: &FileDescriptor| {
        !file.name().starts_with("google/protobuf/") && file.name() != "millrace/options.proto"
    };
    let files = descriptions.pool().files().filter(is_own);
    let text = files.map(|file| format!("// {}\n{}", file.name(), self::file(descriptions, &file)));
    text.collect::<Vec<_>>().join("\n")
}

/// One file.
pub fn file(descriptions: &Descriptions, file: &FileDescriptor) -> String {
    let proto = file.file_descriptor_proto();
    let scope = if proto.package().is_empty() { vec![] } else { vec![proto.package().to_owned()] };
    let mut out = Out { text: String::new(), indent: 0, proto, schema: descriptions.schema(), scope };
    out.file();
    out.text
}

/// What a method says of itself, as options of its .proto file.
fn options(service: &Service, method: &MethodDescriptorProto, ours: &MethodOptions) -> Vec<String> {
    let level = method.options.as_ref().and_then(|options| options.idempotency_level);
    let level = level.and_then(|level| IdempotencyLevel::try_from(level).ok());
    let mut out = Vec::new();
    if let Some(key) = &ours.key {
        out.push(format!("(millrace.key) = \"{}\"", key.path));
    }
    if let Some(cacheable) = &ours.cacheable {
        let writers = cacheable.invalidated_by.iter().map(|&at| &service.methods[at as usize].name);
        let writers: String = writers.map(|name| format!(" invalidated_by: \"{name}\"")).collect();
        out.push(format!("(millrace.cacheable) = {{ ttl_seconds: {}{writers} }}", cacheable.ttl_seconds));
    }
    match level {
        Some(level) if level != IdempotencyLevel::IdempotencyUnknown => {
            out.push(format!("idempotency_level = {}", level.as_str_name()));
        }
        _ if ours.idempotent && ours.cacheable.is_none() => out.push("(millrace.idempotent) = true".into()),
        _ => {}
    }
    match ours.order {
        Order::None => {}
        Order::PerKey => out.push("(millrace.order) = PER_KEY".into()),
        Order::PerConnection => out.push("(millrace.order) = PER_CONNECTION".into()),
    }
    if ours.places != Places::ANY {
        let places = ours.places.iter().map(|place| place.name().to_uppercase());
        out.extend(places.map(|place| format!("(millrace.places) = {place}")));
    }
    if ours.transaction {
        out.push("(millrace.transaction) = true".into());
    }
    out
}

/// Text of a file being written.
struct Out<'f> {
    text: String,
    indent: usize,
    proto: &'f FileDescriptorProto,
    schema: &'f Schema,
    /// The full name of the message that is being written, and of those around it.
    scope: Vec<String>,
}

impl Out<'_> {
    fn line(&mut self, line: &str) {
        let indent = 2 * self.indent;
        writeln!(self.text, "{:indent$}{line}", "").expect("a string takes any text");
    }

    fn open(&mut self, line: &str) {
        self.line(&format!("{line} {{"));
        self.indent += 1;
    }

    fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
    }

    fn file(&mut self) {
        let proto = self.proto;
        let syntax = if proto.syntax().is_empty() { "proto2" } else { proto.syntax() };
        self.line(&format!("syntax = \"{syntax}\";"));
        if !proto.package().is_empty() {
            self.line(&format!("package {};", proto.package()));
        }
        for import in &proto.dependency {
            self.line(&format!("import \"{import}\";"));
        }
        for service in &proto.service {
            self.line("");
            self.service(service);
        }
        for message in &proto.message_type {
            self.line("");
            self.message(message);
        }
        for item in &proto.enum_type {
            self.line("");
            self.enumeration(item);
        }
    }

    fn service(&mut self, service: &ServiceDescriptorProto) {
        self.open(&format!("service {}", service.name()));
        for method in &service.method {
            let stream = |streams: bool| if streams { "stream " } else { "" };
            let (input, output) = (self.short(method.input_type()), self.short(method.output_type()));
            let (client, server) = (stream(method.client_streaming()), stream(method.server_streaming()));
            let rpc = format!("rpc {}({client}{input}) returns ({server}{output})", method.name());
            let said = self.options_of(service, method);
            if said.is_empty() {
                self.line(&format!("{rpc};"));
                continue;
            }
            self.open(&rpc);
            for option in said {
                self.line(&format!("option {option};"));
            }
            self.close();
        }
        self.close();
    }

    fn options_of(&self, service: &ServiceDescriptorProto, method: &MethodDescriptorProto) -> Vec<String> {
        let package = self.proto.package();
        let dot = if package.is_empty() { "" } else { "." };
        let found = self.schema.service(&format!("{package}{dot}{}", service.name()));
        let own = found.and_then(|found| {
            let own = found.methods.iter().find(|known| known.name == method.name())?;
            Some((found, own))
        });
        own.map_or_else(Vec::new, |(found, own)| options(found, method, &own.options))
    }

    fn message(&mut self, message: &DescriptorProto) {
        self.open(&format!("message {}", message.name()));
        self.scope.push(message.name().to_owned());
        for nested in message.nested_type.iter().filter(|nested| !is_map_entry(nested)) {
            if !message.field.iter().any(|field| is_group_of(field, nested)) {
                self.message(nested);
            }
        }
        for item in &message.enum_type {
            self.enumeration(item);
        }
        let mut open = None;
        for field in &message.field {
            let oneof = field.oneof_index.filter(|_| !field.proto3_optional());
            if oneof != open {
                if open.is_some() {
                    self.close();
                }
                if let Some(index) = oneof {
                    self.open(&format!("oneof {}", message.oneof_decl[index as usize].name()));
                }
                open = oneof;
            }
            self.field(message, field);
        }
        if open.is_some() {
            self.close();
        }
        self.scope.pop();
        self.close();
    }

    fn is_in_acc(&self, field: &FieldDescriptorProto) -> bool {
        let message = self.schema.message(&self.scope.join("."));
        message.and_then(|message| message.field(field.name())).is_some_and(|field| field.acc)
    }

    fn field(&mut self, message: &DescriptorProto, field: &FieldDescriptorProto) {
        let nested = |name: &str| {
            message.nested_type.iter().find(|nested| name.ends_with(&format!(".{}", nested.name())))
        };
        if let Some(entry) = nested(field.type_name()).filter(|nested| is_map_entry(nested)) {
            let (key, value) = (self.type_of(&entry.field[0]), self.type_of(&entry.field[1]));
            return self.line(&format!("map<{key}, {value}> {} = {};", field.name(), field.number()));
        }
        let label = match field.label() {
            Label::Repeated => "repeated ",
            Label::Required => "required ",
            Label::Optional if field.proto3_optional() => "optional ",
            Label::Optional if self.proto.syntax() != "proto3" && field.oneof_index.is_none() => "optional ",
            Label::Optional => "",
        };
        if let Some(group) = nested(field.type_name()).filter(|nested| is_group_of(field, nested)) {
            self.open(&format!("{label}group {} = {}", group.name(), field.number()));
            self.scope.push(group.name().to_owned());
            for field in &group.field {
                self.field(group, field);
            }
            self.scope.pop();
            return self.close();
        }
        let default = match (&field.default_value, field.r#type()) {
            (None, _) => None,
            (Some(text), Type::String | Type::Bytes) => {
                Some(format!("default = \"{}\"", quoted(text, field.r#type())))
            }
            (Some(value), _) => Some(format!("default = {value}")),
        };
        let acc = self.is_in_acc(field).then(|| "(millrace.acc) = true".to_owned());
        let options: Vec<String> = default.into_iter().chain(acc).collect();
        let options = if options.is_empty() { String::new() } else { format!(" [{}]", options.join(", ")) };
        let kind = self.type_of(field);
        self.line(&format!("{label}{kind} {} = {}{options};", field.name(), field.number()));
    }

    fn enumeration(&mut self, item: &EnumDescriptorProto) {
        self.open(&format!("enum {}", item.name()));
        if item.options.as_ref().is_some_and(|options| options.allow_alias()) {
            self.line("option allow_alias = true;");
        }
        for value in &item.value {
            self.line(&format!("{} = {};", value.name(), value.number()));
        }
        self.close();
    }

    fn type_of(&self, field: &FieldDescriptorProto) -> String {
        match field.r#type() {
            Type::Message | Type::Enum | Type::Group => self.short(field.type_name()),
            plain => plain.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
        }
    }

    /// A type's name without the package if it is this file's, else from the root.
    fn short(&self, name: &str) -> String {
        let package = format!(".{}.", self.proto.package());
        let inside =
            name.strip_prefix(&package).or_else(|| name.strip_prefix('.').filter(|_| package == ".."));
        inside.map_or_else(|| name.to_owned(), str::to_owned)
    }
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

fn is_group_of(field: &FieldDescriptorProto, message: &DescriptorProto) -> bool {
    field.r#type() == Type::Group && field.type_name().ends_with(&format!(".{}", message.name()))
}

/// A default as it is written: that of bytes is escaped in descriptors already.
fn quoted(text: &str, kind: Type) -> String {
    match kind {
        Type::Bytes => text.to_owned(),
        _ => text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::compile::Compiler;
    use fabric::service::schema_hash;

    const PROTO3: &str = r#"syntax = "proto3";
package shop.v1;
import "other.proto";
import "millrace/options.proto";

service Cart {
  rpc Add(Item) returns (Item.Price);
  rpc Get(Item) returns (Item) {
    option (millrace.key) = "name";
    option (millrace.cacheable) = { ttl_seconds: 60 invalidated_by: "Put" };
    option idempotency_level = NO_SIDE_EFFECTS;
    option (millrace.places) = HOST;
    option (millrace.places) = ENGINE;
  }
  rpc Put(Item) returns (Item) {
    option (millrace.key) = "name";
    option (millrace.idempotent) = true;
    option (millrace.order) = PER_KEY;
    option (millrace.transaction) = true;
  }
  rpc Watch(stream .other.Thing) returns (stream Item);
}

message Item {
  message Price {
    int64 cents = 1;
  }
  enum Kind {
    option allow_alias = true;
    NONE = 0;
    ZERO = 0;
    NEGATIVE = -1;
  }
  string name = 1;
  optional uint32 count = 2;
  repeated Item.Price prices = 3;
  map<string, Item> parts = 4;
  oneof choice {
    bytes raw = 5 [(millrace.acc) = true];
    Item.Kind kind = 6;
  }
  sfixed64 last = 7;
}
"#;
    const OTHER: &str = r#"syntax = "proto2";
package other;

message Thing {
  required string name = 1 [default = "a \"b\""];
  optional Colour colour = 2 [default = RED];
  repeated group Part = 3 {
    optional double weight = 4;
  }
}

enum Colour {
  BLUE = 1;
  RED = 2;
}
"#;

    fn compile(shop: &str, other: &str) -> Vec<u8> {
        let compiler = Compiler::new().source("shop.proto", shop).source("other.proto", other);
        compiler.descriptor_set(&["shop.proto"]).expect("right files")
    }

    #[test]
    fn the_text_is_what_was_compiled() {
        let described = Descriptions::of_set(&compile(PROTO3, OTHER)).expect("descriptors");
        let text = |name: &str| file(&described, &described.pool().get_file_by_name(name).expect("a file"));
        assert_eq!((text("shop.proto").as_str(), text("other.proto").as_str()), (PROTO3, OTHER));
        let all = files(&described);
        assert!(
            all.contains("// other.proto\nsyntax = \"proto2\";") && !all.contains("FieldOptions"),
            "{all}"
        );

        let hash = |set: &[u8]| {
            let schema = Schema::from_descriptor_set(set).expect("a schema");
            schema_hash(&schema, schema.service("shop.v1.Cart").expect("a service"))
        };
        let again = compile(&text("shop.proto"), &text("other.proto"));
        assert_eq!(hash(&again), hash(&compile(PROTO3, OTHER)));
    }
}
