//! Listings of keys: `lru_crawler metadump`, `lru_crawler mgdump` and `stats cachedump`; of connections, `stats conns`, and of prefixes of keys, `stats
//! detail dump`.
//!
//! A listing walks the whole store, so it is answered in *slices*: each is a request of its own, whose reply says where the next begins. The
//! connection keeps the [`Listing`] between them, and asks for the next slice when it has its turn again and its client has taken the last. So
//! others are served between two slices, and a client that does not read holds up its own listing and buffers one slice.
//!
//! Invariant: a key that is there throughout is listed once ([`store::Store::list`]).
//!
//! Bounds: [`SLICE_BUCKETS`] and [`SLICE_BYTES`], and what one bucket holds beyond.

use super::{Beside, Commands, INLINE_VALUE, Reply};
use crate::kv::registers::{Id, Registers};
use base::Clock;
use protocol::memcache::emit::{self, LINE_BOUND};
use protocol::memcache::{Command, Dump, Line, Stats};
use ring::arena::Producer;
use std::fmt::Write;
use std::sync::Arc;
use store::{Cursor, Peek};

/// Buckets of the index in a slice: some 35 items, ten microseconds with the write. Others wait for one, so it is not longer than pays for the turn.
const SLICE_BUCKETS: usize = 8;

/// Bytes after which a slice ends.
const SLICE_BYTES: usize = INLINE_VALUE / 2;

/// Bytes of text in all of a `stats cachedump`, as in memcached.
const CACHEDUMP_BYTES: usize = 2 << 20;

/// A listing and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    form: Form,
    from: Cursor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Everything known of each key.
    Metadump,
    /// A command that gets it.
    Mgdump,
    /// Some keys with their sizes: what is left of the items that were asked for, and of the bytes there may be.
    Cachedump { items: u32, bytes: u32 },
    /// Connections, behind this number.
    Conns(Option<i32>),
    /// Prefixes from this number on.
    Prefixes(usize),
}

impl Listing {
    /// The listing that `command` asks for, if that is what it does.
    pub fn of(command: &Command<'_>) -> Option<Listing> {
        let form = match *command {
            Command::Dump(Dump { as_meta_get: true, .. }) => Form::Mgdump,
            Command::Dump(_) => Form::Metadump,
            Command::Stats(Stats::Cachedump { limit, .. }) => {
                let items = if limit == 0 { u32::MAX } else { limit };
                Form::Cachedump { items, bytes: CACHEDUMP_BYTES as u32 }
            }
            Command::Stats(Stats::Conns) => Form::Conns(None),
            Command::Stats(Stats::DetailDump) => Form::Prefixes(0),
            _ => return None,
        };
        Some(Listing { form, from: Cursor::default() })
    }

    /// Whether clients may have it.
    pub fn may_be(&self, registers: &Registers) -> bool {
        matches!(self.form, Form::Conns(_) | Form::Prefixes(_)) || registers.is_on(Id::StoreDumps)
    }
}

impl Form {
    /// Adds the line of an item.
    fn write(&mut self, peek: &Peek<'_>, text: &mut String) {
        // Writing to a string does not fail.
        let _ = match self {
            Form::Metadump => {
                text.push_str("key=");
                uri_encode(peek.key, text);
                let exp = if peek.expiry == 0 { -1 } else { i64::from(peek.expiry) };
                let fetch = if peek.fetched { "yes" } else { "no" };
                let (la, cas, size) = (peek.access, peek.version, peek.footprint);
                writeln!(text, " exp={exp} la={la} cas={cas} fetch={fetch} cls=1 size={size}")
            }
            Form::Mgdump => {
                text.push_str("mg ");
                uri_encode(peek.key, text);
                text.push_str("\r\n");
                Ok(())
            }
            Form::Conns(_) | Form::Prefixes(_) | Form::Cachedump { items: 0, .. } => Ok(()),
            Form::Cachedump { items, bytes } => {
                let key = String::from_utf8_lossy(peek.key);
                let before = text.len();
                let written = write!(text, "ITEM {key} [{} b; {} s]\r\n", peek.value.len(), peek.expiry);
                let len = (text.len() - before) as u32;
                if len > *bytes {
                    text.truncate(before);
                }
                *items = if len > *bytes { 0 } else { *items - 1 };
                *bytes = bytes.saturating_sub(len);
                written
            }
        };
    }

    fn is_over(self) -> bool {
        matches!(self, Form::Cachedump { items: 0, .. })
    }

    fn end(self) -> Line {
        match self {
            Form::Mgdump => Line::MetaMiss,
            Form::Metadump | Form::Cachedump { .. } | Form::Conns(_) | Form::Prefixes(_) => Line::End,
        }
    }
}

impl Commands {
    /// Adds the lines of a slice of items; where the next begins.
    fn list_items(&mut self, form: &mut Form, from: Cursor, text: &mut String) -> Option<Cursor> {
        let mut cursor = Some(from);
        for _ in 0..SLICE_BUCKETS {
            let Some(at) = cursor.filter(|_| text.len() < SLICE_BYTES && !form.is_over()) else { break };
            cursor = self.store.list(self.now, at, |peek| form.write(peek, text));
        }
        cursor
    }

    /// The next slice of a listing.
    pub(super) fn slice(&mut self, listing: &Listing, out: &mut Producer) -> Option<Reply> {
        let mut room = out.reserve((INLINE_VALUE + LINE_BOUND) as u32)?;
        let mut text = String::with_capacity(INLINE_VALUE);
        let Listing { mut form, from } = *listing;
        let cursor = match &mut form {
            Form::Conns(behind) => {
                let now = Clock::shared().now();
                *behind = self.config.connections.list(*behind, now, SLICE_BYTES, &mut text);
                behind.map(|_| from)
            }
            Form::Prefixes(at) => {
                let next = self.prefixes.list(*at, SLICE_BYTES, &mut text);
                next.map(|next| {
                    *at = next;
                    from
                })
            }
            form => self.list_items(form, from, &mut text),
        };
        let next = cursor.filter(|_| !form.is_over()).map(|from| Listing { form, from });
        let mut reply = emit::Reply::new(&mut room);
        let mut value = None;
        if text.len() <= INLINE_VALUE {
            reply.bytes(text.as_bytes());
        } else {
            // A bucket with many long keys.
            value = Some(self.detach(0, Arc::new(text.into_bytes())));
        }
        if next.is_none() {
            reply.line(form.end());
        }
        let len = reply.len() as u32;
        let beside =
            (value.is_some() || next.is_some()).then(|| Box::new(Beside { value, next, late: None }));
        Some(Reply { span: room.commit(len), beside })
    }
}

/// Adds a key as listings write it: everything but letters, digits and `-._~` as `%NN`.
pub(super) fn uri_encode(key: &[u8], text: &mut String) {
    for &b in key {
        if b.is_ascii_alphanumeric() || b"-._~".contains(&b) {
            text.push(b.into());
        } else {
            let _ = write!(text, "%{b:02X}");
        }
    }
}
