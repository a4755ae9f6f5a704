//! A message's types, and the methods that read it.

use super::Writer;
use super::field::Seen;
use super::names::{Taken, constant, identifier, path_to, snake, type_name};
use super::text::Text;
use crate::schema::Label;

impl Writer<'_> {
    pub(super) fn message(&self, text: &mut Text, class: u32, path: &[String]) {
        let message = &self.schema().messages()[class as usize];
        let names = &self.names.messages[class as usize];
        let (name, view, edit) = (&names.name, &names.view, &names.edit);
        let fields = self.all_seen(class, path);

        self.doc(text, &message.name, &format!("Message `{}`.", message.name));
        text.line("#[derive(Clone, Copy, Debug)]");
        text.line(&format!("pub struct {name};"));
        let maps = self.constants(text, class, &fields);
        text.blank();
        text.doc(&format!("A finished [`{name}`]."));
        text.line("#[derive(Clone, Copy)]");
        text.line(&format!("pub struct {view}<'a>(::codec::object::View<'a>);"));
        text.blank();
        text.doc(&format!("A [`{name}`] being built."));
        text.line(&format!("pub struct {edit}<'m, 'a>(::codec::object::Edit<'m, 'a>);"));
        text.blank();
        let size = self.types.table().message(class).size;
        let types = path_to(path, &[], "types");
        text.open("::codec::typed_message! {");
        text.line(&format!("{name}, {view}, {edit}, class {class}, size {size}, {types}"));
        text.close("}");
        if !fields.is_empty() {
            self.readers(text, class, &fields, &maps, path);
            self.editors(text, class, &fields, &maps);
        }
    }

    /// Field ids and maps as constants of the message's type; the names of the maps' constants by field index.
    fn constants(&self, text: &mut Text, class: u32, fields: &[Seen<'_>]) -> Vec<String> {
        let mut maps = vec![String::new(); fields.len()];
        if !fields.iter().any(|seen| seen.entry.is_dereference()) {
            return maps;
        }
        let name = &self.names.messages[class as usize].name;
        let mut taken = Taken::default();
        text.blank();
        text.open(&format!("impl {name} {{"));
        for seen in fields.iter().filter(|seen| seen.entry.is_dereference()) {
            text.blank();
            text.doc(&format!("The field `{}`, to be moved between the memories.", seen.field.name));
            let constant = taken.claim(constant(&seen.field.name));
            let value = format!("::codec::typed::field({class}, {})", seen.index);
            text.constant(&format!("pub const {constant}: ::codec::place::FieldId"), &value);
        }
        for seen in fields {
            let Some((key, value)) = &seen.map else { continue };
            let table = self.types.table();
            let entry = table.message(seen.entry.aux).size;
            let message = if value.field.kind.is_message() { table.message(value.entry.aux).size } else { 0 };
            let constant = taken.claim(format!("{}_MAP", constant(&seen.field.name)));
            let (index, offset) = (seen.index, seen.entry.offset);
            let (key, value) = (key.entry.offset, value.entry.offset);
            let slot = format!(
                "::codec::object::MapSlot::new({index}, {offset}, {entry}, {key}, {value}, {message})"
            );
            text.constant(&format!("const {constant}: ::codec::object::MapSlot"), &slot);
            maps[seen.index] = format!("{name}::{constant}");
        }
        text.close("}");
        maps
    }

    fn readers(&self, text: &mut Text, class: u32, fields: &[Seen<'_>], maps: &[String], path: &[String]) {
        let message = &self.schema().messages()[class as usize];
        let names = &self.names.messages[class as usize];
        let mut taken = Taken::default();
        let getters: Vec<String> =
            fields.iter().map(|seen| taken.claim(identifier(&snake(&seen.field.name)))).collect();
        text.blank();
        text.open(&format!("impl<'a> {}<'a> {{", names.view));
        for (seen, getter) in fields.iter().zip(&getters) {
            let (field, name) = (seen.field, snake(&seen.field.name));
            text.blank();
            self.doc(text, &format!("{}.{}", message.name, field.name), &format!("`{}`.", field.name));
            text.open_fn(&format!("pub fn {getter}"), &["self".to_owned()], &seen.output());
            let mut absent = seen.absent();
            if seen.is_checked() && absent.chars().count() > 20 {
                text.line(&format!("let absent = {absent};"));
                absent = "absent".to_owned();
            }
            text.unsafe_expression(&seen.read(&maps[seen.index], &absent));
            text.close("}");
            if matches!(field.label, Label::Explicit | Label::Required) {
                text.blank();
                text.doc(&format!("True if `{}` is there.", field.name));
                text.open_fn(
                    &format!("pub fn {}", taken.claim(format!("has_{name}"))),
                    &["self".to_owned()],
                    "bool",
                );
                text.unsafe_expression(&format!("self.0.has({})", seen.index));
                text.close("}");
            }
            if seen.entry.is_dereference() {
                text.blank();
                text.doc(&format!("True if `{}` is in accelerator memory.", field.name));
                let name = taken.claim(format!("{name}_is_in_acc"));
                text.open_fn(&format!("pub fn {name}"), &["self".to_owned()], "bool");
                text.unsafe_expression(&match field.oneof {
                    Some(_) => format!("self.0.is_member_acc({}, {})", seen.index, seen.entry.offset),
                    None => format!("self.0.is_acc({})", seen.entry.offset),
                });
                text.close("}");
            }
        }
        for (index, oneof) in message.oneofs.iter().enumerate() {
            let name = taken.claim(identifier(&snake(&oneof.name)));
            self.oneof_reader(text, class, index, path, &name, &getters);
        }
        text.close("}");
    }

    fn oneof_reader(
        &self,
        text: &mut Text,
        class: u32,
        index: usize,
        path: &[String],
        name: &str,
        getters: &[String],
    ) {
        let message = &self.schema().messages()[class as usize];
        let names = &self.names.messages[class as usize];
        let oneof = &message.oneofs[index];
        let enumeration = path_to(path, &names.module, &names.oneofs[index]);
        let life = if self.oneof_borrows(class, index) { "<'a>" } else { "" };
        text.blank();
        self.doc(text, &format!("{}.{}", message.name, oneof.name), &format!("The oneof `{}`.", oneof.name));
        text.open_fn(
            &format!("pub fn {name}"),
            &["self".to_owned()],
            &format!("Option<{enumeration}{life}>"),
        );
        let table = self.types.table();
        let entries = table.entries(table.message(class));
        let members = oneof.fields.iter().map(|&member| member as usize);
        text.line("// SAFETY: the offset is the table's.");
        text.open(&format!(
            "match unsafe {{ self.0.case({}) }} {{",
            entries[oneof.fields[0] as usize].offset
        ));
        for (member, variant) in members.zip(self.variants(class, index)) {
            let getter = &getters[member];
            let question = if message.fields[member].kind.is_message() { "?" } else { "" };
            text.arm(
                &(member + 1).to_string(),
                &format!("{enumeration}::{variant}"),
                &format!("self.{getter}(){question}"),
            );
        }
        text.line("_ => None,");
        text.close("}");
        text.close("}");
    }

    fn variants(&self, class: u32, index: usize) -> Vec<String> {
        let message = &self.schema().messages()[class as usize];
        let mut taken = Taken::default();
        let members = message.oneofs[index].fields.iter();
        members.map(|&member| taken.claim(type_name(&message.fields[member as usize].name))).collect()
    }

    fn oneof_borrows(&self, class: u32, index: usize) -> bool {
        let message = &self.schema().messages()[class as usize];
        let mut members = message.oneofs[index].fields.iter();
        members.any(|&member| !message.fields[member as usize].kind.is_scalar())
    }

    /// The enum of a oneof.
    pub(super) fn oneof(&self, text: &mut Text, class: u32, index: usize, path: &[String]) {
        let message = &self.schema().messages()[class as usize];
        let names = &self.names.messages[class as usize];
        let oneof = &message.oneofs[index];
        let life = if self.oneof_borrows(class, index) { "<'a>" } else { "" };
        text.doc(&format!("The oneof `{}` of `{}`.", oneof.name, message.name));
        text.line("#[derive(Clone, Copy, Debug)]");
        text.open(&format!("pub enum {}{life} {{", names.oneofs[index]));
        for (&member, variant) in oneof.fields.iter().zip(self.variants(class, index)) {
            let seen = self.seen(class, member as usize, path);
            let name = &seen.field.name;
            self.doc(text, &format!("{}.{name}", message.name), &format!("`{name}`."));
            text.line(&format!("{variant}({}),", seen.one()));
        }
        text.close("}");
    }
}
