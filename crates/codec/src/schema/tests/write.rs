//! Writes descriptor sets from short descriptions, as protoc would.

/// A file's first statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Proto2,
    Proto3,
    Edition2023,
}

/// A file of messages and enums that refer to each other by index, as `.t.M0` and `.t.E0`.
#[derive(Clone, Debug)]
pub(crate) struct FileSpec {
    pub syntax: Syntax,
    pub messages: Vec<MessageSpec>,
    pub enums: Vec<EnumSpec>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MessageSpec {
    pub fields: Vec<FieldSpec>,
    pub map_entry: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EnumSpec {
    pub values: Vec<i32>,
    /// `features.enum_type`.
    pub closed: Option<bool>,
}

/// Numbers are those of descriptor.proto.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldSpec {
    pub number: i32,
    pub kind: i32,
    pub label: i32,
    /// Index of the message or enum.
    pub of: usize,
    pub oneof: Option<i32>,
    pub proto3_optional: bool,
    pub packed: Option<bool>,
    pub acc: bool,
    pub default: Option<&'static str>,
    /// Pairs of `FeatureSet`.
    pub features: Vec<(u32, u64)>,
}

/// A message in the making.
#[derive(Default)]
pub(crate) struct Wire(pub Vec<u8>);

impl Wire {
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn number(&mut self, number: u32, value: u64) -> &mut Wire {
        self.varint(u64::from(number) << 3);
        self.varint(value);
        self
    }

    pub fn bytes(&mut self, number: u32, value: impl AsRef<[u8]>) -> &mut Wire {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(value.as_ref().len() as u64);
        self.0.extend_from_slice(value.as_ref());
        self
    }
}

/// The set of that one file, `t.proto` of package `t`.
pub(crate) fn descriptor_set(spec: &FileSpec) -> Vec<u8> {
    let mut file = Wire::default();
    file.bytes(1, "t.proto").bytes(2, "t");
    for (index, message) in spec.messages.iter().enumerate() {
        file.bytes(4, write_message(index, message));
    }
    for (index, known) in spec.enums.iter().enumerate() {
        file.bytes(5, write_enum(index, known));
    }
    match spec.syntax {
        Syntax::Proto2 => {}
        Syntax::Proto3 => drop(file.bytes(12, "proto3")),
        Syntax::Edition2023 => drop(file.bytes(12, "editions").number(14, 1000)),
    }
    let mut set = Wire::default();
    set.bytes(1, file.0);
    set.0
}

fn write_message(index: usize, spec: &MessageSpec) -> Vec<u8> {
    let mut message = Wire::default();
    message.bytes(1, format!("M{index}"));
    for field in &spec.fields {
        message.bytes(2, write_field(field));
    }
    for oneof in 0..spec.fields.iter().filter_map(|field| field.oneof).max().map_or(0, |last| last + 1) {
        let mut declared = Wire::default();
        declared.bytes(1, format!("o{oneof}"));
        message.bytes(8, declared.0);
    }
    if spec.map_entry {
        let mut options = Wire::default();
        options.number(7, 1);
        message.bytes(7, options.0);
    }
    message.0
}

fn write_field(spec: &FieldSpec) -> Vec<u8> {
    let mut field = Wire::default();
    field.bytes(1, format!("f{}", spec.number)).number(3, spec.number as u64);
    field.number(4, spec.label as u64).number(5, spec.kind as u64);
    match spec.kind {
        10 | 11 => drop(field.bytes(6, format!(".t.M{}", spec.of))),
        14 => drop(field.bytes(6, format!(".t.E{}", spec.of))),
        _ => {}
    }
    if let Some(text) = spec.default {
        field.bytes(7, text);
    }
    let mut options = Wire::default();
    if let Some(packed) = spec.packed {
        options.number(2, u64::from(packed));
    }
    if spec.acc {
        options.number(51234, 1);
    }
    for (number, value) in &spec.features {
        let mut features = Wire::default();
        features.number(*number, *value);
        options.bytes(21, features.0);
    }
    field.bytes(8, options.0);
    if let Some(oneof) = spec.oneof {
        field.number(9, oneof as u64);
    }
    if spec.proto3_optional {
        field.number(17, 1);
    }
    field.0
}

fn write_enum(index: usize, spec: &EnumSpec) -> Vec<u8> {
    let mut known = Wire::default();
    known.bytes(1, format!("E{index}"));
    for (at, value) in spec.values.iter().enumerate() {
        let mut named = Wire::default();
        named.bytes(1, format!("V{at}")).number(2, *value as i64 as u64);
        known.bytes(2, named.0);
    }
    if let Some(closed) = spec.closed {
        let (mut features, mut options) = (Wire::default(), Wire::default());
        features.number(2, if closed { 2 } else { 1 });
        options.bytes(7, features.0);
        known.bytes(3, options.0);
    }
    known.0
}
