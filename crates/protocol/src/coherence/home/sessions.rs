//! What a home remembers of its clients' writes, so that each is done at most once.
//!
//! A session is given by the home and numbered for good, restarts included; a write names session and operation. So a
//! duplicate, however late, either finds its outcome, or a session that is no longer known, or a number below the
//! window: it is never taken for new.
//!
//! ```text
//!   operations of a session:   … ended, forgotten │ highest − window < …remembered: Running or Done… ≤ highest │ new …
//! ```
//!
//! A client has at most `window` numbers between its oldest write in progress and its newest, so what lies below is over for it.
//!
//! A box that is given a key is told what was begun ([`Sessions::told`]); what it did itself is entered when it returns the key
//! ([`Sessions::learn`]). If it is lost, so are the sessions that it was told ([`Sessions::forget`]): it may have done any of their writes.
//!
//! Bounds: sessions (who was silent longest is closed), outcomes by the window.

use super::super::ownership::{Record, Told};
use crate::wire::{BoxId, ClientId, OpNumber, Round, Status, Version};
use std::collections::{BTreeMap, BTreeSet};

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// How it went.
    pub status: Status,
    /// Of what was stored.
    pub version: Version,
    /// The result of arithmetic.
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Running,
    Done(Answer),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Session {
    client: ClientId,
    highest: u64,
    operations: BTreeMap<u64, State>,
    used: u64,
    /// The box by way of which its last write came that an owner might have done.
    by: BoxId,
}

/// What a write is to the home that hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// To be done.
    New,
    /// Being done.
    Running,
    /// Done: to be answered again.
    Done(Answer),
    /// So old that its client no longer waits.
    Old,
    /// Of a session that is not, or no longer, known.
    Unknown,
}

/// All sessions of a home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sessions {
    sessions: BTreeMap<u64, Session>,
    clients: BTreeMap<ClientId, u64>,
    by_use: BTreeSet<(u64, u64)>,
    uses: u64,
    next: u64,
    capacity: usize,
    window: u64,
}

impl Sessions {
    /// At most `capacity`, numbered from `first`, remembering `window` operations each.
    pub fn new(first: u64, capacity: usize, window: u64) -> Sessions {
        Sessions {
            sessions: BTreeMap::new(),
            clients: BTreeMap::new(),
            by_use: BTreeSet::new(),
            uses: 0,
            next: first,
            capacity,
            window,
        }
    }

    /// The session of `client`: the one it has, or a new one.
    pub fn open(&mut self, client: ClientId) -> Round {
        if let Some(&number) = self.clients.get(&client) {
            self.use_now(number);
            return Round(number);
        }
        if self.sessions.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
            && let Some(closed) = self.sessions.remove(&oldest)
        {
            self.clients.remove(&closed.client);
        }
        let number = self.next;
        self.next += 1;
        let session = Session { client, highest: 0, operations: BTreeMap::new(), used: 0, by: BoxId::NONE };
        self.sessions.insert(number, session);
        self.clients.insert(client, number);
        self.use_now(number);
        Round(number)
    }

    /// What this write is.
    pub fn hear(&mut self, session: Round, client: ClientId, operation: OpNumber) -> Heard {
        let Some(known) = self.sessions.get(&session.0).filter(|known| known.client == client) else {
            return Heard::Unknown;
        };
        let number = operation.0;
        let heard = match known.operations.get(&number) {
            Some(State::Running) => Heard::Running,
            Some(State::Done(answer)) => Heard::Done(*answer),
            None if number.saturating_add(self.window) <= known.highest => Heard::Old,
            None => Heard::New,
        };
        self.use_now(session.0);
        heard
    }

    /// A new write is being done.
    pub fn begin(&mut self, session: Round, operation: OpNumber) {
        let Some(known) = self.sessions.get_mut(&session.0) else { return };
        known.operations.insert(operation.0, State::Running);
        known.highest = known.highest.max(operation.0);
        let keep_from = known.highest.saturating_sub(self.window - 1);
        known.operations = known.operations.split_off(&keep_from);
    }

    /// It is done. Whoever closed the session meanwhile, or went on beyond the window, does not hear of it again.
    pub fn finish(&mut self, session: Round, operation: OpNumber, answer: Answer) {
        let state =
            self.sessions.get_mut(&session.0).and_then(|known| known.operations.get_mut(&operation.0));
        if let Some(state) = state {
            *state = State::Done(answer);
        }
    }

    /// A write that was begun is not done: if its client asks again, it is new.
    pub fn undo(&mut self, session: Round, operation: OpNumber) {
        if let Some(known) = self.sessions.get_mut(&session.0)
            && known.operations.get(&operation.0) == Some(&State::Running)
        {
            known.operations.remove(&operation.0);
        }
    }

    /// A write of this session has come by way of a box.
    pub fn came_by(&mut self, session: Round, by: BoxId) {
        if let Some(known) = self.sessions.get_mut(&session.0) {
            known.by = by;
        }
    }

    /// The sessions that came by way of this box, those used last first, at most `most`, and what was begun in each.
    pub fn told(&self, by: BoxId, most: usize) -> Vec<Told> {
        let latest = self.by_use.iter().rev().map(|(_, number)| (number, &self.sessions[number]));
        latest
            .filter(|(_, known)| known.by == by)
            .take(most)
            .map(|(number, known)| self.tell(*number, known))
            .collect()
    }

    fn tell(&self, number: u64, known: &Session) -> Told {
        let begun =
            |n: u64| known.operations.contains_key(&n) || n.saturating_add(self.window) <= known.highest;
        Told::new(Round(number), known.client, OpNumber(known.highest), begun)
    }

    /// An owner did this.
    pub fn learn(&mut self, record: &Record) {
        self.begin(record.session, record.operation);
        self.finish(record.session, record.operation, record.answer);
        self.use_now(record.session.0);
    }

    /// Closes these.
    pub fn forget(&mut self, sessions: &[Round]) {
        for number in sessions {
            if let Some(closed) = self.sessions.remove(&number.0) {
                self.clients.remove(&closed.client);
                self.by_use.remove(&(closed.used, number.0));
            }
        }
    }

    fn use_now(&mut self, number: u64) {
        if let Some(session) = self.sessions.get_mut(&number) {
            self.by_use.remove(&(session.used, number));
            self.uses += 1;
            session.used = self.uses;
            self.by_use.insert((session.used, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: ClientId = ClientId(9);
    const DONE: Answer = Answer { status: Status::Ok, version: Version(4), number: 0 };

    #[test]
    fn a_write_is_new_once() {
        let mut sessions = Sessions::new(1 << 32, 4, 3);
        let s = sessions.open(C);
        assert_eq!(sessions.open(C), s, "a client has one");
        assert_eq!(sessions.hear(s, C, OpNumber(1)), Heard::New);
        sessions.begin(s, OpNumber(1));
        assert_eq!(sessions.hear(s, C, OpNumber(1)), Heard::Running);
        sessions.finish(s, OpNumber(1), DONE);
        assert_eq!(sessions.hear(s, C, OpNumber(1)), Heard::Done(DONE));
        assert_eq!(sessions.hear(s, ClientId(8), OpNumber(1)), Heard::Unknown);
        assert_eq!(sessions.hear(Round(7), C, OpNumber(1)), Heard::Unknown);
    }

    #[test]
    fn what_was_undone_is_new_and_what_was_done_is_not() {
        let mut sessions = Sessions::new(1, 4, 3);
        let s = sessions.open(C);
        sessions.begin(s, OpNumber(1));
        sessions.undo(s, OpNumber(1));
        assert_eq!(sessions.hear(s, C, OpNumber(1)), Heard::New);
        sessions.begin(s, OpNumber(1));
        sessions.finish(s, OpNumber(1), DONE);
        sessions.undo(s, OpNumber(1));
        assert_eq!(sessions.hear(s, C, OpNumber(1)), Heard::Done(DONE));
        sessions.undo(Round(99), OpNumber(1));
    }

    #[test]
    fn what_falls_out_of_the_window_is_never_new_again() {
        let mut sessions = Sessions::new(1, 4, 3);
        let s = sessions.open(C);
        for n in [1, 2, 4, 3] {
            assert_eq!(sessions.hear(s, C, OpNumber(n)), Heard::New, "{n}");
            sessions.begin(s, OpNumber(n));
            sessions.finish(s, OpNumber(n), DONE);
        }
        assert_eq!(sessions.hear(s, C, OpNumber(1)), Heard::Old);
        assert_eq!(sessions.hear(s, C, OpNumber(2)), Heard::Done(DONE));
        sessions.begin(s, OpNumber(u64::MAX - 1));
        assert_eq!(sessions.hear(s, C, OpNumber(4)), Heard::Old);
        sessions.finish(s, OpNumber(4), DONE);
    }

    #[test]
    fn an_owner_is_told_what_was_begun_and_tells_what_it_did() {
        let mut sessions = Sessions::new(1, 4, 3);
        let (a, b) = (sessions.open(ClientId(1)), sessions.open(ClientId(2)));
        sessions.came_by(a, BoxId(7));
        for n in [4, 6] {
            sessions.begin(a, OpNumber(n));
        }
        let told = sessions.told(BoxId(7), 9);
        assert_eq!((told.len(), told[0].session, told[0].client), (1, a, ClientId(1)));
        let new: Vec<_> = (1..9).filter(|n| told[0].is_new(OpNumber(*n))).collect();
        assert_eq!(new, [5, 7, 8], "3 is beyond the window");
        sessions.learn(&Record { session: a, operation: OpNumber(7), answer: DONE });
        assert_eq!(sessions.hear(a, ClientId(1), OpNumber(7)), Heard::Done(DONE));
        assert_eq!(sessions.hear(a, ClientId(1), OpNumber(4)), Heard::Old);
        sessions.forget(&[a, Round(99)]);
        assert_eq!(sessions.hear(a, ClientId(1), OpNumber(8)), Heard::Unknown);
        assert!(sessions.told(BoxId(7), 9).is_empty() && sessions.open(ClientId(1)) > b);
        sessions.came_by(b, BoxId(7));
        assert!(sessions.told(BoxId(7), 0).is_empty());
    }

    #[test]
    fn who_was_silent_longest_is_closed_and_numbers_are_not_used_again() {
        let mut sessions = Sessions::new(1, 2, 3);
        let (a, b) = (sessions.open(ClientId(1)), sessions.open(ClientId(2)));
        sessions.hear(a, ClientId(1), OpNumber(1));
        let c = sessions.open(ClientId(3));
        assert_eq!(sessions.hear(b, ClientId(2), OpNumber(1)), Heard::Unknown);
        assert_eq!(sessions.hear(a, ClientId(1), OpNumber(1)), Heard::New);
        assert!(sessions.open(ClientId(2)) > c);
        assert_eq!((sessions.sessions.len(), sessions.clients.len(), sessions.by_use.len()), (2, 2, 2));
    }
}
