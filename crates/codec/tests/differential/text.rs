//! Messages as text: what is printed reads back as the same, and what was read prints and encodes.

use crate::read;
use crate::tree::{Tree, Value};
use codec::decode::{Decoder, Limits};
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::object::{Dynamic, DynamicMut};
use codec::schema::Types;
use codec::text::{PrintError, TextError, format, json};

/// A format in which messages are printed and read.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    Json,
    Text,
}

impl Format {
    /// Both.
    #[allow(dead_code, reason = "fuzz targets take one")]
    pub const ALL: [Format; 2] = [Format::Json, Format::Text];

    /// The text of a message.
    pub fn print(self, message: Dynamic, one_line: bool) -> Result<String, PrintError> {
        match self {
            Format::Json => {
                json::print(message, &json::PrintOptions { one_line, ..json::PrintOptions::default() })
            }
            Format::Text => {
                format::print(message, &format::PrintOptions { one_line, ..format::PrintOptions::default() })
            }
        }
    }

    fn parse<'a>(
        self,
        types: &'a Types,
        class: u32,
        text: &str,
        arena: &'a Arena,
        limits: Limits,
    ) -> Result<DynamicMut<'a, 'a>, TextError> {
        match self {
            Format::Json => {
                let options = json::ParseOptions { ignore_unknown: false, limits };
                json::parse(types, class, text, arena, &options)
            }
            Format::Text => format::parse(types, class, text, arena, &limits),
        }
    }
}

/// A message reads back from its text as the same, but for fields that the schema does not know.
pub fn round_trip(format: Format, message: Dynamic) -> Result<(), String> {
    let roomy = Limits { slack_bytes: 1 << 30, ..Limits::default() };
    for one_line in [false, true] {
        let text = match format.print(message, one_line) {
            Ok(text) => text,
            // proto2's strings may be anything; JSON's may not.
            Err(error) if error.what.contains("UTF-8") => return Ok(()),
            Err(error) => return Err(format!("{format:?} is not printed: {error}")),
        };
        let arena = Arena::default();
        let back = format.parse(message.types(), message.class(), &text, &arena, roomy);
        let back = back.map_err(|error| format!("we refuse what we printed: {error}: {text}"))?.freeze();
        let (was, is) = (plain(read::tree(message)), plain(read::tree(back)));
        if was != is {
            return Err(format!("{was:?}\nreads back as {is:?}\nfrom {text}"));
        }
        let again = format.print(back, one_line).map_err(|error| format!("{error}: {text}"))?;
        if again != text {
            return Err(format!("{text}\nprints again as {again}"));
        }
    }
    Ok(())
}

/// Arbitrary text is refused with a place in it, or is a message within the limits that encodes, decodes and prints.
pub fn check(format: Format, types: &Types, class: u32, text: &str) -> Result<(), String> {
    let (arena, limits) = (Arena::default(), Limits::default());
    let parsed = format.parse(types, class, text, &arena, limits);
    if arena.held_bytes() > limits.memory_for(text.len()) {
        return Err(format!("{} bytes of text took {} of memory", text.len(), arena.held_bytes()));
    }
    let message = match parsed {
        Ok(message) => message.freeze(),
        Err(error) => {
            let lines = text.split('\n').count();
            let right = (1..=lines).contains(&error.line) && error.column >= 1 && !error.what.is_empty();
            return if right { Ok(()) } else { Err(format!("an error without a place: {error:?}")) };
        }
    };
    let mut encoder = Encoder::default();
    let bytes = message.encode(&mut encoder).map_err(|error| format!("read, but not written: {error}"))?;
    let (copies, roomy) = (Arena::default(), Limits { slack_bytes: 1 << 30, ..limits });
    let decoded = Dynamic::decode_owned(types, class, &mut Decoder::new(roomy), bytes, &copies)
        .map_err(|error| format!("read, but what was written is refused: {error}"))?;
    let (was, is) = (plain(read::tree(message)), plain(read::tree(decoded)));
    if was != is {
        return Err(format!("{was:?}\ndecodes as {is:?}"));
    }
    round_trip(format, message)
}

/// Without unknown fields, and with one NaN for all.
fn plain(tree: Tree) -> Tree {
    let fields = tree.fields.into_iter().map(|(number, value)| (number, plain_value(value))).collect();
    Tree { fields, unknown: Vec::new() }
}

fn plain_value(value: Value) -> Value {
    match value {
        Value::Float(bits) if f32::from_bits(bits).is_nan() => Value::Float(f32::NAN.to_bits()),
        Value::Double(bits) if f64::from_bits(bits).is_nan() => Value::Double(f64::NAN.to_bits()),
        Value::Message(tree) => Value::Message(plain(tree)),
        Value::List(list) => Value::List(list.into_iter().map(plain_value).collect()),
        Value::Map(map) => {
            Value::Map(map.into_iter().map(|(key, value)| (key, plain_value(value))).collect())
        }
        other => other,
    }
}
