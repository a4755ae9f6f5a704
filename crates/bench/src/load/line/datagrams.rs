//! memcached's text in UDP datagrams: a frame of eight bytes with a request's number before the text, any number of datagrams as answer.
//!
//! ```text
//!   slot: request ──send──▶ pieces come in any order ──all there──▶ read ──▶ free
//!                    ▲────── timeout, twice as long each time, under a new number
//! ```
//!
//! The protocol itself repeats nothing, so a client must. A write that is sent again may be done twice; a value check cannot tell, for both store the same.
//!
//! Bounds: a slot per operation under way, with a datagram's request and the pieces of one answer.

use super::{Ask, Heard, Line, Received, Ticket};
use crate::load::counts::Tally;
use crate::load::dialect::{Dialect, Part, Refusal, Speaker, Verdict};
use crate::load::keys::KeyFormat;
use base::{Clock, Nanos};
use protocol::memcache::udp::{FRAME_LEN, Frame, UdpError};
use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

/// The longest value: its request must be one datagram.
pub const LONGEST_VALUE: usize = 60_000;
/// A request that nobody answers is sent again after this, then after twice as long, and so on, ...
const RETRANSMIT: Nanos = Nanos::from_millis(50);
/// ... but never later than this ...
const RETRANSMIT_MAX: Nanos = Nanos::from_millis(400);
/// ... until this is over.
const PATIENCE: Nanos = Nanos::from_secs(10);
/// Datagrams taken at once.
const BURST: usize = 64;

#[derive(Debug)]
struct Slot {
    ticket: Ticket,
    /// The number that the request was sent under last.
    number: u16,
    request: Vec<u8>,
    speaker: Speaker,
    /// Datagrams of the answer that came, and those that are missing.
    pieces: Vec<Option<Vec<u8>>>,
    answer: Vec<u8>,
    read: usize,
    send_at: Nanos,
    timeout: Nanos,
    /// When it is given up.
    until: Nanos,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Asked,
    Answered,
    GivenUp,
}

/// See the file's head.
pub struct Datagrams {
    socket: UdpSocket,
    dialect: Dialect,
    keys: Option<KeyFormat>,
    slots: Vec<Slot>,
    ended: VecDeque<usize>,
    next: u16,
    received: Box<[u8]>,
    clock: Clock,
}

impl Datagrams {
    /// At a socket that is connected to the server.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(socket: UdpSocket) -> io::Result<Datagrams> {
        socket.set_nonblocking(true)?;
        // With less room more is lost under load, which costs time only.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 2 << 20);
        Ok(Datagrams {
            socket,
            dialect: Dialect::Classic,
            keys: None,
            slots: Vec::new(),
            ended: VecDeque::new(),
            next: 0,
            received: vec![0; 1 << 16].into(),
            clock: Clock::shared(),
        })
    }

    /// The number of a slot that nobody uses.
    fn free_slot(&mut self, ticket: Ticket) -> usize {
        if let Some(free) = self.slots.iter().position(|slot| slot.state == State::Free) {
            self.slots[free].ticket = ticket;
            return free;
        }
        let keys = self.keys.expect("a phase began");
        self.slots.push(Slot {
            ticket,
            number: 0,
            request: Vec::new(),
            speaker: Speaker::new(self.dialect, keys, LONGEST_VALUE * 2),
            pieces: Vec::new(),
            answer: Vec::new(),
            read: 0,
            send_at: Nanos::MAX,
            timeout: Nanos::ZERO,
            until: Nanos::MAX,
            state: State::Free,
        });
        self.slots.len() - 1
    }

    /// Sends a slot's request under a new number: so no piece of an answer to the last sending is taken for one to this.
    fn send(&mut self, at: usize, now: Nanos, tally: &mut Tally) {
        let slot = &mut self.slots[at];
        slot.number = self.next;
        self.next = self.next.wrapping_add(1);
        slot.pieces.clear();
        let frame = Frame { request_id: slot.number, sequence: 0, count: 1 };
        slot.request[..FRAME_LEN].copy_from_slice(&frame.emit());
        slot.send_at = now.plus(slot.timeout);
        slot.timeout = Nanos(slot.timeout.0 * 2).min(RETRANSMIT_MAX);
        // What the system does not take is lost, and sent again.
        if self.socket.send(&slot.request).is_ok() {
            tally.counts.sent += slot.request.len() as u64;
        }
    }

    /// Sends again, or gives up, what is due.
    fn serve_deadlines(&mut self, tally: &mut Tally) {
        let now = self.clock.now();
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            if slot.state != State::Asked || slot.send_at > now {
                continue;
            }
            if slot.until <= now {
                slot.state = State::GivenUp;
                self.ended.push_back(at);
            } else {
                tally.counts.sent_again += 1;
                self.send(at, now, tally);
            }
        }
    }

    fn take(&mut self, len: usize) {
        let datagram = &self.received[..len];
        let frame = match Frame::parse(datagram) {
            Ok((frame, _)) | Err(UdpError::MultiPacket(frame)) => frame,
            Err(UdpError::Short) => return,
        };
        let asked = |slot: &Slot| slot.state == State::Asked && slot.number == frame.request_id;
        let Some(at) = self.slots.iter().position(asked) else { return };
        let slot = &mut self.slots[at];
        slot.pieces.resize(usize::from(frame.count), None);
        let Some(piece) = slot.pieces.get_mut(usize::from(frame.sequence)) else { return };
        *piece = Some(datagram[FRAME_LEN..].to_vec());
        if slot.pieces.iter().all(Option::is_some) {
            slot.answer.clear();
            slot.pieces.drain(..).flatten().for_each(|piece| slot.answer.extend_from_slice(&piece));
            slot.read = 0;
            slot.state = State::Answered;
            self.ended.push_back(at);
        }
    }
}

impl Line for Datagrams {
    fn begin(&mut self, dialect: Dialect, keys: KeyFormat) {
        (self.dialect, self.keys) = (dialect, Some(keys));
        self.slots.clear();
        self.ended.clear();
    }

    fn ask(&mut self, ticket: Ticket, ask: Ask<'_>, tally: &mut Tally) {
        let at = self.free_slot(ticket);
        let now = self.clock.now();
        let slot = &mut self.slots[at];
        slot.request.clear();
        slot.request.resize(FRAME_LEN, 0);
        slot.speaker.ask(&mut slot.request, ask);
        slot.state = State::Asked;
        slot.timeout = RETRANSMIT;
        slot.until = now.plus(PATIENCE);
        self.send(at, now, tally);
    }

    fn flush(&mut self, _tally: &mut Tally) -> io::Result<()> {
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        false
    }

    fn receive(&mut self, tally: &mut Tally) -> io::Result<Received> {
        let mut received = Received::Some;
        for _ in 0..BURST {
            match self.socket.recv(&mut self.received) {
                Ok(len) => {
                    tally.counts.received += len as u64;
                    self.take(len);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        received = Received::All;
                        break;
                    }
                    // What an earlier datagram met: the server is not there, or not yet.
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        self.serve_deadlines(tally);
        Ok(if self.ended.is_empty() { Received::Nothing } else { received })
    }

    fn next(&mut self, _tally: &mut Tally) -> io::Result<Option<Heard<'_>>> {
        let Some(&at) = self.ended.front() else { return Ok(None) };
        let slot = &mut self.slots[at];
        let ticket = Some(slot.ticket);
        let part = if slot.state == State::GivenUp {
            // What it was to read is not owed any more.
            slot.speaker = Speaker::new(self.dialect, self.keys.expect("a phase began"), LONGEST_VALUE * 2);
            let why = b"nobody answered; a write may have been done";
            let verdict = Some(Verdict::Refused(Refusal::Unanswered, why));
            Part { item: None, absent: false, verdict, used: 0 }
        } else {
            let invalid = |text| io::Error::new(io::ErrorKind::InvalidData, text);
            match slot.speaker.next(&slot.answer[slot.read..]).map_err(invalid)? {
                Ok(part) => part,
                Err(_) => return Err(invalid("the datagrams of an answer end before it does".to_string())),
            }
        };
        slot.read += part.used;
        if part.verdict.is_some() {
            slot.state = State::Free;
            self.ended.pop_front();
        }
        Ok(Some(Heard { ticket, part, from_box: false }))
    }

    fn waitable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn next_deadline(&self) -> Nanos {
        let asked = self.slots.iter().filter(|slot| slot.state == State::Asked);
        asked.map(|slot| slot.send_at).min().unwrap_or(Nanos::MAX)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn abandon(&mut self) {
        self.slots.clear();
        self.ended.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_overtake_each_other_and_come_in_pieces_in_any_order() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.connect(server.local_addr().expect("bound")).expect("loopback");
        let mut line = Datagrams::new(socket).expect("a line");
        line.begin(Dialect::Classic, KeyFormat::new(5, 9).expect("it fits"));
        let mut tally = Tally::new(Nanos::ZERO, Nanos(1));
        let mut numbers = Vec::new();
        let mut room = [0; 2000];
        let mut client = None;
        for key in 0..2u64 {
            line.ask(Ticket(key), Ask::Read { keys: &[key], unique: false }, &mut tally);
            let (len, from) = server.recv_from(&mut room).expect("a request");
            let (frame, text) = Frame::parse(&room[..len]).expect("a frame");
            assert_eq!(text, format!("get mr00{key}\r\n").as_bytes());
            numbers.push(frame.request_id);
            client = Some(from);
        }
        let answer = |number: u16, sequence: u16, count: u16, text: &str| {
            let frame = Frame { request_id: number, sequence, count };
            let bytes = [&frame.emit()[..], text.as_bytes()].concat();
            server.send_to(&bytes, client.expect("it asked")).expect("sent");
        };
        answer(numbers[1], 1, 2, "hi\r\nEND\r\n");
        answer(99, 0, 1, "nobody asked\r\n");
        answer(numbers[0], 0, 1, "END\r\n");
        answer(numbers[1], 0, 2, "VALUE mr001 5 2\r\n");
        let mut heard = Vec::new();
        while heard.len() < 3 {
            line.receive(&mut tally).expect("open");
            while let Some(part) = line.next(&mut tally).expect("it can be followed") {
                heard.push((part.ticket, part.part.item.map(|item| item.data.to_vec())));
            }
        }
        let of = |key, data: Option<&[u8]>| (Some(Ticket(key)), data.map(<[u8]>::to_vec));
        assert_eq!(heard, [of(0, None), of(1, Some(b"hi")), of(1, None)]);
        assert_eq!((line.next_deadline(), tally.counts.sent_again), (Nanos::MAX, 0));
    }
}
