//! The key-value store: what a memcached keeps, on one core, made to be asked many things at once.
//!
//! ```text
//!  Key{bytes, hash} ──▶ index ──────────────▶ log ─────────────────────────▶ large value
//!                       bucket: 7 × (tag, at)  segments of items, appended    own mapping, Arc
//!                       1st cache miss         2nd cache miss
//! ```
//! A [`Store`] belongs to one thread at a time, sees no clock (every call is given `now`, unix seconds), no socket and no
//! protocol. It holds memory up to its limit and not beyond, in one of two modes: *cache* evicts (S3-FIFO), *store* refuses.
//!
//! Every mutation gives a 64-bit version, higher than all before: memcached's cas, and what replicas and caches on the path
//! order fills and invalidations by.
//!
//! Each operation has three forms with the same answers: plain ([`Store::get`], …), staged over a group
//! ([`Store::get_batch`], [`Store::staged`]) and as a coroutine ([`SharedStore`]). The latter two overlap cache misses.
//!
//! Where things are: `index` finds, `log` holds, `clean` makes room (eviction, expiry and garbage are one decision there),
//! `budget` counts, `store` puts them together, `ops` has one file per verb, `check` proves the invariants in tests.
//!
//! Memory may lie in files, for the next process to take over in an ordered restart: [`warm`].
//!
//! What commands did may be logged, for a start after whatever end: [`durable`].
//!
//! [`redo`] and [`image`] stand beside all this, for replicas of a chain: the persistent log and the media it can be on, and items at offsets that its entries
//! name.

mod budget;
mod check;
mod clean;
mod config;
mod coroutine;
pub mod durable;
mod evictions;
mod ghost;
pub mod image;
mod index;
mod item;
mod key;
mod large;
mod log;
mod ops;
pub mod redo;
mod staged;
mod stats;
mod store;
#[cfg(test)]
mod tests;
pub mod warm;

pub use config::{Config, ConfigError, MAX_VALUE, MIN_MEMORY, Mode};
pub use coroutine::SharedStore;
pub use evictions::{Evicted, NOTED_MAX};
pub use ghost::GHOST_QUARTERS;
pub use key::{Key, MAX_KEY};
pub use large::LargeValue;
pub use ops::arith::{ArithHow, ArithOutcome, number};
pub use ops::delete::{DeleteHow, DeleteOutcome};
pub use ops::get::{GetHow, Hit};
pub use ops::list::Cursor;
pub use ops::peek::Peek;
pub use ops::set::{SetError, SetHow, SetOutcome, Verb};
pub use staged::GROUP;
pub use stats::Stats;
pub use store::Store;
