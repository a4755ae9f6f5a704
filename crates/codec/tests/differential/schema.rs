//! Random schemas: a model of one .proto file, and its text.
//!
//! All scalar kinds, singular with and without presence, required, defaults, oneofs, repeated packed and not, maps of all
//! key kinds, sub-messages with recursion, groups, open and closed enums, field numbers from 1 to the largest.

use base::prng::Prng;
use std::fmt::Write;

/// Names of the scalar types, in the order that [`Type::Scalar`] counts them.
pub const SCALARS: [&str; 15] = [
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
    "sfixed32", "sfixed64", "sint32", "sint64",
];

const LARGEST: u32 = (1 << 29) - 1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Type {
    /// Index in [`SCALARS`].
    Scalar(usize),
    Enum(usize),
    Message(usize),
    Group(usize),
}

impl Type {
    pub fn name(self) -> &'static str {
        if let Type::Scalar(index) = self { SCALARS[index] } else { "" }
    }

    /// True for what may be packed.
    pub fn is_packable(self) -> bool {
        matches!(self, Type::Enum(_))
            || matches!(self, Type::Scalar(_)) && !matches!(self.name(), "string" | "bytes")
    }

    /// The wire type of one value.
    pub fn wire(self) -> u32 {
        match self {
            Type::Enum(_) => 0,
            Type::Message(_) => 2,
            Type::Group(_) => 3,
            Type::Scalar(_) => match self.name() {
                "double" | "fixed64" | "sfixed64" => 1,
                "float" | "fixed32" | "sfixed32" => 5,
                "string" | "bytes" => 2,
                _ => 0,
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// proto3 without a label.
    Implicit,
    Optional,
    Required,
    Oneof(u32),
    Repeated {
        packed: bool,
    },
    /// Key: index in [`SCALARS`].
    Map(usize),
}

#[derive(Clone, Debug)]
pub struct Field {
    pub number: u32,
    /// A number that means nothing in this message: see `oracle`.
    pub shadow: u32,
    pub of: Type,
    pub shape: Shape,
}

#[derive(Clone, Debug, Default)]
pub struct Message {
    pub fields: Vec<Field>,
    /// Numbers that mean nothing in this message.
    pub unknown: Vec<u32>,
    /// True if it is the type of one group field of another message.
    pub is_group: bool,
}

#[derive(Clone, Debug)]
pub struct Schema {
    pub proto3: bool,
    pub maps: bool,
    pub messages: Vec<Message>,
    /// The values of each enum; closed in proto2.
    pub enums: Vec<Vec<i32>>,
}

impl Schema {
    pub fn random(prng: &mut Prng) -> Schema {
        let proto3 = prng.chance(0.5);
        let enums = (0..1 + prng.below(3)).map(|_| random_enum(prng, proto3)).collect();
        let plain = 1 + prng.below(5) as usize;
        let maps = prng.chance(0.6);
        let mut schema = Schema { proto3, maps, messages: vec![Message::default(); plain], enums };
        let mut index = 0;
        while index < schema.messages.len() {
            let message = schema.random_message(prng, index, plain);
            schema.messages[index].fields = message.fields;
            schema.messages[index].unknown = message.unknown;
            index += 1;
        }
        schema
    }

    fn random_message(&mut self, prng: &mut Prng, index: usize, plain: usize) -> Message {
        let count = if prng.chance(0.1) { 33 + prng.below(60) } else { prng.below(14) } as usize;
        let span = [2 * count as u32 + 8, 2047, 18_999, LARGEST][prng.below(4) as usize];
        let mut numbers = Vec::new();
        while numbers.len() < 2 * count + 6 {
            let known = numbers.len() < count;
            let number = match prng.below(8) {
                0 if numbers.is_empty() => LARGEST,
                _ if known => 1 + prng.below(u64::from(span)) as u32,
                _ => 1 + prng.below(u64::from(LARGEST)) as u32,
            };
            if !(19_000..20_000).contains(&number) && !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        let unknown = numbers.split_off(2 * count);
        let shadows = numbers.split_off(count);
        let oneofs = prng.below(3);
        let mut fields = Vec::new();
        for (number, shadow) in numbers.into_iter().zip(shadows) {
            let (of, shape) = self.random_field(prng, index, plain, oneofs);
            fields.push(Field { number, shadow, of, shape });
        }
        Message { fields, unknown, is_group: false }
    }

    fn random_field(&mut self, prng: &mut Prng, index: usize, plain: usize, oneofs: u64) -> (Type, Shape) {
        let may_group = !self.proto3 && self.messages.len() < plain + 4;
        let of = match prng.below(10) {
            0 => Type::Enum(prng.below(self.enums.len() as u64) as usize),
            1 | 2 => Type::Message(prng.below(plain as u64) as usize),
            3 if may_group => {
                self.messages.push(Message { is_group: true, ..Message::default() });
                Type::Group(self.messages.len() - 1)
            }
            _ => Type::Scalar(prng.below(SCALARS.len() as u64) as usize),
        };
        let is_message = matches!(of, Type::Message(_) | Type::Group(_));
        let shape = match prng.below(10) {
            0..=2 => Shape::Repeated { packed: of.is_packable() && prng.chance(0.5) },
            3 if self.maps && self.may_be_in_map(of) => loop {
                let key = prng.below(SCALARS.len() as u64) as usize;
                if !matches!(SCALARS[key], "double" | "float" | "bytes") {
                    break Shape::Map(key);
                }
            },
            4 | 5 if oneofs > 0 => Shape::Oneof(prng.below(oneofs) as u32),
            6 if !self.proto3 && !is_message && !self.messages[index].is_group => Shape::Required,
            7.. if self.proto3 && !is_message => Shape::Implicit,
            _ => Shape::Optional,
        };
        (of, shape)
    }

    /// Not a group; and an enum must begin with 0 there.
    fn may_be_in_map(&self, of: Type) -> bool {
        match of {
            Type::Group(_) => false,
            Type::Enum(index) => self.enums[index][0] == 0,
            Type::Scalar(_) | Type::Message(_) => true,
        }
    }

    /// The file.
    pub fn text(&self) -> String {
        let mut out = format!("syntax = \"proto{}\";\npackage t;\n", if self.proto3 { 3 } else { 2 });
        for (index, values) in self.enums.iter().enumerate() {
            let _ = writeln!(out, "enum E{index} {{");
            for (at, value) in values.iter().enumerate() {
                let _ = writeln!(out, "  E{index}_V{at} = {value};");
            }
            out.push_str("}\n");
        }
        for (index, message) in self.messages.iter().enumerate().filter(|(_, message)| !message.is_group) {
            let _ = writeln!(out, "message M{index} {{");
            self.write_fields(message, &mut out);
            out.push_str("}\n");
        }
        out
    }

    fn write_fields(&self, message: &Message, out: &mut String) {
        for field in message.fields.iter().filter(|field| !matches!(field.shape, Shape::Oneof(_))) {
            self.write_field(field, out);
        }
        for oneof in 0..3 {
            let mut members =
                message.fields.iter().filter(|field| field.shape == Shape::Oneof(oneof)).peekable();
            if members.peek().is_some() {
                let _ = writeln!(out, "  oneof o{oneof} {{");
                members.for_each(|field| self.write_field(field, out));
                out.push_str("  }\n");
            }
        }
    }

    fn write_field(&self, field: &Field, out: &mut String) {
        let number = field.number;
        let label = match field.shape {
            Shape::Repeated { .. } => "repeated ",
            Shape::Required => "required ",
            Shape::Optional => "optional ",
            Shape::Implicit | Shape::Oneof(_) | Shape::Map(_) => "",
        };
        let name = match field.of {
            Type::Scalar(_) => field.of.name().to_owned(),
            Type::Enum(index) => format!("E{index}"),
            Type::Message(index) => format!("M{index}"),
            Type::Group(index) => {
                let _ = writeln!(out, "  {label}group G{index} = {number} {{");
                self.write_fields(&self.messages[index], out);
                out.push_str("  }\n");
                return;
            }
        };
        let options = match field.shape {
            Shape::Repeated { packed } if field.of.is_packable() => format!(" [packed = {packed}]"),
            Shape::Optional if !self.proto3 && number.is_multiple_of(2) => self.default(field),
            _ => String::new(),
        };
        let of = match field.shape {
            Shape::Map(key) => format!("map<{}, {name}>", SCALARS[key]),
            _ => format!("{label}{name}"),
        };
        let _ = writeln!(out, "  {of} f{number} = {number}{options};");
    }

    fn default(&self, field: &Field) -> String {
        match (field.of, field.of.name()) {
            (Type::Enum(index), _) => format!(" [default = E{index}_V{}]", self.enums[index].len() - 1),
            (Type::Message(_) | Type::Group(_), _) => String::new(),
            (_, "double" | "float") => " [default = -1.5e3]".to_owned(),
            (_, "bool") => " [default = true]".to_owned(),
            (_, "string") => " [default = \"d\\303\\251\"]".to_owned(),
            (_, "bytes") => " [default = \"\\000\\xff\"]".to_owned(),
            (_, name) if name.starts_with('u') || name.starts_with("fixed") => " [default = 7]".to_owned(),
            _ => " [default = -7]".to_owned(),
        }
    }
}

/// Open enums begin with 0; closed ones need not.
fn random_enum(prng: &mut Prng, proto3: bool) -> Vec<i32> {
    let mut values = if proto3 || prng.chance(0.5) { vec![0] } else { Vec::new() };
    let count = 1 + prng.below(6) as usize;
    let wide = prng.chance(0.3);
    while values.len() < count {
        let value = if wide { prng.next_u64() as i32 } else { prng.below(300) as i32 - 10 };
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}
