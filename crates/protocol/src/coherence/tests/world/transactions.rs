//! Who does transactions at home 1, whose store takes time: the machine of production between the home and a store that stands for a chain.

use super::{Call, HomeId, NodeId, Out, Status, Verb, World};
use crate::chain::at_home::{Answer, Planted, Step, Transactions};
use crate::chain::message::RequestId;
use crate::chain::{Durability, Lsn, Outcome, SessionId, Transaction};
use crate::coherence::home::Admitted;
use crate::coherence::home::late::{OF_TRANSACTIONS, Told};
use crate::coherence::home::slow::Ended;
use std::collections::BTreeMap;

const HOME: HomeId = HomeId(1);

/// The machine, and what its clients were answered.
pub(super) struct Doing {
    machine: Transactions<Option<Planted>>,
    asked: BTreeMap<RequestId, Transaction>,
    answers: BTreeMap<RequestId, Answer>,
}

fn id(sequence: u64) -> RequestId {
    RequestId { session: SessionId(1), sequence }
}

impl World {
    /// Somebody does transactions at home 1, perhaps with a mistake.
    pub(in super::super) fn with_transactions(mut self, planted: Option<Planted>) -> World {
        let machine = Transactions::with_bugs(5, 16, OF_TRANSACTIONS, planted);
        self.transactions = Some(Doing { machine, asked: BTreeMap::new(), answers: BTreeMap::new() });
        self
    }

    fn doing(&mut self) -> &mut Doing {
        self.transactions.as_mut().expect("somebody does transactions")
    }

    /// A client asks for a transaction that puts these; its number is this.
    pub(in super::super) fn transact(&mut self, sequence: u64, puts: &[(&str, &str)]) {
        let put = |all: Transaction, (key, value): &(&str, &str)| all.put(*key, *value);
        let transaction = puts.iter().fold(Transaction::new(), put);
        self.keys.extend(puts.iter().map(|(key, _)| key.as_bytes().to_vec()));
        let doing = self.doing();
        doing.asked.insert(id(sequence), transaction.clone());
        let mut steps = Vec::new();
        doing.machine.begin(id(sequence), transaction, &mut steps);
        self.take_steps(steps);
        self.check();
    }

    /// The same client asks for the same again, which was answered.
    pub(in super::super) fn transact_again(&mut self, sequence: u64) {
        let doing = self.doing();
        let asked = doing.asked[&id(sequence)].clone();
        doing.answers.remove(&id(sequence)).expect("it was answered");
        let mut steps = Vec::new();
        doing.machine.begin(id(sequence), asked, &mut steps);
        self.take_steps(steps);
        self.check();
    }

    /// Whether it was done; none while nobody knows.
    pub(in super::super) fn transacted(&mut self, sequence: u64) -> Option<bool> {
        let answer = self.doing().answers.get(&id(sequence))?;
        Some(matches!(answer, Answer::Done(_)))
    }

    /// Transactions that are not over.
    pub(in super::super) fn transactions_under_way(&mut self) -> usize {
        self.doing().machine.under_way()
    }

    fn take_steps(&mut self, mut steps: Vec<Step>) {
        let now = self.clock(NodeId::Home(HOME));
        let mut out = Out::new();
        while !steps.is_empty() {
            let mut next = Vec::new();
            for step in steps {
                let home = self.homes.get_mut(&HOME).expect("it runs");
                match step {
                    Step::Admit(ticket, part) => {
                        let admitted = home.admit(now, part.access(), ticket, &mut out);
                        let machine = &mut self.doing().machine;
                        match admitted {
                            Admitted::Now => machine.admitted(ticket, &mut next),
                            Admitted::Later => {}
                            Admitted::Busy | Admitted::NotHome => machine.refused(ticket, &mut next),
                        }
                    }
                    Step::Execute(id, transaction) => home.items_mut().line_up_transaction(id, transaction),
                    Step::Release(part, ended) => home.done_aside(part.access(), &ended),
                    Step::Answer(id, answer) => self.answered(id, answer),
                }
            }
            steps = next;
        }
        self.send_all(NodeId::Home(HOME), out);
    }

    /// From now on everybody sees what it wrote, if it was done.
    fn answered(&mut self, id: RequestId, answer: Answer) {
        let asked = self.doing().asked[&id].clone();
        let is_done = matches!(answer, Answer::Done(_));
        if self.doing().answers.insert(id, answer).is_some() {
            self.violations.push(format!("{id:?} ended twice"));
        }
        for (key, _) in asked.writes.iter().filter(|_| is_done) {
            let item = self.homes[&HOME].items().peek(key);
            let version = item.map(|item| item.version).unwrap_or_default();
            self.judge_version(&Call::new(Verb::Set, key), version, version, Status::Ok);
        }
    }

    pub(super) fn collect_transactions(&mut self) {
        if self.transactions.is_none() {
            return;
        }
        while let Some(told) = self.homes.get_mut(&HOME).and_then(|home| home.items_mut().poll_told()) {
            let mut steps = Vec::new();
            let machine = &mut self.doing().machine;
            match told {
                Told::Item(ticket, true) => machine.admitted(ticket, &mut steps),
                Told::Item(ticket, false) => machine.refused(ticket, &mut steps),
                Told::Ended(id, true) => {
                    let (lsn, durability) = (Lsn(1), Durability::Volatile);
                    let outcome =
                        Outcome { lsn, abort: None, reads: vec![], sums: vec![], durability, copies: 1 };
                    machine.ended(id, Ended::Done(outcome), &mut steps);
                }
                Told::Ended(id, false) => machine.ended(id, Ended::NotDone, &mut steps),
                Told::Lost(id) => machine.lost(id, &mut steps),
            }
            self.take_steps(steps);
        }
    }
}
