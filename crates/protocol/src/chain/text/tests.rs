//! What is shown is parsed as it was, what is no transaction is refused where it goes wrong.

use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Transaction {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn all_operations_are_understood() {
    let text = "get a; put b 2;add n -5 ; del x; if-version c 7; if-exists d; if-missing e;\n if-value f \"two words\"; if-at-least n +10;";
    let transaction = parse(text);
    assert_eq!(transaction.reads, [b"a"]);
    let writes = [
        (b"b".to_vec(), Change::Put(b"2".to_vec())),
        (b"n".to_vec(), Change::Add(-5)),
        (b"x".to_vec(), Change::Delete),
    ];
    assert_eq!(transaction.writes, writes);
    let conditions = [
        (b"c".to_vec(), Condition::Version(7)),
        (b"d".to_vec(), Condition::Exists),
        (b"e".to_vec(), Condition::Version(0)),
        (b"f".to_vec(), Condition::Value(b"two words".to_vec())),
        (b"n".to_vec(), Condition::AtLeast(10)),
    ];
    assert_eq!(transaction.conditions, conditions);
    let shown = "if-version c 7; if-exists d; if-missing e; if-value f \"two words\"; if-at-least n 10; get a; put b 2; add n -5; del x";
    assert_eq!(transaction.to_string(), shown);
    assert_eq!(parse("get \"\\x00\\\"\\\\\\n\\r\\t\\xfF;é\"").reads, [b"\0\"\\\n\r\t\xff;\xc3\xa9"]);
    assert_eq!(parse("put ключ \"\"").to_string(), "put ключ \"\"");
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let at = |text: &str| {
        let error = text.parse::<Transaction>().expect_err(text);
        (error.column, error.to_string())
    };
    let starts = |text: &str, column: usize, message: &str| {
        let (found, shown) = at(text);
        assert_eq!(found, column, "{text}: {shown}");
        assert!(shown.starts_with(&format!("column {column}: expected {message}")), "{text}: {shown}");
    };
    starts("", 1, "an operation");
    starts("  ", 3, "an operation");
    starts(";", 1, "an operation");
    starts("get a;;", 7, "an operation");
    starts("frob a", 1, "an operation");
    starts("\"get\" a", 1, "an operation");
    starts("get", 4, "a key, found the end");
    starts("put é", 6, "a value, found the end");
    starts("get a b", 7, "; or the end, found `b`");
    starts("add n five", 7, "a whole number of 64 bits, found `five`");
    starts("add n 9223372036854775808", 7, "a whole number");
    starts("if-version c -1", 14, "a version");
    starts("if-at-least n ;", 15, "a whole number of 64 bits, found `;`");
    starts("get \"a", 7, "a closing quote, found the end");
    starts("get \"a\"b", 8, "a blank or ; after quotes, found `b`");
    starts("get a\\x00", 6, "a blank or ;");
    starts("get \"ab\\q\"", 8, "an escape");
    starts("get \"ab\\x0\"", 8, "an escape");
    starts("get \"ab\\", 8, "an escape");
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let characters = "[a-z \"\\\\;\n\té\u{85}\u{2028}]{0,6}".prop_map(String::into_bytes);
    prop_oneof![characters, prop::collection::vec(any::<u8>(), 0..6)]
}

fn transactions() -> impl Strategy<Value = Transaction> {
    let condition = prop_oneof![
        any::<u64>().prop_map(Condition::Version),
        Just(Condition::Version(0)),
        Just(Condition::Exists),
        bytes().prop_map(Condition::Value),
        any::<i64>().prop_map(Condition::AtLeast),
    ];
    let change =
        prop_oneof![bytes().prop_map(Change::Put), Just(Change::Delete), any::<i64>().prop_map(Change::Add)];
    let conditions = prop::collection::vec((bytes(), condition), 0..4);
    let writes = prop::collection::vec((bytes(), change), 0..4);
    (conditions, prop::collection::vec(bytes(), 0..4), writes)
        .prop_map(|(conditions, reads, writes)| Transaction {
            conditions,
            reads,
            writes,
            ..Transaction::default()
        })
        .prop_filter("it asks something", |transaction| *transaction != Transaction::default())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_shown_is_parsed_as_it_was(transaction in transactions()) {
        let text = transaction.to_string();
        prop_assert!(!text.contains(char::is_control), "{text:?} fits on a line");
        prop_assert_eq!(text.parse(), Ok(transaction));
    }

    #[test]
    fn no_text_is_too_strange(text in "(get|put|add|if-value|[a-z\"\\\\;x0-9é ]){0,8}") {
        match text.parse::<Transaction>() {
            Ok(transaction) => prop_assert_eq!(transaction.to_string().parse(), Ok(transaction)),
            Err(error) => prop_assert!(error.column <= 1 + text.chars().count()),
        }
    }
}
