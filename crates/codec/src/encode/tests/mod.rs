//! The serialiser against canonical bytes: what is decoded from them must be serialised to them.

mod residence;
pub(crate) mod shapes;
mod strategies;

use super::*;
use crate::decode::Decoder;
use crate::memory::{Arena, CHUNK, Memory};
use crate::table::Kind;
use base::prng::Prng;
use proptest::prelude::*;
use shapes::{Form, Shape, World, delimited, field};
use std::sync::Arc;

/// Random cases of a property; each is many fields.
const CASES: u32 = if cfg!(miri) { 1 } else { 300 };

fn memory() -> Arc<Memory> {
    Memory::host(if cfg!(miri) { 64 } else { 4096 } * CHUNK).expect("memory")
}

/// Decodes and encodes again, by the CPU alone.
fn again(table: &Table, class: u32, bytes: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let arena = Arena::new(&memory());
    let root = Decoder::default().owned(table, class, bytes, &arena).expect("a good message");
    let mut out = vec![0xEE];
    // SAFETY: decoded as this class of this table.
    let len = unsafe { Encoder::default().encode(table, class, root, &mut out)? };
    assert_eq!(out.len(), 1 + len);
    out.remove(0);
    Ok(out)
}

fn check(world: &World, bytes: &[u8]) {
    let schema = world.schema();
    let class = schema.class("M0").expect("the type");
    assert_eq!(again(&schema.table(), class, bytes).as_deref(), Ok(bytes));
}

/// Every kind in every form.
fn everything() -> World {
    let mut shapes = Vec::new();
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        let at = index as u32 * 7 + 1;
        let plain = if kind.is_message() { Form::Explicit } else { Form::Implicit };
        shapes.push(field(at, kind, plain));
        shapes.push(field(at + 1, kind, Form::Explicit));
        shapes.push(field(at + 2, kind, Form::Repeated));
        if kind.is_scalar() {
            shapes.push(field(at + 3, kind, Form::Packed));
        }
        if kind != Kind::Group {
            shapes.push(field(at + 4, kind, Form::Map(Kind::String)));
            shapes.push(field(at + 5, kind, Form::Map(Kind::Uint64)));
        }
        shapes.push(field(at + 6, kind, Form::Oneof(index as u32 % 4)));
    }
    World(vec![shapes])
}

#[test]
fn every_kind_in_every_form_comes_back() {
    let world = everything();
    let schema = world.schema();
    let (table, class) = (schema.table(), schema.class("M0").expect("the type"));
    let mut prng = Prng::new(1);
    for _ in 0..if cfg!(miri) { 1 } else { 100 } {
        let bytes = world.message(0, &mut prng, 2);
        assert_eq!(again(&table, class, &bytes).as_deref(), Ok(&bytes[..]));
    }
}

#[test]
fn the_ways_to_take_the_bytes_agree() {
    let world =
        World(vec![vec![field(1, Kind::String, Form::Implicit), field(2, Kind::Int32, Form::Implicit)]]);
    let schema = world.schema();
    let (table, class) = (schema.table(), schema.class("M0").expect("the type"));
    let bytes = [b"\x0a\x05hello\x10".as_slice(), &[0xff; 9], &[1]].concat();
    let arena = Arena::new(&memory());
    let root = Decoder::default().owned(&table, class, &bytes, &arena).expect("a good message");
    let mut encoder = Encoder::default();
    let mut slice = [0xEE; 20];
    // SAFETY: decoded as this class of this table, here and below.
    unsafe {
        assert_eq!(encoder.encoded(&table, class, root), Ok(&bytes[..]));
        assert_eq!(encoder.framed(&table, class, root, 3), Ok(&mut [&[0; 3], &bytes[..]].concat()[..]));
        assert_eq!(encoder.encode_to_slice(&table, class, root, &mut slice), Ok(bytes.len()));
        assert_eq!((&slice[..18], &slice[18..]), (&bytes[..], &[0xEE; 2][..]));
        let small = encoder.encode_to_slice(&table, class, root, &mut slice[..17]);
        assert_eq!(small, Err(EncodeError::Room { needed: 18 }));
    }
}

#[test]
fn messages_too_deep_are_refused() {
    let inner = Shape { message: 0, ..field(1, Kind::Message, Form::Explicit) };
    let world = World(vec![vec![inner]]);
    let schema = world.schema();
    let (table, class) = (schema.table(), schema.class("M0").expect("the type"));
    let nested = |levels: usize| {
        (1..levels).fold(Vec::new(), |inside, _| {
            let mut outside = Vec::new();
            delimited(1, &inside, &mut outside);
            outside
        })
    };
    let bytes = nested(100);
    assert_eq!(again(&table, class, &bytes).as_deref(), Ok(&bytes[..]));
    let arena = Arena::new(&memory());
    let root = Decoder::default().owned(&table, class, &bytes, &arena).expect("as deep as may be");
    // SAFETY: decoded as this class of this table.
    let refused = unsafe { Encoder::new(99).encode(&table, class, root, &mut Vec::new()) };
    assert_eq!(refused, Err(EncodeError::Depth));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_messages_of_random_types_come_back(seed in any::<u64>()) {
        let mut prng = Prng::new(seed);
        let world = World::random(&mut prng);
        check(&world, &world.message(0, &mut prng, 3));
    }
}
