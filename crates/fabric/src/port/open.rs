//! Opening ports, from any thread, and the names and errors of ports.

use super::application::Port;
use super::attached::Attached;
use super::bells::Bell;
use super::common::{Common, Hall};
use super::ends::{Receiver, Sender, ends};
use super::mode::{Mode, PortOptions};
use super::packet::Packet;
use ring::wait::{Sleeper, Waker, waiting};
use std::fmt;
use std::sync::Arc;

/// A port's name at its core: never given twice to two ports that are open at the same time, nor soon after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl PortId {
    /// A small number that no other open port has: for tables.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// Why a port was not opened or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// As many are open as may be.
    TooMany,
    /// The core is gone, or the port is.
    Closed,
    /// It is still being replaced: the application has not taken the last rings, or entries are left in the old ones.
    Moving,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenError::TooMany => "as many ports are open as may be",
            OpenError::Closed => "the core or the port is gone",
            OpenError::Moving => "the port is still being replaced",
        })
    }
}

impl std::error::Error for OpenError {}

/// Why a packet was not taken.
#[derive(PartialEq)]
pub enum SendError {
    /// No room now.
    Full(Packet),
    /// The other side is gone.
    Gone(Packet),
}

impl SendError {
    /// The packet.
    pub fn into_packet(self) -> Packet {
        let (SendError::Full(packet) | SendError::Gone(packet)) = self;
        packet
    }
}

impl fmt::Debug for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full(_) => "Full",
            SendError::Gone(_) => "Gone",
        })
    }
}

/// Opens ports, from any thread.
#[derive(Clone)]
pub struct Opener {
    pub(super) hall: Arc<Hall>,
}

impl Opener {
    /// A port, which the core serves from its next turn on.
    ///
    /// # Errors
    /// [`OpenError::TooMany`], [`OpenError::Closed`].
    pub fn open(&self, options: &PortOptions) -> Result<Port, OpenError> {
        let (sleeper, waker) = waiting();
        self.open_with(options, Some(sleeper), waker)
    }

    /// A port for a thread that has many, and sleeps by itself: the core wakes it by `waker`.
    ///
    /// # Errors
    /// As [`Opener::open`].
    pub fn open_beside(&self, options: &PortOptions, waker: &Waker) -> Result<Port, OpenError> {
        self.open_with(options, None, waker.clone())
    }

    fn open_with(
        &self,
        options: &PortOptions,
        sleeper: Option<Sleeper>,
        waker: Waker,
    ) -> Result<Port, OpenError> {
        let Ends { up, down, entry } = Ends::new(&self.hall, options)?;
        let common = Arc::<Common>::default();
        self.hall.welcome(|place| {
            let id = PortId { index: place.index, generation: place.generation };
            let attached = Attached::new(place, up.1, down.0, (*options, entry), common.clone(), waker);
            let hall = self.hall.clone();
            let port = Port {
                id,
                up: up.0,
                down: down.1,
                old_down: None,
                common,
                hall,
                sleeper,
                epoch: 0,
                dirty: false,
                refused: None,
            };
            (port, attached)
        })
    }
}

/// Two new rings, each with both its ends.
pub(super) struct Ends {
    pub(super) up: (Sender, Receiver),
    pub(super) down: (Sender, Receiver),
    /// The doorbell's place in the table.
    pub(super) entry: Option<usize>,
}

impl Ends {
    pub(super) fn new(hall: &Hall, options: &PortOptions) -> Result<Ends, OpenError> {
        let bell = hall.bell(options)?;
        let entry = bell.as_ref().map(Bell::entry);
        let down = PortOptions { mode: Mode::Coherent, ..*options };
        Ok(Ends { up: ends(options, bell), down: ends(&down, None), entry })
    }
}
