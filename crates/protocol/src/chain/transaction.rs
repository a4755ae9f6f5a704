//! What a transaction asks, and what it is answered.
//!
//! A transaction is a set of preconditions, reads and writes on declared keys. All preconditions and reads see the moment before it; if
//! every precondition holds and every addition has a number to add to, all writes are done at once, and get the transaction's LSN as
//! their version; else nothing is. An absent key has version 0.
//!
//! Bounds: [`MAX_KEY`], [`MAX_VALUE`], [`MAX_OPS`], [`MAX_BYTES`]; of what comes back [`MAX_REPLY`] and [`MAX_REMEMBERED`].
//! A key has at most one read and one write; as many preconditions as one likes.

use super::slots::slot;
use super::{Durability, Lsn};
use std::fmt;

/// Bytes of a key; at least one. Memcached's 250, and one for what lies beside such a key.
pub const MAX_KEY: usize = 251;
/// Bytes of a value.
pub const MAX_VALUE: usize = 64 << 10;
/// Preconditions, reads and writes of a transaction together.
pub const MAX_OPS: usize = 1024;
/// Bytes of keys and values of a transaction together.
pub const MAX_BYTES: usize = 1 << 20;

/// Bytes of the outcome of a transaction that only reads, as [`Outcome::bytes`] counts them.
pub const MAX_REPLY: usize = 4 << 20;
/// Bytes of the outcome of one that writes: it is remembered in an item of the image, behind its sequence number.
pub const MAX_REMEMBERED: usize = MAX_VALUE - 8;

/// What must hold of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// It has this version; 0: it is absent.
    Version(u64),
    /// It is there, with any value.
    Exists,
    /// It has this value.
    Value(Vec<u8>),
    /// It is a number of at least this much; absent counts as 0.
    AtLeast(i64),
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// It has this value.
    Put(Vec<u8>),
    /// It is absent.
    Delete,
    /// It is a number (decimal text, 64-bit signed) and becomes larger by this much; absent counts as 0.
    Add(i64),
}

/// Which trace something is part of, and of which span there: bytes that mean nothing here. They travel with what is traced, and are not there else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TraceContext(pub Option<[u8; TRACE_CONTEXT_BYTES]>);

/// Bytes of a [`TraceContext`].
pub const TRACE_CONTEXT_BYTES: usize = base::trace::CONTEXT_BYTES;

/// A one-shot transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// Preconditions, each of a key.
    pub conditions: Vec<(Vec<u8>, Condition)>,
    /// Keys that are read.
    pub reads: Vec<Vec<u8>>,
    /// Keys that are written.
    pub writes: Vec<(Vec<u8>, Change)>,
    /// The number of the [claim](super::claim) that it is made under; 0: none.
    pub claim: u64,
    /// Whose trace it leaves spans in. It changes nothing that is done.
    pub trace: TraceContext,
}

/// An item as a read found it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// The LSN of the transaction that wrote it.
    pub version: Lsn,
    /// Its value.
    pub value: Vec<u8>,
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Abort {
    /// The precondition at this place does not hold.
    Condition(u32),
    /// The write at this place adds to something that is no number.
    NotANumber(u32),
    /// The write at this place adds beyond 64 bits.
    Overflow(u32),
    /// The chain has no room for what is written, or for remembering what was read: that is at most [`MAX_VALUE`] with what belongs to it.
    NoRoom,
    /// What the reads found is too much for one reply: [`Transaction::max_reply`]. It is left out.
    LongReply,
    /// Another [claim](super::claim) counts than the one it is made under, or none does. Nothing was looked at; the claim's item says where to go.
    Claimed,
}

/// What became of a transaction, for good: whoever asks again with the same session and number hears the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// Its place in the order. Of a transaction that only reads, what it saw is the state after this one, and later ones that were committed
    /// meanwhile write none of its keys.
    pub lsn: Lsn,
    /// Nothing was written, because of this.
    pub abort: Option<Abort>,
    /// What the reads found, in their order; also where it aborted.
    pub reads: Vec<Option<Found>>,
    /// What each addition came to, in the order of the writes; empty where it aborted.
    pub sums: Vec<i64>,
    /// What it survives: the weakest of the replicas that have it. Of a transaction that only reads, the one that it read from; it may
    /// not know what the others have, though they all have what is committed.
    pub durability: Durability,
    /// How many replicas those are.
    pub copies: u8,
}

/// What is wrong with a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// It asks nothing.
    Empty,
    /// It has more operations than [`MAX_OPS`].
    TooManyOps(usize),
    /// It has more bytes than [`MAX_BYTES`].
    TooLong(usize),
    /// A key is empty or longer than [`MAX_KEY`].
    BadKey(Vec<u8>),
    /// A value is longer than [`MAX_VALUE`].
    LongValue(Vec<u8>, usize),
    /// A key is written twice.
    WrittenTwice(Vec<u8>),
    /// A key is read twice.
    ReadTwice(Vec<u8>),
    /// A key's slot is not among those of the chain that was asked.
    OtherChain(Vec<u8>),
}

impl Transaction {
    /// Whether it writes nothing: any replica can answer it.
    pub fn only_reads(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether it is one at all.
    ///
    /// # Errors
    /// [`Malformed`]: what is wrong with it.
    pub fn check(&self) -> Result<(), Malformed> {
        let ops = self.conditions.len() + self.reads.len() + self.writes.len();
        if ops == 0 {
            return Err(Malformed::Empty);
        }
        if ops > MAX_OPS {
            return Err(Malformed::TooManyOps(ops));
        }
        for (key, value) in self.parts() {
            if key.is_empty() || key.len() > MAX_KEY {
                return Err(Malformed::BadKey(key.to_vec()));
            }
            if value.len() > MAX_VALUE {
                return Err(Malformed::LongValue(key.to_vec(), value.len()));
            }
        }
        let bytes = self.bytes();
        if bytes > MAX_BYTES {
            return Err(Malformed::TooLong(bytes));
        }
        if let Some(key) = twice(self.writes.iter().map(|(key, _)| key)) {
            return Err(Malformed::WrittenTwice(key.clone()));
        }
        twice(self.reads.iter()).map_or(Ok(()), |key| Err(Malformed::ReadTwice(key.clone())))
    }

    /// Bytes of its outcome, at most; else it is aborted with [`Abort::LongReply`].
    pub fn max_reply(&self) -> usize {
        if self.only_reads() { MAX_REPLY } else { MAX_REMEMBERED }
    }

    /// Bytes of its keys and values.
    pub fn bytes(&self) -> usize {
        self.parts().map(|(key, value)| key.len() + value.len()).sum()
    }

    /// Each key with the bytes that come with it.
    fn parts(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let conditions = self.conditions.iter().map(|(key, condition)| match condition {
            Condition::Value(value) => (&key[..], &value[..]),
            Condition::Version(_) | Condition::Exists | Condition::AtLeast(_) => (&key[..], &[][..]),
        });
        let writes = self.writes.iter().map(|(key, change)| match change {
            Change::Put(value) => (&key[..], &value[..]),
            Change::Delete | Change::Add(_) => (&key[..], &[][..]),
        });
        conditions.chain(self.reads.iter().map(|key| (&key[..], &[][..]))).chain(writes)
    }

    /// The keys it touches, each once, in order.
    pub fn keys(&self) -> Vec<&[u8]> {
        let mut keys: Vec<_> = self.parts().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

fn twice<'a>(keys: impl Iterator<Item = &'a Vec<u8>>) -> Option<&'a Vec<u8>> {
    let mut keys: Vec<_> = keys.collect();
    keys.sort_unstable();
    keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Empty => f.write_str("a transaction needs an operation"),
            Malformed::TooManyOps(n) => write!(f, "{n} operations; a transaction has at most {MAX_OPS}"),
            Malformed::TooLong(n) => {
                write!(f, "{n} bytes of keys and values; a transaction has at most {MAX_BYTES}")
            }
            Malformed::BadKey(key) if key.is_empty() => f.write_str("a key needs a byte"),
            Malformed::BadKey(key) => write!(f, "a key of {} bytes; keys have at most {MAX_KEY}", key.len()),
            Malformed::LongValue(key, n) => {
                write!(f, "{n} bytes for \"{}\"; values have at most {MAX_VALUE}", key.escape_ascii())
            }
            Malformed::WrittenTwice(key) => {
                write!(f, "\"{}\" is written twice; a key has at most one write", key.escape_ascii())
            }
            Malformed::ReadTwice(key) => {
                write!(f, "\"{}\" is read twice; once tells as much", key.escape_ascii())
            }
            Malformed::OtherChain(key) => write!(
                f,
                "\"{}\", of slot {}, is in another chain: the one that the cluster's file gives this slot to. Is the file that was gone by an old one, or was a chain \
                 named by hand?",
                key.escape_ascii(),
                slot(key).unwrap_or_default()
            ),
        }
    }
}

impl std::error::Error for Malformed {}
