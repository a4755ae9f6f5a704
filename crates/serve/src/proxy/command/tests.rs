//! Commands against a fake home: alone they mean what `store::Store` does, which is held against memcached; together they are
//! linearizable.

use super::*;
use ::store::{
    ArithHow, ArithOutcome, DeleteHow, DeleteOutcome, GetHow, Mode, SetHow, SetOutcome, Store as Real,
    Verb as RealVerb,
};
use proptest::prelude::*;
use protocol::coherence::compute::{self, Effect, Item, Operation};
use protocol::memcache::SetMode;

const KEY: &[u8] = b"key";
const SECOND: u64 = 1_000_000_000;

/// A home with one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Home {
    now: Nanos,
    version: u64,
    item: Option<Item>,
}

impl Home {
    fn answer(&mut self, call: &Call) -> Result<Answer, Failed> {
        assert!(call.verb == Verb::Flush || call.key == KEY);
        self.item.take_if(|item| item.end <= self.now);
        let mut answer = Answer::of(Status::Miss);
        match (call.verb, &self.item) {
            (Verb::Flush, _) => (self.item, answer.status) = (None, Status::Ok),
            (Verb::Get, None) => {}
            (Verb::Get, Some(item)) => {
                let life = if item.end == Nanos::MAX { item.end } else { item.end.since(self.now) };
                (answer.status, answer.flags, answer.kind, answer.life) =
                    (Status::Ok, item.flags, item.kind, life);
                (answer.value, answer.version) = (item.value.clone(), item.version);
            }
            _ => self.write(call, &mut answer),
        }
        Ok(answer)
    }

    fn write(&mut self, call: &Call, answer: &mut Answer) {
        let Call { verb, ref value, operand, version, flags, kind, life, .. } = *call;
        let operation = Operation { verb, value, operand, version, flags, kind };
        let outcome = compute::apply(&operation, self.item.as_ref());
        (answer.status, answer.number) = (outcome.status, outcome.number);
        let is_kept = life == Ttl::KEPT.nanos();
        let before = self.item.as_ref().map(|item| item.end);
        let end = if is_kept { before.unwrap_or(Nanos::MAX) } else { self.now.plus(life) };
        match outcome.effect {
            Effect::Store { value, flags, kind, lives_on } => {
                self.version += 1;
                answer.version = Version(self.version);
                let end = before.filter(|_| lives_on).unwrap_or(end);
                self.item = Some(Item { value, flags, kind, version: Version(self.version), end });
            }
            Effect::Touch => {
                let item = self.item.as_mut().expect("only what is there is touched");
                (item.end, answer.version) = (end, item.version);
            }
            Effect::Remove => self.item = None,
            Effect::Nothing => answer.version = self.item.as_ref().map_or(Version(0), |item| item.version),
        }
    }

    fn run(&mut self, what: &What) -> Outcome {
        let mut task = Task::new(KEY.to_vec(), what.clone());
        let mut call = asked(task.begin());
        loop {
            match task.hear(self.answer(&call)) {
                Next::Done(outcome) => return outcome,
                next => call = asked(next),
            }
        }
    }
}

/// What is asked for by packet.
fn asked(next: Next) -> Call {
    let Next::Ask(call) = next else { panic!("{next:?}") };
    call
}

/// The version that a command compares with, said so that it means the same to home and store.
#[derive(Clone, Copy, Debug)]
enum Against {
    Nothing,
    Zero,
    Present,
    Older,
    Newer,
}

impl Against {
    fn version(self, present: u64) -> Option<u64> {
        match self {
            Against::Nothing => None,
            Against::Zero => Some(0),
            Against::Present => Some(present),
            // 0 would be another case.
            Against::Older => Some(present.saturating_sub(1).max(1)),
            Against::Newer => Some(u64::MAX),
        }
    }
}

/// A command; lives are in seconds.
#[derive(Clone, Debug)]
struct Step {
    passes_s: u64,
    what: What,
    against: Against,
}

fn nanos() -> impl Strategy<Value = Nanos> {
    prop_oneof![3 => Just(Nanos::MAX), 1 => Just(Nanos(0)), 3 => (1u64..40).prop_map(Nanos::from_secs)]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => "[a-c]{0,3}",
        3 => (0u64..120).prop_map(|n| n.to_string()),
        1 => prop_oneof![Just("007"), Just("9 "), Just(" +5"), Just("18446744073709551615")].prop_map(String::from),
    ]
    .prop_map(String::into_bytes)
}

fn what() -> impl Strategy<Value = What> {
    use prop::option::of;
    let read = (of(nanos()), of(nanos()), of(1u32..60), any::<bool>(), any::<bool>()).prop_map(
        |(touch, vivify, recache_below, touch_first, lease)| {
            What::Read(Read { touch, vivify, recache_below, touch_first, lease })
        },
    );
    let mode = prop_oneof![
        Just(SetMode::Set),
        Just(SetMode::Add),
        Just(SetMode::Replace),
        Just(SetMode::Append),
        Just(SetMode::Prepend)
    ];
    let store = (mode, value(), 0u32..3, nanos(), any::<bool>(), of(nanos()), any::<bool>()).prop_map(
        |(mode, value, flags, life, invalidate, vivify, wants_size)| {
            What::Store(Store { mode, value, flags, life, compare: None, invalidate, vivify, wants_size })
        },
    );
    let delete = (any::<bool>(), of(nanos()), any::<bool>()).prop_map(|(invalidate, touch, remove_value)| {
        What::Delete(Delete { compare: None, invalidate, touch, remove_value })
    });
    let delta = prop_oneof![3 => 0u64..30, 1 => Just(u64::MAX)];
    // A home's own INCR differs on purpose; it is tested below.
    let count = (delta, any::<bool>(), of((0u64..9, nanos())), of(nanos())).prop_map(
        |(delta, decrement, create, touch)| {
            What::Count(Count { delta, decrement, create, touch, compare: None, wants_life: true })
        },
    );
    prop_oneof![6 => read, 8 => store, 3 => delete, 4 => count, 1 => nanos().prop_map(What::Touch)]
}

fn step() -> impl Strategy<Value = Step> {
    use Against::{Newer, Nothing, Older, Present, Zero};
    let against = prop_oneof![4 => Just(Nothing), 2 => Just(Present), 1 => Just(Older), 1 => Just(Newer), 1 => Just(Zero)];
    let passes = prop_oneof![4 => Just(0u64), 1 => 1u64..30];
    (passes, what(), against).prop_map(|(passes_s, what, against)| Step { passes_s, what, against })
}

fn comparing(what: &What, version: Option<u64>) -> What {
    let mut what = what.clone();
    match &mut what {
        What::Store(store) => store.compare = version,
        What::Delete(delete) => delete.compare = version,
        What::Count(count) => count.compare = version,
        What::Read(_) | What::Touch(_) | What::Flush(_) => {}
    }
    what
}

/// An end of life as the store has it.
fn expiry(now: u32, life: Nanos) -> u32 {
    match seconds(life) {
        None => 0,
        // As the grammar has it: what is past is past.
        Some(0) => 1,
        Some(left) => now + left,
    }
}

fn life(now: u32, expiry: u32) -> Nanos {
    match expiry {
        0 => Nanos::MAX,
        end => Nanos::from_secs(u64::from(end.saturating_sub(now))),
    }
}

/// The same command as the store takes it.
fn real(store: &mut Real, now: u32, what: &What) -> Outcome {
    match what {
        What::Read(read) => real_read(store, now, read),
        What::Store(put) => real_store(store, now, put),
        What::Delete(delete) => real_delete(store, now, delete),
        What::Count(count) => real_count(store, now, count),
        What::Touch(life) => {
            let key = store.key(KEY).expect("a key");
            if store.touch(now, key, expiry(now, *life)) { Outcome::Touched } else { Outcome::NotFound }
        }
        What::Flush(_) => {
            store.flush_all(now, now);
            Outcome::Flushed
        }
    }
}

fn real_read(store: &mut Real, now: u32, read: &Read) -> Outcome {
    let how = GetHow {
        touch: read.touch.map(|life| expiry(now, life)),
        vivify: read.vivify.map(|life| expiry(now, life)),
        recache_below: read.recache_below,
        touch_first: read.touch_first,
        lease: read.lease,
        ..GetHow::PLAIN
    };
    let key = store.key(KEY).expect("a key");
    store.get(now, key, &how).map_or(Outcome::Miss, |hit| {
        Outcome::Hit(Hit {
            value: hit.value().to_vec(),
            flags: hit.flags(),
            version: 0,
            life: life(now, hit.expiry()),
            life_before: life(now, hit.expiry_before()),
            won: hit.won(),
            stale: hit.is_stale(),
            claimed: hit.win_was_sent(),
        })
    })
}

fn real_store(store: &mut Real, now: u32, put: &Store) -> Outcome {
    let how = SetHow {
        verb: match put.mode {
            SetMode::Set => RealVerb::Set,
            SetMode::Add => RealVerb::Add,
            SetMode::Replace => RealVerb::Replace,
            SetMode::Append => RealVerb::Append,
            SetMode::Prepend => RealVerb::Prepend,
        },
        flags: put.flags,
        expiry: expiry(now, put.life),
        compare: put.compare,
        invalidate: put.invalidate,
        version: None,
        vivify: put.vivify.map(|life| expiry(now, life)),
    };
    let key = store.key(KEY).expect("a key");
    match store.set(now, key, &put.value, &how).expect("room") {
        SetOutcome::Stored { size, .. } => Outcome::Stored { version: 0, size },
        SetOutcome::NotStored => Outcome::NotStored,
        SetOutcome::Exists => Outcome::Exists,
        SetOutcome::NotFound => Outcome::NotFound,
    }
}

fn real_delete(store: &mut Real, now: u32, delete: &Delete) -> Outcome {
    let how = DeleteHow {
        compare: delete.compare,
        invalidate: delete.invalidate,
        touch: delete.touch.map(|life| expiry(now, life)),
        remove_value: delete.remove_value,
        version: None,
    };
    let key = store.key(KEY).expect("a key");
    match store.delete(now, key, &how).expect("room") {
        DeleteOutcome::Deleted | DeleteOutcome::Kept(_) => Outcome::Deleted,
        DeleteOutcome::NotFound => Outcome::NotFound,
        DeleteOutcome::Exists => Outcome::Exists,
    }
}

fn real_count(store: &mut Real, now: u32, count: &Count) -> Outcome {
    let how = ArithHow {
        delta: count.delta,
        decrement: count.decrement,
        create: count.create.map(|(number, life)| (number, expiry(now, life))),
        touch: count.touch.map(|life| expiry(now, life)),
        compare: count.compare,
        version: None,
    };
    let key = store.key(KEY).expect("a key");
    match store.arith(now, key, &how).expect("room") {
        ArithOutcome::Done { value, expiry_before, expiry, created, .. } => Outcome::Counted(Counted {
            number: value,
            version: 0,
            life: life(now, expiry),
            life_before: life(now, expiry_before),
            created,
        }),
        ArithOutcome::NotNumeric => Outcome::NotNumeric,
        ArithOutcome::NotFound => Outcome::NotFound,
        ArithOutcome::Exists => Outcome::Exists,
    }
}

fn without_version(mut outcome: Outcome) -> Outcome {
    outcome.is_version(0);
    outcome
}

/// What is said of lives is what was read.
fn without_lives(mut outcome: Outcome) -> Outcome {
    if let Outcome::Hit(Hit { life, life_before, .. }) | Outcome::Counted(Counted { life, life_before, .. }) =
        &mut outcome
    {
        (*life, *life_before) = (Nanos(0), Nanos(0));
    }
    outcome
}

/// What a client is shown of it, but for the version.
fn as_asked(outcome: Outcome, what: &What) -> Outcome {
    match (what, without_version(outcome)) {
        (What::Store(Store { wants_size: false, .. }), Outcome::Stored { .. }) => {
            Outcome::Stored { version: 0, size: 0 }
        }
        (_, outcome) => outcome,
    }
}

proptest! {
    #[test]
    fn alone_they_mean_what_the_store_does(steps in prop::collection::vec(step(), 1..60)) {
        let mut store = Real::new(::store::Config::new(Mode::Store, 1 << 20)).expect("it is enough");
        let mut home = Home { now: Nanos(1000 * SECOND), version: 2, ..Home::default() };
        // Versions 1 and 2 are in use on neither side any more: an older one than any is not 0.
        for what in [What::Store(Store::default()), What::Store(Store::default()), What::Flush(Vec::new())] {
            real(&mut store, 1000, &what);
        }
        for step in &steps {
            home.now = home.now.plus(Nanos::from_secs(step.passes_s));
            let now = (home.now.0 / SECOND) as u32;
            let key = store.key(KEY).expect("a key");
            let theirs = store.peek(now, key).map_or(0, |item| item.version);
            let ours = home.item.as_ref().map_or(0, |item| item.version.0);
            let wanted = real(&mut store, now, &comparing(&step.what, step.against.version(theirs)));
            let got = home.run(&comparing(&step.what, step.against.version(ours)));
            let (got, wanted) = (as_asked(got, &step.what), as_asked(wanted, &step.what));
            prop_assert_eq!(got, wanted, "{:?} with {:?}", step, home);
            // What it left is the same.
            let look = What::Read(Read::default());
            prop_assert_eq!(without_version(home.run(&look)), real(&mut store, now, &look), "left by {:?}", step);
        }
    }

    #[test]
    fn together_they_are_as_if_one_came_after_the_other(
        before in prop::collection::vec(what(), 0..4),
        (one, other) in (step(), step()),
        turns in prop::collection::vec(any::<bool>(), 16),
    ) {
        let mut home = Home { now: Nanos(1000 * SECOND), ..Home::default() };
        before.iter().for_each(|what| drop(home.run(what)));
        let present = home.item.as_ref().map_or(0, |item| item.version.0);
        let [one, other] = [one, other].map(|step| {
            let mut what = comparing(&step.what, step.against.version(present));
            // Whether it is about to end is decided by a life that may be another when the lease is written.
            if let What::Read(read) = &mut what {
                read.recache_below = None;
            }
            what
        });
        let serial = |first: &What, second: &What| {
            let mut home = home.clone();
            let outcomes = (without_lives(home.run(first)), without_lives(home.run(second)));
            (outcomes, home)
        };
        let (one_first, (other_first, home_of_other)) = (serial(&one, &other), serial(&other, &one));
        let together = interleaved(home.clone(), [&one, &other], &turns);
        let swapped = ((other_first.1, other_first.0), home_of_other);
        prop_assert!(together == one_first || together == swapped, "{together:?}\n{one_first:?}\n{swapped:?}");
    }
}

/// Both under way at once, a step of either as `turns` say.
fn interleaved(mut home: Home, whats: [&What; 2], turns: &[bool]) -> ((Outcome, Outcome), Home) {
    let mut tasks = whats.map(|what| Task::new(KEY.to_vec(), what.clone()));
    let mut next: Vec<Next> = tasks.iter_mut().map(Task::begin).collect();
    for turn in turns.iter().copied().chain([false, true].into_iter().cycle()) {
        let at = usize::from(turn);
        if let Next::Ask(call) = &next[at] {
            next[at] = tasks[at].hear(home.answer(call));
        }
        if let [Next::Done(one), Next::Done(other)] = &next[..] {
            return ((without_lives(one.clone()), without_lives(other.clone())), home);
        }
    }
    unreachable!("turns go on for ever")
}

#[test]
fn a_plain_incr_is_one_operation_and_what_a_home_does_not_count_is_done_by_hand() {
    let mut home = Home::default();
    let count = Count { delta: 3, ..Count::default() };
    let counted = |outcome| match outcome {
        Outcome::Counted(counted) => counted.number,
        other => panic!("{other:?}"),
    };
    assert_eq!(home.run(&What::Count(count)), Outcome::NotFound);
    for (value, number, left) in [("9", 12, "12"), (" 7 x", 10, "10  "), ("009", 12, "12")] {
        home.item = None;
        home.run(&What::Store(Store { value: value.into(), life: Nanos::MAX, ..Store::default() }));
        assert_eq!(counted(home.run(&What::Count(count))), number);
        assert_eq!(home.item.as_ref().expect("there").value, left.as_bytes(), "{value:?}");
    }
    let mut task = Task::new(KEY.to_vec(), What::Count(count));
    assert_eq!(asked(task.begin()).verb, Verb::Incr);
}

#[test]
fn a_flush_asks_one_home_after_the_other() {
    let mut task = Task::new(Vec::new(), What::Flush(vec![HomeId(1), HomeId(2)]));
    let mut home = Home::default();
    let first = asked(task.begin());
    assert_eq!((first.verb, first.home), (Verb::Flush, HomeId(1)));
    let Next::Ask(second) = task.hear(home.answer(&first)) else { panic!("there is another home") };
    assert_eq!(second.home, HomeId(2));
    assert_eq!(task.hear(home.answer(&second)), Next::Done(Outcome::Flushed));
}

#[test]
fn what_is_not_answered_is_said_and_others_cannot_keep_it_for_ever() {
    let prepend = What::Store(Store { mode: SetMode::Prepend, value: b"x".into(), ..Store::default() });
    for (failed, trouble) in [(Failed::NotDone, Trouble::NotDone), (Failed::Unknown, Trouble::Unknown)] {
        let mut task = Task::new(KEY.to_vec(), prepend.clone());
        task.begin();
        assert_eq!(task.hear(Err(failed)), Next::Done(Outcome::Failed(trouble)));
    }
    let mut task = Task::new(KEY.to_vec(), prepend);
    let mut home = Home::default();
    let mut call = asked(task.begin());
    let mut reads = 0;
    loop {
        if call.verb == Verb::Get {
            reads += 1;
            home.run(&What::Store(Store { life: Nanos::MAX, ..Store::default() }));
        }
        let answer = home.answer(&call);
        if call.verb == Verb::Get {
            home.run(&What::Store(Store { life: Nanos::MAX, ..Store::default() }));
        }
        match task.hear(answer) {
            Next::Done(outcome) => {
                assert_eq!((outcome, reads), (Outcome::Failed(Trouble::Contended), ROUNDS));
                return;
            }
            next => call = asked(next),
        }
    }
}

#[test]
fn a_value_beyond_a_datagram_is_refused_before_it_is_sent() {
    let mut home = Home::default();
    let long = vec![b'x'; protocol::wire::MAX_VALUE];
    home.run(&What::Store(Store { value: long, life: Nanos::MAX, ..Store::default() }));
    for mode in [SetMode::Append, SetMode::Prepend] {
        let more = Store { mode, value: b"x".into(), ..Store::default() };
        assert_eq!(home.run(&What::Store(more)), Outcome::TooLarge);
    }
}
