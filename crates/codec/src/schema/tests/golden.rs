//! The exact table of one small schema.

use super::{EnumSpec, FieldSpec, FileSpec, MessageSpec, Syntax, descriptor_set};
use crate::schema::Schema;
use crate::table::Kind;

fn field(number: i32, kind: Kind, label: i32) -> FieldSpec {
    FieldSpec { number, kind: kind as i32, label, ..FieldSpec::default() }
}

#[test]
fn the_table_of_a_small_schema() {
    let member = |number, kind| FieldSpec { oneof: Some(0), ..field(number, kind, 1) };
    let entry = vec![field(1, Kind::String, 1), field(2, Kind::Message, 1)];
    let spec = FileSpec {
        syntax: Syntax::Proto2,
        messages: vec![
            MessageSpec {
                fields: vec![
                    field(1, Kind::Bool, 1),
                    field(2, Kind::Uint64, 2),
                    FieldSpec { acc: true, ..field(3, Kind::Bytes, 1) },
                    FieldSpec { packed: Some(true), ..field(4, Kind::Sint32, 3) },
                    FieldSpec { of: 1, ..field(5, Kind::Message, 3) },
                    member(6, Kind::String),
                    member(7, Kind::Float),
                    field(1000, Kind::Enum, 1),
                ],
                map_entry: false,
            },
            MessageSpec { fields: entry, map_entry: true },
        ],
        enums: vec![EnumSpec { values: vec![1, 5, -1], closed: None }],
    };
    let schema = Schema::from_descriptor_set(&descriptor_set(&spec)).unwrap();
    assert_eq!(schema.table().describe(&schema), include_str!("golden.txt"));
}
