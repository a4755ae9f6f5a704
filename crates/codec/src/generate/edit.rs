//! The methods that build a message.

use super::Writer;
use super::field::Seen;
use super::names::{Taken, snake};
use super::text::Text;
use crate::schema::Label;
use crate::table::Kind;

const FULL: &str = "Result<(), ::codec::memory::OutOfMemory>";

/// Writes the methods of one message.
struct Editors<'t> {
    text: &'t mut Text,
    taken: Taken,
    /// Of the field that methods are written for.
    slot: String,
}

impl Writer<'_> {
    pub(super) fn editors(&self, text: &mut Text, class: u32, fields: &[Seen<'_>], maps: &[String]) {
        let message = &self.schema().messages()[class as usize];
        text.blank();
        text.open(&format!("impl<'a> {}<'_, 'a> {{", self.names.messages[class as usize].edit));
        let mut editors = Editors { text, taken: Taken::default(), slot: String::new() };
        for seen in fields {
            editors.slot = seen.slot();
            match seen.field.label {
                Label::Map => editors.map(seen, &maps[seen.index]),
                Label::Repeated => editors.repeated(seen),
                _ => editors.singular(seen),
            }
            editors.clear(seen);
        }
        for oneof in &message.oneofs {
            let offset = fields[oneof.fields[0] as usize].entry.offset;
            let doc = format!("Makes the member of `{}` absent that is there.", oneof.name);
            let call = format!("self.0.clear_oneof({offset})");
            editors.method(&doc, &format!("clear_{}", snake(&oneof.name)), &[], "", &call);
        }
        text.close("}");
    }
}

impl Editors<'_> {
    /// One method: its documentation, its name, what it takes besides `self`, what it returns, and the call that does it, in
    /// which `field` is the slot.
    fn method(&mut self, doc: &str, name: &str, arguments: &[&str], result: &str, call: &str) -> String {
        let name = self.taken.claim(name.to_owned());
        let arguments: Vec<String> =
            ["&mut self"].iter().chain(arguments).map(|&argument| argument.to_owned()).collect();
        self.text.blank();
        self.text.doc(doc);
        self.text.open_fn(&format!("pub fn {name}"), &arguments, result);
        if call.split(|c: char| !c.is_alphanumeric()).any(|word| word == "field") {
            self.text.line(&format!("let field = {};", self.slot));
        }
        self.text.unsafe_expression(call);
        self.text.close("}");
        name
    }

    fn singular(&mut self, seen: &Seen<'_>) {
        let name = snake(&seen.field.name);
        let value = format!("value: {}", seen.input(""));
        let set = format!("set_{name}");
        match seen.field.kind {
            Kind::Message | Kind::Group => {
                let doc = format!("`{name}`, made if it is not there.");
                let result = format!("Result<{}<'_, 'a>, ::codec::memory::OutOfMemory>", seen.edit);
                let call = format!("::codec::typed::message_mut::<{}>(self.0.borrow(), field)", seen.item);
                self.method(&doc, &format!("{name}_mut"), &[], &result, &call);
            }
            Kind::String | Kind::Bytes => {
                let bytes = if seen.field.kind == Kind::String { "value.as_bytes()" } else { "value" };
                let doc = format!("Sets `{name}` to a copy of `value`.");
                self.method(&doc, &set, &[&value], FULL, &format!("self.0.set_bytes(field, {bytes})"));
                let lent = format!("value: {}", seen.input("'a "));
                let doc = format!("Sets `{name}` to `value` itself.");
                let call = format!("self.0.lend_bytes(field, {bytes})");
                self.method(&doc, &format!("lend_{name}"), &[&lent], "", &call);
            }
            kind => {
                let bits = if kind == Kind::Bool { "u8::from(value)" } else { "value" };
                let call = format!("self.0.set(field, {bits})");
                self.method(&format!("Sets `{name}`."), &set, &[&value], "", &call);
            }
        }
    }

    fn repeated(&mut self, seen: &Seen<'_>) {
        let name = snake(&seen.field.name);
        let value = format!("value: {}", seen.input(""));
        let push = format!("push_{name}");
        let append = format!("Appends to `{name}`.");
        match seen.field.kind {
            Kind::Message | Kind::Group => {
                let edit = format!("{}<'_, 'a>", seen.edit);
                let result = format!("Result<{edit}, ::codec::memory::OutOfMemory>");
                let call = format!("::codec::typed::push_message::<{}>(&mut self.0, field)", seen.item);
                self.method(&format!("Appends an empty message to `{name}`."), &push, &[], &result, &call);
                let call =
                    format!("::codec::typed::messages_mut::<{}>(&mut self.0, field, index)", seen.item);
                let doc = format!("One element of `{name}`; panics if there is none.");
                self.method(&doc, &format!("{name}_mut"), &["index: usize"], &edit, &call);
            }
            Kind::String | Kind::Bytes => {
                let bytes = if seen.field.kind == Kind::String { "value.as_bytes()" } else { "value" };
                let doc = format!("Appends a copy of `value` to `{name}`.");
                self.method(&doc, &push, &[&value], FULL, &format!("self.0.push_bytes(field, {bytes})"));
                let lent = format!("value: {}", seen.input("'a "));
                let doc = format!("Appends `value` itself to `{name}`.");
                let call = format!("self.0.push_lent(field, {bytes})");
                self.method(&doc, &format!("lend_{name}"), &[&lent], FULL, &call);
            }
            Kind::Bool => {
                self.method(&append, &push, &[&value], FULL, "self.0.push(field, u8::from(value))");
                let call = "self.0.set_array(field, ::codec::typed::bools(values))";
                let doc = format!("Replaces all elements of `{name}`.");
                self.method(&doc, &format!("set_{name}"), &["values: &[bool]"], FULL, call);
            }
            _ => {
                self.method(&append, &push, &[&value], FULL, "self.0.push(field, value)");
                let values = format!("values: &[{}]", seen.item);
                let doc = format!("Replaces all elements of `{name}`.");
                let call = "self.0.set_array(field, values)";
                self.method(&doc, &format!("set_{name}"), &[&values], FULL, call);
                let result = format!("Result<&mut [{}], ::codec::memory::OutOfMemory>", seen.item);
                let doc = format!("The elements of `{name}`, to be changed in place.");
                self.method(&doc, &format!("{name}_mut"), &[], &result, "self.0.elements(field)");
            }
        }
        let doc = format!("Takes one element out of `{name}`; panics if there is none.");
        let call = format!("self.0.remove::<{}>(field, index)", seen.element());
        self.method(&doc, &format!("remove_{name}"), &["index: usize"], FULL, &call);
        let doc = format!("Keeps the first `len` elements of `{name}`.");
        let call = "self.0.truncate(field, len)";
        self.method(&doc, &format!("truncate_{name}"), &["len: usize"], "", call);
    }

    fn map(&mut self, seen: &Seen<'_>, constant: &str) {
        let name = snake(&seen.field.name);
        let (key, value) = seen.map.as_ref().expect("a map has a key and a value");
        let result = format!("::codec::typed::MapMut<'_, 'a, {}, {}>", key.item, value.item);
        let call = format!("::codec::typed::MapMut::of(self.0.borrow(), {constant})");
        let doc = format!("`{name}`, to be changed.");
        let whole = self.method(&doc, &format!("{name}_mut"), &[], &result, &call);
        if !value.field.kind.is_message() {
            let (key, value) = (format!("key: {}", key.input("")), format!("value: {}", value.input("")));
            let doc = format!("Sets the value of a key of `{name}`; for many keys use `{whole}` once.");
            let name = self.taken.claim(format!("insert_{name}"));
            self.text.blank();
            self.text.doc(&doc);
            self.text.open_fn(&format!("pub fn {name}"), &["&mut self".to_owned(), key, value], FULL);
            self.text.line(&format!("self.{whole}().insert(key, value)"));
            self.text.close("}");
        }
    }

    fn clear(&mut self, seen: &Seen<'_>) {
        let name = snake(&seen.field.name);
        let call = format!("self.0.clear(field, {})", seen.entry.slot());
        self.method(&format!("Makes `{name}` absent."), &format!("clear_{name}"), &[], "", &call);
    }
}
