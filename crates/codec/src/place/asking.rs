//! What the accelerator is asked besides decoding: to move fields, and to serialise.
//!
//! A message that is being sent without waiting is held here, with the buffers that the host prepared, until its response is
//! here: invariant of [`Packet`]. One that is waited for is borrowed.
//!
//! Bounds: as many messages are held as the rings have room for; as many buffers are kept as were used at once.

use super::accelerator::{Accelerator, ENTRY, Ticket};
use super::executor::{Order, Packet, Request, Response};
use super::live::FieldId;
use super::message::Placed;
use super::transfer::{MoveError, Slot};
use crate::copy::Inline;
use crate::crossing::Crossing;
use crate::encode::{Bell, EncodeError, Host, Settings, Strategy};
use crate::memory::{Arena, Memory, Place};
use crate::object::Object;
use crate::table::Table;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

/// What is under way, and what came back.
pub(super) struct Asking {
    /// Responses to the calls that wait.
    answered: VecDeque<(Ticket, Response)>,
    /// Messages that the accelerator is reading.
    sending: HashMap<Ticket, (Placed, Host)>,
    sent: VecDeque<(Ticket, Result<Vec<u8>, EncodeError>)>,
    /// The host's sides of serialising that are not in use.
    spare: Vec<Host>,
    settings: Arc<Settings>,
    depth: u32,
}

/// Why a message was not submitted; it comes back with this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRefused {
    /// The rings are full: take responses first.
    Busy,
    /// It cannot be serialised.
    Encode(EncodeError),
}

impl Asking {
    pub(super) fn new(settings: &Arc<Settings>, depth: u32) -> io::Result<Asking> {
        let mut asking = Asking {
            answered: VecDeque::new(),
            sending: HashMap::new(),
            sent: VecDeque::new(),
            spare: Vec::new(),
            settings: Arc::clone(settings),
            depth,
        };
        // The first one now: an accelerator that cannot send is not started.
        let first = asking.host().map_err(|_| io::ErrorKind::OutOfMemory)?;
        asking.spare.push(first);
        Ok(asking)
    }

    fn host(&mut self) -> Result<Host, EncodeError> {
        match self.spare.pop() {
            Some(host) => Ok(host),
            // Not in the messages' memory, which is theirs alone.
            None => Ok(Host::new(Memory::process(), Inline, Arc::clone(&self.settings), self.depth)?),
        }
    }

    /// A response that is no decoded message.
    pub(super) fn put(&mut self, ticket: Ticket, response: Response) {
        match (self.sending.remove(&ticket), response) {
            (Some((message, host)), Response::Sent(frame)) => {
                drop(message);
                self.spare.push(host);
                self.sent.push_back((ticket, frame));
            }
            (None, response) => self.answered.push_back((ticket, response)),
            (Some(_), _) => unreachable!("a packet is answered as one"),
        }
    }

    pub(super) fn has_sent(&self) -> bool {
        !self.sent.is_empty()
    }
}

impl<C: Crossing + Send + Sync + 'static> Accelerator<C> {
    /// RPCAcc Table III, `moveToAcc`: [`Accelerator::move_field`] to the accelerator's memory.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn move_to_acc(&mut self, message: &mut Placed, path: &[FieldId]) -> Result<bool, MoveError> {
        self.move_field(message, path, Place::Acc)
    }

    /// RPCAcc Table III, `moveToCPU`: [`Accelerator::move_field`] to the host's memory.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn move_to_cpu(&mut self, message: &mut Placed, path: &[FieldId]) -> Result<bool, MoveError> {
        self.move_field(message, path, Place::Host)
    }

    /// Moves the field at the end of `path` (see [`Placed::place_of`]), if it
    /// is not there already, and objects to where this class's field is put: see [`Live::moved`](super::Live::moved). True if it was moved.
    ///
    /// # Errors
    /// [`MoveError`]; the message is as before.
    ///
    /// # Panics
    /// If the path does not fit the message, or if a thread of the accelerator has died.
    pub fn move_field(
        &mut self,
        message: &mut Placed,
        path: &[FieldId],
        to: Place,
    ) -> Result<bool, MoveError> {
        let (object, field) = message.follow(path).ok_or(MoveError::Absent)?;
        let from = message.place_of(path);
        if from.is_none() || from == Some(to) {
            return Ok(false);
        }
        let entry = *message.entry(field);
        // SAFETY: `follow` gave an object of this field's class, and the message is borrowed until the response is here.
        let (slot, arena) = unsafe { self.copy_field(&message.table, object, field, to)? };
        // SAFETY: as above; only this thread has the message.
        unsafe { slot.write(object, &entry) };
        #[cfg(test)]
        if self.ground.planted == Some(super::tests::Planted::MovedArenaDropped) {
            return Ok(true);
        }
        message.moved.push(arena);
        self.object_to(message, field, to);
        Ok(true)
    }

    /// The program wants a field of this message elsewhere.
    pub(super) fn object_to(&self, message: &Placed, field: FieldId, to: Place) {
        self.live_with(message.table.layout_hash()).moved(message.class, field, to);
    }

    /// Copies what a field refers to into memory `to`: what its slot holds then, and the memory that this refers to.
    ///
    /// # Safety
    /// The object, of this field's class and of this table's layout, is finished and not written until this returns.
    pub(super) unsafe fn copy_field(
        &mut self,
        table: &Arc<Table>,
        object: Object,
        field: FieldId,
        to: Place,
    ) -> Result<(Slot, Arena), MoveError> {
        let entry = table.entries(table.message(field.class))[field.entry as usize];
        // SAFETY: the caller's promise.
        let slot = unsafe { Slot::read(object, &entry) };
        let order = Order { table: Arc::clone(table), entry, slot, to };
        self.ground.crossing.doorbell(ENTRY);
        let Response::Moved(moved) = self.call(Request::Move(order)) else {
            unreachable!("a move is answered as one")
        };
        moved
    }

    /// Serialises `message` with the work shared as `strategy` says; what goes to the network: `headroom` zeroed bytes for a
    /// header, then the message.
    ///
    /// # Errors
    /// As [`Host::prepare`]: with [`Strategy::CpuOnly`] no field may be in accelerator memory.
    ///
    /// # Panics
    /// If a thread of the accelerator has died.
    pub fn send(
        &mut self,
        message: &Placed,
        strategy: Strategy,
        headroom: usize,
    ) -> Result<Vec<u8>, EncodeError> {
        let (host, bell) = self.prepare(message, strategy)?;
        let packet = Packet { table: Arc::clone(&message.table), bell, headroom };
        // The message is borrowed, and the host's side not used again, until the response is here.
        let response = self.call(Request::Send(packet));
        self.asking.spare.push(host);
        match response {
            Response::Sent(frame) => frame,
            _ => unreachable!("a packet is answered as one"),
        }
    }

    /// As [`Accelerator::send`], without waiting; take the bytes with [`Accelerator::poll_sent`].
    ///
    /// # Errors
    /// [`SendRefused`], and the message.
    pub fn submit_send(
        &mut self,
        message: Placed,
        strategy: Strategy,
        headroom: usize,
    ) -> Result<Ticket, (SendRefused, Box<Placed>)> {
        if self.room().is_none() {
            return Err((SendRefused::Busy, Box::new(message)));
        }
        let (host, bell) = match self.prepare(&message, strategy) {
            Ok(prepared) => prepared,
            Err(error) => return Err((SendRefused::Encode(error), Box::new(message))),
        };
        let packet = Packet { table: Arc::clone(&message.table), bell, headroom };
        // The least loaded ring has room if any has.
        let Ok(ticket) = self.post(Request::Send(packet)) else { unreachable!("a ring has room") };
        self.asking.sending.insert(ticket, (message, host));
        Ok(ticket)
    }

    /// What became of a message that was submitted to be sent, in any order.
    pub fn poll_sent(&mut self) -> Option<(Ticket, Result<Vec<u8>, EncodeError>)> {
        if self.asking.sent.is_empty() {
            self.take_turns();
            self.collect();
        }
        self.asking.sent.pop_front()
    }

    /// The host's part of serialising, and the doorbell.
    fn prepare(&mut self, message: &Placed, strategy: Strategy) -> Result<(Host, Bell), EncodeError> {
        let mut host = self.asking.host()?;
        let crossing = &*self.ground.crossing;
        // SAFETY: the root of a placed message is of its class of its table.
        let bell =
            unsafe { host.prepare(crossing, strategy, &message.table, message.class, message.view(), 0) };
        match bell {
            Ok(bell) => Ok((host, bell)),
            Err(error) => {
                self.asking.spare.push(host);
                Err(error)
            }
        }
    }

    /// Sends a request, whose doorbell the caller counts, and waits for its response.
    fn call(&mut self, mut request: Request) -> Response {
        let ticket = loop {
            match self.post(request) {
                Ok(ticket) => break ticket,
                Err(back) => request = back,
            }
            self.wait_for(Accelerator::room);
        };
        let answered = |this: &mut Self| this.asking.answered.iter().position(|&(done, _)| done == ticket);
        let at = self.wait_for(answered);
        self.asking.answered.remove(at).expect("it was just seen there").1
    }
}
