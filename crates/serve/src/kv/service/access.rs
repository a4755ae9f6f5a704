//! What commands want of the items: for the home of boxes, which orders them, and for the log, which has what they did.

use protocol::coherence::home::Access;
use protocol::memcache::{Command, KEY_MAX};
use store::durable::What;

/// What a command wants; none: nothing of any item.
pub(super) fn access<'k>(command: &'k Command<'k>, scratch: &'k mut [u8; KEY_MAX]) -> Option<Access<'k>> {
    let (meta, reads) = match command {
        Command::Get(get) if get.touch.is_none() => return Some(Access::Read(get.key)),
        Command::Get(get) => return Some(Access::Write(get.key)),
        Command::Store(store) => return Some(Access::Write(store.key)),
        Command::Delete { key, .. } | Command::Arith { key, .. } | Command::Touch { key, .. } => {
            return Some(Access::Write(key));
        }
        Command::FlushAll { .. } => return Some(Access::Flush),
        Command::MetaGet(get) => {
            let changes = get.ttl().is_some() || get.vivify().is_some() || get.recache().is_some();
            (&get.meta, !changes)
        }
        Command::MetaDebug(meta) => (meta, true),
        Command::MetaSet(set) => (&set.meta, false),
        Command::MetaDelete(delete) => (&delete.meta, false),
        Command::MetaArith(arith) => (&arith.meta, false),
        Command::TooLarge(large) => (&large.meta, false),
        _ => return None,
    };
    let key = meta.key(scratch);
    Some(if reads { Access::Read(key) } else { Access::Write(key) })
}

/// What a command that writes may do to its item, and the bytes that it adds to a value at most.
pub(super) fn what(command: &Command<'_>) -> (What, usize) {
    // More digits than any number has.
    const DIGITS: usize = 24;
    let seen = |version: Option<u64>| if version.is_some() { What::AllUnseen } else { What::All };
    match command {
        Command::Get(_) | Command::MetaGet(_) | Command::Touch { .. } => (What::State, 0),
        Command::MetaDelete(delete) if !delete.meta.flags.has(b'x') => (What::State, 0),
        Command::MetaSet(set) => (seen(set.version()), set.value.len()),
        Command::MetaArith(arith) => (seen(arith.version()), DIGITS),
        Command::Store(store) => (What::All, store.value.len()),
        _ => (What::All, DIGITS),
    }
}
