//! The points that a call passes, and the stages between them.
//!
//! ```text
//! client: started ─publish→ sent ─away→ noticed ─deliver→ delivered
//! server: received ─queue→ begun ─handle→ ended ─reply→ answered
//! ```

use base::trace::{Kind, Place};

/// Which end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Side {
    /// It calls.
    Client = 0,
    /// It serves.
    Server = 1,
}

impl Side {
    /// As metrics name it.
    pub fn name(self) -> &'static str {
        ["client", "server"][self as usize]
    }

    /// Where its spans are: who serves is at the edge, wherever handlers run.
    pub(super) fn place(self) -> (Kind, Place) {
        [(Kind::Client, Place::Client), (Kind::Server, Place::Edge)][self as usize]
    }
}

/// The stages, by side.
pub const STAGES: [[&str; 3]; 2] = [["publish", "away", "deliver"], ["queue", "handle", "reply"]];

/// A point between the first, at which a call is started or received, and the last, at which it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Client: its request was published.
    Sent,
    /// Client: its reply was found.
    Noticed,
    /// Server: its handler began.
    Begun,
    /// Server: its handler returned.
    Ended,
}

impl Point {
    /// Its place among the four points of its side.
    pub(super) fn index(self) -> usize {
        match self {
            Point::Sent | Point::Begun => 1,
            Point::Noticed | Point::Ended => 2,
        }
    }
}
