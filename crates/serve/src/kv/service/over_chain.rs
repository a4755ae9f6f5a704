//! The service of a server whose items lie in a chain, or several: every command of an item waits for transactions, and its reply keeps its place in its
//! connection's line.
//!
//! ```text
//!  command ─▶ a place in its connection's line ─▶ Chained ─▶ transactions ─▶ Chains (a thread each) ─▶ replicas
//!                        ▲                           │ ▲                          │ Post::due: edge 0 has the service look
//!  edge ◀── Collect ── reply ◀───────────────────────┘ └──────── outcomes ◀───────┘
//! ```
//! Invariant: a connection's commands are answered in the order in which they came. Those of one key are done in that order, too; those of several keys, that a
//! client sends without waiting for replies, are under way together.
//!
//! Statistics are of this server; listings show nothing.

use super::access::access;
use super::chained::Chained;
use super::commands::Commands;
use super::parked::{Late, Origin, Promise};
use super::stats::ChainReport;
use super::{Reply, silent};
use crate::kv::chains::Chains;
use crate::kv::post::Post;
use base::Nanos;
use protocol::memcache::{Command, KEY_MAX};
use ring::arena::Producer;
use std::sync::Arc;

/// See the head of the file.
pub struct OverChain {
    chained: Chained<Promise>,
    chains: Chains,
    post: Arc<Post>,
}

impl OverChain {
    /// Commands over these chains.
    pub fn new(chained: Chained<Promise>, chains: Chains, post: Arc<Post>) -> OverChain {
        OverChain { chained, chains, post }
    }

    #[inline]
    pub fn commands(&self) -> &Commands {
        &self.chained.commands
    }

    #[inline]
    pub fn commands_mut(&mut self) -> &mut Commands {
        &mut self.chained.commands
    }

    /// What was counted, and commands that wait.
    pub fn report(&self) -> ChainReport {
        ChainReport { counters: self.chained.counters(), waiting: self.chained.waiting() as u64 }
    }

    #[inline]
    pub fn tick(&mut self, now: Nanos) {
        let commands = self.commands_mut();
        commands.tick(now);
        if self.post.has_gone() {
            for origin in self.post.take_gone() {
                self.commands_mut().parked.gone(origin);
            }
        }
    }

    #[inline]
    pub fn execute(
        &mut self,
        command: &Command<'static>,
        (hash, origin): (u64, Origin),
        out: &mut Producer,
    ) -> Option<Reply> {
        let commands = &mut self.chained.commands;
        if !commands.parked.has_line(origin) && access(command, &mut [0; KEY_MAX]).is_none() {
            return commands.execute(command, hash, out);
        }
        let reply = silent(out, Some(Late::Waits))?;
        let promise = commands.parked.promise(origin);
        self.chained.ask(command, hash, promise);
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
        let commands = &mut self.chained.commands;
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
        for (number, answer) in self.chains.take_done() {
            self.chained.hear(number, answer);
        }
        self.chains.send(self.chained.leaving());
        let said = self.chained.said();
        let parked = &mut self.chained.commands.parked;
        for (promise, reply) in said {
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
