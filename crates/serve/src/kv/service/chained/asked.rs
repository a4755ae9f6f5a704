//! What is asked of the item of a key, and what is said to who asked.

use super::super::parked::{LateReply, Owned};
use base::Nanos;
use protocol::coherence::compute::Item;
use protocol::coherence::home::sessions::Answer;
use protocol::coherence::home::slow::{Ended, reads};
use protocol::memcache::Command;
use protocol::wire::{Message, Opcode, Verb};
use std::sync::Arc;

/// Something that is asked.
pub(super) enum Asked {
    /// By memcached's protocol.
    Command(Owned),
    /// By packet, of the home of boxes, which took it at that time: what it stores lives from then on.
    Packet(Arc<Message>, Nanos),
}

/// What is said.
pub enum Said {
    /// To a command.
    Reply(LateReply),
    /// To a packet that reads: the item, if it is there.
    Found(Option<Item>),
    /// To another packet.
    Answer(Answer),
    /// To a packet that was not done, or of which nobody knows. The home knows what that means to its client.
    Nothing,
}

/// What is said to whom.
pub struct Told<T> {
    /// Who asked.
    pub whose: T,
    /// How it ended, as the home of boxes wants to know.
    pub ended: Ended<()>,
    /// What is said.
    pub said: Said,
}

impl Asked {
    /// The command that it is.
    pub(super) fn command(&self) -> Option<Command<'_>> {
        match self {
            Asked::Command(owned) => Some(owned.command().0),
            Asked::Packet(..) => None,
        }
    }
}

/// What a packet asks for; none, if it only wants to see the item.
pub(super) fn changes(message: &Message) -> Option<Verb> {
    let Opcode::Request(verb) = message.header.opcode else { unreachable!("homes hand on requests") };
    (!reads(message)).then_some(verb)
}
