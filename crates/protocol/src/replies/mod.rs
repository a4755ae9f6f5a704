//! Replies of RPC methods that the in-network cache keeps: who may store one, and how a method that writes ends that.
//!
//! ```text
//!  read   get ──▶ kept ──▶ hit                                                    often a box answers: the server hears nothing
//!             └─▶ nothing ──▶ claim it ──▶ handler ──▶ store over the claim ──▶ kept for its time to live
//!             └─▶ claimed or being written by another ──▶ handler, and nothing is stored
//!  write  mark it: being written ──▶ handler ──▶ take the mark away
//! ```
//! A reply is an *item* of the cluster's store ([`Item`]): its operations are the cache's, linearizable on each key, and boxes keep copies of it
//! as of any other. So nothing here is about boxes.
//!
//! Invariants:
//! 1. A reply is stored over the claim that was there before its handler began, by version: what was computed before a write began is never
//!    stored after that.
//! 2. While a handler that writes runs, its mark is there, and nobody claims or stores. Several writers each have a mark of their own, and
//!    the last that ends takes away the item.
//! 3. A write has ended when, after its handler, nothing was there that was computed before. If its mark is not there then (it lived too
//!    short, or its home lost it), whatever is there is taken away.
//! 4. A hit is for the same name and the same request, byte by byte: keys that share an item, and requests that differ beside their
//!    key, are told apart.
//!
//! From 1 to 3: no read that begins after a write's end sees what was before it; and if no mark is lost, readers never go back in time
//! (each method behaves as if its handler ran at one moment between call and reply).
//!
//! Who dies: a claim ends after [`Lives::claim`], a mark after [`Lives::mark`]; until then reads are served, and nothing is kept. A mark counts from when it
//! is placed, which its writer hears later: a handler must be done before its mark ends.
//!
//! Bounds: [`MOST_WRITERS`] marks of one item, [`MOST_TRIES`] rounds of a write; a reply that does not fit is not kept.
//!
//! Errors: of the cache, none for a read: it goes to the handler. A write that cannot be marked is refused before its handler runs.
//!
//! Tests: `tests`, readers and writers in every order that chance finds, with planted bugs; `prove::sim` over boxes and homes with faults.

mod entry;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use entry::{Entry, MOST_WRITERS};
pub use read::{Read, ReadNext};
pub use write::{Write, WriteNext};

use crate::planted::planted;
use crate::wire::MAX_KEY;
use base::Nanos;
use base::hash::{Hasher64, WIRE_SEED};

planted! {
    /// A reply is stored whatever is there.
    FillWithoutClaim "fill-without-claim",
    /// What is there is taken away after the handler only.
    InvalidateAfterwards "invalidate-afterwards",
    /// A writer that finds another's mark leaves none of its own.
    MarkOfAnother "mark-of-another",
    /// The first writer that ends takes all marks away.
    EndAllMarks "end-all-marks",
    /// A hit is not held against the name.
    AnyName "any-name",
    /// A writer whose mark is gone takes nothing away.
    LostMarkIsFine "lost-mark-is-fine",
}

/// Rounds of a write to place its mark, and as many to take it away.
pub const MOST_TRIES: u32 = 16;

/// How long what stands in for a reply lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// A claim: longer than a handler that reads takes.
    pub claim: Nanos,
    /// A mark: longer than an operation of the cache and a handler that writes may take, one after the other.
    pub mark: Nanos,
}

/// Where the replies of a method for a key are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// The item's key, of 1 to 250 printable bytes. Names may share one.
    pub key: Vec<u8>,
    /// All of the name.
    pub name: Vec<u8>,
}

impl Item {
    /// Of `/service/method`, and the key as bytes.
    pub fn of(service: &str, method: &str, key: &[u8]) -> Item {
        let name = [b"rpc/", service.as_bytes(), b"/", method.as_bytes(), b"/", key].concat();
        let is_plain = name.len() <= MAX_KEY && name.iter().all(u8::is_ascii_graphic);
        let key = if is_plain { name.clone() } else { hashed(&name) };
        Item { key, name }
    }
}

/// A key for a name that can be none: 128 bits of it.
fn hashed(name: &[u8]) -> Vec<u8> {
    let [one, other] = [WIRE_SEED, WIRE_SEED ^ u64::MAX].map(|seed| Hasher64::new(seed).hash(name));
    format!("rpc#{one:016x}{other:016x}").into_bytes()
}
