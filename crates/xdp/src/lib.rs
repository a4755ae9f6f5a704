//! The fast tier of the in-network cache: GETs of cached keys, and tries of arithmetic on them, are answered by an XDP program, before the box's
//! kernel makes a socket
//! buffer of them or wakes anybody.
//!
//! The **user tier** (the box's state machine and its driver) decides everything: fills, leases, invalidation, eviction. It tells this tier
//! which copies may be answered from, and until when, by writing [`Entries`]; the program sees that memory. What the program does not
//! answer goes up to the user tier's socket as it came, unless the filter ([`Live::filter`]) sends a seldom asked-for key's request on to its home.
//!
//! ```text
//!  frame ─▶ XDP program ──hit──▶ back to the sender;  ──seldom asked for──▶ to its home (filter)
//!             │    ▲  entries, buckets, config (read)      ┌─ Entries::put, remove, clear
//!             │    ╰───────────── shared memory ───────────┤  Tier::set_options
//!             ▼ everything else   hits, rows (written)     └─ Tier::counters, histograms; Entries::hits
//!           socket of the user tier
//! ```
//!
//! Rules for the driver
//! 1. *Fill*: [`Entries::put`] in the same turn in which the box machine takes a copy, before the next message is handled: what comes first in
//!    the machine comes first here.
//! 2. *Clocks*: [`now`] is read before the machine's own now; a copy's end here is the first plus what is left by the second. So it ends here no
//!    later than there.
//! 3. *Invalidation*: [`Entries::remove`], [`Entries::remove_hash`] or [`Entries::remove_where`] before the acknowledgement is sent, and before the
//!    invalidation is sent on to children.
//! 4. *The end of a lease* needs nothing: the program compares it with the clock for each hit. A lease that was renewed is put again.
//! 5. *Eviction*: what the machine evicts is removed here; what is evicted here stays in the machine, which answers for it. [`Entries::hits`] are
//!    requests that the machine did not see: its frequencies want them.
//! 6. *Ownership*: what the box may change itself is [lent](Entries::lend), and taken back before the machine looks at it. The program then does writes of the
//!    key and answers its reads; whoever takes it back gets the item and what was done.
//! 7. Requests from boxes are never answered here: if they have sharers the user tier grants, and the answer goes back to whom the packet names.
//! 8. *Epoch*: [`Tier::set_options`] when the machine goes by a new table. Replies say it; nothing else hangs on it, for a client's own
//!    request goes by no table, and what a box sent on is not answered here.
//!
//! 9. *Filter*: [`Tier::set_home`] for all homes, [`Tier::age_filter`] now and then. What is sent on is the client's own request, as the client could
//!    have sent it to the home: no sharers, so nobody is granted anything.
//!
//! Bounds: keys to 250 bytes, values to [`MAX_VALUE`]; a reply that is longer than its request by more than [`Live::max_growth`] goes
//! through the user tier, so a client that expects long values pads its requests. IPv4, at most one VLAN tag,
//! which must be in the frame: one that the driver keeps beside it (VLAN offload) is not seen here, and the reply would leave without it.
//!
//! Files: [`layout`] the shared memory, [`entries`] its writer, [`reference`](mod@reference) the program's rules in Rust, [`headers`] the C
//! headers made from Rust, `bpf/box.c` the program, `object` and `bpf` its way into the kernel, [`tier`] all of it on interfaces.

mod bpf;
mod counters;
pub mod entries;
mod error;
pub mod headers;
mod interface;
pub mod layout;
mod object;
mod options;
mod pass;
pub mod reference;
mod region;
pub mod tier;

pub use bpf::Tried;
pub use counters::{Counts, Histogram};
pub use entries::{Entries, Evicted, Held, Item, TooLarge};
pub use error::LoadError;
pub use layout::{Counter, MAX_VALUE};
pub use options::{Live, Mode, Options};
pub use pass::Pass;
pub use tier::{HandedOver, Program, Tier};

use base::Nanos;

/// The clock that leases and expiry are compared with: the machine's monotonic one, as the XDP program reads it.
pub fn now() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes the time into this structure.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    assert_eq!(result, 0, "Linux has a monotonic clock");
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
