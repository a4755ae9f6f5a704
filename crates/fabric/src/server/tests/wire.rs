//! A link in memory whose other end a test holds, frame by frame.

use crate::connection::handshake::{Hello, VERSION, Welcome};
use crate::frame::{Frame, HEADER, Header, Kind};
use crate::link::{Frames, Link, Lost, SendError, Transport};
use base::units::Nanos;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{read, write};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Wire {
    frames: [VecDeque<Vec<u8>>; 2],
    /// That end is gone.
    gone: [bool; 2],
    /// Frames that fit in each direction.
    room: usize,
    /// Times that the server read it.
    reads: usize,
    /// When the server's end has something to do though nothing comes.
    deadline: Option<Nanos>,
}

/// The server's end.
struct End {
    wire: Arc<Mutex<Wire>>,
    transport: Transport,
    fd: Arc<OwnedFd>,
}

/// The test's end.
pub(super) struct Peer {
    wire: Arc<Mutex<Wire>>,
    /// Readable while there is something for the server.
    fd: Arc<OwnedFd>,
}

/// A link, and who is at its other end.
pub(super) fn wire(room: usize) -> (Box<dyn Link>, Peer) {
    wire_like(Transport::Memory, room)
}

/// One that says it is a `transport`.
pub(super) fn wire_like(transport: Transport, room: usize) -> (Box<dyn Link>, Peer) {
    let wire = Arc::new(Mutex::new(Wire { room, ..Wire::default() }));
    let fd = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd"));
    let peer = Peer { wire: Arc::clone(&wire), fd: Arc::clone(&fd) };
    (Box::new(End { wire, transport, fd }), peer)
}

impl Link for End {
    fn transport(&self) -> Transport {
        self.transport
    }

    fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        let mut wire = self.wire.lock().expect("no test panics with it");
        if wire.gone[1] {
            return Err(SendError::Gone);
        }
        if wire.frames[1].len() >= wire.room {
            return Err(SendError::Full);
        }
        wire.frames[1].push_back([head, body].concat());
        Ok(())
    }

    fn flush(&mut self, now: Nanos) {
        let mut wire = self.wire.lock().expect("no test panics with it");
        wire.deadline.take_if(|deadline| *deadline <= now);
    }

    fn recv(&mut self, _: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        let mut wire = self.wire.lock().expect("no test panics with it");
        let count = max.min(wire.frames[0].len());
        wire.reads += 1;
        if count == wire.frames[0].len() && !wire.gone[1] {
            let _ = read(&self.fd, &mut [0; 8]);
        }
        if count == 0 && wire.gone[1] {
            return Err(Lost::Closed);
        }
        for frame in wire.frames[0].drain(..count) {
            into.push(&[&frame]);
        }
        Ok(count)
    }

    fn next_deadline(&self) -> Nanos {
        self.wire.lock().expect("no test panics with it").deadline.unwrap_or(Nanos::MAX)
    }

    fn arm(&mut self) -> bool {
        let wire = self.wire.lock().expect("no test panics with it");
        wire.frames[0].is_empty() && !wire.gone[1]
    }

    fn disarm(&mut self) {}

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.wire.lock().expect("no test panics with it").gone[0] = true;
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.wire.lock().expect("no test panics with it").gone[1] = true;
        self.ring();
    }
}

/// A frame that the server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) header: Header,
    pub(super) metadata: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Peer {
    pub(super) fn say_bytes(&self, frame: &[u8]) {
        self.wire.lock().expect("no test panics with it").frames[0].push_back(frame.to_vec());
        self.ring();
    }

    fn ring(&self) {
        write(&self.fd, &1_u64.to_ne_bytes()).expect("it is rung less often than a word can count");
    }

    pub(super) fn say(&self, header: Header, body: &[u8]) {
        self.say_bytes(&[&header.emit()[..], body].concat());
    }

    pub(super) fn request(&self, call: u32, method: u16, body: &[u8]) {
        self.say(Header { method, ..Header::new(Kind::Request, call) }, body);
    }

    /// A header with `aux` and a body.
    pub(super) fn say_aux(&self, kind: Kind, call: u32, aux: u32, body: &[u8]) {
        self.say(Header { aux, ..Header::new(kind, call) }, body);
    }

    pub(super) fn hello(&self, hello: Hello) {
        self.say(Header::new(Kind::Hello, 0), &Hello { version: VERSION, ..hello }.emit());
    }

    /// Takes at most `max` frames.
    pub(super) fn hear_some(&self, max: usize) -> Vec<Heard> {
        let mut wire = self.wire.lock().expect("no test panics with it");
        let count = max.min(wire.frames[1].len());
        let heard = wire.frames[1].drain(..count).map(|bytes| {
            let frame = Frame::parse(&bytes).expect("a server's frames are frames");
            assert!(bytes.len() >= HEADER);
            Heard { header: frame.header, metadata: frame.metadata.to_vec(), body: frame.body.to_vec() }
        });
        heard.collect()
    }

    pub(super) fn hear(&self) -> Vec<Heard> {
        self.hear_some(usize::MAX)
    }

    pub(super) fn hear_welcome(&self) -> Welcome {
        match &self.hear()[..] {
            [Heard { header: Header { kind: Kind::Welcome, .. }, body, .. }] => {
                Welcome::parse(body).expect("a Welcome")
            }
            other => panic!("{other:?} is no Welcome"),
        }
    }

    /// Whether the server dropped its end.
    pub(super) fn is_closed(&self) -> bool {
        self.wire.lock().expect("no test panics with it").gone[0]
    }

    pub(super) fn set_room(&self, room: usize) {
        self.wire.lock().expect("no test panics with it").room = room;
    }

    /// When the server's end has something to do though nothing comes.
    pub(super) fn set_deadline(&self, deadline: Nanos) {
        self.wire.lock().expect("no test panics with it").deadline = Some(deadline);
    }

    /// Whether the server met that.
    pub(super) fn deadline_is_met(&self) -> bool {
        self.wire.lock().expect("no test panics with it").deadline.is_none()
    }

    /// Times that the server read the link.
    pub(super) fn reads(&self) -> usize {
        self.wire.lock().expect("no test panics with it").reads
    }

    /// Frames that the server did not take yet.
    pub(super) fn unheard_by_server(&self) -> usize {
        self.wire.lock().expect("no test panics with it").frames[0].len()
    }
}
