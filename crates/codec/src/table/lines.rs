//! The table as one block of lines, and safe ways to look at the records in it.

use super::{ClosedEnum, Entry, Flags, Message};

/// 64 bytes of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(64))]
pub struct Line(pub [u64; 8]);

/// A schema table. Made only by the schema compiler ([`crate::schema`]), so that what it says of objects is true: lanes
/// write memory by its offsets.
#[derive(Clone, PartialEq, Eq)]
pub struct Table {
    lines: Box<[Line]>,
    classes: u32,
}

impl Table {
    /// "MRST" in the first line.
    pub const MAGIC: u32 = u32::from_le_bytes(*b"MRST");
    /// Of the layout described in the module's head.
    pub const VERSION: u32 = 1;

    /// Takes lines that the schema compiler has laid out. The header must be right; the records are the compiler's word.
    pub(crate) fn from_lines(lines: Box<[Line]>) -> Table {
        let header = lines[0].0;
        assert_eq!(header[0] as u32, Table::MAGIC, "a table begins with its magic number");
        assert_eq!((header[0] >> 32) as u32, Table::VERSION, "a table of this version");
        assert_eq!(header[1] as u32 as usize, lines.len(), "a table knows its length");
        let classes = (header[1] >> 32) as u32;
        assert!((classes as usize) < lines.len(), "a table has a line for each message");
        Table { lines, classes }
    }

    /// How many messages the table describes; class ids are below it.
    pub fn classes(&self) -> u32 {
        self.classes
    }

    /// All of it.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// A number that changes when an object's layout or a field's meaning does; target bits do not count.
    pub fn layout_hash(&self) -> u64 {
        self.lines[0].0[2]
    }

    /// The line of a message.
    ///
    /// # Panics
    /// If the table has no such class.
    #[inline]
    pub fn message(&self, class: u32) -> &Message {
        assert!(class < self.classes, "class {class} is not in this table");
        // SAFETY: the line exists (from_lines), has Message's size and alignment, and any bits are a Message.
        unsafe { &*(&raw const self.lines[1 + class as usize]).cast::<Message>() }
    }

    /// The field entries of a message, in ascending order of field number.
    #[inline]
    pub fn entries(&self, message: &Message) -> &[Entry] {
        let count = usize::from(message.fields);
        let lines = &self.lines[message.entries as usize..][..count.div_ceil(4)];
        // SAFETY: four entries fill one line exactly, the alignment of lines is above that of entries, and any bits are an Entry.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast::<Entry>(), count) }
    }

    /// Index of the entry with that field number.
    #[inline]
    pub fn find(&self, message: &Message, number: u32) -> Option<usize> {
        if number < message.dense {
            let line = &self.lines[message.lookup as usize + number as usize / 32];
            let word = line.0[number as usize % 32 / 4];
            let index = (word >> (number % 4 * 16)) as u16;
            return (index != 0).then(|| usize::from(index) - 1);
        }
        self.entries(message).binary_search_by_key(&number, Entry::number).ok()
    }

    /// The required fields among presence word `word` of a message that has any.
    #[inline]
    pub fn required(&self, message: &Message, word: usize) -> u32 {
        if message.required == 0 {
            return 0;
        }
        let line = &self.lines[message.required as usize + word / 16];
        (line.0[word % 16 / 2] >> (word % 2 * 32)) as u32
    }

    /// True if `value` is one of the closed enum at `line`.
    #[inline]
    pub fn is_enum_value(&self, line: u32, value: i32) -> bool {
        let known = self.closed_enum(line);
        let above = value.wrapping_sub(known.low) as u32;
        if above < 256 {
            return known.mask[above as usize / 64] >> (above % 64) & 1 != 0;
        }
        self.enum_values(known).binary_search(&value).is_ok()
    }

    /// The closed enum at `line`, which an [`Entry`] names.
    #[inline]
    pub fn closed_enum(&self, line: u32) -> &ClosedEnum {
        // SAFETY: as in `message`.
        unsafe { &*(&raw const self.lines[line as usize]).cast::<ClosedEnum>() }
    }

    /// The values of a closed enum, ascending.
    pub fn enum_values(&self, known: &ClosedEnum) -> &[i32] {
        let count = known.count as usize;
        let lines = &self.lines[known.values as usize..][..count.div_ceil(16)];
        // SAFETY: sixteen values fill one line exactly, alignment is above that of i32, and any bits are an i32.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast::<i32>(), count) }
    }

    /// The same table with the target bit of one dereference field set or cleared.
    pub(crate) fn with_target(&self, class: u32, entry: usize, acc: bool) -> Table {
        let mut table = self.clone();
        let message = *table.message(class);
        assert!(entry < usize::from(message.fields), "class {class} has no entry {entry}");
        let line = &mut table.lines[message.entries as usize + entry / 4];
        // SAFETY: as in `entries`; the line is borrowed alone.
        let entry = unsafe { &mut (*std::ptr::from_mut(line).cast::<[Entry; 4]>())[entry % 4] };
        assert!(entry.is_dereference(), "only a dereference field has a target");
        entry.flags = if acc { entry.flags.and(Flags::ACC) } else { entry.flags.without(Flags::ACC) };
        table
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Table({} classes, {} lines, layout {:016x})",
            self.classes,
            self.lines.len(),
            self.layout_hash()
        )
    }
}

const _: () =
    assert!(size_of::<Message>() == 64 && size_of::<ClosedEnum>() == 64 && size_of::<Entry>() == 16);
