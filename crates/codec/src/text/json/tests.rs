//! What the conformance suite does not ask: errors and their places, limits, streams.

use super::{ParseOptions, PrintOptions, Splitter, TooLong, parse, print};
use crate::compile::Compiler;
use crate::decode::{Decoder, Limits};
use crate::memory::Arena;
use crate::object::Dynamic;
use crate::schema::Types;
use proptest::prelude::*;

const PROTO: &str = r#"
    syntax = "proto2";
    package t;
    import "google/protobuf/any.proto";
    import "google/protobuf/struct.proto";
    import "google/protobuf/duration.proto";
    message M {
        optional M inner = 1;
        repeated M many = 2;
        map<string, M> named = 3;
        oneof choice { int32 a = 4; string b = 5; google.protobuf.Value v = 6; }
        optional bytes blob = 7;
        optional google.protobuf.Any any = 8;
        optional google.protobuf.Duration span = 9;
        optional Kind kind = 10;
        optional int64 long_number = 11;
        extensions 100 to 200;
    }
    message Needs { required int32 id = 1; }
    enum Kind { ONE = 1; }
    extend M { optional string label = 100; repeated Needs needs = 101; }
"#;

fn types() -> Types {
    Types::new(Compiler::new().source("t.proto", PROTO).compile(&["t.proto"]).expect("it compiles"))
}

fn class(types: &Types, name: &str) -> u32 {
    types.schema().class(name).expect("it is there")
}

/// The text again, or the error.
fn again(text: &str) -> Result<String, String> {
    let (types, arena) = (types(), Arena::default());
    let message = parse(&types, class(&types, "t.M"), text, &arena, &ParseOptions::default());
    let message = message.map_err(|error| error.to_string())?.freeze();
    print(message, &PrintOptions { one_line: true, ..PrintOptions::default() })
        .map_err(|error| error.to_string())
}

#[test]
fn an_error_says_where_and_what() {
    let cases = [
        ("{", "line 1, column 2: expected '}', but the text ends"),
        (
            "{\n  \"many\": [{}, {\"a\": 1.5}]\n}",
            "line 2, column 22, at many[1].a: \"1.5\" is no integer from",
        ),
        (
            r#"{"named": {"é": {"inner": {"x": 1}}}}"#,
            "column 28, at named[\"é\"].inner: t.M has no field \"x\"",
        ),
        (r#"{"a": 1, "b": "x"}"#, "at b: another member of its oneof is there, too"),
        (r#"{"a": 1, "a": 1}"#, "at a: the field is there twice"),
        (r#"{"longNumber": 1, "long_number": 1}"#, "at longNumber: the field is there twice"),
        (r#"{"named": {"k": {}, "k": {}}}"#, "the key is there twice"),
        (r#"{"v": {"k": 1, "k": 1}}"#, "the member is there twice"),
        (r#"{"kind": "TWO"}"#, "t.Kind has no value \"TWO\""),
        (r#"{"kind": 2}"#, "2 is no value of this closed enum"),
        (r#"{"many": [null]}"#, "null is no element"),
        (r#"{"blob": "*"}"#, "bytes are written in base64"),
        (r#"{"b": "\ud800"}"#, "half of a surrogate pair"),
        (r#"{"a": 1e400}"#, "no integer"),
        (r#"{"span": "1"}"#, "no duration"),
        (r#"{"any": {"a": 1}}"#, "an Any wants \"@type\""),
        (r#"{"any": {"@type": "t/t.None"}}"#, "no message is called t.None"),
        (r#"{"any": {"@type": "t/t.Needs"}}"#, "the required field \"id\" is not there"),
        (r#"{"any": {"@type": "t/google.protobuf.Duration"}}"#, "this type's text is the member \"value\""),
        (r#"{"[t.needs]": [{}]}"#, "at [t.needs][0]: the required field \"id\" is not there"),
        ("{} {}", "something behind the message"),
        ("{\"a\": 1,}", "a comma with nothing behind it"),
        ("{a: 1}", "expected a name in double quotes"),
        ("[]", "expected an object, a t.M"),
        ("{\"b\": \"x", "a string without an end"),
        ("{\"b\": \"\n\"}", "a control character"),
    ];
    for (text, wanted) in cases {
        let error = again(text).expect_err(text);
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn what_is_there_and_what_is_not() {
    for (text, wanted) in [
        (r#"{"a": null, "b": "x", "inner": null, "many": null}"#, r#"{"b":"x"}"#),
        (r#"{"v": null}"#, r#"{"v":null}"#),
        (r#"{"a": 0, "kind": 1, "long_number": 1e3}"#, r#"{"a":0,"kind":"ONE","longNumber":"1000"}"#),
        (r#"{"[t.label]": "x", "[t.needs]": [{"id": 1}]}"#, r#"{"[t.label]":"x","[t.needs]":[{"id":1}]}"#),
        (r#"{"any": {"id": 7, "@type": "t/t.Needs"}}"#, r#"{"any":{"@type":"t/t.Needs","id":7}}"#),
    ] {
        assert_eq!(again(text).as_deref(), Ok(wanted), "{text}");
    }
}

#[test]
fn unknown_members_are_left_out_if_asked() {
    let (types, arena) = (types(), Arena::default());
    let options = ParseOptions { ignore_unknown: true, ..ParseOptions::default() };
    let text = r#"{"x": [{"y": "}"}], "kind": "TWO", "a": 1, "many": [{"z": null}]}"#;
    let message = parse(&types, class(&types, "t.M"), text, &arena, &options).expect("a message").freeze();
    let one_line = PrintOptions { one_line: true, ..PrintOptions::default() };
    assert_eq!(print(message, &one_line).as_deref(), Ok(r#"{"many":[{}],"a":1}"#));
    let deep = format!("{{\"x\": {}1{}}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    assert!(parse(&types, class(&types, "t.M"), &deep, &arena, &options).is_err());
}

#[test]
fn nesting_ends_at_the_limit_and_not_at_the_stack() {
    let types = types();
    let options = ParseOptions {
        limits: Limits { slack_bytes: 1 << 30, ..Limits::default() },
        ..ParseOptions::default()
    };
    let forms: [(&str, &str, &str); 5] = [
        ("{\"inner\":", "{}", "}"),
        ("{\"many\":[", "{}", "]}"),
        ("{\"named\":{\"\":", "{}", "}}"),
        ("{\"v\":[", "1", "]}"),
        ("{\"any\":{\"@type\":\"t/t.M\",\"inner\":", "{}", "}}"),
    ];
    for (open, middle, close) in forms {
        let text = |levels: usize| {
            // `v` is a Value, in which there are arrays only.
            let (first, open) = if open.contains("\"v\"") { ("{\"v\":[", "[") } else { (open, open) };
            let (last, close) = if open == "[" { ("]}", "]") } else { (close, close) };
            let levels = levels - 1;
            format!("{first}{}{middle}{}{last}", open.repeat(levels), close.repeat(levels))
        };
        let mut deepest = 0;
        for levels in 1..=110 {
            let arena = Arena::default();
            let Ok(message) = parse(&types, class(&types, "t.M"), &text(levels), &arena, &options) else {
                continue;
            };
            deepest = levels;
            let (mut encoder, copies) = (crate::encode::Encoder::default(), Arena::default());
            let bytes = message.as_dynamic().encode(&mut encoder).expect("within the limit");
            let mut decoder = Decoder::new(options.limits);
            let decoded = Dynamic::decode_owned(&types, class(&types, "t.M"), &mut decoder, bytes, &copies);
            assert!(decoded.is_ok(), "{open} {levels}: what is read is decoded, too");
            assert!(print(decoded.expect("just seen"), &PrintOptions::default()).is_ok(), "{open} {levels}");
        }
        assert!((30..100).contains(&deepest), "{open}: {deepest}");
        let arena = Arena::default();
        let error =
            parse(&types, class(&types, "t.M"), &text(1 << 18), &arena, &options).expect_err("too deep");
        assert!(error.what.contains("nested too deeply"), "{error}");
    }
}

#[test]
fn small_text_does_not_become_much_memory() {
    let types = types();
    for unit in ["{},", "{\"named\":{\"\":{}}},", "{\"v\":{}},"] {
        let (arena, limits) = (Arena::default(), Limits::default());
        let text = format!("{{\"many\":[{}{{}}]}}", unit.repeat(200_000));
        let parsed = parse(&types, class(&types, "t.M"), &text, &arena, &ParseOptions::default());
        let verdict = parsed.map(drop).map_err(|error| error.what);
        assert!(verdict.as_ref().err().is_none_or(|what| what.contains("memory")), "{unit}: {verdict:?}");
        assert!(arena.held_bytes() <= limits.memory_for(text.len()), "{unit}");
    }
    let options =
        ParseOptions { limits: Limits { input_bytes: 10, ..Limits::default() }, ..ParseOptions::default() };
    let arena = Arena::default();
    assert!(parse(&types, class(&types, "t.M"), "{}         ", &arena, &options).is_err());
}

proptest! {
    #[test]
    fn values_end_where_they_end(
        values in proptest::collection::vec(
            prop_oneof![
                Just("{}"), Just(r#"{"a":"}\"{"}"#), Just("[1,[2]]"), Just(r#""x \" y""#), Just("12"), Just("{\"a\":{\n}}"),
            ],
            0..6,
        ),
        pieces in proptest::collection::vec(1_usize..5, 1..200),
    ) {
        let text = values.join(" ");
        let (mut splitter, mut found) = (Splitter::new(1000), Vec::new());
        let (mut rest, mut pieces) = (text.as_bytes(), pieces.iter().cycle());
        while !rest.is_empty() {
            let (mut piece, after) = rest.split_at((*pieces.next().expect("a cycle")).min(rest.len()));
            rest = after;
            while let Some(value) = splitter.take(&mut piece).expect("short enough") {
                found.push(value);
            }
        }
        found.extend(splitter.rest());
        prop_assert_eq!(found, values.iter().map(|value| value.as_bytes().to_vec()).collect::<Vec<_>>());
    }
}

#[test]
fn a_value_without_an_end_is_not_kept_for_ever() {
    let mut splitter = Splitter::new(100);
    assert_eq!(splitter.take(&mut &[b'['; 200][..]), Err(TooLong));
}
