//! A call of a method that makes kept replies outdated.
//!
//! ```text
//!  Marking: get ──▶ store with our mark ──done──▶ handler ──▶ Ending: get ──▶ store without it ──done──▶ over
//!     ▲        └──not done, no answer──┐                         ▲       └──not done, no answer──┐
//!     └─────────── 16 times ───────────┘                         └────────── 16 times ───────────┘
//! ```

use super::{Entry, Item, Lives, MOST_TRIES, MOST_WRITERS, Planted};
use crate::coherence::client::{Answer, Call, Failed};
use crate::planted::{Bugs, NoBugs};
use crate::wire::{Status, Verb, Version};

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteNext {
    /// Ask the cache this, then [`Write::answered`].
    Ask(Call),
    /// Have the handler run, then [`Write::handled`].
    Handle,
    /// The cache cannot be told, or too many write: the handler must not run.
    Refused,
    /// Over. `is_sure`: nothing is kept that was computed before the handler. If not, the cache could not be asked, and the caller must not be
    /// told that the write is done.
    Over {
        /// See above.
        is_sure: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Marking,
    Handling,
    Ending,
    Over,
}

/// See the head of the file.
#[derive(Clone, Debug)]
pub struct Write<B = NoBugs> {
    item: Item,
    token: u64,
    lives: Lives,
    phase: Phase,
    /// What was asked last was a get.
    is_looking: bool,
    tries: u32,
    /// At the end its mark was not there.
    has_lost_mark: bool,
    bugs: B,
}

impl Write {
    /// A call of a method that writes. `token` is nobody else's. The first thing to ask.
    pub fn begin(item: Item, token: u64, lives: Lives) -> (Write, Call) {
        Write::with_bugs(item, token, lives, NoBugs)
    }
}

impl<B: Bugs<Planted>> Write<B> {
    /// The same, with a mistake made on purpose.
    pub fn with_bugs(item: Item, token: u64, lives: Lives, bugs: B) -> (Write<B>, Call) {
        let call = Call::new(Verb::Get, &item.key);
        let phase = Phase::Marking;
        (Write { item, token, lives, phase, is_looking: true, tries: 0, has_lost_mark: false, bugs }, call)
    }

    /// Whether, at the end, its mark was gone already: the handler took longer than [`Lives::mark`], or the item was lost.
    pub fn has_lost_mark(&self) -> bool {
        self.has_lost_mark
    }

    /// The handler is done, whatever came of it.
    ///
    /// # Panics
    /// If it was not to run.
    pub fn handled(&mut self) -> WriteNext {
        assert_eq!(self.phase, Phase::Handling, "no handler was to run");
        (self.phase, self.tries) = (Phase::Ending, 0);
        self.look()
    }

    /// The cache has answered.
    ///
    /// # Panics
    /// If nothing was asked.
    pub fn answered(&mut self, outcome: Result<&Answer, Failed>) -> WriteNext {
        assert!(matches!(self.phase, Phase::Marking | Phase::Ending), "an answer, and nothing was asked");
        let Ok(answer) = outcome else { return self.again() };
        if !self.is_looking {
            return if answer.status == Status::Ok { self.done() } else { self.again() };
        }
        match (answer.status, self.phase) {
            (Status::Ok | Status::Miss, Phase::Marking) => self.mark(answer),
            (Status::Ok | Status::Miss, _) => self.end(answer),
            _ => self.again(),
        }
    }

    fn look(&mut self) -> WriteNext {
        self.is_looking = true;
        WriteNext::Ask(Call::new(Verb::Get, &self.item.key))
    }

    fn again(&mut self) -> WriteNext {
        self.tries += 1;
        if self.tries < MOST_TRIES {
            return self.look();
        }
        let was = std::mem::replace(&mut self.phase, Phase::Over);
        if was == Phase::Marking { WriteNext::Refused } else { WriteNext::Over { is_sure: false } }
    }

    /// What was to be there is.
    fn done(&mut self) -> WriteNext {
        if self.phase == Phase::Marking {
            self.phase = Phase::Handling;
            return WriteNext::Handle;
        }
        self.phase = Phase::Over;
        WriteNext::Over { is_sure: true }
    }

    fn store(&mut self, verb: Verb, version: Version, entry: &Entry<'_>) -> WriteNext {
        self.is_looking = false;
        let life = if matches!(entry, Entry::Nothing) { self.lives.claim } else { self.lives.mark };
        let call = Call { version, life, ..Call::new(verb, &self.item.key) };
        WriteNext::Ask(call.value(&entry.to_bytes()))
    }

    fn mark(&mut self, there: &Answer) -> WriteNext {
        if self.bugs.has(Planted::InvalidateAfterwards) {
            return self.done();
        }
        if there.status == Status::Miss {
            return self.store(Verb::Add, Version(0), &Entry::Marked(vec![self.token]));
        }
        match Entry::parse(&there.value) {
            // It was placed, and nobody heard: for how long it lives from now on must be known.
            Some(Entry::Marked(tokens)) if tokens.contains(&self.token) => {
                self.store(Verb::Cas, there.version, &Entry::Marked(tokens))
            }
            Some(Entry::Marked(_)) if self.bugs.has(Planted::MarkOfAnother) => self.done(),
            Some(Entry::Marked(tokens)) if tokens.len() == MOST_WRITERS => self.again(),
            Some(Entry::Marked(mut tokens)) => {
                tokens.push(self.token);
                self.store(Verb::Cas, there.version, &Entry::Marked(tokens))
            }
            _ => self.store(Verb::Cas, there.version, &Entry::Marked(vec![self.token])),
        }
    }

    fn end(&mut self, there: &Answer) -> WriteNext {
        let entry = Entry::parse(&there.value).filter(|_| there.status == Status::Ok);
        if let Some(Entry::Marked(mut tokens)) = entry {
            let Some(at) = tokens.iter().position(|token| *token == self.token) else {
                // Marks of others alone: nothing was kept or claimed since they were placed.
                self.has_lost_mark = true;
                return self.done();
            };
            tokens.remove(at);
            let is_last = tokens.is_empty() || self.bugs.has(Planted::EndAllMarks);
            let left = if is_last { Entry::Nothing } else { Entry::Marked(tokens) };
            return self.store(Verb::Cas, there.version, &left);
        }
        self.has_lost_mark = true;
        match entry {
            Some(Entry::Kept { .. } | Entry::Claimed(_)) if !self.bugs.has(Planted::LostMarkIsFine) => {
                self.store(Verb::Cas, there.version, &Entry::Nothing)
            }
            _ => self.done(),
        }
    }
}
