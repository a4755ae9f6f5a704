//! Messages to JSON.

use super::special::camel_case;
use super::time;
use crate::decode::Decoder;
use crate::memory::Arena;
use crate::object::dynamic::{Dynamic, List, Map, Value};
use crate::schema::{Field, Label, Types};
use crate::table::Kind;
use crate::text::error::{Path, Step};
use crate::text::known::{Known, class_of_url, enum_name, is_null_value};
use crate::text::{PrintError, base64, extras, number};
use std::fmt::Write;

/// How JSON is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// On one line, without spaces.
    pub one_line: bool,
    /// With the fields that are not there but have a default: those without presence.
    pub defaults: bool,
    /// Names as in the .proto file.
    pub proto_names: bool,
    /// Messages within messages.
    pub depth: u32,
}

impl Default for PrintOptions {
    fn default() -> PrintOptions {
        PrintOptions { one_line: false, defaults: false, proto_names: false, depth: 100 }
    }
}

/// A message as JSON. What the schema does not know is left out.
///
/// # Errors
/// Something in it has no JSON: a time out of range, a string that is not UTF-8, an Any of a type that is not known, an empty
/// `google.protobuf.Value`, a field in accelerator memory.
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
    fn open(&mut self, mark: char) {
        self.out.push(mark);
        self.level += 1;
    }

    /// Before each element or member.
    fn item(&mut self, first: &mut bool) {
        if !std::mem::replace(first, false) {
            self.out.push(',');
        }
        self.line();
    }

    fn close(&mut self, mark: char, empty: bool) {
        self.level -= 1;
        if !empty {
            self.line();
        }
        self.out.push(mark);
    }

    fn line(&mut self) {
        if !self.options.one_line {
            let indent = 2 * self.level;
            write!(self.out, "\n{:indent$}", "").expect("a string takes any text");
        }
    }

    fn name(&mut self, name: &str) {
        write_string(&mut self.out, name);
        self.out.push_str(if self.options.one_line { ":" } else { ": " });
    }

    fn message(&mut self, message: Dynamic<'_>) -> Printed {
        self.depth = self.depth.checked_sub(1).ok_or("messages are nested too deeply")?;
        match Known::of(message.message()) {
            Known::Plain => {
                self.open('{');
                let mut first = true;
                self.members(message, &mut first)?;
                self.close('}', first);
            }
            Known::Any => self.any(message)?,
            Known::Timestamp => self.time(message, time::write_timestamp, "a time from year 1 to 9999")?,
            Known::Duration => self.time(message, time::write_duration, "a duration of up to 10000 years")?,
            Known::FieldMask => self.field_mask(message)?,
            Known::Struct | Known::List | Known::Wrapper => {
                let types = self.types;
                let field = types.schema().messages()[message.class() as usize].field_numbered(1);
                let field = field.ok_or_else(|| unusual(message))?;
                let value = message.get_or_default(field).ok_or_else(|| unusual(message))?;
                self.value(field, value)?;
            }
            Known::Value => self.dynamic_value(message)?,
        }
        self.depth += 1;
        Ok(())
    }

    fn members(&mut self, message: Dynamic<'_>, first: &mut bool) -> Printed {
        let types = self.types;
        for field in &types.schema().messages()[message.class() as usize].fields {
            let always = self.options.defaults && (field.is_repeated() || field.label == Label::Implicit);
            if !always && !message.has(field) {
                continue;
            }
            self.path.push(Step::Field(&field.name));
            if message.is_in_acc(field) {
                return Err("the field is in accelerator memory: move it to the CPU".to_owned());
            }
            if let Some(value) = message.get_or_default(field) {
                self.item(first);
                self.name(if self.options.proto_names { &field.name } else { &field.json_name });
                self.value(field, value)?;
            }
            self.path.pop();
        }
        if types.schema().extensions(message.class()).is_none() {
            return Ok(());
        }
        let (mut bytes, arena) = (Vec::new(), Arena::default());
        match extras::decoded(message, &mut bytes, &arena) {
            Some(extensions) => self.members(extensions, first),
            None => Ok(()),
        }
    }

    fn value(&mut self, field: &'t Field, value: Value<'_>) -> Printed {
        match value {
            Value::Bool(value) => self.put(format_args!("{value}")),
            Value::I32(value) => self.put(format_args!("{value}")),
            Value::U32(value) => self.put(format_args!("{value}")),
            Value::I64(value) => self.put(format_args!("\"{value}\"")),
            Value::U64(value) => self.put(format_args!("\"{value}\"")),
            Value::F32(value) if value.is_finite() => number::write_f32(&mut self.out, value),
            Value::F32(value) => self.not_finite(value.into()),
            Value::F64(value) if value.is_finite() => number::write_f64(&mut self.out, value),
            Value::F64(value) => self.not_finite(value),
            Value::Enum(_) if is_null_value(self.types, field) => self.out.push_str("null"),
            Value::Enum(value) => match enum_name(self.types, field, value) {
                Some(name) => write_string(&mut self.out, name),
                None => self.put(format_args!("{value}")),
            },
            Value::Str(text) => write_string(&mut self.out, text),
            Value::Bytes(bytes) if field.kind == Kind::Bytes => {
                self.out.push('"');
                base64::encode(bytes, &mut self.out);
                self.out.push('"');
            }
            Value::Bytes(_) => return Err("the string is not UTF-8, which JSON cannot say".to_owned()),
            Value::Message(message) => return self.message(message),
            Value::List(list) => return self.list(field, list),
            Value::Map(map) => return self.map(field, map),
        }
        Ok(())
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("a string takes any text");
    }

    fn not_finite(&mut self, value: f64) {
        let name = if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        write_string(&mut self.out, name);
    }

    fn list(&mut self, field: &'t Field, list: List<'_>) -> Printed {
        self.open('[');
        let mut first = true;
        for (index, value) in list.iter().enumerate() {
            self.path.push(Step::Element(index));
            self.item(&mut first);
            self.value(field, value)?;
            self.path.pop();
        }
        self.close(']', first);
        Ok(())
    }

    fn map(&mut self, field: &'t Field, map: Map<'_>) -> Printed {
        let class = field.message.ok_or("a map without entries")?;
        let types = self.types;
        let value_field = &types.schema().messages()[class as usize].fields[1];
        self.open('{');
        let mut first = true;
        for (key, value) in map.iter() {
            let name = match key {
                Value::Str(text) => text.to_owned(),
                Value::Bool(key) => key.to_string(),
                key => key.as_i128().ok_or("the key is not UTF-8, which JSON cannot say")?.to_string(),
            };
            self.item(&mut first);
            self.name(&name);
            self.path.push(Step::Key(name));
            self.value(value_field, value)?;
            self.path.pop();
        }
        self.close('}', first);
        Ok(())
    }

    /// A message of seconds and nanoseconds.
    fn time(
        &mut self,
        message: Dynamic<'_>,
        write: fn(&mut String, i64, i32) -> Option<()>,
        what: &str,
    ) -> Printed {
        let part = |number: u32| message.get_or_default(number).and_then(Value::as_i128).unwrap_or(0);
        let (seconds, nanos) = (part(1) as i64, part(2) as i32);
        self.out.push('"');
        let written = write(&mut self.out, seconds, nanos);
        written.ok_or_else(|| format!("{seconds} seconds and {nanos} nanoseconds are not {what}"))?;
        self.out.push('"');
        Ok(())
    }

    fn field_mask(&mut self, message: Dynamic<'_>) -> Printed {
        let paths = message.get_or_default(1).and_then(Value::as_list).ok_or_else(|| unusual(message))?;
        let mut names = Vec::with_capacity(paths.len());
        for path in paths.iter().filter_map(Value::as_str) {
            let name = camel_case(path);
            names.push(name.ok_or_else(|| format!("{path:?} is no path of fields in lower_snake_case"))?);
        }
        write_string(&mut self.out, &names.join(","));
        Ok(())
    }

    /// A `google.protobuf.Value`.
    fn dynamic_value(&mut self, message: Dynamic<'_>) -> Printed {
        let types = self.types;
        let fields = &types.schema().messages()[message.class() as usize].fields;
        let Some(field) = fields.iter().find(|field| message.has(*field)) else {
            return Err("a google.protobuf.Value must hold something, if only null".to_owned());
        };
        match message.get(field) {
            Some(Value::F64(value)) if !value.is_finite() => {
                Err(format!("{value} is no number of JSON, so no google.protobuf.Value"))
            }
            Some(value) => self.value(field, value),
            None => Err(unusual(message)),
        }
    }

    /// An Any: its type beside the members of what it holds, or beside the text of that.
    fn any(&mut self, message: Dynamic<'_>) -> Printed {
        let text = message.get_or_default(1).and_then(Value::as_str).unwrap_or("");
        let bytes = message.get_or_default(2).and_then(Value::as_bytes).unwrap_or(&[]);
        self.open('{');
        let mut first = true;
        if text.is_empty() && bytes.is_empty() {
            self.close('}', first);
            return Ok(());
        }
        let class = class_of_url(self.types.schema(), text, 0).map_err(|bad| bad.what)?;
        let arena = Arena::default();
        let mut decoder = Decoder::new(extras::limits_of(bytes.len()));
        let held = Dynamic::decode(self.types, class, &mut decoder, bytes, &arena).map_err(|error| {
            format!("the Any holds no {}: {error}", self.types.schema().messages()[class as usize].name)
        })?;
        self.item(&mut first);
        self.name("@type");
        write_string(&mut self.out, text);
        if Known::of(held.message()) == Known::Plain {
            self.members(held, &mut first)?;
        } else {
            self.item(&mut first);
            self.name("value");
            self.message(held)?;
        }
        self.close('}', false);
        Ok(())
    }
}

fn unusual(message: Dynamic<'_>) -> String {
    format!("this {} is not protobuf's own", message.message().name)
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        from = at + 1;
        match escape {
            "" => write!(out, "\\u{byte:04x}").expect("a string takes any text"),
            escape => out.push_str(escape),
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
}
