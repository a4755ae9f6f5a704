//! Text over a transport: requests are encoded into one buffer and written in batches; answers come in order.
//!
//! Cost: no allocation per operation once the buffers have grown; one system call per batch each way.

use super::{Ask, Heard, Line, Received, Ticket};
use crate::load::counts::Tally;
use crate::load::dialect::{Dialect, Speaker};
use crate::load::keys::KeyFormat;
use crate::load::sizes::LONGEST_VALUE;
use crate::load::target::{Framing, Transport};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

const INBOX: usize = 64 << 10;

/// The input that was received and not yet understood.
struct Inbox {
    room: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes from `start` on that the next answer takes, as far as is known.
    need: usize,
}

impl Inbox {
    /// Makes room for what is needed, and for a byte more than there is.
    fn make_room(&mut self) {
        let need = std::mem::replace(&mut self.need, 1);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.start + need > self.room.len() || self.end == self.room.len() {
            self.room.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if need.max(self.end + 1) > self.room.len() {
                self.room.resize(need.max(self.end + 1).next_power_of_two(), 0);
            }
        }
    }
}

/// See the file's head.
pub struct Text {
    transport: Box<dyn Transport>,
    /// None before the first phase says which language.
    speaker: Option<Speaker>,
    out: Vec<u8>,
    sent: usize,
    /// Ends of requests in `out`, kept for transports that carry whole messages.
    ends: VecDeque<usize>,
    inbox: Inbox,
}

impl Text {
    /// Over this transport.
    pub fn new(transport: Box<dyn Transport>) -> Text {
        Text {
            transport,
            speaker: None,
            out: Vec::with_capacity(INBOX),
            sent: 0,
            ends: VecDeque::new(),
            inbox: Inbox { room: vec![0; INBOX], start: 0, end: 0, need: 1 },
        }
    }
}

impl Line for Text {
    fn begin(&mut self, dialect: Dialect, keys: KeyFormat) {
        self.speaker = Some(Speaker::new(dialect, keys, LONGEST_VALUE));
    }

    fn ask(&mut self, _ticket: Ticket, ask: Ask<'_>, _tally: &mut Tally) {
        let speaker = self.speaker.as_mut().expect("a phase began");
        speaker.ask(&mut self.out, ask);
        if self.transport.framing() == Framing::Messages {
            self.ends.push_back(self.out.len());
        }
    }

    fn flush(&mut self, tally: &mut Tally) -> io::Result<()> {
        while self.sent < self.out.len() {
            let end = self.ends.front().copied().unwrap_or(self.out.len());
            match self.transport.send(&self.out[self.sent..end]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.sent += n;
                    tally.counts.sent += n as u64;
                    if self.sent == end {
                        self.ends.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        self.sent < self.out.len()
    }

    fn receive(&mut self, tally: &mut Tally) -> io::Result<Received> {
        self.inbox.make_room();
        let room = &mut self.inbox.room[self.inbox.end..];
        let wanted = room.len();
        let got = loop {
            match self.transport.receive(room) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => break n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        self.inbox.end += got;
        tally.counts.received += got as u64;
        let is_all = got < wanted && self.transport.framing() == Framing::Stream;
        Ok(if is_all { Received::All } else { Received::Some })
    }

    fn next(&mut self, _tally: &mut Tally) -> io::Result<Option<Heard<'_>>> {
        let Some(speaker) = self.speaker.as_mut() else { return Ok(None) };
        let Inbox { room, start, end, need } = &mut self.inbox;
        match speaker.next(&room[*start..*end]) {
            Ok(Ok(part)) => {
                *start += part.used;
                Ok(Some(Heard { ticket: None, part, from_box: false }))
            }
            Ok(Err(more)) => {
                *need = more;
                Ok(None)
            }
            Err(text) => Err(io::Error::new(io::ErrorKind::InvalidData, text)),
        }
    }

    fn waitable(&self) -> Option<BorrowedFd<'_>> {
        self.transport.waitable()
    }

    fn abandon(&mut self) {
        self.out.clear();
        self.ends.clear();
        self.sent = 0;
    }
}
