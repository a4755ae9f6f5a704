//! What a home whose items lie in a chain has behind it: a chain, which answers late, in any order, not at all, or says that nobody knows, and may do
//! then what was asked long after.
//!
//! It is a [`Map`] that does what a chain promises to who asks it, and reaches odd outcomes soon; real replicas are behind homes in the other runs
//! ([`super::replicas`]). The promises:
//! 1. Transactions are done one after the other, and each that writes has its place in that order (its LSN), the version of what it wrote.
//! 2. One that writes is done only under the claim that counts. A home claims the chain when it begins, so what an earlier life of it sent is refused from
//!    then on, however late it comes; and so is what anybody sends past the home.
//! 3. A client's transaction, by session and number, is done once, however often it is sent, and what became of it is remembered, that it was refused for
//!    its claim too; until the session is forgotten: then nothing more comes of it.
//!
//! What the death of a replica looks like from here: nobody is answered for some of a lease, then what was asked was done or not, or still comes.

use base::Prng;
use protocol::chain::at_home;
use protocol::chain::attributes::FLUSHED;
use protocol::chain::message::RequestId;
use protocol::chain::{Claim, Outcome, Transaction};
use protocol::coherence::home::slow::Ended;
use protocol::planted::NoBugs;
use protocol::wire::Version;
use serve::kv::service::by_home::Callers;
use serve::kv::service::chained::item::{self, Seen};
use serve::kv::service::chained::map::Map;
use serve::kv::service::chained::{Answer, is_there};
use serve::kv::{Relayed, Transactions};
use sim::workload::Mix;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of flushes, which are rare, one in so many has no good end.
const BAD_FLUSH_ONE_IN: u64 = 2;
/// Of those of clients that have no good end, of one in so many the chain has forgotten the session.
const FORGOTTEN_ONE_IN: u64 = 8;

/// How well a chain does what it is asked, which is another thing in every run.
#[derive(Clone, Debug)]
struct Habits {
    /// One transaction in so many has no good end.
    bad_one_in: u64,
    /// Of these, shares of what is not done and said so; done and nobody hears of it; not done and nobody hears of it; done later.
    ends: Mix<usize>,
    /// While others are under way, one step in so many is that of something late: it is to meet what came long after it.
    late_one_in: u64,
}

impl Default for Habits {
    fn default() -> Habits {
        Habits { bad_one_in: 8, ends: ends([1; 4]), late_one_in: 64 }
    }
}

impl Habits {
    fn draw(luck: &mut Prng, is_unsure: bool) -> Habits {
        if is_unsure {
            return Habits { bad_one_in: 3, ends: ends([1, 1, 1, 12]), late_one_in: 64 };
        }
        let one_of = |luck: &mut Prng, of: [u64; 4]| of[luck.below(4) as usize];
        Habits {
            bad_one_in: one_of(luck, [4, 8, 8, 16]),
            ends: ends([1; 4]),
            late_one_in: one_of(luck, [16, 64, 64, 256]),
        }
    }
}

/// How transactions end that have no good end, by their shares.
fn ends(shares: [u64; 4]) -> Mix<usize> {
    Mix::new(&[0, 1, 2, 3].map(|end| (shares[end], end)))
}

/// What a chain does that no chain may, to see that this is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrongly {
    /// It does what is made under another claim than the one that counts, or under none.
    AnyClaim,
    /// It does a client's transaction as often as it is sent.
    DoneTwice,
}

/// Who asked for a transaction.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// The home, by its number.
    Home(u64),
    /// A client, by the home.
    Client(RequestId),
    /// A client, past the home.
    Stray(RequestId),
}

#[derive(Debug, Default)]
struct State {
    map: Map,
    habits: Habits,
    wrongly: Option<Wrongly>,
    asked: Vec<(Whose, Transaction)>,
    /// On their way back.
    answers: Vec<(Whose, Relayed)>,
    heard: Vec<(u64, Answer)>,
    ended: Vec<(RequestId, Relayed)>,
    strays: Vec<(RequestId, Relayed)>,
    /// Nobody waits for these any more, and they may be done.
    late: Vec<(Whose, Transaction)>,
    /// What became of clients' transactions that write.
    outcomes: BTreeMap<RequestId, Outcome>,
    /// Those that were sent and not answered: a copy of them may be under way.
    lost: BTreeSet<RequestId>,
    forgotten: BTreeSet<RequestId>,
}

/// What it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something at the chain.
    There,
    /// An answer has arrived.
    Answered,
    /// It was said of a write that nobody knows.
    Unknown,
}

/// See the head of the file: as a life of a home has it, under its claim.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    state: Arc<Mutex<State>>,
    claim: u64,
}

impl Chain {
    /// A new one, whose habits are drawn, or bad.
    pub fn draw(luck: &mut Prng, is_unsure: bool) -> Chain {
        let chain = Chain::default();
        chain.state().habits = Habits::draw(luck, is_unsure);
        chain
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a life that begins: the `claim`-th in the world, which claims it.
    pub fn claimed(&self, claim: u64, wrongly: Option<Wrongly>) -> Chain {
        let mut state = self.state();
        state.wrongly = wrongly;
        state.map.execute(&Claim { number: claim, address: String::new() }.make());
        Chain { state: Arc::clone(&self.state), claim }
    }

    /// Whether anybody waits for something that is under way.
    pub fn is_busy(&self) -> bool {
        let state = self.state();
        !state.asked.is_empty() || !state.answers.is_empty()
    }

    /// Whether something may be done that nobody waits for.
    pub fn has_late(&self) -> bool {
        !self.state().late.is_empty()
    }

    /// Does one of what is under way.
    pub fn step(&self, luck: &mut Prng, is_calm: bool) -> Step {
        let mut state = self.state();
        let is_idle = state.asked.is_empty() && state.answers.is_empty();
        match luck.below(state.habits.late_one_in) {
            turn if !state.late.is_empty() && (turn == 0 || is_idle) => {
                let (whose, transaction) = take_one(&mut state.late, luck);
                state.execute(whose, &transaction);
                Step::There
            }
            turn if !state.asked.is_empty() && turn % 2 == 0 => {
                let (whose, transaction) = take_one(&mut state.asked, luck);
                state.serve(whose, transaction, luck, is_calm)
            }
            _ if !state.answers.is_empty() => {
                let (whose, fate) = take_one(&mut state.answers, luck);
                match (whose, fate) {
                    (Whose::Home(number), fate) => state.heard.push((number, answer_of(fate))),
                    (Whose::Client(id), fate) => state.ended.push((id, fate)),
                    (Whose::Stray(id), fate) => state.strays.push((id, fate)),
                }
                Step::Answered
            }
            _ => Step::There,
        }
    }

    /// The home ends: what it had under way is done, or still comes, or never does.
    pub fn end(&self, luck: &mut Prng) {
        let mut state = self.state();
        let is_of_home = |(whose, _): &mut (Whose, Transaction)| !matches!(whose, Whose::Stray(_));
        let asked: Vec<_> = state.asked.extract_if(.., is_of_home).collect();
        let late: Vec<_> = state.late.extract_if(.., is_of_home).collect();
        for (whose, transaction) in asked.into_iter().chain(late) {
            match luck.below(4) {
                0 | 1 => drop(state.execute(whose, &transaction)),
                2 => state.late.push((whose, transaction)),
                _ => {}
            }
        }
        state.answers.retain(|(whose, _)| matches!(whose, Whose::Stray(_)));
        state.heard.clear();
        state.ended.clear();
    }

    /// The version and value of an item at that second.
    pub fn peek(&self, key: &[u8], second: u32) -> Option<(Version, Vec<u8>)> {
        let outcome = self.state().map.look(&item::read(key));
        let seen = Seen::of(outcome, &NoBugs).filter(|seen| is_there(seen, second))?;
        seen.item.map(|item| (Version(item.state.version), item.value))
    }

    /// A client sends a transaction that is made under no claim.
    pub fn send_past_home(&self, id: RequestId, transaction: Transaction) {
        self.state().asked.push((Whose::Stray(id), transaction));
    }

    /// What became of those.
    pub fn take_strays(&self) -> Vec<(RequestId, Relayed)> {
        std::mem::take(&mut self.state().strays)
    }

    /// What became of a client's transaction that writes, whoever knows; none if it was not done.
    pub fn outcome_of(&self, id: RequestId) -> Option<Outcome> {
        self.state().outcomes.get(&id).cloned()
    }
}

fn take_one<T>(list: &mut Vec<T>, luck: &mut Prng) -> T {
    let at = luck.below(list.len() as u64) as usize;
    list.swap_remove(at)
}

/// The client that a home has of its chain asks until it knows, or gives up.
fn answer_of(fate: Relayed) -> Answer {
    match fate {
        Relayed::Ended(Ended::Done(outcome) | Ended::Same(outcome)) => Answer::Done(outcome),
        Relayed::Ended(Ended::NotDone) => Answer::NotDone,
        Relayed::Ended(Ended::Unknown) | Relayed::Lost => Answer::Unknown,
    }
}

impl State {
    /// Does a transaction, or says what became of it before; none if its session is forgotten.
    fn execute(&mut self, whose: Whose, transaction: &Transaction) -> Option<Outcome> {
        let id = match whose {
            Whose::Client(id) | Whose::Stray(id) if !transaction.only_reads() => Some(id),
            _ => None,
        };
        if id.is_some_and(|id| self.forgotten.contains(&id)) {
            return None;
        }
        let known = id.and_then(|id| self.outcomes.get(&id));
        if let Some(known) = known.filter(|_| self.wrongly != Some(Wrongly::DoneTwice)) {
            return Some(known.clone());
        }
        let outcome = match self.wrongly {
            Some(Wrongly::AnyClaim) => self.map.execute_under_any(transaction),
            _ => self.map.execute(transaction),
        };
        if let Some(id) = id {
            self.outcomes.insert(id, outcome.clone());
        }
        Some(outcome)
    }

    /// A transaction comes to the chain.
    fn serve(&mut self, whose: Whose, transaction: Transaction, luck: &mut Prng, is_calm: bool) -> Step {
        let flushes = transaction.writes.iter().any(|(key, _)| key == FLUSHED);
        let is_bad = luck.below(if flushes { BAD_FLUSH_ONE_IN } else { self.habits.bad_one_in }) == 0;
        let kind = *self.habits.ends.draw(luck);
        let only_reads = transaction.only_reads();
        if !is_bad || is_calm {
            let ended = self.execute(whose, &transaction).map_or(Ended::Unknown, Ended::Done);
            self.answers.push((whose, Relayed::Ended(ended)));
            return Step::There;
        }
        let is_first = match whose {
            Whose::Client(id) | Whose::Stray(id) => {
                !self.lost.contains(&id) && !self.outcomes.contains_key(&id)
            }
            Whose::Home(_) => true,
        };
        if is_first && (kind == 0 || only_reads) {
            self.answers.push((whose, Relayed::Ended(Ended::NotDone)));
            return Step::There;
        }
        match kind {
            1 => drop(self.execute(whose, &transaction)),
            3 => self.late.push((whose, transaction)),
            _ => {}
        }
        match whose {
            Whose::Home(_) => {
                self.answers.push((whose, Relayed::Lost));
                Step::Unknown
            }
            Whose::Client(id) | Whose::Stray(id) => {
                self.lost.insert(id);
                let forgets = !only_reads && luck.below(FORGOTTEN_ONE_IN) == 0;
                if forgets {
                    self.forgotten.insert(id);
                }
                let fate = if forgets { Relayed::Ended(Ended::Unknown) } else { Relayed::Lost };
                self.answers.push((whose, fate));
                Step::There
            }
        }
    }
}

impl Transactions for Chain {
    fn send(&mut self, transactions: Vec<(u64, Transaction)>) {
        let claim = self.claim;
        let mine = transactions.into_iter().map(|(number, one)| (Whose::Home(number), one.under(claim)));
        self.state().asked.extend(mine);
    }

    fn take_done(&mut self) -> Vec<(u64, Answer)> {
        std::mem::take(&mut self.state().heard)
    }

    fn relay(&mut self, transactions: Vec<(RequestId, Transaction)>) {
        let claim = self.claim;
        let theirs = transactions.into_iter().map(|(id, one)| (Whose::Client(id), one.under(claim)));
        self.state().asked.extend(theirs);
    }

    fn take_relayed(&mut self) -> Vec<(RequestId, Relayed)> {
        std::mem::take(&mut self.state().ended)
    }
}

/// Clients of transactions beside a home, in one life of it.
#[derive(Clone, Debug, Default)]
pub struct Clients(Arc<Mutex<Calls>>);

#[derive(Debug, Default)]
struct Calls {
    asked: Vec<(RequestId, Transaction)>,
    answers: VecDeque<(RequestId, Result<at_home::Answer, String>)>,
}

impl Clients {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One asks for this when the home looks next.
    pub fn ask(&self, id: RequestId, transaction: Transaction) {
        self.calls().asked.push((id, transaction));
    }

    /// What one is answered; or why its transaction can be done nowhere.
    pub fn poll_answer(&self) -> Option<(RequestId, Result<at_home::Answer, String>)> {
        self.calls().answers.pop_front()
    }
}

impl Callers for Clients {
    fn take_asked(&mut self) -> Vec<(RequestId, Transaction)> {
        std::mem::take(&mut self.calls().asked)
    }

    fn answer(&mut self, id: RequestId, answer: &at_home::Answer) {
        self.calls().answers.push_back((id, Ok(answer.clone())));
    }

    fn refuse(&mut self, id: RequestId, why: &str) {
        self.calls().answers.push_back((id, Err(why.to_owned())));
    }
}
