//! What a request means: one key, one command, every slice borrowed from the caller's buffer.
//!
//! A retrieval of many keys (`get a b c`) is handed out key by key; the last one says so, or a [`Command::GetEnd`]
//! follows where the line ended after its last key was already handed out.
//!
//! Bounds: a [`Command`] is at most [`COMMAND_SIZE`] bytes (asserted below), so that it may travel in a ring slot.

use super::binary::{Asked, Binary};
use super::exptime::Exptime;
use super::lines::Line;
use super::meta::{Meta, MetaArith, MetaDelete, MetaGet, MetaSet};
use super::watch::Streams;

/// Upper bound of `size_of::<Command>()`.
pub const COMMAND_SIZE: usize = 96;

const _: () = assert!(size_of::<Command<'_>>() <= COMMAND_SIZE);

/// One request of one key, or one of the few without a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command<'a> {
    /// One key of `get`, `gets`, `gat` or `gats`.
    Get(Get<'a>),
    /// A retrieval ended after its last key: answer `END`.
    GetEnd,
    /// `set`, `add`, `replace`, `append`, `prepend` or `cas`, with its value.
    Store(Store<'a>),
    /// `delete`.
    Delete {
        /// The key.
        key: &'a [u8],
        /// Send no reply.
        noreply: bool,
    },
    /// `incr` or `decr`.
    Arith {
        /// The key.
        key: &'a [u8],
        /// How far.
        delta: u64,
        /// True for `decr`, which stops at 0; `incr` wraps at 2⁶⁴.
        decrement: bool,
        /// Send no reply.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// The new expiration time.
        exptime: Exptime,
        /// Send no reply.
        noreply: bool,
    },
    /// `mg`.
    MetaGet(MetaGet<'a>),
    /// `ms`, with its value.
    MetaSet(MetaSet<'a>),
    /// `md`.
    MetaDelete(MetaDelete<'a>),
    /// `ma`.
    MetaArith(MetaArith<'a>),
    /// `me`.
    MetaDebug(Meta<'a>),
    /// `mn`: answer `MN`, and flush what was written.
    MetaNoop,
    /// `flush_all`.
    FlushAll {
        /// When; [`Exptime::moment`] turns it into a second.
        delay: Exptime,
        /// Send no reply.
        noreply: bool,
        /// The header of a binary request; of a text one, nothing.
        header: &'a [u8],
    },
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// The level wanted.
        level: u32,
        /// Send no reply.
        noreply: bool,
    },
    /// `stats` and its families.
    Stats(Stats<'a>),
    /// `cache_memlimit`.
    CacheMemlimit {
        /// The limit in MiB, between 8 and 10⁹.
        mib: u32,
        /// Send no reply.
        noreply: bool,
    },
    /// `lru_crawler metadump` or `mgdump`: list keys.
    Dump(Dump<'a>),
    /// `shutdown`. memcached refuses it ([`Line::ShutdownRefused`]) unless started with `-A`.
    Shutdown(Shutdown),
    /// `watch`: from now on this connection is shown what happens in these streams, and asks nothing more. [`Line::WatchRefused`] where it may not be.
    Watch(Streams),
    /// `quit`: close, without a reply, once earlier replies are written.
    Quit,
    /// An administrative command that memcached knows and this server has nothing to do for: answer the line.
    Answered {
        /// The answer.
        line: Line,
        /// Send no reply.
        noreply: bool,
    },
    /// A request that means nothing: answer the line. Inside a retrieval of many keys it also ends that retrieval.
    Malformed {
        /// What memcached says to it.
        line: Line,
        /// The line asked for no reply, and memcached then hides the error too.
        noreply: bool,
    },
    /// A binary request without the key of an item.
    Binary(Binary<'a>),
    /// A value beyond the limit: answer [`Line::TooLarge`]; its bytes are swallowed by the following steps.
    TooLarge(TooLarge<'a>),
}

/// One key of a retrieval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Get<'a> {
    /// The key.
    pub key: &'a [u8],
    /// `gat` and `gats`: the new expiration time of a hit.
    pub touch: Option<Exptime>,
    /// `gets` and `gats`: the reply carries the version.
    pub with_cas: bool,
    /// The line ends here: answer `END` after this key.
    pub last: bool,
}

/// Which condition a classic storage command puts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum StoreVerb {
    /// Always.
    Set,
    /// Only where the key is absent.
    Add,
    /// Only where the key is present.
    Replace,
    /// Behind the present value; flags and expiration time are ignored.
    Append,
    /// Before the present value; flags and expiration time are ignored.
    Prepend,
    /// Only where the version is the one given.
    Cas,
}

/// A classic storage command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Store<'a> {
    /// The condition.
    pub verb: StoreVerb,
    /// Send no reply.
    pub noreply: bool,
    /// The client's own 32 bits.
    pub flags: u32,
    /// The expiration time.
    pub exptime: Exptime,
    /// The version that `cas` compares; 0 for the other verbs.
    pub cas: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value, contiguous, without its line end.
    pub value: &'a [u8],
}

/// A value that was refused for its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge<'a> {
    /// The key, as text or base64 ([`Meta::is_base64`]); its flags are empty for classic commands.
    pub meta: Meta<'a>,
    /// Delete the key, as memcached does for `set` and `ms`: its old value is no longer what the client thinks it is.
    pub drop_old: bool,
    /// Send no reply. Never for `ms`.
    pub noreply: bool,
}

/// Which statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stats<'a> {
    /// Plain `stats`.
    General,
    /// The configuration.
    Settings,
    /// Items per class.
    Items,
    /// Memory per class.
    Slabs,
    /// The histogram of item sizes.
    Sizes,
    /// Switch that histogram on.
    SizesEnable,
    /// Switch it off.
    SizesDisable,
    /// The connections.
    Conns,
    /// Set the counters to zero; the answer is [`Line::Reset`].
    Reset,
    /// Count per key prefix.
    DetailOn,
    /// Stop counting per key prefix.
    DetailOff,
    /// Show the counts per key prefix.
    DetailDump,
    /// List some keys of a class.
    Cachedump {
        /// The class, below 64.
        class: u32,
        /// How many; 0 for as many as fit.
        limit: u32,
    },
    /// Anything else; memcached answers [`Line::Error`].
    Other(&'a [u8]),
}

/// A listing of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dump<'a> {
    /// `all`, `hash` or class numbers with commas.
    pub classes: &'a [u8],
    /// `mgdump` (lines that are `mg` commands) instead of `metadump`.
    pub as_meta_get: bool,
}

/// How to shut down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    /// At once.
    Now,
    /// After draining.
    Graceful,
    /// An unknown word; [`Line::ShutdownMode`] where shutdown is allowed at all.
    Unknown,
}

impl<'a> Command<'a> {
    /// All that it borrows, so that a command may be kept beyond its input: key, value or flags.
    pub fn borrowed_mut(&mut self) -> [Option<&mut &'a [u8]>; 3] {
        match self {
            Command::Get(get) => [Some(&mut get.key), None, None],
            Command::Store(store) => [Some(&mut store.key), Some(&mut store.value), None],
            Command::Delete { key, .. } | Command::Arith { key, .. } | Command::Touch { key, .. } => {
                [Some(key), None, None]
            }
            Command::MetaGet(MetaGet { meta, .. })
            | Command::MetaDelete(MetaDelete { meta, .. })
            | Command::MetaArith(MetaArith { meta, .. })
            | Command::MetaDebug(meta)
            | Command::TooLarge(TooLarge { meta, .. }) => {
                [Some(&mut meta.key_text), Some(&mut meta.flags_text), None]
            }
            Command::MetaSet(MetaSet { meta, value, .. }) => {
                [Some(&mut meta.key_text), Some(&mut meta.flags_text), Some(value)]
            }
            Command::Stats(Stats::Other(words)) => [Some(words), None, None],
            Command::FlushAll { header, .. } | Command::Binary(Binary { header, .. }) => {
                [Some(header), None, None]
            }
            Command::Dump(dump) => [Some(&mut dump.classes), None, None],
            _ => [None, None, None],
        }
    }
}

impl Command<'_> {
    /// What a reply returns of a binary request; none of a text one.
    #[inline]
    pub fn asked(&self) -> Option<Asked> {
        match self {
            Command::MetaGet(MetaGet { meta, .. })
            | Command::MetaSet(MetaSet { meta, .. })
            | Command::MetaDelete(MetaDelete { meta, .. })
            | Command::MetaArith(MetaArith { meta, .. })
            | Command::TooLarge(TooLarge { meta, .. }) => meta.asked(),
            Command::FlushAll { header, .. } | Command::Binary(Binary { header, .. }) => Asked::of(header),
            _ => None,
        }
    }

    /// True where a classic command asked for no reply at all, errors included. Meta commands have their own, finer rule.
    pub fn noreply(&self) -> bool {
        match *self {
            Command::Store(Store { noreply, .. })
            | Command::TooLarge(TooLarge { noreply, .. })
            | Command::Delete { noreply, .. }
            | Command::Arith { noreply, .. }
            | Command::Touch { noreply, .. }
            | Command::FlushAll { noreply, .. }
            | Command::Verbosity { noreply, .. }
            | Command::CacheMemlimit { noreply, .. }
            | Command::Answered { noreply, .. }
            | Command::Malformed { noreply, .. } => noreply,
            _ => false,
        }
    }
}
