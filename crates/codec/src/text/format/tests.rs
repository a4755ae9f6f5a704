//! What the conformance suite does not ask: errors and their places, limits, one line.

use super::{PrintOptions, parse, print};
use crate::compile::Compiler;
use crate::decode::Limits;
use crate::memory::Arena;
use crate::schema::Types;

const PROTO: &str = r#"
    syntax = "proto2";
    package t;
    message M {
        optional M inner = 1;
        repeated M many = 2;
        map<string, M> named = 3;
        oneof choice { int32 a = 4; string b = 5; }
        optional group Part = 6 { optional float weight = 1; }
        repeated double numbers = 7;
        optional bool flag = 8;
        reserved "old";
        extensions 100 to 200;
    }
    message Needs { required int32 id = 1; }
    extend M { optional Needs needs = 100; }
"#;

fn again_with(text: &str, options: &PrintOptions) -> Result<String, String> {
    let types =
        Types::new(Compiler::new().source("t.proto", PROTO).compile(&["t.proto"]).expect("it compiles"));
    let class = types.schema().class("t.M").expect("it is there");
    let arena = Arena::default();
    let message = parse(&types, class, text, &arena, &Limits::default());
    let message = message.map_err(|error| error.to_string())?.freeze();
    print(message, options).map_err(|error| error.to_string())
}

fn again(text: &str) -> Result<String, String> {
    again_with(text, &PrintOptions { one_line: true, ..PrintOptions::default() })
}

#[test]
fn an_error_says_where_and_what() {
    let cases = [
        ("inner {", "line 1, column 8, at inner: expected '}', but the text ends"),
        ("many {}\nmany { a: x }", "line 2, column 11, at many.a: expected an integer from"),
        ("a: 1 b: 'x'", "column 6, at b: another member of its oneof is there, too"),
        ("a: 1 a: 1", "column 6, at a: the field is there twice"),
        ("x: 1", "t.M has no field \"x\""),
        ("[t.x]: 1", "t.M has no extension \"t.x\""),
        ("[t.needs] {}", "at [t.needs]: the required field \"id\" is not there"),
        ("4: 1", "fields are named, not numbered"),
        ("b: 'x\n'", "a string without an end"),
        (r"b: '\q'", "no such escape"),
        (r"b: '\777'", "at most \\377"),
        ("a 1", "expected ':' and a value"),
        ("numbers: [1,]", "expected a decimal number"),
        ("numbers [1]", "expected ':' and a value"),
        ("flag: 2", "expected true or false"),
        ("a: 09", "expected an integer"),
        ("a: ?", "'?' has no meaning here"),
        ("old: }", "expected a value"),
        ("inner { a: 1 >", "expected the name of a field"),
    ];
    for (text, wanted) in cases {
        let error = again(text).expect_err(text);
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn all_ways_to_write_it() {
    for (text, wanted) in [
        ("a: 0x1F", "a: 31"),
        ("a: - 017 # eight and seven", "a: -15"),
        ("b: 'a' \"\\x62\\143\" '\\u00e9\\'\"'", r#"b: "abc\303\251\'\"""#),
        (
            "numbers: [1, -inf, 1.5f, .5] numbers: nan, numbers: 1e400;",
            "numbers: 1 numbers: -inf numbers: 1.5 numbers: 0.5 numbers: nan numbers: inf",
        ),
        ("Part { weight: 1 } inner: < flag: t >", "inner { flag: true } Part { weight: 1 }"),
        ("part { weight: 1e30 }", "Part { weight: 1e30 }"),
        (
            "named { value { a: 1 } key: 'k' } named { }",
            "named { key: \"k\" value { a: 1 } } named { key: \"\" value { } }",
        ),
        ("old { x: [1, <y: 2>] } old: -1, a: 1", "a: 1"),
        // The colon before messages may be left out, and so it may before a list of them.
        (
            "named [{ key: 'k' }, < >] named: [{ key: 'l' }]",
            "named { key: \"k\" value { } } named { key: \"\" value { } } named { key: \"l\" value { } }",
        ),
        ("[ t . needs ] { id: 1 }", "[t.needs] { id: 1 }"),
        ("", ""),
    ] {
        assert_eq!(again(text).as_deref(), Ok(wanted), "{text}");
    }
    let lines = again_with("inner { a: 1 }", &PrintOptions::default());
    assert_eq!(lines.as_deref(), Ok("inner {\n  a: 1\n}\n"));
}

#[test]
fn nesting_and_memory_end_at_the_limits() {
    for (open, close) in [("inner{", "}"), ("named{value{", "}}"), ("many<", ">"), ("old{x{", "}}")] {
        assert!(again(&format!("{}{}", open.repeat(40), close.repeat(40))).is_ok(), "{open}");
        let error =
            again(&format!("{}{}", open.repeat(1 << 18), close.repeat(1 << 18))).expect_err("too deep");
        assert!(error.contains("nested too deeply"), "{error}");
    }
    let error = again(&"many{}".repeat(200_000));
    assert!(error.is_ok() || error.is_err_and(|error| error.contains("memory")));
}
