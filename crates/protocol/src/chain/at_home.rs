//! Transactions that go by a home with boxes: each item that one writes is admitted there, then it goes to the chain, then the home is told what became of
//! each. Where no home has claimed the chain nothing of this is needed: whoever wants asks the chain.
//!
//! ```text
//!  begin ──items──▶ admitted? ──all──▶ Execute ··▶ the chain ··▶ ended ──▶ Release of each item, Answer
//!                     └──one is refused──▶ Release of the others, as they come; Answer: busy
//! ```
//! **Nobody waits in a circle.** All items are asked for at once, each once. An item that is admitted holds up nobody: boxes get no copies of it until it is
//! released, and everything else about it goes on. Who of two transactions is first the chain says.
//!
//! **What nobody knows of** holds its items: it may still be done. [`Transactions::lost`] asks once more, under the same number, so the chain does it once.
//! [`Ended::Unknown`] is for what can come to nothing any more: the chain knows its session no longer.
//!
//! **It proves nothing of others.** The chain says the same of a transaction however often, and whenever, it is asked: what it says was done may have been
//! before a write of the home of which nobody knows. So items are released as [`Ended::Same`]: that write may still be done. They are released by
//! [`Home::done_aside`](crate::coherence::Home::done_aside), since nothing here is in order with other requests of an item.
//!
//! **`Claimed` says nothing of the home.** A client may have asked the chain itself, under the same number and no claim, and that is what the chain remembers.
//! A home that hears it asks the chain whether it was replaced.
//!
//! Invariants: 1. nothing is executed before its last item is admitted; 2. no item is released before the chain has said what became of the transaction;
//! 3. all that it writes is admitted: attributes stand for their item, a flush for all of them; 4. each item that was asked for is released
//! once, if it was admitted.
//!
//! Bounds: `most` under way; BUSY beyond. Tests: at the end, and with boxes in `coherence/tests/transactions.rs`.

use super::attributes::{FLUSHED, RESERVED};
use super::claim::CLAIM;
use super::message::{Refusal, RequestId};
use super::{Outcome, Transaction};
use crate::coherence::home::slow::Ended;
use crate::coherence::home::{Access, Ticket};
use crate::planted::{Bugs, NoBugs, planted};
use std::collections::{BTreeMap, BTreeSet};

planted! {
    /// It goes to the chain as soon as its first item is admitted.
    ExecuteTooSoon "execute-too-soon",
    /// Items are released when it goes to the chain.
    ReleaseTooSoon "release-too-soon",
    /// The last item that it writes is not admitted.
    MissOne "miss-one",
    /// Nothing that it writes is: it goes to the chain as if no box had copies.
    MissAll "miss-all",
    /// Who writes attributes is taken for writing an item of that name.
    MissAttributes "miss-attributes",
    /// What nobody knows of is taken for not done.
    LostIsOver "lost-is-over",
    /// One that was done is taken for proof that earlier writes of its items are not done later.
    Settles "settles",
}

/// What a transaction changes of what a home has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// All items.
    All,
    /// The item of this key.
    Item(Vec<u8>),
}

impl Part {
    /// As the home calls it.
    pub fn access(&self) -> Access<'_> {
        match self {
            Part::All => Access::Flush,
            Part::Item(key) => Access::Write(key),
        }
    }
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The home is asked for this. [`Transactions::admitted`] or [`Transactions::refused`] follows, at once or later.
    Admit(Ticket, Part),
    /// This goes to the chain, in the client's session. [`Transactions::ended`] or [`Transactions::lost`] follows.
    Execute(RequestId, Transaction),
    /// The home is told what became of what it had admitted.
    Release(Part, Ended<()>),
    /// The client is answered.
    Answer(RequestId, Answer),
}

/// What a client is answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// This became of it.
    Done(Outcome),
    /// It was not done here; ask again, or elsewhere.
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    transaction: Transaction,
    /// Admitted.
    parts: Vec<Part>,
    /// Not yet.
    waits: usize,
    is_refused: bool,
    is_sent: bool,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transactions<B = NoBugs> {
    claim: u64,
    most: usize,
    running: BTreeMap<RequestId, Running>,
    /// What was asked for, and for whom.
    tickets: BTreeMap<Ticket, (RequestId, Part)>,
    next_ticket: u64,
    bugs: B,
}

impl Transactions {
    /// Under the claim of this number, with so many under way at most, and tickets from `first` on, which nobody else gives.
    pub fn new(claim: u64, most: usize, first: Ticket) -> Transactions {
        Transactions::with_bugs(claim, most, first, NoBugs)
    }
}

impl<B: Bugs<Planted>> Transactions<B> {
    /// The same with a mistake, for tests and simulations.
    pub fn with_bugs(claim: u64, most: usize, first: Ticket, bugs: B) -> Transactions<B> {
        Transactions {
            claim,
            most,
            running: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next_ticket: first.0,
            bugs,
        }
    }

    /// A client asks for a transaction. One that is under way already goes on: its answer is for whoever asked last.
    pub fn begin(&mut self, id: RequestId, mut transaction: Transaction, out: &mut Vec<Step>) {
        if self.running.contains_key(&id) {
            return;
        }
        if let Err(malformed) = transaction.check() {
            return out.push(Step::Answer(id, Answer::Refused(Refusal::Malformed(malformed))));
        }
        if self.running.len() >= self.most {
            return out.push(Step::Answer(id, Answer::Refused(Refusal::Busy)));
        }
        transaction.claim = self.claim;
        let parts = self.parts_of(&transaction);
        let running =
            Running { transaction, parts: vec![], waits: parts.len(), is_refused: false, is_sent: false };
        self.running.insert(id, running);
        for part in parts {
            let ticket = Ticket(self.next_ticket);
            self.next_ticket += 1;
            self.tickets.insert(ticket, (id, part.clone()));
            out.push(Step::Admit(ticket, part));
        }
        self.go_on(id, out);
    }

    /// What it changes, each once. A claim is nobody's item.
    fn parts_of(&self, transaction: &Transaction) -> Vec<Part> {
        let part = |key: &Vec<u8>| match &key[..] {
            CLAIM => None,
            FLUSHED => Some(Part::All),
            [RESERVED, item @ ..] if !self.bugs.has(Planted::MissAttributes) => {
                Some(Part::Item(item.to_vec()))
            }
            item => Some(Part::Item(item.to_vec())),
        };
        let parts: BTreeSet<Part> = transaction.writes.iter().filter_map(|(key, _)| part(key)).collect();
        let missed = usize::from(self.bugs.has(Planted::MissOne) && parts.len() > 1);
        let kept = if self.bugs.has(Planted::MissAll) { 0 } else { parts.len() - missed };
        parts.into_iter().take(kept).collect()
    }

    /// The home has admitted what this ticket was for.
    ///
    /// # Panics
    /// Nothing is asked for with it.
    pub fn admitted(&mut self, ticket: Ticket, out: &mut Vec<Step>) {
        let (id, part) = self.tickets.remove(&ticket).expect("a ticket is admitted once");
        let Some(running) = self.running.get_mut(&id) else {
            assert!(self.bugs.has(Planted::ExecuteTooSoon), "who waits is under way");
            return out.push(Step::Release(part, Ended::NotDone));
        };
        running.waits -= 1;
        if running.is_refused {
            out.push(Step::Release(part, Ended::NotDone));
        } else {
            running.parts.push(part);
        }
        self.go_on(id, out);
    }

    /// The home has no room for it. Nothing was sent to the chain, and nothing will be.
    ///
    /// # Panics
    /// Nothing is asked for with it.
    pub fn refused(&mut self, ticket: Ticket, out: &mut Vec<Step>) {
        let (id, _) = self.tickets.remove(&ticket).expect("a ticket is refused once");
        let Some(running) = self.running.get_mut(&id) else {
            return assert!(self.bugs.has(Planted::ExecuteTooSoon), "who waits is under way");
        };
        running.waits -= 1;
        if running.is_sent {
            return assert!(self.bugs.has(Planted::ExecuteTooSoon), "who waits was not sent");
        }
        running.is_refused = true;
        out.extend(running.parts.drain(..).map(|part| Step::Release(part, Ended::NotDone)));
        self.go_on(id, out);
    }

    fn go_on(&mut self, id: RequestId, out: &mut Vec<Step>) {
        let Some(running) = self.running.get_mut(&id) else { return };
        let hurries = self.bugs.has(Planted::ExecuteTooSoon) && !running.parts.is_empty();
        if running.waits > 0 && !hurries {
            return;
        }
        if running.is_refused {
            self.running.remove(&id);
            return out.push(Step::Answer(id, Answer::Refused(Refusal::Busy)));
        }
        if !std::mem::replace(&mut running.is_sent, true) {
            if self.bugs.has(Planted::ReleaseTooSoon) {
                out.extend(running.parts.drain(..).map(|part| Step::Release(part, Ended::Done(()))));
            }
            out.push(Step::Execute(id, running.transaction.clone()));
        }
    }

    /// The chain has said what became of it; [`Ended::Unknown`]: that it cannot say so any more, and that nothing will.
    ///
    /// # Panics
    /// It was not sent.
    pub fn ended(&mut self, id: RequestId, ended: Ended<Outcome>, out: &mut Vec<Step>) {
        let running = self.running.remove(&id).expect("only what was sent ends");
        assert!(running.is_sent, "{id:?} ends, and was never sent");
        let (known, answer) = match ended {
            Ended::Done(outcome) | Ended::Same(outcome) => {
                let settles = self.bugs.has(Planted::Settles);
                let known = match outcome.abort {
                    Some(_) => Ended::NotDone,
                    None if settles => Ended::Done(()),
                    None => Ended::Same(()),
                };
                (known, Answer::Done(outcome))
            }
            Ended::NotDone => (Ended::NotDone, Answer::Refused(Refusal::Busy)),
            Ended::Unknown => (Ended::Unknown, Answer::Refused(Refusal::NoSession)),
        };
        out.extend(running.parts.into_iter().map(|part| Step::Release(part, known.clone())));
        out.push(Step::Answer(id, answer));
    }

    /// Nobody answered in time: it is sent once more. Its items stay as they are.
    ///
    /// # Panics
    /// It was not sent.
    pub fn lost(&mut self, id: RequestId, out: &mut Vec<Step>) {
        if self.bugs.has(Planted::LostIsOver) {
            return self.ended(id, Ended::NotDone, out);
        }
        let running = self.running.get(&id).filter(|running| running.is_sent);
        let running = running.expect("only what was sent is lost");
        out.push(Step::Execute(id, running.transaction.clone()));
    }

    /// Transactions under way.
    pub fn under_way(&self) -> usize {
        self.running.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::attributes::beside;
    use crate::chain::transaction::Abort;
    use crate::chain::{Durability, Lsn, SessionId};

    const ID: RequestId = RequestId { session: SessionId(7), sequence: 1 };

    fn machine() -> Transactions {
        Transactions::new(5, 2, Ticket(100))
    }

    fn outcome(abort: Option<Abort>) -> Outcome {
        let (lsn, durability) = (Lsn(9), Durability::Volatile);
        Outcome { lsn, abort, reads: vec![], sums: vec![], durability, copies: 1 }
    }

    fn item(key: &str) -> Part {
        Part::Item(key.as_bytes().to_vec())
    }

    fn steps(act: impl FnOnce(&mut Vec<Step>)) -> Vec<Step> {
        let mut out = Vec::new();
        act(&mut out);
        out
    }

    #[test]
    fn it_goes_to_the_chain_when_its_last_item_is_admitted() {
        let mut machine = machine();
        let asked = Transaction::new().put("b", "1").get("z").add("a", 1);
        let out = steps(|out| machine.begin(ID, asked.clone(), out));
        let (a, b) = (Ticket(100), Ticket(101));
        assert_eq!(out, [Step::Admit(a, item("a")), Step::Admit(b, item("b"))]);
        assert_eq!(steps(|out| machine.begin(ID, asked.clone(), out)), [], "it is under way");
        assert_eq!(steps(|out| machine.admitted(b, out)), []);
        assert_eq!(steps(|out| machine.admitted(a, out)), [Step::Execute(ID, asked.clone().under(5))]);
        assert_eq!(steps(|out| machine.lost(ID, out)), [Step::Execute(ID, asked.under(5))]);
        let done = outcome(None);
        let released = [item("b"), item("a")].map(|part| Step::Release(part, Ended::Same(())));
        let out = steps(|out| machine.ended(ID, Ended::Done(done.clone()), out));
        assert_eq!((&out[..2], &out[2]), (&released[..], &Step::Answer(ID, Answer::Done(done))));
        assert_eq!(machine.under_way(), 0);
    }

    #[test]
    fn one_that_is_refused_gives_back_what_it_has_and_what_comes() {
        let mut machine = machine();
        machine.begin(ID, Transaction::new().put("a", "1").put("b", "1").put("c", "1"), &mut Vec::new());
        machine.admitted(Ticket(101), &mut Vec::new());
        let given_back = |key| Step::Release(item(key), Ended::NotDone);
        assert_eq!(steps(|out| machine.refused(Ticket(100), out)), [given_back("b")]);
        let busy = Step::Answer(ID, Answer::Refused(Refusal::Busy));
        assert_eq!(steps(|out| machine.admitted(Ticket(102), out)), [given_back("c"), busy]);
        assert_eq!(machine.under_way(), 0);
    }

    #[test]
    fn attributes_stand_for_their_item_a_flush_for_all_and_a_claim_for_none() {
        let mut machine = machine();
        let writes = [b"k".to_vec(), beside(b"k"), FLUSHED.to_vec(), CLAIM.to_vec()];
        let asked = writes.into_iter().fold(Transaction::new(), Transaction::delete);
        let out = steps(|out| machine.begin(ID, asked, out));
        assert_eq!(out, [Step::Admit(Ticket(100), Part::All), Step::Admit(Ticket(101), item("k"))]);
    }

    #[test]
    fn what_is_not_done_is_said_so() {
        let mut machine = machine();
        let get = Transaction::new().get("a");
        for (ended, answer) in [
            (Ended::Done(outcome(Some(Abort::Claimed))), Answer::Done(outcome(Some(Abort::Claimed)))),
            (Ended::NotDone, Answer::Refused(Refusal::Busy)),
            (Ended::Unknown, Answer::Refused(Refusal::NoSession)),
        ] {
            assert_eq!(
                steps(|out| machine.begin(ID, get.clone(), out)),
                [Step::Execute(ID, get.clone().under(5))]
            );
            assert_eq!(steps(|out| machine.ended(ID, ended, out)), [Step::Answer(ID, answer)]);
        }
        let two = |machine: &mut Transactions, sequence| {
            let id = RequestId { sequence, ..ID };
            steps(|out| machine.begin(id, Transaction::new().put("a", "1"), out))
        };
        two(&mut machine, 1);
        two(&mut machine, 2);
        let third = RequestId { sequence: 3, ..ID };
        assert_eq!(two(&mut machine, 3), [Step::Answer(third, Answer::Refused(Refusal::Busy))]);
        let empty = steps(|out| machine.begin(third, Transaction::new(), out));
        assert!(matches!(&empty[..], [Step::Answer(_, Answer::Refused(Refusal::Malformed(_)))]));
    }
}
