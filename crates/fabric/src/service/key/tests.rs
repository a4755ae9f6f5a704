//! Keys against the decoder: whatever the bytes, both read the same.

use super::*;
use codec::compile::Compiler;
use codec::decode::Decoder;
use codec::memory::Arena;
use codec::object::Dynamic;
use codec::object::dynamic::Value;
use codec::schema::Types;
use proptest::prelude::*;
use std::sync::LazyLock;

/// Field 17 is a sub-message, in which the same fields are.
const KINDS: [(&str, Kind); 15] = [
    ("int64", Kind::Int64),
    ("uint64", Kind::Uint64),
    ("int32", Kind::Int32),
    ("fixed64", Kind::Fixed64),
    ("fixed32", Kind::Fixed32),
    ("bool", Kind::Bool),
    ("string", Kind::String),
    ("bytes", Kind::Bytes),
    ("uint32", Kind::Uint32),
    ("E", Kind::Enum),
    ("sfixed32", Kind::Sfixed32),
    ("sfixed64", Kind::Sfixed64),
    ("sint32", Kind::Sint32),
    ("sint64", Kind::Sint64),
    ("int32", Kind::Int32),
];

static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let fields = KINDS.iter().enumerate().map(|(at, (word, _))| format!("{word} f{0} = {0};", at + 1));
    let fields: String = fields.collect();
    let text = format!("syntax = \"proto3\"; enum E {{ ZERO = 0; }} message M {{ {fields} M inner = 17; }}");
    let schema = Compiler::new().source("m.proto", text).compile(&["m.proto"]);
    Types::new(schema.expect("a right file"))
});

/// The path to field `number` of a sub-message that many levels down.
fn path(number: usize, depth: usize) -> &'static [u32] {
    let mut fields = vec![17; depth];
    fields.push(number as u32);
    fields.leak()
}

/// What the decoder reads there.
fn decoded(value: Value<'_>) -> Result<u64, Vec<u8>> {
    match value {
        Value::Bool(value) => Ok(u64::from(value)),
        Value::I32(value) | Value::Enum(value) => Ok(i64::from(value) as u64),
        Value::I64(value) => Ok(value as u64),
        Value::U32(value) => Ok(u64::from(value)),
        Value::U64(value) => Ok(value),
        Value::Str(value) => Err(value.as_bytes().to_vec()),
        Value::Bytes(value) => Err(value.to_vec()),
        _ => panic!("no key is of another kind"),
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field with any wire type but those of groups.
#[derive(Clone, Debug)]
enum Piece {
    Varint(u32, u64),
    Fixed64(u32, u64),
    Fixed32(u32, u32),
    Text(u32, String),
    Inner(Vec<Piece>),
}

fn piece() -> impl Strategy<Value = Piece> {
    let number = || 1u32..20;
    let small = prop_oneof![any::<u64>(), 0u64..3, any::<i32>().prop_map(|n| i64::from(n) as u64)];
    let leaf = prop_oneof![
        (number(), small).prop_map(|(n, v)| Piece::Varint(n, v)),
        (number(), any::<u64>()).prop_map(|(n, v)| Piece::Fixed64(n, v)),
        (number(), any::<u32>()).prop_map(|(n, v)| Piece::Fixed32(n, v)),
        (prop_oneof![Just(7u32), Just(8), Just(18)], "[a-z]{0,4}").prop_map(|(n, v)| Piece::Text(n, v)),
    ];
    leaf.prop_recursive(2, 24, 6, |inner| proptest::collection::vec(inner, 0..6).prop_map(Piece::Inner))
}

fn write(pieces: &[Piece], out: &mut Vec<u8>) {
    for piece in pieces {
        match piece {
            Piece::Varint(number, value) => {
                varint(u64::from(*number) << 3, out);
                varint(*value, out);
            }
            Piece::Fixed64(number, value) => {
                varint(u64::from(*number) << 3 | 1, out);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Piece::Fixed32(number, value) => {
                varint(u64::from(*number) << 3 | 5, out);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Piece::Text(number, value) => {
                varint(u64::from(*number) << 3 | 2, out);
                varint(value.len() as u64, out);
                out.extend_from_slice(value.as_bytes());
            }
            Piece::Inner(pieces) => {
                let mut inner = Vec::new();
                write(pieces, &mut inner);
                varint(17 << 3 | 2, out);
                varint(inner.len() as u64, out);
                out.extend_from_slice(&inner);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_key_is_what_the_decoder_reads(
        pieces in proptest::collection::vec(piece(), 0..12), number in 1usize..=15, depth in 0usize..3,
    ) {
        let mut bytes = Vec::new();
        write(&pieces, &mut bytes);
        let key = Key { fields: path(number, depth), kind: KINDS[number - 1].1 };
        let ours = match key.of(&bytes).expect("it is a message") {
            KeyValue::Number(number) => Ok(number),
            KeyValue::Bytes(bytes) => Err(bytes.to_vec()),
        };
        let arena = Arena::default();
        let class = TYPES.schema().class("M").expect("it is declared");
        let mut message = Dynamic::decode(&TYPES, class, &mut Decoder::default(), &bytes, &arena).ok();
        prop_assert!(message.is_some(), "the decoder takes it");
        for _ in 0..depth {
            message = message.and_then(|message| match message.get("inner") {
                Some(Value::Message(inner)) => Some(inner),
                _ => None,
            });
        }
        let absent = || if matches!(key.kind, Kind::String | Kind::Bytes) { Err(vec![]) } else { Ok(0) };
        let theirs = message.map_or_else(absent, |message| {
            let name = format!("f{number}");
            decoded(message.get_or_default(&*name).expect("it is a field"))
        });
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn any_bytes_have_a_key_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..64), number in 1usize..=15) {
        let key = Key { fields: path(number, 1), kind: KINDS[number - 1].1 };
        prop_assert_eq!(key.of(&bytes).is_ok(), key.hash(&bytes).is_some());
    }
}

#[test]
fn the_last_counts_and_what_is_cut_off_has_none() {
    // 2: "user", 1: 150, then 2: "other".
    let message = b"\x12\x04user\x08\x96\x01\x12\x05other";
    let text = Key { fields: &[2], kind: Kind::String };
    assert_eq!(text.of(message), Ok(KeyValue::Bytes(b"other")));
    assert_eq!(Key { fields: &[1], kind: Kind::Int32 }.of(message), Ok(KeyValue::Number(150)));
    assert_eq!(text.of(&[]), Ok(KeyValue::Bytes(b"")));
    assert!(text.of(&message[..4]).is_err());
}
