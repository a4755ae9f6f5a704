//! Text format to messages.
//!
//! Invariants: as of the parser of JSON.

use super::read::{Reader, Token};
use crate::decode::Limits;
use crate::encode::Encoder;
use crate::memory::Arena;
use crate::object::dynamic::{DynamicMut, SetError, Value};
use crate::schema::{Field, Label, Types};
use crate::table::Kind;
use crate::text::error::{Bad, Path, Step};
use crate::text::extras::{self, Extras, set_error};
use crate::text::known::{Known, class_of_url, enum_of, enum_value, range};
use crate::text::names::{Names, Which};
use crate::text::seen::Seen;
use crate::text::{Depth, TextError, number};

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
    limits: &Limits,
) -> Result<DynamicMut<'a, 'a>, TextError> {
    let allowed = limits.memory_for(text.len());
    let before = arena.limit_to(arena.held_bytes().saturating_add(allowed));
    let mut path = Path::default();
    let parsed = match Reader::new(text) {
        _ if text.len() > limits.input_bytes => {
            Err(Bad::new(0, format!("the text is longer than {} bytes", limits.input_bytes)))
        }
        Err(bad) => Err(bad),
        Ok(reader) => {
            let mut parser = Parser {
                types,
                arena,
                reader,
                path,
                names: Names::new(types, Which::Text),
                depth: Depth(limits.depth),
                encoder: Encoder::new(limits.depth),
            };
            let root = parser.root(class);
            path = parser.path;
            root
        }
    };
    arena.limit_to(before);
    parsed.map_err(|bad| TextError::of(text, &path, bad))
}

struct Parser<'a, 'i> {
    types: &'a Types,
    arena: &'a Arena,
    reader: Reader<'i>,
    path: Path<'a>,
    names: Names<'a>,
    depth: Depth,
    encoder: Encoder,
}

/// What of a message was there: its fields, and its extensions.
struct There<'a> {
    seen: Seen,
    extras: Extras<'a>,
    extras_seen: Seen,
}

/// A value that is no message.
enum Scalar {
    Plain(Value<'static>),
    Bytes(Vec<u8>),
}

impl Scalar {
    fn value(&self, field: &Field) -> Value<'_> {
        match self {
            Scalar::Plain(value) => *value,
            Scalar::Bytes(bytes) if field.kind == Kind::String => {
                std::str::from_utf8(bytes).map_or(Value::Bytes(bytes), Value::Str)
            }
            Scalar::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// The parts of a map's entry, which come in any order.
#[derive(Default)]
struct Parts<'i> {
    key: Option<Scalar>,
    value: Option<Scalar>,
    /// Where a value begins that is a message: it is read when the key is known, into its place.
    message: Option<Reader<'i>>,
}

impl<'a, 'i> Parser<'a, 'i> {
    fn root(&mut self, class: u32) -> Result<DynamicMut<'a, 'a>, Bad> {
        let mut root = self.new_message(class)?;
        self.fields(&mut root, class, None)?;
        Ok(root)
    }

    fn new_message(&self, class: u32) -> Result<DynamicMut<'a, 'a>, Bad> {
        DynamicMut::new(self.types, class, self.arena)
            .map_err(|error| set_error(self.reader.at, SetError::from(error)))
    }

    /// The fields of a message up to the mark that closes it, or to the end of the text.
    fn fields(&mut self, m: &mut DynamicMut<'_, '_>, class: u32, close: Option<u8>) -> Result<(), Bad> {
        self.depth.enter(self.reader.at)?;
        let mut there = There { seen: Seen::default(), extras: Extras::none(), extras_seen: Seen::default() };
        loop {
            match (self.reader.peek(), close) {
                (Token::End, None) => break,
                (Token::End, Some(mark)) => {
                    return self.reader.bad(format!("expected {:?}, but the text ends", char::from(mark)));
                }
                (Token::Mark(mark), Some(close)) if *mark == close => break,
                _ => {}
            }
            self.named_field(m, class, &mut there)?;
            if !self.reader.takes(b',')? {
                self.reader.takes(b';')?;
            }
        }
        let at = self.reader.at;
        there.extras.put(m, &mut self.encoder, at)?;
        if let Some(name) = extras::missing(m.as_dynamic()) {
            return Err(Bad::new(at, format!("the required field {name:?} is not there")));
        }
        self.depth.leave();
        Ok(())
    }

    fn named_field(
        &mut self,
        m: &mut DynamicMut<'_, '_>,
        class: u32,
        there: &mut There<'a>,
    ) -> Result<(), Bad> {
        let at = self.reader.at;
        let message = &self.types.schema().messages()[class as usize];
        match *self.reader.peek() {
            Token::Word(name) => {
                let found = self.names.field(class, name);
                if found.is_none() && message.reserved.iter().any(|reserved| reserved == name) {
                    self.reader.take()?;
                    return self.skip_field();
                }
                let what = || Bad::new(at, format!("{} has no field {name:?}", message.name));
                let (index, field) = found.ok_or_else(what)?;
                self.reader.take()?;
                self.path.push(Step::Field(&field.name));
                once(&mut there.seen, index, field, at)?;
                self.field(m, field)?;
            }
            Token::Mark(b'[') => {
                let name = self.reader.bracketed()?;
                if name.contains('/') && Known::of(message) == Known::Any {
                    return self.any(m, &name, at);
                }
                let found = self.names.extension(class, &name);
                let what = || Bad::new(at, format!("{} has no extension {name:?}", message.name));
                let (class, index, field) = found.ok_or_else(what)?;
                self.path.push(Step::Field(&field.json_name));
                once(&mut there.extras_seen, index, field, at)?;
                let extras = there.extras.message(self.types, class, self.arena, at)?;
                self.field(extras, field)?;
            }
            Token::Number(_) => return self.reader.bad("fields are named, not numbered"),
            _ => return self.reader.bad("expected the name of a field"),
        }
        self.path.pop();
        Ok(())
    }

    /// The value of a field, or the values.
    fn field(&mut self, m: &mut DynamicMut<'_, '_>, field: &'a Field) -> Result<(), Bad> {
        let colon = self.reader.takes(b':')?;
        if !colon && field.message.is_none() {
            return self.reader.bad("expected ':' and a value");
        }
        if field.is_repeated() && *self.reader.peek() == Token::Mark(b'[') {
            self.reader.take()?;
            let mut first = true;
            while !self.reader.takes(b']')? {
                if !std::mem::replace(&mut first, false) {
                    self.reader.expect(b',')?;
                }
                self.value(m, field)?;
            }
            return Ok(());
        }
        self.value(m, field)
    }

    /// One value of a field.
    fn value(&mut self, m: &mut DynamicMut<'_, '_>, field: &'a Field) -> Result<(), Bad> {
        let at = self.reader.at;
        let here = |error| set_error(at, error);
        match (field.label, field.message) {
            (Label::Map, Some(class)) => self.entry(m, field, class),
            (Label::Repeated, Some(class)) => {
                let mut inner = m.push_message(field).map_err(here)?;
                self.braces(&mut inner, class)
            }
            (_, Some(class)) => {
                let mut inner = m.message_mut(field).map_err(here)?;
                self.braces(&mut inner, class)
            }
            (label, None) => {
                let scalar = self.scalar(field)?;
                let value = scalar.value(field);
                let set = if label == Label::Repeated { m.push(field, value) } else { m.set(field, value) };
                set.map_err(here)
            }
        }
    }

    /// An entry of a map; of one key the last counts.
    fn entry(&mut self, m: &mut DynamicMut<'_, '_>, field: &Field, class: u32) -> Result<(), Bad> {
        let at = self.reader.at;
        let here = |error| set_error(at, error);
        let Parts { key, value, message } = self.parts(class)?;
        let types = self.types;
        let [key_field, value_field] = &types.schema().messages()[class as usize].fields[..] else {
            unreachable!("the entry of a map has a key and a value");
        };
        let empty = self.new_message(class)?.freeze();
        let default = |number: u32| empty.get_or_default(number).ok_or(SetError::Kind).map_err(here);
        let key = match &key {
            Some(key) => key.value(key_field),
            None => default(1)?,
        };
        let mut map = m.map_mut(field).map_err(here)?;
        let Some(class) = value_field.message else {
            let value = match &value {
                Some(value) => value.value(value_field),
                None => default(2)?,
            };
            return map.insert(key, value).map_err(here);
        };
        map.remove(key).map_err(here)?;
        let mut inner = map.message_mut(key).map_err(here)?;
        if let Some(reader) = message {
            let behind = std::mem::replace(&mut self.reader, reader);
            self.depth.enter(at)?;
            self.reader.takes(b':')?;
            self.braces(&mut inner, class)?;
            self.depth.leave();
            self.reader = behind;
        }
        Ok(())
    }

    fn parts(&mut self, class: u32) -> Result<Parts<'i>, Bad> {
        let types = self.types;
        let entry = &types.schema().messages()[class as usize];
        let mut parts = Parts::default();
        self.depth.enter(self.reader.at)?;
        let close = self.opening()?;
        while !self.reader.takes(close)? {
            let at = self.reader.at;
            let (part, field) = match self.reader.take()? {
                Token::Word("key") => (&mut parts.key, &entry.fields[0]),
                Token::Word("value") => (&mut parts.value, &entry.fields[1]),
                _ => return Err(Bad::new(at, "the entry of a map has a key and a value")),
            };
            if part.is_some() || field.message.is_some() && parts.message.is_some() {
                return Err(Bad::new(at, "the field is there twice"));
            }
            if field.message.is_some() {
                parts.message = Some(self.reader.clone());
                self.skip_field()?;
            } else {
                self.reader.expect(b':')?;
                *part = Some(self.scalar(field)?);
            }
            if !self.reader.takes(b',')? {
                self.reader.takes(b';')?;
            }
        }
        self.depth.leave();
        Ok(parts)
    }

    /// Takes the mark that opens a message; the one that closes it.
    fn opening(&mut self) -> Result<u8, Bad> {
        if self.reader.takes(b'{')? {
            Ok(b'}')
        } else if self.reader.takes(b'<')? {
            Ok(b'>')
        } else {
            self.reader.bad("expected a message in braces")
        }
    }

    /// A message in braces, or in angle brackets.
    fn braces(&mut self, m: &mut DynamicMut<'_, '_>, class: u32) -> Result<(), Bad> {
        let close = self.opening()?;
        self.fields(m, class, Some(close))?;
        self.reader.expect(close)
    }

    /// What an Any holds, by its type's URL.
    fn any(&mut self, m: &mut DynamicMut<'_, '_>, url: &str, at: usize) -> Result<(), Bad> {
        if m.as_dynamic().has(1) || m.as_dynamic().has(2) {
            return Err(Bad::new(at, "the Any holds something already"));
        }
        let class = class_of_url(self.types.schema(), url, at)?;
        self.reader.takes(b':')?;
        let mut held = self.new_message(class)?;
        self.braces(&mut held, class)?;
        let bytes =
            held.freeze().encode(&mut self.encoder).map_err(|error| Bad::new(at, error.to_string()))?;
        let set = m.set(1, Value::Str(url)).and_then(|()| m.set(2, Value::Bytes(bytes)));
        set.map_err(|error| set_error(at, error))
    }

    /// Takes the value of a field that there was once.
    fn skip_field(&mut self) -> Result<(), Bad> {
        let colon = self.reader.takes(b':')?;
        match self.reader.peek() {
            Token::Mark(b'{' | b'<') => self.skip_message(),
            _ if !colon => self.reader.bad("expected ':' and a value"),
            Token::Mark(b'[') => {
                self.reader.take()?;
                let mut first = true;
                while !self.reader.takes(b']')? {
                    if !std::mem::replace(&mut first, false) {
                        self.reader.expect(b',')?;
                    }
                    match self.reader.peek() {
                        Token::Mark(b'{' | b'<') => self.skip_message()?,
                        _ => self.skip_scalar()?,
                    }
                }
                Ok(())
            }
            _ => self.skip_scalar(),
        }
    }

    fn skip_scalar(&mut self) -> Result<(), Bad> {
        let at = self.reader.at;
        let negative = self.reader.takes(b'-')?;
        match self.reader.take()? {
            Token::Text(_) if !negative => Ok(()),
            Token::Word(_) | Token::Number(_) => Ok(()),
            _ => Err(Bad::new(at, "expected a value")),
        }
    }

    fn skip_message(&mut self) -> Result<(), Bad> {
        self.depth.enter(self.reader.at)?;
        let close = self.opening()?;
        while !self.reader.takes(close)? {
            match self.reader.peek() {
                Token::Word(_) => drop(self.reader.take()?),
                Token::Mark(b'[') => drop(self.reader.bracketed()?),
                _ => {
                    return self
                        .reader
                        .bad(format!("expected the name of a field, or {:?}", char::from(close)));
                }
            }
            self.skip_field()?;
            if !self.reader.takes(b',')? {
                self.reader.takes(b';')?;
            }
        }
        self.depth.leave();
        Ok(())
    }

    fn scalar(&mut self, field: &Field) -> Result<Scalar, Bad> {
        let at = self.reader.at;
        if matches!(field.kind, Kind::String | Kind::Bytes) {
            return match self.reader.take()? {
                Token::Text(bytes) => Ok(Scalar::Bytes(bytes)),
                _ => Err(Bad::new(at, "expected a string in quotes")),
            };
        }
        let negative = self.reader.takes(b'-')?;
        let token = self.reader.take()?;
        let value = match (field.kind, &token) {
            (Kind::Bool, Token::Word("true" | "True" | "t")) if !negative => Ok(Value::Bool(true)),
            (Kind::Bool, Token::Word("false" | "False" | "f")) if !negative => Ok(Value::Bool(false)),
            (Kind::Bool, Token::Number(text)) if !negative => match integer(text, false) {
                Some(value @ 0..=1) => Ok(Value::Bool(value == 1)),
                _ => Err("expected true or false".to_owned()),
            },
            (Kind::Bool, _) => Err("expected true or false".to_owned()),
            (Kind::Enum, Token::Word(name)) if !negative => enum_value(self.types, field, name)
                .map(Value::Enum)
                .ok_or_else(|| format!("{} has no value {name:?}", enum_of(self.types, field))),
            (Kind::Float | Kind::Double, token) => float(field.kind, token, negative)
                .ok_or_else(|| "expected a decimal number, inf or nan".to_owned()),
            (kind, Token::Number(text)) => in_range(kind, text, negative),
            (kind, _) => Err(in_range(kind, "", negative).expect_err("nothing is no number")),
        };
        value.map(Scalar::Plain).map_err(|what| Bad::new(at, what))
    }
}

/// Refuses a singular field that is there, and a second member of a oneof.
fn once(seen: &mut Seen, index: usize, field: &Field, at: usize) -> Result<(), Bad> {
    if !field.is_repeated() && seen.field(index) {
        return Err(Bad::new(at, "the field is there twice"));
    }
    match field.oneof {
        Some(oneof) if seen.oneof(oneof) => Err(Bad::new(at, "another member of its oneof is there, too")),
        _ => Ok(()),
    }
}

/// A decimal, octal or hexadecimal integer.
fn integer(text: &str, negative: bool) -> Option<i128> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = match hex {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    let plain = digits.bytes().all(|digit| digit.is_ascii_alphanumeric());
    let value = i128::from_str_radix(digits, radix).ok().filter(|_| plain)?;
    Some(if negative { -value } else { value })
}

fn in_range(kind: Kind, text: &str, negative: bool) -> Result<Value<'static>, String> {
    let (low, high) = range(kind).expect("a number's kind");
    let value = integer(text, negative).filter(|value| (low..=high).contains(value));
    value
        .map(|value| number::integer_value(value, kind))
        .ok_or_else(|| format!("expected an integer from {low} to {high}"))
}

/// A decimal number, with or without an `f` behind it, or one of the words; what is too large is infinite.
fn float(kind: Kind, token: &Token<'_>, negative: bool) -> Option<Value<'static>> {
    let text = match *token {
        Token::Word(word) if word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("infinity") => {
            "inf"
        }
        Token::Word(word) if word.eq_ignore_ascii_case("nan") => "nan",
        Token::Number(text) => {
            let text = text.strip_suffix(['f', 'F']).unwrap_or(text);
            let octal =
                text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
            let decimal = text.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
            if octal || !decimal {
                return None;
            }
            text
        }
        _ => return None,
    };
    let sign = if negative { -1.0 } else { 1.0 };
    Some(match kind {
        Kind::Float => Value::F32(text.parse::<f32>().ok()? * sign as f32),
        _ => Value::F64(text.parse::<f64>().ok()? * sign),
    })
}
