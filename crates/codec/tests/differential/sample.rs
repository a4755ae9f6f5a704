//! Random messages of a random schema, as records, with the oddities that a decoder must bear: fields out of order, runs of
//! repeated fields split and interleaved, packed and unpacked mixed, singular sub-messages in several parts, members of a
//! oneof after one another, map keys twice, overlong varints, wrong wire types, unknown fields, values that a closed enum
//! does not have.

use crate::schema::{Field, SCALARS, Schema, Shape, Type};
use crate::wire::{Payload, Piece};
use base::prng::Prng;

/// A message of class `index`.
pub fn message(schema: &Schema, index: usize, prng: &mut Prng) -> Vec<Piece> {
    let odd = prng.chance(0.7);
    let depth = if prng.chance(0.1) { 40 } else { prng.below(6) };
    Sampler { schema, prng, odd, budget: 400 }.message(index, depth)
}

struct Sampler<'a> {
    schema: &'a Schema,
    prng: &'a mut Prng,
    /// Whether to write what no encoder would.
    odd: bool,
    /// Records that may still be made.
    budget: i32,
}

impl Sampler<'_> {
    fn odd(&mut self, chance: f64) -> bool {
        self.odd && self.prng.chance(chance)
    }

    fn message(&mut self, index: usize, depth: u64) -> Vec<Piece> {
        let schema = self.schema;
        let message = &schema.messages[index];
        let density = self.prng.unit_f64();
        let mut pieces = Vec::new();
        for field in &message.fields {
            if field.shape == Shape::Required || self.budget > 0 && self.prng.chance(density) {
                self.field(field, depth, &mut pieces);
            }
        }
        if self.odd(0.2) {
            self.shuffle(&mut pieces);
        }
        for &number in &message.unknown {
            if self.odd(0.05) {
                let at = self.prng.below(pieces.len() as u64 + 1) as usize;
                let payload = self.unknown(3);
                pieces.insert(at, self.piece(number, payload));
            }
        }
        pieces
    }

    fn shuffle(&mut self, pieces: &mut [Piece]) {
        for at in (1..pieces.len()).rev() {
            pieces.swap(at, self.prng.below(at as u64 + 1) as usize);
        }
    }

    fn piece(&mut self, number: u32, payload: Payload) -> Piece {
        self.budget -= 1;
        let pad = if self.odd(0.05) { self.prng.below(10) as usize } else { 0 };
        Piece { number, payload, pad, renumbered: None }
    }

    fn field(&mut self, field: &Field, depth: u64, pieces: &mut Vec<Piece>) {
        if matches!(field.of, Type::Message(_) | Type::Group(_)) && (depth == 0 || self.budget <= 0) {
            return;
        }
        let times = match field.shape {
            Shape::Repeated { .. } | Shape::Map(_) if self.prng.chance(0.05) => self.prng.below(100),
            Shape::Repeated { .. } | Shape::Map(_) => self.prng.below(6),
            _ if self.odd(0.15) => 2 + self.prng.below(2),
            _ => 1,
        };
        let mut left = times;
        while left > 0 {
            let run = 1 + self.prng.below(left);
            let packed = match field.shape {
                Shape::Repeated { packed } => field.of.is_packable() && (packed != self.odd(0.2)),
                _ => false,
            };
            if packed {
                pieces.push(self.packed(field, run));
                left -= run;
            } else {
                pieces.push(self.single(field, depth));
                left -= 1;
            }
        }
        if self.odd(0.03) {
            pieces.push(self.wrong_wire(field));
        }
        if matches!(field.shape, Shape::Repeated { packed: true }) && self.odd(0.05) {
            pieces.push(self.packed(field, 0));
        }
    }

    fn single(&mut self, field: &Field, depth: u64) -> Piece {
        let foreign = if field.shape == Shape::Required { None } else { self.foreign(field.of) };
        let payload = match field.shape {
            Shape::Map(key) => self.entry(field, key, foreign, depth),
            _ => match foreign {
                Some(value) => Payload::Varint(value),
                None => self.payload(field.of, depth),
            },
        };
        let mut piece = self.piece(field.number, payload);
        piece.renumbered = foreign.map(|_| field.shadow);
        piece
    }

    /// A map's entry: key and value in either order, either of them missing, or the value in two parts.
    fn entry(&mut self, field: &Field, key: usize, foreign: Option<u64>, depth: u64) -> Payload {
        let mut entry = Vec::new();
        if !self.odd(0.1) {
            let key =
                if self.prng.chance(0.5) { self.small(key) } else { self.payload(Type::Scalar(key), 0) };
            entry.push(self.piece(1, key));
        }
        if let Some(value) = foreign {
            entry.push(self.piece(2, Payload::Varint(value)));
        } else if self.has_required(field.of) || !self.odd(0.1) {
            for _ in 0..if self.odd(0.1) { 2 } else { 1 } {
                let value = self.payload(field.of, depth);
                entry.push(self.piece(2, value));
            }
        }
        if self.odd(0.1) {
            entry.reverse();
        }
        Payload::Message(entry)
    }

    fn has_required(&self, of: Type) -> bool {
        let (Type::Message(index) | Type::Group(index)) = of else { return false };
        self.schema.messages[index].fields.iter().any(|field| field.shape == Shape::Required)
    }

    /// One of few keys, so that some come twice.
    fn small(&mut self, key: usize) -> Payload {
        let value = self.prng.below(3);
        match (Type::Scalar(key).wire(), SCALARS[key]) {
            (_, "string") => Payload::Bytes(vec![b'k'; value as usize]),
            (_, "bool") => Payload::Varint(value.min(1)),
            (1, _) => Payload::Fixed64(value),
            (5, _) => Payload::Fixed32(value as u32),
            _ => Payload::Varint(value),
        }
    }

    fn packed(&mut self, field: &Field, count: u64) -> Piece {
        let payload = if let Type::Enum(index) = field.of {
            let values = (0..count).map(|_| match self.foreign(field.of) {
                Some(value) => (value, true),
                None => (self.enum_value(index), false),
            });
            Payload::PackedEnum(values.collect(), field.shadow)
        } else {
            Payload::Packed((0..count).map(|_| self.payload(field.of, 0)).collect())
        };
        self.piece(field.number, payload)
    }

    /// Now and then, for a closed enum, a value that it does not have.
    fn foreign(&mut self, of: Type) -> Option<u64> {
        let Type::Enum(index) = of else { return None };
        if self.schema.proto3 || !self.odd(0.1) {
            return None;
        }
        let value = self.prng.next_u64() as i32 >> self.prng.below(31);
        (!self.schema.enums[index].contains(&value)).then_some(i64::from(value) as u64)
    }

    fn enum_value(&mut self, index: usize) -> u64 {
        let values = &self.schema.enums[index];
        let value = values[self.prng.below(values.len() as u64) as usize];
        let open = self.schema.proto3 && self.prng.chance(0.2);
        i64::from(if open { self.prng.next_u64() as i32 } else { value }) as u64
    }

    /// A record with the field's number and a wire type that the field does not have: an unknown field.
    fn wrong_wire(&mut self, field: &Field) -> Piece {
        let right = if matches!(field.shape, Shape::Map(_)) { 2 } else { field.of.wire() };
        let packable = matches!(field.shape, Shape::Repeated { .. }) && field.of.is_packable();
        let payload = loop {
            let payload = self.unknown(1);
            let wire = match payload {
                Payload::Varint(_) => 0,
                Payload::Fixed64(_) => 1,
                Payload::Fixed32(_) => 5,
                Payload::Group(_) => 3,
                _ => 2,
            };
            if wire != right && !(packable && wire == 2) {
                break payload;
            }
        };
        let mut piece = self.piece(field.number, payload);
        piece.renumbered = Some(field.shadow);
        piece
    }

    fn unknown(&mut self, depth: u64) -> Payload {
        match self.prng.below(if depth == 0 { 4 } else { 5 }) {
            0 => Payload::Varint(self.integer()),
            1 => Payload::Fixed64(self.prng.next_u64()),
            2 => Payload::Fixed32(self.prng.next_u64() as u32),
            3 => Payload::Bytes(self.bytes()),
            _ => {
                let mut inner = Vec::new();
                for _ in 0..self.prng.below(4) {
                    let payload = self.unknown(depth - 1);
                    let number = 1 + self.prng.below(40) as u32;
                    inner.push(self.piece(number, payload));
                }
                Payload::Group(inner)
            }
        }
    }

    fn payload(&mut self, of: Type, depth: u64) -> Payload {
        match of {
            Type::Enum(index) => Payload::Varint(self.enum_value(index)),
            Type::Message(index) => Payload::Message(self.message(index, depth.saturating_sub(1))),
            Type::Group(index) => Payload::Group(self.message(index, depth.saturating_sub(1))),
            Type::Scalar(_) => match (of.wire(), of.name()) {
                (_, "double") => Payload::Fixed64(self.float().to_bits()),
                (_, "float") => Payload::Fixed32((self.float() as f32).to_bits()),
                (_, "string") => Payload::Bytes(self.text().into_bytes()),
                (_, "bytes") => Payload::Bytes(self.bytes()),
                (_, "int32") => Payload::Varint(i64::from(self.integer() as i32) as u64),
                (_, "bool") if !self.odd(0.1) => Payload::Varint(self.prng.below(2)),
                (_, "uint32" | "sint32") if !self.odd(0.1) => Payload::Varint(self.integer() & 0xffff_ffff),
                (1, _) => Payload::Fixed64(self.integer()),
                (5, _) => Payload::Fixed32(self.integer() as u32),
                _ => Payload::Varint(self.integer()),
            },
        }
    }

    fn integer(&mut self) -> u64 {
        match self.prng.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << self.prng.below(64),
            3 => (1 << self.prng.below(64)) - 1,
            _ => self.prng.next_u64() >> self.prng.below(64),
        }
    }

    /// No negative zero: see `oracle`.
    fn float(&mut self) -> f64 {
        let value = match self.prng.below(8) {
            0 => 0.0,
            1 => f64::INFINITY,
            2 => f64::MIN_POSITIVE,
            3 => -1.5,
            4 => f64::NAN,
            _ => f64::from_bits(self.prng.next_u64()),
        };
        if value as f32 == 0.0 { 0.0 } else { value }
    }

    fn length(&mut self) -> usize {
        match self.prng.below(60) {
            0 => 3000 + self.prng.below(8000) as usize,
            1..=4 => self.prng.below(300) as usize,
            _ => self.prng.below(24) as usize,
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.length()];
        self.prng.fill(&mut bytes);
        bytes
    }

    fn text(&mut self) -> String {
        let ascii = self.prng.chance(0.6);
        (0..self.length())
            .map(|_| match self.prng.below(if ascii { 1 } else { 4 }) {
                0 => char::from(self.prng.below(128) as u8),
                1 => 'é',
                2 => '漢',
                _ => '🦀',
            })
            .collect()
    }
}
