//! Enums: a number with constants, because messages may carry numbers that the schema does not name.

use super::Writer;
use super::names::{Taken, constant};
use super::text::Text;
use std::collections::HashSet;

impl Writer<'_> {
    pub(super) fn enumeration(&self, text: &mut Text, index: u32) {
        let known = &self.schema().enums()[index as usize];
        let name = &self.names.enums[index as usize].name;
        self.doc(text, &known.name, &format!("Enum `{}`.", known.name));
        text.line("#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]");
        text.line("#[repr(transparent)]");
        text.line(&format!("pub struct {name}(pub i32);"));
        text.blank();
        text.open(&format!("impl {name} {{"));
        let mut taken = Taken::default();
        // Values are named in the scope around their enum.
        let scope = known.name.rsplit_once('.').map_or(String::new(), |(scope, _)| format!("{scope}."));
        for (value, number) in &known.values {
            let full = format!("{}.{value}", known.name);
            let comment = self.comments.get(&full).or(self.comments.get(&format!("{scope}{value}")));
            text.doc(comment.map_or(format!("`{value}`."), str::to_owned).as_str());
            text.line(&format!("pub const {}: {name} = {name}({number});", taken.claim(constant(value))));
        }
        text.close("}");
        text.blank();
        text.open("::codec::typed_enum! {");
        text.line(&format!("{name}, first {},", known.values[0].1));
        let mut seen = HashSet::new();
        for (value, number) in known.values.iter().filter(|(_, number)| seen.insert(*number)) {
            text.line(&format!("{number} => {value:?},"));
        }
        text.close("}");
    }

    /// What the .proto file says of an element, or else `plain`.
    pub(super) fn doc(&self, text: &mut Text, name: &str, plain: &str) {
        text.doc(self.comments.get(name).unwrap_or(plain));
    }
}
