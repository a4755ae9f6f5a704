//! Entries against the machine whose copies they are, after every step of random schedules. No kernel is needed: the entries are private.

use super::*;
use base::Prng;
use protocol::coherence::table::Layout;
use protocol::coherence::{Config, Life};
use protocol::wire::{
    BoxId, Control, HomeId, Incarnation, Opcode, Round, Status, Ttl, Verb, Version, key_hash,
};
use std::sync::Arc;

/// The program's clock is ahead of the machine's by this.
const AHEAD: u64 = 1000;
const HOME: NodeId = NodeId::Home(HomeId(1));

struct World {
    cache: CacheBox,
    entries: Entries,
    changes: Changes,
    now: Nanos,
    random: Prng,
    /// Requests that the box sent on.
    asked: Vec<Message>,
    version: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let config = Config { copies: 8, lease: Nanos(200), fill_patience: Nanos(100), ..Config::default() };
        let layout = Arc::new(Layout::two_levels(1, 0, 1, 1).expect("a layout"));
        let life = (Incarnation(1), Life::First);
        let mut cache = CacheBox::new(&config, BoxId(1), layout, life, Nanos(0));
        cache.watch_copies();
        World {
            cache,
            // So wide that it gives nothing up by itself.
            entries: Entries::private(4096),
            changes: Changes::default(),
            now: Nanos(0),
            random: Prng::new(seed),
            asked: Vec::new(),
            version: 0,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        self.random.below(24).to_le_bytes().to_vec()
    }

    fn hear(&mut self, from: NodeId, message: &Message) {
        let mut out = Vec::new();
        self.cache.handle(self.now, from, message, &mut out);
        let waits = |message: &Message| {
            matches!(message.header.opcode, Opcode::Request(_)) && !message.header.sharers.is_empty()
        };
        self.asked.extend(out.into_iter().map(|(_, message)| message).filter(waits));
    }

    fn fill(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let which = self.random.below(self.asked.len() as u64) as usize;
        let mut reply = self.asked.swap_remove(which).reply(Status::Ok);
        self.version += 1;
        reply.header.version = Version(self.version);
        reply.header.deadline_us = 1;
        if self.random.chance(0.3) {
            reply.header.ttl = Ttl::new(Nanos(self.random.below(300)));
        }
        reply.value = vec![self.version as u8; [0, 8, 100, 1024, 1025][self.random.below(5) as usize]];
        self.hear(HOME, &reply);
    }

    fn invalidate(&mut self, key: &[u8]) {
        let mut message = Message::new(Opcode::Control(Control::Invalidate), key);
        message.header.round = Round(1 + self.random.below(1000));
        message.header.home = HomeId(1);
        self.hear(HOME, &message);
    }

    /// Something happens; `blind`: nobody looks at what changed by an invalidation.
    fn step(&mut self, blind: bool) {
        self.now = self.now.plus(Nanos(self.random.below(20)));
        let kind = self.random.below(100);
        let key = self.key();
        match kind {
            0..40 => {
                self.hear(NodeId::Client(protocol::wire::ClientId(1)), &Message::request(Verb::Get, &key))
            }
            40..80 => self.fill(),
            80..97 => self.invalidate(&key),
            97 => self.invalidate(&[]),
            98 => self.cache.evict_all(),
            _ => self.asked.clear(),
        }
        self.cache.take_changes(&mut self.changes);
        let moment = Moment { program: self.now.plus(Nanos(AHEAD)), machine: self.now };
        if !(blind && (80..98).contains(&kind)) {
            mirror(&self.cache, &mut self.entries, &self.changes, moment);
        }
        self.changes.clear();
    }

    /// Each tier has what the other has, and the program's ends no later.
    fn check(&self) -> Result<(), String> {
        for key in (0..24u64).map(|key| key.to_le_bytes().to_vec()) {
            let kept = self.cache.copies_of(key_hash(&key)).find(|kept| kept.key == key);
            let held = self.entries.find(&key);
            match (&kept, &held) {
                (Some(kept), Some(held)) if (&kept.value, kept.version) == (&held.value, held.version) => {
                    for (end, of) in [(held.lease_end, kept.lease_end), (held.expires, kept.life_end)] {
                        // What was over when it was put ends at once.
                        let latest = if of == Nanos::MAX { of } else { of.max(self.now).plus(Nanos(AHEAD)) };
                        if end > latest {
                            return Err(format!("{key:?} ends at {end}, its copy at {of}"));
                        }
                    }
                }
                (None, None) => {}
                (Some(kept), None) if kept.value.len() > xdp::MAX_VALUE => {}
                _ => return Err(format!("{key:?}: {kept:?} is kept, {held:?} is answered")),
            }
        }
        Ok(())
    }
}

fn play(seed: u64, blind: bool) -> Result<(), String> {
    let mut world = World::new(seed);
    for step in 0..400 {
        world.step(blind);
        world.check().map_err(|why| format!("seed {seed}, step {step}: {why}"))?;
    }
    let hits = world.cache.stats();
    if hits.fills > 20 && hits.invalidations > 20 {
        Ok(())
    } else {
        Err(format!("nothing happened: {hits:?}"))
    }
}

#[test]
fn the_program_has_what_the_machine_has() {
    (0..50).try_for_each(|seed| play(seed, false)).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn who_looks_away_at_invalidations_is_found() {
    assert!((0..5).all(|seed| play(seed, true).is_err()));
}

#[test]
fn when_too_much_changed_all_is_looked_at() {
    let mut world = World::new(1);
    (0..300).for_each(|_| world.step(false));
    // As many changes as nobody counts: 24 keys come, are taken away, and come again.
    for _ in 0..200 {
        let key = world.key();
        world.hear(NodeId::Client(protocol::wire::ClientId(1)), &Message::request(Verb::Get, &key));
        world.fill();
        world.invalidate(&key);
    }
    world.cache.take_changes(&mut world.changes);
    assert_eq!(world.changes.hashes(), None);
    let moment = Moment { program: world.now.plus(Nanos(AHEAD)), machine: world.now };
    mirror(&world.cache, &mut world.entries, &world.changes, moment);
    assert_eq!(world.check(), Ok(()));
}

#[test]
fn spans_end_by_the_program_no_later_than_by_the_machine() {
    let moment = Moment { program: Nanos(5000), machine: Nanos(100) };
    assert_eq!(moment.of(Nanos(130)), Nanos(5030));
    assert_eq!(moment.of(Nanos(99)), Nanos(5000));
    assert_eq!(moment.of(Nanos::MAX), Nanos::MAX);
}
