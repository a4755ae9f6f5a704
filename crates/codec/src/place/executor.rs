//! The accelerator's half: takes requests from its ring, drives the lanes, moves fields, serialises.
//!
//! One for each lane thread; they share the memories, the tables and the registers. A value without a thread, so that tests can
//! put every step of it between any two of the host's.
//!
//! Invariants: each request has exactly one response; a request is taken from the ring only when a lane is idle, so the ring
//! is the queue before the lanes and its credits bound it.

use super::message::Placed;
use super::receive::{Ground, LaneState};
use super::transfer::{MoveError, Slot, Transfer};
use crate::crossing::Crossing;
use crate::decode::across::{Across, Temp};
use crate::decode::{DecodeError, Writes};
use crate::encode::{self, Bell, EncodeError};
use crate::memory::{Arena, Place};
use crate::table::{Entry, Table};
use ring::{Server, Tag};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

/// What the host asks for.
pub(super) enum Request {
    /// A message arrived: decode it and place its fields.
    Receive {
        schema: u16,
        class: u32,
        wire: Vec<u8>,
    },
    Move(Order),
    Send(Packet),
}

/// Move what this slot refers to; it stays as it is until the response.
pub(super) struct Order {
    pub(super) table: Arc<Table>,
    pub(super) entry: Entry,
    pub(super) slot: Slot,
    pub(super) to: Place,
}

/// Serialise what the bell refers to, which stays as it is until the response.
pub(super) struct Packet {
    pub(super) table: Arc<Table>,
    pub(super) bell: Bell,
    /// Zeroed bytes before the message.
    pub(super) headroom: usize,
}

/// What it gets.
pub(super) enum Response {
    Received(Result<Placed, DecodeError>),
    /// What the slot holds now, and the memory that it refers to.
    Moved(Result<(Slot, Arena), MoveError>),
    /// The bytes that go to the network.
    Sent(Result<Vec<u8>, EncodeError>),
}

/// Bytes of a response's ring entry: its tag, what became of it, and an address.
const ENTRY: usize = 16;

type Outcome = (Box<LaneState>, Result<Placed, DecodeError>);

/// A message that takes several turns.
struct Job(Pin<Box<dyn Future<Output = Outcome>>>);

// SAFETY: the future is `LaneState::receive` with all that it refers to: its lane, the message's wire bytes, its two arenas,
// each of which may go to another thread. Its own references are among these, and move as one.
unsafe impl Send for Job {}

enum LaneSlot {
    Idle(Box<LaneState>),
    Busy(Job, Tag),
    /// While it is looked at.
    Taken,
}

/// The accelerator.
pub(super) struct Executor<C> {
    server: Server<Request, Response>,
    ground: Arc<Ground<C>>,
    lanes: Vec<LaneSlot>,
    scratch: Arena,
    temp: Temp,
    serialiser: encode::Accelerator,
}

impl<C: Crossing + Send + Sync + 'static> Executor<C> {
    pub(super) fn new(
        server: Server<Request, Response>,
        ground: Arc<Ground<C>>,
        lanes: usize,
    ) -> Executor<C> {
        let lane = |_| LaneSlot::Idle(Box::new(LaneState::new(&ground)));
        let lanes = (0..lanes.max(1)).map(lane).collect();
        let (scratch, temp) = (Arena::default(), Temp::default());
        let piece = encode::Accelerator::PIECE_BYTES;
        let serialiser = encode::Accelerator::with(&ground.acc, ground.limits.depth, piece);
        Executor { server, ground, lanes, scratch, temp, serialiser }
    }

    /// One turn: every busy lane decodes a slice, every idle one takes a request. False if there was nothing to do.
    pub(super) fn turn(&mut self) -> bool {
        let mut worked = false;
        let takers = self.takers();
        for lane in 0..self.lanes.len() {
            match std::mem::replace(&mut self.lanes[lane], LaneSlot::Taken) {
                LaneSlot::Busy(mut job, tag) => {
                    worked = true;
                    self.lanes[lane] = match job.0.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                        Poll::Pending => LaneSlot::Busy(job, tag),
                        Poll::Ready((state, message)) => {
                            self.ground.work.busy.fetch_sub(1, Ordering::Relaxed);
                            self.reply(tag, Response::Received(message));
                            LaneSlot::Idle(state)
                        }
                    };
                }
                LaneSlot::Idle(state) if lane >= takers => self.lanes[lane] = LaneSlot::Idle(state),
                LaneSlot::Idle(state) => match self.server.try_recv() {
                    None => self.lanes[lane] = LaneSlot::Idle(state),
                    Some((tag, request)) => {
                        worked = true;
                        self.lanes[lane] = self.begin(state, tag, request);
                    }
                },
                LaneSlot::Taken => unreachable!("a lane is put back where it was taken"),
            }
        }
        if worked {
            self.server.flush();
        }
        worked
    }

    /// How many lanes take messages now; the others finish what they have.
    fn takers(&self) -> usize {
        self.ground.registers.lanes.load(Ordering::Relaxed).clamp(1, self.lanes.len())
    }

    /// Whether a turn would do something.
    pub(super) fn is_ready(&mut self) -> bool {
        self.server.is_ready() || self.lanes.iter().any(|lane| matches!(lane, LaneSlot::Busy(..)))
    }

    fn reply(&mut self, tag: Tag, response: Response) {
        self.ground.crossing.notify(ENTRY);
        self.server.reply(tag, response);
    }

    fn begin(&mut self, mut state: Box<LaneState>, tag: Tag, request: Request) -> LaneSlot {
        let response = match request {
            Request::Receive { schema, class, wire } => {
                let of = (schema, class);
                if wire.len() > self.ground.registers.slice() {
                    let ground = Arc::clone(&self.ground);
                    let job = async move {
                        let message = state.receive(&ground, of, &wire, true).await;
                        (state, message)
                    };
                    self.ground.work.busy.fetch_add(1, Ordering::Relaxed);
                    return LaneSlot::Busy(Job(Box::pin(job)), tag);
                }
                Response::Received(at_once(state.receive(&self.ground, of, &wire, false)))
            }
            Request::Move(order) => Response::Moved(self.transfer(&order)),
            Request::Send(packet) => Response::Sent(self.serialise(&packet)),
        };
        self.reply(tag, response);
        LaneSlot::Idle(state)
    }

    fn transfer(&mut self, order: &Order) -> Result<(Slot, Arena), MoveError> {
        let (host, acc) = (Arena::new(&self.ground.host), Arena::new(&self.ground.acc));
        self.temp.clear();
        let sink = Across {
            crossing: &*self.ground.crossing,
            writes: Writes::OneShot,
            host: &host,
            acc: &acc,
            scratch: &mut self.scratch,
            marks: &mut Vec::new(),
            temp: &mut self.temp,
        };
        let transfer = Transfer {
            table: &order.table,
            crossing: &*self.ground.crossing,
            acc: &self.ground.acc,
            sink,
            to: order.to,
            depth: self.ground.limits.depth,
        };
        // SAFETY: the slot is of a message that waits for the response.
        let slot = unsafe { transfer.run(&order.entry, order.slot)? };
        self.ground.work.moved[usize::from(order.to == Place::Host)].fetch_add(1, Ordering::Relaxed);
        Ok((slot, if order.to == Place::Acc { acc } else { host }))
    }

    fn serialise(&mut self, packet: &Packet) -> Result<Vec<u8>, EncodeError> {
        let Packet { table, bell, headroom } = packet;
        // SAFETY: the message and the host that rang wait for the response; a message that is in accelerator memory too
        // is written there by tasks only, and theirs hold it (`FieldUnit`) or answer for it (`Unit::submit_task`).
        let frame = unsafe { self.serialiser.serialise(&*self.ground.crossing, table, bell, *headroom)? };
        Ok(frame.to_vec())
    }
}

/// The outcome of a message that fits in one slice.
fn at_once<T>(job: impl Future<Output = T>) -> T {
    match pin!(job).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("a message within a slice is done in one turn"),
    }
}
