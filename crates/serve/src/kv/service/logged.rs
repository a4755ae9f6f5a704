//! Commands of a server with a log: executed at once, what they did is logged, and their replies are held until that is durable.
//!
//! ```text
//!  command ─▶ says nothing that could get lost? ─ yes ─▶ executed into the port, as without a log
//!                └─ no ─▶ executed, logged ─▶ reply kept, with its position ··▶ durable (Durable::turn) ─▶ edge woken ─▶ Collect
//! ```
//! A server that is the home of boxes, too, does the same in the moment in which the home admits a command ([`super::homed`]).
//!
//! Invariants: 1. whoever is shown what is not durable waits until it is: writers for what they did, readers for what others did to the key; 2. a
//! connection's commands are executed and answered in order; 3. where the log has no room nothing is executed.
//!
//! Listings and statistics are answered at once: they may show what is not durable.
//!
//! Cost: a read looks up an empty table.

use super::access::{access, what};
use super::commands::Commands;
use super::parked::{Late, LateReply, Origin};
use super::{Beside, Reply, VALUE_BOUND, silent};
use crate::kv::durable::Durable;
use crate::kv::post::Post;
use base::Nanos;
use protocol::coherence::home::Access;
use protocol::memcache::{Command, Exptime, KEY_MAX, Line};
use ring::arena::Producer;
use std::sync::Arc;
use store::Key;
use store::durable::What;

/// The service of a server with a log and without boxes.
pub struct Logged {
    pub(super) commands: Commands,
    post: Arc<Post>,
}

impl Logged {
    /// Over commands that have a log.
    pub fn new(commands: Commands, post: Arc<Post>) -> Logged {
        Logged { commands, post }
    }

    #[inline]
    pub fn tick(&mut self, now: Nanos) {
        self.commands.tick(now);
        self.commands.flush_if_due();
        if self.post.tell_gone(&mut self.commands.parked) {
            self.settle();
        }
    }

    #[inline]
    pub fn execute(
        &mut self,
        command: &Command<'_>,
        (hash, origin): (u64, Origin),
        out: &mut Producer,
    ) -> Option<Reply> {
        if self.commands.parked.has_line(origin) {
            let reply = silent(out, Some(Late::Waits))?;
            let said = self.commands.say(command, hash);
            self.commands.parked.answer(origin, said);
            return Some(reply);
        }
        let reply = self.commands.execute_logged(command, (hash, origin), out);
        self.settle();
        reply
    }

    /// A command that is not done, since it waited too long.
    pub fn expire(
        &mut self,
        command: &Command<'_>,
        why: &[u8],
        origin: Origin,
        out: &mut Producer,
    ) -> Option<Reply> {
        let reply = silent(out, Some(Late::Waits))?;
        let said = self.commands.say_refused(command, why);
        self.commands.parked.hold(origin, said);
        self.settle();
        Some(reply)
    }

    /// The replies of this connection that may leave.
    pub fn collect(&mut self, origin: Origin, out: &mut Producer) -> Option<Reply> {
        // Taken only where there is room to say so.
        out.reserve(0)?;
        let replies = self.commands.parked.collect(origin);
        self.settle();
        self.post.set_waiting(self.commands.parked.lines());
        silent(out, Some(Late::Done(replies)))
    }

    /// What was logged in this pass is made durable together.
    pub fn end_pass(&mut self) {
        self.commands.turn_log();
        self.settle();
    }

    /// Edges learn what may leave.
    #[inline]
    fn settle(&mut self) {
        let mut has_moved = false;
        while let Some(origin) = self.commands.parked.moved() {
            has_moved = true;
            if self.commands.parked.is_to_be_collected(origin) {
                self.post.done(origin);
            }
        }
        if has_moved {
            self.post.set_waiting(self.commands.parked.lines());
        }
    }
}

/// What is to be done with a command, as far as the log goes.
enum Log<'k> {
    /// It shows and changes no item.
    Nothing,
    /// It shows one.
    Shows(u64),
    /// It may change one, of which there may be as many bytes then as stand here.
    Changes(&'k [u8], What, usize),
    /// It flushes.
    Flushes,
}

impl Commands {
    /// What the log has to do with `command`.
    fn log_of<'k>(
        &self,
        durable: &Durable,
        command: &'k Command<'k>,
        hash: u64,
        scratch: &'k mut [u8; KEY_MAX],
    ) -> Log<'k> {
        match access(command, scratch) {
            None => Log::Nothing,
            Some(Access::Flush) => Log::Flushes,
            Some(Access::Write(key)) => {
                let (what, bytes) = what(command);
                Log::Changes(key, what, bytes)
            }
            Some(Access::Read(key)) => {
                // Whoever is the first to see that an item is stale is told to refill it, and nobody else is.
                let wins = matches!(command, Command::MetaGet(_))
                    && self
                        .store
                        .peek(self.now, Key::with_hash(key, hash))
                        .is_some_and(|item| item.stale && !item.win_sent);
                match wins {
                    true => Log::Changes(key, What::State, 0),
                    false => Log::Shows(durable.journal().needs(hash)),
                }
            }
        }
    }

    /// Executes a command of a connection of which nothing waits; its reply waits if it must.
    pub(super) fn execute_logged(
        &mut self,
        command: &Command<'_>,
        (hash, origin): (u64, Origin),
        out: &mut Producer,
    ) -> Option<Reply> {
        let Some(durable) = &self.durable else { return self.execute(command, hash, out) };
        let mut scratch = [0; KEY_MAX];
        if matches!(self.log_of(durable, command, hash, &mut scratch), Log::Nothing | Log::Shows(0)) {
            return self.execute(command, hash, out);
        }
        let mut room = out.reserve(VALUE_BOUND as u32)?;
        let LateReply { bytes, value, needs, .. } = match self.say(command, hash) {
            said if !self.parked.is_durable(said.needs) && !said.is_silent() => {
                self.parked.hold(origin, said);
                return silent(out, Some(Late::Waits));
            }
            said => said,
        };
        debug_assert!(self.parked.is_durable(needs) || bytes.is_empty(), "nothing is said too early");
        room[..bytes.len()].copy_from_slice(&bytes);
        let beside = value.map(|value| Box::new(Beside { value: Some(value), next: None, late: None }));
        Some(Reply { span: room.commit(bytes.len() as u32), beside })
    }

    /// Does `command` outside a port, logs what it did, and says what it is answered, and when that may leave.
    pub(super) fn say(&mut self, command: &Command<'_>, hash: u64) -> LateReply {
        let Some(durable) = &self.durable else { return self.say_unlogged(command, hash) };
        if self.parked.is_full() {
            return self.say_refused(command, Line::Busy.bytes());
        }
        let mut scratch = [0; KEY_MAX];
        let (key, what, bytes) = match self.log_of(durable, command, hash, &mut scratch) {
            Log::Nothing => return self.say_unlogged(command, hash),
            Log::Shows(needs) => return self.say_unlogged(command, hash).behind(needs),
            Log::Flushes if !durable.journal().has_room(0) => {
                return self.say_refused(command, Line::LogFull.bytes());
            }
            Log::Flushes => {
                let said = self.say_unlogged(command, hash);
                let needs = self.durable.as_ref().map_or(0, |durable| durable.journal().last());
                return said.behind(needs);
            }
            Log::Changes(key, what, bytes) => (Key::with_hash(key, hash), what, bytes),
        };
        let (before, has_room) = self.before(key, bytes);
        if !has_room {
            return self.say_refused(command, Line::LogFull.bytes());
        }
        let said = self.say_unlogged(command, hash);
        said.behind(self.after(key, before, what))
    }

    /// What the next reply is behind, of everything; 0 without a log.
    pub(super) fn last_position(&self) -> u64 {
        self.durable.as_ref().map_or(0, |durable| durable.journal().last())
    }

    /// What an item is before a change that adds so many bytes to its value; and whether the log has room for it.
    pub(super) fn before(&self, key: Key<'_>, bytes: usize) -> (store::durable::Before, bool) {
        let Some(durable) = &self.durable else { return (store::durable::Before::default(), true) };
        let before = store::durable::Before::of(&self.store, self.now, key);
        (before, durable.journal().has_room(before.value_len() + bytes))
    }

    /// Logs what was done to an item since; the position that whoever is told of it must wait for.
    pub(super) fn after(&mut self, key: Key<'_>, before: store::durable::Before, what: What) -> u64 {
        let Some(durable) = &mut self.durable else { return 0 };
        durable.journal_mut().after(&self.store, self.now, key, before, what)
    }

    /// A flush that was put off and whose moment has come. A home does it in another way.
    #[inline]
    pub(super) fn flush_if_due(&mut self) {
        if self.is_logged_flush_due() {
            self.flush_now();
        }
    }

    /// Whether the moment of a flush has come that was put off and logged.
    pub(super) fn is_logged_flush_due(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.journal().is_flush_due(self.now))
    }

    /// Flushes everything; a flush that is to come later stays.
    pub(super) fn flush_now(&mut self) {
        self.store.flush_all(self.now, self.now);
        self.is_flushed();
        if let Some(durable) = &mut self.durable {
            durable.journal_mut().flushed(self.now);
        }
    }

    /// Flushes everything, as `delay` says. With a log or boxes, what is put off is not the store's business, which would do it without a word.
    pub(super) fn flush(&mut self, delay: Exptime) {
        let (now, moment) = (self.now, delay.moment(self.now));
        if moment <= now {
            self.put_off_no_more();
            return self.flush_now();
        }
        match &mut self.durable {
            Some(durable) => drop(durable.journal_mut().flush_at(moment)),
            None if self.put_off.is_here() => self.put_off_to(moment),
            None => self.store.flush_all(now, moment),
        }
    }

    /// Has a log from now on.
    pub(super) fn log_in(&mut self, durable: Durable) {
        self.parked.set_durable(durable.journal().durable());
        self.durable = Some(Box::new(durable));
    }

    /// A pass is over, as far as the log goes.
    pub(super) fn turn_log(&mut self) {
        if let Some(durable) = &mut self.durable {
            let position = durable.turn(&self.store, self.now);
            self.parked.set_durable(position);
        }
    }
}
