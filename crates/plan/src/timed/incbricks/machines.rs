//! The published machines as [`serve::inc::machine::Machine`]s, which [`super::super::net`] drives.

use crate::timed::users::Asks;
use base::Nanos;
use protocol::coherence::client::{Answer, Call, OpId};
use protocol::coherence::published::{PublishedBox, PublishedClient, PublishedHome};
use protocol::coherence::{NodeId, Out};
use protocol::wire::{BoxId, Message};
use serve::inc::machine::{Counters, Machine};

/// What takes messages and knows no time.
pub trait Handles {
    /// Takes one.
    fn handle(&mut self, message: Message, out: &mut Out);
}

/// A client, and the box that it is below.
pub struct Below {
    /// It.
    pub client: PublishedClient,
    /// [`BoxId::NONE`]: below none.
    pub own: BoxId,
}

impl Handles for Below {
    fn handle(&mut self, message: Message, out: &mut Out) {
        self.client.handle(message, out);
    }
}

impl Handles for PublishedBox {
    fn handle(&mut self, message: Message, out: &mut Out) {
        PublishedBox::handle(self, message, out);
    }
}

impl Handles for PublishedHome {
    fn handle(&mut self, message: Message, out: &mut Out) {
        PublishedHome::handle(self, message, out);
    }
}

/// A machine that is never due: the published protocol sends nothing again.
pub struct Timeless<M>(pub M);

impl<M: Handles> Machine for Timeless<M> {
    fn handle(&mut self, _: Nanos, _: NodeId, message: &Message, out: &mut Out) {
        self.0.handle(message.clone(), out);
    }

    fn tick(&mut self, _: Nanos, _: &mut Out) {}

    fn next_deadline(&self) -> Nanos {
        Nanos::MAX
    }

    fn counters(&self) -> Counters {
        Counters::new()
    }
}

impl Asks for Timeless<Below> {
    fn start(&mut self, _: Nanos, call: Call, out: &mut Out) -> OpId {
        self.0.client.start(call, out)
    }

    fn ended(&mut self) -> Option<(OpId, Option<Answer>, bool)> {
        self.0.client.poll_outcome().map(|(id, answer, by)| (id, Some(answer), by != self.0.own))
    }
}
