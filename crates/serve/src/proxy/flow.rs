//! The order of one connection's commands: what may be under way together, and whose reply is next.
//!
//! ```text
//!   oldest                                                         newest
//!   done │ get (under way) │ get (under way) │ set (waits) │ get (waits) …
//!   ▲ replies leave here, in order            ▲ next to begin: when all before it are done
//! ```
//!
//! Reads are under way together: that hides the network's latency, which is what a client pipelines for. A write waits for all before it, and
//! all behind it wait for it, so that a connection sees what it has written.
//!
//! A read may turn out to need a write (a lease that is won, or one of an item that only its home's stream carries, which may win there): it then begins
//! anew, as a write; and so do the reads behind it.
//!
//! Invariants: 1. entries begin in order; `begun` counts those before the first that waits; 2. a write under way is the only one under way;
//! 3. `bytes` is the sum of what the entries hold.
//!
//! Bounds: whoever pushes looks at `len` and `bytes`.

use super::command::{Next, Outcome, Task};
use super::reply::Form;
use crate::inc::stream::Said;
use protocol::coherence::client::{Answer, Failed};
use protocol::wire::Verb;
use std::collections::VecDeque;

/// Which command of its connection, counted from 0.
pub type Place = u64;

/// The time that a command was under way for, so that an answer to an earlier time is known: counted over all commands.
pub type Turn = u64;

/// What became of what was asked for.
pub enum Heard {
    /// By packet.
    Packet(Result<Answer, Failed>),
    /// By stream.
    Stream(Result<Said, Failed>),
}

enum State {
    Waits,
    UnderWay(Turn),
    Done(Outcome),
}

/// A command in it.
pub struct Work {
    task: Task,
    form: Form,
    reads: bool,
    state: State,
}

enum Entry {
    /// A reply that was ready at once.
    Ready(Vec<u8>),
    Work(Box<Work>),
}

/// What leaves at the front.
pub enum Leaving {
    /// A reply that was ready at once.
    Ready(Vec<u8>),
    /// A command that is done.
    Done(Box<Work>),
}

impl Work {
    /// What it was, how it is answered, and what came of it.
    pub fn done(&self) -> (&Task, &Form, &Outcome) {
        let State::Done(outcome) = &self.state else { unreachable!("only what is done leaves") };
        (&self.task, &self.form, outcome)
    }
}

/// Commands of a connection that are not answered yet.
#[derive(Default)]
pub struct Flow {
    entries: VecDeque<Entry>,
    /// Of the first entry.
    front: Place,
    begun: usize,
    turn: Turn,
    bytes: usize,
}

impl Flow {
    /// Commands in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether all is answered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of keys, values and replies that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A reply that is ready, to be sent after those before it.
    pub fn push_ready(&mut self, reply: Vec<u8>) {
        self.bytes += reply.len();
        self.entries.push_back(Entry::Ready(reply));
    }

    /// A command.
    pub fn push(&mut self, task: Task, form: Form) {
        self.bytes += task.bytes();
        let reads = task.only_reads();
        self.entries.push_back(Entry::Work(Box::new(Work { task, form, reads, state: State::Waits })));
    }

    /// Whether the next command to begin is the oldest of all: it must not be made to wait for what others hold.
    pub fn is_first_next(&self) -> bool {
        self.begun == 0
    }

    /// Whether [`Flow::begin`] would.
    pub fn can_begin(&mut self) -> bool {
        while let Some(Entry::Ready(_)) = self.entries.get(self.begun) {
            self.begun += 1;
        }
        let Some(Entry::Work(next)) = self.entries.get(self.begun) else { return false };
        let mut before = self.entries.range(..self.begun);
        if next.reads {
            // Nothing began after a write that is under way.
            !before.rfind(|entry| matches!(entry, Entry::Work(_))).is_some_and(is_write_under_way)
        } else {
            before.all(is_done)
        }
    }

    /// Begins the next command, if it may: what to ask for, whose outcome [`Flow::hear`] wants.
    pub fn begin(&mut self) -> Option<(Place, Turn, Next)> {
        if !self.can_begin() {
            return None;
        }
        let place = self.front + self.begun as u64;
        let Entry::Work(work) = &mut self.entries[self.begun] else { unreachable!("it was looked at") };
        self.begun += 1;
        self.turn += 1;
        work.state = State::UnderWay(self.turn);
        Some((place, self.turn, work.task.begin()))
    }

    /// Hears an outcome. What to ask for next, if the command is not done and may go on.
    pub fn hear(&mut self, place: Place, turn: Turn, heard: Heard) -> Option<Next> {
        let at = usize::try_from(place.checked_sub(self.front)?).ok()?;
        let Some(Entry::Work(work)) = self.entries.get_mut(at) else { return None };
        if !matches!(work.state, State::UnderWay(now) if now == turn) {
            // It began anew since that was asked.
            return None;
        }
        let next = match heard {
            Heard::Packet(outcome) => work.task.hear(outcome),
            Heard::Stream(said) => work.task.hear_said(said),
        };
        match next {
            Next::Done(outcome) => {
                self.bytes += outcome.bytes();
                work.state = State::Done(outcome);
                None
            }
            next if work.reads && may_write(&next) => {
                work.reads = false;
                self.begin_anew_from(at);
                None
            }
            next => Some(next),
        }
    }

    /// The oldest, if it is done.
    pub fn pop(&mut self) -> Option<Leaving> {
        match self.entries.front()? {
            Entry::Work(work) if !matches!(work.state, State::Done(_)) => return None,
            _ => {}
        }
        self.begun = self.begun.saturating_sub(1);
        self.front += 1;
        let leaving = match self.entries.pop_front()? {
            Entry::Ready(reply) => {
                self.bytes -= reply.len();
                Leaving::Ready(reply)
            }
            Entry::Work(work) => {
                let (task, _, outcome) = work.done();
                self.bytes -= task.bytes() + outcome.bytes();
                Leaving::Done(work)
            }
        };
        Some(leaving)
    }

    /// This command and all behind it wait again; what they asked for is not heard any more.
    fn begin_anew_from(&mut self, at: usize) {
        for entry in self.entries.range_mut(at..self.begun) {
            let Entry::Work(work) = entry else { continue };
            if let State::Done(outcome) = &work.state {
                self.bytes -= outcome.bytes();
            }
            work.state = State::Waits;
        }
        self.begun = at;
    }
}

fn may_write(next: &Next) -> bool {
    match next {
        Next::Ask(call) => call.verb != Verb::Get,
        Next::Send(request) => request.changes,
        Next::Done(_) => false,
    }
}

fn is_done(entry: &Entry) -> bool {
    match entry {
        Entry::Ready(_) => true,
        Entry::Work(work) => matches!(work.state, State::Done(_)),
    }
}

fn is_write_under_way(entry: &Entry) -> bool {
    matches!(entry, Entry::Work(work) if !work.reads && matches!(work.state, State::UnderWay(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::command::{Delete, Read, What};
    use base::Nanos;
    use protocol::wire::{Kind, Status, Version};

    fn answer(status: Status, kind: Kind) -> Heard {
        let value = b"value".to_vec();
        let (version, life) = (Version(7), Nanos::MAX);
        let answer = Answer { status, value, flags: 0, kind, life, version, number: 0, from_box: false };
        Heard::Packet(Ok(answer))
    }

    fn push(flow: &mut Flow, key: &str, what: What) {
        flow.push(Task::new(key.into(), what), Form::Classic { noreply: false, asked: None });
    }

    fn get(flow: &mut Flow, key: &str) {
        push(flow, key, What::Read(Read { lease: true, ..Read::default() }));
    }

    fn delete(flow: &mut Flow, key: &str) {
        push(flow, key, What::Delete(Delete::default()));
    }

    fn begin(flow: &mut Flow, key: &str) -> (Place, Turn) {
        let Some((place, turn, Next::Ask(call))) = flow.begin() else { panic!("it may begin") };
        assert_eq!(call.key, key.as_bytes());
        (place, turn)
    }

    fn keys(flow: &mut Flow) -> Vec<String> {
        let leaving = std::iter::from_fn(|| flow.pop());
        let key = |leaving| match leaving {
            Leaving::Ready(reply) => reply,
            Leaving::Done(work) => work.done().0.key().to_vec(),
        };
        leaving.map(|it| String::from_utf8(key(it)).expect("text")).collect()
    }

    #[test]
    fn reads_are_under_way_together_and_writes_alone() {
        let mut flow = Flow::default();
        get(&mut flow, "a");
        flow.push_ready(b"MN".to_vec());
        get(&mut flow, "b");
        delete(&mut flow, "c");
        get(&mut flow, "d");
        let (a, b) = (begin(&mut flow, "a"), begin(&mut flow, "b"));
        assert!(flow.begin().is_none(), "the write waits for the reads");
        assert!(flow.hear(b.0, b.1, answer(Status::Ok, Kind::Bytes)).is_none());
        assert!(flow.begin().is_none() && flow.pop().is_none(), "the second is done, the first is not");
        assert!(flow.hear(a.0, a.1, answer(Status::Miss, Kind::Bytes)).is_none());
        let c = begin(&mut flow, "c");
        assert!(flow.begin().is_none(), "the read waits for the write");
        assert_eq!(keys(&mut flow), ["a", "MN", "b"]);
        assert!(flow.begin().is_none());
        assert!(flow.hear(c.0, c.1, answer(Status::Ok, Kind::Bytes)).is_none());
        let d = begin(&mut flow, "d");
        assert!(flow.hear(d.0, d.1, answer(Status::Ok, Kind::Bytes)).is_none());
        assert_eq!(keys(&mut flow), ["c", "d"]);
        assert!(flow.is_empty() && flow.bytes() == 0);
    }

    #[test]
    fn a_read_that_needs_a_write_begins_anew_with_all_behind_it() {
        let mut flow = Flow::default();
        for key in ["a", "b", "c"] {
            get(&mut flow, key);
        }
        let [a, b, c] = ["a", "b", "c"].map(|key| begin(&mut flow, key));
        assert!(flow.hear(c.0, c.1, answer(Status::Ok, Kind::Bytes)).is_none());
        assert!(flow.hear(b.0, b.1, answer(Status::Ok, Kind::Stale)).is_none(), "the first is not done");
        assert!(flow.begin().is_none());
        assert!(flow.hear(a.0, a.1, answer(Status::Miss, Kind::Bytes)).is_none());
        let again = begin(&mut flow, "b");
        assert!(flow.begin().is_none(), "it is a write now");
        assert!(
            flow.hear(b.0, b.1, answer(Status::Ok, Kind::Bytes)).is_none(),
            "an answer to the first time"
        );
        let Some(Next::Ask(claim)) = flow.hear(again.0, again.1, answer(Status::Ok, Kind::Stale)) else {
            panic!("the claim")
        };
        assert_eq!((claim.verb, claim.kind, claim.version), (Verb::Cas, Kind::StaleClaimed, Version(7)));
        assert!(flow.hear(again.0, again.1, answer(Status::Ok, Kind::Bytes)).is_none());
        let last = begin(&mut flow, "c");
        assert!(flow.hear(c.0, c.1, answer(Status::Ok, Kind::Bytes)).is_none());
        assert!(flow.hear(last.0, last.1, answer(Status::Ok, Kind::Bytes)).is_none());
        assert_eq!(keys(&mut flow), ["a", "b", "c"]);
        assert_eq!(flow.bytes(), 0);
    }
}
