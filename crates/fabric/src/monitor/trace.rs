//! Traces of calls ([`base::trace`]): how a call carries where it belongs.
//!
//! By the metadata `traceparent` (W3C Trace Context): `00-TRACE-SPAN-FLAGS`, in hex. If its flag *sampled* is set the call leaves spans, whatever
//! the registers say. On its way on from a span of ours the call carries that span's own.

use crate::frame;
use base::trace::Context;
pub use base::trace::TRACEPARENT;

/// The context in encoded metadata, if there is one.
pub fn context_of(metadata: &[u8]) -> Option<Context> {
    let (_, value) = frame::metadata(metadata).find(|(key, _)| *key == TRACEPARENT)?;
    Context::parse(value)
}

/// Writes the metadata `own` to `into`, which is empty, with this `traceparent` instead of the one it had; false where there is no room for it.
#[must_use]
pub(crate) fn carry(own: &[u8], parent: &str, into: &mut Vec<u8>) -> bool {
    let others = frame::metadata(own).filter(|(key, _)| *key != TRACEPARENT);
    let mut all = others.chain([(TRACEPARENT, parent.as_bytes())]);
    all.all(|(key, value)| frame::push_metadata(into, key, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{MAX_METADATA, metadata, push_metadata};

    #[test]
    fn a_call_carries_one_context_and_all_else_that_it_had() {
        let mut own = Vec::new();
        for (key, value) in [("a", "1"), (TRACEPARENT, "old"), ("b-bin", "2")] {
            assert!(push_metadata(&mut own, key, value.as_bytes()));
        }
        let context = Context { trace: 5, span: 6, sampled: true };
        let mut into = Vec::new();
        assert!(carry(&own, &context.emit(), &mut into));
        let keys: Vec<&str> = metadata(&into).map(|(key, _)| key).collect();
        assert_eq!((keys, context_of(&into)), (vec!["a", "b-bin", TRACEPARENT], Some(context)));
        assert_eq!(context_of(&own), None, "it is none");

        let mut full = Vec::new();
        assert!(push_metadata(&mut full, "a", &vec![0; MAX_METADATA - 60]));
        assert!(!carry(&full, &context.emit(), &mut Vec::new()));
    }
}
