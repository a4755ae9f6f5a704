//! What a field is in Rust.

use super::Writer;
use super::names::path_to;
use crate::schema::{DefaultValue, Field, Label};
use crate::table::{Entry, Kind};

/// A field of a message, seen from the module that its accessors are written in.
pub(super) struct Seen<'w> {
    pub field: &'w Field,
    pub entry: Entry,
    pub index: usize,
    /// The type of a number or enum, or of elements: `u32`, `Color`, `str`, `Photo`.
    pub item: String,
    /// `PhotoView` and `PhotoMut` of a sub-message.
    pub view: String,
    pub edit: String,
    /// Key and value of a map.
    pub map: Option<(Box<Seen<'w>>, Box<Seen<'w>>)>,
}

impl Writer<'_> {
    /// Field `index` of a message, from the module at `path`.
    pub(super) fn seen(&self, class: u32, index: usize, path: &[String]) -> Seen<'_> {
        let table = self.types.table();
        let field = &self.schema().messages()[class as usize].fields[index];
        let entry = table.entries(table.message(class))[index];
        let (mut view, mut edit) = (String::new(), String::new());
        let item = match field.kind {
            Kind::Enum => {
                let names = &self.names.enums[field.enumeration.expect("an enum field has an enum") as usize];
                path_to(path, &names.path, &names.name)
            }
            Kind::Message | Kind::Group if field.label != Label::Map => {
                let names =
                    &self.names.messages[field.message.expect("a message field has a class") as usize];
                view = path_to(path, &names.path, &names.view);
                edit = path_to(path, &names.path, &names.edit);
                path_to(path, &names.path, &names.name)
            }
            _ => plain(field).to_owned(),
        };
        let map = (field.label == Label::Map).then(|| {
            let class = field.message.expect("a map has entries");
            (Box::new(self.seen(class, 0, path)), Box::new(self.seen(class, 1, path)))
        });
        Seen { field, entry, index, item, view, edit, map }
    }

    /// All fields of a message.
    pub(super) fn all_seen(&self, class: u32, path: &[String]) -> Vec<Seen<'_>> {
        let fields = self.schema().messages()[class as usize].fields.len();
        (0..fields).map(|index| self.seen(class, index, path)).collect()
    }
}

/// The type of a number, or of a string's or bytes' elements.
fn plain(field: &Field) -> &'static str {
    match field.kind {
        Kind::Bool => "bool",
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => "i32",
        Kind::Uint32 | Kind::Fixed32 => "u32",
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "i64",
        Kind::Uint64 | Kind::Fixed64 => "u64",
        Kind::Float => "f32",
        Kind::Double => "f64",
        Kind::String if field.utf8 => "str",
        Kind::String => "::codec::typed::AnyText",
        Kind::Bytes => "[u8]",
        Kind::Enum | Kind::Message | Kind::Group => "",
    }
}

impl Seen<'_> {
    /// Repeated numbers and enums are slices.
    pub(super) fn is_slice(&self) -> bool {
        self.field.label == Label::Repeated && self.field.kind.is_scalar() && self.field.kind != Kind::Bool
    }

    /// The type that the getter returns.
    pub(super) fn output(&self) -> String {
        match self.field.label {
            Label::Map => {
                let (key, value) = self.map.as_ref().expect("a map has a key and a value");
                format!("::codec::typed::Map<'a, {}, {}>", key.item, value.item)
            }
            Label::Repeated if self.is_slice() => format!("&'a [{}]", self.item),
            Label::Repeated => format!("::codec::typed::List<'a, {}>", self.item),
            _ if self.field.kind.is_message() => format!("Option<{}<'a>>", self.view),
            _ => self.one(),
        }
    }

    /// The type of a singular value, or that of a oneof's variant.
    pub(super) fn one(&self) -> String {
        match self.field.kind {
            Kind::String if !self.field.utf8 => "::codec::typed::Text<'a>".to_owned(),
            Kind::String | Kind::Bytes => format!("&'a {}", self.item),
            Kind::Message | Kind::Group => format!("{}<'a>", self.view),
            _ => self.item.clone(),
        }
    }

    /// The type that a setter takes, with the life of what is borrowed.
    pub(super) fn input(&self, life: &str) -> String {
        match self.field.kind {
            Kind::String => format!("&{life}str"),
            Kind::Bytes => format!("&{life}[u8]"),
            _ => self.item.clone(),
        }
    }

    /// How the getter reads it; `map` is the constant of a map, `absent` what it reads as if it is not there.
    pub(super) fn read(&self, map: &str, absent: &str) -> String {
        let (index, offset) = (self.index, self.entry.offset);
        match self.field.label {
            Label::Map => return format!("::codec::typed::Map::of(self.0, {map})"),
            Label::Repeated if self.is_slice() => return format!("self.0.array({offset})"),
            Label::Repeated => return format!("::codec::typed::List::of(self.0, {offset})"),
            _ => {}
        }
        let checked = self.is_checked();
        match self.field.kind {
            Kind::Message | Kind::Group => {
                format!("::codec::typed::message::<{}>(self.0, {index}, {offset})", self.item)
            }
            Kind::Bool if !checked => format!("self.0.scalar::<u8>({offset}) != 0"),
            Kind::String if !checked && self.field.utf8 => format!("self.0.string({offset})"),
            Kind::String if !checked => format!("::codec::typed::Text(self.0.bytes({offset}))"),
            Kind::Bytes if !checked => format!("self.0.bytes({offset})"),
            _ if !checked => format!("self.0.scalar({offset})"),
            Kind::Bool => format!("self.0.scalar_or::<u8>({index}, {offset}, {absent}) != 0"),
            Kind::String if self.field.utf8 => format!("self.0.string_or({index}, {offset}, {absent})"),
            Kind::String => {
                format!("::codec::typed::Text(self.0.bytes_or({index}, {offset}, {absent}))")
            }
            Kind::Bytes => format!("self.0.bytes_or({index}, {offset}, {absent})"),
            _ => format!("self.0.scalar_or({index}, {offset}, {absent})"),
        }
    }

    /// True if the getter must ask whether a singular scalar, string or bytes field is there.
    pub(super) fn is_checked(&self) -> bool {
        !self.field.is_repeated() && (self.field.oneof.is_some() || self.field.default.is_some())
    }

    /// What it reads as if it is not there.
    pub(super) fn absent(&self) -> String {
        let bits = match &self.field.default {
            Some(DefaultValue::Bytes(bytes)) if self.field.kind == Kind::String && self.field.utf8 => {
                return format!("{:?}", String::from_utf8_lossy(bytes));
            }
            Some(DefaultValue::Bytes(bytes)) => return format!("b\"{}\"", bytes.escape_ascii()),
            Some(DefaultValue::Bits(bits)) => *bits,
            None => 0,
        };
        match self.field.kind {
            Kind::String if self.field.utf8 => "\"\"".to_owned(),
            Kind::String | Kind::Bytes => "b\"\"".to_owned(),
            Kind::Enum => format!("{}({})", self.item, bits as i32),
            Kind::Float => float(f64::from(f32::from_bits(bits as u32)), "f32", &f32::from_bits(bits as u32)),
            Kind::Double => float(f64::from_bits(bits), "f64", &f64::from_bits(bits)),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => (bits as i32).to_string(),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => (bits as i64).to_string(),
            _ => bits.to_string(),
        }
    }

    /// The slot, as the editing methods take it.
    pub(super) fn slot(&self) -> String {
        let make = if self.field.oneof.is_some() { "member" } else { "new" };
        format!("::codec::object::Slot::{make}({}, {})", self.index, self.entry.offset)
    }

    /// An element as it lies in an array.
    pub(super) fn element(&self) -> &str {
        match self.field.kind {
            Kind::Bool => "u8",
            Kind::String | Kind::Bytes => "::codec::object::Ref",
            Kind::Message | Kind::Group => "::codec::object::Addr",
            Kind::Enum => "i32",
            _ => &self.item,
        }
    }
}

fn float(value: f64, kind: &str, shown: &dyn std::fmt::Debug) -> String {
    match value {
        _ if value.is_nan() => format!("{kind}::NAN"),
        _ if value == f64::INFINITY => format!("{kind}::INFINITY"),
        _ if value == f64::NEG_INFINITY => format!("{kind}::NEG_INFINITY"),
        _ => format!("{shown:?}"),
    }
}
