//! W3C Trace Context: which trace a request belongs to, and whose part it is, as a text that travels with it.
//!
//! `traceparent: 00-TRACE-SPAN-FLAGS`, in hex; of the flags only *sampled* (1) has a meaning here.
//!
//! Source: <https://www.w3.org/TR/trace-context/>, version 00.

/// The name of the header, or of the key of metadata.
pub const TRACEPARENT: &str = "traceparent";

/// Bytes of a context in messages of our own.
pub const CONTEXT_BYTES: usize = 24;

/// Where a request belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Of the whole trace; not 0.
    pub trace: u128,
    /// Of the span that the request is part of; not 0.
    pub span: u64,
    /// Whether it is to be recorded.
    pub sampled: bool,
}

impl Context {
    /// Reads a `traceparent`; what is none is ignored, as the standard wants.
    pub fn parse(text: &[u8]) -> Option<Context> {
        let text = std::str::from_utf8(text).ok()?;
        let hex = |part: &str, len: usize| {
            let lower = part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            (lower && part.len() == len).then(|| u128::from_str_radix(part, 16).ok()).flatten()
        };
        let mut parts = text.split('-');
        let version = hex(parts.next()?, 2)?;
        let (trace, span) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)? as u64);
        let flags = hex(parts.next()?, 2)?;
        // Version 0 ends here; later ones may go on; 255 is forbidden.
        let over = version == 255 || (version == 0 && parts.next().is_some());
        (!over && trace != 0 && span != 0).then_some(Context { trace, span, sampled: flags & 1 == 1 })
    }

    /// Of one that is sampled, for messages of our own: the numbers of its trace and of its span.
    pub fn to_bytes(&self) -> [u8; CONTEXT_BYTES] {
        let mut bytes = [0; CONTEXT_BYTES];
        let (trace, span) = bytes.split_at_mut(16);
        trace.copy_from_slice(&self.trace.to_le_bytes());
        span.copy_from_slice(&self.span.to_le_bytes());
        bytes
    }

    /// The inverse of [`Context::to_bytes`]; `None` where a number is 0.
    pub fn from_bytes(bytes: &[u8; CONTEXT_BYTES]) -> Option<Context> {
        let (trace, span) = bytes.split_first_chunk()?;
        let (trace, span) = (u128::from_le_bytes(*trace), u64::from_le_bytes(span.try_into().ok()?));
        (trace != 0 && span != 0).then_some(Context { trace, span, sampled: true })
    }

    /// As a `traceparent`.
    pub fn emit(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn contexts_are_what_was_emitted(trace in 1..u128::MAX, span in 1..u64::MAX, sampled: bool) {
            let context = Context { trace, span, sampled };
            prop_assert_eq!(Context::parse(context.emit().as_bytes()), Some(context));
            let sampled = Context { sampled: true, ..context };
            prop_assert_eq!(Context::from_bytes(&context.to_bytes()), Some(sampled));
        }

        #[test]
        fn any_bytes_are_a_context_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in "[0-9a-f-]{0,60}") {
            Context::parse(&bytes);
            Context::parse(text.as_bytes());
        }
    }

    #[test]
    fn numbers_that_are_none_make_no_context() {
        let (mut no_trace, mut no_span) = ([1; CONTEXT_BYTES], [1; CONTEXT_BYTES]);
        no_trace[..16].fill(0);
        no_span[16..].fill(0);
        assert_eq!((Context::from_bytes(&no_trace), Context::from_bytes(&no_span)), (None, None));
    }

    #[test]
    fn what_the_standard_forbids_is_ignored() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(
            Context::parse(good.as_bytes()).is_some_and(|c| c.sampled && c.span == 0x00f0_67aa_0ba9_02b7)
        );
        for bad in [
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        ] {
            assert_eq!(Context::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
