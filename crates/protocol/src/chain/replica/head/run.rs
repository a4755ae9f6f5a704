//! What runs: each request that has its keys, one after the other, on the image; then its entry, and its answer when that is committed.

use super::super::Replica;
use super::super::evaluate::evaluate_under;
use super::super::sessions::{
    Memory, keys_of, new_session, recall, remembered, reply_key, session_key, session_value,
};
use super::{Answer, UnderWay, Work, open_id};
use crate::chain::claim;
use crate::chain::image::{Image, Key};
use crate::chain::message::{Refusal, RequestId, Status};
use crate::chain::transaction::{Abort, Outcome};
use crate::chain::{
    Durability, Entry, Log, Lsn, Message, NodeId, Out, Planted, SessionId, Transaction, Tuple,
};
use crate::planted::Bugs;

impl<I: Image, L: Log, B: Bugs<Planted>> Replica<I, L, B> {
    /// Runs whoever has its keys, while there is room.
    pub(in crate::chain::replica) fn run_ready(&mut self, out: &mut Out) {
        while let Some(head) = &mut self.head
            && head.has_room(&self.config)
            && let Some(ticket) = head.ready.pop_front()
        {
            let Some((from, work)) = head.waiting.remove(&ticket) else { continue };
            head.waiting_bytes -= work.bytes();
            let name = work.name().map(|id| (from, id));
            if !self.run(ticket, from, work, out)
                && let Some(head) = &mut self.head
            {
                if let Some(name) = &name {
                    head.known.remove(name);
                }
                head.release(ticket);
            }
        }
    }

    /// Whether it is under way now; else it was answered.
    fn run(&mut self, ticket: u64, from: NodeId, work: Work, out: &mut Out) -> bool {
        let window = self.config.session_window;
        match work {
            Work::Request(id, transaction) => match self.recall(id) {
                Memory::Fresh => self.execute(ticket, from, id, &transaction, out),
                Memory::Done(outcome) => {
                    self.stats.remembered += 1;
                    self.reply(from, id, outcome, out);
                    false
                }
                Memory::Forgotten => self.refused(from, id, Refusal::Forgotten, out),
                Memory::NoSession => self.refused(from, id, Refusal::NoSession, out),
            },
            Work::Ask(id) => {
                let status = match recall(&self.image, id, window, self.configuration.reset) {
                    Memory::Fresh => Status::Unknown,
                    Memory::Done(outcome) => Status::Done(self.as_of_now(outcome)),
                    Memory::Forgotten | Memory::NoSession => Status::Forgotten,
                };
                out.push((from, Message::Told { id, status }));
                false
            }
            Work::Open(token, victim) => {
                let lsn = self.log.last().0.next();
                let gone = victim.map_or(Vec::new(), |victim| self.present(keys_of(victim, window)));
                let session = new_session(&self.secret, self.id, self.incarnation, lsn);
                let (new, value) = (session_key(session), session_value(self.configuration.epoch));
                let mut writes: Vec<_> = gone.iter().map(|key| (key, None)).collect();
                writes.push((&new, Some(&value[..])));
                let mut tuples = Vec::new();
                if self.image.place(lsn, &writes, &mut tuples).is_err() {
                    self.give_up_opening(victim);
                    return self.refused(from, open_id(token), Refusal::Busy, out);
                }
                self.stats.opened += 1;
                self.stats.evicted += u64::from(victim.is_some());
                self.log_entry(ticket, open_id(token), tuples, Answer::Opened(from, token, session));
                true
            }
            Work::Close(session) => {
                let gone = self.present(keys_of(session, window));
                let writes: Vec<_> = gone.iter().map(|key| (key, None)).collect();
                let mut tuples = Vec::new();
                let lsn = self.log.last().0.next();
                if writes.is_empty() || self.image.place(lsn, &writes, &mut tuples).is_err() {
                    return false;
                }
                if let Some(head) = &mut self.head {
                    head.sessions.remove(session);
                }
                self.log_entry(ticket, RequestId { session, sequence: 0 }, tuples, Answer::Closed);
                true
            }
        }
    }

    fn recall(&self, id: RequestId) -> Memory {
        match recall(&self.image, id, self.config.session_window, self.configuration.reset) {
            Memory::Done(_) if self.bugs.has(Planted::ForgetReplies) => Memory::Fresh,
            known => known,
        }
    }

    /// Those that the image has.
    fn present(&self, keys: Vec<Key>) -> Vec<Key> {
        keys.into_iter().filter(|key| self.image.read(key).is_some()).collect()
    }

    /// There was no room for a session: the one that was to be forgotten stays.
    fn give_up_opening(&mut self, victim: Option<SessionId>) {
        let Some(head) = &mut self.head else { return };
        head.opening -= 1;
        if let Some(victim) = victim {
            let opened = self.image.read(&session_key(victim)).map_or(Lsn::ZERO, |item| item.version);
            head.sessions.insert(victim, opened);
        }
    }

    /// Does a transaction on the image, and logs what it comes to. Aborts are logged, too: a copy that comes late must not be done after all.
    fn execute(
        &mut self,
        ticket: u64,
        from: NodeId,
        id: RequestId,
        asked: &Transaction,
        out: &mut Out,
    ) -> bool {
        let lsn = self.log.last().0.next();
        let claim = self.head.as_ref().map_or(0, |head| head.claim);
        let done = evaluate_under(&self.image, claim, asked);
        let (durability, copies) = (Durability::default(), 0);
        let mut outcome =
            Outcome { lsn, abort: done.abort, reads: done.reads, sums: done.sums, durability, copies };
        let mut writes = done.writes;
        if outcome.bytes() > asked.max_reply() {
            outcome = Outcome { abort: Some(Abort::LongReply), reads: vec![], sums: vec![], ..outcome };
            writes.clear();
        }
        let mut tuples = self.place(id, lsn, &writes, &outcome);
        if tuples.is_none() && outcome.abort.is_none() {
            outcome = Outcome { abort: Some(Abort::NoRoom), sums: vec![], ..outcome };
            tuples = self.place(id, lsn, &[], &outcome);
        }
        let Some(tuples) = tuples else { return self.refused(from, id, Refusal::Busy, out) };
        self.stats.aborted += u64::from(outcome.abort.is_some());
        self.stats.claimed += u64::from(outcome.abort == Some(Abort::Claimed));
        let claims = outcome.abort.is_none() && writes.iter().any(|(key, _)| claim::is_its_key(key));
        if claims
            && !self.bugs.has(Planted::PassClaim)
            && let Some(head) = &mut self.head
        {
            head.claiming = Some(lsn);
        }
        self.log_entry(ticket, id, tuples, Answer::Reply(from, id, outcome));
        true
    }

    /// Where it goes, with what is remembered of it. `None`: there is no room.
    fn place(
        &mut self,
        id: RequestId,
        lsn: Lsn,
        writes: &[(Key, Option<Vec<u8>>)],
        outcome: &Outcome,
    ) -> Option<Vec<Tuple>> {
        let reply = (reply_key(id, self.config.session_window), Some(remembered(id.sequence, outcome)));
        let writes: Vec<_> =
            writes.iter().chain([&reply]).map(|(key, value)| (key, value.as_deref())).collect();
        let mut tuples = Vec::new();
        self.image.place(lsn, &writes, &mut tuples).ok().map(|()| tuples)
    }

    /// The next entry: into the log, or what waits for room there.
    fn log_entry(&mut self, ticket: u64, id: RequestId, tuples: Vec<Tuple>, answer: Answer) {
        let entry = Entry {
            lsn: self.log.last().0.next(),
            epoch: self.configuration.epoch,
            committed: self.committed,
            session: id.session,
            sequence: id.sequence,
            tuples,
        };
        self.placed = entry.lsn;
        self.stats.logged += 1;
        let head = self.head.as_mut().expect("only a head makes entries");
        head.sessions.touch(id.session, entry.lsn);
        head.bytes += entry.bytes();
        head.under_way.insert(entry.lsn, UnderWay { ticket, bytes: entry.bytes(), answer });
        head.stuck = Some(entry);
        self.log_stuck();
    }

    /// Logs what was made, if there is room.
    pub(in crate::chain::replica) fn log_stuck(&mut self) {
        let Some(head) = &mut self.head else { return };
        let Some(entry) = head.stuck.take() else { return };
        if self.log.append(&entry).is_ok() {
            self.recent.push(entry);
        } else {
            self.stats.full += 1;
            head.stuck = Some(entry);
        }
    }

    /// An entry was committed and applied: answers, and gives its keys to others.
    pub(in crate::chain::replica) fn finish(&mut self, lsn: Lsn, out: &mut Out) {
        let Some(head) = &mut self.head else { return };
        let Some(UnderWay { ticket, bytes, answer }) = head.under_way.remove(&lsn) else { return };
        head.bytes -= bytes;
        head.release(ticket);
        if head.claiming == Some(lsn) {
            head.claiming = None;
            head.claim = claim::number_of(&self.image);
        }
        match answer {
            Answer::Reply(to, id, outcome) => {
                head.known.remove(&(to, id));
                self.reply(to, id, outcome, out);
            }
            Answer::Opened(to, token, session) => {
                head.known.remove(&(to, open_id(token)));
                head.opening -= 1;
                head.sessions.insert(session, lsn);
                out.push((to, Message::Opened { token, session, window: self.config.session_window }));
            }
            Answer::Closed => {}
            Answer::Inherited(keys) => head.sessions.follow(&self.image, &keys),
        }
    }

    fn reply(&mut self, to: NodeId, id: RequestId, outcome: Outcome, out: &mut Out) {
        let outcome = self.as_of_now(outcome);
        out.push((to, Message::Reply { id, outcome }));
    }

    /// An outcome with what it survives now.
    fn as_of_now(&self, outcome: Outcome) -> Outcome {
        let (durability, copies) = self.backing();
        Outcome { durability, copies, ..outcome }
    }

    /// Refuses what did not run.
    fn refused(&mut self, to: NodeId, id: RequestId, why: Refusal, out: &mut Out) -> bool {
        self.refuse(to, id, why, out);
        false
    }
}
