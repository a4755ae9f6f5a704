//! From descriptors as they are written to a [`Schema`]: names become indices, features become facts about fields.
//!
//! Shape: one walk over the files gives every message and enum its index, its full name and its features (`Found`); then each
//! message is built on its own.
//!
//! Sources: descriptor.proto; protobuf's descriptor.cc for what a delimited map entry is (not delimited), and that a map's
//! entry takes the map field's features.

use std::collections::{HashMap, HashSet};

use super::descriptor as raw;
use super::features::{Features, Presence};
use super::{
    DefaultValue, Enum, FOR_OPTIONS, Field, File, Label, MAX_FIELDS, MAX_MESSAGES, MAX_NAME, Message, Method,
    MethodOptions, Oneof, Problem, Schema, SchemaError, Service, Symbol, options,
};
use crate::table::Kind;
use crate::wire::MAX_FIELD_NUMBER;

/// An element of a file, in the order of class ids.
pub(super) struct Found<'a, T> {
    pub raw: &'a T,
    pub name: String,
    pub file: u32,
    pub features: Features,
}

#[derive(Default)]
pub(super) struct Walk<'a> {
    pub messages: Vec<Found<'a, raw::Message>>,
    enums: Vec<Found<'a, raw::Enum>>,
    services: Vec<Found<'a, raw::Service>>,
    pub extensions: Vec<Found<'a, raw::Field>>,
    pub names: HashMap<String, Symbol>,
}

/// Builds the schema, or says what is wrong and in which file.
pub(super) fn resolve(mut files: Vec<raw::File>) -> Result<Schema, SchemaError> {
    leave_out_options(&mut files);
    let mut walk = Walk::default();
    for (index, file) in files.iter().enumerate() {
        walk.file(index as u32, file).map_err(|error| error.in_file(&file.name))?;
    }
    let in_file = |file: u32| move |error: SchemaError| (file, error);
    let named = |(file, error): (u32, SchemaError)| error.in_file(&files[file as usize].name);

    let enums = walk.enums.iter().map(|found| build_enum(found).map_err(in_file(found.file)));
    let enums = enums.collect::<Result<Vec<Enum>, _>>().map_err(named)?;
    let build = Build { walk: &walk, enums: &enums };
    let messages = walk
        .messages
        .iter()
        .enumerate()
        .map(|(class, found)| build.message(class as u32, found).map_err(in_file(found.file)));
    let mut messages = messages.collect::<Result<Vec<Message>, _>>().map_err(named)?;
    let services = walk.services.iter().map(|found| {
        let built = build.service(found, &messages);
        built.map_err(in_file(found.file))
    });
    let services = services.collect::<Result<Vec<Service>, _>>().map_err(named)?;
    pass_map_features_on(&walk, &mut messages);
    let extensions = super::extensions::append(&build, &mut messages).map_err(named)?;

    let names = walk.names;
    let files = files.into_iter().map(|file| File { name: file.name, package: file.package }).collect();
    Ok(Schema { files, messages, enums, services, names, extensions })
}

/// These come with every file that says an option. Unless a field or method is of one of their types, or one is all there is,
/// their messages would only fill the table.
fn leave_out_options(files: &mut Vec<raw::File>) {
    for name in FOR_OPTIONS {
        if let Some(at) = files.iter().position(|file| file.name == name)
            && !is_needed(files, at)
        {
            files.remove(at);
        }
    }
}

/// Whether there is no other file, or one that has a field or method of a type of file `at`.
fn is_needed(files: &[raw::File], at: usize) -> bool {
    let package = &files[at].package;
    let declared: HashSet<String> = {
        let messages = files[at].messages.iter().map(|m| &m.name);
        let enums = files[at].enums.iter().map(|e| &e.name);
        messages.chain(enums).map(|name| format!(".{package}.{name}")).collect()
    };
    // A nested type's name begins with the name of one that is declared in the file.
    let depth = package.split('.').count() + 1;
    let uses = |name: &str| {
        let end = name.match_indices('.').nth(depth).map_or(name.len(), |(at, _)| at);
        declared.contains(&name[..end])
    };
    fn messages_use(messages: &[raw::Message], uses: &dyn Fn(&str) -> bool) -> bool {
        messages.iter().any(|m| m.fields.iter().any(|f| uses(&f.type_name)) || messages_use(&m.nested, uses))
    }
    let mut others = files.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, file)| file).peekable();
    others.peek().is_none()
        || others.any(|file| {
            let mut methods = file.services.iter().flat_map(|s| &s.methods);
            messages_use(&file.messages, &uses) || methods.any(|m| uses(&m.input) || uses(&m.output))
        })
}

impl<'a> Walk<'a> {
    fn file(&mut self, index: u32, file: &'a raw::File) -> Result<(), SchemaError> {
        if !file.package.is_empty() && !file.package.split('.').all(is_identifier) {
            return Err(Problem::Name.at(format!("package {}", file.package)));
        }
        let features = Features::of_edition(file.edition).with(&file.features);
        self.elements(index, &file.package, features, &file.messages, &file.enums)?;
        self.extensions(index, &file.package, features, &file.extensions)?;
        for raw in &file.services {
            let symbol = Symbol::Service(self.services.len() as u32);
            let name = self.declare(&file.package, &raw.name, "service", symbol)?;
            self.services.push(Found { raw, name, file: index, features });
        }
        Ok(())
    }

    fn elements(
        &mut self,
        file: u32,
        scope: &str,
        features: Features,
        messages: &'a [raw::Message],
        enums: &'a [raw::Enum],
    ) -> Result<(), SchemaError> {
        for raw in enums {
            let name = self.declare(scope, &raw.name, "enum", Symbol::Enum(self.enums.len() as u32))?;
            self.enums.push(Found { raw, name, file, features: features.with(&raw.features) });
        }
        for raw in messages {
            let name =
                self.declare(scope, &raw.name, "message", Symbol::Message(self.messages.len() as u32))?;
            if self.messages.len() == MAX_MESSAGES {
                return Err(Problem::TooMany("messages", MAX_MESSAGES + 1, MAX_MESSAGES).at(""));
            }
            let features = features.with(&raw.features);
            self.messages.push(Found { raw, name: name.clone(), file, features });
            self.elements(file, &name, features, &raw.nested, &raw.enums)?;
            self.extensions(file, &name, features, &raw.extensions)?;
        }
        Ok(())
    }

    fn extensions(
        &mut self,
        file: u32,
        scope: &str,
        features: Features,
        fields: &'a [raw::Field],
    ) -> Result<(), SchemaError> {
        for raw in fields {
            let name = full_name(scope, &raw.name, "extension")?;
            self.extensions.push(Found { raw, name, file, features });
        }
        Ok(())
    }

    fn declare(
        &mut self,
        scope: &str,
        name: &str,
        what: &str,
        symbol: Symbol,
    ) -> Result<String, SchemaError> {
        let full = full_name(scope, name, what)?;
        if self.names.insert(full.clone(), symbol).is_some() {
            return Err(Problem::DuplicateName(full.clone()).at(format!("{what} {full}")));
        }
        Ok(full)
    }
}

/// A name in its scope.
fn full_name(scope: &str, name: &str, what: &str) -> Result<String, SchemaError> {
    let full = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
    if !is_identifier(name) || full.len() > MAX_NAME {
        return Err(Problem::Name.at(format!("{what} {full}")));
    }
    Ok(full)
}

fn build_enum(found: &Found<'_, raw::Enum>) -> Result<Enum, SchemaError> {
    let problem = match found.raw.values.first() {
        None => Some(Problem::NoValues),
        _ if !found.raw.values.iter().all(|(name, _)| is_identifier(name)) => Some(Problem::Name),
        Some((_, value)) if *value != 0 && !found.features.closed => Some(Problem::FirstValue(*value)),
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(problem.at(format!("enum {}", found.name)));
    }
    Ok(Enum {
        name: found.name.clone(),
        file: found.file,
        values: found.raw.values.clone(),
        closed: found.features.closed,
    })
}

/// What messages are built from.
pub(super) struct Build<'a> {
    pub walk: &'a Walk<'a>,
    enums: &'a [Enum],
}

impl Build<'_> {
    fn message(&self, class: u32, found: &Found<'_, raw::Message>) -> Result<Message, SchemaError> {
        let raw = found.raw;
        let here = |problem: Problem| problem.at(format!("message {}", found.name));
        if raw.fields.len() > MAX_FIELDS {
            return Err(here(Problem::TooMany("fields", raw.fields.len(), MAX_FIELDS)));
        }
        if !raw.oneofs.iter().all(|oneof| is_identifier(&oneof.name)) {
            return Err(here(Problem::Name));
        }
        let mut fields = vec![];
        for field in &raw.fields {
            let built = self
                .field(found, field)
                .map_err(|problem| problem.at(format!("field {}.{}", found.name, field.name)))?;
            fields.push(built);
        }
        fields.sort_by_key(|field: &Field| field.number);
        if let Some(pair) = fields.windows(2).find(|pair| pair[0].number == pair[1].number) {
            return Err(here(Problem::DuplicateNumber(pair[0].number)));
        }
        let mut names = HashSet::new();
        if let Some(field) = fields.iter().find(|field| !names.insert(&field.name)) {
            return Err(here(Problem::DuplicateName(field.name.clone())));
        }
        if raw.map_entry {
            self.check_map_entry(&mut fields).map_err(here)?;
        }
        let oneofs = collect_oneofs(raw, &mut fields);
        let (name, file) = (found.name.clone(), found.file);
        let (map_entry, reserved) = (raw.map_entry, raw.reserved.clone());
        Ok(Message { name, file, class, fields, oneofs, map_entry, reserved, extends: None })
    }

    pub fn field(&self, found: &Found<'_, raw::Message>, raw: &raw::Field) -> Result<Field, Problem> {
        if !is_identifier(&raw.name) {
            return Err(Problem::Name);
        }
        let number = u32::try_from(raw.number).ok().filter(|n| (1..=MAX_FIELD_NUMBER).contains(n));
        let number = number.ok_or(Problem::FieldNumber(raw.number))?;
        let oneof = oneof_of(found.raw, raw)?;
        let features = match oneof {
            Some(oneof) => found.features.with(&found.raw.oneofs[oneof as usize].features),
            None => found.features,
        };
        let features = features.with(&raw.features);

        let (mut kind, message, enumeration) = self.kind(raw)?;
        let repeated = match raw.label {
            3 => true,
            0..=2 => false,
            other => return Err(Problem::Meaningless("a label", other)),
        };
        let map = message.is_some_and(|class| self.walk.messages[class as usize].raw.map_entry);
        if map && !(repeated && kind == Kind::Message) {
            return Err(Problem::MapEntry);
        }
        if oneof.is_some() && repeated {
            return Err(Problem::Oneof);
        }
        if kind == Kind::Message && features.delimited && !map && !found.raw.map_entry {
            kind = Kind::Group;
        }
        let label =
            label(raw, kind, repeated, map, oneof.is_some() || found.raw.map_entry, features.presence);
        let field = Field {
            name: raw.name.clone(),
            json_name: raw.json_name.clone().unwrap_or_else(|| json_name(&raw.name)),
            number,
            kind,
            label,
            packed: repeated && kind.is_scalar() && raw.packed.unwrap_or(features.packed),
            utf8: kind == Kind::String && features.utf8,
            acc: raw.acc,
            oneof,
            message,
            enumeration,
            default: self.default(raw, kind, label, enumeration)?,
        };
        if field.acc && !field.is_dereference() {
            return Err(Problem::AccOnScalar);
        }
        Ok(field)
    }

    /// The field's kind, and the class or enum that its type's name stands for.
    fn kind(&self, raw: &raw::Field) -> Result<(Kind, Option<u32>, Option<u32>), Problem> {
        let kind = match raw.kind {
            0 if !raw.type_name.is_empty() => None,
            number => {
                let kind = u8::try_from(number).ok().and_then(Kind::from_number);
                Some(kind.ok_or(Problem::Meaningless("a field's type", number))?)
            }
        };
        if kind.is_some_and(|kind| kind != Kind::Enum && !kind.is_message()) {
            return Ok((kind.expect("just seen"), None, None));
        }
        let name = raw.type_name.strip_prefix('.').and_then(|name| self.walk.names.get(name));
        match (name, kind) {
            (Some(Symbol::Message(class)), Some(Kind::Message | Kind::Group) | None) => {
                Ok((kind.unwrap_or(Kind::Message), Some(*class), None))
            }
            (Some(Symbol::Enum(index)), Some(Kind::Enum) | None) => Ok((Kind::Enum, None, Some(*index))),
            _ => Err(Problem::Unresolved(raw.type_name.clone())),
        }
    }

    fn default(
        &self,
        raw: &raw::Field,
        kind: Kind,
        label: Label,
        enumeration: Option<u32>,
    ) -> Result<Option<DefaultValue>, Problem> {
        let values = enumeration.map(|index| &self.enums[index as usize]);
        let singular = !matches!(label, Label::Repeated | Label::Map);
        match &raw.default {
            Some(text) if singular && label != Label::Implicit => {
                let value = DefaultValue::parse(text, kind, values)?;
                Ok(Some(value).filter(|value| !value.is_zero()))
            }
            Some(text) => Err(Problem::Default(text.clone())),
            None => Ok(values.filter(|_| singular).and_then(DefaultValue::first)),
        }
    }

    /// A key that can be compared, a value that is one thing, and nothing else.
    fn check_map_entry(&self, fields: &mut [Field]) -> Result<(), Problem> {
        let [key, value] = fields else { return Err(Problem::MapEntry) };
        let keys = !matches!(key.kind, Kind::Double | Kind::Float | Kind::Bytes | Kind::Enum)
            && (key.kind.is_scalar() || key.kind == Kind::String);
        let singular = !key.is_repeated() && !value.is_repeated();
        let plain = |field: &Field| field.oneof.is_none() && !field.acc && field.default.is_none();
        if !keys
            || !singular
            || !plain(key)
            || !plain(value)
            || value.kind == Kind::Group
            || (key.number, value.number) != (1, 2)
        {
            return Err(Problem::MapEntry);
        }
        Ok(())
    }

    fn service(&self, found: &Found<'_, raw::Service>, messages: &[Message]) -> Result<Service, SchemaError> {
        let class = |name: &str, method: &str| match name
            .strip_prefix('.')
            .and_then(|name| self.walk.names.get(name))
        {
            Some(Symbol::Message(class)) => Ok(*class),
            _ => Err(Problem::Unresolved(name.to_owned()).at(format!("method {}.{method}", found.name))),
        };
        let mut methods = vec![];
        let mut names = HashSet::new();
        for raw in &found.raw.methods {
            if !is_identifier(&raw.name) {
                return Err(Problem::Name.at(format!("service {}", found.name)));
            }
            if !names.insert(&raw.name) {
                return Err(Problem::DuplicateName(raw.name.clone()).at(format!("service {}", found.name)));
            }
            methods.push(Method {
                name: raw.name.clone(),
                input: class(&raw.input, &raw.name)?,
                output: class(&raw.output, &raw.name)?,
                client_streaming: raw.client_streaming,
                server_streaming: raw.server_streaming,
                options: MethodOptions::default(),
            });
        }
        let inputs: Vec<u32> = methods.iter().map(|method: &Method| method.input).collect();
        let said = options::check(&found.raw.methods, &inputs, messages).map_err(|(at, wrong)| {
            let element = format!("method {}.{}", found.name, methods[at].name);
            Problem::Contradiction(Box::new(wrong)).at(element)
        })?;
        for (method, options) in methods.iter_mut().zip(said) {
            method.options = options;
        }
        Ok(Service { name: found.name.clone(), file: found.file, methods })
    }
}

/// True for what .proto files take for a name: also what generated code can be made of.
fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The declared oneof of a field; proto3 `optional` makes none.
fn oneof_of(message: &raw::Message, raw: &raw::Field) -> Result<Option<u32>, Problem> {
    match raw.oneof {
        Some(_) if raw.proto3_optional => Ok(None),
        Some(index) => match u32::try_from(index) {
            Ok(index) if (index as usize) < message.oneofs.len() => Ok(Some(index)),
            _ => Err(Problem::Oneof),
        },
        None => Ok(None),
    }
}

/// `explicit`: members of oneofs, and both fields of a map entry, which a serialiser writes in any case.
fn label(
    raw: &raw::Field,
    kind: Kind,
    repeated: bool,
    map: bool,
    explicit: bool,
    presence: Presence,
) -> Label {
    match presence {
        _ if map => Label::Map,
        _ if repeated => Label::Repeated,
        _ if explicit => Label::Explicit,
        _ if raw.label == 2 => Label::Required,
        _ if raw.proto3_optional => Label::Explicit,
        Presence::Required => Label::Required,
        Presence::Implicit if !kind.is_message() => Label::Implicit,
        _ => Label::Explicit,
    }
}

/// The oneofs that have members, and the members' indices in them.
fn collect_oneofs(raw: &raw::Message, fields: &mut [Field]) -> Vec<Oneof> {
    let mut members = vec![vec![]; raw.oneofs.len()];
    for (index, field) in fields.iter().enumerate() {
        if let Some(oneof) = field.oneof {
            members[oneof as usize].push(index as u32);
        }
    }
    let mut oneofs = vec![];
    for (raw, members) in raw.oneofs.iter().zip(members) {
        if members.is_empty() {
            continue;
        }
        for member in &members {
            fields[*member as usize].oneof = Some(oneofs.len() as u32);
        }
        oneofs.push(Oneof { name: raw.name.clone(), fields: members });
    }
    oneofs
}

/// A map's key and value take the map field's word on UTF-8, which protoc copies to them but other compilers may not.
fn pass_map_features_on(walk: &Walk<'_>, messages: &mut [Message]) {
    for found in &walk.messages {
        for raw in &found.raw.fields {
            let name = raw.type_name.strip_prefix('.').unwrap_or("");
            let Some(Symbol::Message(class)) = walk.names.get(name) else { continue };
            let entry = &mut messages[*class as usize];
            if entry.map_entry {
                let utf8 = found.features.with(&raw.features).utf8;
                for field in entry.fields.iter_mut().filter(|field| field.kind == Kind::String) {
                    field.utf8 = utf8;
                }
            }
        }
    }
}

/// lowerCamelCase, as protoc makes it.
fn json_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        if c == '_' {
            upper = true;
            continue;
        }
        out.push(if upper { c.to_ascii_uppercase() } else { c });
        upper = false;
    }
    out
}
