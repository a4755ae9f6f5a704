//! Lines at two places, whose share moves while requests are under way: a script of random steps against an engine that answers when it is told to.

use super::*;
use crate::frame::Frame;
use base::Prng;
use base::prng::mix64;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Keeps what it was given until the test has it done.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<VecDeque<(u8, u32)>>>);

impl Executor for Slow {
    fn submit(&mut self, origin: Origin, request: &[u8]) -> Result<(), Full> {
        self.0.lock().expect("no poison").push_back((request[0], origin.connection as u32));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.0.lock().expect("no poison").len()
    }

    fn flush(&mut self) {}

    fn collect(&mut self, _: Nanos, _: &mut dyn FnMut(u64, &[u8])) -> usize {
        0
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}

    fn descriptors<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}
}

/// What was done: of each key the numbers of its requests, as they ran.
#[derive(Default)]
struct Played {
    ran: BTreeMap<u8, Vec<u32>>,
    /// Requests that ran on the server's thread, and on the engine.
    at: [u32; 2],
    /// A key that was at two places though no register had changed.
    strayed: bool,
}

fn part_of(key: u8) -> u8 {
    (mix64(u64::from(key)) % PARTS) as u8
}

/// Plays it; with `forgets`, routes of lines are forgotten, so that nothing waits for the place before.
fn play(seed: u64, forgets: bool) -> Played {
    let mut random = Prng::new(seed);
    let registers = Registers::default();
    let engine = Slow::default();
    let mut places = Places { engine: Some(Box::new(engine.clone())), ..Places::default() };
    let (mut played, mut version, mut last) = (Played::default(), 0, BTreeMap::new());
    let (mut next, mut waits) = (0u32, None);
    let done = |played: &mut Played, (key, number): (u8, u32), at: usize| {
        played.ran.entry(key).or_default().push(number);
        played.at[at] += 1;
    };
    while next < 3000 || waits.is_some() {
        let set = |name: &str, value: &str| registers.set_live(name, value).expect("a value");
        match random.below(40) {
            0 => set("place.handlers", ["edge", "engine"][random.below(2) as usize]),
            1 => set("place.other", ["edge", "engine"][random.below(2) as usize]),
            2..=3 => set("place.share", &random.below(101).to_string()),
            4..=15 => {
                let first = engine.0.lock().expect("no poison").pop_front();
                first.into_iter().for_each(|first| done(&mut played, first, 1));
                continue;
            }
            _ => {
                let (key, number) = waits.take().unwrap_or_else(|| {
                    next += 1;
                    (random.below(40) as u8, next)
                });
                if forgets {
                    places.lines = Places::default().lines;
                }
                let target = places.target(AllowedPlaces::ANY, true, part_of(key));
                match target {
                    Target::Here => done(&mut played, (key, number), 0),
                    Target::There(at) => {
                        let origin = Origin { connection: number.into(), arrived: Nanos::ZERO };
                        places.submit(at, origin, &[key]).expect("it has room");
                    }
                    Target::Wait => waits = Some((key, number)),
                    Target::Nowhere => panic!("the server's thread is there"),
                }
                if target != Target::Wait {
                    let before = last.insert(key, (version, target));
                    played.strayed |= before.is_some_and(|(at, was)| at == version && was != target);
                }
                continue;
            }
        }
        version += 1;
        places.follow(&registers);
    }
    let rest: Vec<_> = engine.0.lock().expect("no poison").drain(..).collect();
    rest.into_iter().for_each(|one| done(&mut played, one, 1));
    played
}

#[test]
fn a_share_that_moves_loses_doubles_and_reorders_nothing() {
    for seed in 0..50 {
        let played = play(seed, false);
        let all: Vec<u32> = played.ran.values().flatten().copied().collect();
        assert_eq!((all.len(), played.strayed), (3000, false), "seed {seed}");
        // Each key's are rising: none came twice, none before another.
        for (key, numbers) in &played.ran {
            assert!(numbers.is_sorted_by(|a, b| a < b), "seed {seed}, key {key}: {numbers:?}");
        }
        assert!(played.at.iter().all(|count| *count > 300), "seed {seed}: {:?}", played.at);
    }
}

#[test]
fn lines_that_wait_for_nobody_are_found_out_of_order() {
    let is_wrong = |seed| play(seed, true).ran.values().any(|numbers| !numbers.is_sorted());
    assert!((0..50).all(is_wrong), "the checker sees lines that overtake themselves");
}

#[test]
fn a_share_that_grows_takes_keys_along_and_moves_no_other() {
    let registers = Registers::default();
    let mut places = Places { engine: Some(Box::new(Slow::default())), ..Places::default() };
    let mut before = 0;
    for share in 0..=100u8 {
        registers.set_live("place.handlers", "edge").expect("a place");
        registers.set_live("place.other", "engine").expect("a place");
        registers.set_live("place.share", &share.to_string()).expect("a share");
        places.follow(&registers);
        let there =
            |places: &mut Places, part| places.target(AllowedPlaces::ANY, false, part) != Target::Here;
        let moved: Vec<u8> = (0..PARTS as u8).filter(|part| there(&mut places, *part)).collect();
        assert_eq!(moved, (0..share).collect::<Vec<_>>());
        assert!(moved.len() >= before && places.takes() == (share > 0));
        before = moved.len();
    }
    // A place that is not there, or where the method may not run, has no share.
    let only = |place| AllowedPlaces::of(&[place]);
    assert_eq!(places.target(only(Allowed::Edge), false, 0), Target::Here);
    assert_eq!(places.target(only(Allowed::Engine), false, 99), Target::There(At::Engine));
    registers.set_live("place.other", "host").expect("a place");
    places.follow(&registers);
    assert_eq!(places.target(AllowedPlaces::ANY, false, 0), Target::Here);
}

#[test]
fn who_splits_has_the_threads_for_it() {
    let registers = Registers::default();
    let set = |name: &str, value: &str| registers.set_live(name, value).expect("a value");
    set("place.handlers", "edge");
    set("place.other", "host");
    assert_eq!((workers(&registers, false), wants_engine(&registers)), (0, false));
    set("place.share", "30");
    assert_eq!((workers(&registers, false), wants_engine(&registers)), (1, false));
    set("place.other", "engine");
    assert_eq!((workers(&registers, false), wants_engine(&registers)), (0, true));
}

#[test]
fn a_frame_of_no_key_has_a_part_all_the_same() {
    let router = crate::server::Server::new(crate::server::Options::default()).router();
    let mut seen = [0u32; PARTS as usize];
    for call in 0..20_000u32 {
        let header = crate::frame::Header::new(crate::frame::Kind::Request, call);
        let bytes = header.emit();
        let frame = Frame::parse(&bytes).expect("a request");
        seen[usize::from(router.part(&frame, 7))] += 1;
    }
    assert!(seen.iter().all(|count| (100..320).contains(count)), "{seen:?}");
}
