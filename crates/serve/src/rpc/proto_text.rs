//! Descriptors as the .proto text that they came from, but for comments and for options that are not ours: good to read, and to compile.

use super::RpcError;
use super::descriptions::Descriptions;
use codec::compile::Compiler;
use codec::decode::{Decoder, Limits};
use codec::memory::Arena;
use codec::object::Dynamic;
use codec::object::dynamic::Value;
use codec::schema::{MethodOptions, Order, Places, Schema, Service, Types};
use std::fmt::Write;

/// All files but those that come with protobuf and millrace, each under a line with its name.
///
/// # Errors
/// The bytes are no such set.
pub fn files(descriptions: &Descriptions) -> Result<String, RpcError> {
    let is_own = |name: &str| !name.starts_with("google/protobuf/") && name != "millrace/options.proto";
    let texts = each(descriptions, is_own)?.into_iter().map(|(name, text)| format!("// {name}\n{text}"));
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// One file of them; nothing if it is not there.
///
/// # Errors
/// As [`files`].
pub fn file(descriptions: &Descriptions, name: &str) -> Result<String, RpcError> {
    Ok(each(descriptions, |other| other == name)?.into_iter().map(|(_, text)| text).collect())
}

/// Names and texts of the files with such names.
fn each(
    descriptions: &Descriptions,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, String)>, RpcError> {
    let bad = |error: String| RpcError::Descriptors(error);
    let schema = Compiler::new().compile(&["google/protobuf/descriptor.proto"]);
    let schema = schema.map_err(|error| bad(error.to_string()))?;
    let class = schema.class("google.protobuf.FileDescriptorSet");
    let class = class.ok_or_else(|| bad("descriptor.proto has no FileDescriptorSet".to_owned()))?;
    let (types, arena) = (Types::new(schema), Arena::default());
    // What is described was accepted as a schema, which is larger.
    let limits = Limits { slack_bytes: 1 << 30, ..Limits::default() };
    let set = Dynamic::decode(&types, class, &mut Decoder::new(limits), descriptions.set(), &arena);
    let set = set.map_err(|error| bad(error.to_string()))?;
    let files = set.messages("file").into_iter().filter(|file| wanted(file.text("name")));
    let texts = files.map(|proto| {
        let package = proto.text("package");
        let scope = if package.is_empty() { vec![] } else { vec![package.to_owned()] };
        let mut out = Out { text: String::new(), indent: 0, proto, schema: descriptions.schema(), scope };
        out.file();
        (proto.text("name").to_owned(), out.text)
    });
    Ok(texts.collect())
}

/// Fields of descriptors by name; what is not there is empty, zero or false.
trait Fields<'a>: Copy {
    fn of(self, field: &str) -> Option<Value<'a>>;

    fn text(self, field: &str) -> &'a str {
        self.of(field).and_then(Value::as_str).unwrap_or("")
    }

    fn number(self, field: &str) -> i128 {
        self.of(field).and_then(Value::as_i128).unwrap_or(0)
    }

    fn is(self, field: &str) -> bool {
        self.number(field) != 0
    }

    fn messages(self, field: &str) -> Vec<Dynamic<'a>> {
        let list = self.of(field).and_then(Value::as_list);
        list.map_or(Vec::new(), |list| list.iter().filter_map(Value::as_message).collect())
    }
}

impl<'a> Fields<'a> for Dynamic<'a> {
    fn of(self, field: &str) -> Option<Value<'a>> {
        self.get(field)
    }
}

/// The types of a descriptor's field that are not written by their name in lower case.
const STRING: i128 = 9;
const GROUP: i128 = 10;
const MESSAGE: i128 = 11;
const BYTES: i128 = 12;
const ENUM: i128 = 14;
/// The others, by their numbers.
const KINDS: [&str; 19] = [
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group",
    "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
];

/// What a method says of itself, as options of its .proto file.
fn options(service: &Service, method: Dynamic<'_>, ours: &MethodOptions) -> Vec<String> {
    let level = options_message(method).map_or(0, |options| options.number("idempotency_level"));
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
        1 => out.push("idempotency_level = NO_SIDE_EFFECTS".into()),
        2 => out.push("idempotency_level = IDEMPOTENT".into()),
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
    proto: Dynamic<'f>,
    schema: &'f Schema,
    /// The full name of the message that is being written, and of those around it.
    scope: Vec<String>,
}

impl<'f> Out<'f> {
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
        match proto.text("syntax") {
            "editions" => {
                self.line("// Features and other options are not shown.");
                self.line("edition = \"2023\";");
            }
            "" => self.line("syntax = \"proto2\";"),
            syntax => self.line(&format!("syntax = \"{syntax}\";")),
        }
        if !proto.text("package").is_empty() {
            self.line(&format!("package {};", proto.text("package")));
        }
        let imports = proto.of("dependency").and_then(Value::as_list);
        for import in imports.iter().flat_map(|imports| imports.iter()).filter_map(Value::as_str) {
            self.line(&format!("import \"{import}\";"));
        }
        for service in proto.messages("service") {
            self.line("");
            self.service(service);
        }
        for message in proto.messages("message_type") {
            self.line("");
            self.message(message);
        }
        for item in proto.messages("enum_type") {
            self.line("");
            self.enumeration(item);
        }
    }

    fn service(&mut self, service: Dynamic<'f>) {
        self.open(&format!("service {}", service.text("name")));
        for method in service.messages("method") {
            let stream = |streams: &str| if method.is(streams) { "stream " } else { "" };
            let (input, output) =
                (self.short(method.text("input_type")), self.short(method.text("output_type")));
            let (client, server) = (stream("client_streaming"), stream("server_streaming"));
            let rpc = format!("rpc {}({client}{input}) returns ({server}{output})", method.text("name"));
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

    fn options_of(&self, service: Dynamic<'f>, method: Dynamic<'f>) -> Vec<String> {
        let package = self.proto.text("package");
        let dot = if package.is_empty() { "" } else { "." };
        let found = self.schema.service(&format!("{package}{dot}{}", service.text("name")));
        let own = found.and_then(|found| {
            let own = found.methods.iter().find(|known| known.name == method.text("name"))?;
            Some((found, own))
        });
        own.map_or_else(Vec::new, |(found, own)| options(found, method, &own.options))
    }

    fn message(&mut self, message: Dynamic<'f>) {
        self.open(&format!("message {}", message.text("name")));
        self.scope.push(message.text("name").to_owned());
        let fields = message.messages("field");
        for nested in message.messages("nested_type").into_iter().filter(|nested| !is_map_entry(*nested)) {
            if !fields.iter().any(|field| is_group_of(*field, nested)) {
                self.message(nested);
            }
        }
        for item in message.messages("enum_type") {
            self.enumeration(item);
        }
        let oneofs = message.messages("oneof_decl");
        let mut open = None;
        for field in fields {
            let oneof = oneof_of(field);
            if oneof != open {
                if open.is_some() {
                    self.close();
                }
                if let Some(oneof) = oneof.and_then(|index| oneofs.get(index)) {
                    self.open(&format!("oneof {}", oneof.text("name")));
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

    fn is_in_acc(&self, field: Dynamic<'f>) -> bool {
        let message = self.schema.message(&self.scope.join("."));
        message.and_then(|message| message.field(field.text("name"))).is_some_and(|field| field.acc)
    }

    fn field(&mut self, message: Dynamic<'f>, field: Dynamic<'f>) {
        let (name, number) = (field.text("name"), field.number("number"));
        let all = message.messages("nested_type");
        let type_name = field.text("type_name");
        let nested = all.into_iter().find(|nested| type_name.ends_with(&format!(".{}", nested.text("name"))));
        if let Some(entry) = nested.filter(|nested| is_map_entry(*nested)) {
            if let [key, value] = entry.messages("field")[..] {
                let (key, value) = (self.type_of(key), self.type_of(value));
                self.line(&format!("map<{key}, {value}> {name} = {number};"));
            }
            return;
        }
        let is_proto2 = matches!(self.proto.text("syntax"), "" | "proto2");
        let label = match field.number("label") {
            3 => "repeated ",
            2 => "required ",
            _ if field.is("proto3_optional") => "optional ",
            _ if is_proto2 && field.of("oneof_index").is_none() => "optional ",
            _ => "",
        };
        if let Some(group) = nested.filter(|nested| is_group_of(field, *nested)) {
            self.open(&format!("{label}group {} = {number}", group.text("name")));
            self.scope.push(group.text("name").to_owned());
            for field in group.messages("field") {
                self.field(group, field);
            }
            self.scope.pop();
            return self.close();
        }
        let default = match (field.of("default_value").and_then(Value::as_str), field.number("type")) {
            (None, _) => None,
            // A default of bytes is escaped in descriptors already.
            (Some(text), BYTES) => Some(format!("default = \"{text}\"")),
            (Some(text), STRING) => Some(format!("default = \"{}\"", quoted(text))),
            (Some(value), _) => Some(format!("default = {value}")),
        };
        let acc = self.is_in_acc(field).then(|| "(millrace.acc) = true".to_owned());
        let options: Vec<String> = default.into_iter().chain(acc).collect();
        let options = if options.is_empty() { String::new() } else { format!(" [{}]", options.join(", ")) };
        let kind = self.type_of(field);
        self.line(&format!("{label}{kind} {name} = {number}{options};"));
    }

    fn enumeration(&mut self, item: Dynamic<'f>) {
        self.open(&format!("enum {}", item.text("name")));
        if options_message(item).is_some_and(|options| options.is("allow_alias")) {
            self.line("option allow_alias = true;");
        }
        for value in item.messages("value") {
            self.line(&format!("{} = {};", value.text("name"), value.number("number")));
        }
        self.close();
    }

    fn type_of(&self, field: Dynamic<'f>) -> String {
        match field.number("type") {
            MESSAGE | ENUM | GROUP => self.short(field.text("type_name")),
            plain => {
                usize::try_from(plain).ok().and_then(|plain| KINDS.get(plain)).unwrap_or(&"").to_string()
            }
        }
    }

    /// A type's name without the package if it is this file's, else from the root.
    fn short(&self, name: &str) -> String {
        let package = format!(".{}.", self.proto.text("package"));
        let inside =
            name.strip_prefix(&package).or_else(|| name.strip_prefix('.').filter(|_| package == ".."));
        inside.map_or_else(|| name.to_owned(), str::to_owned)
    }
}

fn options_message(of: Dynamic<'_>) -> Option<Dynamic<'_>> {
    of.of("options").and_then(Value::as_message)
}

fn is_map_entry(message: Dynamic<'_>) -> bool {
    options_message(message).is_some_and(|options| options.is("map_entry"))
}

/// The declared oneof of a field.
fn oneof_of(field: Dynamic<'_>) -> Option<usize> {
    let index = field.of("oneof_index").and_then(Value::as_i128).filter(|_| !field.is("proto3_optional"));
    index.and_then(|index| usize::try_from(index).ok())
}

fn is_group_of(field: Dynamic<'_>, message: Dynamic<'_>) -> bool {
    field.number("type") == GROUP && field.text("type_name").ends_with(&format!(".{}", message.text("name")))
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
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
        let text = |name: &str| file(&described, name).expect("descriptors");
        assert_eq!((text("shop.proto").as_str(), text("other.proto").as_str()), (PROTO3, OTHER));
        let all = files(&described).expect("descriptors");
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
