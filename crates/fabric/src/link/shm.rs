//! Frames between two processes through shared memory: [`ring::shm::Lanes`] behind the link trait. The fast path of the fabric.
//!
//! Handover: the server listens on a Unix socket. For each client it makes a segment, whose memory is its own to account for, and
//! sends its descriptor; the client checks what it gets. The socket stays: it wakes a sleeping peer and tells when one died.
//!
//! The end: a peer that closes says so in the segment first ([`Lost::Closed`]); a socket that ends without means [`Lost::Dead`]. An
//! owner that sleeps on the descriptor learns either at once, one that polls within `LOOK_EVERY`.
//!
//! Bounds: a segment of two rings and two arenas as [`LinkOptions`] says, whose pages exist once somebody wrote to them; one
//! outgoing and one incoming frame beside it.
//!
//! Errors: a peer that writes anything else than frames is a [`Lost::Violation`]. See `ring::shm` for why it cannot do worse.

use super::connect::{ConnectError, LinkOptions, Listener};
use super::unix_socket::{self, UnixSocket};
use super::{Address, Frames, Link, Lost, SendError, Transport};
use crate::frame::{HEADER, MAX_FRAME};
use base::units::Nanos;
use ring::shm::lanes::LaneKind;
use ring::shm::{AttachError, Form, Geometry, Lanes, Pages, Segment, Side};
use ring::spsc::{Hybrid, InSlot, Index, Variant};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Time between two looks at the socket of a silent peer, for an owner that polls.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);
/// A server of this build makes no larger segment, so a client takes none.
const MAX_ARENA: u64 = 1 << 26;
const MAX_ENTRIES: u32 = 1 << 16;

/// One side.
struct ShmLink<K: LaneKind> {
    lanes: Lanes<K>,
    /// How the peer ended, known before what it sent last was received.
    gone: Option<Lost>,
    /// Nothing more will come.
    lost: Option<Lost>,
    look_at: Nanos,
    peer_user: Option<u32>,
}

fn link_of<K: LaneKind + 'static>(segment: &Segment, side: Side, socket: OwnedFd) -> Box<dyn Link> {
    let peer_user = unix_socket::peer_user(&socket);
    let lanes = Lanes::<K>::new(segment, side, socket);
    Box::new(ShmLink { lanes, gone: None, lost: None, look_at: Nanos::ZERO, peer_user })
}

/// A side of `segment`, whatever its ring.
fn link(segment: &Segment, side: Side, socket: OwnedFd) -> Result<Box<dyn Link>, AttachError> {
    match segment.form() {
        Form::Lanes(Variant::InSlot) => Ok(link_of::<InSlot>(segment, side, socket)),
        Form::Lanes(Variant::Index) => Ok(link_of::<Index>(segment, side, socket)),
        Form::Lanes(Variant::Hybrid) => Ok(link_of::<Hybrid>(segment, side, socket)),
        Form::Pair => Err(AttachError::OtherForm),
    }
}

impl<K: LaneKind> ShmLink<K> {
    /// Whether and how the peer is gone, where one load says so, or the socket when it is time to look at it.
    #[inline(never)]
    fn look(&mut self, now: Nanos) {
        if self.lanes.peer_closed() {
            self.gone = Some(Lost::Closed);
        } else if now >= self.look_at {
            self.look_at = now.plus(LOOK_EVERY);
            if self.lanes.peer_is_gone() {
                self.note_the_end();
            }
        }
    }

    /// The socket has ended; the segment says whether that was meant.
    fn note_the_end(&mut self) {
        self.gone = Some(if self.lanes.peer_closed() { Lost::Closed } else { Lost::Dead });
    }

    /// Nothing was found: the end of the peer, if it was known before that look.
    #[inline]
    fn nothing(&mut self, now: Nanos) -> Result<usize, Lost> {
        match self.gone {
            None => self.look(now),
            // A frame in pieces may be there without being complete.
            Some(_) if self.lanes.is_ready() => {}
            Some(how) => {
                self.lost = Some(how);
                return Err(how);
            }
        }
        Ok(0)
    }
}

impl<K: LaneKind> Link for ShmLink<K> {
    fn transport(&self) -> Transport {
        Transport::Shm
    }

    #[inline]
    fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        debug_assert!(head.len() >= HEADER);
        if self.gone.is_some() {
            return Err(SendError::Gone);
        }
        self.lanes.try_send(head, body).map_err(|error| match error {
            ring::shm::SendError::Full => SendError::Full,
            ring::shm::SendError::TooLarge => SendError::TooLarge,
            ring::shm::SendError::Gone => SendError::Gone,
        })
    }

    #[inline]
    fn flush(&mut self, _: Nanos) {
        self.lanes.flush();
    }

    #[inline]
    fn recv(&mut self, now: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        if let Some(lost) = self.lost {
            return Err(lost);
        }
        if max == 0 || into.bytes() >= Frames::ENOUGH {
            return Ok(0);
        }
        let before = into.len();
        let (bytes, ends) = into.parts();
        match self.lanes.recv(max, bytes, Frames::ENOUGH, |end| ends.push(end as u32)) {
            Ok(0) => self.nothing(now),
            Ok(frames) => Ok(frames),
            Err(_) => {
                self.gone = Some(Lost::Violation);
                self.lost = self.gone;
                match into.len() - before {
                    0 => Err(Lost::Violation),
                    // What came before it is handed out, and the next call tells.
                    frames => Ok(frames),
                }
            }
        }
    }

    fn peer_user(&self) -> Option<u32> {
        self.peer_user
    }

    fn next_deadline(&self) -> Nanos {
        Nanos::MAX
    }

    fn is_drained(&self) -> bool {
        self.lanes.is_drained()
    }

    fn arm(&mut self) -> bool {
        self.gone.is_none() && self.lanes.park(true)
    }

    fn arm_for_room(&mut self) -> bool {
        self.gone.is_none() && self.lanes.park(false)
    }

    fn disarm(&mut self) {
        if self.lanes.unpark() && self.gone.is_none() {
            self.note_the_end();
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.lanes.descriptor()
    }
}

/// A link to the server that listens at `path`.
pub(super) fn connect(path: &Path, options: &LinkOptions) -> Result<Box<dyn Link>, ConnectError> {
    let address = || Address::Shm(path.into());
    let system = |error| ConnectError::system(&address(), error);
    let socket = unix_socket::dial(path, options.timeout).map_err(system)?;
    socket.set_read_timeout(Some(options.timeout)).map_err(system)?;
    let attached = Segment::receive_any(&socket).and_then(|segment| {
        let Geometry { entries, request_arena, response_arena, max_message } = segment.geometry();
        let fits = max_message as usize == MAX_FRAME
            && entries <= MAX_ENTRIES
            && request_arena.max(response_arena) <= MAX_ARENA;
        if fits { link(&segment, Side::Client, socket.into()) } else { Err(AttachError::BadGeometry) }
    });
    attached.map_err(|error| match error {
        AttachError::System(error) => system(error),
        error => ConnectError::NoSegment(address(), error),
    })
}

/// Two sides of a segment in this process, for tests and measurements.
///
/// # Errors
/// The system's.
pub fn pair(options: &LinkOptions) -> io::Result<(Box<dyn Link>, Box<dyn Link>)> {
    let (client, server) = UnixStream::pair()?;
    let segment = segment(&options.bounded())?;
    let side = |side, socket: UnixStream| link(&segment, side, socket.into()).map_err(io::Error::other);
    Ok((side(Side::Client, client)?, side(Side::Server, server)?))
}

fn segment(options: &LinkOptions) -> io::Result<Segment> {
    let geometry = Geometry {
        entries: options.entries,
        request_arena: options.bytes.into(),
        response_arena: options.bytes.into(),
        max_message: MAX_FRAME as u32,
    };
    Segment::create_of(Form::Lanes(options.mode.ring()), geometry, Pages::Base)
}

/// Hands a segment to every client.
pub(super) struct ShmListener {
    socket: UnixSocket,
    options: LinkOptions,
    address: Address,
}

impl ShmListener {
    pub(super) fn new(path: &Path, options: LinkOptions) -> io::Result<ShmListener> {
        let socket = UnixSocket::listen(path, options.permissions)?;
        Ok(ShmListener { socket, options, address: Address::Shm(path.into()) })
    }
}

impl Listener for ShmListener {
    fn accept(&mut self, _: Nanos) -> io::Result<Option<Box<dyn Link>>> {
        let Some(socket) = self.socket.accept()? else { return Ok(None) };
        let segment = segment(&self.options)?;
        if segment.send(&socket).is_err() {
            // The client is gone already.
            return Ok(None);
        }
        link(&segment, Side::Server, socket).map(Some).map_err(io::Error::other)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn address(&self) -> &Address {
        &self.address
    }

    fn set_options(&mut self, options: &LinkOptions) {
        self.options = options.bounded();
    }
}
