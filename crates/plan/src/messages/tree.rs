//! A message as values by field, for messages of any schema: its bytes, what kinds of fields it has, how its objects hang together.
//!
//! Nodes lie in one list and name each other by number, so that whoever reads a file may add to any of them. Field numbers rise on the wire, as in
//! every serialiser of ours.
//!
//! Bounds: [`DEPTH`] messages within each other, as the codec decodes.

use codec::schema::{Field, Schema};
use codec::table::Kind;
use std::collections::BTreeMap;

/// Messages within messages, the root included.
pub const DEPTH: usize = 100;

/// A value of a field, or an element of a repeated one.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, boolean or enum, as 64 bits: signed ones sign-extended, floating-point ones as the bits of their own kind.
    Scalar(u64),
    /// A string or bytes.
    Bytes(Vec<u8>),
    /// A message: the node of that number.
    Message(usize),
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    class: u32,
    depth: usize,
    fields: BTreeMap<usize, Vec<Value>>,
}

/// A message; its root is node 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// An empty message of that class.
    pub fn new(class: u32) -> Tree {
        Tree { nodes: vec![Node { class, depth: 1, fields: BTreeMap::new() }] }
    }

    /// The class of a node.
    pub fn class(&self, node: usize) -> u32 {
        self.nodes[node].class
    }

    /// Sets a field of a node, or adds an element to a repeated one.
    pub fn put(&mut self, node: usize, index: usize, field: &Field, value: Value) {
        let values = self.nodes[node].fields.entry(index).or_default();
        if !field.is_repeated() {
            values.clear();
        }
        values.push(value);
    }

    /// A message in a field of a node: the one that is there, or a new one; in a repeated field always a new one. None if it would be too deep.
    pub fn child(&mut self, node: usize, index: usize, field: &Field) -> Option<usize> {
        let there = self.nodes[node].fields.get(&index).and_then(|values| values.last());
        if let (Some(Value::Message(there)), false) = (there, field.is_repeated()) {
            return Some(*there);
        }
        let depth = self.nodes[node].depth + 1;
        let class = field.message.filter(|_| depth <= DEPTH)?;
        let child = self.nodes.len();
        self.nodes.push(Node { class, depth, fields: BTreeMap::new() });
        self.put(node, index, field, Value::Message(child));
        Some(child)
    }

    /// The message on the wire.
    pub fn wire(&self, schema: &Schema) -> Vec<u8> {
        let mut out = Vec::new();
        self.node(schema, 0, &mut out);
        out
    }

    fn node(&self, schema: &Schema, node: usize, out: &mut Vec<u8>) {
        let node = &self.nodes[node];
        for (&index, values) in &node.fields {
            let field = &schema.messages()[node.class as usize].fields[index];
            if field.packed && field.is_repeated() {
                let mut run = Vec::new();
                for value in values {
                    if let Value::Scalar(bits) = value {
                        scalar(field.kind, *bits, &mut run);
                    }
                }
                delimited(field.number, &run, out);
                continue;
            }
            for value in values {
                match value {
                    Value::Scalar(bits) => {
                        varint(tag(field), out);
                        scalar(field.kind, *bits, out);
                    }
                    Value::Bytes(bytes) => delimited(field.number, bytes, out),
                    Value::Message(child) if field.kind == Kind::Group => {
                        varint(tag(field), out);
                        self.node(schema, *child, out);
                        varint(tag(field) + 1, out);
                    }
                    Value::Message(child) => {
                        let mut inner = Vec::new();
                        self.node(schema, *child, &mut inner);
                        delimited(field.number, &inner, out);
                    }
                }
            }
        }
    }

    /// Messages in it, itself among them.
    pub fn objects(&self) -> usize {
        self.nodes.len()
    }

    /// Levels of messages in messages; 1: none.
    pub fn depth(&self) -> usize {
        self.nodes.iter().map(|node| node.depth).max().unwrap_or(1)
    }

    /// All values of all its messages; elements of a repeated field are some, too.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.nodes.iter().flat_map(|node| node.fields.values().flatten())
    }

    /// Reads that a walk over the codec's objects takes, by how many come before each: an object, an array or a string is one.
    pub fn levels(&self, schema: &Schema) -> Vec<u64> {
        let mut levels = Vec::new();
        self.reads(schema, 0, 0, &mut levels);
        levels
    }

    fn reads(&self, schema: &Schema, node: usize, level: usize, levels: &mut Vec<u64>) {
        add(levels, level);
        let node = &self.nodes[node];
        for (&index, values) in &node.fields {
            let field = &schema.messages()[node.class as usize].fields[index];
            let level = level + 1 + usize::from(field.is_repeated());
            if field.is_repeated() {
                add(levels, level - 1);
            }
            for value in values {
                match value {
                    Value::Bytes(bytes) if !bytes.is_empty() => add(levels, level),
                    Value::Message(child) => self.reads(schema, *child, level, levels),
                    _ => {}
                }
            }
        }
    }

    /// The same message with every string and byte string of `bytes` and more cut to its first byte: what is left when others copy them.
    #[must_use]
    pub fn without_copies(&self, bytes: usize) -> Tree {
        let mut cut = self.clone();
        for value in cut.nodes.iter_mut().flat_map(|node| node.fields.values_mut().flatten()) {
            if let Value::Bytes(text) = value
                && text.len() >= bytes
            {
                text.truncate(1);
            }
        }
        cut
    }
}

fn add(levels: &mut Vec<u64>, level: usize) {
    levels.resize(levels.len().max(level + 1), 0);
    levels[level] += 1;
}

fn tag(field: &Field) -> u64 {
    u64::from(field.number << 3 | field.kind.wire_type())
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn delimited(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(number << 3 | 2), out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn scalar(kind: Kind, bits: u64, out: &mut Vec<u8>) {
    match kind {
        Kind::Bool => varint(u64::from(bits != 0), out),
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => out.extend_from_slice(&(bits as u32).to_le_bytes()),
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => out.extend_from_slice(&bits.to_le_bytes()),
        Kind::Uint32 => varint(u64::from(bits as u32), out),
        // Negative numbers take ten bytes.
        Kind::Int32 | Kind::Enum => varint(i64::from(bits as i32) as u64, out),
        Kind::Sint32 => varint(u64::from(((bits as i32) << 1 ^ (bits as i32) >> 31) as u32), out),
        Kind::Sint64 => varint(((bits as i64) << 1 ^ (bits as i64) >> 63) as u64, out),
        _ => varint(bits, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::compile::Compiler;

    fn lengths(tree: &Tree) -> Vec<usize> {
        let text = |value: &Value| if let Value::Bytes(bytes) = value { Some(bytes.len()) } else { None };
        tree.values().filter_map(text).collect()
    }

    #[test]
    fn bytes_fields_and_reads_are_those_that_one_counts_by_hand() {
        let text = "syntax = \"proto3\"; message Root { int32 a = 1; string b = 2; repeated uint32 c = 3; repeated Root d = 4; \
                    sint32 e = 5; float f = 6; repeated string g = 7; Root h = 8; }";
        let schema = Compiler::new().source("t.proto", text).compile(&["t.proto"]).expect("it is right");
        let class = schema.class("Root").expect("it is there");
        let fields = &schema.messages()[class as usize].fields;
        let mut tree = Tree::new(class);
        tree.put(0, 0, &fields[0], Value::Scalar(-1_i64 as u64));
        tree.put(0, 1, &fields[1], Value::Bytes(b"first".to_vec()));
        tree.put(0, 1, &fields[1], Value::Bytes(b"xy".to_vec()));
        tree.put(0, 2, &fields[2], Value::Scalar(1));
        tree.put(0, 2, &fields[2], Value::Scalar(300));
        let child = tree.child(0, 3, &fields[3]).expect("not deep");
        tree.put(child, 4, &fields[4], Value::Scalar(-1_i64 as u64));
        let other = tree.child(0, 3, &fields[3]).expect("not deep");
        assert_ne!(child, other);
        tree.put(other, 6, &fields[6], Value::Bytes(vec![b'z'; 40]));
        assert_eq!(tree.child(0, 7, &fields[7]), tree.child(0, 7, &fields[7]));
        let mut wire =
            vec![8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 18, 2, b'x', b'y', 26, 3, 1, 0xac, 2];
        wire.extend([34, 2, 40, 1, 34, 42, 58, 40]);
        wire.extend([b'z'; 40]);
        wire.extend([66, 0]);
        assert_eq!(tree.wire(&schema), wire);
        let scalars = tree.values().filter(|value| matches!(value, Value::Scalar(_))).count();
        assert_eq!((tree.objects(), tree.depth(), scalars), (4, 2, 4));
        assert_eq!(lengths(&tree), [2, 40]);
        // Root; its string, two arrays and last object; elements of the array of objects; one's array of strings; its string.
        assert_eq!(tree.levels(&schema), [1, 4, 2, 1, 1]);
        assert_eq!(lengths(&tree.without_copies(32)), [2, 1]);
    }

    #[test]
    fn it_does_not_grow_deeper_than_the_codec_decodes() {
        let text = "syntax = \"proto3\"; message Root { Root h = 8; }";
        let schema = Compiler::new().source("t.proto", text).compile(&["t.proto"]).expect("it is right");
        let class = schema.class("Root").expect("it is there");
        let field = &schema.messages()[class as usize].fields[0];
        let (mut tree, mut node, mut depth) = (Tree::new(class), 0, 1);
        while let Some(child) = tree.child(node, 0, field) {
            (node, depth) = (child, depth + 1);
        }
        assert_eq!(depth, DEPTH);
        assert_eq!(tree.wire(&schema).len(), tree.wire(&schema).len().min(4 * DEPTH));
    }
}
