//! What a descriptor set means, and what is refused.

use super::write::Wire;
use super::{EnumSpec, FieldSpec, FileSpec, MessageSpec, Syntax, descriptor_set};
use crate::schema::{DefaultValue, Label, MAX_ELEMENTS, Problem, Schema, SchemaError};
use crate::table::Kind;

fn field(number: i32, kind: Kind) -> FieldSpec {
    FieldSpec { number, kind: kind as i32, label: 1, ..FieldSpec::default() }
}

/// A schema of one message M0 and one enum E0 = {V0 = 0, V1 = 7}.
fn schema(syntax: Syntax, fields: Vec<FieldSpec>) -> Result<Schema, SchemaError> {
    let messages = vec![MessageSpec { fields, map_entry: false }];
    let enums = vec![EnumSpec { values: vec![0, 7], closed: None }];
    Schema::from_descriptor_set(&descriptor_set(&FileSpec { syntax, messages, enums }))
}

fn problem(syntax: Syntax, fields: Vec<FieldSpec>) -> Problem {
    schema(syntax, fields).unwrap_err().problem
}

#[test]
fn what_the_syntaxes_make_of_the_same_fields() {
    let fields = || {
        let repeated = FieldSpec { label: 3, ..field(3, Kind::Int32) };
        vec![field(1, Kind::String), field(2, Kind::Enum), repeated, field(4, Kind::Message)]
    };
    for (syntax, label, utf8, closed, packed) in [
        (Syntax::Proto2, Label::Explicit, false, true, false),
        (Syntax::Proto3, Label::Implicit, true, false, true),
        (Syntax::Edition2023, Label::Explicit, true, false, true),
    ] {
        let schema = schema(syntax, fields()).unwrap();
        let message = schema.message("t.M0").unwrap();
        assert_eq!((message.fields[0].label, message.fields[0].utf8), (label, utf8), "{syntax:?}");
        assert_eq!(schema.enumeration("t.E0").unwrap().closed, closed, "{syntax:?}");
        assert_eq!(message.fields[2].packed, packed, "{syntax:?}");
        assert_eq!(message.fields[3].label, Label::Explicit, "{syntax:?}");
        assert_eq!(message.fields[0].json_name, "f1");
    }
}

#[test]
fn oneofs_keep_their_members_and_synthetic_ones_go() {
    let fields = vec![
        FieldSpec { oneof: Some(2), ..field(5, Kind::Bool) },
        FieldSpec { oneof: Some(2), ..field(3, Kind::String) },
        FieldSpec { oneof: Some(0), proto3_optional: true, ..field(4, Kind::Int32) },
    ];
    let schema = schema(Syntax::Proto3, fields).unwrap();
    let message = &schema.messages()[0];
    assert_eq!(message.oneofs.len(), 1);
    assert_eq!((message.oneofs[0].name.as_str(), &message.oneofs[0].fields[..]), ("o2", &[0, 2][..]));
    assert_eq!(message.fields[1].label, Label::Explicit);
    let oneofs: Vec<_> = message.fields.iter().map(|field| field.oneof).collect();
    assert_eq!(oneofs, [Some(0), None, Some(0)]);
}

#[test]
fn defaults_are_kept_when_they_are_not_zero() {
    let with = |text, field| FieldSpec { default: Some(text), ..field };
    let fields = vec![
        with("-5", field(1, Kind::Sint32)),
        with("0", field(2, Kind::Int64)),
        with("V1", field(3, Kind::Enum)),
        with("a\\001", field(4, Kind::Bytes)),
        field(5, Kind::Enum),
    ];
    let schema = schema(Syntax::Proto2, fields).unwrap();
    let defaults: Vec<_> = schema.messages()[0].fields.iter().map(|field| field.default.clone()).collect();
    let bits = |bits| Some(DefaultValue::Bits(bits));
    let bytes = Some(DefaultValue::Bytes(b"a\x01"[..].into()));
    assert_eq!(defaults, [bits(0xffff_fffb), None, bits(7), bytes, None]);
}

#[test]
fn an_enum_reads_as_its_first_value() {
    let spec = FileSpec {
        syntax: Syntax::Proto2,
        messages: vec![MessageSpec { fields: vec![field(1, Kind::Enum)], map_entry: false }],
        enums: vec![EnumSpec { values: vec![3, 0], closed: None }],
    };
    let schema = Schema::from_descriptor_set(&descriptor_set(&spec)).unwrap();
    assert_eq!(schema.messages()[0].fields[0].default, Some(DefaultValue::Bits(3)));
}

#[test]
fn an_open_enum_begins_with_zero() {
    let problem = |values, closed| {
        let enums = vec![EnumSpec { values, closed }];
        let spec = FileSpec { syntax: Syntax::Proto3, messages: vec![], enums };
        Schema::from_descriptor_set(&descriptor_set(&spec)).err().map(|error| error.problem)
    };
    assert_eq!(problem(vec![1, 0], None), Some(Problem::FirstValue(1)));
    assert_eq!(problem(vec![1, 0], Some(true)), None);
    assert_eq!(problem(vec![], None), Some(Problem::NoValues));
}

#[test]
fn what_is_refused() {
    let syntax = Syntax::Proto2;
    assert_eq!(problem(syntax, vec![field(0, Kind::Bool)]), Problem::FieldNumber(0));
    assert_eq!(problem(syntax, vec![field(1 << 29, Kind::Bool)]), Problem::FieldNumber(1 << 29));
    let twice = vec![field(1, Kind::Bool), field(1, Kind::Bool)];
    assert_eq!(problem(syntax, twice), Problem::DuplicateNumber(1));
    let missing = vec![FieldSpec { of: 9, ..field(1, Kind::Message) }];
    assert_eq!(problem(syntax, missing), Problem::Unresolved(".t.M9".into()));
    let acc = vec![FieldSpec { acc: true, ..field(1, Kind::Bool) }];
    assert_eq!(problem(syntax, acc), Problem::AccOnScalar);
    let label = vec![FieldSpec { label: 4, ..field(1, Kind::Bool) }];
    assert_eq!(problem(syntax, label), Problem::Meaningless("a label", 4));
    let kind = vec![FieldSpec { kind: 19, ..field(1, Kind::Bool) }];
    assert_eq!(problem(syntax, kind), Problem::Meaningless("a field's type", 19));
    let oneof = vec![FieldSpec { oneof: Some(0), label: 3, ..field(1, Kind::Bool) }];
    assert_eq!(problem(syntax, oneof), Problem::Oneof);
    let default = || vec![FieldSpec { default: Some("x"), ..field(1, Kind::Bool) }];
    assert_eq!(problem(syntax, default()), Problem::Default("x".into()));
    assert_eq!(problem(Syntax::Proto3, default()), Problem::Default("x".into()), "no presence, no default");
    let feature = vec![FieldSpec { features: vec![(1, 9)], ..field(1, Kind::Bool) }];
    assert_eq!(problem(Syntax::Edition2023, feature), Problem::Meaningless("features.field_presence", 9));
}

#[test]
fn errors_say_where() {
    let error = schema(Syntax::Proto2, vec![FieldSpec { acc: true, ..field(3, Kind::Bool) }]).unwrap_err();
    let want =
        "t.proto: field t.M0.f3: (millrace.acc) is only for string, bytes, repeated and message fields";
    assert_eq!(error.to_string(), want);
    let feature = vec![FieldSpec { features: vec![(1, 9)], ..field(1, Kind::Bool) }];
    let error = schema(Syntax::Edition2023, feature).unwrap_err();
    assert_eq!(
        error.to_string(),
        "t.proto: message M0: field f1: 9 means nothing as features.field_presence"
    );
}

#[test]
fn map_entries_are_pairs() {
    let with = |entry: Vec<FieldSpec>, label| {
        let map = FieldSpec { label, of: 1, ..field(1, Kind::Message) };
        let messages = vec![
            MessageSpec { fields: vec![map], map_entry: false },
            MessageSpec { fields: entry, map_entry: true },
        ];
        let spec = FileSpec { syntax: Syntax::Proto3, messages, enums: vec![] };
        Schema::from_descriptor_set(&descriptor_set(&spec))
    };
    let pair = || vec![field(1, Kind::String), field(2, Kind::Bool)];
    let map = with(pair(), 3).unwrap();
    assert_eq!(map.messages()[0].fields[0].label, Label::Map);
    assert!(map.messages()[1].fields.iter().all(|field| field.label == Label::Explicit));
    assert!(with(pair(), 1).is_err(), "a map is repeated");
    for entry in [
        vec![],
        vec![field(1, Kind::String)],
        vec![field(1, Kind::Float), field(2, Kind::Bool)],
        vec![field(1, Kind::String), field(3, Kind::Bool)],
        vec![field(1, Kind::String), FieldSpec { label: 3, ..field(2, Kind::Bool) }],
        vec![field(1, Kind::String), FieldSpec { of: 1, ..field(2, Kind::Message) }],
    ] {
        assert!(with(entry, 3).is_err());
    }
}

/// A file of that name, with messages of these names and for each the types of its fields.
fn file(name: &str, package: &str, messages: &[(&str, &[&str])]) -> Vec<u8> {
    let mut file = Wire::default();
    file.bytes(1, name).bytes(2, package);
    for (name, types) in messages {
        let mut message = Wire::default();
        message.bytes(1, name);
        for (index, of) in types.iter().enumerate() {
            let mut field = Wire::default();
            field.bytes(1, format!("f{index}")).number(3, index as u64 + 1).number(4, 1).bytes(6, of);
            message.bytes(2, field.0);
        }
        file.bytes(4, message.0);
    }
    file.0
}

#[test]
fn descriptor_proto_is_in_the_schema_only_when_used() {
    let descriptor = file("google/protobuf/descriptor.proto", "google.protobuf", &[("FieldOptions", &[])]);
    let classes = |files: &[&[u8]]| {
        let mut set = Wire::default();
        for file in files {
            set.bytes(1, file);
        }
        Schema::from_descriptor_set(&set.0).unwrap().messages().len()
    };
    let user = file("u.proto", "u", &[("U", &[".google.protobuf.FieldOptions"])]);
    let other = file("o.proto", "google.protobuf", &[("Any", &[".google.protobuf.Any"])]);
    assert_eq!(classes(&[&descriptor]), 1);
    assert_eq!(classes(&[&descriptor, &user]), 2);
    assert_eq!(classes(&[&descriptor, &other]), 1);
}

#[test]
fn names_are_identifiers() {
    for (package, name) in [("p", ""), ("p", "a b"), ("p", "1a"), ("p", "é"), ("p..q", "M"), (".p", "M")] {
        let mut set = Wire::default();
        set.bytes(1, file("a.proto", package, &[(name, &[])]));
        let error = Schema::from_descriptor_set(&set.0).unwrap_err();
        assert_eq!(error.problem, Problem::Name, "{package} {name}");
    }
    let mut set = Wire::default();
    set.bytes(1, file("a.proto", "p.q", &[("M", &[]), ("M", &[])]));
    let error = Schema::from_descriptor_set(&set.0).unwrap_err();
    assert_eq!(error.to_string(), "a.proto: message p.q.M: the name p.q.M is used twice; rename one");
}

#[test]
fn limits_hold() {
    let many = |count: i32| (1..=count).map(|number| field(number, Kind::String)).collect::<Vec<_>>();
    assert!(schema(Syntax::Proto3, many(65_000)).is_ok());
    assert!(matches!(problem(Syntax::Proto3, many(65_536)), Problem::TooMany("fields", 65_536, 65_535)));
    let oneofs = (1..=60_000).map(|n| FieldSpec { oneof: Some(n - 1), ..field(n, Kind::String) });
    assert!(matches!(
        problem(Syntax::Proto3, oneofs.collect()),
        Problem::TooMany("bytes in an object", 1_447_520, 1_048_576)
    ));
    let mut nested = vec![];
    for _ in 0..70 {
        let mut message = Wire::default();
        message.bytes(1, "N").bytes(3, nested);
        nested = message.0;
    }
    let (mut file, mut set) = (Wire::default(), Wire::default());
    file.bytes(4, nested);
    set.bytes(1, file.0);
    let error = Schema::from_descriptor_set(&set.0).unwrap_err();
    assert!(matches!(error.problem, Problem::TooMany("levels of nested messages", _, _)));
    let mut message = Wire::default();
    message.bytes(1, "M");
    for _ in 0..MAX_ELEMENTS {
        message.bytes(8, "");
    }
    let (mut file, mut set) = (Wire::default(), Wire::default());
    file.bytes(4, message.0);
    set.bytes(1, file.0);
    let error = Schema::from_descriptor_set(&set.0).unwrap_err();
    assert!(matches!(error.problem, Problem::TooMany("elements", _, _)));
}
