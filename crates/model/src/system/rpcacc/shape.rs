//! What a Protobuf message looks like to whoever (de)serialises it: how many fields of which kinds, how deep, how long.
//!
//! Values do not matter, and neither does the order of fields. A message in memory is C++ objects as protoc generates them: an object has a header
//! (vtable, metadata, has-bits and cached size) and a slot of eight bytes for every field; a string is a pointer to a `std::string`, which keeps
//! up to 15 characters in itself and points to the others. So a walk from field to field *dereferences* once for each object and each short
//! string, and twice for each longer one.

/// Characters that a `std::string` of libstdc++ keeps in itself.
const INLINE: u64 = 15;
/// Bytes of a `std::string`.
const STRING: u64 = 32;
/// Bytes of an object before its fields.
const OBJECT: u64 = 24;
/// Bytes of a field in its object: a value or a pointer.
const SLOT: u64 = 8;
/// Bytes of a scalar on the wire: a tag, and a varint of two or three bytes, as most are.
const WIRE_SCALAR: u64 = 4;
/// Bytes before a string or a sub-message on the wire: tag and length.
const WIRE_HEADER: u64 = 3;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// For rows.
    pub name: String,
    /// Messages in it, itself among them.
    pub objects: u64,
    /// Levels of messages in messages; 1: none.
    pub depth: u64,
    /// Numbers, booleans, enumerations.
    pub scalars: u64,
    /// Lengths of strings and byte strings.
    pub strings: Vec<u64>,
}

impl Shape {
    /// A flat message.
    pub fn flat(name: &str, scalars: u64, strings: &[u64]) -> Shape {
        Shape { name: name.into(), objects: 1, depth: 1, scalars, strings: strings.into() }
    }

    /// Fields, sub-messages among them.
    pub fn fields(&self) -> u64 {
        self.scalars + self.strings.len() as u64 + self.objects - 1
    }

    /// Bytes of all strings.
    pub fn characters(&self) -> u64 {
        self.strings.iter().sum()
    }

    /// Bytes on the wire.
    pub fn wire(&self) -> u64 {
        let headers = (self.strings.len() as u64 + self.objects - 1) * WIRE_HEADER;
        self.scalars * WIRE_SCALAR + headers + self.characters()
    }

    /// Bytes of a field, in the mean.
    pub fn average_field(&self) -> f64 {
        self.wire() as f64 / self.fields().max(1) as f64
    }

    /// Strings that do not fit into their `std::string`.
    pub fn long_strings(&self) -> impl Iterator<Item = u64> + '_ {
        self.strings.iter().copied().filter(|length| *length > INLINE)
    }

    /// Bytes in memory.
    pub fn memory(&self) -> u64 {
        let objects = self.objects * OBJECT + self.fields() * SLOT;
        objects + self.strings.len() as u64 * STRING + self.long_strings().sum::<u64>()
    }

    /// Writes of a deserialiser that writes each field where it belongs: headers and pointers of objects, values, strings, characters.
    pub fn writes(&self) -> Vec<u64> {
        let repeated = |bytes: u64, count: u64| std::iter::repeat_n(bytes, count as usize);
        let mut writes: Vec<u64> = repeated(OBJECT, self.objects).collect();
        writes.extend(repeated(SLOT, self.objects - 1 + self.scalars));
        for length in &self.strings {
            writes.push(STRING);
            writes.extend((*length > INLINE).then_some(*length));
        }
        writes
    }

    /// Reads of which each needs one before, by distance from the root.
    pub fn dereferences(&self) -> Vec<u64> {
        let long = self.long_strings().count() as u64;
        let below = self.objects - 1 + self.strings.len() as u64 + long;
        // Messages below messages, then strings, then their characters; whatever is below the root is at least one level below.
        let strings = match (self.strings.is_empty(), long) {
            (true, _) => 0,
            (false, 0) => 1,
            (false, _) => 2,
        };
        let levels = (self.depth - 1 + strings).max(1);
        let share = |i: u64| (below * (i + 1)) / levels - below * i / levels;
        std::iter::once(1).chain((0..levels).map(share).filter(|count| *count > 0)).collect()
    }

    /// Bytes of the buffer that a pre-serialising processor writes: values unencoded, and a descriptor for every field.
    pub fn presented(&self) -> u64 {
        self.characters() + self.fields() * SLOT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_small_message_is_what_one_counts_by_hand() {
        // A root with two numbers, a short and a long string, and a sub-message with a number.
        let shape = Shape { name: "m".into(), objects: 2, depth: 2, scalars: 3, strings: vec![10, 100] };
        assert_eq!((shape.fields(), shape.characters(), shape.wire()), (6, 110, 12 + 9 + 110));
        assert_eq!(shape.memory(), 2 * 24 + 6 * 8 + 2 * 32 + 100);
        assert_eq!(shape.writes(), [24, 24, 8, 8, 8, 8, 32, 32, 100]);
        assert_eq!(shape.dereferences().iter().sum::<u64>(), 1 + 1 + 2 + 1);
        assert_eq!(shape.dereferences().len(), 4);
        assert_eq!(Shape::flat("n", 5, &[]).dereferences(), [1]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_is_there(
            objects in 1u64..40, scalars in 0u64..100, depth in 1u64..12,
            strings in proptest::collection::vec(0u64..100_000, 0..20),
        ) {
            let depth = depth.min(objects);
            let shape = Shape { name: "m".into(), objects, depth, scalars, strings };
            prop_assert_eq!(shape.writes().iter().sum::<u64>() + shape.strings.len() as u64 * 8, shape.memory());
            let below: u64 = shape.dereferences().iter().sum();
            prop_assert_eq!(below, objects + shape.strings.len() as u64 + shape.long_strings().count() as u64);
            prop_assert!(shape.presented() >= shape.characters());
        }
    }
}
