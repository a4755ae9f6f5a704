use super::bench::{Bench, Caching, Entries, Ran, Traffic};
use super::hardware::Valued;
use super::*;
use crate::timed::users::Doing;
use base::Prng;
use base::zipf::Zipf;
use model::platform::Platform;
use model::platform::shipped::shipped;
use model::system::incbricks::flows::Route;
use model::system::incbricks::rack::{Leg, Part, Rack, TORS, Which};
use protocol::wire::Verb;
use std::cell::Cell;

const SPANS: (Picos, Picos) = (Picos::from_micros(500), Picos::from_micros(3000));
const ALL_OF_THEM: [Deployment; 3] = [Deployment::Within, Deployment::Cross, Deployment::Full];

fn platform() -> Platform {
    shipped("xpliant-octeon").expect("it is shipped").expect("it is sound").with("load.keys", 10_000.0)
}

fn used(
    platform: &Platform,
    deployment: Deployment,
    entries: Entries,
    (skew, reads): (f64, f64),
) -> Bench<'_> {
    let traffic = Traffic { reads, ..Traffic::new(platform, skew).expect("it is complete") };
    Bench::used(platform, deployment, traffic, entries, (20_000, 7)).expect("it is complete")
}

const SMALL: Entries = Entries { tor: 256, root: 512 };

/// What one client sees that does these operations on one key, one after the other and over again.
fn alone(deployment: Deployment, caching: Caching, room: u64, turns: &'static [Doing]) -> Ran {
    let platform = platform();
    let traffic = Traffic { zipf: Zipf::new(100, 0.0), skew: 0.0, reads: 1.0 };
    let entries = Entries { tor: room, root: room };
    let bench = Bench::empty(&platform, deployment, (traffic, Valued::Item), entries, 1);
    let bench = bench.expect("it is complete");
    let (key, turn) = (bench.keys().key(0, 40), Cell::new(0));
    let draw = move |_: &mut Prng, _: u32| (turns[turn.replace(turn.get() + 1) % turns.len()], key.clone());
    let pace = Pace::Closed { clients: 1, window: 1 };
    bench.run(caching, pace, draw, SPANS).expect("it is complete")
}

#[test]
fn messages_of_the_machines_are_those_that_the_planner_weighs() {
    let platform = platform();
    for deployment in [Deployment::Within, Deployment::Cross] {
        let rack = Rack::new(&platform, deployment, 1).expect("it is complete");
        let (s, key) = (rack.sizes, (0, 40 / rack.servers() % 2));
        let route = |boxes| {
            let switches = rack.switches(0, key.0, key.1);
            Route::new(Which::One(0), Which::One(key.0), &switches, boxes)
        };
        let time = |legs: Vec<Leg>| -> f64 {
            let parts = [Part::Stack, Part::Server, Part::Switch, Part::Box];
            parts.map(|part| rack.time_in(part, &legs).as_secs_f64()).into_iter().sum()
        };
        let (with, without) = (route(true), route(false));
        let told = || with.invalidation(s.key, s.bare);
        let (none, boxes) = (Caching::None, Caching::Boxes);
        let (get, set): (&[Doing], &[Doing]) = (&[Doing::Get], &[Doing::Set]);
        let cases = [
            (none, 8, get, time(without.at_server(s.key, s.value, vec![])), 0.0),
            (none, 8, set, 0.0, time(without.at_server(s.value, s.key, vec![]))),
            // A table without room answers nothing.
            (boxes, 0, get, time(with.at_server(s.key, s.value, vec![])), 0.0),
            (boxes, 8, get, time(with.at_box(0, s.key, s.value)), 0.0),
            (boxes, 8, set, 0.0, time(with.at_server(s.value, s.key, vec![]))),
            (
                boxes,
                8,
                &[Doing::Get, Doing::Set],
                time(with.at_server(s.key, s.value, vec![])),
                time(with.at_server(s.value, s.key, told())),
            ),
        ];
        for (caching, room, turns, gets, sets) in cases {
            let ran = alone(deployment, caching, room, turns);
            for (seen, wanted) in [(&ran.users.gets, gets), (&ran.users.sets, sets)] {
                let close = wanted == 0.0 || (seen.mean() / wanted - 1.0).abs() < 0.001;
                let (seen, count) = (seen.mean(), seen.count());
                assert!(close, "{deployment:?} {caching:?} {turns:?}: {seen} s in {count}, not {wanted}");
                assert_eq!(count > 0, wanted > 0.0);
            }
            assert_eq!((ran.users.judged.stale, ran.disordered.1), (0, 0), "one client sees what it wrote");
        }
    }
}

#[test]
fn who_filters_spares_the_detours_of_misses_on_the_way_there() {
    let miss = |caching| alone(Deployment::Cross, caching, 0, &[Doing::Get]).users.gets.mean();
    let (none, boxes, filtered) = (miss(Caching::None), miss(Caching::Boxes), miss(Caching::Filtered));
    assert!(none < filtered && filtered < boxes, "{none} {filtered} {boxes}");
    let hit = |caching| alone(Deployment::Cross, caching, 8, &[Doing::Get]).users.gets.mean();
    assert_eq!(hit(Caching::Filtered), hit(Caching::Boxes));
}

/// What was begun ended, or is under way; every read was answered by somebody; what clients see and what they have under way agree (Little).
#[test]
fn no_operation_is_lost_or_doubled_and_reads_show_what_was_written() {
    let platform = platform();
    for (deployment, window) in ALL_OF_THEM.into_iter().zip([1, 3, 5]) {
        let bench = used(&platform, deployment, SMALL, (0.99, 0.95));
        for caching in [Caching::None, Caching::Boxes, Caching::Filtered] {
            let pace = Pace::Closed { clients: 20, window };
            let ran = bench.run(caching, pace, bench.reads_and_writes(), SPANS).expect("it is complete");
            let (users, under_way) = (&ran.users, 20 * window as u64);
            assert_eq!(users.by.boxes() + users.by.home, users.gets.count());
            assert_eq!(users.by.boxes() > 0, caching != Caching::None, "{deployment:?} {caching:?}");
            assert!(ran.told.0.abs_diff(users.sets.count()) <= under_way && users.sets.count() > 0);
            let all = users.all();
            let little = all.rate() * all.mean() / under_way as f64;
            assert!((0.95..1.05).contains(&little), "{deployment:?} {caching:?}: {little}");
            assert!(users.judged.reads > 100 && users.judged.invented == 0);
            if caching == Caching::None {
                assert_eq!((users.judged.stale, ran.disordered.1), (0, 0), "{deployment:?}: no copies");
            }
        }
    }
}

#[test]
fn what_the_protocol_leaves_open_is_seen() {
    // Half are writes, to few keys: copies that a root gave are told to nobody (G1), and replies pass invalidations (G2).
    let platform = platform().with("load.keys", 200.0);
    let bench = used(&platform, Deployment::Cross, SMALL, (0.99, 0.5));
    let pace = Pace::Closed { clients: 20, window: 4 };
    let ran = bench.run(Caching::Boxes, pace, bench.reads_and_writes(), SPANS).expect("it is complete");
    assert!(ran.users.judged.stale > 0 && ran.disordered.1 > 0, "{:?}", ran.users.judged);
}

#[test]
fn more_under_way_is_not_slower_in_all_and_the_same_seed_is_the_same_run() {
    let platform = platform();
    for doing in [None, Some(Doing::GetThenSet), Some(Doing::Compute(Verb::Incr, 3))] {
        let rates = [1, 4, 16].map(|window| {
            let run = || {
                let bench = used(&platform, Deployment::Full, SMALL, (0.99, 0.95));
                let plain = bench.reads_and_writes();
                let draw = move |prng: &mut Prng, client: u32| {
                    let (drawn, key) = plain(prng, client);
                    (doing.unwrap_or(drawn), key)
                };
                let pace = Pace::Closed { clients: 20, window };
                bench.run(Caching::Boxes, pace, draw, SPANS).expect("it is complete")
            };
            let (one, other) = (run(), run());
            assert_eq!((one.rate(), one.users.all().mean()), (other.rate(), other.users.all().mean()));
            one.rate()
        });
        assert!(rates.windows(2).all(|pair| pair[0] < pair[1] * 1.01), "{doing:?}: {rates:?}");
    }
}

#[test]
fn more_entries_and_more_skew_answer_more() {
    let platform = platform();
    let hit_share = |tor, skew| {
        let bench = used(&platform, Deployment::Within, Entries { tor, root: 0 }, (skew, 0.95));
        let pace = Pace::Closed { clients: 20, window: 1 };
        let ran = bench.run(Caching::Boxes, pace, bench.reads_and_writes(), SPANS).expect("it is complete");
        ran.users.by.boxes() as f64 / ran.users.gets.count() as f64
    };
    let by_size = [64, 256, 1024, 4096].map(|entries| hit_share(entries, 0.99));
    assert!(by_size.windows(2).all(|pair| pair[0] < pair[1]), "{by_size:?}");
    let by_skew = [0.01, 0.5, 0.8, 0.99].map(|skew| hit_share(1024, skew));
    assert!(by_skew.windows(2).all(|pair| pair[0] < pair[1]), "{by_skew:?}");
}

#[test]
fn a_write_leaves_no_copy_within_a_cluster_and_across_those_that_a_root_gave() {
    let platform = platform().with("load.keys", 300.0);
    for (deployment, all_go) in [(Deployment::Within, true), (Deployment::Cross, false)] {
        let bench = used(&platform, deployment, Entries { tor: 64, root: 256 }, (0.5, 1.0));
        assert!((0..TORS).any(|at| bench.kept(at) == 64), "{deployment:?}: it was full");
        for client in 0..TORS {
            for rank in 0..300 {
                let key = bench.keys().key(client, rank);
                bench.play(&mut bench.client(client), (Doing::Set, &key), |_, _, _| ());
            }
        }
        let left: usize = (0..TORS + 2).map(|at| bench.kept(at)).sum();
        assert_eq!(left == 0, all_go, "{deployment:?}: {left} copies are left");
    }
}
