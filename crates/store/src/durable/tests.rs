//! Random commands on a store with a log that may lose power and fail at any operation, snapshots included; then the start, and so on with what it found.
//!
//! What was there after each effect is remembered. After a start the store must be, item by item, what it was after the last effect that its log has; and
//! that must not be before
//! any effect that somebody was promised or shown. Bugs are planted, and found.

mod slow;

use super::journal::Planted;
use super::*;
use crate::ops::arith::ArithHow;
use crate::ops::delete::DeleteHow;
use crate::ops::get::GetHow;
use crate::ops::set::{SetHow, Verb};
use crate::redo::media::{Crashing, Fault};
use crate::redo::{Judge, Log, Recovery};
use crate::{Config, Cursor, Mode, Store};
use base::Prng;
pub(super) use slow::Shared;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(super) const IDENTITY: u64 = 7;
const MEDIUM: usize = 48 << 10;

type Item = (Vec<u8>, State);
/// Of a key.
type Change = (Vec<u8>, Option<Item>);

/// A log as it is in tests.
pub(super) trait Kind: Records + Sized {
    /// Who writes to it beside the server.
    type Clients;

    /// An empty one.
    fn create() -> Self;

    /// Power fails; what is there behind effect `from` then.
    fn reopen(self, prng: &mut Prng, from: u64) -> (Self, Recovery);

    /// They begin where the log does.
    fn clients(&self) -> Self::Clients;

    /// A client asks for something that is not logged, or hears something.
    fn stir(journal: &mut Journal<Self, Shared>, clients: &mut Self::Clients, prng: &mut Prng);

    /// A request that sets a value is sent. Where it lies, if that is in the log.
    fn send(&mut self, clients: &mut Self::Clients, request: (&[u8], &[u8]), prng: &mut Prng)
    -> Option<Sent>;

    /// It was executed: as [`Journal::after`].
    fn after(
        journal: &mut Journal<Self, Shared>,
        store: (&Store, u32),
        key: crate::Key<'_>,
        did: (Before, What),
        sent: Option<Sent>,
    ) -> u64;

    /// A medium, to make it fail.
    fn medium(&mut self, prng: &mut Prng) -> &mut Crashing;
}

/// Where a request lies.
pub(super) type Sent = rings::Place;

impl Kind for Log<Crashing> {
    type Clients = ();

    fn create() -> Self {
        Log::create(Crashing::new(MEDIUM), IDENTITY).expect("a log")
    }

    fn reopen(self, prng: &mut Prng, _: u64) -> (Self, Recovery) {
        Log::open(self.into_media().crash(prng), IDENTITY, Judge::Proof).expect("it is there")
    }

    fn clients(&self) {}

    fn stir(_: &mut Journal<Self, Shared>, (): &mut (), _: &mut Prng) {}

    fn send(&mut self, (): &mut (), _: (&[u8], &[u8]), _: &mut Prng) -> Option<Sent> {
        None
    }

    fn after(
        journal: &mut Journal<Self, Shared>,
        (store, now): (&Store, u32),
        key: crate::Key<'_>,
        (before, what): (Before, What),
        _: Option<Sent>,
    ) -> u64 {
        journal.after(store, now, key, before, what)
    }

    fn medium(&mut self, _: &mut Prng) -> &mut Crashing {
        self.media_mut()
    }
}

struct World<L: Kind> {
    prng: Prng,
    store: Store,
    journal: Journal<L, Shared>,
    clients: L::Clients,
    slow: Shared,
    now: u32,
    /// After which effect, what: an item is this, or everything is gone.
    history: Vec<(u64, Option<Change>)>,
    /// From which effect on, at which second everything is to be flushed.
    to_come: Vec<(u64, Option<u32>)>,
    /// The last effect that anybody was promised or shown.
    promised: u64,
    /// Replies that wait.
    held: Vec<(u64, u64)>,
    /// The effect that made each key what it is.
    made: BTreeMap<Vec<u8>, u64>,
    planted: Option<Planted>,
    /// The device takes long.
    is_stalled: bool,
    refused: u64,
    torn: u64,
}

fn store() -> Store {
    let mut config = Config::new(Mode::Store, 8 << 20);
    (config.memory_ceiling, config.max_value) = (32 << 20, 4000);
    Store::new(config).expect("a store")
}

impl<L: Kind> World<L> {
    fn new(seed: u64, planted: Option<Planted>) -> World<L> {
        let mut prng = Prng::new(seed);
        let slow = Shared::default();
        slow.lock().expect("no panic").prng = Some(Prng::new(prng.next_u64()));
        let log = L::create();
        let clients = log.clients();
        let mut journal = Journal::new(log, Arc::clone(&slow), IDENTITY, None);
        journal.planted = planted;
        World {
            prng,
            store: store(),
            journal,
            clients,
            slow,
            now: 1000,
            history: Vec::new(),
            to_come: Vec::new(),
            promised: 0,
            held: Vec::new(),
            made: BTreeMap::new(),
            planted,
            is_stalled: false,
            refused: 0,
            torn: 0,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        // Few that are hot, many that make the index grow.
        let many = if self.prng.below(2) == 0 { 20 } else { 2000 };
        format!("key{}", self.prng.below(many)).into_bytes()
    }

    /// Somebody is told what `shown` made, when `needs` is durable.
    fn reply(&mut self, needs: u64, shown: u64) {
        if needs <= self.journal.durable() {
            self.promised = self.promised.max(shown);
        } else {
            self.held.push((needs, shown));
        }
    }

    fn item(&self, key: &[u8]) -> Option<Item> {
        let item = self.store.peek(self.now, self.store.key(key)?)?;
        Some((item.value.to_vec(), State::of(&item)))
    }

    fn tick(&mut self) {
        if self.prng.below(20) == 0 {
            self.now += 1;
        }
        if self.journal.is_flush_due(self.now) {
            self.flush();
        }
    }

    fn flush(&mut self) -> u64 {
        self.store.flush_all(self.now, self.now);
        let (_, mut stays) = self.to_come.last().copied().unwrap_or_default();
        stays = stays.filter(|at| *at > self.now);
        if self.prng.below(2) == 0 {
            self.journal.flush_no_more();
            stays = None;
        }
        let needs = self.journal.flushed(self.now);
        // A flush that is to come is logged again behind it.
        let last = if needs == u64::MAX { self.made_by(needs) } else { needs };
        self.to_come.push((last, None));
        self.to_come.extend(stays.map(|at| (last + 1, Some(at))));
        self.history.push((last, None));
        self.made.values_mut().for_each(|made| *made = last);
        needs
    }

    /// The effect that was logged last; or was to be, and is perhaps, where the log broke over it.
    fn made_by(&self, needs: u64) -> u64 {
        self.journal.last() + u64::from(needs == u64::MAX)
    }

    fn read(&mut self) {
        L::stir(&mut self.journal, &mut self.clients, &mut self.prng);
        let name = self.key();
        let key = self.store.key(&name).expect("a key");
        let needs = self.journal.needs(key.hash());
        let shown = self.made.get(&name).copied().unwrap_or(0);
        self.reply(needs, shown);
    }

    fn write_flush(&mut self) {
        let needs = match self.prng.below(2) {
            0 => self.flush(),
            _ => {
                let second = self.now + self.prng.below(4) as u32 + 1;
                let needs = self.journal.flush_at(second);
                self.to_come.push((self.made_by(needs), Some(second)));
                needs
            }
        };
        self.reply(needs, self.journal.last());
    }

    fn write(&mut self) {
        if !self.journal.has_room(4000) {
            self.refused += 1;
            return;
        }
        if self.prng.below(150) == 0 {
            return self.write_flush();
        }
        let name = self.key();
        let was = self.item(&name);
        let (now, store) = (self.now, &mut self.store);
        let hasher = *store.hasher();
        let key = crate::Key::new(&name, &hasher).expect("a key");
        let before = Before::of(store, now, key);
        let value = vec![b'a' + self.prng.below(26) as u8; self.prng.below(60) as usize];
        let expiry = if self.prng.below(3) == 0 { now + self.prng.below(5) as u32 } else { 0 };
        let flags = self.prng.below(3) as u32;
        let (mut what, mut sent) = (What::All, None);
        // Whether it did anything is for the journal to find out.
        match self.prng.below(10) {
            0..3 => {
                let how = SetHow { flags, expiry, ..SetHow::default() };
                sent = self.journal.log.send(&mut self.clients, (&name, &value), &mut self.prng);
                let _ = store.set(now, key, &value, &how);
            }
            3 => {
                let verb = [Verb::Add, Verb::Append, Verb::Replace][self.prng.below(3) as usize];
                let _ = store.set(now, key, &value, &SetHow { verb, flags, expiry, ..SetHow::default() });
            }
            4 => {
                let how = ArithHow { create: Some((9, expiry)), ..ArithHow::default() };
                let _ = store.arith(now, key, &how);
            }
            5 => {
                what = What::State;
                let _ = store.touch(now, key, expiry);
            }
            6 => {
                what = What::State;
                let _ = store.delete(now, key, &DeleteHow { invalidate: true, ..DeleteHow::default() });
            }
            7 => {
                what = What::State;
                let how = GetHow { vivify: Some(0), recache_below: Some(3), lease: true, ..GetHow::PLAIN };
                let _ = store.get(now, key, &how);
            }
            8 => {
                what = What::AllUnseen;
                let _ = store.set(now, key, &value, &SetHow { version: Some(5), flags, ..SetHow::default() });
            }
            _ => {
                let _ = store.delete(now, key, &DeleteHow::default());
            }
        }
        let needs = L::after(&mut self.journal, (&self.store, now), key, (before, what), sent);
        let (last, is) = (self.made_by(needs), self.item(&name));
        if is != was || what == What::AllUnseen {
            self.history.push((last, Some((name.clone(), is))));
            self.made.insert(name.clone(), last);
        }
        let shown = self.made.get(&name).copied().unwrap_or(0);
        self.reply(needs, shown);
    }

    fn step(&mut self) {
        self.tick();
        self.is_stalled ^= self.prng.below(100) == 0;
        match self.prng.below(8) {
            0..4 => self.write(),
            4 => self.read(),
            5 | 6 if self.is_stalled => {}
            5 => {
                self.journal.end_sync();
                self.journal.begin_sync();
            }
            6 => {
                if self.prng.below(30) == 0 {
                    self.journal.mark();
                }
                self.journal.end_sync();
            }
            _ => {
                let step = if self.prng.below(6) == 0 { 32 << 10 } else { 256 };
                // A snapshot that fails is made again.
                let _ = self.journal.walk(&self.store, self.now, 30, step);
            }
        }
        let durable = self.journal.durable();
        let left = std::mem::take(&mut self.held);
        for (needs, shown) in left {
            match needs <= durable {
                true => self.promised = self.promised.max(shown),
                false => self.held.push((needs, shown)),
            }
        }
    }

    /// The process ends, and another begins.
    fn crash(self) -> World<L> {
        let World {
            mut prng,
            journal,
            slow,
            now,
            mut history,
            mut to_come,
            promised,
            planted,
            refused,
            torn,
            ..
        } = self;
        slow.lock().expect("no panic").crash(&mut prng);
        let snapshot = slow.lock().expect("no panic").newest.clone();
        let reader = snapshot.as_deref().map(|bytes| Reader::new(bytes).expect("it is whole"));
        let from = reader.as_ref().map_or(0, |reader| reader.head.from);
        let (log, recovery) = journal.log.reopen(&mut prng, from);
        let last = log.last();
        assert!(last >= promised, "effect {promised} was promised, and the log ends with {last}");
        let mut store = store();
        let (mut journal, found) = recover(&mut store, (log, &recovery), IDENTITY, reader, Arc::clone(&slow))
            .unwrap_or_else(|error| panic!("{error}"));
        journal.planted = planted;
        store.check();
        history.retain(|(at, _)| *at <= last);
        to_come.retain(|(at, _)| *at <= last);
        let (_, is_to_come) = to_come.last().copied().unwrap_or_default();
        assert_eq!(journal.flush_at, is_to_come, "a flush that is to come, after effect {last}");
        let mut is = BTreeMap::new();
        for (_, change) in &history {
            match change {
                None => is.clear(),
                Some((key, Some(item))) => drop(is.insert(key.clone(), item.clone())),
                Some((key, None)) => drop(is.remove(key)),
            }
        }
        is.retain(|_, (_, state)| state.expiry == 0 || state.expiry > now);
        let (mut found_items, mut cursor) = (BTreeMap::new(), Some(Cursor::default()));
        while let Some(at) = cursor {
            cursor = store.list(now, at, |item| {
                found_items.insert(item.key.to_vec(), (item.value.to_vec(), State::of(item)));
            });
        }
        for (key, item) in &is {
            let name = String::from_utf8_lossy(key);
            assert_eq!(found_items.get(key), Some(item), "{name} is not what it was after effect {last}");
        }
        let only = found_items.keys().find(|key| !is.contains_key(*key));
        assert_eq!(only, None, "it was not there after effect {last}");
        assert!(is.values().all(|(_, state)| state.version <= store.last_version()));
        World {
            prng,
            store,
            clients: journal.log.clients(),
            journal,
            slow,
            now,
            made: is.keys().map(|key| (key.clone(), 0)).collect(),
            history,
            to_come,
            promised: last,
            held: Vec::new(),
            planted,
            is_stalled: false,
            refused,
            torn: torn + u64::from(found.torn_bytes > 0),
        }
    }
}

/// Several lives. What happened.
pub(super) fn run<L: Kind>(seed: u64, planted: Option<Planted>) -> (u64, u64, u64) {
    let mut world = World::<L>::new(seed, planted);
    let mut snapshots = 0;
    for _ in 0..5 {
        if world.prng.below(3) == 0 {
            let fault = [Fault::Error, Fault::PowerCut][world.prng.below(2) as usize];
            let at = world.prng.below(200);
            let medium = world.journal.log.medium(&mut world.prng);
            let at = medium.operations() + at;
            medium.inject(at, fault);
        }
        for _ in 0..200 + world.prng.below(4000) {
            world.step();
            if world.journal.broken().is_some() {
                break;
            }
        }
        snapshots += world.journal.counters().snapshots;
        world = world.crash();
    }
    (snapshots, world.refused, world.torn)
}

#[test]
fn what_was_promised_is_there_after_whatever_end_and_nothing_else_is() {
    let (mut snapshots, mut refused, mut torn) = (0, 0, 0);
    for seed in 0..40 {
        let one = catch_unwind(|| run::<Log<Crashing>>(seed, None));
        let one = one.unwrap_or_else(|_| panic!("seed {seed}"));
        (snapshots, refused, torn) = (snapshots + one.0, refused + one.1, torn + one.2);
    }
    assert!(
        snapshots > 100 && refused > 0 && torn > 10,
        "{snapshots} snapshots, {refused} refused, {torn} torn"
    );
}

/// Seeds of which one must find it.
pub(super) fn finds<L: Kind>(planted: Option<Planted>, name: &str) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = (0..200).find(|seed| catch_unwind(AssertUnwindSafe(|| run::<L>(*seed, planted))).is_err());
    std::panic::set_hook(hook);
    assert!(found.is_some(), "nobody found {name}");
}

#[test]
fn planted_bugs_are_found() {
    for planted in [
        Planted::RepliesBeforeDurable,
        Planted::ReadsWhatIsNotDurable,
        Planted::ForgetsBeforeSnapshot,
        Planted::WalksBucketsByNumber,
        Planted::PublishesBeforeDurable,
        Planted::TouchesAreNotLogged,
        Planted::FlushesForgetThoseToCome,
    ] {
        finds::<Log<Crashing>>(Some(planted), &format!("{planted:?}"));
    }
}
