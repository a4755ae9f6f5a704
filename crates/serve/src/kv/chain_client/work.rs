//! What a server asks of the chain that its items lie in, and what the answers mean: without thread, socket or clock, so that the simulator has it, too.
//!
//! What has no answer within `chained.patience` and was sent is asked for by its session's number, for as long again: it is never sent anew under another
//! number.
//!
//! **Of clients** transactions go in the clients' own sessions, so that each is done once, whichever way it goes. One of which nobody says anything is for the
//! service to send again.
//!
//! Bounds: under way at the chain are [`UNDER_WAY`] transactions, others wait here.

use super::{Figures, LONGEST, Relayed, lock};
use crate::kv::service::chained::Answer;
use ::client::chain::{Ticket, TxnError};
use base::Nanos;
use log::Level;
use protocol::chain::message::{Refusal, RequestId};
use protocol::chain::transaction::Abort;
use protocol::chain::{Claim, Outcome, Transaction};
use protocol::coherence::home::slow::Ended;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Transactions under way at once: less than the client's machine takes, questions included.
const UNDER_WAY: usize = 512;
/// Between two questions for what became of a transaction, while nobody knows.
const ASK_AGAIN: Nanos = Nanos::from_millis(20);

/// A client of the chain.
pub trait AtChain {
    /// Starts a transaction in the client's own session.
    ///
    /// # Errors
    /// Nothing was sent.
    fn start(&mut self, transaction: Transaction) -> Result<Ticket, TxnError>;

    /// Starts one in the session, and under the number, of who asked for it.
    ///
    /// # Errors
    /// Nothing was sent.
    fn relay(&mut self, id: RequestId, transaction: Transaction) -> Result<Ticket, TxnError>;

    /// Starts the question for what became of one.
    ///
    /// # Errors
    /// Nothing was sent.
    fn ask(&mut self, id: RequestId) -> Result<Ticket, TxnError>;

    /// What became of something that was started, if there is news.
    fn poll(&mut self) -> Option<(Ticket, Result<Outcome, TxnError>)>;
}

/// Who wants a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The service, by its number.
    Service(u64),
    /// A client.
    Client(RequestId),
    /// Nobody: whether our claim counts.
    Nobody,
}

/// A transaction that has no answer yet.
struct UnderWay {
    whose: Whose,
    began: Nanos,
    /// Asked for until then, if nobody answered; none: it was not asked for.
    until: Option<Nanos>,
}

/// See the head of the file.
pub struct Work {
    /// What all is done under; 0: nothing.
    claim: u64,
    patience: Nanos,
    figures: Arc<Figures>,
    backlog: VecDeque<(Whose, Transaction, Nanos)>,
    under_way: HashMap<Ticket, UnderWay>,
    /// Questions, and when.
    to_ask: Vec<(Nanos, RequestId, UnderWay)>,
    done: Vec<(u64, Answer)>,
    relayed: Vec<(RequestId, Relayed)>,
    /// That was said.
    is_refused: bool,
    said: Vec<Said>,
}

/// What is to be said to whoever operates the server.
pub type Said = (Level, String);

impl Work {
    /// Under this claim (0: none); who is not answered is asked for as long again as he was waited for.
    pub fn new(claim: u64, patience: Nanos, figures: Arc<Figures>) -> Work {
        Work {
            claim,
            patience,
            figures,
            backlog: VecDeque::new(),
            under_way: HashMap::new(),
            to_ask: Vec::new(),
            done: Vec::new(),
            relayed: Vec::new(),
            is_refused: false,
            said: Vec::new(),
        }
    }

    /// The service wants this, by its number.
    pub fn send(&mut self, now: Nanos, number: u64, transaction: Transaction) {
        self.backlog.push_back((Whose::Service(number), transaction, now));
    }

    /// A client wants this.
    pub fn relay(&mut self, now: Nanos, id: RequestId, transaction: Transaction) {
        self.backlog.push_back((Whose::Client(id), transaction, now));
    }

    pub(super) fn take(&mut self, now: Nanos, asked: Vec<(Whose, Transaction)>) {
        self.backlog.extend(asked.into_iter().map(|(whose, transaction)| (whose, transaction, now)));
    }

    /// What waits is begun, what is due is asked for again, what has ended is heard.
    pub fn turn(&mut self, now: Nanos, client: &mut impl AtChain) {
        self.begin(client);
        self.ask_again(now, client);
        while let Some((ticket, result)) = client.poll() {
            self.hear(now, ticket, result);
        }
        let under_way = self.under_way.len() + self.backlog.len() + self.to_ask.len();
        self.figures.under_way.store(under_way as u64, Ordering::Relaxed);
    }

    /// Whether another [`Work::turn`] would begin something.
    pub fn has_more(&self) -> bool {
        !self.backlog.is_empty() && self.under_way.len() < UNDER_WAY
    }

    /// When something is to be asked for again.
    pub fn next_question(&self) -> Option<Nanos> {
        self.to_ask.iter().map(|(at, ..)| *at).min()
    }

    /// What became of the service's.
    pub fn take_done(&mut self) -> Vec<(u64, Answer)> {
        std::mem::take(&mut self.done)
    }

    /// What is to be said, once for each change.
    pub fn take_said(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.said)
    }

    fn say(&mut self, level: Level, what: String) {
        self.said.push((level, what));
    }

    /// What became of clients'.
    pub fn take_relayed(&mut self) -> Vec<(RequestId, Relayed)> {
        std::mem::take(&mut self.relayed)
    }

    fn begin(&mut self, client: &mut impl AtChain) {
        while self.under_way.len() < UNDER_WAY
            && let Some((whose, transaction, began)) = self.backlog.pop_front()
        {
            let transaction = transaction.under(self.claim);
            let started = match whose {
                Whose::Client(id) if !transaction.only_reads() => client.relay(id, transaction),
                _ => client.start(transaction),
            };
            match started {
                Ok(ticket) => drop(self.under_way.insert(ticket, UnderWay { whose, began, until: None })),
                Err(error) => self.hear_refused(whose, &error),
            }
        }
    }

    /// Nothing was sent.
    fn hear_refused(&mut self, whose: Whose, error: &TxnError) {
        match whose {
            Whose::Service(number) => {
                let what = format!("a transaction for the chain was refused, this is a bug: {error}");
                self.say(Level::Error, what);
                self.done.push((number, Answer::NotDone));
            }
            // It may have been sent before.
            Whose::Client(id) => self.relayed.push((id, Relayed::Lost)),
            Whose::Nobody => {}
        }
    }

    fn ask_again(&mut self, now: Nanos, client: &mut impl AtChain) {
        for (_, id, under_way) in self.to_ask.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>() {
            self.figures.asked_again.fetch_add(1, Ordering::Relaxed);
            match client.ask(id) {
                Ok(ticket) => drop(self.under_way.insert(ticket, under_way)),
                Err(_) => self.to_ask.push((now.plus(ASK_AGAIN), id, under_way)),
            }
        }
    }

    fn hear(&mut self, now: Nanos, ticket: Ticket, result: Result<Outcome, TxnError>) {
        let Some(mut under_way) = self.under_way.remove(&ticket) else { return };
        let number = match under_way.whose {
            Whose::Service(number) => number,
            Whose::Client(id) => return self.hear_relayed(now, id, result, under_way.began),
            Whose::Nobody => return self.hear_whether_claimed(result),
        };
        let answer = match result {
            Ok(Outcome { abort: Some(Abort::Claimed), .. }) => {
                self.say_claimed();
                Answer::NotDone
            }
            Ok(outcome) => Answer::Done(outcome),
            Err(TxnError::Unknown { id: Some(id), why }) => {
                self.say_silent(&why);
                let until = *under_way.until.get_or_insert(now.plus(self.patience));
                if now < until {
                    return self.to_ask.push((now.plus(ASK_AGAIN), id, under_way));
                }
                Answer::Unknown
            }
            // Asked for, and it cannot be told any more.
            Err(_) if under_way.until.is_some() => Answer::Unknown,
            Err(TxnError::Unknown { id: None, .. }) => Answer::Unknown,
            // It answers, so it is not silent: the file that this server goes by is an old one, for one.
            Err(error @ TxnError::Refused(_)) => {
                if !std::mem::replace(&mut self.is_refused, true) {
                    let what = format!("chain {} refuses transactions: {error}", self.figures.chain);
                    self.say(Level::Error, what);
                }
                Answer::NotDone
            }
            Err(error) => {
                self.say_silent(&error.to_string());
                Answer::NotDone
            }
        };
        // What has no outcome says nothing of what one takes.
        if matches!(answer, Answer::Done(_)) {
            self.note_answer(now, under_way.began);
        }
        self.done.push((number, answer));
    }

    /// What became of a client's.
    fn hear_relayed(&mut self, now: Nanos, id: RequestId, result: Result<Outcome, TxnError>, began: Nanos) {
        let relayed = match result {
            Ok(outcome) => {
                self.note_answer(now, began);
                if outcome.abort == Some(Abort::Claimed) {
                    // The client may have asked the chain itself under this number. What counts is what is asked under our claim.
                    self.backlog.push_front((Whose::Nobody, Claim::ask(), now));
                }
                Relayed::Ended(Ended::Done(outcome))
            }
            Err(TxnError::Unknown { why, .. }) => {
                self.say_silent(&why);
                Relayed::Lost
            }
            Err(TxnError::Refused(Refusal::NoSession | Refusal::Forgotten)) => Relayed::Ended(Ended::Unknown),
            // It was never sent, or only read, or is no transaction of this chain.
            Err(_) => Relayed::Ended(Ended::NotDone),
        };
        self.relayed.push((id, relayed));
    }

    fn hear_whether_claimed(&mut self, result: Result<Outcome, TxnError>) {
        if matches!(result, Ok(Outcome { abort: Some(Abort::Claimed), .. })) {
            self.say_claimed();
        }
    }

    /// The chain answers.
    fn note_answer(&mut self, now: Nanos, began: Nanos) {
        if self.figures.is_silent.swap(false, Ordering::Relaxed) {
            self.say(Level::Info, format!("chain {} answers again", self.figures.chain));
        }
        let span = now.since(began).0.clamp(1000, LONGEST);
        lock(&self.figures.spans).saturating_record(span);
    }

    /// Said once, until it answers again.
    fn say_silent(&mut self, why: &str) {
        if !self.figures.is_silent.swap(true, Ordering::Relaxed) {
            self.say(Level::Warn, format!("chain {} does not answer: {why}", self.figures.chain));
        }
    }

    /// Said once. Nothing is done here any more.
    fn say_claimed(&mut self) {
        if !self.figures.is_claimed.swap(true, Ordering::Relaxed) {
            let what = match self.claim {
                0 => "nothing can be written: a home with boxes has claimed the chain that items lie in",
                _ => "another home has claimed the chain that items lie in: nothing is served here any more",
            };
            self.say(Level::Error, what.to_owned());
        }
    }
}
