//! What a connection does with answers: which operation each is of, what it found held against the ledger, and what follows from it.
//!
//! Apart from the asking (`connection.rs`): both meet only in the operations under way and the keys asked for, whose invariants stand there.

use super::{Connection, Request, Source, UnderWay, Write};
use crate::drive::Pace;
use crate::load::counts::{Failure, Tally};
use crate::load::dialect::{Item, Verdict};
use crate::load::ledger::{Expected, Finding, Wrong};
use crate::load::line::{Heard, Line, Received, Ticket};
use crate::load::mix::OpKind;
use crate::load::workload::Phase;
use base::{Clock, Nanos};
use std::io;

impl Connection<'_> {
    /// Receives what is there and handles every whole answer.
    ///
    /// # Errors
    /// When the connection is lost, or its answers cannot be followed (`InvalidData`).
    pub fn receive(&mut self, phase: &Phase, clock: Clock, tally: &mut Tally) -> io::Result<()> {
        // A few rounds at most: with a fast server one connection must not keep the others waiting.
        for _ in 0..4 {
            let received = self.line_mut().receive(tally)?;
            if received == Received::Nothing {
                break;
            }
            // The line is taken out so that an answer may be read in place while the rest of `self` changes.
            let mut line = self.line.take().expect("answers are read within a call");
            let result = self.handle_answers(&mut *line, phase, clock.now(), tally);
            self.line = Some(line);
            result?;
            while let Some((key, cas, start)) = self.write_backs.pop() {
                self.write_back(key, cas, start, tally);
            }
            if received == Received::All {
                break;
            }
        }
        Ok(())
    }

    fn handle_answers(
        &mut self,
        line: &mut dyn Line,
        phase: &Phase,
        now: Nanos,
        tally: &mut Tally,
    ) -> io::Result<()> {
        while let Some(Heard { ticket, part, from_box }) = line.next(tally)? {
            if let Some(ticket) = ticket {
                self.bring_to_front(ticket);
            }
            if let Some(item) = part.item {
                self.handle_item(item, tally);
            } else if part.absent {
                self.next_asked_is_absent(tally);
            }
            let Some(verdict) = part.verdict else { continue };
            if let (true, Some(&UnderWay { kind: OpKind::Get, start, .. })) =
                (from_box, self.under_way.front())
            {
                tally.record_by_box(start, now);
            }
            self.handle_verdict(verdict, phase, now, tally);
        }
        Ok(())
    }

    /// Makes the request with this ticket the oldest, with the keys that it asked for.
    fn bring_to_front(&mut self, ticket: Ticket) {
        let at = self.under_way.iter().position(|request| request.ticket == ticket);
        let at = at.expect("a line answers what it was asked");
        let keys = |request: &UnderWay| match request.request {
            Request::Read { keys } => keys as usize,
            _ => 0,
        };
        let before: usize = self.under_way.iter().take(at).map(keys).sum();
        let own = keys(&self.under_way[at]);
        self.asked.make_contiguous()[..before + own].rotate_right(own);
        self.under_way.make_contiguous()[..=at].rotate_right(1);
    }

    /// An item came: finds which of the keys asked for it is, and holds it against what may be read.
    fn handle_item(&mut self, item: Item<'_>, tally: &mut Tally) {
        let Some(&UnderWay { kind, request: Request::Read { keys }, .. }) = self.under_way.front() else {
            return tally
                .wrong((Wrong::Unasked, "an item came in answer to a request that reads none".to_string()));
        };
        let place = match item.key {
            None => (keys > 0).then_some(0),
            Some(key) => {
                let id = self.shared.population.format.read(key);
                self.asked.iter().take(keys as usize).position(|&(asked, _)| Some(asked) == id)
            }
        };
        let Some(place) = place else {
            let name = String::from_utf8_lossy(item.key.unwrap_or_default()).into_owned();
            return tally
                .wrong((Wrong::Unasked, format!("an item with key {name:?} came that was not asked for")));
        };
        (0..place).for_each(|_| self.next_asked_is_absent(tally));
        let (key, expected) = self.take_asked().expect("its place was found");
        tally.counts.hits += 1;
        tally.counts.verified += 1;
        if kind == OpKind::Modify {
            self.found = Some(item.cas);
        }
        if let Err(finding) = self.check(key, expected, item) {
            tally.wrong(finding);
        }
    }

    fn check(&mut self, key: u64, expected: Expected, item: Item<'_>) -> Result<(), Finding> {
        let nonce = self.shared.ledger.check(key, item.flags, item.data)?;
        let writer = self.index as u16;
        match self.own_rank(key) {
            Some((own, rank)) => own.check(rank, key, writer, expected, nonce),
            None => Ok(()),
        }
    }

    fn take_asked(&mut self) -> Option<(u64, Expected)> {
        if let Some(UnderWay { request: Request::Read { keys }, .. }) = self.under_way.front_mut() {
            *keys = keys.checked_sub(1)?;
        }
        self.asked.pop_front()
    }

    fn next_asked_is_absent(&mut self, tally: &mut Tally) {
        let Some((key, expected)) = self.take_asked() else { return };
        tally.counts.misses += 1;
        if self.shared.misses_fail && !matches!(expected, Expected::Miss(_)) {
            tally.wrong((
                Wrong::Lost,
                format!("key {key}: nothing was found, though it was written and never deleted"),
            ));
        }
    }

    /// A request is answered: its operation is done, or goes on with its second request.
    fn handle_verdict(&mut self, verdict: Verdict<'_>, phase: &Phase, now: Nanos, tally: &mut Tally) {
        let Some(&UnderWay { kind, request, key, start, .. }) = self.under_way.front() else { return };
        self.last_answer = now;
        if let Request::Read { .. } = request {
            self.settle_read(verdict, tally);
        }
        self.under_way.pop_front();
        let found = self.found.take();
        match verdict {
            Verdict::Refused(refusal, why) => {
                let why = String::from_utf8_lossy(why).into_owned();
                tally.fail(Failure::from(refusal).name(), 1, || {
                    format!("{} of key {key}: the server said {why:?}", kind.name())
                });
                self.unsettle(request, key);
                return self.rest(phase, now);
            }
            Verdict::Done | Verdict::NotFound | Verdict::Conflict => {}
        }
        match (request, verdict) {
            (Request::Read { .. }, _) => {
                if let (OpKind::Modify, Some(cas)) = (kind, found) {
                    return self.write_backs.push((key, cas, start));
                }
            }
            (Request::Write, Verdict::Done) => {
                if let (OpKind::Insert, Source::Load { keys, .. }) = (kind, &self.source) {
                    keys.inserted();
                }
            }
            (Request::Write, _) => {
                tally.counts.conflicts += 1;
                self.unsettle(request, key);
            }
            (Request::Touch, Verdict::NotFound) => tally.counts.misses += 1,
            (Request::Touch, _) => tally.counts.hits += 1,
            (Request::Delete, _) => {}
        }
        tally.record(kind, start, now);
        self.rest(phase, now);
    }

    /// The keys of a finished read that brought no item are misses; after a refusal nothing is known of them.
    fn settle_read(&mut self, verdict: Verdict<'_>, tally: &mut Tally) {
        while let Some(UnderWay { request: Request::Read { keys: 1.. }, .. }) = self.under_way.front() {
            match verdict {
                Verdict::Refused(..) => drop(self.take_asked()),
                _ => self.next_asked_is_absent(tally),
            }
        }
    }

    /// The second half of a read-modify-write.
    fn write_back(&mut self, key: u64, cas: Option<u64>, start: Nanos, tally: &mut Tally) {
        let Source::Load { workload, .. } = &self.source else { return };
        let (values, ttl_s) = (workload.values, workload.ttl_s);
        let len = values.draw(&mut self.prng);
        self.start_write(Write { kind: OpKind::Modify, key, len, ttl_s, cas }, start, tally);
    }

    /// A write or delete did not take place as sent.
    fn unsettle(&mut self, request: Request, key: u64) {
        let next = self.shared.ledger.made_by(self.index as u16);
        if matches!(request, Request::Write | Request::Delete)
            && let Some((own, rank)) = self.own_rank(key)
        {
            own.refused(rank, next);
        }
    }

    fn rest(&mut self, phase: &Phase, now: Nanos) {
        if let Pace::Closed { think_ns: pause @ 1.. } = phase.pace {
            self.resting.push_back(now.plus(Nanos(pause)));
        }
    }
}
