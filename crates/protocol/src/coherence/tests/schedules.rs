//! Random schedules from a seed: everything goes wrong for a while, then nothing does, and all must end well.

use super::super::client::Call;
use super::super::{Compute, Config, Planted, Policy};
use super::world::{Fate, World};
use crate::wire::{HomeId, Verb, Version};
use base::{Nanos, Prng};

/// In schedules of seeds above this there is a client of another protocol, at the homes.
const WITH_TICKETS: u64 = 1000;
/// In those above this the homes' stores take time, too.
const WITH_SLOW_STORES: u64 = 2000;
/// In those above this they do not, and boxes are drained, and come back.
const WITH_DRAINS: u64 = 3000;

/// Times that let much happen in few events.
fn config(seed: u64) -> Config {
    Config {
        lease: Nanos::from_millis(20),
        min_grant: Nanos::from_millis(1),
        retransmit: Nanos::from_millis(1),
        retransmit_max: Nanos::from_millis(8),
        policy: if seed.is_multiple_of(4) { Policy::Exclusive } else { Policy::Inclusive },
        compute: [Compute::AtHome, Compute::TryFirst, Compute::Own][seed as usize % 3],
        fill_patience: Nanos::from_millis(20),
        patience: Nanos::from_millis(200),
        bypass: Nanos::from_millis(10),
        heartbeat: Nanos::from_millis(5),
        health: Nanos::from_millis(15),
        copies: 64,
        window: 8,
        operations: 64,
        ..Config::default()
    }
}

fn random_call(prng: &mut Prng) -> Call {
    let key = format!("key {}", prng.below(3));
    let key = key.as_bytes();
    let mut call = match prng.below(20) {
        0..=8 => Call::new(Verb::Get, key),
        9..=11 => Call::new(Verb::Set, key).value(prng.below(1000).to_string().as_bytes()),
        12 => Call::new(Verb::Delete, key),
        13 => Call::new(Verb::Add, key).value(b"1"),
        14 => Call::new(Verb::CondPut, key).operand(prng.below(1000)),
        15 => Call::new(Verb::Min, key).operand(prng.below(1000)),
        16 => Call::new(Verb::Touch, key),
        17 => Call::new(Verb::Cas, key).value(b"2"),
        18 if prng.chance(0.2) => Call::flush(HomeId(1 + prng.below(2) as u16)),
        18 => Call::new(Verb::Append, key).value(b"3").operand(6),
        // Counters have keys of their own, that nothing else changes.
        _ => Call::new(Verb::Incr, b"counter").value(b"0").operand(1),
    };
    if call.verb == Verb::Cas {
        call.version = Version((2 + prng.below(9)) << 32 | prng.below(4));
    }
    if prng.chance(0.3) && call.verb != Verb::Incr {
        call.life = Nanos::from_millis(1 + prng.below(30));
    }
    call
}

/// Where boxes may own keys, one client wants the counter more than others.
fn random_caller(prng: &mut Prng, owns: bool) -> (usize, Call) {
    let c = prng.below(3) as usize;
    if owns && prng.chance(0.5) {
        let verb = if prng.chance(0.2) { Verb::Get } else { Verb::Incr };
        return (
            0,
            Call::new(verb, b"counter").value(if verb == Verb::Incr { b"0" } else { b"" }).operand(1),
        );
    }
    (c, random_call(prng))
}

/// How it went: what the checker found.
pub(super) fn play(seed: u64, planted: Option<Planted>, crashes: bool) -> Vec<String> {
    play_world(seed, planted, crashes).violations
}

/// Packets are lost, doubled, late; as often as `prng` says.
fn make_lossy(world: &mut World, prng: &mut Prng) {
    let (drop, double, late) = (prng.unit_f64() * 0.1, prng.unit_f64() * 0.15, prng.unit_f64() * 0.2);
    world.script(move |_, _, _, prng| {
        let fate = prng.unit_f64();
        match fate {
            _ if fate < drop => Fate::Lost,
            _ if fate < drop + double => Fate::Twice,
            _ if fate < drop + double + late => Fate::Late(Nanos(prng.below(12_000_000))),
            _ => Fate::Arrives,
        }
    });
}

/// All ends once nothing is lost any more; and if nothing was `flushed`, the counter was counted.
fn judge_end(world: &mut World, by_ticket: u32, flushed: bool) {
    world.well();
    world.fails_no_more();
    world.run(Nanos::from_millis(400));
    if world.under_way() > 0 {
        world.violations.push(format!("{} operations never end", world.under_way()));
    }
    if world.tickets_under_way() > 0 {
        world.violations.push(format!("{} of {by_ticket} tickets never end", world.tickets_under_way()));
    }
    if !flushed && world.ownership()[2] == 0 {
        world.judge_counter("counter");
    }
    for (id, home) in &world.homes {
        if !home.is_idle() {
            world.violations.push(format!("home {id} has writes that never end"));
        }
    }
}

fn play_world(seed: u64, planted: Option<Planted>, crashes: bool) -> World {
    let mut prng = Prng::for_entity(seed, 1, 2);
    let mut world =
        World::new(config(seed), planted, (3, 1 + (seed % 2) as u16, 2), seed).with_controllers(2);
    make_lossy(&mut world, &mut prng);
    if seed > WITH_SLOW_STORES && seed <= WITH_DRAINS {
        world = world.slow(0.1);
    }
    world.evicts = (seed <= WITH_SLOW_STORES || seed > WITH_DRAINS) && seed.is_multiple_of(5);
    let mut flushed = false;
    let (mut at_home, mut by_ticket) = (Prng::for_entity(seed, 2, 2), 0);
    let mut drains = Prng::for_entity(seed, 3, 2);
    for _ in 0..150 {
        if seed > WITH_DRAINS && drains.chance(0.05) {
            // Of four boxes about one in three, most of the time.
            let ids: Vec<u16> = (1..=4).filter(|_| drains.chance(0.35)).collect();
            world.drain(&ids);
        }
        for _ in 0..prng.below(4) {
            let (c, call) = random_caller(&mut prng, world.config.compute == Compute::Own);
            if world.clients[c].under_way() < 40 {
                flushed |= call.verb == Verb::Flush;
                world.call(c, call);
            }
        }
        if seed > WITH_DRAINS {
            world.note_drained();
        }
        if (WITH_TICKETS..WITH_DRAINS).contains(&seed) && at_home.chance(0.5) {
            let call = random_call(&mut at_home);
            flushed |= call.verb == Verb::Flush;
            by_ticket += 1;
            world.ask_its_home(call);
        }
        if crashes && prng.chance(0.04) {
            let id = 1 + prng.below(4) as u16;
            world.crash_box(id);
            world.run(Nanos(prng.below(10_000_000)));
            world.restart_box(id);
        }
        if crashes && prng.chance(0.006) {
            let id = 1 + prng.below(2) as u16;
            flushed = true;
            world.crash_home(id);
            world.run(Nanos(prng.below(10_000_000)));
            world.restart_home(id);
        }
        if prng.chance(0.03) {
            world.drop_copy(1 + prng.below(4) as u16);
        }
        if world.evicts && prng.chance(0.1) {
            world.evict("key 1");
        }
        world.run(Nanos(prng.below(2_000_000)));
        if !world.violations.is_empty() {
            return world;
        }
    }
    judge_end(&mut world, by_ticket, flushed);
    world
}

#[test]
fn whatever_happens_no_box_answers_what_is_not_so() {
    let mut ownership = [0; 3];
    let mut drained = 0;
    let seeds = (1..=120).chain(WITH_TICKETS + 1..=WITH_TICKETS + 60);
    let seeds = seeds.chain(WITH_SLOW_STORES + 1..=WITH_SLOW_STORES + 60);
    for seed in seeds.chain(WITH_DRAINS + 1..=WITH_DRAINS + 120) {
        let world = play_world(seed, None, seed % 2 == 0);
        assert!(world.violations.is_empty(), "seed {seed}: {:#?}", world.violations);
        drained += world.drained;
        world.ownership().iter().zip(&mut ownership).for_each(|(now, all)| *all += now);
    }
    let [given, done, lost] = ownership;
    assert!(drained > 100, "boxes were drained: {drained}");
    assert!(given > 200 && done > 300 && lost > 2, "keys were given, used and lost: {ownership:?}");
}

/// How many seeds it takes, at most; measured, with room. Of the others two are too rare (a grant while answers are waited for, an owner
/// that is cut off for long), three are not seen by this checker (what operations and misses answer, a write that is done again where
/// nothing is left of the first time); scenarios find them.
const FOUND_WITHIN: &[(Planted, u64)] = &[
    (Planted::SkipInvalidation, 3),
    (Planted::FillWithoutToken, 3),
    (Planted::TokenSurvives, 3),
    (Planted::AckWithoutRemoving, 3),
    (Planted::AckBeforeChildren, 3),
    (Planted::LoseSharer, 3),
    (Planted::GrantWhileWriting, 3),
    (Planted::LeaseFromReply, 60),
    (Planted::WholeLeaseToChildren, 60),
    (Planted::ReplyRevalidates, 40),
    (Planted::NoSessions, 10),
    (Planted::OutcomeForgotten, 10),
    (Planted::ServeAtOnce, 240),
    (Planted::VersionsRestart, 10),
    (Planted::FlushSkipsBoxes, 3),
    (Planted::LifeFromReply, 10),
    (Planted::TwoWritesAtOnce, 3),
    (Planted::AnyRound, 30),
    (Planted::ApplyAtTimeout, 3),
    (Planted::ForgetChildren, 60),
    (Planted::ReturnWithoutRecords, 120),
    (Planted::ReturnOnce, 60),
    (Planted::AckBeforeReturn, 60),
    (Planted::GrantWithoutSessions, 120),
    (Planted::NoVersionBlock, 5),
    (Planted::ReadWhileOwned, 120),
    (Planted::LostValueReturns, 240),
];

/// The same, of those with drains.
const FOUND_WITH_DRAINS: &[(Planted, u64)] = &[(Planted::DrainedEarly, 3), (Planted::GrantToDraining, 60)];

/// The same, of those with tickets.
const FOUND_WITH_TICKETS: &[(Planted, u64)] =
    &[(Planted::TicketSkipsBoxes, 3), (Planted::TicketOvertakes, 20), (Planted::OwnVersions, 3)];

/// The same, of those whose stores take time.
const FOUND_WITH_SLOW_STORES: &[(Planted, u64)] =
    &[(Planted::GrantWhileUnderWay, 3), (Planted::UnknownForgotten, 20), (Planted::UnknownUndone, 80)];

#[test]
fn schedules_find_most_mistakes() {
    let with_tickets = FOUND_WITH_TICKETS.iter().map(|finder| (WITH_TICKETS, finder));
    let slow = FOUND_WITH_SLOW_STORES.iter().map(|finder| (WITH_SLOW_STORES, finder));
    let with_drains = FOUND_WITH_DRAINS.iter().map(|finder| (WITH_DRAINS, finder));
    let plain = FOUND_WITHIN.iter().map(|finder| (0, finder));
    for (after, (planted, seeds)) in plain.chain(with_tickets).chain(slow).chain(with_drains) {
        let found =
            (after + 1..=after + *seeds).any(|seed| !play(seed, Some(*planted), seed % 2 == 0).is_empty());
        assert!(found, "{} within {seeds} seeds", planted.name());
    }
}
