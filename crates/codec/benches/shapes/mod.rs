//! What the two benchmarks of crossings share: their messages, as .proto text and as wire bytes with
//! plausible values for every field.

mod plan;

use base::prng::Prng;
use codec::compile::Compiler;
use codec::schema::{Field, Label, Schema};
use codec::table::Kind;
pub use plan::Plan;

/// One kind of message.
pub struct Shape {
    pub name: &'static str,
    /// Bytes of each `bytes` field.
    blob: usize,
    /// Elements of a repeated field.
    elements: usize,
    fields: &'static str,
}

/// All of them; type `Root` is the message.
pub const ALL: &[Shape] = &[
    Shape {
        name: "log record, flat",
        blob: 16,
        elements: 0,
        fields: "message Root { fixed64 at_ns = 1; int64 received_us = 2; int32 severity = 3; string service = 4; string host = 5;
            string region = 6; uint32 process = 7; uint64 thread = 8; bytes trace = 9; bytes span = 10; string method = 11;
            string path = 12; int32 transport = 13; uint32 status = 14; uint64 in_bytes = 15; uint64 out_bytes = 16;
            sint32 skew_us = 17; double duration_ms = 18; float load = 19; bool sampled = 20; bool hit = 21; string agent = 22;
            string client = 23; int32 attempt = 24; string text = 25; string more = 26; string tags = 27; }",
    },
    Shape {
        name: "ten levels of messages",
        blob: 16,
        elements: 2,
        fields: "message Label { string key = 1; string value = 2; uint32 weight = 3; }
            message L9 { uint64 id = 1; string name = 2; string owner = 3; sint32 rank = 4; repeated Label labels = 5; }
            message L8 { uint64 id = 1; string name = 2; string owner = 3; repeated Label labels = 5; L9 inner = 6; }
            message L7 { uint64 id = 1; string name = 2; string owner = 3; repeated Label labels = 5; L8 inner = 6; }
            message L6 { uint64 id = 1; string name = 2; string owner = 3; repeated Label labels = 5; L7 inner = 6; }
            message L5 { uint64 id = 1; string name = 2; string owner = 3; repeated Label labels = 5; L6 inner = 6; }
            message L4 { uint64 id = 1; string name = 2; string owner = 3; repeated Label labels = 5; L5 inner = 6; }
            message L3 { uint64 id = 1; string name = 2; string owner = 3; repeated Label labels = 5; L4 inner = 6; }
            message L2 { uint64 id = 1; string name = 2; string owner = 3; repeated Label labels = 5; L3 inner = 6; }
            message L1 { uint64 id = 1; string name = 2; string owner = 3; repeated Label labels = 5; L2 inner = 6; }
            message Root { uint64 id = 1; string name = 2; string owner = 3; repeated Label labels = 5; L1 inner = 6; }",
    },
    Shape {
        name: "wide, packed and blobs",
        blob: 2048,
        elements: 64,
        fields: "message Root { fixed64 id = 1; string source = 2; repeated int32 counts = 3; repeated int64 positions = 4;
            repeated double samples = 5; repeated sint32 deltas = 6; repeated sint64 drifts = 7; repeated float weights = 8;
            repeated fixed32 hashes = 9; repeated bool flags = 10; repeated string names = 11; repeated uint64 stamps = 12;
            bytes body = 13; bytes part = 14; }",
    },
    Shape {
        name: "small request",
        blob: 16,
        elements: 2,
        fields: "message Mention { int64 user = 1; string name = 2; }
            message Root { int64 request = 1; fixed64 trace = 2; int64 user = 3; string username = 4; string text = 5;
            repeated int64 media = 6; int32 kind = 8; repeated Mention mentions = 9; }",
    },
    Shape {
        name: "photo, 64 KiB by the unit",
        blob: 64 << 10,
        elements: 1,
        fields: "message Root { string user = 1; uint64 at_us = 2; bytes image = 3 [(millrace.acc) = true]; string text = 4; }",
    },
];

impl Shape {
    pub fn schema(&self) -> Schema {
        let head = "syntax = \"proto3\"; import \"millrace/options.proto\";";
        let text = format!("{head}\n{}", self.fields);
        Compiler::new()
            .source("shape.proto", text)
            .compile(&["shape.proto"])
            .expect("these texts are .proto files")
    }

    /// A message on the wire, with all fields.
    pub fn message(&self, schema: &Schema, class: u32, prng: &mut Prng) -> Vec<u8> {
        let mut out = Vec::new();
        for field in &schema.messages()[class as usize].fields {
            let count = if field.label == Label::Repeated { self.elements } else { 1 };
            if field.packed {
                let mut run = Vec::new();
                (0..count).for_each(|_| scalar(field.kind, prng, &mut run));
                delimited(field.number, &run, &mut out);
            } else {
                (0..count).for_each(|_| self.value(schema, field, prng, &mut out));
            }
        }
        out
    }

    fn value(&self, schema: &Schema, field: &Field, prng: &mut Prng, out: &mut Vec<u8>) {
        let mut text = |len: usize| (0..len).map(|_| b'a' + prng.below(26) as u8).collect::<Vec<u8>>();
        match field.kind {
            Kind::String => {
                let len = 8 + field.name.len() * 3;
                delimited(field.number, &text(len), out);
            }
            Kind::Bytes => delimited(field.number, &text(self.blob), out),
            Kind::Message => {
                let class = field.message.expect("a message field has a class");
                let inner = self.message(schema, class, prng);
                delimited(field.number, &inner, out);
            }
            kind => {
                varint(u64::from(field.number << 3 | kind.wire_type()), out);
                scalar(kind, prng, out);
            }
        }
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn delimited(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(number << 3 | 2), out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Small numbers more often than large ones; never zero, which is not written.
fn scalar(kind: Kind, prng: &mut Prng, out: &mut Vec<u8>) {
    let bits = (prng.next_u64() >> prng.below(63)).max(1);
    match kind {
        Kind::Bool => out.push(1),
        Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Enum => varint((bits & 0x7fff_ffff).max(1), out),
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => {
            out.extend_from_slice(&(bits as u32 | 1).to_le_bytes())
        }
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => out.extend_from_slice(&bits.to_le_bytes()),
        _ => varint(bits, out),
    }
}
