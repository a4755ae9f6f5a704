//! The operations, one file per verb. Each knows what memcached does in its case; none knows a protocol.
//!
//! Moments are unix seconds throughout: an `expiry` of 0 is never, one at or before `now` is at once. Where the protocols
//! know negative or relative times, their layer translates.

pub mod arith;
pub mod delete;
pub mod flush;
pub mod get;
pub mod list;
pub mod maintain;
pub mod mark;
pub mod peek;
pub mod set;
pub mod touch;
pub mod versions;
