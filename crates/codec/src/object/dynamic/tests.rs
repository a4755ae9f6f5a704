use super::*;
use crate::encode::Encoder;
use crate::memory::Memory;
use crate::object::map::LINEAR;
use crate::schema::Schema;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn types() -> Types {
    let set = include_bytes!("../../../tests/generated/gallery.desc");
    Types::new(Schema::from_descriptor_set(set).expect("a right set"))
}

fn user(types: &Types) -> u32 {
    types.schema().class("gallery.User").expect("the message of the tests")
}

/// A message as plain data; maps by their key's text.
#[derive(Clone, Debug, PartialEq)]
enum Model {
    Plain(String),
    List(Vec<Model>),
    Map(BTreeMap<String, Model>),
    Message(BTreeMap<u32, Model>),
}

fn plain(value: Value<'_>) -> Model {
    Model::Plain(format!("{value:?}"))
}

fn model(message: Dynamic<'_>) -> BTreeMap<u32, Model> {
    message.fields().map(|(field, value)| (field.number, model_of(value))).collect()
}

fn model_of(value: Value<'_>) -> Model {
    match value {
        Value::List(list) => Model::List(list.iter().map(model_of).collect()),
        Value::Map(map) => Model::Map(map.iter().map(|(k, v)| (format!("{k:?}"), model_of(v))).collect()),
        Value::Message(message) => Model::Message(model(message)),
        value => plain(value),
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set(u32, i32),
    Push(u32, i32),
    Remove(u32, usize),
    Truncate(u32, usize),
    Clear(u32),
    Insert(u32, i32, i32),
    Forget(u32, i32),
    Title(i32),
    PushPhoto(i32),
    Round,
}

const SINGULAR: [u32; 14] = [1, 2, 3, 4, 14, 16, 17, 18, 19, 20, 21, 22, 24, 31];
const REPEATED: [u32; 7] = [7, 8, 9, 10, 25, 26, 32];
const MAPS: [u32; 2] = [11, 13];
const ONEOF: [u32; 6] = [14, 15, 16, 17, 18, 19];

fn ops() -> impl Strategy<Value = Op> {
    let singular = || prop::sample::select(&SINGULAR[..]);
    let repeated = || prop::sample::select(&REPEATED[..]);
    let maps = || prop::sample::select(&MAPS[..]);
    prop_oneof![
        4 => (singular(), -2..3).prop_map(|(field, seed)| Op::Set(field, seed)),
        4 => (repeated(), -2..3).prop_map(|(field, seed)| Op::Push(field, seed)),
        1 => (repeated(), 0_usize..4).prop_map(|(field, at)| Op::Remove(field, at)),
        1 => (repeated(), 0_usize..4).prop_map(|(field, len)| Op::Truncate(field, len)),
        1 => prop_oneof![singular(), repeated(), maps()].prop_map(Op::Clear),
        4 => (maps(), 0..30, 0..3).prop_map(|(field, key, seed)| Op::Insert(field, key, seed)),
        1 => (maps(), 0..30).prop_map(|(field, key)| Op::Forget(field, key)),
        1 => (0..3).prop_map(Op::Title),
        1 => (0..3).prop_map(Op::PushPhoto),
        1 => Just(Op::Round),
    ]
}

/// Calls `then` with a value for an element of the field, made from `seed`.
fn with<R>(field: u32, seed: i32, then: impl FnOnce(Value<'_>) -> R) -> R {
    let text = "ä".repeat(seed.unsigned_abs() as usize * 3);
    match field {
        1 | 7 | 11 | 14 | 31 => then(Value::Str(&text)),
        4 | 19 | 26 => then(Value::Bytes(text.as_bytes())),
        2 => then(Value::U64(seed as u64)),
        3 | 8 => then(Value::I32(seed)),
        16 | 32 => then(Value::U32(seed as u32)),
        24 => then(Value::I64(seed.into())),
        10 | 13 | 17 | 20 => then(Value::Enum(seed)),
        9 | 18 | 21 => then(Value::Bool(seed > 0)),
        22 | 25 => then(Value::F64(seed.into())),
        _ => unreachable!("a field of the test"),
    }
}

fn with_key<R>(field: u32, key: i32, then: impl FnOnce(Value<'_>) -> R) -> R {
    if field == 11 { then(Value::Str(&format!("key {key}"))) } else { then(Value::Bool(key > 15)) }
}

/// Implicit presence: zero is the same as absent.
fn is_implicit_zero(field: u32, seed: i32) -> bool {
    matches!(field, 1 | 2 | 4 | 20 | 22 | 24) && seed == 0 || field == 21 && seed <= 0
}

fn list(model: &mut BTreeMap<u32, Model>, field: u32) -> &mut Vec<Model> {
    match model.entry(field).or_insert(Model::List(vec![])) {
        Model::List(list) => list,
        _ => unreachable!("a list"),
    }
}

fn map(model: &mut BTreeMap<u32, Model>, field: u32) -> &mut BTreeMap<String, Model> {
    match model.entry(field).or_insert(Model::Map(BTreeMap::new())) {
        Model::Map(map) => map,
        _ => unreachable!("a map"),
    }
}

fn apply(op: &Op, edit: &mut DynamicMut<'_, '_>, model: &mut BTreeMap<u32, Model>) -> Result<(), SetError> {
    match *op {
        Op::Set(field, seed) => {
            with(field, seed, |value| edit.set(field, value))?;
            if ONEOF.contains(&field) {
                model.retain(|number, _| !ONEOF.contains(number));
            }
            model.insert(field, with(field, seed, plain));
            if is_implicit_zero(field, seed) {
                model.remove(&field);
            }
        }
        Op::Push(field, seed) => {
            with(field, seed, |value| edit.push(field, value))?;
            list(model, field).push(with(field, seed, plain));
        }
        Op::Remove(field, at) => {
            let there = at < list(model, field).len();
            assert_eq!(edit.remove(field, at), if there { Ok(()) } else { Err(SetError::NotThere) });
            if there {
                list(model, field).remove(at);
            }
        }
        Op::Truncate(field, len) => {
            edit.truncate(field, len)?;
            list(model, field).truncate(len);
        }
        Op::Clear(field) => {
            edit.clear(field)?;
            model.remove(&field);
        }
        Op::Insert(field, key, seed) => {
            with_key(field, key, |key| with(field, seed, |value| edit.insert(field, key, value)))?;
            let key = with_key(field, key, |key| format!("{key:?}"));
            map(model, field).insert(key, with(field, seed, plain));
        }
        Op::Forget(field, key) => {
            let was = with_key(field, key, |key| edit.map_mut(field)?.remove(key))?;
            let key = with_key(field, key, |key| format!("{key:?}"));
            assert_eq!(was, map(model, field).remove(&key).is_some());
        }
        Op::Title(seed) => {
            with(1, seed, |value| edit.message_mut(5)?.set(1, value))?;
            let title = (seed != 0).then(|| (1, with(1, seed, plain)));
            model.insert(5, Model::Message(title.into_iter().collect()));
        }
        Op::PushPhoto(seed) => {
            with(1, seed, |value| edit.push_message(6)?.set(1, value))?;
            let title = (seed != 0).then(|| (1, with(1, seed, plain)));
            list(model, 6).push(Model::Message(title.into_iter().collect()));
        }
        Op::Round => {}
    }
    model.retain(|_, value| !matches!(value, Model::List(l) if l.is_empty()));
    model.retain(|_, value| !matches!(value, Model::Map(m) if m.is_empty()));
    Ok(())
}

/// Under Miri every step takes thousands of times as long.
const MOST_OPS: usize = if cfg!(miri) { 15 } else { 60 };

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn edits_are_as_the_model_says(ops in prop::collection::vec(ops(), 0..MOST_OPS)) {
        let types = types();
        let arena = Arena::default();
        let (mut decoder, mut encoder) = (Decoder::default(), Encoder::default());
        let mut edit = DynamicMut::new(&types, user(&types), &arena).unwrap();
        let mut want = BTreeMap::new();
        for op in &ops {
            apply(op, &mut edit, &mut want).unwrap();
            if matches!(op, Op::Round) {
                // Over the wire, and on with what was decoded.
                let bytes = edit.as_dynamic().encode(&mut encoder).unwrap().to_vec();
                edit = DynamicMut::decode(&types, user(&types), &mut decoder, &bytes, &arena).unwrap();
            }
            prop_assert_eq!(&model(edit.as_dynamic()), &want);
        }
        let mut copy = DynamicMut::new(&types, user(&types), &arena).unwrap();
        copy.merge(edit.as_dynamic()).unwrap();
        prop_assert!(copy.as_dynamic().is_same(edit.as_dynamic(), Nans::Differ));
    }
}

#[test]
fn a_large_map_is_filled_through_its_index() {
    let types = types();
    let arena = Arena::default();
    let mut edit = DynamicMut::new(&types, user(&types), &arena).unwrap();
    let many = if cfg!(miri) { 3 * LINEAR } else { 20_000 };
    let mut labels = edit.map_mut("labels").unwrap();
    for round in ["a", "b"] {
        for key in 0..many {
            labels.insert(Value::Str(&key.to_string()), Value::Str(round)).unwrap();
        }
    }
    assert_eq!(labels.len(), many);
    for key in (0..many).step_by(2) {
        assert_eq!(labels.remove(Value::Str(&key.to_string())), Ok(true));
        assert_eq!(labels.remove(Value::Str(&key.to_string())), Ok(false));
    }
    labels.insert(Value::Str("1"), Value::Str("c")).unwrap();
    let map = edit.freeze().get("labels").and_then(Value::as_map).unwrap();
    assert_eq!(map.len(), many / 2);
    assert_eq!(map.get(Value::Str("1")), Some(Value::Str("c")));
    assert_eq!((map.get(Value::Str("3")), map.get(Value::Str("2"))), (Some(Value::Str("b")), None));
    assert_eq!(map.get(Value::I32(3)), None);
}

#[test]
fn what_does_not_fit_is_refused() {
    let types = types();
    let arena = Arena::default();
    let mut edit = DynamicMut::new(&types, user(&types), &arena).unwrap();
    assert_eq!(edit.set("nothing", Value::I32(1)), Err(SetError::NotThere));
    assert_eq!(edit.set("name", Value::I32(1)), Err(SetError::Kind));
    assert_eq!(edit.set("name", Value::Bytes(b"\xff")), Err(SetError::Utf8));
    assert_eq!(edit.set("tags", Value::Str("x")), Err(SetError::Kind));
    assert_eq!(edit.push("name", Value::Str("x")), Err(SetError::Kind));
    assert_eq!(edit.insert("labels", Value::I32(1), Value::Str("x")), Err(SetError::Kind));
    assert_eq!(edit.insert("labels", Value::Str("x"), Value::I32(1)), Err(SetError::Kind));
    assert_eq!(edit.message_mut("name").map(drop), Err(SetError::Kind));
    assert_eq!(edit.element_mut("photos", 0).map(drop), Err(SetError::NotThere));
    assert_eq!(edit.push_unknown(b"\x08"), Err(SetError::Malformed));
    let mut album = edit.message_mut("album").unwrap();
    assert_eq!(album.set("kind", Value::Enum(2)), Err(SetError::EnumValue(2)));
    album.set("owner", Value::Bytes(b"\xff")).unwrap();
    assert_eq!(album.as_dynamic().get("owner"), Some(Value::Bytes(b"\xff")));
    assert_eq!(album.as_dynamic().get_or_default("limit"), Some(Value::I32(-7)));
    assert_eq!(album.as_dynamic().get_or_default("place"), None);
    assert_eq!(edit.as_dynamic().fields().count(), 1, "what was refused left nothing");
}

#[test]
fn unknown_fields_are_kept() {
    let types = types();
    let arena = Arena::default();
    let mut edit = DynamicMut::new(&types, user(&types), &arena).unwrap();
    edit.push_unknown(b"\xa8\x7d\x01").unwrap();
    edit.push_unknown(b"\xa8\x7d\x02").unwrap();
    let message = edit.freeze();
    assert!(message.unknown().eq([b"\xa8\x7d\x01", b"\xa8\x7d\x02"]));
    let mut encoder = Encoder::default();
    let bytes = message.encode(&mut encoder).unwrap();
    let mut decoder = Decoder::default();
    let again = Dynamic::decode(&types, user(&types), &mut decoder, bytes, &arena).unwrap();
    assert_eq!(again, message);
    assert_eq!(format!("{again:?}"), r#"gallery.User { unknown: "\xa8}\x01\xa8}\x02" }"#);
}

#[test]
fn a_nan_is_the_same_only_if_asked_so() {
    let types = types();
    let arena = Arena::default();
    let mut edit = DynamicMut::new(&types, user(&types), &arena).unwrap();
    edit.push("weights", Value::F64(f64::NAN)).unwrap();
    let message = edit.freeze();
    assert!(message.is_same(message, Nans::Equal) && !message.is_same(message, Nans::Differ));
}

#[test]
fn a_full_memory_leaves_a_right_message() {
    let types = types();
    let arena = Arena::new(&Memory::host(4 * crate::memory::CHUNK).unwrap());
    let mut edit = DynamicMut::new(&types, user(&types), &arena).unwrap();
    edit.set("name", Value::Str("kept")).unwrap();
    let long = "x".repeat(100);
    let mut labels = 0_usize;
    let full = loop {
        if let Err(error) = edit.insert("labels", Value::Str(&format!("{labels}{long}")), Value::Str(&long)) {
            break error;
        }
        labels += 1;
    };
    assert_eq!(full, SetError::OutOfMemory);
    let huge = vec![0; 5 * crate::memory::CHUNK];
    assert_eq!(edit.set("avatar", Value::Bytes(&huge)), Err(SetError::OutOfMemory));
    let message = edit.freeze();
    assert_eq!(message.get("name"), Some(Value::Str("kept")));
    assert!(!message.has("avatar"));
    let held = message.get("labels").and_then(Value::as_map).unwrap().len();
    assert!((labels..=labels + 1).contains(&held));
    assert_eq!(format!("{message:?}").matches("Str").count(), 1 + 2 * held);
}

#[test]
fn a_field_in_accelerator_memory_is_overwritten_but_not_read() {
    let types = types();
    let arena = Arena::default();
    let mut edit = DynamicMut::new(&types, user(&types), &arena).unwrap();
    edit.set("avatar", Value::Bytes(b"bytes")).unwrap();
    let offset = edit.as_dynamic().entry(3).offset;
    let elsewhere = super::super::Ref { addr: super::super::Addr::acc(64), len: 5, capacity: 5 };
    // SAFETY: the slot of avatar, which nobody reads meanwhile.
    unsafe { edit.edit.object().write(offset, elsewhere) };
    assert!(edit.as_dynamic().is_in_acc("avatar") && edit.as_dynamic().has("avatar"));
    assert_eq!(format!("{:?}", edit.as_dynamic()), "gallery.User { avatar: in accelerator memory }");
    edit.set("avatar", Value::Bytes(b"new")).unwrap();
    assert_eq!(edit.as_dynamic().get("avatar"), Some(Value::Bytes(b"new")));
    assert!(!edit.as_dynamic().is_in_acc("avatar"));
}
