//! A message in words: `{:?}` on one line, `{:#?}` on many.

use super::Dynamic;
use std::fmt;

pub(super) fn message(message: Dynamic<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut out = f.debug_struct(&message.message().name);
    for (index, field) in message.message().fields.iter().enumerate() {
        if message.is_in_acc_at(index) {
            out.field(&field.name, &format_args!("in accelerator memory"));
        } else if message.has_at(index) {
            out.field(&field.name, &message.value(index));
        }
    }
    for run in message.unknown() {
        out.field("unknown", &format_args!("\"{}\"", run.escape_ascii()));
    }
    out.finish()
}
