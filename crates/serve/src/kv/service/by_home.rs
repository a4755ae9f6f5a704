//! Transactions that clients send by the home of the items that they write: the machine that has the home admit them
//! ([`protocol::chain::at_home`]), and who takes them to the chain.
//!
//! ```text
//!  begin ─▶ Transactions ─ Admit ─▶ the home ─ admitted ─▶ Transactions ─ Execute ─▶ AtChain ··▶ ended, lost
//!                 │                                                                                 │
//!                 └◀──── Release ─▶ the home; Answer ─▶ poll_answer ◀───────────────────────────────┘
//! ```
//! They have no place in the lines of [`super::chained`]: what a line does of an item is on the condition that it is as it was read, so either is done as if it
//! came after the other.
//!
//! Bounds: [`MOST`] under way; beyond, busy.

use protocol::chain::at_home::{self, Answer, Part, Step, Transactions};
use protocol::chain::message::RequestId;
use protocol::chain::{Outcome, Transaction};
use protocol::coherence::home::Ticket;
use protocol::coherence::home::slow::Ended;
use protocol::planted::Bugs;
use std::collections::VecDeque;

/// Transactions under way at most.
const MOST: usize = 256;
/// Tickets from here on are those of items that transactions want; commands count from 1.
const FIRST: Ticket = Ticket(1 << 62);

/// What became of a transaction at the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// This; [`Ended::Unknown`]: the chain has forgotten its session, and nothing will come of it any more.
    Ended(Ended<Outcome>),
    /// Nobody answered in time: it may be done, or will be, or not.
    Lost,
}

/// Who takes clients' transactions to the chain, in their own sessions: however often one is executed, it is done once.
pub trait AtChain: Send {
    /// Has this done. What becomes of it is told once for each call.
    fn execute(&mut self, id: RequestId, transaction: Transaction);

    /// What became of transactions since the last time. That one was not done is said only if no copy of it may be done later.
    fn take_ended(&mut self) -> Vec<(RequestId, Fate)>;
}

/// What the home is to do.
pub enum AtHome {
    /// To admit this; [`ByHome::admitted`] or [`ByHome::refused`] follows.
    Admit(Ticket, Part),
    /// To hear how this ended.
    Release(Part, Ended<()>),
}

/// See the head of the file.
pub struct ByHome<B> {
    machine: Transactions<B>,
    chain: Box<dyn AtChain>,
    steps: VecDeque<Step>,
    answers: VecDeque<(RequestId, Answer)>,
}

impl<B: Bugs<at_home::Planted>> ByHome<B> {
    /// Transactions under the claim of this number.
    pub fn new(claim: u64, chain: Box<dyn AtChain>, bugs: B) -> ByHome<B> {
        let machine = Transactions::with_bugs(claim, MOST, FIRST, bugs);
        ByHome { machine, chain, steps: VecDeque::new(), answers: VecDeque::new() }
    }

    /// Whether a ticket is one of those that were given here.
    pub fn is_its(ticket: Ticket) -> bool {
        ticket >= FIRST
    }

    /// A client asks for a transaction; one that is under way goes on.
    pub fn begin(&mut self, id: RequestId, transaction: Transaction) {
        self.take(|machine, out| machine.begin(id, transaction, out));
    }

    /// The home has admitted what it was asked for.
    pub fn admitted(&mut self, ticket: Ticket) {
        self.take(|machine, out| machine.admitted(ticket, out));
    }

    /// The home has no room for it.
    pub fn refused(&mut self, ticket: Ticket) {
        self.take(|machine, out| machine.refused(ticket, out));
    }

    /// What became of transactions at the chain is heard.
    pub fn turn(&mut self) {
        for (id, fate) in self.chain.take_ended() {
            self.take(|machine, out| match fate {
                Fate::Ended(ended) => machine.ended(id, ended, out),
                Fate::Lost => machine.lost(id, out),
            });
        }
    }

    /// What the home is to do next; what is not for the home is done here.
    pub fn next_step(&mut self) -> Option<AtHome> {
        loop {
            match self.steps.pop_front()? {
                Step::Admit(ticket, part) => return Some(AtHome::Admit(ticket, part)),
                Step::Release(part, ended) => return Some(AtHome::Release(part, ended)),
                Step::Execute(id, transaction) => self.chain.execute(id, transaction),
                Step::Answer(id, answer) => self.answers.push_back((id, answer)),
            }
        }
    }

    /// What clients are answered, each once.
    pub fn poll_answer(&mut self) -> Option<(RequestId, Answer)> {
        self.answers.pop_front()
    }

    fn take(&mut self, act: impl FnOnce(&mut Transactions<B>, &mut Vec<Step>)) {
        let mut out = Vec::new();
        act(&mut self.machine, &mut out);
        self.steps.extend(out);
    }
}
