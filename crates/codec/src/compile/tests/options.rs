//! What methods say of themselves: read, and each contradiction refused where it stands.

use super::compile;
use crate::compile::Compiler;
use crate::schema::{Cacheable, MethodOptions, Order, Place, Places, Schema};
use crate::table::Kind;

const HEAD: &str = r#"syntax = "proto3"; package shop; import "millrace/options.proto";
enum Color { RED = 0; } enum Shape { ROUND = 0; }
message User { string id = 1; int64 number = 2; }
message Request {
  string id = 1; User user = 2; repeated string tags = 3; float weight = 4; double price = 5; map<string, string> labels = 6;
  oneof either { string this = 7; User that = 8; } Color color = 9; Shape shape = 10; bytes raw = 11; optional int32 age = 12;
  int32 count = 13; repeated User users = 14;
}
message Reply {}
service Shop {
"#;
/// The line after [`HEAD`].
const FIRST: u32 = 11;

fn shop(methods: &str) -> String {
    format!("{HEAD}{methods}}}\n")
}

/// The options of these methods, by name.
fn options(methods: &str) -> Vec<(String, MethodOptions)> {
    let schema: Schema = compile(&shop(methods)).unwrap_or_else(|error| panic!("{methods}: {error}"));
    let service = schema.service("shop.Shop").expect("it is declared");
    service.methods.iter().map(|method| (method.name.clone(), method.options.clone())).collect()
}

fn of(methods: &str, name: &str) -> MethodOptions {
    options(methods).into_iter().find(|(known, _)| known == name).expect("a method").1
}

/// A method `Get` with these options.
fn get(said: &str) -> String {
    format!("  rpc Get(Request) returns (Reply) {{\n    {said}\n  }}\n")
}

#[test]
fn all_of_it_is_read() {
    let methods = r#"
        rpc Get(Request) returns (Reply) {
            option (millrace.key) = "user.id";
            option (millrace.cacheable) = { ttl_seconds: 60 invalidated_by: "Drop" invalidated_by: "Put" };
            option (millrace.places) = HOST;
            option (millrace.places) = ENGINE;
        }
        rpc Put(Request) returns (Reply) {
            option (millrace.key) = "id";
            option (millrace.transaction) = true;
            option (millrace.order) = PER_KEY;
        }
        rpc Drop(Request) returns (Reply) {
            option (millrace.key) = "this_is_not_it";
            option idempotency_level = IDEMPOTENT;
        }
        rpc Plain(Request) returns (Reply);
    "#
    .replace("this_is_not_it", "id");
    let get = of(&methods, "Get");
    let key = get.key.expect("it has one");
    assert_eq!((key.path.as_str(), &key.fields[..], key.kind), ("user.id", &[2, 1][..], Kind::String));
    assert_eq!(get.cacheable, Some(Cacheable { ttl_seconds: 60, invalidated_by: vec![2, 1] }));
    assert_eq!((get.idempotent, get.order, get.transaction), (true, Order::None, false));
    assert_eq!(get.places.iter().collect::<Vec<_>>(), [Place::Host, Place::Engine]);
    let put = of(&methods, "Put");
    assert_eq!(
        (put.idempotent, put.order, put.transaction, put.places),
        (false, Order::PerKey, true, Places::ANY)
    );
    assert!(of(&methods, "Drop").idempotent);
    assert_eq!(of(&methods, "Plain"), MethodOptions::default());
}

#[test]
fn levels_of_protobuf_count() {
    let level = |said| of(&get(said), "Get").idempotent;
    assert!(level("option idempotency_level = NO_SIDE_EFFECTS;"));
    assert!(level("option idempotency_level = IDEMPOTENT;"));
    assert!(!level("option idempotency_level = IDEMPOTENCY_UNKNOWN;"));
    assert!(level("option idempotency_level = IDEMPOTENCY_UNKNOWN; option (millrace.idempotent) = true;"));
    assert!(!level("option (millrace.idempotent) = false;"));
}

#[test]
fn keys_of_every_kind_that_can_be_compared() {
    for (path, fields, kind) in [
        ("id", &[1][..], Kind::String),
        ("user.number", &[2, 2], Kind::Int64),
        ("color", &[9], Kind::Enum),
        ("raw", &[11], Kind::Bytes),
        ("age", &[12], Kind::Int32),
    ] {
        let key = of(&get(&format!("option (millrace.key) = \"{path}\";")), "Get").key.expect("a key");
        assert_eq!((&key.fields[..], key.kind), (fields, kind), "{path}");
    }
}

/// What is refused: the options of `Get`, other methods, and a part of the message.
const REFUSED: &[(&str, &str, &str)] = &[
    ("option (millrace.key) = \"nope\";", "", "shop.Request has no field \"nope\""),
    ("option (millrace.key) = \"\";", "", "has no field \"\""),
    ("option (millrace.key) = \"user.nope\";", "", "shop.User has no field \"nope\""),
    ("option (millrace.key) = \"id.id\";", "", "\"id\" is no single message"),
    ("option (millrace.key) = \"users.id\";", "", "\"users\" is no single message"),
    ("option (millrace.key) = \"tags\";", "", "is repeated"),
    ("option (millrace.key) = \"labels\";", "", "is repeated"),
    ("option (millrace.key) = \"weight\";", "", "of type float"),
    ("option (millrace.key) = \"price\";", "", "of type double"),
    ("option (millrace.key) = \"user\";", "", "of type message"),
    ("option (millrace.key) = \"this\";", "", "through a oneof"),
    ("option (millrace.key) = \"that.id\";", "", "through a oneof"),
    ("option (millrace.key) = \"a.a.a.a.a.a.a.a.a\";", "", "more than 8 parts"),
    ("option (millrace.cacheable) = { ttl_seconds: 9 };", "", "cacheable, but without a key"),
    ("option (millrace.key) = \"id\"; option (millrace.cacheable) = {};", "", "for how long"),
    (
        "option (millrace.key) = \"id\"; option (millrace.cacheable) = { ttl_seconds: 0 };",
        "",
        "ttl_seconds is 0",
    ),
    (
        "option (millrace.key) = \"id\"; option (millrace.cacheable) = { ttl_seconds: 2592001 };",
        "",
        "1 to 2592000",
    ),
    (
        "option (millrace.key) = \"id\"; option (millrace.transaction) = true; option (millrace.cacheable) = { ttl_seconds: 9 };",
        "",
        "cacheable and a transaction",
    ),
    (
        "option (millrace.key) = \"id\"; option (millrace.idempotent) = false; option (millrace.cacheable) = { ttl_seconds: 9 };",
        "",
        "not idempotent",
    ),
    (
        "option (millrace.key) = \"id\"; option idempotency_level = IDEMPOTENT; option (millrace.cacheable) = { ttl_seconds: 9 };",
        "",
        "say NO_SIDE_EFFECTS",
    ),
    ("CACHED \"Put\" };", "", "no method of this service"),
    ("CACHED \"Get\" };", "", "which is cacheable"),
    ("CACHED \"Put\" };", "rpc Put(Request) returns (Reply);", "which has no key"),
    ("CACHED \"Put\" invalidated_by: \"Put\" };", "KEYED \"id\"; }", "is there twice"),
    ("CACHED \"Put\" };", "KEYED \"count\"; }", "of type int32, not string"),
    ("CACHED \"Put\" };", "KEYED \"raw\"; }", "of type bytes, not string"),
    ("CACHED \"Put\" };", "KEYED \"id\"; option idempotency_level = NO_SIDE_EFFECTS; }", "NO_SIDE_EFFECTS"),
    (
        "CACHED \"Put\" };",
        "rpc Put(Request) returns (stream Reply) { option (millrace.key) = \"id\"; }",
        "which streams",
    ),
    (
        "option (millrace.key) = \"color\"; option (millrace.cacheable) = { ttl_seconds: 9 invalidated_by: \"Put\" };",
        "KEYED \"shape\"; }",
        "another enum",
    ),
    (
        "option (millrace.idempotent) = false; option idempotency_level = NO_SIDE_EFFECTS;",
        "",
        "(millrace.idempotent) is false",
    ),
    ("option (millrace.order) = PER_KEY;", "", "ordered by key, but without one"),
    (
        "option (millrace.order) = PER_CONNECTION; option (millrace.places) = EDGE;",
        "BEFORE rpc Put(Request) returns (Reply) { option (millrace.order) = PER_CONNECTION; option (millrace.places) = HOST; }",
        "no place in common",
    ),
];

/// What of `said` each is about, to see the column.
#[test]
fn each_contradiction_is_refused_where_it_stands() {
    for (said, others, want) in REFUSED {
        let said = said.replace(
            "CACHED",
            "option (millrace.key) = \"id\"; option (millrace.cacheable) = { ttl_seconds: 9 invalidated_by:",
        );
        let others = others.replace("KEYED", "rpc Put(Request) returns (Reply) { option (millrace.key) =");
        let methods = match others.strip_prefix("BEFORE ") {
            Some(before) => format!("{before} {}\n", get(&said).trim_start()),
            None => format!("{}{others}\n", get(&said)),
        };
        let error = compile(&shop(&methods)).expect_err(&said).to_string();
        assert!(error.contains(want), "{said}: {error}");
        // The option stands in the second line of `Get`.
        assert!(error.starts_with(&format!("a.proto:{}:", FIRST + 1)), "{said}: {error}");
        assert!(error.contains(": method shop.Shop.Get: "), "{error}");
    }
}

#[test]
fn streams_have_no_key_order_place_or_transaction() {
    for (stream, said, want) in [
        (
            "stream Request) returns (Reply",
            "option (millrace.key) = \"id\";",
            "a stream of requests has no key",
        ),
        (
            "Request) returns (stream Reply",
            "option (millrace.key) = \"id\"; option (millrace.cacheable) = { ttl_seconds: 9 };",
            "cacheable, but it streams",
        ),
        (
            "Request) returns (stream Reply",
            "option (millrace.order) = PER_CONNECTION;",
            "streams are in order",
        ),
        ("Request) returns (stream Reply", "option (millrace.places) = HOST;", "add EDGE"),
        (
            "stream Request) returns (Reply",
            "option (millrace.transaction) = true;",
            "one request and one reply",
        ),
    ] {
        let method = format!("  rpc Get({stream}) {{ {said} }}\n");
        let error = compile(&shop(&method)).expect_err(said).to_string();
        assert!(error.starts_with(&format!("a.proto:{FIRST}:")) && error.contains(want), "{error}");
    }
    let fine = "rpc Get(Request) returns (stream Reply) { option (millrace.key) = \"id\"; option (millrace.places) = EDGE; }";
    assert!(of(fine, "Get").key.is_some());
}

#[test]
fn the_column_is_the_options() {
    let error = compile(&shop("  rpc Get(Request) returns (Reply) { option (millrace.order) = PER_KEY; }\n"));
    let error = error.expect_err("no key").to_string();
    assert!(error.starts_with(&format!("a.proto:{FIRST}:38: method shop.Shop.Get: ")), "{error}");
    let field = "syntax = \"proto3\"; import \"millrace/options.proto\";\nmessage M {\n  uint32 a = 1 [(millrace.acc) = true];\n}";
    let error = compile(field).expect_err("a scalar").to_string();
    assert!(error.starts_with("a.proto:3:17: field M.a: "), "{error}");
}

#[test]
fn a_key_has_no_default_of_its_own() {
    let text = "syntax = \"proto2\"; import \"millrace/options.proto\"; message M { optional int32 a = 1 [default = 5]; }\n\
                service S { rpc Get(M) returns (M) { option (millrace.key) = \"a\"; } }";
    let error = compile(text).expect_err("a default").to_string();
    assert!(error.starts_with("a.proto:2:") && error.contains("has a default value"), "{error}");
}

#[test]
fn unknown_places_and_orders_are_refused_where_they_stand() {
    for said in [
        "option (millrace.places) = MOON;",
        "option (millrace.order) = RANDOM;",
        "option (millrace.keys) = \"id\";",
    ] {
        let error = compile(&shop(&get(said))).expect_err(said).to_string();
        assert!(error.starts_with(&format!("a.proto:{}:", FIRST + 1)), "{error}");
    }
}

#[test]
fn the_files_of_options_are_in_no_schema() {
    let text = shop(&get("option (millrace.order) = PER_CONNECTION;"));
    let set = Compiler::new().source("a.proto", text).descriptor_set(&["a.proto"]).expect("a right file");
    let schema = Schema::from_descriptor_set(&set).expect("a schema");
    assert_eq!(schema.files().len(), 1);
    assert!(schema.message("millrace.Cacheable").is_none() && schema.enumeration("millrace.Order").is_none());
    // A message may be made of them all the same.
    let text =
        "syntax = \"proto3\"; import \"millrace/options.proto\"; message M { millrace.Cacheable how = 1; }";
    let schema = compile(text).expect("a right file");
    assert!(schema.message("millrace.Cacheable").is_some());
}
