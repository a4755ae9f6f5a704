//! Messages to text format.

use crate::decode::Decoder;
use crate::memory::Arena;
use crate::object::dynamic::{Dynamic, Value};
use crate::schema::{Field, Types};
use crate::text::error::{Path, Step};
use crate::text::known::{Known, class_of_url, enum_name};
use crate::text::names::group_name;
use crate::text::{PrintError, extras, number};
use crate::wire;
use std::fmt::Write;

/// How text format is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// On one line.
    pub one_line: bool,
    /// With the fields that the schema does not know, by number. No parser of messages takes these.
    pub unknown: bool,
    /// Messages within messages.
    pub depth: u32,
}

impl Default for PrintOptions {
    fn default() -> PrintOptions {
        PrintOptions { one_line: false, unknown: false, depth: 100 }
    }
}

/// A message in text format.
///
/// # Errors
/// A field is in accelerator memory, or messages are nested too deeply.
pub fn print(message: Dynamic<'_>, options: &PrintOptions) -> Result<String, PrintError> {
    let mut printer = Printer {
        types: message.types(),
        out: String::new(),
        options: *options,
        path: Path::default(),
        level: 0,
        depth: options.depth,
    };
    match printer.message(message) {
        Ok(()) => Ok(printer.out),
        Err(what) => Err(PrintError { path: printer.path.to_string(), what }),
    }
}

struct Printer<'t> {
    types: &'t Types,
    out: String,
    options: PrintOptions,
    path: Path<'t>,
    level: usize,
    depth: u32,
}

/// Nothing, or what is wrong; the path is the printer's, as it is then.
type Printed = Result<(), String>;

impl<'t> Printer<'t> {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("a string takes any text");
    }

    /// Before each field.
    fn indent(&mut self) {
        if self.options.one_line {
            if !self.out.is_empty() {
                self.out.push(' ');
            }
        } else {
            let indent = 2 * self.level;
            self.put(format_args!("{:indent$}", ""));
        }
    }

    /// Behind each field.
    fn line(&mut self) {
        if !self.options.one_line {
            self.out.push('\n');
        }
    }

    fn open(&mut self) {
        self.out.push_str(" {");
        self.line();
        self.level += 1;
    }

    fn close(&mut self) {
        self.level -= 1;
        self.indent();
        self.out.push('}');
        self.line();
    }

    fn message(&mut self, message: Dynamic<'_>) -> Printed {
        self.depth = self.depth.checked_sub(1).ok_or("messages are nested too deeply")?;
        if Known::of(message.message()) == Known::Any && self.any(message)? {
            self.depth += 1;
            return Ok(());
        }
        self.fields(message)?;
        let (mut bytes, arena) = (Vec::new(), Arena::default());
        match extras::decoded(message, &mut bytes, &arena) {
            Some(extensions) => {
                self.fields(extensions)?;
                self.unknown_of(extensions)?;
            }
            None => self.unknown_of(message)?,
        }
        self.depth += 1;
        Ok(())
    }

    fn unknown_of(&mut self, message: Dynamic<'_>) -> Printed {
        if self.options.unknown {
            for run in message.unknown() {
                self.unknown(run)?;
            }
        }
        Ok(())
    }

    fn fields(&mut self, message: Dynamic<'_>) -> Printed {
        let types = self.types;
        let class = message.class();
        let of = &types.schema().messages()[class as usize];
        for field in of.fields.iter().filter(|field| message.has(*field)) {
            self.path.push(Step::Field(&field.name));
            if message.is_in_acc(field) {
                return Err("the field is in accelerator memory: move it to the CPU".to_owned());
            }
            let name = match group_name(types, class, field) {
                Some(group) => group.to_owned(),
                None => field.name.clone(),
            };
            let name = if of.extends.is_some() { format!("[{}]", field.name) } else { name };
            match message.get(field) {
                Some(Value::List(list)) => {
                    for (index, value) in list.iter().enumerate() {
                        self.path.push(Step::Element(index));
                        self.field(&name, field, value)?;
                        self.path.pop();
                    }
                }
                Some(Value::Map(map)) => {
                    let entry = &types.schema().messages()[field.message.ok_or("no entries")? as usize];
                    for (key, value) in map.iter() {
                        self.indent();
                        self.out.push_str(&name);
                        self.open();
                        self.field("key", &entry.fields[0], key)?;
                        self.field("value", &entry.fields[1], value)?;
                        self.close();
                    }
                }
                Some(value) => self.field(&name, field, value)?,
                None => {}
            }
            self.path.pop();
        }
        Ok(())
    }

    fn field(&mut self, name: &str, field: &'t Field, value: Value<'_>) -> Printed {
        self.indent();
        self.out.push_str(name);
        if let Value::Message(message) = value {
            self.open();
            self.message(message)?;
            self.close();
            return Ok(());
        }
        self.out.push_str(": ");
        match value {
            Value::Bool(value) => self.put(format_args!("{value}")),
            Value::I32(value) => self.put(format_args!("{value}")),
            Value::U32(value) => self.put(format_args!("{value}")),
            Value::I64(value) => self.put(format_args!("{value}")),
            Value::U64(value) => self.put(format_args!("{value}")),
            Value::F32(value) if value.is_finite() => number::write_f32(&mut self.out, value),
            Value::F32(value) => self.not_finite(value.into()),
            Value::F64(value) if value.is_finite() => number::write_f64(&mut self.out, value),
            Value::F64(value) => self.not_finite(value),
            Value::Enum(value) => match enum_name(self.types, field, value) {
                Some(name) => self.out.push_str(name),
                None => self.put(format_args!("{value}")),
            },
            Value::Str(text) => self.string(text.as_bytes()),
            Value::Bytes(bytes) => self.string(bytes),
            Value::Message(_) | Value::List(_) | Value::Map(_) => unreachable!("printed by the caller"),
        }
        self.line();
        Ok(())
    }

    fn not_finite(&mut self, value: f64) {
        self.out.push_str(if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        });
    }

    /// As in C: what is not printable ASCII as three octal digits.
    fn string(&mut self, bytes: &[u8]) {
        self.out.push('"');
        for &byte in bytes {
            match byte {
                b'\n' => self.out.push_str("\\n"),
                b'\r' => self.out.push_str("\\r"),
                b'\t' => self.out.push_str("\\t"),
                b'"' | b'\'' | b'\\' => self.put(format_args!("\\{}", char::from(byte))),
                0x20..0x7f => self.out.push(char::from(byte)),
                _ => self.put(format_args!("\\{byte:03o}")),
            }
        }
        self.out.push('"');
    }

    /// What an Any holds, under its type; false if that is not known, or does not decode.
    fn any(&mut self, message: Dynamic<'_>) -> Result<bool, String> {
        let url = message.get_or_default(1).and_then(Value::as_str).unwrap_or("");
        let bytes = message.get_or_default(2).and_then(Value::as_bytes).unwrap_or(&[]);
        let Ok(class) = class_of_url(self.types.schema(), url, 0) else { return Ok(false) };
        let arena = Arena::default();
        let mut decoder = Decoder::new(extras::limits_of(bytes.len()));
        let Ok(held) = Dynamic::decode(self.types, class, &mut decoder, bytes, &arena) else {
            return Ok(false);
        };
        self.indent();
        self.put(format_args!("[{url}]"));
        self.open();
        self.message(held)?;
        self.close();
        Ok(true)
    }

    /// Whole fields by number. What has a length is a message if it reads as one.
    fn unknown(&mut self, run: &[u8]) -> Printed {
        self.unknown_until(run, &mut 0)
    }

    /// Those up to the end of the group that is open, or of the run.
    fn unknown_until(&mut self, run: &[u8], at: &mut usize) -> Printed {
        self.depth = self.depth.checked_sub(1).ok_or("messages are nested too deeply")?;
        let malformed = |error: wire::WireError| format!("unknown fields: {error}");
        while *at < run.len() {
            let (number, wire_type) = wire::read_tag(run, at).map_err(malformed)?;
            if wire_type == 4 {
                break;
            }
            self.indent();
            self.put(format_args!("{number}"));
            match wire_type {
                0 => {
                    let value = wire::read_varint(run, at).map_err(malformed)?;
                    self.put(format_args!(": {value}"));
                    self.line();
                }
                1 => {
                    let value = wire::read_fixed64(run, at).map_err(malformed)?;
                    self.put(format_args!(": 0x{value:016x}"));
                    self.line();
                }
                5 => {
                    let value = wire::read_fixed32(run, at).map_err(malformed)?;
                    self.put(format_args!(": 0x{value:08x}"));
                    self.line();
                }
                2 => {
                    let value = wire::read_bytes(run, at).map_err(malformed)?;
                    if !value.is_empty() && self.depth > 0 && is_message(value) {
                        self.open();
                        self.unknown(value)?;
                        self.close();
                    } else {
                        self.out.push_str(": ");
                        self.string(value);
                        self.line();
                    }
                }
                3 => {
                    self.open();
                    self.unknown_until(run, at)?;
                    self.close();
                }
                _ => break,
            }
        }
        self.depth += 1;
        Ok(())
    }
}

fn is_message(bytes: &[u8]) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let whole = wire::read_tag(bytes, &mut at)
            .and_then(|(number, wire_type)| wire::skip(bytes, &mut at, number, wire_type));
        if whole.is_err() {
            return false;
        }
    }
    true
}
