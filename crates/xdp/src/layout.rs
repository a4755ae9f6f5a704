//! The shapes of the memory that the XDP program and the user tier share, and the numbers of its counters.
//!
//! Every field is an atomic, for the program reads while the user tier writes, and the other way; so a reference to shared memory is
//! a reference like any other. `bpf/maps.h` has the same structures; [`headers`](crate::headers) makes the assertions that hold
//! the two against each other, and the program does not compile when they differ.

use protocol::coherence::ownership::MOST_SESSIONS;
use protocol::wire::{MAX_FAST_VALUE, MAX_KEY, padded};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// Bytes of the longest value that the XDP tier keeps.
pub const MAX_VALUE: usize = MAX_FAST_VALUE;
/// Entries of a bucket.
pub const WAYS: usize = 4;
/// Words of a key.
pub const KEY_WORDS: usize = padded(MAX_KEY) / 8;
/// Words of a value.
pub const VALUE_WORDS: usize = MAX_VALUE / 8;
/// Buckets of a histogram of times: bucket b counts 2^b to 2^(b+1) - 1 ns, the first also 0, the last also all beyond.
pub const TIMES: usize = 32;
/// Cells of a line of [`Sights`].
pub const SIGHTS: usize = 16;
/// Places for homes, a power of two.
pub const HOMES: usize = 256;
/// Writes of a lent key that the program remembers; then the user tier takes the key back, notes them, and lends it again.
pub const RECORDS: usize = 128;
/// In an entry's `seq`: this process writes it.
pub const USER_WRITES: u64 = 1;
/// In an entry's `seq`: the program writes it, on some CPU, and is done soon.
pub const PROGRAM_WRITES: u64 = 2;
/// An entry's `seq` grows by this with each write.
pub const SEQ_STEP: u64 = 4;
/// In a bucket's tag: an entry is there.
pub const PRESENT: u64 = 1 << 32;

/// A structure in shared memory.
///
/// # Safety
/// All its fields are atomics, all zeros are a value, and it has no padding.
pub unsafe trait Shared {}

/// One key's copy, or a key that is lent to the program.
#[repr(C)]
#[derive(Debug)]
pub struct Entry {
    /// [`USER_WRITES`] or [`PROGRAM_WRITES`] while it is written.
    pub seq: AtomicU64,
    /// Of the item.
    pub version: AtomicU64,
    /// From here on, on the machine's monotonic clock, it may not be used.
    pub lease_end: AtomicU64,
    /// From here on the item itself is gone; all ones: never.
    pub expires: AtomicU64,
    /// Sum of key and value with their filler.
    pub sum: AtomicU64,
    /// The sum's base to the power of the words of both.
    pub power: AtomicU64,
    /// Sum of the key: a request's checksum is verified with it.
    pub key_sum: AtomicU64,
    /// The base to the power of the key's words.
    pub key_power: AtomicU64,
    /// Of the key.
    pub hash: AtomicU32,
    /// A memcached client's flags.
    pub item_flags: AtomicU32,
    /// Bytes of the value.
    pub value_len: AtomicU32,
    /// Bytes of the key; 0: nothing is here.
    pub key_len: AtomicU8,
    /// Of value.
    pub kind: AtomicU8,
    /// Fills the word.
    pub unused: AtomicU16,
    /// What the value is in decimal digits.
    pub number: AtomicU64,
    /// 1 if it is.
    pub is_number: AtomicU64,
    /// Of a key that is lent: 1 + the place of its [`OwnedKey`].
    pub owned: AtomicU64,
    /// Fills the second cache line, so that the key begins the third.
    pub spare: [AtomicU64; 3],
    /// Filled with 0.
    pub key: [AtomicU64; KEY_WORDS],
    /// Filled with 0.
    pub value: [AtomicU64; VALUE_WORDS],
}

/// The hashes of four entries, [`PRESENT`] where there is one.
#[repr(C)]
#[derive(Debug)]
pub struct Bucket {
    /// One for each way.
    pub tag: [AtomicU64; WAYS],
}

/// Live registers of the program, and what a loader that finds it must know.
#[repr(C)]
#[derive(Debug)]
pub struct Config {
    /// 0: everything is passed on.
    pub enabled: AtomicU32,
    /// UDP port of the box.
    pub port: AtomicU32,
    /// IPv4 address of the box, its bytes as in a header; 0: any.
    pub address: AtomicU32,
    /// Of the registration table: replies say it.
    pub epoch: AtomicU32,
    /// Buckets - 1.
    pub bucket_mask: AtomicU32,
    /// One datagram in so many is timed, a power of two; 0: none.
    pub sample: AtomicU32,
    /// Bytes by which a reply may be longer than its request.
    pub max_growth: AtomicU32,
    /// Bytes of the longest IP packet of the interface that takes the shortest.
    pub mtu: AtomicU32,
    /// A request of a key that is not here goes up when the key was seen so often, this time included; 0: always.
    pub filter: AtomicU32,
    /// Sights count half as much when it grows by one.
    pub window: AtomicU32,
    /// Lines of sights - 1.
    pub filter_mask: AtomicU32,
    /// Counts the programs that had these maps.
    pub generation: AtomicU32,
    /// Process whose user tier writes the entries; 0: none.
    pub owner: AtomicU32,
    /// The program's [`Mode`](crate::Mode).
    pub mode: AtomicU32,
    /// Inode of the network namespace in which the interface has that number.
    pub netns: AtomicU64,
    /// The clients' key, as two numbers.
    pub seal_key: [AtomicU64; 2],
    /// Of the last packet that this box sealed, by program or user tier.
    pub counter: AtomicU64,
    /// The box's.
    pub number: AtomicU32,
    /// 1: writes must be sealed, and their replies are.
    pub sealed: AtomicU32,
}

/// What is begun in a session: `protocol`'s [`Told`](protocol::coherence::ownership::Told).
#[repr(C)]
#[derive(Debug)]
#[expect(missing_docs, reason = "they are that Told's")]
pub struct Told {
    pub session: AtomicU64,
    pub client: AtomicU64,
    pub highest: AtomicU64,
    pub begun: AtomicU64,
}

/// A write that the program did: `protocol`'s [`Record`](protocol::coherence::ownership::Record).
#[repr(C)]
#[derive(Debug)]
#[expect(missing_docs, reason = "they are that Record's")]
pub struct Record {
    pub session: AtomicU64,
    pub operation: AtomicU64,
    pub status: AtomicU64,
    pub version: AtomicU64,
    pub number: AtomicU64,
}

/// What belongs to a key that is lent, besides its entry.
#[repr(C)]
#[derive(Debug)]
pub struct OwnedKey {
    /// Version of the next write that stores.
    pub next: AtomicU64,
    /// Records that are used.
    pub count: AtomicU64,
    /// Records that may be used.
    pub room: AtomicU64,
    /// Sessions that are told.
    pub sessions: AtomicU64,
    /// Fills the cache line.
    pub unused: [AtomicU64; 4],
    /// The sessions.
    pub told: [Told; MOST_SESSIONS],
    /// What was done.
    pub record: [Record; RECORDS],
}

/// Where a home is, at the place of its number's lower bits.
#[repr(C)]
#[derive(Debug)]
pub struct Home {
    /// The home.
    pub number: AtomicU32,
    /// Its IPv4 address, the bytes as in a header.
    pub address: AtomicU32,
    /// Its UDP port; 0: nobody is here.
    pub port: AtomicU32,
    /// Fills 16 bytes.
    pub unused: AtomicU32,
}

/// How often keys were seen that are not here.
#[repr(C)]
#[derive(Debug)]
pub struct Sights {
    /// A window, and in the lowest 8 bits a count.
    pub cell: [AtomicU32; SIGHTS],
}

/// What one CPU counted.
#[repr(C)]
#[derive(Debug)]
pub struct Row {
    /// By [`Counter`].
    pub count: [AtomicU64; Counter::PLACES],
    /// Times of hits.
    pub hit_ns: [AtomicU64; TIMES],
    /// Times of datagrams that were passed on.
    pub pass_ns: [AtomicU64; TIMES],
}

// SAFETY: repr(C) of atomics whose offsets leave no gaps; a test adds them up.
unsafe impl Shared for Entry {}
// SAFETY: as above.
unsafe impl Shared for Bucket {}
// SAFETY: as above.
unsafe impl Shared for Config {}
// SAFETY: as above.
unsafe impl Shared for Home {}
// SAFETY: as above.
unsafe impl Shared for Row {}
// SAFETY: as above.
unsafe impl Shared for OwnedKey {}
// SAFETY: it is one.
unsafe impl Shared for AtomicU64 {}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident $text:literal $meaning:literal;)*) => {
        /// What the program counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Counter { $(#[doc = $meaning] $name,)* }

        impl Counter {
            /// All, by their numbers.
            pub const ALL: &[Counter] = &[$(Counter::$name,)*];

            /// As metrics and C call it.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$name => $text,)* }
            }

            /// The name, beside those of other tiers.
            pub const fn full_name(self) -> &'static str {
                match self { $(Counter::$name => concat!("xdp ", $text),)* }
            }

            /// For an operator.
            pub const fn meaning(self) -> &'static str {
                match self { $(Counter::$name => $meaning,)* }
            }
        }
    };
}

counters! {
    Hits "hits" "Answered.";
    Datagrams "datagrams" "Came to the box's port: hits and all that is below, but not foreign.";
    Foreign "foreign" "Passed: not for the box's port, or not IPv4 and UDP as it is understood here.";
    Other "other" "Passed: no plain GET, no try on a number (a write, a control message, NO_CACHE, malformed).";
    Grant "grant" "Passed: a box below wants to keep the reply; what it may keep only the user tier knows.";
    Relayed "relayed" "Passed: a box sent it on; the answer goes to the client, not to that box.";
    Miss "miss" "Passed: the key is not here.";
    Lease "lease" "Passed: the copy's lease is over.";
    Expired "expired" "Passed: the item's life is over.";
    Room "room" "Passed: the reply is too much longer than the request.";
    Torn "torn" "Passed: the user tier was writing this very entry.";
    Damaged "damaged" "Passed: the request's checksum is wrong.";
    Lost "lost" "Dropped: the frame could not be written after it had been resized. The kernel allows it nowhere; it should be 0.";
    Forwarded "forwarded" "Sent on to its home: the key is not here and was seldom asked for lately.";
    Stranded "stranded" "Passed: it would have been sent on, but the kernel knows no way to its home.";
    Computed "computed" "Of the hits, operations that change nothing: their result was the answer.";
    Owned "owned" "Of the hits, writes of keys that the box owns.";
    Unsure "unsure" "Passed: a write of an owned key of which only the box knows whether it was done, or for which there is no room.";
    Unproven "unproven" "Passed: a write of an owned key, by somebody who has not the clients' key.";
}

impl Counter {
    /// Places in a [`Row`], a power of two.
    pub const PLACES: usize = 32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn no_gaps_and_whole_lines() {
        assert_eq!(offset_of!(Entry, spare) + 3 * 8, offset_of!(Entry, key));
        assert_eq!(offset_of!(Entry, key), 128);
        assert_eq!(offset_of!(Entry, value), 128 + 8 * KEY_WORDS);
        assert_eq!(size_of::<Entry>(), offset_of!(Entry, value) + MAX_VALUE);
        assert_eq!(size_of::<Entry>() % 64, 0, "entries begin cache lines");
        assert_eq!(size_of::<Bucket>(), 32);
        assert_eq!(size_of::<Config>(), offset_of!(Config, sealed) + 4);
        assert_eq!(offset_of!(Config, netns), 14 * 4);
        assert_eq!((offset_of!(Config, number), size_of::<OwnedKey>() % 64), (88, 0));
        assert_eq!((size_of::<Home>(), size_of::<Sights>()), (16, 64));
        assert_eq!(size_of::<Row>() % 64, 0, "no line has counters of two CPUs");
    }

    #[test]
    fn counters_have_places() {
        assert!(Counter::ALL.len() <= Counter::PLACES && Counter::PLACES.is_power_of_two());
        assert!(Counter::ALL.iter().enumerate().all(|(i, &counter)| counter as usize == i));
    }
}
