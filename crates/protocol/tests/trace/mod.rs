//! Drives a parser over bytes in pieces of any size and checks what must hold at every step: it makes progress, it stays
//! within its buffer bound, it never asks for what it already has. Shared with `fuzz/`.

// Each suite and each target uses its own part of this module.
#![allow(dead_code)]

use protocol::memcache::{Entry, Parser, Step};

/// Checks that `bytes` mean the same in pieces of these sizes, over and over, as in one; what they mean.
pub fn holds_in_pieces(bytes: &[u8], max_value: usize, pieces: &[u8]) -> Vec<String> {
    holds_behind(Entry::default(), bytes, max_value, pieces)
}

/// The same of a connection that begins so.
pub fn holds_behind(entry: Entry, bytes: &[u8], max_value: usize, pieces: &[u8]) -> Vec<String> {
    let parser = || Parser::entered(entry, max_value);
    let whole = trace_by(parser(), bytes, || usize::MAX);
    let mut pieces = pieces.iter().cycle();
    let split = trace_by(parser(), bytes, || pieces.next().map_or(1, |&size| usize::from(size)));
    assert_eq!(split, whole);
    whole
}

/// The commands that `bytes` mean when they arrive in pieces of `piece()` bytes, each as text, and how it ended.
pub fn trace(bytes: &[u8], max_value: usize, piece: impl FnMut() -> usize) -> Vec<String> {
    trace_by(Parser::new(max_value), bytes, piece)
}

/// What `parser` makes of them. A login is right whose password is its user's name.
pub fn trace_by(mut parser: Parser, bytes: &[u8], mut piece: impl FnMut() -> usize) -> Vec<String> {
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
            Step::Login { login, consumed } => {
                assert!((1..=shown.len()).contains(&consumed), "{consumed} of {} consumed", shown.len());
                let is_right = login.credentials.is_some_and(|(user, password)| user == password);
                events.push(format!("{login:?} {:?}", parser.answer(&login, is_right)));
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

/// Checks that nothing that wants a login was handed out before one that is right, nor after one that failed.
pub fn is_sound_before_login(events: &[String]) {
    const FOR_ALL: [&str; 6] = [
        "Malformed { line: Unauthenticated",
        "Malformed { line: BadLogin",
        "asks: Sasl(",
        "asks: Version",
        "asks: Refused(",
        "Malformed { line: LineTooLong",
    ];
    let mut is_in = false;
    for event in events {
        if event.starts_with("Login {") {
            is_in = event.contains("line: Stored") || event.contains("Sasl(Authenticated)");
            continue;
        }
        let is_command = event.contains(" {");
        let is_for_all = FOR_ALL.iter().any(|begin| event.contains(begin));
        assert!(is_in || !is_command || is_for_all, "{event} before a login");
        // Whoever begins another one is out until it ends.
        is_in &= !event.contains("Sasl(Continues)");
    }
}
