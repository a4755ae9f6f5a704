//! A store for tests that takes time: requests wait in a line until the test says which is done and how it ends; what nobody knows of may still be done later.

use super::super::compute::Item;
use super::super::{Out, Planted};
use super::items::{Items, Tree, access_of};
use super::sessions::Answer;
use super::slow::{Ended, reads};
use super::{Access, Home, Ticket};
use crate::chain::message::RequestId;
use crate::chain::transaction::{Change, Transaction};
use crate::planted::Bugs;
use crate::wire::{Header, Message, Opcode, Status, Verb, Version};
use base::Nanos;
use std::collections::{BTreeSet, VecDeque};

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
    /// Of several items; in order with nothing.
    Transaction(RequestId, Transaction),
}

/// Tickets from here on are those of transactions: they ask for items, and do nothing with them alone.
pub(in super::super) const OF_TRANSACTIONS: Ticket = Ticket(1 << 40);

/// What those who do transactions are told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Told {
    /// They have it, or there was no room.
    Item(Ticket, bool),
    /// It was done, or not.
    Ended(RequestId, bool),
    /// Nobody answered.
    Lost(RequestId),
}

/// What waits, and what may still be done, with the version that its item must have then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Late {
    line: VecDeque<(Message, Whose)>,
    /// Reads that found this, and are not told of.
    looked: VecDeque<(Message, Option<Item>)>,
    floating: Vec<(Message, Version)>,
    /// Transactions that may still be done, and those that were.
    floating_transactions: Vec<(RequestId, Transaction)>,
    done: BTreeSet<RequestId>,
    told: VecDeque<Told>,
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

    /// Reads that are done and not told of.
    pub(in super::super) fn looked(&self) -> usize {
        self.late.as_ref().map_or(0, |late| late.looked.len())
    }

    /// What is done next, if the request at `place` of the line is to be: it, or the first of its key before it, or the flush.
    fn first(&self, place: usize) -> usize {
        let line = &self.late.as_ref().expect("it takes time").line;
        let (chosen, whose) = &line[place];
        let is_aside = |whose: &Whose| matches!(whose, Whose::Transaction(..));
        if is_aside(whose) {
            return place;
        }
        let is_before = |(other, whose): &(Message, Whose)| {
            !is_aside(whose) && (flushes_all(other) || flushes_all(chosen) || other.key == chosen.key)
        };
        line.iter().take(place).position(is_before).unwrap_or(place)
    }

    /// If it is a read that is done next there, it finds what is there now; its home is told later.
    pub(in super::super) fn look(&mut self, now: Nanos, place: usize) {
        let place = self.first(place);
        let is_read = matches!(&self.line().line[place], (request, Whose::Packet) if reads(request));
        if is_read {
            let (request, _) = self.line().line.remove(place).expect("it is in the line");
            let item = self.read(&request.key, now);
            self.line().looked.push_back((request, item));
        }
    }

    /// The last is one behind others.
    pub(super) fn line_up(&mut self, request: Message, ticket: Option<Ticket>) {
        self.line().line.push_back((request, ticket.map_or(Whose::Packet, Whose::Ticket)));
    }

    /// A transaction is in order with nothing; it is done once, however often it comes.
    pub(in super::super) fn line_up_transaction(&mut self, id: RequestId, transaction: Transaction) {
        let none = Message::request(Verb::Noop, b"");
        self.line().line.push_back((none, Whose::Transaction(id, transaction)));
    }

    /// News for those who do transactions.
    pub(in super::super) fn poll_told(&mut self) -> Option<Told> {
        self.late.as_mut()?.told.pop_front()
    }

    /// An item is a transaction's now, or is not to be.
    pub(super) fn tell(&mut self, ticket: Ticket, is_admitted: bool) {
        self.line().told.push_back(Told::Item(ticket, is_admitted));
    }

    fn do_transaction(&mut self, now: Nanos, id: RequestId, transaction: &Transaction) {
        if !self.line().done.insert(id) {
            return;
        }
        for (key, change) in &transaction.writes {
            let Change::Put(value) = change else { unreachable!("transactions of these tests put") };
            let mut set = Message::request(Verb::Set, key);
            set.value.clone_from(value);
            self.serve(now, &set);
        }
    }

    fn end_transaction(&mut self, now: Nanos, id: RequestId, transaction: Transaction, how: How) {
        let told = match how {
            How::Done | How::Unknown(Unknown::Done) => {
                self.do_transaction(now, id, &transaction);
                if how == How::Done { Told::Ended(id, true) } else { Told::Lost(id) }
            }
            How::NotDone => Told::Ended(id, false),
            How::Unknown(Unknown::NotDone) => Told::Lost(id),
            How::Unknown(Unknown::Later) => {
                self.line().floating_transactions.push((id, transaction));
                Told::Lost(id)
            }
        };
        self.line().told.push_back(told);
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
        for (id, transaction) in std::mem::take(&mut self.line().floating_transactions) {
            self.do_transaction(now, id, &transaction);
        }
        for (request, version) in std::mem::take(&mut self.line().floating) {
            if version == self.version_at(&request) {
                self.take_effect(now, &request);
            }
        }
    }
}

fn flushes_all(request: &Message) -> bool {
    access_of(request) == Access::Flush
}

impl<B: Bugs<Planted>> Home<Tree, B> {
    /// Ends the request at `place` of the line, or the first of its key before it, or the flush; and what nobody knew of is done.
    pub(in super::super) fn work(&mut self, now: Nanos, place: usize, how: How, out: &mut Out) {
        let place = self.items.first(place);
        let (request, whose) = self.items.line().line.remove(place).expect("it is in the line");
        if let Whose::Transaction(id, transaction) = whose {
            return self.items.end_transaction(now, id, transaction, how);
        }
        self.tell_looked(now, |read| flushes_all(&request) || read.key == request.key, out);
        let before = self.items.version_at(&request);
        let reply = match how {
            How::Done | How::Unknown(Unknown::Done) => Some(self.items.take_effect(now, &request)),
            How::Unknown(Unknown::Later) => {
                let version = self.items.version_at(&request);
                self.items.line().floating.push((request.clone(), version));
                None
            }
            How::NotDone | How::Unknown(Unknown::NotDone) => None,
        };
        // What is late goes by the version alone.
        let is_same = !flushes_all(&request) && before == self.items.version_at(&request);
        let ended = match (how, reply) {
            (How::Done, Some(reply)) if is_same => Ended::Same(reply),
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
            Whose::Transaction(..) => unreachable!("it has ended above"),
        }
    }

    /// Of these reads that are done their home is told.
    pub(in super::super) fn tell_looked(
        &mut self,
        now: Nanos,
        which: impl Fn(&Message) -> bool,
        out: &mut Out,
    ) {
        let (told, left) =
            std::mem::take(&mut self.items.line().looked).into_iter().partition(|(read, _)| which(read));
        self.items.line().looked = left;
        let told: VecDeque<(Message, Option<Item>)> = told;
        for (read, item) in told {
            self.read_done(now, &read, Ended::Done(item), out);
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
