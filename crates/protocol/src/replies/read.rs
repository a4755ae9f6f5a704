//! A call of a method whose replies may be kept.
//!
//! ```text
//!  Looking ──kept──▶ hit
//!     │ └──claimed, marked, somebody else's, no answer──▶ handler ──▶ over
//!     └──nothing, or kept for another request──▶ Claiming ──done──▶ handler ──▶ Storing ──▶ over
//!                                                    └──not done──▶ handler ──▶ over
//! ```

use super::{Entry, Item, Lives, Planted};
use crate::coherence::client::{Answer, Call, Failed};
use crate::planted::{Bugs, NoBugs};
use crate::wire::{MAX_VALUE, Status, Verb, Version};
use base::Nanos;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadNext {
    /// Ask the cache this, then [`Read::answered`].
    Ask(Call),
    /// The reply, kept. The call is over.
    Hit(Vec<u8>),
    /// Have the handler run, then [`Read::handled`].
    Handle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Looking,
    Claiming,
    /// The handler runs; with a claim of this version.
    Handling(Option<Version>),
    Storing,
    Over,
}

/// See the head of the file.
#[derive(Clone, Debug)]
pub struct Read<B = NoBugs> {
    item: Item,
    request: Vec<u8>,
    token: u64,
    /// How long a reply may be kept.
    ttl: Nanos,
    lives: Lives,
    state: State,
    is_kept: bool,
    bugs: B,
}

impl Read {
    /// A call with this request, whose reply may be kept for `ttl`. `token` is nobody else's. The first thing to ask.
    pub fn begin(item: Item, request: &[u8], token: u64, ttl: Nanos, lives: Lives) -> (Read, Call) {
        Read::with_bugs(item, request, token, (ttl, lives), NoBugs)
    }
}

impl<B: Bugs<Planted>> Read<B> {
    /// The same, with a mistake made on purpose.
    pub fn with_bugs(
        item: Item,
        request: &[u8],
        token: u64,
        (ttl, lives): (Nanos, Lives),
        bugs: B,
    ) -> (Read<B>, Call) {
        let call = Call::new(Verb::Get, &item.key);
        let request = request.to_vec();
        let (state, is_kept) = (State::Looking, false);
        (Read { item, request, token, ttl, lives, state, is_kept, bugs }, call)
    }

    /// The cache has answered.
    ///
    /// # Panics
    /// If nothing was asked.
    pub fn answered(&mut self, outcome: Result<&Answer, Failed>) -> ReadNext {
        match self.state {
            State::Looking => self.looked(outcome),
            State::Claiming => {
                let claimed = outcome.ok().filter(|answer| answer.status == Status::Ok);
                self.handle(claimed.map(|answer| answer.version))
            }
            _ => panic!("an answer to a read that asked nothing"),
        }
    }

    fn handle(&mut self, claim: Option<Version>) -> ReadNext {
        self.state = State::Handling(claim);
        ReadNext::Handle
    }

    fn looked(&mut self, outcome: Result<&Answer, Failed>) -> ReadNext {
        let Ok(answer) = outcome else { return self.handle(None) };
        if answer.status == Status::Miss {
            return self.claim(Verb::Add, Version(0));
        }
        match Entry::parse(&answer.value).filter(|_| answer.status == Status::Ok) {
            Some(Entry::Kept { name, request, reply }) => {
                let is_it = name == self.item.name && request == self.request;
                if is_it || self.bugs.has(Planted::AnyName) {
                    self.state = State::Over;
                    return ReadNext::Hit(reply.to_vec());
                }
                self.claim(Verb::Cas, answer.version)
            }
            Some(Entry::Nothing) => self.claim(Verb::Cas, answer.version),
            _ => self.handle(None),
        }
    }

    fn claim(&mut self, verb: Verb, version: Version) -> ReadNext {
        self.state = State::Claiming;
        let value = Entry::Claimed(self.token).to_bytes();
        let call = Call { version, life: self.lives.claim, ..Call::new(verb, &self.item.key) };
        ReadNext::Ask(call.value(&value))
    }

    /// The handler is done: with this reply, or none. What to ask the cache for yet; the reply need not wait for that, and is answered in
    /// any case.
    ///
    /// # Panics
    /// If the handler was not to run.
    pub fn handled(&mut self, reply: Option<&[u8]>) -> Option<Call> {
        let State::Handling(claim) = self.state else { panic!("no handler was to run") };
        self.state = State::Over;
        let any = self.bugs.has(Planted::FillWithoutClaim);
        if claim.is_none() && !any {
            return None;
        }
        let entry = |reply| Entry::Kept { name: &self.item.name, request: &self.request, reply };
        let value = reply.map(|reply| entry(reply).to_bytes()).filter(|value| value.len() <= MAX_VALUE);
        self.is_kept = value.is_some();
        // What is not kept is given up, for the next to claim.
        let (value, life) =
            value.map_or_else(|| (Entry::Nothing.to_bytes(), self.lives.claim), |value| (value, self.ttl));
        self.state = State::Storing;
        let verb = if any { Verb::Set } else { Verb::Cas };
        let version = claim.unwrap_or(Version(0));
        Some(Call { version, life, ..Call::new(verb, &self.item.key) }.value(&value))
    }

    /// The cache has answered what [`Read::handled`] asked: whether a reply is kept now, for all that is known.
    ///
    /// # Panics
    /// If it asked nothing.
    pub fn stored(&mut self, outcome: Result<&Answer, Failed>) -> bool {
        assert_eq!(self.state, State::Storing, "nothing was stored");
        self.state = State::Over;
        self.is_kept && outcome.is_ok_and(|answer| answer.status == Status::Ok)
    }
}
