//! What becomes of a command or packet that comes: said at once, or held behind a flush, or in its key's line.

use super::super::access::access;
use super::super::parked::Owned;
use super::asked::{Asked, Said, Told, changes};
use super::execute::refused;
use super::flush::Flush;
use super::{Chained, Held, Planted, Wanted};
use crate::kv::registers::Id;
use base::Nanos;
use protocol::chain::attributes::RESERVED;
use protocol::coherence::home::Access;
use protocol::coherence::home::sessions::Answer;
use protocol::coherence::home::slow::Ended;
use protocol::memcache::{Command, KEY_MAX, Line};
use protocol::planted::Bugs;
use protocol::wire::{Message, Status, Verb, Version};
use std::sync::Arc;

/// What is to be done with a command.
enum Plan {
    /// It wants nothing of the chain.
    Say,
    /// It is not done, and why.
    Refuse(Line),
    Flush,
    /// It goes to the line of this key.
    Item(Box<[u8]>),
}

impl<T, B: Bugs<Planted>> Chained<T, B> {
    /// Does `command`, of an item or of all, whose key has this hash; what is answered comes by [`Chained::leaving`] and `said`.
    pub fn ask(&mut self, command: &Command<'static>, hash: u64, whose: T) {
        self.waiting += 1;
        match self.plan(command) {
            Plan::Item(key) => match self.commands.parked.copy(command, hash) {
                Some(copy) => self.enqueue(key, Wanted { asked: Asked::Command(copy), whose }),
                None => self.say_refused(command, Line::Busy, whose),
            },
            plan => self.answer(command, hash, plan, whose),
        }
    }

    /// The same, of a command that was copied before.
    pub(in crate::kv) fn ask_owned(&mut self, owned: Owned, whose: T) {
        self.waiting += 1;
        let (command, hash) = owned.command();
        match self.plan(&command) {
            Plan::Item(key) => self.enqueue(key, Wanted { asked: Asked::Command(owned), whose }),
            plan => self.answer(&command, hash, plan, whose),
        }
    }

    fn plan(&self, command: &Command<'_>) -> Plan {
        match access(command, &mut [0; KEY_MAX]) {
            None => Plan::Say,
            Some(Access::Flush) => self.refused_flush(command).map_or(Plan::Flush, Plan::Refuse),
            Some(Access::Read(key) | Access::Write(key)) => {
                refused(command, key).map_or_else(|| Plan::Item(key.into()), Plan::Refuse)
            }
        }
    }

    fn answer(&mut self, command: &Command<'_>, hash: u64, plan: Plan, whose: T) {
        match plan {
            Plan::Say => {
                let said = Said::Reply(self.commands.say_unlogged(command, hash));
                self.say(Told { whose, ended: Ended::Same(()), said });
            }
            Plan::Refuse(line) => self.say_refused(command, line, whose),
            Plan::Flush => {
                let reply = self.commands.say_refused(command, Line::Ok.bytes());
                self.held.push_back(Held::Flush(Flush { whose, reply: Some(reply), conflicts: 0 }));
                self.release();
            }
            Plan::Item(_) => unreachable!("it waits in a line"),
        }
    }

    fn say_refused(&mut self, command: &Command<'_>, line: Line, whose: T) {
        let said = Said::Reply(self.commands.say_refused(command, line.bytes()));
        self.say(Told { whose, ended: Ended::NotDone, said });
    }

    /// Does what a packet asks that the home of boxes took at `now`. False where there is no room: it will not be done.
    pub fn ask_by_packet(&mut self, message: &Arc<Message>, now: Nanos, whose: T) -> bool {
        if self.waiting >= self.commands.registers.size(Id::ChainedQueue) {
            return false;
        }
        self.waiting += 1;
        match changes(message) {
            Some(Verb::Flush) => {
                self.held.push_back(Held::Flush(Flush { whose, reply: None, conflicts: 0 }));
                self.release();
            }
            changes if message.key.first() == Some(&RESERVED) => {
                let bad = Answer { status: Status::Bad, version: Version(0), number: 0 };
                let said = changes.map_or(Said::Found(None), |_| Said::Answer(bad));
                self.say(Told { whose, ended: Ended::Same(()), said });
            }
            _ => {
                let asked = Asked::Packet(Arc::clone(message), now);
                self.line_up_or_hold(message.key.as_slice().into(), Wanted { asked, whose });
            }
        }
        true
    }

    fn refused_flush(&self, command: &Command<'_>) -> Option<Line> {
        let Command::FlushAll { delay, .. } = command else { unreachable!("nothing else flushes") };
        let (is_allowed, now) = (self.commands.registers.is_on(Id::StoreFlushAll), self.commands.now);
        match delay.moment(now) > now {
            _ if !is_allowed => Some(Line::FlushRefused),
            true => Some(Line::FlushDelayRefused),
            false => None,
        }
    }

    fn enqueue(&mut self, key: Box<[u8]>, wanted: Wanted<T>) {
        if self.waiting > self.commands.registers.size(Id::ChainedQueue) {
            return self.refuse(wanted, Line::Busy, Ended::NotDone);
        }
        self.line_up_or_hold(key, wanted);
    }

    fn line_up_or_hold(&mut self, key: Box<[u8]>, wanted: Wanted<T>) {
        match self.held.is_empty() && !self.is_flushing {
            true => self.line_up(key, wanted),
            false => self.held.push_back(Held::Item(key, wanted)),
        }
    }

    /// Tells who asked that it was not done, or that nobody knows.
    pub(super) fn refuse(&mut self, Wanted { asked, whose }: Wanted<T>, line: Line, ended: Ended<()>) {
        let (ended, said) = match (&asked.command(), line) {
            (Some(command), _) => (ended, Said::Reply(self.commands.say_refused(command, line.bytes()))),
            (None, Line::OutOfMemory) => {
                let full = Answer { status: Status::NoRoom, version: Version(0), number: 0 };
                (Ended::Same(()), Said::Answer(full))
            }
            (None, _) => (ended, Said::Nothing),
        };
        self.say(Told { whose, ended, said });
    }
}
