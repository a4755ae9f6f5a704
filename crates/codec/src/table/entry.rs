//! The records of the table, exactly as they lie in its lines.

/// What a field's value is, with the numbers of `FieldDescriptorProto.Type` in descriptor.proto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names of descriptor.proto")]
pub enum Kind {
    Double = 1,
    Float = 2,
    Int64 = 3,
    Uint64 = 4,
    Int32 = 5,
    Fixed64 = 6,
    Fixed32 = 7,
    Bool = 8,
    String = 9,
    Group = 10,
    Message = 11,
    Bytes = 12,
    Uint32 = 13,
    Enum = 14,
    Sfixed32 = 15,
    Sfixed64 = 16,
    Sint32 = 17,
    Sint64 = 18,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Kind; 18] = [
        Kind::Double,
        Kind::Float,
        Kind::Int64,
        Kind::Uint64,
        Kind::Int32,
        Kind::Fixed64,
        Kind::Fixed32,
        Kind::Bool,
        Kind::String,
        Kind::Group,
        Kind::Message,
        Kind::Bytes,
        Kind::Uint32,
        Kind::Enum,
        Kind::Sfixed32,
        Kind::Sfixed64,
        Kind::Sint32,
        Kind::Sint64,
    ];

    /// The kind with that number.
    pub const fn from_number(number: u8) -> Option<Kind> {
        if number >= 1 && number <= 18 { Some(Kind::ALL[number as usize - 1]) } else { None }
    }

    /// The wire type of one value on its own (not packed).
    pub const fn wire_type(self) -> u32 {
        match self {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => 1,
            Kind::String | Kind::Message | Kind::Bytes => 2,
            Kind::Group => 3,
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => 5,
            _ => 0,
        }
    }

    /// Bytes of one value in an object, or of one element in an array of them: 16 for a [`Ref`](crate::object::Ref), 8 for
    /// the address of a sub-message.
    pub const fn size(self) -> usize {
        match self {
            Kind::String | Kind::Bytes => 16,
            Kind::Double | Kind::Int64 | Kind::Uint64 | Kind::Fixed64 | Kind::Sfixed64 | Kind::Sint64 => 8,
            Kind::Message | Kind::Group => 8,
            Kind::Bool => 1,
            _ => 4,
        }
    }

    /// True for values that may be packed when repeated.
    pub const fn is_scalar(self) -> bool {
        !matches!(self, Kind::String | Kind::Bytes | Kind::Message | Kind::Group)
    }

    /// True for sub-messages, however they are delimited.
    pub const fn is_message(self) -> bool {
        matches!(self, Kind::Message | Kind::Group)
    }
}

/// The flag byte of an [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// The target bit: the field's bytes go to accelerator memory. Only on dereference fields.
    pub const ACC: Flags = Flags(1);
    /// A string that must be valid UTF-8.
    pub const UTF8: Flags = Flags(2);
    /// A repeated scalar that is written packed.
    pub const PACKED: Flags = Flags(4);
    /// A member of a oneof: the case word lies 8 bytes before its value.
    pub const ONEOF: Flags = Flags(8);
    /// proto2 `required`.
    pub const REQUIRED: Flags = Flags(16);
    /// A scalar or string without presence: its zero value is not written.
    pub const IMPLICIT: Flags = Flags(32);
    /// An enum whose unknown values belong to the unknown fields; `aux` is the line of its [`ClosedEnum`].
    pub const CLOSED: Flags = Flags(64);

    /// True if all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These without `other`.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// One field, 16 bytes; its index in its message is also its presence bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(16))]
pub struct Entry {
    /// Field number × 8 + the wire type that our serialiser writes (2 for packed fields and maps, 3 for groups).
    pub tag: u32,
    /// [`Kind`] in the low five bits, then [`Entry::REPEATED`], [`Entry::MAP`].
    pub op: u8,
    /// See [`Flags`].
    pub flags: Flags,
    /// Index of the entry that usually comes next on the wire.
    pub next: u16,
    /// Where the value lies in the object, bytes.
    pub offset: u32,
    /// Sub-message and map: class id of the message or map entry. Closed enum: line of its [`ClosedEnum`]. Else 0.
    pub aux: u32,
}

impl Entry {
    /// In `op`: the field is repeated; the object holds a [`Ref`](crate::object::Ref) to an array.
    pub const REPEATED: u8 = 0x20;
    /// In `op`, with [`Entry::REPEATED`] and [`Kind::Message`]: a map; elements are entry objects, keys are distinct.
    pub const MAP: u8 = 0x40;

    /// The field number.
    #[inline]
    pub const fn number(&self) -> u32 {
        self.tag >> 3
    }

    /// What the value, or each element, is.
    #[inline]
    pub const fn kind(&self) -> Kind {
        match Kind::from_number(self.op & 0x1f) {
            Some(kind) => kind,
            None => panic!("the table holds a kind of no meaning"),
        }
    }

    /// True for repeated fields and maps.
    #[inline]
    pub const fn is_repeated(&self) -> bool {
        self.op & Entry::REPEATED != 0
    }

    /// True for maps.
    #[inline]
    pub const fn is_map(&self) -> bool {
        self.op & Entry::MAP != 0
    }

    /// True if the object holds an address rather than the value: string, bytes, repeated, sub-message.
    #[inline]
    pub const fn is_dereference(&self) -> bool {
        self.is_repeated() || !self.kind().is_scalar()
    }

    /// Bytes of what lies at `offset` in the object.
    pub const fn slot(&self) -> usize {
        if self.is_repeated() { 16 } else { self.kind().size() }
    }
}

/// One message, one line.
///
/// An object of it: presence words (u32, bit i of word i / 32 = entry i; for an implicit field "a value was stored", for
/// a repeated one "not empty"), at [`Message::unknown`] a [`Ref`](crate::object::Ref) to an array of `Ref`s to the runs of
/// unknown fields, then the fields. A oneof is a case word (u32: entry index + 1, 0 = none), 4 bytes of nothing, and a
/// slot that its members share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(64))]
pub struct Message {
    /// Bytes of an object, a multiple of 8.
    pub size: u32,
    /// Presence words.
    pub words: u16,
    /// Field entries.
    pub fields: u16,
    /// First line of the field entries.
    pub entries: u32,
    /// Field numbers below this are in the lookup.
    pub dense: u32,
    /// First line of the lookup.
    pub lookup: u32,
    /// First line of the masks of required fields, 0 = none is required.
    pub required: u32,
    /// Offset of the `Ref` of unknown fields.
    pub unknown: u32,
    /// [`Message::MAP_ENTRY`], [`Message::PLAIN`].
    pub flags: u32,
    /// This message's class id.
    pub class: u32,
    /// Zero, room to grow.
    pub reserved: [u32; 7],
}

impl Message {
    /// In `flags`: the entry of a map.
    pub const MAP_ENTRY: u32 = 1;
    /// In `flags`: no field is repeated, so closing an object has no arrays to write.
    pub const PLAIN: u32 = 2;
}

/// The values of a closed enum: 256 of them from `low` as a bit mask, all of them as a sorted list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(64))]
pub struct ClosedEnum {
    /// Bit `v − low` is set if `v` is a value, for the 256 numbers from `low`.
    pub mask: [u64; 4],
    /// The lowest value.
    pub low: i32,
    /// How many values there are.
    pub count: u32,
    /// First line of the sorted values.
    pub values: u32,
    /// Zero.
    pub reserved: [u32; 5],
}
