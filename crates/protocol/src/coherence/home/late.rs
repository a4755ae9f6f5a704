//! A store for tests that takes time: requests wait in a line until the test says which is done and how it ends; what nobody knows of may still be done later.

use super::super::{Out, Planted};
use super::items::{Items, Tree, access_of};
use super::sessions::Answer;
use super::slow::{Ended, reads};
use super::{Access, Home, Ticket};
use crate::planted::Bugs;
use crate::wire::{Header, Message, Opcode, Status, Verb, Version};
use base::Nanos;
use std::collections::VecDeque;

/// How the store ends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum How {
    Done,
    NotDone,
    /// Nobody hears of it: it is done, or not, or later, if by then nothing else was.
    Unknown(Unknown),
}

/// What truly became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Unknown {
    Done,
    NotDone,
    Later,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Whose {
    Packet,
    Ticket(Ticket),
}

/// What waits, and what may still be done, with the version that its item must have then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Late {
    line: VecDeque<(Message, Whose)>,
    floating: Vec<(Message, Version)>,
}

impl Tree {
    /// One that takes time, for at most `capacity` items.
    pub(in super::super) fn late(capacity: usize) -> Tree {
        let mut tree = Tree::new(capacity);
        tree.late = Some(Late::default());
        tree
    }

    fn line(&mut self) -> &mut Late {
        self.late.as_mut().expect("it takes time")
    }

    /// Requests that wait.
    pub(in super::super) fn in_line(&self) -> usize {
        self.late.as_ref().map_or(0, |late| late.line.len())
    }

    /// The last is one behind others.
    pub(super) fn line_up(&mut self, request: Message, ticket: Option<Ticket>) {
        self.line().line.push_back((request, ticket.map_or(Whose::Packet, Whose::Ticket)));
    }

    fn version_at(&self, request: &Message) -> Version {
        self.peek(&request.key).map_or(Version(0), |item| item.version)
    }

    /// Here a request takes effect, or reads.
    fn take_effect(&mut self, now: Nanos, request: &Message) -> Message {
        if request.header.opcode == Opcode::Request(Verb::Flush) {
            self.line().floating.clear();
        }
        match reads(request) {
            true => request.reply(Status::Ok),
            false => self.serve(now, request),
        }
    }

    /// What may still be done is, if it still can be.
    pub(in super::super) fn do_late(&mut self, now: Nanos) {
        for (request, version) in std::mem::take(&mut self.line().floating) {
            if version == self.version_at(&request) {
                self.take_effect(now, &request);
            }
        }
    }
}

impl<B: Bugs<Planted>> Home<Tree, B> {
    /// Ends the request at `place` of the line, or the first of its key before it, or the flush; and what nobody knew of is done.
    pub(in super::super) fn work(&mut self, now: Nanos, place: usize, how: How, out: &mut Out) {
        let line = &self.items.line().line;
        let flushes = |request: &Message| access_of(request) == Access::Flush;
        let chosen = &line[place].0;
        let is_before =
            |(other, _): &(Message, Whose)| flushes(other) || flushes(chosen) || other.key == chosen.key;
        let place = line.iter().take(place).position(is_before).unwrap_or(place);
        let (request, whose) = self.items.line().line.remove(place).expect("it is in the line");
        let reply = match how {
            How::Done | How::Unknown(Unknown::Done) => Some(self.items.take_effect(now, &request)),
            How::Unknown(Unknown::Later) => {
                let version = self.items.version_at(&request);
                self.items.line().floating.push((request.clone(), version));
                None
            }
            How::NotDone | How::Unknown(Unknown::NotDone) => None,
        };
        let ended = match (how, reply) {
            (How::Done, Some(reply)) => Ended::Done(reply),
            (How::NotDone, _) => Ended::NotDone,
            _ => Ended::Unknown,
        };
        match whose {
            Whose::Ticket(ticket) => {
                self.ticket_done(access_of(&request), &ended.clone().map(drop));
                let reply = match ended {
                    Ended::Done(reply) | Ended::Same(reply) => reply,
                    Ended::NotDone => request.reply(Status::Busy),
                    Ended::Unknown => request.reply(Status::Forgotten),
                };
                self.items.reply(ticket, |_, _| reply);
            }
            Whose::Packet => self.packet_done(now, &request, ended, out),
        }
    }

    fn packet_done(&mut self, now: Nanos, request: &Message, ended: Ended<Message>, out: &mut Out) {
        match reads(request) {
            true => {
                let item = self.items.read(&request.key, now);
                self.read_done(now, request, ended.map(|_| item), out);
            }
            false => {
                let answer = |reply: Message| {
                    let Header { status, version, operand, .. } = reply.header;
                    Answer { status, version, number: operand }
                };
                self.write_done(request, ended.map(answer), out);
            }
        }
    }
}
