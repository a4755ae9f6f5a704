//! A request as logs show it: what it asks, of which key, with how long a value. Not the value.

use super::{Request, Work};
use protocol::memcache::{Asks, Binary, Command, Meta};
use std::fmt;

/// The key and the length of the value that a command has.
fn parts<'a>(command: &Command<'a>) -> (Option<&'a [u8]>, Option<usize>) {
    let of = |meta: &Meta<'a>| Some(meta.key_text);
    match command {
        Command::Get(get) => (Some(get.key), None),
        Command::Store(store) => (Some(store.key), Some(store.value.len())),
        Command::Delete { key, .. } | Command::Arith { key, .. } | Command::Touch { key, .. } => {
            (Some(key), None)
        }
        Command::MetaGet(get) => (of(&get.meta), None),
        Command::MetaSet(set) => (of(&set.meta), Some(set.value.len())),
        Command::MetaDelete(delete) => (of(&delete.meta), None),
        Command::MetaArith(arith) => (of(&arith.meta), None),
        Command::MetaDebug(meta) => (of(meta), None),
        Command::TooLarge(large) => (of(&large.meta), None),
        _ => (None, None),
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = match &self.work {
            Work::Command(command) => command,
            Work::Counted(counted) => &counted.command,
            _ => return f.write_str(self.name()),
        };
        match command {
            Command::Malformed { line, .. } | Command::Answered { line, .. } => {
                return write!(f, "what is answered {line:?}");
            }
            Command::Binary(Binary { asks: Asks::Refused(line), .. }) => {
                return write!(f, "what is answered {line:?}");
            }
            Command::Binary(Binary { asks, .. }) => return write!(f, "{asks:?}"),
            _ => f.write_str(self.name())?,
        }
        let (key, value) = parts(command);
        if let Some(key) = key {
            write!(f, " {}", key.escape_ascii())?;
        }
        value.map_or(Ok(()), |len| write!(f, ", {len} bytes"))
    }
}
