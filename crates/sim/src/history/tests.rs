use super::*;
use crate::kv::{Compute, Expect, Op, Ret, Status, Value};
use base::Prng;
use proptest::prelude::*;

type Kv = History<Op, Ret>;

fn read(text: &str) -> Result<Kv, ReadError> {
    History::read(&mut text.as_bytes())
}

fn written(history: &Kv) -> String {
    let mut out = Vec::new();
    history.write(&mut out).expect("memory has room");
    String::from_utf8(out).expect("JSON is UTF-8")
}

#[test]
fn the_lines_are_part_of_the_contract() {
    let mut history = Kv::new();
    history.call(Picos(5), 1, 7, b"k\"", Op::Set { value: Value::of(b"v"), ttl: Some(Picos(9)) });
    history.call(Picos(6), 2, 8, &[0xFF], Op::Get);
    history.returns(Picos(6), 7, Ret::of(Status::Ok).versioned(3));
    let text = "{\"t\":5,\"e\":\"call\",\"c\":1,\"id\":7,\"op\":\"set\",\"k\":\"k\\\"\",\"a\":{\"ttl\":9,\"v\":\"v\"}}\n\
        {\"t\":6,\"e\":\"call\",\"c\":2,\"id\":8,\"op\":\"get\",\"k\":{\"hex\":\"ff\"},\"a\":{}}\n\
        {\"t\":6,\"e\":\"return\",\"c\":1,\"id\":7,\"op\":\"set\",\"k\":\"k\\\"\",\"r\":{\"s\":\"ok\",\"ver\":3}}\n";
    assert_eq!(written(&history), text);
    assert!(read(text).expect("good") == history);
    let operations: Vec<_> = history.operations().collect();
    assert_eq!(operations.len(), 2);
    assert_eq!(operations[0].returned.map(|r| (r.0, r.1)), Some((Picos(6), 2)));
    assert!(operations[1].returned.is_none());
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    let call = r#"{"t":5,"e":"call","c":1,"id":7,"op":"get","k":"k","a":{}}"#;
    let refused = |second: &str, reason: &str| match read(&format!("{call}\n\n{second}")) {
        Err(ReadError::Line(3, text)) => assert!(text.contains(reason), "{text:?} for {second:?}"),
        other => panic!("{second:?} gave {:?}", other.map(|h| h.events().len())),
    };
    refused("nonsense", "no JSON");
    refused("[]", "missing");
    refused(call, "called twice");
    refused(&call.replace("\"t\":5", "\"t\":4").replace("\"id\":7", "\"id\":8"), "goes back");
    refused(&call.replace("\"id\":7,\"op\":\"get\"", "\"id\":8,\"op\":\"got\""), "no operation");
    refused(&call.replace("\"id\":7,\"op\":\"get\"", "\"id\":8,\"op\":\"set\""), "\"v\" is missing");
    refused(&call.replace("\"id\":7", "\"id\":-8"), "whole number");
    let ret = r#"{"t":5,"e":"return","c":1,"id":7,"op":"get","k":"k","r":{"s":"miss"}}"#;
    refused(&ret.replace("\"id\":7", "\"id\":9"), "without having been called");
    refused(&ret.replace("\"c\":1", "\"c\":2"), "another client");
    refused(&ret.replace("\"k\":\"k\"", "\"k\":\"l\""), "another key");
    refused(&ret.replace("miss", "mist"), "no way to end");
    assert!(matches!(read(&format!("{call}\n{ret}\n{ret}")), Err(ReadError::Line(3, _))));
    assert!(matches!(read(&" ".repeat(1 << 21)), Err(ReadError::Line(1, _))));
}

#[test]
#[should_panic(expected = "returns twice")]
fn a_recorder_that_is_misused_panics() {
    let mut history = Kv::new();
    history.call(Picos(5), 1, 7, b"k", Op::Get);
    history.returns(Picos(5), 7, Ret::of(Status::Miss));
    history.returns(Picos(5), 7, Ret::of(Status::Miss));
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..9), prop::collection::vec(Just(7u8), 250..270)]
        .prop_map(|bytes| Value::of(&bytes))
}

fn op() -> impl Strategy<Value = Op> {
    let ttl = || prop::option::of(any::<u64>().prop_map(Picos));
    let how =
        prop::sample::select(vec![Compute::Incr, Compute::Decr, Compute::Min, Compute::Max, Compute::Or]);
    let expect = prop_oneof![any::<u64>().prop_map(Expect::Version), value().prop_map(Expect::Value)];
    prop_oneof![
        Just(Op::Get),
        Just(Op::Delete),
        (value(), ttl()).prop_map(|(value, ttl)| Op::Set { value, ttl }),
        (value(), ttl()).prop_map(|(value, ttl)| Op::Add { value, ttl }),
        (value(), ttl()).prop_map(|(value, ttl)| Op::Replace { value, ttl }),
        (value(), expect, ttl()).prop_map(|(value, expect, ttl)| Op::Cas { value, expect, ttl }),
        (how, any::<u64>(), prop::option::of(any::<u64>()), ttl())
            .prop_map(|(how, by, init, ttl)| Op::Compute { how, by, init, ttl }),
        value().prop_map(|value| Op::Append { value }),
        (any::<u64>(), ttl()).prop_map(|(by, ttl)| Op::CondPut { by, ttl }),
        ttl().prop_map(|ttl| Op::Touch { ttl }),
        ttl().prop_map(|delay| Op::Flush { delay }),
    ]
}

fn ret() -> impl Strategy<Value = Ret> {
    let all =
        [Status::Ok, Status::Miss, Status::NotStored, Status::Exists, Status::NoRoom, Status::Error].to_vec();
    (prop::sample::select(all), prop::option::of(value()), prop::option::of(any::<u64>()))
        .prop_map(|(status, value, version)| Ret { status, value, version })
}

fn history() -> impl Strategy<Value = Kv> {
    let operation = (op(), ret(), prop::collection::vec(any::<u8>(), 0..4), 0u64..9, any::<bool>());
    prop::collection::vec(operation, 0..30).prop_map(|operations| {
        let mut history = Kv::new();
        let mut open = Vec::new();
        let mut at = 0;
        for (id, (op, ret, key, later, returns)) in (0u64..).zip(operations) {
            at += later;
            history.call(Picos(at), id as u32 % 5, id, &key, op);
            open.push((id, ret));
            if returns {
                let (id, ret) = open.swap_remove(Prng::new(id).below(open.len() as u64) as usize);
                history.returns(Picos(at), id, ret);
            }
        }
        history
    })
}

proptest! {
    #[test]
    fn histories_round_trip(history in history()) {
        let text = written(&history);
        prop_assert!(read(&text).expect("it was written so") == history);
    }

    #[test]
    fn reading_never_panics(history in history(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9)) {
        let mut bytes = written(&history).into_bytes();
        for (place, byte) in damage {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
        }
        // Whatever it says, what it read can be written and read again.
        if let Ok(read) = Kv::read(&mut &bytes[..]) {
            let text = written(&read);
            prop_assert!(Kv::read(&mut text.as_bytes()).expect("it was written so") == read);
        }
    }

    #[test]
    fn reading_text_never_panics(text in "[{}\\[\\]\",:a-z0-9\n ]{0,200}") {
        let _ = read(&text);
    }
}
