//! Hand-written attacks, and the scenarios of bugs that random messages have found.

use crate::oracle::compile;
use crate::ours::Ours;
use crate::wire::varint;
use codec::decode::{Decoder, Fault, Limits};
use codec::memory::Arena;
use codec::schema::Schema;

const TEXT: &str = r#"
    syntax = "proto2";
    package t;
    enum Closed { ONE = 1; }
    enum First { ZERO = 0; }
    message Empty {}
    message M0 {
        optional M0 inner = 1;
        optional group Grouped = 2 { optional M0 inner = 1; }
        repeated M0 many = 3;
        optional Empty empty = 10;
        optional bytes blob = 4;
        repeated bool bits = 5 [packed = true];
        repeated fixed64 words = 6 [packed = true];
        repeated Closed closed = 7 [packed = true];
        map<string, M0> named = 8;
        optional string text = 9;
        map<string, First> known = 11;
    }
"#;

fn ours() -> Ours {
    Ours::new(&compile(TEXT).encode_to_vec(), "t.M0")
}

/// The verdict on some bytes; all ways to decode agree on it, and none takes more memory than the limits say.
fn fault(bytes: &[u8]) -> Option<Fault> {
    let verdict = ours().check(bytes, Limits::default()).unwrap_or_else(|why| panic!("{bytes:02x?}: {why}"));
    verdict.err().map(|error| error.fault)
}

fn nested(levels: usize, around: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..levels {
        around(&mut bytes);
    }
    bytes
}

#[test]
fn a_tag_that_goes_on_behind_the_end() {
    for last in 0x80..=0xff {
        assert!(fault(&[last]).is_some(), "{last:02x}");
        assert!(fault(&[0x0a, 0x01, last, 0x01]).is_some(), "{last:02x} at the end of a sub-message");
        assert!(fault(&[0x13, last]).is_some(), "{last:02x} in a group");
    }
}

#[test]
fn unknown_values_of_a_packed_enum_stay_behind_what_came_before_them() {
    let bytes = [0x3d, 9, 0, 0, 0, 0x3a, 3, 1, 5, 6];
    let read = ours().check(&bytes, Limits::default()).expect("all ways agree").expect("well-formed");
    let kinds: Vec<String> = read.tree.unknown.iter().map(|(_, field)| format!("{field:?}")).collect();
    assert_eq!(kinds, ["Number(5, 9)", "Number(0, 5)", "Number(0, 6)"]);
}

#[test]
fn the_entry_of_a_map_can_be_the_root() {
    let schema = Schema::from_descriptor_set(&compile(TEXT).encode_to_vec()).expect("a schema");
    for entry in ["t.M0.NamedEntry", "t.M0.KnownEntry"] {
        let class = schema.class(entry).expect("an entry is a message");
        for bytes in [&[][..], &[0x0a, 1, b'k'], &[0x0a, 1, b'k', 0x12, 0], &[0x10, 9], &[0x78, 0]] {
            let arena = Arena::default();
            let decoded = Decoder::default().owned(&schema.table(), class, bytes, &arena);
            assert!(decoded.is_ok(), "{entry} {bytes:02x?}: {decoded:?}");
        }
    }
}

#[test]
fn nesting_ends_at_the_limit_and_not_at_the_stack() {
    let messages = |levels| {
        nested(levels, |bytes| {
            let mut outer = vec![0x0a];
            varint(bytes.len() as u64, 0, 10, &mut outer);
            outer.append(bytes);
            *bytes = outer;
        })
    };
    assert_eq!(fault(&messages(90)), None);
    assert_eq!(fault(&messages(5000)), Some(Fault::Depth));
    for tag in [0x13, 0x7b] {
        let closed = |levels| [vec![tag; levels], vec![tag + 1; levels]].concat();
        // A group that is known holds an unknown one.
        assert_eq!(fault(&closed(90)), None, "{tag:02x}");
        assert_eq!(fault(&closed(1 << 20)), Some(Fault::Depth), "{tag:02x}");
        assert!(matches!(fault(&vec![tag; 1 << 20]), Some(Fault::Depth)), "{tag:02x}");
    }
}

#[test]
fn small_input_does_not_become_much_memory() {
    for unit in [&[0x1a, 0][..], &[0x13, 0x14], &[0x42, 0], &[0x3a, 1, 9], &[0x78, 0, 0x0a, 0]] {
        // `check` holds the memory taken against the limit; here it is enough that it comes back.
        let verdict = fault(&unit.repeat(100_000));
        assert!(matches!(verdict, None | Some(Fault::Memory)), "{unit:02x?}: {verdict:?}");
    }
    assert_eq!(
        fault(&[0x1a, 0].repeat(1_000_000)),
        Some(Fault::Memory),
        "an empty message is 2 bytes, not an object"
    );
}

#[test]
fn lengths_that_lie() {
    for tag in [0x0a, 0x1a, 0x22, 0x2a, 0x32, 0x3a, 0x42, 0x4a, 0x7a] {
        for length in [1, 127, 128, 1 << 20, 1 << 31, u64::from(u32::MAX), 1 << 32, i64::MAX as u64, u64::MAX]
        {
            let mut bytes = vec![tag];
            varint(length, 0, 10, &mut bytes);
            assert_eq!(fault(&bytes), Some(Fault::Truncated), "{bytes:02x?}");
            // Within a sub-message, whose own length is right.
            let mut outer = vec![0x0a, bytes.len() as u8];
            outer.append(&mut bytes);
            outer.extend([0; 200]);
            assert!(fault(&outer).is_some(), "{outer:02x?}");
        }
    }
    assert_eq!(
        fault(&[0x32, 7, 0, 0, 0, 0, 0, 0, 0]),
        Some(Fault::Truncated),
        "seven bytes of eight-byte words"
    );
}

#[test]
fn groups_that_do_not_match() {
    let cases: [&[u8]; 7] = [
        &[0x14],
        &[0x7c],
        &[0x13, 0x7c],
        &[0x7b, 0x14],
        &[0x13, 0x0a, 1, 0x14],
        &[0x0a, 1, 0x13, 0x14],
        &[0x7b, 0x83, 0x01, 0x7c, 0x84, 0x01],
    ];
    for bytes in cases {
        assert!(matches!(fault(bytes), Some(Fault::EndGroup | Fault::Truncated)), "{bytes:02x?}");
    }
    assert_eq!(fault(&[0x13]), Some(Fault::Truncated));
    assert_eq!(fault(&[0x13, 0x7b, 0x7c, 0x14]), None);
}

#[test]
fn tags_that_do_not_exist() {
    let cases: [&[u8]; 7] = [
        &[0x00, 0x00],
        &[0x0e, 0x00],
        &[0x0f, 0x00],
        &[0x80, 0x00, 0x00],
        &[0x80, 0x80, 0x80, 0x80, 0x10, 0x00, 0x00],
        &[0x88, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00],
        &[0xff; 11],
    ];
    assert_eq!(
        fault(&[0x52, 6, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
        Some(Fault::Tag),
        "all bits set, where no field is"
    );
    for bytes in cases {
        assert!(matches!(fault(bytes), Some(Fault::Tag | Fault::Varint)), "{bytes:02x?}: {:?}", fault(bytes));
    }
}

#[test]
fn a_tag_has_at_most_five_bytes_whatever_they_say() {
    // Field 12 (unknown), 1 of a sub-message, and 4 (bytes), at the root, in a sub-message, in a known and in an unknown group.
    let around: [(&[u8], &[u8]); 3] = [(&[], &[]), (&[0x13], &[0x14]), (&[0x7b], &[0x7c])];
    for (field, value) in [(12_u32 << 3, &[5_u8][..]), (1 << 3 | 2, &[0]), (4 << 3 | 2, &[1, 9])] {
        for length in 2..=11 {
            for last in [0_u8, 0x10, 0x70] {
                let mut tag = vec![0x80; length];
                tag[0] |= field as u8;
                tag[length - 1] = last;
                let inner = [&tag[..], value].concat();
                let dropped = length == 5 || last == 0;
                for (open, close) in around {
                    let bytes = [open, &inner, close].concat();
                    match length {
                        2..=5 if dropped => assert_eq!(fault(&bytes), None, "{bytes:02x?}"),
                        2..=4 => {}
                        _ => assert!(
                            matches!(fault(&bytes), Some(Fault::Tag | Fault::Varint)),
                            "{bytes:02x?}: {:?}",
                            fault(&bytes)
                        ),
                    }
                }
                let nested = [&[0x0a, inner.len() as u8][..], &inner].concat();
                assert_eq!(fault(&nested).is_none(), fault(&inner).is_none(), "{nested:02x?}");
            }
        }
    }
}
