//! JSON to messages: what each field takes.
//!
//! Invariants
//! 1. Each level of messages, entries of maps and well-known types takes one of [`Depth`] before it goes down.
//! 2. What fails leaves the path where it was: steps are taken back only after success.

use super::read::{Reader, is_number};
use crate::decode::Limits;
use crate::encode::Encoder;
use crate::memory::Arena;
use crate::object::dynamic::{DynamicMut, SetError, Value};
use crate::schema::{Field, Label, Types};
use crate::table::Kind;
use crate::text::error::{Bad, Path, Step};
use crate::text::extras::{self, Extras, set_error};
use crate::text::known::{Known, enum_of, enum_value, is_null_value, range};
use crate::text::names::{Names, Which};
use crate::text::seen::Seen;
use crate::text::{Depth, TextError, base64, number};
use std::borrow::Cow;

/// How JSON is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseOptions {
    /// Members and names of enum values that the schema does not know are left out, instead of refused.
    pub ignore_unknown: bool,
    /// As those of a decoder.
    pub limits: Limits,
}

/// The message of `class` that a text stands for, in `arena`.
///
/// # Errors
/// The text is no such message, or a limit was met.
///
/// # Panics
/// If there is no such class.
pub fn parse<'a>(
    types: &'a Types,
    class: u32,
    text: &str,
    arena: &'a Arena,
    options: &ParseOptions,
) -> Result<DynamicMut<'a, 'a>, TextError> {
    let ParseOptions { limits, ignore_unknown } = *options;
    let allowed = limits.memory_for(text.len());
    let before = arena.limit_to(arena.held_bytes().saturating_add(allowed));
    let mut parser = Parser {
        types,
        arena,
        reader: Reader::new(text),
        path: Path::default(),
        names: Names::new(types, Which::Json),
        depth: Depth(limits.depth),
        encoder: Encoder::new(limits.depth),
        ignore_unknown,
    };
    let parsed = if text.len() > limits.input_bytes {
        Err(Bad::new(0, format!("the text is longer than {} bytes", limits.input_bytes)))
    } else {
        parser.root(class)
    };
    arena.limit_to(before);
    parsed.map_err(|bad| TextError::of(text, &parser.path, bad))
}

pub(super) struct Parser<'a, 'i> {
    pub types: &'a Types,
    pub arena: &'a Arena,
    pub reader: Reader<'i>,
    pub path: Path<'a>,
    names: Names<'a>,
    depth: Depth,
    pub encoder: Encoder,
    pub ignore_unknown: bool,
}

/// A value that is no message.
pub(super) enum Scalar<'i> {
    Plain(Value<'static>),
    Text(Cow<'i, str>),
    Bytes(Vec<u8>),
    /// The name of an enum value that is not known, and may be.
    Left,
}

impl Scalar<'_> {
    fn value(&self) -> Option<Value<'_>> {
        Some(match self {
            Scalar::Plain(value) => *value,
            Scalar::Text(text) => Value::Str(text),
            Scalar::Bytes(bytes) => Value::Bytes(bytes),
            Scalar::Left => return None,
        })
    }
}

impl<'a, 'i> Parser<'a, 'i> {
    fn root(&mut self, class: u32) -> Result<DynamicMut<'a, 'a>, Bad> {
        let mut root = self.new_message(class)?;
        self.message(&mut root, class)?;
        if self.reader.peek().is_some() {
            return self.reader.bad("something behind the message");
        }
        Ok(root)
    }

    pub fn new_message(&self, class: u32) -> Result<DynamicMut<'a, 'a>, Bad> {
        DynamicMut::new(self.types, class, self.arena)
            .map_err(|error| set_error(self.reader.at, SetError::from(error)))
    }

    /// A message of any kind into `m`.
    pub fn message(&mut self, m: &mut DynamicMut<'_, '_>, class: u32) -> Result<(), Bad> {
        self.reader.peek();
        self.depth.enter(self.reader.at)?;
        let types = self.types;
        match Known::of(&types.schema().messages()[class as usize]) {
            Known::Plain => self.object(m, class, false)?,
            Known::Any => self.any(m)?,
            Known::Timestamp => self.timestamp(m)?,
            Known::Duration => self.duration(m)?,
            Known::FieldMask => self.field_mask(m)?,
            Known::Struct => self.structure(m)?,
            Known::Value => self.dynamic_value(m)?,
            Known::List => self.list_value(m)?,
            Known::Wrapper => self.wrapper(m, class)?,
        }
        self.depth.leave();
        Ok(())
    }

    /// A well-known type as the value of another.
    pub fn known(
        &mut self,
        m: &mut DynamicMut<'_, '_>,
        parse: impl FnOnce(&mut Self, &mut DynamicMut<'_, '_>) -> Result<(), Bad>,
    ) -> Result<(), Bad> {
        self.depth.enter(self.reader.at)?;
        parse(self, m)?;
        self.depth.leave();
        Ok(())
    }

    /// An object whose members are the message's fields; in an Any also its type.
    pub fn object(&mut self, m: &mut DynamicMut<'_, '_>, class: u32, in_any: bool) -> Result<(), Bad> {
        let (mut seen, mut extras, mut extras_seen) = (Seen::default(), Extras::none(), Seen::default());
        if self.reader.peek() != Some(b'{') {
            let name = &self.types.schema().messages()[class as usize].name;
            return self.reader.bad(format!("expected an object, a {name}"));
        }
        self.reader.expect(b'{')?;
        let mut first = true;
        while self.reader.goes_on(b'}', &mut first)? {
            let at = self.reader.at;
            let name = self.reader.name()?;
            if in_any && name == "@type" {
                self.skip()?;
            } else if let Some((index, field)) = self.names.field(class, &name) {
                self.path.push(Step::Field(&field.json_name));
                self.once(&mut seen, index, field, at)?;
                self.field(m, field)?;
                self.path.pop();
            } else if let Some((class, index, field)) = self.extension(class, &name) {
                self.path.push(Step::Field(&field.json_name));
                self.once(&mut extras_seen, index, field, at)?;
                let extras = extras.message(self.types, class, self.arena, at)?;
                self.field(extras, field)?;
                self.path.pop();
            } else if self.ignore_unknown {
                self.skip()?;
            } else {
                let message = &self.types.schema().messages()[class as usize].name;
                return Err(Bad::new(at, format!("{message} has no field {name:?}")));
            }
        }
        let at = self.reader.at;
        extras.put(m, &mut self.encoder, at)?;
        match extras::missing(m.as_dynamic()) {
            Some(name) => Err(Bad::new(at, format!("the required field {name:?} is not there"))),
            None => Ok(()),
        }
    }

    /// Refuses a field that was there, and a second member of a oneof; one that is null leaves its oneof alone.
    fn once(&mut self, seen: &mut Seen, index: usize, field: &Field, at: usize) -> Result<(), Bad> {
        if seen.field(index) {
            return Err(Bad::new(at, "the field is there twice"));
        }
        if let Some(oneof) = field.oneof
            && (self.reader.peek() != Some(b'n') || self.takes_null(field))
            && seen.oneof(oneof)
        {
            return Err(Bad::new(at, "another member of its oneof is there, too"));
        }
        Ok(())
    }

    fn extension(&mut self, class: u32, name: &str) -> Option<(u32, usize, &'a Field)> {
        let name = name.strip_prefix('[')?.strip_suffix(']')?;
        self.names.extension(class, name)
    }

    pub fn skip(&mut self) -> Result<(), Bad> {
        self.reader.skip(self.depth.0)
    }

    /// Whether `null` is a value of this field, and not its absence.
    fn takes_null(&self, field: &Field) -> bool {
        Known::of_field(self.types, field) == Known::Value || is_null_value(self.types, field)
    }

    /// The value of a member that is a field of `m`.
    fn field(&mut self, m: &mut DynamicMut<'_, '_>, field: &'a Field) -> Result<(), Bad> {
        let next = self.reader.peek();
        if next == Some(b'n') && (field.is_repeated() || !self.takes_null(field)) {
            return self.reader.literal("null");
        }
        match (field.label, field.message) {
            (Label::Map, Some(entry)) => self.map(m, field, entry),
            (Label::Repeated, _) => self.list(m, field),
            (_, Some(class)) => {
                let at = self.reader.at;
                let mut inner = m.message_mut(field).map_err(|error| set_error(at, error))?;
                self.message(&mut inner, class)
            }
            _ => {
                let at = self.reader.at;
                let scalar = self.scalar(field)?;
                let Some(value) = scalar.value() else { return Ok(()) };
                m.set(field, value).map_err(|error| set_error(at, error))
            }
        }
    }

    fn list(&mut self, m: &mut DynamicMut<'_, '_>, field: &'a Field) -> Result<(), Bad> {
        if self.reader.peek() != Some(b'[') {
            return self.reader.bad("expected an array: the field is repeated");
        }
        self.reader.expect(b'[')?;
        let mut first = true;
        for index in 0.. {
            self.path.push(Step::Element(index));
            if !self.reader.goes_on(b']', &mut first)? {
                break;
            }
            self.reader.peek();
            let at = self.reader.at;
            self.refuse_null(field)?;
            if let Some(class) = field.message {
                let mut inner = m.push_message(field).map_err(|error| set_error(at, error))?;
                self.message(&mut inner, class)?;
            } else {
                let scalar = self.scalar(field)?;
                if let Some(value) = scalar.value() {
                    m.push(field, value).map_err(|error| set_error(at, error))?;
                }
            }
            self.path.pop();
        }
        self.path.pop();
        Ok(())
    }

    fn refuse_null(&mut self, field: &Field) -> Result<(), Bad> {
        if self.reader.peek() == Some(b'n') && !self.takes_null(field) {
            return self.reader.bad("null is no element of an array, and no value of a map");
        }
        Ok(())
    }

    fn map(&mut self, m: &mut DynamicMut<'_, '_>, field: &'a Field, entry: u32) -> Result<(), Bad> {
        let types = self.types;
        let [key_field, value_field] = &types.schema().messages()[entry as usize].fields[..] else {
            unreachable!("the entry of a map has a key and a value");
        };
        if self.reader.peek() != Some(b'{') {
            return self.reader.bad("expected an object: the field is a map");
        }
        self.depth.enter(self.reader.at)?;
        self.reader.expect(b'{')?;
        let mut map = m.map_mut(field).map_err(|error| set_error(self.reader.at, error))?;
        let mut first = true;
        while self.reader.goes_on(b'}', &mut first)? {
            let at = self.reader.at;
            let name = self.reader.name()?;
            self.path.push(Step::Key(name.clone().into_owned()));
            let key = key_of(&name, key_field).map_err(|what| Bad::new(at, what))?;
            self.refuse_null(value_field)?;
            let before = map.len();
            let here = |error| set_error(at, error);
            if let Some(class) = value_field.message {
                let mut inner = map.message_mut(key).map_err(here)?;
                self.message(&mut inner, class)?;
            } else {
                let scalar = self.scalar(value_field)?;
                let Some(value) = scalar.value() else {
                    self.path.pop();
                    continue;
                };
                map.insert(key, value).map_err(here)?;
            }
            if map.len() == before {
                return Err(Bad::new(at, "the key is there twice"));
            }
            self.path.pop();
        }
        self.depth.leave();
        Ok(())
    }

    /// A value that is no message.
    pub fn scalar(&mut self, field: &Field) -> Result<Scalar<'i>, Bad> {
        let next = self.reader.peek();
        let at = self.reader.at;
        match field.kind {
            Kind::Bool => match next {
                Some(b't') => self.reader.literal("true").map(|()| Scalar::Plain(Value::Bool(true))),
                Some(b'f') => self.reader.literal("false").map(|()| Scalar::Plain(Value::Bool(false))),
                _ => self.reader.bad("expected true or false"),
            },
            Kind::String | Kind::Bytes if next != Some(b'"') => self.reader.bad("expected a string"),
            Kind::String => self.reader.string().map(Scalar::Text),
            Kind::Bytes => {
                let text = self.reader.string()?;
                let bytes =
                    base64::decode(&text).ok_or_else(|| Bad::new(at, "bytes are written in base64"))?;
                Ok(Scalar::Bytes(bytes))
            }
            Kind::Enum => self.enumeration(field, next),
            Kind::Float | Kind::Double => self.float(field.kind, next).map(Scalar::Plain),
            kind => self.integer(kind, next).map(Scalar::Plain),
        }
    }

    fn enumeration(&mut self, field: &Field, next: Option<u8>) -> Result<Scalar<'i>, Bad> {
        let at = self.reader.at;
        match next {
            Some(b'n') if is_null_value(self.types, field) => {
                self.reader.literal("null").map(|()| Scalar::Plain(Value::Enum(0)))
            }
            Some(b'"') => {
                let name = self.reader.string()?;
                match enum_value(self.types, field, &name) {
                    Some(number) => Ok(Scalar::Plain(Value::Enum(number))),
                    None if self.ignore_unknown => Ok(Scalar::Left),
                    None => {
                        Err(Bad::new(at, format!("{} has no value {name:?}", enum_of(self.types, field))))
                    }
                }
            }
            Some(b'-' | b'0'..=b'9') => self.integer(Kind::Enum, next).map(Scalar::Plain),
            _ => self.reader.bad(format!("expected a value of {}", enum_of(self.types, field))),
        }
    }

    /// A number's text, which may be a string.
    fn number_text(&mut self, next: Option<u8>) -> Result<Cow<'i, str>, Bad> {
        match next {
            Some(b'"') => self.reader.string(),
            Some(b'-' | b'0'..=b'9') => self.reader.number().map(Cow::Borrowed),
            _ => self.reader.bad("expected a number"),
        }
    }

    fn integer(&mut self, kind: Kind, next: Option<u8>) -> Result<Value<'static>, Bad> {
        let at = self.reader.at;
        let text = self.number_text(next)?;
        integer(&text, kind).map_err(|what| Bad::new(at, what))
    }

    fn float(&mut self, kind: Kind, next: Option<u8>) -> Result<Value<'static>, Bad> {
        let at = self.reader.at;
        let text = self.number_text(next)?;
        let special = match (&*text, next) {
            ("NaN", Some(b'"')) => Some(f64::NAN),
            ("Infinity", Some(b'"')) => Some(f64::INFINITY),
            ("-Infinity", Some(b'"')) => Some(f64::NEG_INFINITY),
            _ if is_number(&text) => None,
            _ => return Err(Bad::new(at, format!("{text:?} is no number"))),
        };
        let too_large = || Err(Bad::new(at, format!("{text} is more than the field holds")));
        if kind == Kind::Float {
            let value =
                special.map_or_else(|| text.parse::<f32>().unwrap_or(f32::INFINITY), |value| value as f32);
            return if special.is_none() && value.is_infinite() {
                too_large()
            } else {
                Ok(Value::F32(value))
            };
        }
        let value = special.unwrap_or_else(|| text.parse::<f64>().unwrap_or(f64::INFINITY));
        if special.is_none() && value.is_infinite() { too_large() } else { Ok(Value::F64(value)) }
    }
}

/// An integer of a field's kind, or what is wrong with it.
fn integer(text: &str, kind: Kind) -> Result<Value<'static>, String> {
    let value = if is_number(text) { number::integer(text) } else { None };
    let (low, high) = range(kind).expect("the kind is of integers");
    match value {
        Some(value) if (low..=high).contains(&value) => Ok(number::integer_value(value, kind)),
        Some(_) => Err(format!("{text} is not from {low} to {high}")),
        None => Err(format!("{text:?} is no integer from {low} to {high}")),
    }
}

/// A member's name as the key of a map.
fn key_of<'k>(name: &'k str, field: &Field) -> Result<Value<'k>, String> {
    match (field.kind, name) {
        (Kind::String, _) => Ok(Value::Str(name)),
        (Kind::Bool, "true") => Ok(Value::Bool(true)),
        (Kind::Bool, "false") => Ok(Value::Bool(false)),
        (Kind::Bool, _) => Err("the keys of this map are \"true\" and \"false\"".to_owned()),
        (kind, _) => integer(name, kind),
    }
}
