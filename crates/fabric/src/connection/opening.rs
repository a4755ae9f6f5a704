//! The client's half of the handshake, on a first link or on one that joins a connection.
//!
//! Links may let frames overtake each other, and a server that was joined goes on over the new link at once; so what comes
//! before the Welcome is kept for the call machine.
//!
//! Bounds: [`EARLY`] bytes of such frames.

use super::ConnectError;
use super::handshake::{Hello, VERSION, Welcome};
use crate::frame::{Frame, Header, Kind, MAX_FRAME};
use crate::link::{Frames, Link, SendError};
use crate::status::{Code, Status};
use base::units::Nanos;
use rustix::fd::BorrowedFd;

/// Frames that may come before the Welcome.
const EARLY: usize = 2 * MAX_FRAME;

/// A link on which a Hello is being answered.
pub struct Opening {
    link: Box<dyn Link>,
    hello: Vec<u8>,
    said: bool,
    received: u32,
    early: Frames,
}

/// A link that may be used.
pub struct Opened {
    /// The link.
    pub link: Box<dyn Link>,
    /// What the server said.
    pub welcome: Welcome,
    /// Frames that were sent on it.
    pub sent: u32,
    /// Frames that came over it, `early` included.
    pub received: u32,
    /// Those besides the Welcome.
    pub early: Frames,
}

impl Opening {
    /// Begins; [`Opening::poll`] does the rest.
    pub fn new(link: Box<dyn Link>, hello: &Hello) -> Opening {
        Opening { link, hello: hello.emit(), said: false, received: 0, early: Frames::default() }
    }

    /// See [`Link::arm`].
    pub fn arm(&mut self) -> bool {
        self.said && self.link.arm()
    }

    /// See [`Link::disarm`].
    pub fn disarm(&mut self) {
        self.link.disarm();
    }

    /// See [`Link::descriptor`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.link.descriptor()
    }

    /// See [`Link::next_deadline`].
    pub fn next_deadline(&self) -> Nanos {
        self.link.next_deadline()
    }

    /// Says Hello, and looks for the answer.
    ///
    /// # Errors
    /// The server refuses, cannot be understood, or is gone; the link is of no use then.
    pub fn poll(&mut self, now: Nanos) -> Result<Option<Welcome>, ConnectError> {
        if !self.said {
            match self.link.try_send(&Header::new(Kind::Hello, 0).emit(), &self.hello) {
                Ok(()) => self.said = true,
                Err(SendError::Full) => {}
                Err(SendError::TooLarge) => return Err(ConnectError::Malformed("the Hello is too long")),
                Err(SendError::Gone) => {} // recv says why
            }
        }
        self.link.flush(now);
        let mut arrived = Frames::default();
        let count = self.link.recv(now, 64, &mut arrived).map_err(ConnectError::Lost)?;
        self.received = self.received.wrapping_add(count as u32);
        let mut welcome = None;
        while let Some(bytes) = arrived.pop() {
            let frame =
                Frame::parse(bytes).map_err(|_| ConnectError::Malformed("the first frame is none"))?;
            match frame.header.kind {
                Kind::Welcome if welcome.is_none() => welcome = Some(understand(&frame)?),
                Kind::Refuse => return Err(refusal(&frame)),
                _ if self.early.bytes() + bytes.len() <= EARLY => self.early.push(&[bytes]),
                _ => return Err(ConnectError::Malformed("no Welcome before other frames")),
            }
        }
        Ok(welcome)
    }

    /// The link, once [`Opening::poll`] gave the Welcome.
    pub fn opened(self, welcome: Welcome) -> Opened {
        Opened { link: self.link, welcome, sent: 1, received: self.received, early: self.early }
    }
}

fn understand(frame: &Frame<'_>) -> Result<Welcome, ConnectError> {
    // The version comes first whatever the rest looks like.
    let theirs = frame.body.first_chunk().map(|version| u16::from_le_bytes(*version));
    match theirs {
        Some(VERSION) => {}
        Some(theirs) => return Err(ConnectError::Version { theirs }),
        None => return Err(ConnectError::Malformed("the Welcome is empty")),
    }
    Welcome::parse(frame.body).map_err(|_| ConnectError::Malformed("the Welcome does not parse"))
}

fn refusal(frame: &Frame<'_>) -> ConnectError {
    let code = match Code::of(frame.header.method) {
        Code::Ok => Code::Unknown,
        code => code,
    };
    ConnectError::Refused(Status::new(code, String::from_utf8_lossy(frame.body)))
}
