//! The store against a map of plain items: every answer, every field, over random operations.
//!
//! In store mode nothing may be missing. In cache mode an item may be missing, but never wrong, old or half written.

mod expected;
mod steps;

pub(crate) use steps::{Op, Source, Step};

use super::tiny;
use crate::*;
use expected::expected;
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    value: Vec<u8>,
    flags: u32,
    expiry: u32,
    version: u64,
    access: u32,
    fetched: bool,
    stale: bool,
    win_sent: bool,
}

/// An answer with all that the caller sees; versions are `None` where nothing was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Miss,
    Hit {
        known: Known,
        access_before: u32,
        hit_before: bool,
        expiry_before: u32,
        won: bool,
        sent: bool,
        stale: bool,
    },
    Set(SetOutcome),
    Failed(SetError),
    Delete(DeleteOutcome),
    Arith(ArithOutcome),
    Touched(bool),
}

/// What the store answers.
pub(crate) fn perform(store: &mut Store, step: &Step) -> Answer {
    let key = store.key(&step.key).expect("1 to 250 bytes");
    match &step.op {
        Op::Get(how) => answer_of(store.get(step.now, key, how)),
        Op::Set(value, how) => store.set(step.now, key, value, how).map_or_else(Answer::Failed, Answer::Set),
        Op::Delete(how) => store.delete(step.now, key, how).map_or_else(Answer::Failed, Answer::Delete),
        Op::Arith(how) => store.arith(step.now, key, how).map_or_else(Answer::Failed, Answer::Arith),
        Op::Touch(expiry) => Answer::Touched(store.touch(step.now, key, *expiry)),
    }
}

pub(crate) fn answer_of(hit: Option<Hit<'_>>) -> Answer {
    let Some(hit) = hit else { return Answer::Miss };
    if let Some(large) = hit.large() {
        assert_eq!(&large[..], hit.value());
    }
    let known = Known {
        value: hit.value().to_vec(),
        flags: hit.flags(),
        expiry: hit.expiry(),
        version: hit.version(),
        access: 0,
        fetched: false,
        stale: hit.is_stale(),
        win_sent: false,
    };
    Answer::Hit {
        known,
        access_before: hit.access_before(),
        hit_before: hit.was_hit_before(),
        expiry_before: hit.expiry_before(),
        won: hit.won(),
        sent: hit.win_was_sent(),
        stale: hit.is_stale(),
    }
}

/// Store and model side by side.
pub(crate) struct Pair {
    pub(crate) store: Store,
    model: HashMap<Vec<u8>, Known>,
    flush_at: u32,
    pub(crate) last_version: u64,
    pub(crate) refused: u64,
    pub(crate) missing: u64,
}

impl Pair {
    pub(crate) fn new(store: Store) -> Pair {
        Pair { store, model: HashMap::new(), flush_at: u32::MAX, last_version: 0, refused: 0, missing: 0 }
    }

    pub(crate) fn flush_all(&mut self, now: u32, at: u32) {
        self.store.flush_all(now, at);
        self.due(now);
        self.flush_at = at;
        self.due(now);
    }

    pub(crate) fn due(&mut self, now: u32) {
        if now >= self.flush_at {
            self.model.clear();
            self.flush_at = u32::MAX;
        }
    }

    fn known(&self, now: u32, key: &[u8]) -> Option<Known> {
        self.model.get(key).filter(|k| k.expiry == 0 || k.expiry > now).cloned()
    }

    pub(crate) fn step(&mut self, step: &Step) {
        self.due(step.now);
        let before = self.known(step.now, &step.key);
        let answer = perform(&mut self.store, step);
        let version = self.version_in(step, &answer, before.as_ref());
        let (mut wanted, mut after) = expected(step, before.clone(), version);
        let cache = self.store.config.mode == Mode::Cache;
        if cache && before.is_some() {
            // The operation itself may have evicted its own item first; then it must have gone as without one.
            let without = expected(step, None, version);
            if answer != wanted || answer == without.0 && self.seen(step) == without.1 {
                (wanted, after) = without;
                self.missing += 1;
            }
        }
        if let (Answer::Failed(error), Answer::Set(SetOutcome::Stored { .. })) = (&answer, &wanted) {
            self.check_refusal(step, *error, before);
            return;
        }
        if let (Answer::Failed(SetError::OutOfMemory), false) = (&answer, cache) {
            self.refused += 1;
            return self.compare(step, before);
        }
        if (&answer, cache) == (&Answer::Miss, false)
            && matches!(wanted, Answer::Hit { won: true, .. })
            && before.is_none()
        {
            self.refused += 1;
            return self.compare(step, None);
        }
        assert_eq!(answer, wanted, "{step:?} of {before:?}");
        self.compare(step, after);
    }

    /// A SET that did not succeed: too long, or no memory, which in cache mode only large values may meet.
    fn check_refusal(&mut self, step: &Step, error: SetError, before: Option<Known>) {
        let Op::Set(value, how) = &step.op else { panic!("{step:?} refused") };
        let cache = self.store.config.mode == Mode::Cache;
        let joined = value.len() + before.as_ref().map_or(0, |k| k.value.len());
        match error {
            SetError::TooLarge => assert!(joined > self.store.config.max_value, "{} B refused", value.len()),
            SetError::OutOfMemory => assert!(!cache || joined > 1500, "a cache refused {} B", value.len()),
        }
        self.refused += 1;
        let removes = cache && how.verb == Verb::Set && how.compare.is_none();
        self.compare(step, before.filter(|_| !removes));
    }

    /// The version a write got. The store's own ones rise.
    fn version_in(&mut self, step: &Step, answer: &Answer, before: Option<&Known>) -> u64 {
        let (given, asked) = match (answer, &step.op) {
            (Answer::Set(SetOutcome::Stored { version, .. }), Op::Set(_, how)) => (*version, how.version),
            (Answer::Delete(DeleteOutcome::Kept(version)), Op::Delete(how)) => (*version, how.version),
            (Answer::Arith(ArithOutcome::Done { version, .. }), Op::Arith(how)) => (*version, how.version),
            (Answer::Hit { known, won: true, .. }, Op::Get(how))
                if how.vivify.is_some() && before.is_none_or(|k| k.version != known.version) =>
            {
                (known.version, how.version)
            }
            _ => return 0,
        };
        match asked.filter(|&v| v != 0) {
            Some(asked) => assert_eq!(given, asked, "{step:?}"),
            None => assert!(given > self.last_version, "{step:?} got {given} after {}", self.last_version),
        }
        self.last_version = self.last_version.max(given);
        given
    }

    /// The item as the store has it now.
    fn seen(&self, step: &Step) -> Option<Known> {
        let key = self.store.key(&step.key).expect("1 to 250 bytes");
        self.store.peek(step.now, key).map(|p| Known {
            value: p.value.to_vec(),
            flags: p.flags,
            expiry: p.expiry,
            version: p.version,
            access: p.access,
            fetched: p.fetched,
            stale: p.stale,
            win_sent: p.win_sent,
        })
    }

    /// Asserts that the item is as wanted, field by field.
    fn compare(&mut self, step: &Step, wanted: Option<Known>) {
        let seen = self.seen(step);
        let wanted = wanted.filter(|k| k.expiry == 0 || k.expiry > step.now);
        match (&seen, &wanted) {
            (None, Some(_)) if self.store.config.mode == Mode::Cache => self.missing += 1,
            _ => assert_eq!(seen, wanted, "after {step:?}"),
        }
        match seen {
            Some(known) => self.model.insert(step.key.clone(), known),
            None => self.model.remove(&step.key),
        };
    }

    /// In store mode everything must be there; in either nothing else.
    pub(crate) fn compare_all(&self, now: u32) {
        let mut found = 0;
        let mut cursor = Some(Cursor::default());
        while let Some(at) = cursor {
            cursor = self.store.list(now, at, |peek| {
                let known = self.known(now, peek.key).expect("the store has a key that the model has not");
                assert_eq!((&known.value[..], known.version), (peek.value, peek.version));
                found += 1;
            });
        }
        let wanted = self.model.keys().filter(|key| self.known(now, key).is_some()).count();
        assert!(found == wanted || self.store.config.mode == Mode::Cache && found < wanted);
    }
}

/// `steps` random operations, checked as a whole now and then.
pub(crate) fn run(mut pair: Pair, seed: u64, steps: usize, keys: u64) -> Pair {
    let mut source = Source::new(seed);
    source.keys = keys;
    for number in 0..steps {
        let step = source.step();
        pair.step(&step);
        source.seen = pair.last_version;
        if number % 5000 == 4999 {
            let at = source.now + source.prng.below(3) as u32 * 4;
            if source.prng.below(2) == 0 {
                pair.flush_all(source.now, at);
            }
        }
        if number % 64 == 0 {
            pair.store.maintain(source.now, 4096);
        }
        if number % 1000 == 999 || number + 1 == steps {
            pair.store.check();
            pair.due(source.now);
            pair.compare_all(source.now);
        }
    }
    pair
}

#[test]
fn a_cache_never_answers_wrong() {
    for seed in 0..4 {
        // So many keys that the memory fills between two flushes.
        let pair = run(Pair::new(tiny(Mode::Cache)), seed, 60_000, 30_000);
        let stats = pair.store.stats();
        assert!(stats.evicted > 300 && stats.expired > 100, "the test must reach eviction: {stats:?}");
        assert!(stats.ghost_hits > 10 && stats.bytes_copied > 0, "{stats:?}");
        assert!(pair.missing > 100);
    }
}

#[test]
fn a_store_loses_nothing() {
    for seed in 0..4 {
        let pair = run(Pair::new(tiny(Mode::Store)), seed, 60_000, 1500);
        let stats = pair.store.stats();
        assert_eq!(stats.evicted, 0);
        assert!(stats.segments_cleaned > 50 && stats.bytes_copied > 0, "{stats:?}");
        assert_eq!(pair.missing, 0);
    }
}

/// Short enough for Miri.
#[test]
fn a_short_run_in_either_mode() {
    for mode in [Mode::Cache, Mode::Store] {
        run(Pair::new(tiny(mode)), 3, 300, 40);
    }
}

#[test]
fn a_full_store_refuses_and_loses_nothing() {
    let pair = run(Pair::new(tiny(Mode::Store)), 9, 60_000, 12_000);
    assert!(pair.refused > 100, "the test must reach the limit: {:?}", pair.store.stats());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_seed_any_key_space(seed in any::<u64>(), keys in 8u64..8000, steps in 1usize..3000, cache in any::<bool>()) {
        let mode = if cache { Mode::Cache } else { Mode::Store };
        run(Pair::new(tiny(mode)), seed, steps, keys);
    }
}
