//! Well-known types that JSON writes in a way of their own. Their fields are set by number, as their .proto files have them; a
//! schema that has others of these names gets an error.

use super::parse::{Parser, Scalar};
use super::time;
use crate::object::dynamic::{DynamicMut, SetError, Value};
use crate::table::Kind;
use crate::text::error::{Bad, Step};
use crate::text::extras::{missing, set_error};
use crate::text::known::{Known, class_of_url};
use std::borrow::Cow;

/// Of `google.protobuf.Value`, the numbers of its fields.
const NULL: u32 = 1;
const NUMBER: u32 = 2;
const STRING: u32 = 3;
const BOOL: u32 = 4;
const STRUCT: u32 = 5;
const LIST: u32 = 6;

impl<'i> Parser<'_, 'i> {
    fn string(&mut self, what: &str) -> Result<(Cow<'i, str>, usize), Bad> {
        if self.reader.peek() != Some(b'"') {
            return self.reader.bad(format!("expected {what} in a string"));
        }
        let at = self.reader.at;
        Ok((self.reader.string()?, at))
    }

    pub(super) fn timestamp(&mut self, m: &mut DynamicMut<'_, '_>) -> Result<(), Bad> {
        let (text, at) = self.string("a time such as \"2026-11-26T15:00:00.5Z\"")?;
        let what = "no time from year 1 to 9999 as 2026-11-26T15:00:00.5Z or with +01:00";
        let (seconds, nanos) = time::parse_timestamp(&text).ok_or_else(|| Bad::new(at, what))?;
        set_all(m, at, &[(1, Value::I64(seconds)), (2, Value::I32(nanos))])
    }

    pub(super) fn duration(&mut self, m: &mut DynamicMut<'_, '_>) -> Result<(), Bad> {
        let (text, at) = self.string("a duration such as \"1.5s\"")?;
        let what = "no duration of up to 315576000000 seconds as 1.5s";
        let (seconds, nanos) = time::parse_duration(&text).ok_or_else(|| Bad::new(at, what))?;
        set_all(m, at, &[(1, Value::I64(seconds)), (2, Value::I32(nanos))])
    }

    pub(super) fn field_mask(&mut self, m: &mut DynamicMut<'_, '_>) -> Result<(), Bad> {
        let (text, at) = self.string("paths with commas between them")?;
        for path in text.split(',').filter(|_| !text.is_empty()) {
            let bad = || Bad::new(at, format!("{path:?} is no path of fields in lowerCamelCase"));
            let path = snake_case(path).ok_or_else(bad)?;
            m.push(1, Value::Str(&path)).map_err(|error| set_error(at, error))?;
        }
        Ok(())
    }

    pub(super) fn wrapper(&mut self, m: &mut DynamicMut<'_, '_>, class: u32) -> Result<(), Bad> {
        let at = self.reader.at;
        let field = self.types.schema().messages()[class as usize].field_numbered(1);
        let field = field.filter(|field| !field.is_repeated() && field.message.is_none());
        let field = field.ok_or_else(|| set_error(at, SetError::NotThere))?;
        let value = match self.scalar(field)? {
            Scalar::Plain(value) => return set_all(m, at, &[(1, value)]),
            Scalar::Text(text) => m.set(1, Value::Str(&text)),
            Scalar::Bytes(bytes) => m.set(1, Value::Bytes(&bytes)),
            Scalar::Left => Ok(()),
        };
        value.map_err(|error| set_error(at, error))
    }

    pub(super) fn structure(&mut self, m: &mut DynamicMut<'_, '_>) -> Result<(), Bad> {
        if self.reader.peek() != Some(b'{') {
            return self.reader.bad("expected an object");
        }
        self.reader.expect(b'{')?;
        let here = self.reader.at;
        let mut map = m.map_mut(1).map_err(|error| set_error(here, error))?;
        let mut first = true;
        while self.reader.goes_on(b'}', &mut first)? {
            let at = self.reader.at;
            let name = self.reader.name()?;
            self.path.push(Step::Key(name.clone().into_owned()));
            let before = map.len();
            let mut value = map.message_mut(Value::Str(&name)).map_err(|error| set_error(at, error))?;
            // The entry is a level, too.
            self.known(&mut value, |parser, value| parser.known(value, Parser::dynamic_value))?;
            if map.len() == before {
                return Err(Bad::new(at, "the member is there twice"));
            }
            self.path.pop();
        }
        Ok(())
    }

    pub(super) fn list_value(&mut self, m: &mut DynamicMut<'_, '_>) -> Result<(), Bad> {
        if self.reader.peek() != Some(b'[') {
            return self.reader.bad("expected an array");
        }
        self.reader.expect(b'[')?;
        let mut first = true;
        for index in 0.. {
            self.path.push(Step::Element(index));
            if !self.reader.goes_on(b']', &mut first)? {
                break;
            }
            let at = self.reader.at;
            let mut value = m.push_message(1).map_err(|error| set_error(at, error))?;
            self.known(&mut value, Parser::dynamic_value)?;
            self.path.pop();
        }
        self.path.pop();
        Ok(())
    }

    /// A `google.protobuf.Value`: any JSON.
    pub(super) fn dynamic_value(&mut self, m: &mut DynamicMut<'_, '_>) -> Result<(), Bad> {
        let next = self.reader.peek();
        let at = self.reader.at;
        let here = |error| set_error(at, error);
        let set = match next {
            Some(b'n') => {
                self.reader.literal("null")?;
                m.set(NULL, Value::Enum(0))
            }
            Some(b't') => {
                self.reader.literal("true")?;
                m.set(BOOL, Value::Bool(true))
            }
            Some(b'f') => {
                self.reader.literal("false")?;
                m.set(BOOL, Value::Bool(false))
            }
            Some(b'"') => m.set(STRING, Value::Str(&self.reader.string()?)),
            Some(b'{') => {
                let mut inner = m.message_mut(STRUCT).map_err(here)?;
                return self.known(&mut inner, Parser::structure);
            }
            Some(b'[') => {
                let mut inner = m.message_mut(LIST).map_err(here)?;
                return self.known(&mut inner, Parser::list_value);
            }
            Some(_) => {
                let text = self.reader.number()?;
                let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
                let value =
                    value.ok_or_else(|| Bad::new(at, format!("{text} is more than a double holds")))?;
                m.set(NUMBER, Value::F64(value))
            }
            None => return self.reader.bad("expected a value, but the text ends"),
        };
        set.map_err(here)
    }

    /// An Any: the members of the message that it holds, or its text as `value`, and its type among them.
    pub(super) fn any(&mut self, m: &mut DynamicMut<'_, '_>) -> Result<(), Bad> {
        if self.reader.peek() != Some(b'{') {
            return self.reader.bad("expected an object with \"@type\"");
        }
        let start = self.reader.at;
        let (url, at) = match self.find_type()? {
            Found::Type(url, at) => (url, at),
            Found::Empty => return Ok(()),
            Found::None => return Err(Bad::new(start, "an Any wants \"@type\": which message it holds")),
        };
        let end = self.reader.at;
        let class = class_of_url(self.types.schema(), &url, at)?;
        let mut held = self.new_message(class)?;
        self.reader.at = start;
        if Known::of(&self.types.schema().messages()[class as usize]) == Known::Plain {
            self.object(&mut held, class, true)?;
        } else {
            self.held_value(&mut held, class)?;
        }
        debug_assert_eq!(self.reader.at, end, "an object ends in one place");
        if let Some(name) = missing(held.as_dynamic()) {
            return Err(Bad::new(at, format!("the required field {name:?} is not there")));
        }
        let bytes = held.freeze().encode(&mut self.encoder);
        let bytes = bytes.map_err(|error| Bad::new(at, error.to_string()))?;
        set_all(m, at, &[(1, Value::Str(&url)), (2, Value::Bytes(bytes))])
    }

    /// The type in the object that comes next, which is skipped. Each level of Anys in Anys looks through all that it holds once
    /// more: that is at most as often as messages may nest.
    fn find_type(&mut self) -> Result<Found<'i>, Bad> {
        self.reader.expect(b'{')?;
        let mut found = Found::Empty;
        let mut first = true;
        while self.reader.goes_on(b'}', &mut first)? {
            let member = self.reader.at;
            let name = self.reader.name()?;
            if name != "@type" {
                self.skip()?;
                if matches!(found, Found::Empty) {
                    found = Found::None;
                }
                continue;
            }
            if matches!(found, Found::Type(..)) {
                return Err(Bad::new(member, "\"@type\" is there twice"));
            }
            let (url, at) = self.string("a type URL")?;
            found = Found::Type(url, at);
        }
        Ok(found)
    }

    fn held_value(&mut self, held: &mut DynamicMut<'_, '_>, class: u32) -> Result<(), Bad> {
        self.reader.expect(b'{')?;
        let (mut first, mut there) = (true, false);
        while self.reader.goes_on(b'}', &mut first)? {
            let at = self.reader.at;
            let name = self.reader.name()?;
            match &*name {
                "@type" => self.skip()?,
                "value" if there => return Err(Bad::new(at, "\"value\" is there twice")),
                "value" => {
                    there = true;
                    self.path.push(Step::Field("value"));
                    self.message(held, class)?;
                    self.path.pop();
                }
                _ if self.ignore_unknown => self.skip()?,
                _ => {
                    let what = format!("{name:?} beside \"@type\": this type's text is the member \"value\"");
                    return Err(Bad::new(at, what));
                }
            }
        }
        if there {
            Ok(())
        } else {
            self.reader.bad("this type's text is the member \"value\", which is not there")
        }
    }
}

/// What an object says of its type.
enum Found<'i> {
    Type(Cow<'i, str>, usize),
    /// There is nothing in it.
    Empty,
    None,
}

fn set_all(m: &mut DynamicMut<'_, '_>, at: usize, values: &[(u32, Value<'_>)]) -> Result<(), Bad> {
    values.iter().try_for_each(|(number, value)| {
        // Zero is not there, as in every message without presence.
        if value.as_i128() == Some(0)
            && m.message().field_numbered(*number).is_some_and(|f| f.kind != Kind::Bool && is_implicit(f))
        {
            return Ok(());
        }
        m.set(*number, *value).map_err(|error| set_error(at, error))
    })
}

fn is_implicit(field: &crate::schema::Field) -> bool {
    field.label == crate::schema::Label::Implicit
}

/// A path of names in lowerCamelCase as the .proto file has them.
fn snake_case(path: &str) -> Option<String> {
    let mut out = String::with_capacity(path.len() + 4);
    for c in path.chars() {
        match c {
            'A'..='Z' => out.extend(['_', c.to_ascii_lowercase()]),
            'a'..='z' | '0'..='9' | '.' => out.push(c),
            _ => return None,
        }
    }
    (!path.is_empty()).then_some(out)
}

/// The way back; nothing if it would not be that.
pub(super) fn camel_case(path: &str) -> Option<String> {
    let mut out = String::with_capacity(path.len());
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        match c {
            '_' => out.push(chars.next().filter(char::is_ascii_lowercase)?.to_ascii_uppercase()),
            'A'..='Z' => return None,
            _ => out.push(c),
        }
    }
    Some(out)
}
