//! How long a node takes for a datagram: from the moment when it was read, others of its batch with it, to when what it caused was sent, by what that was.
//!
//! Cost: two readings of the cycle counter for a batch, and one count for a datagram.

use base::Nanos;
use hdrhistogram::Histogram;
use protocol::coherence::Out;
use protocol::wire::{Message, Opcode};

/// The longest time that is told from longer ones.
const LONGEST_NS: u64 = 10_000_000_000;

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A request that was answered here.
    Answered,
    /// A request that was sent on: a miss, or another's business.
    SentOn,
    /// A request that waits for others.
    Waits,
    /// A reply on its way back.
    CarriedBack,
    /// Between nodes: invalidations, health, tables.
    Control,
}

impl Outcome {
    /// All, with their names in metrics.
    pub const ALL: [(Outcome, &str); 5] = [
        (Outcome::Answered, "answered"),
        (Outcome::SentOn, "sent_on"),
        (Outcome::Waits, "waits"),
        (Outcome::CarriedBack, "carried_back"),
        (Outcome::Control, "control"),
    ];

    /// Of a message that made a machine say `out`.
    pub fn of(message: &Message, out: &Out) -> Outcome {
        let says = |what: fn(Opcode) -> bool| out.iter().any(|(_, said)| what(said.header.opcode));
        match message.header.opcode {
            Opcode::Reply(_) => Outcome::CarriedBack,
            Opcode::Control(_) => Outcome::Control,
            Opcode::Request(_) if says(|opcode| matches!(opcode, Opcode::Reply(_))) => Outcome::Answered,
            Opcode::Request(_) if says(|opcode| matches!(opcode, Opcode::Request(_))) => Outcome::SentOn,
            Opcode::Request(_) => Outcome::Waits,
        }
    }
}

/// Times by outcome.
#[derive(Clone, Debug)]
pub struct Times([Histogram<u64>; Outcome::ALL.len()]);

impl Times {
    /// None yet.
    pub fn new() -> Times {
        let one = || Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("the bounds are good");
        Times(std::array::from_fn(|_| one()))
    }

    /// One more.
    pub fn note(&mut self, outcome: Outcome, took: Nanos) {
        self.0[outcome as usize].saturating_record(took.0);
    }

    /// Of an outcome, in nanoseconds.
    pub fn of(&self, outcome: Outcome) -> &Histogram<u64> {
        &self.0[outcome as usize]
    }
}

impl Default for Times {
    fn default() -> Times {
        Times::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::coherence::NodeId;
    use protocol::wire::{Control, HomeId, Status, Verb};

    #[test]
    fn a_datagram_is_what_it_caused() {
        let request = Message::request(Verb::Get, b"key");
        let to = NodeId::Home(HomeId(1));
        let of = |message: &Message, said: Option<Message>| {
            Outcome::of(message, &said.into_iter().map(|message| (to, message)).collect())
        };
        let ask = Message::new(Opcode::Control(Control::Invalidate), b"key");
        assert_eq!(of(&request, Some(request.reply(Status::Ok))), Outcome::Answered);
        assert_eq!(of(&request, Some(request.clone())), Outcome::SentOn);
        assert_eq!((of(&request, None), of(&request, Some(ask.clone()))), (Outcome::Waits, Outcome::Waits));
        assert_eq!(of(&request.reply(Status::Ok), None), Outcome::CarriedBack);
        assert_eq!(of(&ask, None), Outcome::Control);
    }
}
