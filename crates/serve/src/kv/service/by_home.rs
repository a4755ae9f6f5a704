//! Transactions of clients, before boxes: each is admitted at the home, done at the chain in its client's session, and answered.
//!
//! ```text
//!  Callers ─ asked ─▶ at_home::Transactions ─ Admit, Release ─▶ Homed: the home
//!          ◀ answers ─┘         │ ▲
//!                   Execute ────┘ └── what became of it: the chain's client
//! ```
//! They have no place in the lines of [`super::chained`]. What those do is done on the condition that the item is what was read, so it meets
//! a transaction as it meets anybody's; and a read that was begun before one ended is answered and gives no copy
//! ([`protocol::coherence::Home::done_aside`]). In the lines, one of which the chain says nothing would hold up all commands of its keys.
//!
//! Bounds: `chained.queue` under way; beyond, busy. Tests: the machine's; `millrace/tests/over_chain/boxes.rs`.

use crate::kv::chain_client::{Relayed, Transactions};
use protocol::chain::Transaction;
use protocol::chain::at_home::{self, Answer, Step};
use protocol::chain::message::RequestId;
use protocol::coherence::home::Ticket;
use protocol::planted::{Bugs, NoBugs};
use serde::Serialize;

/// Tickets from here on are not those of commands.
const FIRST: Ticket = Ticket(1 << 63);
/// The chain's client makes all that goes to a chain under its own claim of that.
const NO_CLAIM: u64 = 0;

/// Who asks for transactions.
pub trait Callers: Send {
    /// What was asked since the last time. One that only reads has a number that no other has.
    fn take_asked(&mut self) -> Vec<(RequestId, Transaction)>;

    /// What became of one, to all who asked for it.
    fn answer(&mut self, id: RequestId, answer: &Answer);

    /// It can be done nowhere, and why.
    fn refuse(&mut self, id: RequestId, why: &str);
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByHomeReport {
    /// Transactions that were asked for.
    pub asked: u64,
    /// Of these, still under way.
    pub under_way: u64,
    /// Times that one was sent to the chain again, since nobody had said what became of it.
    pub again: u64,
}

/// See the head of the file.
pub struct ByHome<B = NoBugs> {
    machine: at_home::Transactions<B>,
    callers: Box<dyn Callers>,
    /// What the home has admitted, or refused, since the last turn.
    admitted: Vec<(Ticket, bool)>,
    /// For the home.
    steps: Vec<Step>,
    counted: ByHomeReport,
}

/// Whether a ticket is a transaction's.
pub fn is_its(ticket: Ticket) -> bool {
    ticket >= FIRST
}

impl<B: Bugs<at_home::Planted>> ByHome<B> {
    /// For these, so many at once; with mistakes made on purpose.
    pub fn new(callers: Box<dyn Callers>, most: usize, bugs: B) -> ByHome<B> {
        let machine = at_home::Transactions::with_bugs(NO_CLAIM, most, FIRST, bugs);
        let counted = ByHomeReport::default();
        ByHome { machine, callers, admitted: Vec::new(), steps: Vec::new(), counted }
    }

    /// What was counted.
    pub fn report(&self) -> ByHomeReport {
        ByHomeReport { under_way: self.machine.under_way() as u64, ..self.counted }
    }

    /// The home has admitted an item, or has no room for that.
    pub fn admitted(&mut self, ticket: Ticket, is_admitted: bool) {
        self.admitted.push((ticket, is_admitted));
    }

    /// What the home is asked and told.
    pub fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// What came of transactions is heard, what is asked begins.
    pub fn turn(&mut self, chain: &mut dyn Transactions) {
        let mut steps = Vec::new();
        for (id, relayed) in chain.take_relayed() {
            match relayed {
                Relayed::Ended(ended) => self.machine.ended(id, ended, &mut steps),
                Relayed::Lost => {
                    self.counted.again += 1;
                    self.machine.lost(id, &mut steps);
                }
            }
        }
        for (ticket, is_admitted) in std::mem::take(&mut self.admitted) {
            match is_admitted {
                true => self.machine.admitted(ticket, &mut steps),
                false => self.machine.refused(ticket, &mut steps),
            }
        }
        for (id, transaction) in self.callers.take_asked() {
            self.counted.asked += 1;
            match chain.check(&transaction) {
                Ok(()) => self.machine.begin(id, transaction, &mut steps),
                Err(why) => self.callers.refuse(id, &why),
            }
        }
        let mut relayed = Vec::new();
        for step in steps {
            match step {
                Step::Execute(id, transaction) => relayed.push((id, transaction)),
                Step::Answer(id, answer) => self.callers.answer(id, &answer),
                step => self.steps.push(step),
            }
        }
        if !relayed.is_empty() {
            chain.relay(relayed);
        }
    }
}
