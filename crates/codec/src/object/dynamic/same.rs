//! Do two messages say the same?

use super::list::to_key;
use super::{Dynamic, Map, Value};

/// Whether a NaN equals a NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nans {
    /// As floating point has it.
    Differ,
    /// For comparing messages that went through something: every NaN equals every other.
    Equal,
}

impl Dynamic<'_> {
    /// True if both are messages of the same name, the same fields are there with the same values (0.0 = −0.0), maps have
    /// the same entries in any order, and the unknown fields are the same bytes.
    pub fn is_same(self, other: Dynamic<'_>, nans: Nans) -> bool {
        let (mut mine, mut its) = (self.fields(), other.fields());
        if self.message().name != other.message().name {
            return false;
        }
        loop {
            match (mine.next(), its.next()) {
                (None, None) => break,
                (Some((one, a)), Some((two, b))) if one.number == two.number && same(a, b, nans) => {}
                _ => return false,
            }
        }
        self.unknown().flatten().eq(other.unknown().flatten())
    }
}

impl PartialEq for Dynamic<'_> {
    /// As [`Dynamic::is_same`]; a message with a NaN is not equal to itself.
    fn eq(&self, other: &Self) -> bool {
        self.is_same(*other, Nans::Differ)
    }
}

impl PartialEq for Value<'_> {
    /// Values of different kinds are different, NaNs too.
    fn eq(&self, other: &Self) -> bool {
        same(*self, *other, Nans::Differ)
    }
}

fn same(one: Value<'_>, two: Value<'_>, nans: Nans) -> bool {
    match (one, two) {
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::I32(a), Value::I32(b)) | (Value::Enum(a), Value::Enum(b)) => a == b,
        (Value::U32(a), Value::U32(b)) => a == b,
        (Value::I64(a), Value::I64(b)) => a == b,
        (Value::U64(a), Value::U64(b)) => a == b,
        (Value::F32(a), Value::F32(b)) => a == b || nans == Nans::Equal && a.is_nan() && b.is_nan(),
        (Value::F64(a), Value::F64(b)) => a == b || nans == Nans::Equal && a.is_nan() && b.is_nan(),
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Message(a), Value::Message(b)) => a.is_same(b, nans),
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b, nans))
        }
        (Value::Map(a), Value::Map(b)) => a.len() == b.len() && same_maps(a, b, nans),
        _ => false,
    }
}

fn same_maps(one: Map<'_>, two: Map<'_>, nans: Nans) -> bool {
    let (one, two) = (sorted(one), sorted(two));
    one.iter().zip(&two).all(|(a, b)| same(a.0, b.0, nans) && same(a.1, b.1, nans))
}

fn sorted<'a>(map: Map<'a>) -> Vec<(Value<'a>, Value<'a>)> {
    let kind = map.key_kind();
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_cached_key(|(key, _)| to_key(*key, kind));
    entries
}
