//! HyperProtoBench's value files: the C++ of `benchmark.inc` that sets the fields of a message, read for exactly that form.
//!
//! ```text
//! int M1_Set_F1(M1* message, M1* other_message, std::string* serialized) {     a message of type M1; what is outside of such functions is skipped
//!   message->set_f5("text");                                                   a field: string, number (hex, decimal, negative, with suffix), true, false
//!   message->set_f6(M1::E1_CONST_3);                                           … or an enum's value by its name
//!   v3->add_f2(0x1f9df6U);                                                     an element of a repeated field
//!   M1::M2* v3 = message->mutable_f7();                                        a sub-message, as a variable
//!   M1::M2* v4 = message->add_f8();                                            … or an element of a repeated one
//!   return 0;
//! }
//! ```
//! The schema says what a field is, so `0xffffffffU` is −1 in an int32 and a decimal with a point is a float only where a float is meant.
//!
//! Errors: a sentence with the line. Bounds: [`LONGEST`] bytes of a file, the depth of [`Tree`]; memory is in proportion to the file.

use super::tree::{Tree, Value};
use codec::schema::{Field, Schema};
use codec::table::Kind;
use std::collections::HashMap;

/// Bytes of a file at most.
pub const LONGEST: usize = 64 << 20;

/// Messages of a file: the name of the type, and the message, in the order of the file.
///
/// # Errors
/// The line, what is there, and what could be.
pub fn messages(text: &str, schema: &Schema) -> Result<Vec<(String, Tree)>, String> {
    if text.len() > LONGEST {
        return Err(format!("{} bytes: at most {LONGEST} are read", text.len()));
    }
    let mut found = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((_, line)) = lines.next() {
        let Some(name) = setter(line) else { continue };
        let start = found.len();
        let mut function = Function::new(schema, name)?;
        for (number, line) in lines.by_ref() {
            match line.trim() {
                "" => {}
                "return 0;" => {
                    found.push((name.to_owned(), function.tree));
                    break;
                }
                statement => function.statement(statement).map_err(|why| format!("line {number}: {why}"))?,
            }
            if found.len() > start {
                break;
            }
        }
        if found.len() == start {
            return Err(format!("{name}'s function has no `return 0;`"));
        }
    }
    Ok(found)
}

/// The type whose fields a function sets, if the line begins one.
fn setter(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("int ")?.split_once('(')?;
    let (name, _) = name.split_once("_Set_")?;
    rest.trim_end().ends_with('{').then_some(name)
}

struct Function<'s> {
    schema: &'s Schema,
    tree: Tree,
    variables: HashMap<String, usize>,
}

impl<'s> Function<'s> {
    fn new(schema: &'s Schema, name: &str) -> Result<Function<'s>, String> {
        let class = class(schema, name).ok_or_else(|| format!("the schema has no message {name}"))?;
        Ok(Function { schema, tree: Tree::new(class), variables: HashMap::from([("message".into(), 0)]) })
    }

    fn statement(&mut self, line: &str) -> Result<(), String> {
        let form = || {
            format!(
                "`{}` is none of `variable->set_field(value);`, `->add_field(value);`, `Type* variable = variable->mutable_field();`",
                line.chars().take(60).collect::<String>()
            )
        };
        let (head, call) = match line.split_once("* ").filter(|(head, _)| !head.contains('(')) {
            Some((kind, rest)) => {
                let (variable, call) = rest.split_once(" = ").ok_or_else(form)?;
                (Some((kind, variable)), call)
            }
            None => (None, line),
        };
        let call = call.strip_suffix(");").ok_or_else(form)?;
        let (variable, call) = call.split_once("->").ok_or_else(form)?;
        let (call, argument) = call.split_once('(').ok_or_else(form)?;
        let (verb, field) = call.split_once('_').ok_or_else(form)?;
        let node = *self.variables.get(variable).ok_or_else(|| format!("{variable} was not declared"))?;
        let message = &self.schema.messages()[self.tree.class(node) as usize];
        let index = message.index(field).ok_or_else(|| format!("{} has no field {field}", message.name))?;
        let field = &message.fields[index];
        match (verb, head, field.is_repeated()) {
            ("set", None, false) | ("add", None, true) => {
                let value = value(self.schema, field, argument)?;
                self.tree.put(node, index, field, value);
            }
            ("mutable", Some(head), false) | ("add", Some(head), true) if argument.is_empty() => {
                if class(self.schema, head.0) != field.message || field.message.is_none() {
                    return Err(format!("{}.{} is no {}", message.name, field.name, head.0));
                }
                let child = self.tree.child(node, index, field).ok_or("messages are nested too deeply")?;
                self.variables.insert(head.1.to_owned(), child);
            }
            _ => return Err(form()),
        }
        Ok(())
    }
}

/// The class of a C++ type: its name within its package, levels by `::`.
fn class(schema: &Schema, name: &str) -> Option<u32> {
    let name = name.replace("::", ".");
    let full = |package: &str| if package.is_empty() { name.clone() } else { format!("{package}.{name}") };
    schema.files().iter().find_map(|file| schema.class(&full(&file.package)))
}

fn value(schema: &Schema, field: &Field, text: &str) -> Result<Value, String> {
    let not = |what: &str| {
        format!("{} takes {what}, not `{}`", field.name, text.chars().take(40).collect::<String>())
    };
    if matches!(field.kind, Kind::String | Kind::Bytes) {
        let inside =
            text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).ok_or_else(|| not("a string"))?;
        return unescaped(inside).map(Value::Bytes).ok_or_else(|| not("a string"));
    }
    let bits = match field.kind {
        Kind::Message | Kind::Group => return Err(not("no value: it is a message")),
        Kind::Bool => match text {
            "true" => 1,
            "false" => 0,
            _ => return Err(not("true or false")),
        },
        Kind::Float => {
            let number: f32 = text.trim_end_matches(['f', 'F']).parse().map_err(|_| not("a number"))?;
            u64::from(number.to_bits())
        }
        Kind::Double => text.parse::<f64>().map_err(|_| not("a number"))?.to_bits(),
        Kind::Enum => match text.rsplit("::").next().and_then(|name| constant(schema, field, name)) {
            Some(number) => i64::from(number) as u64,
            None => integer(text).ok_or_else(|| not("one of its enum's values"))?,
        },
        _ => integer(text).ok_or_else(|| not("a whole number"))?,
    };
    let narrow = matches!(field.kind, Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Enum);
    Ok(Value::Scalar(if narrow { i64::from(bits as i32) as u64 } else { bits }))
}

/// The number of an enum's value. C++ has values of a nested enum in the message, so a name may have the enum's before it.
fn constant(schema: &Schema, field: &Field, name: &str) -> Option<i32> {
    let values = &schema.enums()[field.enumeration? as usize].values;
    let named = |(of, _): &&(String, i32)| {
        name == of || name.strip_suffix(of.as_str()).is_some_and(|before| before.ends_with('_'))
    };
    values.iter().find(named).map(|(_, number)| *number)
}

fn integer(text: &str) -> Option<u64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { number.wrapping_neg() } else { number })
}

/// What a C string literal stands for.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    if !text.contains('\\') {
        return (!text.contains('"')).then(|| text.as_bytes().to_vec());
    }
    let mut out = Vec::new();
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return None,
            b'\\' => match bytes.next()? {
                b'n' => out.push(b'\n'),
                b't' => out.push(b'\t'),
                b'r' => out.push(b'\r'),
                b'x' => {
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    let high = digit(bytes.next()?)?;
                    let low = bytes.peek().copied().and_then(digit);
                    if low.is_some() {
                        bytes.next();
                    }
                    out.push(low.map_or(high, |low| high << 4 | low) as u8);
                }
                first @ b'0'..=b'7' => {
                    let mut number = u32::from(first - b'0');
                    for _ in 0..2 {
                        let Some(next) = bytes.peek().filter(|byte| (b'0'..=b'7').contains(*byte)) else {
                            break;
                        };
                        number = number << 3 | u32::from(next - b'0');
                        bytes.next();
                    }
                    out.push(u8::try_from(number).ok()?);
                }
                other @ (b'\\' | b'"' | b'\'' | b'?') => out.push(other),
                _ => return None,
            },
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::compile::Compiler;
    use proptest::prelude::*;

    const PROTO: &str = "syntax = \"proto2\"; package bench; message M1 { optional string f1 = 2; optional int32 f2 = 3; \
        message M2 { optional double f1 = 1; repeated uint64 f2 = 4; message M3 { optional bytes f1 = 1; } repeated M3 f3 = 5; } \
        optional M2 f3 = 6; enum E1 { E1_CONST_1 = 8; E1_CONST_2 = 108; } optional E1 f4 = 9; optional float f5 = 10; \
        optional bool f6 = 11; optional sint64 f7 = 12; }";

    const FILE: &str = r#"// A comment.

int M1_Create_F1(M1* message, M1* other_message, std::string* serialized) {
  return 0;
}

int M1_Serialize_F1(M1* message, M1* other_message, std::string* serialized) {
  message->SerializeToString(serialized);
  return 0;
}

int M1_Set_F1(M1* message, M1* other_message, std::string* serialized) {
  message->set_f1("a\"b\x41\101(x);->* ");
  message->set_f2(0xffffffffU);
  M1::M2* v3 = message->mutable_f3();
  v3->set_f1(0.25);
  v3->add_f2(0xffffffffffffffffU);
  v3->add_f2(7UL);
  M1::M2::M3* v9 = v3->add_f3();
  v9->set_f1("long (enough); to->be * a = trap");
  message->set_f4(M1::E1_CONST_2);
  message->set_f5(0.5);
  message->set_f6(true);
  message->set_f7(-2);
  return 0;
}

int M1_Set_F2(M1* message, M1* other_message, std::string* serialized) {
  return 0;
}

inline int BenchmarkIteration(uint32_t working_set_size, google::protobuf::Arena* arena) {
  for (const auto& i : indices) {
    M1_Set_F1(m1_messages[i], m1_other_messages[i], &m1_strings[i]);
  };
  return 0;
}
"#;

    fn schema() -> Schema {
        Compiler::new().source("t.proto", PROTO).compile(&["t.proto"]).expect("it is right")
    }

    #[test]
    fn every_form_of_a_value_file_is_read() {
        let schema = schema();
        let found = messages(FILE, &schema).expect("it is of that form");
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["M1", "M1"]);
        let mut wire = vec![18, 17];
        wire.extend(b"a\"bAA(x);->* ");
        wire[1] = wire.len() as u8 - 2;
        wire.extend([24, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        let text = b"long (enough); to->be * a = trap";
        let mut inner = vec![9];
        inner.extend(0.25_f64.to_le_bytes());
        inner.extend([
            32,
            255,
            255,
            255,
            255,
            255,
            255,
            255,
            255,
            255,
            1,
            32,
            7,
            42,
            text.len() as u8 + 2,
            10,
            text.len() as u8,
        ]);
        inner.extend(text);
        wire.extend([50, inner.len() as u8]);
        wire.extend(inner);
        wire.extend([72, 108, 85]);
        wire.extend(0.5_f32.to_le_bytes());
        wire.extend([88, 1, 96, 3]);
        assert_eq!(found[0].1.wire(&schema), wire);
        assert!(found[1].1.wire(&schema).is_empty());
    }

    #[test]
    fn what_is_of_another_form_is_refused_with_its_line() {
        let schema = schema();
        for (statement, why) in [
            ("message->set_f99(1);", "no field f99"),
            ("message->set_f2(\"text\");", "whole number"),
            ("message->set_f1(12);", "a string"),
            ("message->set_f1(\"a\" \"b\");", "a string"),
            ("message->add_f2(12);", "is none of"),
            ("v7->set_f1(0.5);", "v7 was not declared"),
            ("M1* v3 = message->mutable_f3();", "is no M1"),
            ("M1::M2* v3 = message->mutable_f2();", "is no M1::M2"),
            ("message->set_f6(1);", "true or false"),
            ("message->set_f4(M1::E1_CONST_9);", "enum"),
            ("for (;;) {", "is none of"),
        ] {
            let text = FILE.replacen("message->set_f6(true);", statement, 1);
            let said = messages(&text, &schema).expect_err(statement);
            assert!(said.starts_with("line 23: ") && said.contains(why), "{statement}: {said}");
        }
        let open = FILE.split("  message->set_f6").next().expect("a first part");
        assert!(messages(open, &schema).expect_err("it does not end").contains("return 0"));
        assert!(
            messages("int M9_Set_F1(M9* message) {\n", &schema).expect_err("no such type").contains("M9")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Pieces of such files in any order, and any text between them: taken or refused, and what is taken can be written.
        #[test]
        fn any_text_is_taken_or_refused(
            pieces in prop::collection::vec((0_usize..40, ".{0,12}"), 0..60),
        ) {
            let schema = schema();
            let lines: Vec<&str> = FILE.lines().collect();
            let mut text = String::from("int M1_Set_F1(M1* message, M1* o, std::string* s) {\n");
            for (at, noise) in &pieces {
                text.push_str(lines.get(*at).unwrap_or(&noise.as_str()));
                if at % 5 == 0 {
                    text.push_str(noise);
                }
                text.push('\n');
            }
            if let Ok(found) = messages(&text, &schema) {
                found.iter().for_each(|(_, tree)| _ = tree.wire(&schema));
            }
        }

        #[test]
        fn any_bytes_in_a_file_are_taken_or_refused(at in 0_usize..1500, byte in any::<u8>()) {
            let mut bytes = FILE.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = messages(&String::from_utf8_lossy(&bytes), &schema());
        }
    }
}
