//! Readers and writers of one key in every order that chance finds, over a map: each step of each is one moment, so what goes wrong is in
//! the protocol and nothing else. Boxes, homes, lives and faults are `prove::sim`'s.

use super::*;
use crate::coherence::client::{Answer, Call, Failed};
use crate::coherence::compute::{self, Effect, Operation};
use crate::wire::{Status, Verb, Version};
use base::Prng;
use proptest::prelude::*;
use std::collections::BTreeMap;

const LIVES: Lives = Lives { claim: Nanos(10), mark: Nanos(20) };
const TTL: Nanos = Nanos(1000);

/// A linearizable store, that may lose what it has.
#[derive(Default)]
struct Store {
    items: BTreeMap<Vec<u8>, compute::Item>,
    version: u64,
}

impl Store {
    fn ask(&mut self, call: &Call) -> Answer {
        let there = self.items.get(&call.key);
        if call.verb == Verb::Get {
            return there.map_or(Answer::of(Status::Miss), |item| Answer {
                value: item.value.clone(),
                version: item.version,
                ..Answer::of(Status::Ok)
            });
        }
        let operation = Operation {
            verb: call.verb,
            value: &call.value,
            operand: call.operand,
            version: call.version,
            flags: call.flags,
            kind: call.kind,
        };
        let outcome = compute::apply(&operation, there);
        if let Effect::Store { value, flags, kind, .. } = outcome.effect {
            self.version += 1;
            let version = Version(self.version);
            let item = compute::Item { value, flags, kind, version, end: Nanos::MAX };
            self.items.insert(call.key.clone(), item);
        }
        Answer { version: Version(self.version), ..Answer::of(outcome.status) }
    }
}

/// What a reader or a writer does next.
#[derive(Debug)]
enum Step {
    Ask(Call),
    Run,
    Reply(u64),
    Over,
}

enum Machine {
    Read(Read<Option<Planted>>, Option<u64>),
    Write(Write<Option<Planted>>),
}

struct Actor {
    /// Which of the two names it is about.
    of: usize,
    machine: Machine,
    step: Step,
    /// What a reader must see at least, as of when it began.
    floor: u64,
    /// What the handler wrote.
    wrote: u64,
}

/// What is behind the handlers, and what was seen of it: for each name a number that every write makes larger.
#[derive(Default)]
struct Behind {
    now: [u64; 2],
    floor: [u64; 2],
}

fn item(of: usize) -> Item {
    // Names that share an item.
    Item { key: b"k".to_vec(), name: vec![b'a' + of as u8] }
}

fn bytes(of: usize, number: u64) -> Vec<u8> {
    [&[of as u8][..], &number.to_le_bytes()].concat()
}

fn number(of: usize, bytes: &[u8]) -> Result<u64, String> {
    if bytes[0] as usize != of {
        return Err(format!("a reader of {of} sees what {} has", bytes[0]));
    }
    Ok(u64::from_le_bytes(*bytes[1..].first_chunk().expect("eight bytes")))
}

impl Actor {
    fn new(of: usize, writes: bool, token: u64, behind: &Behind, bug: Option<Planted>) -> Actor {
        let (machine, call) = if writes {
            let (write, call) = Write::with_bugs(item(of), token, LIVES, bug);
            (Machine::Write(write), call)
        } else {
            let (read, call) = Read::with_bugs(item(of), b"q", token, (TTL, LIVES), bug);
            (Machine::Read(read, None), call)
        };
        Actor { of, machine, step: Step::Ask(call), floor: behind.floor[of], wrote: 0 }
    }

    /// One moment of it; whether it is over.
    fn go(&mut self, store: &mut Store, behind: &mut Behind, fails: Option<Failed>) -> Result<bool, String> {
        let step = std::mem::replace(&mut self.step, Step::Over);
        match (step, &mut self.machine) {
            (Step::Ask(call), machine) => {
                let answer = match fails {
                    Some(Failed::NotDone) => Err(Failed::NotDone),
                    // Done, and nobody hears.
                    Some(Failed::Unknown) => {
                        store.ask(&call);
                        Err(Failed::Unknown)
                    }
                    None => Ok(store.ask(&call)),
                };
                let outcome = answer.as_ref().map_err(|failed| *failed);
                match machine {
                    Machine::Read(read, Some(seen)) => {
                        read.stored(outcome);
                        let seen = *seen;
                        self.step = Step::Reply(seen);
                    }
                    Machine::Read(read, None) => {
                        self.step = match read.answered(outcome) {
                            ReadNext::Ask(call) => Step::Ask(call),
                            ReadNext::Handle => Step::Run,
                            ReadNext::Hit(reply) => Step::Reply(number(self.of, &reply)?),
                        };
                    }
                    Machine::Write(write) => {
                        let next = write.answered(outcome);
                        self.wrote(next, behind);
                    }
                }
            }
            (Step::Run, Machine::Read(read, seen)) => {
                *seen = Some(behind.now[self.of]);
                let reply = bytes(self.of, behind.now[self.of]);
                // The reply may come before or after it is stored; this is the earliest that others may rely on it.
                self.step = match read.handled(Some(&reply)) {
                    Some(call) => Step::Ask(call),
                    None => Step::Reply(behind.now[self.of]),
                };
            }
            (Step::Run, Machine::Write(write)) => {
                behind.now[self.of] += 1;
                self.wrote = behind.now[self.of];
                let next = write.handled();
                self.wrote(next, behind);
            }
            (Step::Reply(seen), _) => {
                if seen < self.floor {
                    return Err(format!("a reader sees {seen}, and {} was seen before it began", self.floor));
                }
                behind.floor[self.of] = behind.floor[self.of].max(seen);
            }
            (Step::Over, _) => return Ok(true),
        }
        Ok(matches!(self.step, Step::Over))
    }

    fn wrote(&mut self, next: WriteNext, behind: &mut Behind) {
        self.step = match next {
            WriteNext::Ask(call) => Step::Ask(call),
            WriteNext::Handle => Step::Run,
            WriteNext::Refused => Step::Over,
            WriteNext::Over { is_sure } => {
                if is_sure {
                    behind.floor[self.of] = behind.floor[self.of].max(self.wrote);
                }
                Step::Over
            }
        };
    }
}

/// What is wrong with the run of this seed, if anything is. `loses`: items are lost, marks too; then only what was acknowledged must be seen.
fn play(seed: u64, bug: Option<Planted>, loses: bool) -> Result<u64, String> {
    let mut random = Prng::new(seed);
    let (mut store, mut behind) = (Store::default(), Behind::default());
    let mut actors: Vec<Actor> = Vec::new();
    let fails_one_in = [0, 20][random.below(2) as usize];
    let (mut token, mut hits) = (0, 0);
    for _ in 0..200 {
        if actors.len() < 4 && random.below(3) == 0 {
            token += 1;
            let (of, writes) = (random.below(2) as usize, random.below(3) == 0);
            actors.push(Actor::new(of, writes, token, &behind, bug));
        }
        if loses && random.below(30) == 0 {
            store.items.clear();
        }
        if actors.is_empty() {
            continue;
        }
        let at = random.below(actors.len() as u64) as usize;
        let fails = fails_one_in > 0 && random.below(fails_one_in) == 0;
        let fails = fails.then(|| [Failed::NotDone, Failed::Unknown][random.below(2) as usize]);
        // A process that dies.
        if fails.is_some() && random.below(10) == 0 {
            actors.swap_remove(at);
            continue;
        }
        let floor = behind.floor;
        hits += u64::from(matches!(actors[at].step, Step::Reply(_)));
        if actors[at].go(&mut store, &mut behind, fails)? {
            let actor = actors.swap_remove(at);
            if loses && matches!(actor.machine, Machine::Read(..)) {
                behind.floor = floor;
            }
        }
    }
    Ok(hits)
}

#[test]
fn readers_see_what_was_acknowledged_and_never_go_back() {
    for seed in 0..10_000 {
        play(seed, None, false).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn what_was_acknowledged_is_seen_also_where_items_are_lost() {
    for seed in 0..10_000 {
        play(seed, None, true).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn each_mistake_is_found() {
    for &planted in Planted::ALL {
        let loses = planted == Planted::LostMarkIsFine;
        let found = (0..10_000).find(|&seed| play(seed, Some(planted), loses).is_err());
        assert!(found.is_some(), "{} is not found", planted.name());
    }
}

#[test]
fn a_reply_is_kept_and_found_again() {
    let mut store = Store::default();
    let mut ask = |call: Call| store.ask(&call);
    let (mut first, call) = Read::begin(Item::of("shop.Cart", "Get", b"7"), b"q", 1, TTL, LIVES);
    assert_eq!(call.key, b"rpc/shop.Cart/Get/7");
    let ReadNext::Ask(claim) = first.answered(Ok(&ask(call))) else { panic!("nothing is there") };
    assert_eq!((claim.verb, claim.life), (Verb::Add, LIVES.claim));
    assert_eq!(first.answered(Ok(&ask(claim))), ReadNext::Handle);
    let store_it = first.handled(Some(b"reply")).expect("it is stored");
    assert_eq!(store_it.life, TTL);
    assert!(first.stored(Ok(&ask(store_it))));
    let mut look = |request: &[u8]| {
        let (mut read, call) = Read::begin(Item::of("shop.Cart", "Get", b"7"), request, 2, TTL, LIVES);
        read.answered(Ok(&ask(call)))
    };
    assert_eq!(look(b"q"), ReadNext::Hit(b"reply".to_vec()));
    assert!(matches!(look(b"another"), ReadNext::Ask(claim) if claim.verb == Verb::Cas), "another request");
}

#[test]
fn a_write_that_cannot_be_marked_is_refused_and_one_that_cannot_end_is_not_sure() {
    let (mut write, _) = Write::begin(item(0), 1, LIVES);
    let mut next = write.answered(Err(Failed::NotDone));
    for _ in 1..MOST_TRIES {
        assert!(matches!(next, WriteNext::Ask(_)));
        next = write.answered(Err(Failed::NotDone));
    }
    assert_eq!(next, WriteNext::Refused);
    let mut store = Store::default();
    let (mut write, call) = Write::begin(item(0), 1, LIVES);
    let WriteNext::Ask(mark) = write.answered(Ok(&store.ask(&call))) else { panic!("it marks") };
    assert_eq!(write.answered(Ok(&store.ask(&mark))), WriteNext::Handle);
    let mut next = write.handled();
    for _ in 1..=MOST_TRIES {
        assert!(matches!(next, WriteNext::Ask(_)));
        next = write.answered(Err(Failed::Unknown));
    }
    assert_eq!(next, WriteNext::Over { is_sure: false });
}

#[test]
fn keys_are_printable_and_names_whole() {
    let plain = Item::of("s", "m", b"key");
    assert_eq!(plain.key, plain.name);
    for key in [&b"with blank"[..], b"\x00", &[b'x'; 300]] {
        let hashed = Item::of("s", "m", key);
        assert!(hashed.key.len() <= MAX_KEY && hashed.key.iter().all(u8::is_ascii_graphic));
        assert!(hashed.key.starts_with(b"rpc#") && hashed.name.ends_with(key));
    }
}

proptest! {
    #[test]
    fn entries_come_back(name: Vec<u8>, request: Vec<u8>, reply: Vec<u8>, token: u64, count in 1u64..=64) {
        let tokens = (0..count).map(|n| token.wrapping_add(n)).collect();
        let kept = Entry::Kept { name: &name, request: &request, reply: &reply };
        for entry in [kept, Entry::Claimed(token), Entry::Marked(tokens), Entry::Nothing] {
            let bytes = entry.to_bytes();
            prop_assert_eq!(Entry::parse(&bytes), Some(entry));
        }
    }

    #[test]
    fn any_bytes_are_an_entry_or_not(bytes: Vec<u8>) {
        for bytes in [bytes.clone(), [b"Rk", &bytes[..]].concat(), [b"Rw", &bytes[..]].concat()] {
            if let Some(entry) = Entry::parse(&bytes) {
                prop_assert_eq!(entry.to_bytes(), bytes);
            }
        }
    }
}
