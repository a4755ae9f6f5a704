//! Arbitrary bytes on a connection whose client has to log in, arbitrarily split, mean the same as in one piece; none makes the parser panic, stand still
//! or ask for more than its bound, and none is let in without a login that is right. Beside that, the same bytes as a file of users. The first bytes of
//! the input choose the splits and the protocol.
//!
//! `cargo +nightly fuzz run memcache_login`; `crates/protocol/tests/logins.rs` checks the same properties in `cargo test`.
#![no_main]

#[path = "../../crates/protocol/tests/trace/mod.rs"]
mod trace;

use base::users::{Form, Users};
use libfuzzer_sys::fuzz_target;
use protocol::memcache::{Entry, Protocol};
use trace::{holds_behind, is_sound_before_login};

const MAX_VALUE: usize = 64;
const SPLITS: usize = 4;

fuzz_target!(|input: &[u8]| {
    let Some((splits, bytes)) = input.split_first_chunk::<SPLITS>() else { return };
    let protocol = [Protocol::Any, Protocol::Text, Protocol::Binary][usize::from(splits[0]) % 3];
    is_sound_before_login(&holds_behind(Entry { protocol, has_login: true }, bytes, MAX_VALUE, splits));
    holds_behind(Entry { protocol, has_login: false }, bytes, MAX_VALUE, splits);
    let mut lines = bytes.split(|&byte| byte == b'\n');
    if let Ok(users) = Users::parse(bytes, Form::Line)
        && let Some(line) = lines.find(|line| !matches!(line, [] | [b'\r']))
    {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|&byte| byte == b':').expect("each line has one");
        assert!(users.admits(&line[..colon], &line[colon + 1..]) && !users.admits(line, b""));
    }
    // What a second colon cuts off is another password.
    let _ = Users::parse(bytes, Form::Colon);
});
