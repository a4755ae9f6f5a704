//! What a message means, in one form for both sides: two decoders agree if their trees are equal.

use crate::wire::Unknown;
use std::collections::BTreeMap;

/// The present fields of a message, by number, and its unknown fields in order of number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tree {
    pub fields: BTreeMap<u32, Value>,
    pub unknown: Vec<(u32, Unknown)>,
}

/// A value; floating point by its bits, strings by their bytes, enums by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(u32),
    Double(u64),
    Bytes(Vec<u8>),
    Message(Tree),
    List(Vec<Value>),
    Map(BTreeMap<Value, Value>),
}
