mod options;

use super::*;
use crate::schema::Label;
use crate::table::Kind;

fn compile(text: &str) -> Result<Schema, CompileError> {
    Compiler::new().source("a.proto", text).compile(&["a.proto"])
}

#[test]
fn proto3_and_the_target_option() {
    let schema = compile(
        r#"syntax = "proto3"; package photo; import "millrace/options.proto";
        message Request { string user = 1; bytes image = 2 [(millrace.acc) = true]; optional uint32 quality = 3; }"#,
    )
    .unwrap();
    assert_eq!(schema.messages().len(), 1, "descriptor.proto is left out");
    let request = schema.message("photo.Request").unwrap();
    assert!(request.field("image").unwrap().acc && !request.field("user").unwrap().acc);
    assert_eq!(request.field("user").unwrap().label, Label::Implicit);
    assert_eq!(request.field("quality").unwrap().label, Label::Explicit);
    assert!(request.oneofs.is_empty(), "proto3 optional makes no oneof");
    schema.table();
}

#[test]
fn a_scalar_has_no_target() {
    let error = compile(
        r#"syntax = "proto3"; package photo; import "millrace/options.proto";
        message Request { uint32 quality = 3 [(millrace.acc) = true]; }"#,
    )
    .unwrap_err();
    let want = "a.proto:2:47: field photo.Request.quality: (millrace.acc) is only for string, bytes, repeated and message fields";
    assert_eq!(error.to_string(), want);
}

#[test]
fn editions_take_their_features() {
    let schema = compile(
        r#"edition = "2023"; option features.message_encoding = DELIMITED;
        message M {
            int32 plain = 1;
            int32 implicit = 2 [features.field_presence = IMPLICIT];
            int32 required = 3 [features.field_presence = LEGACY_REQUIRED];
            M group = 4;
            M message = 5 [features.message_encoding = LENGTH_PREFIXED];
            repeated int32 packed = 6;
            repeated int32 expanded = 7 [features.repeated_field_encoding = EXPANDED];
            map<string, M> map = 8 [features.utf8_validation = NONE];
            string text = 9;
            C closed = 10;
            oneof o { string s = 11; }
        }
        enum C { option features.enum_type = CLOSED; ONE = 1; TWO = 2; }"#,
    )
    .unwrap();
    let message = schema.message("M").unwrap();
    let field = |name| message.field(name).unwrap();
    assert_eq!(field("plain").label, Label::Explicit);
    assert_eq!(field("implicit").label, Label::Implicit);
    assert_eq!(field("required").label, Label::Required);
    assert_eq!((field("group").kind, field("message").kind), (Kind::Group, Kind::Message));
    assert_eq!((field("packed").packed, field("expanded").packed), (true, false));
    assert_eq!((field("map").label, field("map").kind), (Label::Map, Kind::Message));
    let entry = &schema.messages()[field("map").message.unwrap() as usize];
    assert_eq!((entry.fields[0].utf8, entry.fields[1].kind), (false, Kind::Message));
    assert!(field("text").utf8 && field("closed").default.is_some());
    assert!(schema.enumeration("C").unwrap().closed);
}

#[test]
fn errors_name_file_and_line() {
    let text = |error: CompileError| error.to_string();
    let error = text(compile("syntax = \"proto3\";\nmessage M {\n Nope a = 1;\n}").unwrap_err());
    assert!(error.starts_with("a.proto:3:") && error.contains("Nope"), "{error}");
    let error = text(compile("edition = \"2023\";\nmessage M {\n Nope a = 1;\n}").unwrap_err());
    assert!(error.starts_with("a.proto:3:") && error.contains("Nope"), "{error}");
    let error = text(compile("edition = \"2024\";").unwrap_err());
    assert!(error.starts_with("a.proto:1: edition 2024"), "{error}");
    let error = text(compile("syntax = \"proto3\";\nimport \"b.proto\";").unwrap_err());
    assert!(error.contains("b.proto") && error.contains("not found"), "{error}");
    let error = text(Compiler::new().compile(&["nowhere.proto"]).unwrap_err());
    assert!(error.contains("nowhere.proto"), "{error}");
}
