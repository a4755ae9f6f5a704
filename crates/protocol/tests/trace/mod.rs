//! Drives a parser over bytes in pieces of any size and checks what must hold at every step: it makes progress, it stays
//! within its buffer bound, it never asks for what it already has. Shared with `fuzz/`.

use protocol::memcache::{Parser, Step};

/// Checks that `bytes` mean the same in pieces of these sizes, over and over, as in one; what they mean.
pub fn holds_in_pieces(bytes: &[u8], max_value: usize, pieces: &[u8]) -> Vec<String> {
    let whole = trace(bytes, max_value, || usize::MAX);
    let mut pieces = pieces.iter().cycle();
    let split = trace(bytes, max_value, || pieces.next().map_or(1, |&size| usize::from(size)));
    assert_eq!(split, whole);
    whole
}

/// The commands that `bytes` mean when they arrive in pieces of `piece()` bytes, each as text, and how it ended.
pub fn trace(bytes: &[u8], max_value: usize, mut piece: impl FnMut() -> usize) -> Vec<String> {
    let mut parser = Parser::new(max_value);
    let bound = parser.buffer_bound();
    let mut events = Vec::new();
    let (mut start, mut end) = (0, 0);
    loop {
        let shown = &bytes[start..end];
        match parser.next(shown) {
            Step::Incomplete { wants } => {
                assert!(wants > shown.len(), "asked for {wants} bytes while {} were shown", shown.len());
                assert!(wants <= bound, "asked for {wants} bytes, more than the bound of {bound}");
                if end == bytes.len() {
                    return events;
                }
                end = end.saturating_add(piece().max(1)).min(bytes.len());
            }
            Step::Command { command, consumed } => {
                assert!((1..=shown.len()).contains(&consumed), "{consumed} of {} consumed", shown.len());
                events.push(format!("{command:?}"));
                start += consumed;
            }
            Step::Skip { consumed } => {
                assert!((1..=shown.len()).contains(&consumed), "{consumed} of {} skipped", shown.len());
                start += consumed;
            }
            Step::Close { reason } => {
                assert_eq!(parser.next(&bytes[start..end]), Step::Close { reason }, "closed stays closed");
                events.push(format!("{reason:?}"));
                return events;
            }
        }
    }
}
