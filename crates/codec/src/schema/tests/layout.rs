//! The table's rules, on random schemas; and that no bytes panic.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{EnumSpec, FieldSpec, FileSpec, MessageSpec, Syntax, descriptor_set};
use crate::schema::{Label, Message, Schema};
use crate::table::{self, Entry, Flags, Table};

const MESSAGES: usize = 4;
const ENUMS: usize = 3;

fn field() -> impl Strategy<Value = FieldSpec> {
    let number = prop_oneof![1..20, 1..300, 1..=(1 << 29) - 1];
    let shape = (1..=18, prop_oneof![Just(1), Just(1), Just(2), Just(3)], 0..MESSAGES * ENUMS);
    let rest = (option::weighted(0.3, 0..3), any::<bool>(), option::of(any::<bool>()), any::<bool>());
    let features = vec(prop_oneof![(1..=5u32, Just(1u64)), Just((1, 2)), Just((1, 3)), Just((5, 2))], 0..2);
    (number, shape, rest, features).prop_map(|(number, (kind, label, of), rest, features)| {
        let (oneof, proto3_optional, packed, acc) = rest;
        FieldSpec {
            number,
            kind,
            label,
            of: if kind == 14 { of % ENUMS } else { of % MESSAGES },
            oneof: oneof.filter(|_| label != 3),
            proto3_optional,
            packed,
            acc: acc && (label == 3 || (9..=12).contains(&kind)),
            default: None,
            // utf8_validation has no value 1.
            features: features.into_iter().filter(|(number, _)| *number != 4).collect(),
        }
    })
}

fn message() -> impl Strategy<Value = MessageSpec> {
    vec(field(), 0..60).prop_map(|mut fields| {
        fields.sort_by_key(|field| field.number);
        fields.dedup_by_key(|field| field.number);
        MessageSpec { fields, map_entry: false }
    })
}

fn enumeration() -> impl Strategy<Value = EnumSpec> {
    let value = prop_oneof![-5..300, Just(i32::MIN), Just(i32::MAX), any::<i32>()];
    (vec(value, 1..40), option::of(any::<bool>())).prop_map(|(mut values, closed)| {
        // Whatever the syntax makes of it, it may be open.
        if closed != Some(true) {
            values[0] = 0;
        }
        EnumSpec { values, closed }
    })
}

fn file() -> impl Strategy<Value = FileSpec> {
    let syntax = prop_oneof![Just(Syntax::Proto2), Just(Syntax::Proto3), Just(Syntax::Edition2023)];
    (syntax, vec(message(), MESSAGES), vec(enumeration(), ENUMS)).prop_map(|(syntax, mut messages, enums)| {
        // One of the messages becomes a map entry, if it can.
        let pair = |fields: &[FieldSpec]| fields.len() >= 2;
        if pair(&messages[3].fields) {
            let key = FieldSpec { number: 1, kind: 9, label: 1, ..FieldSpec::default() };
            let value = FieldSpec {
                number: 2,
                label: 1,
                oneof: None,
                acc: false,
                of: 0,
                ..messages[3].fields[1].clone()
            };
            let kind = if matches!(value.kind, 10 | 14) { 11 } else { value.kind };
            let value = FieldSpec { kind, ..value };
            messages[3] = MessageSpec { fields: vec![key, value], map_entry: true };
            for field in messages.iter_mut().flat_map(|message| &mut message.fields) {
                if field.of == 3 && matches!(field.kind, 10 | 11) {
                    (field.kind, field.label, field.oneof) = (11, 3, None);
                }
            }
        }
        FileSpec { syntax, messages, enums }
    })
}

/// Marks `range` of the object as the owner's; no other may have been there.
fn claim(owners: &mut [Option<String>], range: std::ops::Range<usize>, owner: &str) {
    for byte in &mut owners[range] {
        assert!(byte.as_ref().is_none_or(|other| other == owner), "{owner} lies on {byte:?}");
        *byte = Some(owner.to_owned());
    }
}

fn check_object(message: &table::Message, entries: &[Entry], names: &Message) {
    let size = message.size as usize;
    assert_eq!(size % 8, 0);
    let mut owners = vec![None; size];
    assert_eq!(usize::from(message.words), names.fields.len().div_ceil(32));
    claim(&mut owners, 0..usize::from(message.words) * 4, "presence");
    assert_eq!(message.unknown % 8, 0);
    claim(&mut owners, message.unknown as usize..message.unknown as usize + 16, "unknown");
    for (entry, field) in entries.iter().zip(&names.fields) {
        let at = entry.offset as usize;
        assert_eq!(at % entry.slot().min(8), 0, "{} is aligned", field.name);
        let owner = field.oneof.map_or(field.name.clone(), |oneof| format!("oneof {oneof}"));
        claim(&mut owners, at..at + entry.slot(), &owner);
        if field.oneof.is_some() {
            claim(&mut owners, at - 8..at, &format!("case of {owner}"));
            let other = names.fields.iter().position(|f| f.oneof == field.oneof).unwrap();
            assert_eq!(entry.offset, entries[other].offset, "members of a oneof share their slot");
        }
    }
}

fn check_entry(table: &Table, schema: &Schema, names: &Message, index: usize, entry: &Entry) {
    let field = &names.fields[index];
    assert_eq!((entry.number(), entry.kind()), (field.number, field.kind));
    assert_eq!(entry.is_repeated(), field.is_repeated());
    assert_eq!(entry.is_map(), field.label == Label::Map);
    assert_eq!(entry.is_dereference(), field.is_dereference());
    let again = field.is_repeated() && !field.packed;
    let next = if again { index } else { (index + 1) % names.fields.len() };
    assert_eq!(usize::from(entry.next), next);
    assert_eq!(entry.tag & 7, if field.packed { 2 } else { field.kind.wire_type() });
    let closed = field.enumeration.map(|known| &schema.enums()[known as usize]).filter(|known| known.closed);
    for (flag, set) in [
        (Flags::ACC, field.acc),
        (Flags::UTF8, field.utf8),
        (Flags::PACKED, field.packed),
        (Flags::ONEOF, field.oneof.is_some()),
        (Flags::REQUIRED, field.label == Label::Required),
        (Flags::IMPLICIT, field.label == Label::Implicit),
        (Flags::CLOSED, closed.is_some()),
    ] {
        assert_eq!(entry.flags.has(flag), set, "{flag:?} of {}", field.name);
    }
    match closed {
        Some(known) => {
            let around = known.values.iter().flat_map(|(_, v)| [v.wrapping_sub(1), *v, v.wrapping_add(1)]);
            for value in around.chain(-10..10) {
                let is = known.values.iter().any(|(_, v)| *v == value);
                assert_eq!(table.is_enum_value(entry.aux, value), is, "{value} in {}", known.name);
            }
        }
        None => assert_eq!(entry.aux, field.message.unwrap_or(0)),
    }
}

fn check_message(table: &Table, schema: &Schema, names: &Message) {
    let message = table.message(names.class);
    let entries = table.entries(message);
    assert_eq!((message.class, entries.len()), (names.class, names.fields.len()));
    check_object(message, entries, names);
    for (index, entry) in entries.iter().enumerate() {
        check_entry(table, schema, names, index, entry);
        assert_eq!(entry.offset % 8 % entry.slot().min(8) as u32, 0);
    }
    let around = names.fields.iter().flat_map(|field| [field.number - 1, field.number, field.number + 1]);
    for number in around.chain(0..400) {
        let linear = entries.iter().position(|entry| entry.number() == number);
        assert_eq!(table.find(message, number), linear, "field number {number}");
    }
    for word in 0..usize::from(message.words) {
        let required = (0..32).filter(|bit| {
            names.fields.get(word * 32 + bit).is_some_and(|field| field.label == Label::Required)
        });
        assert_eq!(table.required(message, word), required.fold(0, |mask, bit| mask | 1 << bit));
    }
    assert_eq!(message.flags & table::Message::MAP_ENTRY != 0, names.map_entry);
    assert_eq!(message.flags & table::Message::PLAIN != 0, !entries.iter().any(Entry::is_repeated));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tables_of_random_schemas_keep_the_rules(spec in file()) {
        let schema = Schema::from_descriptor_set(&descriptor_set(&spec)).unwrap();
        let table = schema.table();
        prop_assert_eq!(&table, &schema.table(), "the same schema makes the same table");
        for names in schema.messages() {
            check_message(&table, &schema, names);
        }
        prop_assert!(table.describe(&schema).len() > 10);
    }

    #[test]
    fn target_bits_do_not_change_the_layout_hash(mut spec in file()) {
        let with = Schema::from_descriptor_set(&descriptor_set(&spec)).unwrap().table();
        for field in spec.messages.iter_mut().flat_map(|message| &mut message.fields) {
            field.acc = false;
        }
        let without = Schema::from_descriptor_set(&descriptor_set(&spec)).unwrap().table();
        prop_assert_eq!(with.layout_hash(), without.layout_hash());
        spec.messages[0].fields.push(FieldSpec { number: 77_777_777, kind: 5, label: 1, ..FieldSpec::default() });
        let other = Schema::from_descriptor_set(&descriptor_set(&spec)).unwrap().table();
        prop_assert_ne!(other.layout_hash(), without.layout_hash());
    }

    #[test]
    fn damaged_sets_never_panic(spec in file(), damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut in any::<prop::sample::Index>()) {
        let mut bytes = descriptor_set(&spec);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for len in [bytes.len(), cut.index(bytes.len())] {
            if let Ok(schema) = Schema::from_descriptor_set(&bytes[..len]) {
                let table = schema.table();
                schema.messages().iter().for_each(|names| check_message(&table, &schema, names));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Schema::from_descriptor_set(&bytes);
    }
}
