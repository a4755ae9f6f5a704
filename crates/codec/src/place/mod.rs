//! Where fields live, decided while messages flow.
//!
//! | module | one word |
//! |---|---|
//! | [`live`] | the table that lanes use now, replaced whole; one epoch number tells that it changed |
//! | [`votes`] | when a field's target bit follows the program, and when not (hysteresis) |

pub mod live;
pub mod votes;
