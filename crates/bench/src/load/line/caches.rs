//! The in-network protocol: `serve::inc`'s client, behind a box or past all of them.
//!
//! What is lost is sent again by the client's machine; an operation that nobody answers for its patience has failed.
//!
//! Bounds: a read has one key, a value fits a datagram, and no more is under way than the topology's `coherence.operations`:
//! [`Caches::check`] says so before a run begins.

use super::{Ask, Heard, Line, Received, Ticket};
use crate::load::counts::Tally;
use crate::load::dialect::{Dialect, Item, Part, Refusal, Storing, Verdict};
use crate::load::keys::{KeyFormat, KeyRoom};
use crate::load::value;
use base::Nanos;
use protocol::coherence::client::{Answer, Call, Failed, OpId, Refused};
use protocol::wire::{MAX_VALUE, Status, Verb, Version};
use serve::inc::{self, IncError, Topology};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// See the file's head.
pub struct Caches {
    client: inc::Client,
    direct: bool,
    keys: Option<KeyFormat>,
    room: KeyRoom,
    /// What each operation under way was asked as.
    tickets: HashMap<OpId, (Ticket, Verb)>,
    /// The outcome that `receive` saw, until `next` takes it.
    seen: Option<(OpId, Result<Answer, Failed>)>,
    /// What `next` lends.
    answer: Answer,
    value: Vec<u8>,
}

impl Caches {
    /// A client of the topology in `file`, behind box `tor` or the first; `direct`: past all boxes.
    ///
    /// # Errors
    /// The topology makes no sense, or there is no socket.
    pub fn connect(file: &Path, tor: Option<u16>, direct: bool) -> Result<Caches, IncError> {
        let topology = Topology::read(file)?;
        Ok(Caches {
            client: inc::Client::init(&topology, tor)?,
            direct,
            keys: None,
            room: KeyRoom::new(),
            tickets: HashMap::new(),
            seen: None,
            answer: Answer::of(Status::Miss),
            value: Vec::new(),
        })
    }

    /// Whether a client of the topology in `file` can have `pipeline` operations under way with such values.
    ///
    /// # Errors
    /// What is too much, in words.
    pub fn check(file: &Path, pipeline: usize, longest_value: usize) -> Result<(), String> {
        let topology = Topology::read(file).map_err(|error| error.to_string())?;
        let most = topology.config().operations;
        if pipeline > most {
            return Err(format!(
                "--pipeline is more than the {most} operations that register coherence.operations of {} allows",
                file.display()
            ));
        }
        if longest_value > MAX_VALUE {
            return Err(format!("the in-network cache keeps values of at most {MAX_VALUE} bytes"));
        }
        Ok(())
    }

    fn call(&mut self, ask: Ask<'_>) -> Call {
        let keys = self.keys.expect("a phase began");
        let mut call = |verb, key| Call::new(verb, keys.write(key, &mut self.room));
        match ask {
            Ask::Read { keys: &[key], .. } => call(Verb::Get, key),
            Ask::Read { .. } => unreachable!("a packet has one key; the arguments were checked"),
            Ask::Delete(key) => call(Verb::Delete, key),
            Ask::Touch { key, ttl_s } => Call { life: life(ttl_s), ..call(Verb::Touch, key) },
            Ask::Store(Storing { key, nonce, run, len, ttl_s, cas }) => {
                let verb = if cas.is_some() { Verb::Cas } else { Verb::Set };
                let mut call = call(verb, key);
                self.value.clear();
                value::write(&mut self.value, key, nonce, run, len);
                call.value.clone_from(&self.value);
                call.flags = value::flags_of(key);
                call.version = Version(cas.unwrap_or(0));
                call.life = life(ttl_s);
                call
            }
        }
    }
}

fn life(ttl_s: u32) -> Nanos {
    if ttl_s == 0 { Nanos::MAX } else { Nanos::from_secs(u64::from(ttl_s)) }
}

impl Line for Caches {
    fn begin(&mut self, _dialect: Dialect, keys: KeyFormat) {
        self.keys = Some(keys);
    }

    fn ask(&mut self, ticket: Ticket, ask: Ask<'_>, tally: &mut Tally) {
        let call = Call { no_cache: self.direct, ..self.call(ask) };
        let verb = call.verb;
        tally.counts.sent += packet_len(&call.key, &call.value);
        match self.client.start(call) {
            Ok(operation) => drop(self.tickets.insert(operation, (ticket, verb))),
            Err(Refused::Full | Refused::Bad) => {
                unreachable!("the arguments were checked: key, value and pipeline fit")
            }
        }
    }

    fn flush(&mut self, _tally: &mut Tally) -> io::Result<()> {
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        // What the system does not take is lost, and sent again.
        false
    }

    fn receive(&mut self, _tally: &mut Tally) -> io::Result<Received> {
        self.client.serve()?;
        if self.seen.is_none() {
            self.seen = self.client.poll_outcome();
        }
        Ok(if self.seen.is_some() { Received::All } else { Received::Nothing })
    }

    fn next(&mut self, tally: &mut Tally) -> io::Result<Option<Heard<'_>>> {
        loop {
            let Some((operation, outcome)) = self.seen.take().or_else(|| self.client.poll_outcome()) else {
                return Ok(None);
            };
            // Operations of an abandoned phase have no ticket any more.
            let Some((ticket, verb)) = self.tickets.remove(&operation) else { continue };
            let part = match outcome {
                Ok(answer) => {
                    tally.counts.received += packet_len(&[], &answer.value);
                    self.answer = answer;
                    part(verb, &self.answer)
                }
                Err(Failed::NotDone) => refused(Refusal::Unanswered, b"nobody answered; it was not done"),
                Err(Failed::Unknown) => {
                    refused(Refusal::Unanswered, b"nobody answered; it may have been done")
                }
            };
            let from_box = outcome_from_box(&part, &self.answer);
            return Ok(Some(Heard { ticket: Some(ticket), part, from_box }));
        }
    }

    fn waitable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.client.as_fd())
    }

    fn next_deadline(&self) -> Nanos {
        self.client.next_deadline()
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn abandon(&mut self) {
        self.tickets.clear();
    }
}

fn outcome_from_box(part: &Part<'_>, answer: &Answer) -> bool {
    !matches!(part.verdict, Some(Verdict::Refused(..))) && answer.from_box
}

/// Bytes of a packet that is sent once.
fn packet_len(key: &[u8], value: &[u8]) -> u64 {
    (protocol::wire::HEADER + key.len().next_multiple_of(8) + value.len().next_multiple_of(8)) as u64
}

fn refused(refusal: Refusal, why: &'static [u8]) -> Part<'static> {
    Part { item: None, absent: false, verdict: Some(Verdict::Refused(refusal, why)), used: 0 }
}

fn part(verb: Verb, answer: &Answer) -> Part<'_> {
    let item =
        Item { key: None, flags: Some(answer.flags), cas: Some(answer.version.0), data: &answer.value };
    let verdict = match answer.status {
        Status::Ok => Verdict::Done,
        Status::Miss => Verdict::NotFound,
        Status::Exists | Status::NotStored => Verdict::Conflict,
        status => return refused(Refusal::Server, status.name().as_bytes()),
    };
    let item = (verb == Verb::Get && answer.status == Status::Ok).then_some(item);
    Part { item, absent: false, verdict: Some(verdict), used: 0 }
}

#[cfg(test)]
mod tests {
    use crate::load::bench::execute;
    use crate::load::{BenchArgs, LoadError};
    use clap::Parser;
    use serve::inc::plan;
    use serve::inc::rack::Rack;
    use serve::inc::topology::Shape;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use tempfile::TempDir;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn args(line: &str) -> BenchArgs {
        Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}")).bench
    }

    #[test]
    fn a_round_over_boxes_and_past_them_with_every_value_checked() {
        // Nobody is slow here: what waits for a timeout is the machine's load.
        let patient = ["coherence.patience=60000000", "coherence.lease=60000000", "coherence.bypass=0"];
        let settings: Vec<_> = patient.iter().map(|text| plan::setting(text).expect("a setting")).collect();
        let shape = Shape { tors: 2, roots: 1, homes: 2, controllers: 0 };
        let rack = Rack::start(&shape, &plan::registers(&settings).expect("settings")).expect("ports");
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("rack.toml");
        rack.topology().write(&file).expect("two files");
        let run = |target: &str, more: &str| {
            let line = format!(
                "bench {target}:{} --keys 200 -c 3 --ops 6k --warmup 0 --json {more} \
                 --get 6 --set 2 --delete 1 --touch 1 --modify 1 --insert 0.2 --value 1-2000",
                file.display()
            );
            let result =
                execute(&args(&line), Arc::new(AtomicBool::new(false))).unwrap_or_else(|e| panic!("{e}"));
            result.verdict().unwrap_or_else(|error| panic!("{error}"));
            result.sides()[0].1.clone()
        };
        let cached = run("inc", "--check strict --misses-fail");
        let direct = run("inc-direct", "-P 8");
        for summary in [&cached, &direct] {
            assert_eq!(summary.failed_count(), 0, "{:?}", summary.examples);
            assert!(
                summary.ops == 6000 && summary.verified > 1000 && summary.kinds.len() == 6,
                "{summary:?}"
            );
        }
        assert!(cached.by_box.is_some_and(|hits| hits.count > 100) && direct.by_box.is_none());
        let plan = |more: &str| {
            let args = args(&format!("bench inc:{} {more}", file.display()));
            args.fleet(&args.target, 0, args.keys.first()).expect_err("a contradiction").to_string()
        };
        assert!(plan("--multiget 2").contains("multi-gets") && plan("-w e").contains("multi-gets"));
        assert!(plan("--check strict -P 2").contains("overtake"));
        assert!(plan("-P 1000").contains("coherence.operations") && plan("--value 70000").contains("65056"));
        drop(folder);
        let gone = args(&format!("bench inc:{}", file.display()));
        let gone = execute(&gone, Arc::new(AtomicBool::new(false)));
        assert!(matches!(gone, Err(LoadError::Plan(text)) if text.contains("millrace inc topology")));
    }
}
