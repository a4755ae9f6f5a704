//! The service of a server whose items lie in a chain, and that has no boxes before it: every command of an item waits for transactions, and its reply keeps
//! its place in its connection's line. How: [`super::chain_items`].
//!
//! Invariant: a connection's commands are answered in the order in which they came. Those of one key are done in that order, too; those of several keys, that a
//! client sends without waiting for replies, are under way together.
//!
//! Statistics are of this server; listings show nothing.

use super::access::access;
use super::chain_items::{ChainItems, Changes, Whose};
use super::chained::Said;
use super::commands::Commands;
use super::homed::HomeStore as _;
use super::parked::{Late, Origin};
use super::stats::ChainReport;
use super::{Reply, silent};
use crate::kv::post::Post;
use base::Nanos;
use protocol::memcache::{Command, KEY_MAX};
use ring::arena::Producer;
use std::sync::Arc;

/// See the head of the file.
pub struct OverChain {
    items: ChainItems,
    post: Arc<Post>,
}

impl OverChain {
    /// Commands on these items.
    pub fn new(items: ChainItems, post: Arc<Post>) -> OverChain {
        OverChain { items, post }
    }

    #[inline]
    pub fn commands(&self) -> &Commands {
        self.items.commands()
    }

    #[inline]
    pub fn commands_mut(&mut self) -> &mut Commands {
        self.items.commands_mut()
    }

    /// What was counted, and commands that wait.
    pub fn report(&self) -> ChainReport {
        self.items.report()
    }

    #[inline]
    pub fn tick(&mut self, now: Nanos) {
        let commands = self.items.commands_mut();
        commands.tick(now);
        self.post.tell_gone(&mut commands.parked);
    }

    #[inline]
    pub fn execute(
        &mut self,
        command: &Command<'static>,
        (hash, origin): (u64, Origin),
        out: &mut Producer,
    ) -> Option<Reply> {
        let commands = self.commands_mut();
        if !commands.parked.has_line(origin) && access(command, &mut [0; KEY_MAX]).is_none() {
            return commands.execute(command, hash, out);
        }
        let reply = silent(out, Some(Late::Waits))?;
        let promise = commands.parked.promise(origin);
        self.items.chained.ask(command, hash, Whose::Command(promise, Changes::Nothing));
        Some(reply)
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
        let commands = self.commands_mut();
        let said = commands.say_refused(command, why);
        let promise = commands.parked.promise(origin);
        commands.parked.fulfil(promise, said);
        Some(reply)
    }

    /// The replies of this connection that may leave.
    pub fn collect(&mut self, origin: Origin, out: &mut Producer) -> Option<Reply> {
        // Taken only where there is room to say so.
        out.reserve(0)?;
        let replies = self.commands_mut().parked.collect(origin);
        silent(out, Some(Late::Done(replies)))
    }

    /// A pass is over: what became of transactions is heard, those that it began leave, and edges learn whose replies are there.
    pub fn end_pass(&mut self) {
        let told = self.items.turn();
        let parked = &mut self.items.commands_mut().parked;
        for told in told {
            let (Whose::Command(promise, _), Said::Reply(reply)) = (told.whose, told.said) else {
                unreachable!("no packets without a home")
            };
            parked.fulfil(promise, reply);
        }
        let mut moved: Vec<Origin> = std::iter::from_fn(|| parked.moved()).collect();
        // One reply of several is told of as well as all of them.
        moved.sort_unstable();
        moved.dedup();
        for origin in moved.into_iter().filter(|origin| parked.is_to_be_collected(*origin)) {
            self.post.done(origin);
        }
        self.post.set_waiting(parked.lines());
    }
}
