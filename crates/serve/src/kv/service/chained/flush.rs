//! Flushes: a transaction on a key that all who read an item read, too.
//!
//! Before boxes it has the condition that nobody else flushed: one of which nobody knows whether it was done could otherwise still be done after a later
//! one, and take away what was stored, and given to boxes, since.

use super::asked::{Said, Told};
use super::{ATTEMPTS, Answer, Chained, Planted, Purpose};
use crate::kv::service::parked::LateReply;
use protocol::chain::attributes::FLUSHED;
use protocol::chain::transaction::{Abort, Change, Condition, Found};
use protocol::chain::{Outcome, Transaction};
use protocol::coherence::home::sessions;
use protocol::coherence::home::slow::Ended;
use protocol::memcache::Line;
use protocol::planted::Bugs;
use protocol::wire::{Status, Version};

/// A flush, and whose it is.
pub(super) struct Flush<T> {
    pub(super) whose: T,
    /// What is said when it is done; none: it came by packet.
    pub(super) reply: Option<LateReply>,
    /// Others flushed so often meanwhile.
    pub(super) conflicts: u32,
}

impl<T, B: Bugs<Planted>> Chained<T, B> {
    /// Nothing is under way.
    pub(super) fn begin_flush(&mut self, flush: Flush<T>) {
        self.is_flushing = true;
        match self.is_before_boxes() {
            true => {
                let reads = vec![FLUSHED.to_vec()];
                self.begin(Purpose::BeforeFlush(flush), Transaction { reads, ..Transaction::default() });
            }
            false => self.write_flush(flush, Vec::new()),
        }
    }

    /// On the condition that what was seen, of each chain in their order, is the last flush there.
    fn write_flush(&mut self, flush: Flush<T>, seen: Vec<Option<Found>>) {
        let version = |found: Option<Found>| Condition::Version(found.map_or(0, |found| found.version.0));
        let conditions = seen.into_iter().map(|found| (FLUSHED.to_vec(), version(found))).collect();
        let writes = vec![(FLUSHED.to_vec(), Change::Put(Vec::new()))];
        self.begin(Purpose::Flush(flush), Transaction { conditions, writes, ..Transaction::default() });
    }

    /// What was flushed last is known.
    pub(super) fn hear_before_flush(&mut self, flush: Flush<T>, answer: Answer) {
        match answer {
            Answer::Done(outcome) if !outcome.reads.is_empty() => self.write_flush(flush, outcome.reads),
            _ => self.end_flush(flush, Ended::NotDone, Line::Unanswered),
        }
    }

    pub(super) fn hear_flush(&mut self, mut flush: Flush<T>, answer: &Answer) {
        let (ended, line) = match answer {
            Answer::Done(Outcome { abort: None, .. }) => {
                self.commands.counters.cmd_flush += u64::from(flush.reply.is_some());
                (Ended::Done(()), Line::Ok)
            }
            Answer::Done(Outcome { abort: Some(Abort::Condition(_)), .. }) => {
                self.counters.conflicts += 1;
                flush.conflicts += 1;
                if flush.conflicts < ATTEMPTS {
                    return self.begin_flush(flush);
                }
                (Ended::NotDone, Line::Contended)
            }
            Answer::Done(_) => (Ended::NotDone, Line::OutOfMemory),
            Answer::NotDone => (Ended::NotDone, Line::Unanswered),
            Answer::Unknown => (Ended::Unknown, Line::UnknownOutcome),
        };
        self.end_flush(flush, ended, line);
    }

    fn end_flush(&mut self, flush: Flush<T>, ended: Ended<()>, line: Line) {
        self.is_flushing = false;
        let is_done = ended == Ended::Done(());
        let said = match flush.reply {
            Some(reply) if is_done || reply.is_silent() => Said::Reply(reply),
            Some(_) => Said::Reply(LateReply::of(line.bytes().to_vec())),
            None if is_done => {
                Said::Answer(sessions::Answer { status: Status::Ok, version: Version(0), number: 0 })
            }
            None => Said::Nothing,
        };
        self.say(Told { whose: flush.whose, ended, said });
    }
}
