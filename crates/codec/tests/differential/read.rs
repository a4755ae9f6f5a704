//! One of our objects as a [`Tree`], read by the table's word.

use crate::tree::{Tree, Value};
use crate::wire::unknown_fields;
use codec::object::{Addr, View, bytes_of, view_at};
use codec::table::{Entry, Flags, Kind, Table};

/// Reads objects of a table.
pub struct Reader {
    pub table: Table,
}

impl Reader {
    /// What an object of `class` says; it lies in host memory.
    pub fn tree(&self, class: u32, view: View) -> Tree {
        let message = self.table.message(class);
        let mut tree = Tree::default();
        for (index, entry) in self.table.entries(message).iter().enumerate() {
            let value = if entry.is_repeated() {
                self.repeated(entry, view)
            } else {
                self.singular(entry, index as u32, view)
            };
            if let Some(value) = value {
                tree.fields.insert(entry.number(), value);
            }
        }
        // SAFETY: every object has a Ref of runs there.
        let runs = unsafe { view.refs(message.unknown) };
        // SAFETY: the runs come from this view.
        let unknown: Vec<u8> = runs.iter().flat_map(|&run| unsafe { bytes_of(run) }).copied().collect();
        tree.unknown = unknown_fields(&unknown);
        tree
    }

    fn singular(&self, entry: &Entry, index: u32, view: View) -> Option<Value> {
        if entry.kind().is_message() {
            // SAFETY: the entry is of the view's class and a sub-message.
            let inner = unsafe { view.message(index, entry.offset) }?;
            return Some(Value::Message(self.tree(entry.aux, inner)));
        }
        // SAFETY: the entry is of the view's class.
        if !unsafe { view.has(index) } {
            return None;
        }
        let at = entry.offset;
        // SAFETY: the entry is of the view's class, and each kind is read as what it is in an object.
        let value = unsafe {
            match entry.kind() {
                Kind::String | Kind::Bytes => Value::Bytes(view.bytes(at).to_vec()),
                kind => number(kind, |size| match size {
                    1 => view.scalar::<u8>(at).into(),
                    4 => view.scalar::<u32>(at).into(),
                    _ => view.scalar::<u64>(at),
                }),
            }
        };
        (!entry.flags.has(Flags::IMPLICIT) || !is_zero(&value)).then_some(value)
    }

    fn repeated(&self, entry: &Entry, view: View) -> Option<Value> {
        let at = entry.offset;
        let kind = entry.kind();
        // SAFETY: the entry is of the view's class, and each kind is read as what it is in an array.
        let values: Vec<Value> = unsafe {
            match (kind, kind.size()) {
                (Kind::String | Kind::Bytes, _) => {
                    view.refs(at).iter().map(|&element| Value::Bytes(bytes_of(element).to_vec())).collect()
                }
                (Kind::Message | Kind::Group, _) if entry.is_map() => {
                    let entries = view.messages(at);
                    let map = entries.iter().map(|&element| self.map_entry(entry.aux, view_at(element)));
                    return (!entries.is_empty()).then(|| Value::Map(map.collect()));
                }
                (Kind::Message | Kind::Group, _) => {
                    let of = |&element: &Addr| Value::Message(self.tree(entry.aux, view_at(element)));
                    view.messages(at).iter().map(of).collect()
                }
                (_, 1) => view.array::<u8>(at).iter().map(|&value| number(kind, |_| value.into())).collect(),
                (_, 4) => view.array::<u32>(at).iter().map(|&value| number(kind, |_| value.into())).collect(),
                _ => view.array::<u64>(at).iter().map(|&value| number(kind, |_| value)).collect(),
            }
        };
        (!values.is_empty()).then_some(Value::List(values))
    }

    /// Key and value, which have defaults when they are not there.
    fn map_entry(&self, class: u32, view: View) -> (Value, Value) {
        let mut fields = self.tree(class, view).fields;
        let mut take = |index: usize| {
            let entry = &self.table.entries(self.table.message(class))[index];
            fields.remove(&entry.number()).unwrap_or_else(|| match entry.kind() {
                Kind::String | Kind::Bytes => Value::Bytes(Vec::new()),
                Kind::Message | Kind::Group => panic!("a map entry has a message, if an empty one"),
                // SAFETY: the entry is of the view's class; what is not there reads as zero.
                kind => number(kind, |size| unsafe {
                    match size {
                        1 => view.scalar::<u8>(entry.offset).into(),
                        4 => view.scalar::<u32>(entry.offset).into(),
                        _ => view.scalar::<u64>(entry.offset),
                    }
                }),
            })
        };
        (take(0), take(1))
    }
}

/// A number out of its bits in an object, which `bits` reads given how many bytes they are.
fn number(kind: Kind, bits: impl Fn(usize) -> u64) -> Value {
    let bits = bits(kind.size());
    match kind {
        Kind::Double => Value::Double(bits),
        Kind::Float => Value::Float(bits as u32),
        Kind::Bool => Value::Bool(bits != 0),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Enum => Value::Int((bits as i32).into()),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::Int(bits as i64),
        _ => Value::Uint(bits),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) | Value::Double(value) => *value == 0,
        Value::Float(value) => *value == 0,
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Message(_) | Value::List(_) | Value::Map(_) => false,
    }
}
