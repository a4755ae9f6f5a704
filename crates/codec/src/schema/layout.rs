//! From a [`Schema`] to the lines of a [`Table`]: where each field lies in an object, and where each record lies in the table.
//!
//! Shape of an object: presence words, the `Ref` of unknown fields at the next multiple of 8, then slots of 16 bytes, slots of
//! 8, oneofs (case word, 4 bytes of nothing, a slot as large as its largest member), slots of 4, slots of 1; within a size in
//! ascending order of field number. So nothing but the presence words and the end needs padding.
//!
//! Invariants: (1) the same schema makes the same table, byte for byte; (2) slots do not overlap, except those of one oneof,
//! and lie on multiples of their size, up to 8. Tested on random schemas.

use base::hash::{Hasher64, WIRE_SEED};

use super::{Enum, Field, Label, Message, Schema};
use crate::table::{self, ClosedEnum, Entry, Flags, Line, Table};

/// Field numbers below this are in the lookup whatever it costs: 8 lines.
const ALWAYS_DENSE: u32 = 256;
/// Beyond that, the lookup goes on as long as at least one number in four is a field.
const DENSITY: usize = 4;

/// Where the parts of an object lie.
pub(super) struct Placement {
    pub size: usize,
    pub words: usize,
    pub unknown: usize,
    /// Of each field's value.
    pub offsets: Vec<usize>,
}

impl Placement {
    pub fn of(message: &Message) -> Placement {
        let words = message.fields.len().div_ceil(32);
        let unknown = (words * 4).next_multiple_of(8);
        let mut end = unknown + 16;
        let mut offsets = vec![0; message.fields.len()];
        for size in [16, 8] {
            end = place_slots(message, size, end, &mut offsets);
        }
        for oneof in &message.oneofs {
            let members = oneof.fields.iter().map(|member| *member as usize);
            let largest = members.clone().map(|member| slot(&message.fields[member])).max().unwrap_or(0);
            for member in members {
                offsets[member] = end + 8;
            }
            end += 8 + largest.next_multiple_of(8);
        }
        for size in [4, 1] {
            end = place_slots(message, size, end, &mut offsets);
        }
        Placement { size: end.next_multiple_of(8), words, unknown, offsets }
    }
}

/// Bytes of a field's slot, as [`Entry::slot`] says.
fn slot(field: &Field) -> usize {
    if field.is_repeated() { 16 } else { field.kind.size() }
}

/// Places the fields of that size that are in no oneof from `end` on; says where the next thing goes.
fn place_slots(message: &Message, size: usize, mut end: usize, offsets: &mut [usize]) -> usize {
    for (field, offset) in message.fields.iter().zip(offsets) {
        if field.oneof.is_none() && slot(field) == size {
            *offset = end;
            end += size;
        }
    }
    end
}

/// Lays the whole table out.
pub(super) fn table(schema: &Schema) -> Table {
    let classes = schema.messages.len();
    let mut lines = vec![Line::default(); 1 + classes];
    // Messages name the lines of closed enums, which lie behind those of all messages: measure, then fill in.
    let plans: Vec<Plan> = schema.messages.iter().map(Plan::of).collect();
    let behind = 1 + classes + plans.iter().map(Plan::lines).sum::<usize>();
    let enum_lines = enum_lines(schema, behind);

    for (message, plan) in schema.messages.iter().zip(&plans) {
        plan.write(schema, message, &enum_lines, &mut lines);
    }
    for known in schema.enums.iter().filter(|known| known.closed) {
        write_enum(known, &mut lines);
    }
    let header = u64::from(Table::MAGIC) | u64::from(Table::VERSION) << 32;
    lines[0].0[0] = header;
    lines[0].0[1] = pair(lines.len() as u32, classes as u32);
    lines[0].0[2] = hash_layout(schema, &lines);
    Table::from_lines(lines.into())
}

/// The line of each closed enum, 0 for open ones.
fn enum_lines(schema: &Schema, first: usize) -> Vec<u32> {
    let mut next = first;
    let line = |known: &Enum| {
        if !known.closed {
            return 0;
        }
        let line = next;
        next += 1 + sorted_values(known).len().div_ceil(16);
        line as u32
    };
    schema.enums.iter().map(line).collect()
}

/// One message's part of the table.
struct Plan {
    placement: Placement,
    dense: u32,
    required: bool,
}

impl Plan {
    fn of(message: &Message) -> Plan {
        let mut dense = 0;
        for (index, field) in message.fields.iter().enumerate() {
            if field.number < ALWAYS_DENSE || (index + 1) * DENSITY > field.number as usize {
                dense = field.number + 1;
            }
        }
        let required = message.fields.iter().any(|field| field.label == Label::Required);
        Plan { placement: Placement::of(message), dense, required }
    }

    /// Lines behind the message's own.
    fn lines(&self) -> usize {
        self.placement.offsets.len().div_ceil(4)
            + (self.dense as usize).div_ceil(32)
            + if self.required { self.placement.words.div_ceil(16) } else { 0 }
    }

    fn write(&self, schema: &Schema, message: &Message, enum_lines: &[u32], lines: &mut Vec<Line>) {
        let entries = lines.len();
        let words = (0..message.fields.len())
            .flat_map(|index| entry_words(&self.entry(schema, message, enum_lines, index)));
        push_words(words, lines);
        let lookup = lines.len();
        self.push_lookup(message, lines);
        let required = if self.required { lines.len() } else { 0 };
        if self.required {
            push_words(required_masks(message), lines);
        }
        let map_entry = if message.map_entry { table::Message::MAP_ENTRY } else { 0 };
        let plain = if message.fields.iter().any(Field::is_repeated) { 0 } else { table::Message::PLAIN };
        lines[1 + message.class as usize] = message_line(&table::Message {
            size: self.placement.size as u32,
            words: self.placement.words as u16,
            fields: message.fields.len() as u16,
            entries: entries as u32,
            dense: self.dense,
            lookup: lookup as u32,
            required: required as u32,
            unknown: self.placement.unknown as u32,
            flags: map_entry | plain,
            class: message.class,
            reserved: [0; 7],
        });
    }

    fn push_lookup(&self, message: &Message, lines: &mut Vec<Line>) {
        let mut lookup = vec![0u64; (self.dense as usize).div_ceil(4)];
        for (index, field) in message.fields.iter().enumerate().filter(|(_, f)| f.number < self.dense) {
            lookup[field.number as usize / 4] |= (index as u64 + 1) << (field.number % 4 * 16);
        }
        push_words(lookup, lines);
    }

    fn entry(&self, schema: &Schema, message: &Message, enum_lines: &[u32], index: usize) -> Entry {
        let field = &message.fields[index];
        let closed = field.enumeration.filter(|known| schema.enums[*known as usize].closed);
        let wire_type = if field.packed { 2 } else { field.kind.wire_type() };
        let shape = match field.label {
            Label::Map => Entry::REPEATED | Entry::MAP,
            Label::Repeated => Entry::REPEATED,
            _ => 0,
        };
        let flags = [
            (field.acc, Flags::ACC),
            (field.utf8, Flags::UTF8),
            (field.packed, Flags::PACKED),
            (field.oneof.is_some(), Flags::ONEOF),
            (field.label == Label::Required, Flags::REQUIRED),
            (field.label == Label::Implicit, Flags::IMPLICIT),
            (closed.is_some(), Flags::CLOSED),
        ];
        let again = field.is_repeated() && !field.packed;
        Entry {
            tag: field.number << 3 | wire_type,
            op: field.kind as u8 | shape,
            flags: flags.iter().filter(|(on, _)| *on).fold(Flags::default(), |all, (_, flag)| all.and(*flag)),
            next: if again { index } else { (index + 1) % message.fields.len() } as u16,
            offset: self.placement.offsets[index] as u32,
            aux: match closed {
                Some(known) => enum_lines[known as usize],
                None => field.message.unwrap_or(0),
            },
        }
    }
}

/// One mask per presence word, two to a word of a line.
fn required_masks(message: &Message) -> Vec<u64> {
    let mut masks = vec![0u64; message.fields.len().div_ceil(64)];
    for (index, _) in message.fields.iter().enumerate().filter(|(_, f)| f.label == Label::Required) {
        masks[index / 64] |= 1 << (index % 64);
    }
    masks
}

/// A closed enum's record, then its values.
fn write_enum(known: &Enum, lines: &mut Vec<Line>) {
    let values = sorted_values(known);
    let low = values[0];
    let mut mask = [0u64; 4];
    for above in values.iter().map(|value| value.wrapping_sub(low) as u32).filter(|above| *above < 256) {
        mask[above as usize / 64] |= 1 << (above % 64);
    }
    let first = lines.len() as u32 + 1;
    let record = ClosedEnum { mask, low, count: values.len() as u32, values: first, reserved: [0; 5] };
    lines.push(enum_line(&record));
    push_words(values.chunks(2).map(|two| pair(two[0] as u32, two.get(1).map_or(0, |v| *v as u32))), lines);
}

fn sorted_values(known: &Enum) -> Vec<i32> {
    let mut values: Vec<i32> = known.values.iter().map(|value| value.1).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Appends words, eight to a line, the last line filled with zeros.
fn push_words(words: impl IntoIterator<Item = u64>, lines: &mut Vec<Line>) {
    let mut place = 8;
    for word in words {
        if place == 8 {
            lines.push(Line::default());
            place = 0;
        }
        lines.last_mut().expect("a line was just pushed").0[place] = word;
        place += 1;
    }
}

/// The layout hash: over all lines, with target bits cleared and its own place zero.
fn hash_layout(schema: &Schema, lines: &[Line]) -> u64 {
    let mut lines = lines.to_vec();
    let acc = u64::from(Flags::ACC.0) << 40;
    for message in &schema.messages {
        let first = (lines[1 + message.class as usize].0[1]) as u32 as usize;
        for index in 0..message.fields.len() {
            lines[first + index / 4].0[index % 4 * 2] &= !acc;
        }
    }
    let bytes: Vec<u8> = lines.iter().flat_map(|line| line.0).flat_map(u64::to_le_bytes).collect();
    Hasher64::new(WIRE_SEED).hash(&bytes)
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A message's record as it lies in its line.
fn message_line(message: &table::Message) -> Line {
    Line([
        pair(message.size, u32::from(message.words) | u32::from(message.fields) << 16),
        pair(message.entries, message.dense),
        pair(message.lookup, message.required),
        pair(message.unknown, message.flags),
        u64::from(message.class),
        0,
        0,
        0,
    ])
}

/// An entry as it lies in its line.
fn entry_words(entry: &Entry) -> [u64; 2] {
    let high = u32::from(entry.op) | u32::from(entry.flags.0) << 8 | u32::from(entry.next) << 16;
    [pair(entry.tag, high), pair(entry.offset, entry.aux)]
}

/// A closed enum's record as it lies in its line.
fn enum_line(known: &ClosedEnum) -> Line {
    let [a, b, c, d] = known.mask;
    Line([a, b, c, d, pair(known.low as u32, known.count), u64::from(known.values), 0, 0])
}
