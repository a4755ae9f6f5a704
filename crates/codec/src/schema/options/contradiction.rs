//! What options of a method contradict, and what to do about it.

use super::{CACHEABLE, IDEMPOTENT, KEY, MAX_KEY_DEPTH, MAX_TTL_SECONDS, ORDER, PLACES, TRANSACTION};
use crate::table::Kind;
use std::fmt::{self, Formatter};

/// What options of a method contradict.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Printed, each is a sentence.
pub enum Contradiction {
    KeyOfStream,
    KeyField { path: String, field: String, message: String },
    KeyThrough { path: String, field: String },
    KeyRepeated(String),
    KeyKind(String, Kind),
    KeyInOneof(String),
    KeyDefault(String),
    KeyDepth(String),
    CacheableWithoutKey,
    CacheableStreams,
    CacheableTime(Option<u64>),
    CacheableTransaction,
    CacheableNotIdempotent,
    CacheableSideEffects,
    WriterUnknown(String),
    WriterTwice(String),
    WriterCacheable(String),
    WriterReads(String),
    WriterStreams(String),
    WriterWithoutKey(String),
    WriterKey { name: String, theirs: Kind, ours: Kind },
    Idempotence,
    OrderWithoutKey,
    OrderOfStream,
    OrderApart(String),
    PlacesOfStream,
    TransactionStreams,
}

impl Contradiction {
    /// The number of the option that it is about, in `MethodOptions`.
    pub(in crate::schema) fn option(&self) -> u32 {
        use Contradiction::*;
        match self {
            KeyOfStream
            | KeyField { .. }
            | KeyThrough { .. }
            | KeyRepeated(_)
            | KeyKind(..)
            | KeyInOneof(_)
            | KeyDefault(_)
            | KeyDepth(_) => KEY,
            CacheableWithoutKey
            | CacheableStreams
            | CacheableTime(_)
            | CacheableTransaction
            | CacheableNotIdempotent
            | CacheableSideEffects
            | WriterUnknown(_)
            | WriterTwice(_)
            | WriterCacheable(_)
            | WriterReads(_)
            | WriterStreams(_)
            | WriterWithoutKey(_)
            | WriterKey { .. } => CACHEABLE,
            Idempotence => IDEMPOTENT,
            OrderWithoutKey | OrderOfStream | OrderApart(_) => ORDER,
            PlacesOfStream => PLACES,
            TransactionStreams => TRANSACTION,
        }
    }
}

/// A type as .proto files write it.
fn word(kind: &Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.option() {
            KEY => self.of_key(f),
            CACHEABLE => self.of_cacheable(f),
            _ => self.of_others(f),
        }
    }
}

impl Contradiction {
    fn of_key(&self, f: &mut Formatter<'_>) -> fmt::Result {
        use Contradiction::*;
        match self {
            KeyOfStream => write!(f, "a stream of requests has no key; take (millrace.key) away"),
            KeyField { path, field, message } => {
                write!(f, "key {path:?}: {message} has no field {field:?}; name a field of the request")
            }
            KeyThrough { path, field } => {
                write!(
                    f,
                    "key {path:?}: {field:?} is no single message (with a length); end the path there, or name another"
                )
            }
            KeyRepeated(path) => {
                write!(f, "key {path:?} is repeated; a key is one value: name another field")
            }
            KeyKind(path, kind) => write!(
                f,
                "key {path:?} is of type {}; a key is an integer, bool, enum, string or bytes",
                word(kind)
            ),
            KeyInOneof(path) => {
                write!(
                    f,
                    "key {path:?} goes through a oneof, where it may not be; name a field outside of it"
                )
            }
            KeyDefault(path) => {
                write!(
                    f,
                    "key {path:?} has a default value; an absent key reads as zero or empty: take it away"
                )
            }
            KeyDepth(path) => write!(f, "key {path:?} has more than {MAX_KEY_DEPTH} parts"),
            _ => self.of_others(f),
        }
    }

    fn of_cacheable(&self, f: &mut Formatter<'_>) -> fmt::Result {
        use Contradiction::*;
        match self {
            CacheableWithoutKey => {
                write!(f, "cacheable, but without a key; say which field it is with (millrace.key)")
            }
            CacheableStreams => {
                write!(f, "cacheable, but it streams; only one request and one reply can be kept")
            }
            CacheableTime(Some(seconds)) => {
                write!(
                    f,
                    "ttl_seconds is {seconds}; say how long a reply may be kept, 1 to {MAX_TTL_SECONDS}"
                )
            }
            CacheableTime(None) => {
                write!(f, "cacheable, but for how long? Give ttl_seconds, 1 to {MAX_TTL_SECONDS}")
            }
            CacheableTransaction => {
                write!(f, "cacheable and a transaction; a kept reply would commit nothing: take one away")
            }
            CacheableNotIdempotent => {
                write!(f, "cacheable, but not idempotent; a cacheable method only reads: take one away")
            }
            CacheableSideEffects => write!(
                f,
                "cacheable, but idempotency_level is IDEMPOTENT: a kept reply has no effect; say NO_SIDE_EFFECTS"
            ),
            _ => self.of_writer(f),
        }
    }

    fn of_writer(&self, f: &mut Formatter<'_>) -> fmt::Result {
        use Contradiction::*;
        match self {
            WriterUnknown(name) => {
                write!(f, "invalidated_by {name:?} is no method of this service; name it as rpc does")
            }
            WriterTwice(name) => write!(f, "invalidated_by {name:?} is there twice; take one away"),
            WriterCacheable(name) => {
                write!(f, "invalidated_by {name:?}, which is cacheable and so only reads; take one away")
            }
            WriterReads(name) => {
                write!(
                    f,
                    "invalidated_by {name:?}, whose idempotency_level is NO_SIDE_EFFECTS; take one away"
                )
            }
            WriterStreams(name) => {
                write!(f, "invalidated_by {name:?}, which streams; what writes has one request and one reply")
            }
            WriterWithoutKey(name) => {
                write!(
                    f,
                    "invalidated_by {name:?}, which has no key; give it the (millrace.key) that it writes"
                )
            }
            WriterKey { name, theirs, ours } => write!(
                f,
                "invalidated_by {name:?}, whose key is of type {}, not {} (or another enum); give both the same",
                word(theirs),
                word(ours)
            ),
            _ => self.of_others(f),
        }
    }

    fn of_others(&self, f: &mut Formatter<'_>) -> fmt::Result {
        use Contradiction::*;
        match self {
            Idempotence => write!(
                f,
                "(millrace.idempotent) is false, but idempotency_level says that it is; take one away"
            ),
            OrderWithoutKey => {
                write!(f, "ordered by key, but without one; say which field it is with (millrace.key)")
            }
            OrderOfStream => {
                write!(
                    f,
                    "(millrace.order) of a method that streams; streams are in order by themselves: take it away"
                )
            }
            OrderApart(name) => write!(
                f,
                "in order with {name:?}, but they have no place in common; give (millrace.places) of both one"
            ),
            PlacesOfStream => write!(
                f,
                "(millrace.places) without EDGE of a method that streams; streams run there: add EDGE"
            ),
            TransactionStreams => {
                write!(f, "a transaction, but it streams; a transaction is one request and one reply")
            }
            _ => unreachable!("what is about another option is said where that is"),
        }
    }
}
