//! Schemas in a few words, random ones, and canonical messages of them.
//!
//! A canonical message is one that a serialiser must give back bit by bit: fields ascending, each as its label says, unknown
//! fields at the end. So the bytes are the model; no values need to be compared.

use crate::schema::Schema;
use crate::table::Kind;
use base::prng::Prng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Implicit,
    Explicit,
    Repeated,
    Packed,
    /// With keys of this kind.
    Map(Kind),
    /// A member of the oneof with this index.
    Oneof(u32),
}

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub number: u32,
    pub kind: Kind,
    pub form: Form,
    /// Index of the sub-message's type.
    pub message: usize,
    pub acc: bool,
}

pub fn field(number: u32, kind: Kind, form: Form) -> Shape {
    Shape { number, kind, form, message: 0, acc: false }
}

/// Message types M0, M1, …
#[derive(Clone, Debug)]
pub struct World(pub Vec<Vec<Shape>>);

pub fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn number(field: u32, value: u64, out: &mut Vec<u8>) {
    varint(u64::from(field) << 3, out);
    varint(value, out);
}

pub fn delimited(field: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(field) << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

impl World {
    /// The schema, by way of a descriptor set of edition 2023.
    pub fn schema(&self) -> Schema {
        let mut file = Vec::new();
        delimited(1, b"world.proto", &mut file);
        for (index, shapes) in self.0.iter().enumerate() {
            delimited(4, &describe(index, shapes), &mut file);
        }
        let mut open = Vec::new();
        delimited(1, b"X", &mut open);
        let mut zero = Vec::new();
        delimited(1, b"ZERO", &mut zero);
        number(2, 0, &mut zero);
        delimited(2, &zero, &mut open);
        delimited(5, &open, &mut file);
        delimited(12, b"editions", &mut file);
        number(14, 1000, &mut file);
        let mut set = Vec::new();
        delimited(1, &file, &mut set);
        Schema::from_descriptor_set(&set).expect("a schema")
    }

    /// Random types: every kind in every form that it can have.
    pub fn random(prng: &mut Prng) -> World {
        let types = 1 + prng.below(4) as usize;
        World((0..types).map(|_| random_shapes(prng, types)).collect())
    }

    /// A random canonical message of type `index`.
    pub fn message(&self, index: usize, prng: &mut Prng, depth: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let chosen: Vec<u64> = (0..4).map(|_| prng.below(4)).collect();
        let mut members = [0; 4];
        for shape in &self.0[index] {
            if shape.kind.is_scalar() || depth > 0 {
                match shape.form {
                    Form::Oneof(oneof) => {
                        members[oneof as usize] += 1;
                        if chosen[oneof as usize] + 1 == members[oneof as usize] {
                            self.value(shape, true, prng, depth, &mut out);
                        }
                    }
                    _ => self.field(shape, prng, depth, &mut out),
                }
            } else if !shape.kind.is_message() {
                self.field(shape, prng, depth, &mut out);
            }
        }
        for _ in 0..prng.below(8).saturating_sub(5) {
            number(5000 + prng.below(10) as u32, prng.next_u64(), &mut out);
        }
        out
    }

    fn field(&self, shape: &Shape, prng: &mut Prng, depth: u32, out: &mut Vec<u8>) {
        let count = if prng.below(3) == 0 { 0 } else { prng.below(if depth > 2 { 3 } else { 6 }) };
        match shape.form {
            Form::Implicit if prng.below(2) == 0 => self.value(shape, false, prng, depth, out),
            Form::Explicit if prng.below(2) == 0 => self.value(shape, true, prng, depth, out),
            Form::Repeated => (0..count).for_each(|_| self.value(shape, true, prng, depth, out)),
            Form::Packed => {
                let mut run = Vec::new();
                let count = if prng.below(20) == 0 { count * 40 } else { count };
                (0..count).for_each(|_| scalar(shape.kind, true, prng, &mut run));
                if count > 0 {
                    delimited(shape.number, &run, out);
                }
            }
            Form::Map(key) => {
                for index in 0..count.min(if key == Kind::Bool { 2 } else { 9 }) {
                    let mut entry = Vec::new();
                    match key {
                        Kind::String => delimited(1, format!("key{index}").as_bytes(), &mut entry),
                        _ => number(1, index, &mut entry),
                    }
                    self.value(&Shape { number: 2, ..*shape }, true, prng, depth, &mut entry);
                    delimited(shape.number, &entry, out);
                }
            }
            _ => {}
        }
    }

    fn value(&self, shape: &Shape, zero: bool, prng: &mut Prng, depth: u32, out: &mut Vec<u8>) {
        match shape.kind {
            Kind::String | Kind::Bytes => {
                let len = [prng.below(3), prng.below(40), prng.below(300)][prng.below(3) as usize];
                let text: Vec<u8> = (0..len.max(u64::from(!zero))).map(|at| b'a' + (at % 26) as u8).collect();
                delimited(shape.number, &text, out);
            }
            Kind::Message => {
                delimited(shape.number, &self.message(shape.message, prng, depth.saturating_sub(1)), out)
            }
            Kind::Group => {
                varint(u64::from(shape.number) << 3 | 3, out);
                out.extend(self.message(shape.message, prng, depth.saturating_sub(1)));
                varint(u64::from(shape.number) << 3 | 4, out);
            }
            kind => {
                varint(u64::from(shape.number) << 3 | u64::from(kind.wire_type()), out);
                scalar(kind, zero, prng, out);
            }
        }
    }
}

/// `FieldDescriptorProto`.
fn describe_field(shape: &Shape, type_name: &str, entry: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let repeated = matches!(shape.form, Form::Repeated | Form::Packed | Form::Map(_));
    delimited(1, format!("f{}", shape.number).as_bytes(), &mut out);
    number(3, u64::from(shape.number), &mut out);
    number(4, if repeated { 3 } else { 1 }, &mut out);
    let message = shape.kind.is_message() || entry;
    number(5, if message { Kind::Message as u64 } else { shape.kind as u64 }, &mut out);
    if message || shape.kind == Kind::Enum {
        delimited(6, type_name.as_bytes(), &mut out);
    }
    if let Form::Oneof(oneof) = shape.form {
        number(9, u64::from(oneof), &mut out);
    }
    let mut features = Vec::new();
    match shape.form {
        Form::Implicit => number(1, 2, &mut features),
        Form::Repeated if shape.kind.is_scalar() => number(3, 2, &mut features),
        _ => {}
    }
    if shape.kind == Kind::Group {
        number(5, 2, &mut features);
    }
    let mut options = Vec::new();
    delimited(21, &features, &mut options);
    if shape.acc {
        number(51234, 1, &mut options);
    }
    delimited(8, &options, &mut out);
    out
}

/// `DescriptorProto`.
fn describe(index: usize, shapes: &[Shape]) -> Vec<u8> {
    let type_name = |shape: &Shape| match shape.kind {
        Kind::Enum => ".X".to_owned(),
        _ => format!(".M{}", shape.message),
    };
    let mut out = Vec::new();
    delimited(1, format!("M{index}").as_bytes(), &mut out);
    let mut oneofs = 0;
    for shape in shapes {
        if let Form::Map(key) = shape.form {
            let mut entry = Vec::new();
            let name = format!("E{}", shape.number);
            delimited(1, name.as_bytes(), &mut entry);
            delimited(2, &describe_field(&field(1, key, Form::Explicit), "", false), &mut entry);
            let value = Shape { number: 2, form: Form::Explicit, acc: false, ..*shape };
            delimited(2, &describe_field(&value, &type_name(shape), false), &mut entry);
            delimited(7, &[7 << 3, 1], &mut entry);
            delimited(3, &entry, &mut out);
            delimited(2, &describe_field(shape, &format!(".M{index}.{name}"), true), &mut out);
        } else {
            delimited(2, &describe_field(shape, &type_name(shape), false), &mut out);
        }
        if let Form::Oneof(oneof) = shape.form {
            oneofs = oneofs.max(oneof + 1);
        }
    }
    for oneof in 0..oneofs {
        let mut named = Vec::new();
        delimited(1, format!("o{oneof}").as_bytes(), &mut named);
        delimited(8, &named, &mut out);
    }
    out
}

fn random_shapes(prng: &mut Prng, types: usize) -> Vec<Shape> {
    let count = [3, 12, 70][prng.below(3) as usize];
    let mut shapes = Vec::new();
    let mut at = 0;
    for _ in 0..prng.below(count) + 1 {
        at += 1 + [0, 0, 0, prng.below(20), prng.below(40)][prng.below(5) as usize] as u32;
        let kind = Kind::ALL[prng.below(18) as usize];
        let keys = [Kind::String, Kind::Uint64, Kind::Bool, Kind::Int32];
        let form = match prng.below(6) {
            0 if !kind.is_message() => Form::Implicit,
            1 => Form::Repeated,
            2 if kind.is_scalar() => Form::Packed,
            3 if kind != Kind::Group => Form::Map(keys[prng.below(4) as usize]),
            4 => Form::Oneof(0),
            _ => Form::Explicit,
        };
        let repeated = !matches!(form, Form::Implicit | Form::Explicit | Form::Oneof(_));
        let acc = prng.below(4) == 0 && (repeated || !kind.is_scalar());
        shapes.push(Shape { number: at, kind, form, message: prng.below(types as u64) as usize, acc });
    }
    shapes
}

fn scalar(kind: Kind, zero: bool, prng: &mut Prng, out: &mut Vec<u8>) {
    let bits = prng.next_u64() >> prng.below(64);
    let bits = if zero && prng.below(6) == 0 { 0 } else { bits.max(1) };
    match kind {
        Kind::Bool => out.push(if zero { bits as u8 & 1 } else { 1 }),
        Kind::Int32 | Kind::Enum => {
            let value = bits as i32;
            varint(i64::from(if zero { value } else { value | 1 }) as u64, out);
        }
        Kind::Uint32 | Kind::Sint32 => varint(u64::from(bits as u32 | u32::from(!zero)), out),
        Kind::Int64 | Kind::Uint64 | Kind::Sint64 => varint(bits, out),
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => {
            out.extend_from_slice(&(bits as u32 | u32::from(!zero)).to_le_bytes())
        }
        _ => out.extend_from_slice(&bits.to_le_bytes()),
    }
}
