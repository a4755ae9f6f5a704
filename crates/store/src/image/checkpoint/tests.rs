//! Power cuts at every operation of the medium, errors, and bytes that change by themselves. What is opened, with the log replayed over it, is
//! the state of the last entry, or says that it is not.

use super::{Checkpoint, OpenError, Opened, Planted, Step};
use crate::image::tests::{Tuples, slices};
use crate::image::{BLOCK, Config, Image, Space, Write};
use crate::redo::media::{Crashing, Fault, Memory};
use base::Prng;

fn config() -> Config {
    Config { bytes: 192 << 10, page: 16 << 10, items: 2048, hash_seed: 0 }
}

fn medium() -> Crashing {
    Crashing::new(Checkpoint::<Crashing>::medium_bytes(&config()) as usize)
}

/// Entries, and the digest of an image after each; the first is that of an empty one.
struct Log {
    entries: Vec<Tuples>,
    digests: Vec<u64>,
}

impl Log {
    /// Values that grow, move, and go, in few pages.
    fn new(prng: &mut Prng, count: u64) -> Log {
        let mut image = Image::new(&config()).expect("192 KiB");
        let mut log = Log { entries: Vec::new(), digests: vec![image.digest()] };
        for lsn in 1..=count {
            let values: Vec<_> = (0..1 + prng.below(3))
                .map(|n| {
                    (n * 8 + prng.below(8), (prng.below(5) > 0).then(|| vec![lsn as u8; 1 << prng.below(13)]))
                })
                .collect();
            let keys: Vec<_> = values.iter().map(|(key, _)| key.to_le_bytes()).collect();
            let writes: Vec<_> = keys
                .iter()
                .zip(&values)
                .map(|(key, (_, value))| Write { space: Space(1), key, value: value.as_deref() })
                .collect();
            let mut tuples = Tuples::new();
            image.place(lsn, &writes, |offset, data| tuples.push((offset, data))).expect("room");
            image.apply(lsn, slices(&tuples)).expect("its own");
            log.entries.push(tuples);
            log.digests.push(image.digest());
        }
        log
    }

    fn last(&self) -> u64 {
        self.entries.len() as u64
    }

    fn apply(&self, lsn: u64, image: &mut Image) {
        image.apply(lsn, slices(&self.entries[lsn as usize - 1])).expect("an entry of the log");
    }

    /// Replays everything to `last` over what was opened; what is wrong then.
    fn recover<M>(&self, opened: &mut Opened<M>, last: u64) -> Result<(), String> {
        for lsn in opened.redo_from + 1..=last {
            self.apply(lsn, &mut opened.image);
        }
        opened.image.index(last).map_err(|bad| format!("not an image: {bad}"))?;
        opened.image.check();
        match opened.image.digest() == self.digests[last as usize] {
            true => Ok(()),
            false => Err(format!("not the state after {last}, from {}", opened.redo_from)),
        }
    }
}

/// What a run knew when the power was cut.
struct Cut {
    medium: Crashing,
    applied: u64,
    /// What the last checkpoint said that was done.
    redo_from: u64,
}

/// Applies the log and takes checkpoints of it in small steps; ends early when the medium fails.
fn run(medium: Crashing, log: &Log, seed: u64, planted: Option<Planted>) -> Cut {
    let mut prng = Prng::new(seed);
    let mut image = Image::new(&config()).expect("192 KiB");
    let mut checkpoint = Checkpoint::create(medium, &config()).expect("made before the fault");
    checkpoint.planted = planted;
    let mut redo_from = 0;
    for lsn in 1..=log.last() {
        log.apply(lsn, &mut image);
        if prng.below(3) == 0 {
            checkpoint.begin(&mut image);
        }
        if prng.below(2) == 0 {
            match checkpoint.step(&mut image, BLOCK * (1 + prng.below(3) as usize)) {
                Ok(Step::Done) => redo_from = checkpoint.redo_from(),
                Ok(_) => {}
                Err(_) => {
                    assert!(checkpoint.step(&mut image, BLOCK).is_err(), "it is broken for good");
                    break;
                }
            }
        }
    }
    Cut { applied: image.applied(), redo_from, medium: checkpoint.into_media() }
}

/// Operations of the medium while a checkpoint is made.
fn created() -> u64 {
    Checkpoint::create(medium(), &config()).expect("no fault").into_media().operations()
}

/// Every operation of a few runs, a few ways to lose what is not durable: how many came back, and what was wrong.
fn power_cuts(planted: Option<Planted>) -> (u32, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for seed in 0..6 {
        let log = Log::new(&mut Prng::new(seed), 40);
        let whole = run(medium(), &log, seed, planted);
        for operation in created()..whole.medium.operations() {
            let mut medium = medium();
            medium.inject(operation, Fault::PowerCut);
            let cut = run(medium, &log, seed, planted);
            for way in 0..8 {
                let after = cut.medium.clone().crash(&mut Prng::new(way));
                let mut opened = Checkpoint::open(after, &config()).expect("one was whole");
                assert_eq!(opened.damaged, []);
                assert!(opened.redo_from >= cut.redo_from && opened.floor <= cut.applied);
                if let Err(why) = log.recover(&mut opened, cut.applied) {
                    wrong.push(format!("run {seed}, cut at {operation}: {why}"));
                }
                count += 1;
            }
        }
    }
    (count, wrong)
}

#[test]
fn a_power_cut_at_any_operation_leaves_a_checkpoint_that_the_log_completes() {
    let (count, wrong) = power_cuts(None);
    assert!(count > 2000, "{count} crashes");
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn replaying_too_little_is_found() {
    let (count, wrong) = power_cuts(Some(Planted::ReplayTooLittle));
    assert!(wrong.len() > 10, "{} of {count}", wrong.len());
}

/// Also a second crash, after work on what the first one left.
#[test]
fn work_goes_on_after_a_crash_and_another_crash_is_survived_too() {
    for seed in 0..40u64 {
        let mut prng = Prng::new(seed);
        let log = Log::new(&mut prng, 60);
        let mut medium = medium();
        medium.inject(created() + prng.below(20), Fault::PowerCut);
        let cut = run(medium, &log, seed, None);
        let mut opened = Checkpoint::open(cut.medium.crash(&mut prng), &config()).expect("one was whole");
        log.recover(&mut opened, cut.applied).expect("the first crash");
        let Opened { mut checkpoint, mut image, .. } = opened;
        let operations = checkpoint.media().operations();
        checkpoint.media_mut().inject(operations + prng.below(20), Fault::PowerCut);
        for lsn in cut.applied + 1..=log.last() {
            log.apply(lsn, &mut image);
            checkpoint.begin(&mut image);
            if checkpoint.step(&mut image, 2 * BLOCK).is_err() {
                break;
            }
        }
        let after = checkpoint.into_media().crash(&mut prng);
        let mut opened = Checkpoint::open(after, &config()).expect("one was whole");
        log.recover(&mut opened, image.applied()).expect("the second crash");
    }
}

#[test]
fn an_error_or_a_full_medium_ends_it_and_what_was_whole_still_is() {
    for fault in [Fault::Error, Fault::Full] {
        let log = Log::new(&mut Prng::new(1), 40);
        let whole = run(medium(), &log, 1, None);
        for operation in created()..whole.medium.operations() {
            let mut medium = medium();
            medium.inject(operation, fault);
            let cut = run(medium, &log, 1, None);
            for after in [cut.medium.clone(), cut.medium.clone().crash(&mut Prng::new(operation))] {
                let mut opened = Checkpoint::open(after, &config()).expect("one was whole");
                assert!(opened.damaged.is_empty() && opened.redo_from >= cut.redo_from);
                log.recover(&mut opened, cut.applied).expect("the last whole one");
            }
        }
    }
}

/// Whatever byte changes: the image is the right one, or it is said that it is damaged, or that none is there.
#[test]
fn a_byte_that_changes_by_itself_is_found_or_does_not_matter() {
    let log = Log::new(&mut Prng::new(3), 40);
    let cut = run(medium(), &log, 3, None);
    let (mut found, mut fine) = (0, 0);
    let len = Checkpoint::<Crashing>::medium_bytes(&config());
    let offsets = (0..64).chain(4096..4160).chain(8192..8192 + 96).chain(12_288..12_288 + 96);
    for offset in offsets.chain((16_384..len).step_by(1111)) {
        let mut medium = cut.medium.clone();
        medium.corrupt(offset, 4);
        let mut opened = Checkpoint::open(medium, &config()).expect("two headers, one byte");
        if opened.damaged.is_empty() {
            log.recover(&mut opened, cut.applied).expect("it does not matter");
            fine += 1;
        } else {
            assert!(opened.image.is_empty() && opened.damaged.iter().all(|at| at % BLOCK as u64 == 0));
            found += 1;
        }
    }
    assert!(found > 50 && fine > 50, "{found} found, {fine} without effect");
}

#[test]
fn a_checkpoint_is_abandoned_when_the_image_is_cleared_and_the_next_one_has_all() {
    let log = Log::new(&mut Prng::new(5), 30);
    let mut image = Image::new(&config()).expect("192 KiB");
    let mut checkpoint = Checkpoint::create(medium(), &config()).expect("no fault");
    (1..=30).for_each(|lsn| log.apply(lsn, &mut image));
    assert!(checkpoint.begin(&mut image) && !checkpoint.begin(&mut image));
    while checkpoint.step(&mut image, BLOCK).expect("no fault") == Step::More {}
    assert!(checkpoint.begin(&mut image));
    let bytes = image.chunk(0, usize::MAX).to_vec();
    image.clear();
    assert_eq!(checkpoint.step(&mut image, BLOCK).expect("no fault"), Step::Abandoned);
    assert_eq!(checkpoint.step(&mut image, BLOCK).expect("no fault"), Step::Idle);
    image.load(0, &bytes[..BLOCK]).expect("inside");
    assert!(!checkpoint.begin(&mut image), "it is only bytes");
    image.load(BLOCK as u64, &bytes[BLOCK..]).expect("inside");
    image.index(30).expect("whole");
    assert!(checkpoint.begin(&mut image));
    while checkpoint.step(&mut image, BLOCK).expect("no fault") == Step::More {}
    assert_eq!((checkpoint.redo_from(), checkpoint.counters().done), (30, 2));
    let mut opened = Checkpoint::open(checkpoint.into_media(), &config()).expect("whole");
    log.recover(&mut opened, 30).expect("nothing to replay");
}

/// Power fails at each operation of forgetting: all is there, or nothing. And what is copied afterwards is saved whole.
#[test]
fn what_is_forgotten_does_not_come_back() {
    let log = Log::new(&mut Prng::new(8), 30);
    let whole = run(medium(), &log, 8, None);
    let open = |medium| Checkpoint::open(medium, &config()).expect("one was whole");
    let before = open(whole.medium.clone()).redo_from;
    assert!(before > 0);
    for fault in 0..5 {
        let Opened { mut checkpoint, mut image, .. } = open(whole.medium.clone());
        let operations = checkpoint.media().operations();
        checkpoint.media_mut().inject(operations + fault, Fault::PowerCut);
        let forgot = checkpoint.forget();
        assert_eq!(forgot.is_ok(), fault == 4);
        if forgot.is_ok() {
            let source =
                log.entries.iter().fold(Image::new(&config()).expect("192 KiB"), |mut source, entry| {
                    let lsn = source.applied() + 1;
                    source.apply(lsn, slices(entry)).expect("an entry of the log");
                    source
                });
            image.clear();
            image.load(0, source.chunk(0, usize::MAX)).expect("as long");
            image.index(30).expect("whole");
            let after = checkpoint.media().clone().crash(&mut Prng::new(fault));
            let (mut checkpoint, opened) = (open(after.clone()).checkpoint, open(after));
            assert_eq!((opened.redo_from, opened.floor, opened.image.extent()), (0, 0, 0));
            assert!(checkpoint.begin(&mut image));
            while checkpoint.step(&mut image, BLOCK).expect("no fault") == Step::More {}
            log.recover(&mut open(checkpoint.into_media()), 30).expect("nothing to replay");
        } else {
            let mut opened = open(checkpoint.into_media().crash(&mut Prng::new(fault)));
            assert!([0, before].contains(&opened.redo_from) && opened.damaged.is_empty());
            log.recover(&mut opened, whole.applied).expect("all of the log");
        }
    }
}

/// What changed little is written little; a cleared image takes nothing.
#[test]
fn only_what_changed_is_written() {
    let mut image = Image::new(&config()).expect("192 KiB");
    let mut checkpoint = Checkpoint::create(medium(), &config()).expect("no fault");
    let log = Log::new(&mut Prng::new(7), 40);
    let mut save = |image: &mut Image| {
        let before = checkpoint.counters().blocks;
        assert!(checkpoint.begin(image));
        while checkpoint.step(image, BLOCK).expect("no fault") == Step::More {}
        checkpoint.counters().blocks - before
    };
    (1..=39).for_each(|lsn| log.apply(lsn, &mut image));
    assert_eq!(save(&mut image), image.extent() / BLOCK as u64);
    assert_eq!(save(&mut image), 0);
    log.apply(40, &mut image);
    let few = log.entries[39]
        .iter()
        .map(|(offset, _)| offset / BLOCK as u64)
        .collect::<std::collections::BTreeSet<_>>();
    assert_eq!(save(&mut image), few.len() as u64);
    image.clear();
    assert_eq!(save(&mut image), 0);
}

#[test]
fn media_without_a_checkpoint_of_this_image_say_so() {
    let len = Checkpoint::<Memory>::medium_bytes(&config());
    assert!(matches!(Checkpoint::open(medium(), &config()), Err(OpenError::NoCheckpoint)));
    assert!(Checkpoint::create(Crashing::new(len as usize - 64), &config()).is_err());
    let made = Checkpoint::create(medium(), &config()).expect("no fault").into_media();
    let other = Config { bytes: 128 << 10, ..config() };
    assert!(matches!(
        Checkpoint::open(made.clone(), &other),
        Err(OpenError::Other { bytes: 196_608, page: 16_384 })
    ));
    let mut opened = Checkpoint::open(made, &config()).expect("an empty one");
    assert_eq!((opened.redo_from, opened.floor, opened.image.applied()), (0, 0, 0));
    opened.image.index(0).expect("empty");
    assert!(opened.image.is_empty());
}
