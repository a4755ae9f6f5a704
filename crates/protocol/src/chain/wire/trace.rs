//! Which trace a message belongs to: the last of its fields, which is what is left, or nothing. So what is not traced has no byte for it.

use super::field::{Field, Reader};
use crate::chain::TraceContext;
use crate::chain::transaction::TRACE_CONTEXT_BYTES;

impl Field for TraceContext {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_ref().map_or(&[], |bytes| &bytes[..]));
    }

    fn take(from: &mut Reader<'_>) -> Option<TraceContext> {
        if from.is_empty() {
            return Some(TraceContext(None));
        }
        Some(TraceContext(Some(from.bytes(TRACE_CONTEXT_BYTES)?.try_into().ok()?)))
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        match self.0 {
            Some(bytes) => bytes.to_vec().show(out),
            None => out.push_str("null"),
        }
    }
}
