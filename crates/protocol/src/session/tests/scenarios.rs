//! What is played, drawn from a seed.

use super::super::{Config, Lost};
use super::network::{Faults, Side};
use super::world::{Scenario, Summary, World};
use base::{Nanos, Prng};
use std::cell::RefCell;

/// Patience short enough that giving up is played too.
fn config(prng: &mut Prng) -> Config {
    let datagram_bytes = [256, 600, 1452, 8192, 65_507][prng.below(5) as usize];
    Config {
        datagram_bytes,
        max_message: 40_000,
        send_bytes: 80_000,
        send_messages: 256,
        receive_bytes: 80_000,
        receive_messages: 256,
        max_in_flight: 64,
        min_timeout: Nanos::from_millis(1),
        max_timeout: Nanos::from_millis(20),
        open_timeout: Nanos::from_millis(300),
        keep_alive: Nanos::from_millis(40),
        lost_after: Nanos::from_millis(400),
        ..Config::default()
    }
}

/// The smallest windows that the longest message allows.
fn tiny(config: Config, prng: &mut Prng) -> Config {
    let max_message = 100 + prng.below(3000) as usize;
    Config {
        max_message,
        send_bytes: max_message + prng.below(200) as usize,
        send_messages: 1 + prng.below(4) as usize,
        receive_bytes: max_message + prng.below(200) as usize,
        receive_messages: 1 + prng.below(4) as usize,
        max_in_flight: 4 + prng.below(4) as usize,
        ..config
    }
}

/// Loss, reordering, duplication and corruption, as bad as a session must survive.
pub(super) fn weather(seed: u64) -> Scenario {
    let mut prng = Prng::for_entity(seed, 1, 0x7363);
    let (mut opener, mut accepter) = (config(&mut prng), config(&mut prng));
    if prng.chance(0.3) {
        opener = tiny(opener, &mut prng);
    }
    if prng.chance(0.3) {
        accepter = tiny(accepter, &mut prng);
    }
    let mut rate = |most: f64| if prng.chance(0.5) { 0.0 } else { prng.unit_f64() * most };
    let faults = Faults {
        lose: rate(0.25),
        double: rate(0.3),
        change: rate(0.1),
        late: rate(0.2),
        late_by: Nanos::from_millis(5),
        dark: Vec::new(),
    };
    Scenario {
        seed,
        longest: opener.max_message.min(accepter.max_message),
        opener,
        accepter,
        faults,
        delay: Nanos::from_micros(10 + prng.below(300)),
        jitter: Nanos::from_micros(prng.below(200)),
        messages: [prng.below(600) as u32, prng.below(600) as u32],
        eager: 0.05 + 0.95 * prng.unit_f64(),
        restarts: Vec::new(),
        same_number: false,
        well_at: Nanos::from_millis(30),
    }
}

/// Weather, and ends that restart, and directions that are dark.
pub(super) fn disaster(seed: u64) -> Scenario {
    let mut prng = Prng::for_entity(seed, 2, 0x7363);
    let mut scenario = weather(seed);
    let mut moment = |within: u64| Nanos::from_micros(prng.below(within));
    let sides = [Side::Opener, Side::Accepter];
    let restarts = moment(4).0 / 1000;
    scenario.restarts = (0..restarts).map(|i| (sides[(seed + i) as usize % 2], moment(50_000))).collect();
    for side in sides {
        if moment(2) == Nanos::ZERO {
            let from = moment(20_000);
            scenario.faults.dark.push((side, from, from.plus(moment(800_000))));
        }
    }
    scenario.faults.late_by = Nanos::from_millis(30);
    scenario.same_number = !seed.is_multiple_of(4);
    scenario.messages = scenario.messages.map(|n| 2 * n);
    scenario.well_at =
        if scenario.faults.dark.is_empty() { Nanos::from_millis(60) } else { Nanos::from_millis(900) };
    scenario
}

/// An opener that restarts again and again with its old number, while its datagrams of before are still on their way.
pub(super) fn ghosts(seed: u64) -> Scenario {
    let mut prng = Prng::for_entity(seed, 3, 0x7363);
    let mut scenario = weather(seed);
    scenario.delay = Nanos::from_micros(20);
    scenario.faults.late = 0.3;
    scenario.faults.late_by = Nanos::from_millis(20);
    scenario.messages = [3000, 100];
    scenario.longest = scenario.longest.min(200);
    scenario.restarts = (0..6).map(|_| (Side::Opener, Nanos::from_micros(prng.below(40_000)))).collect();
    scenario.same_number = true;
    scenario.well_at = Nanos::from_millis(60);
    scenario
}

/// Plays `scenario` for `cases` seeds, or those that the environment names; a failure names the command that plays it again.
pub(super) fn play(
    test: &str,
    cases: u64,
    scenario: impl Fn(u64) -> Scenario,
    judge: impl Fn(&Scenario, &Summary) -> Result<(), String>,
) {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    let seeds = match number("MILLRACE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MILLRACE_CASES").unwrap_or(cases),
    };
    for seed in seeds {
        let played = scenario(seed);
        let verdict = World::new(played.clone()).run().and_then(|summary| judge(&played, &summary));
        if let Err(why) = verdict {
            panic!("{why}\n{played:?}\nMILLRACE_SEED={seed} cargo test -p millrace-protocol --lib {test}");
        }
    }
}

/// All arrived, and nobody gave up.
fn all_arrived(scenario: &Scenario, summary: &Summary) -> Result<(), String> {
    let well = summary.lost.iter().all(|&(_, lost)| lost == Lost::Closed);
    let all = summary.delivered == scenario.messages.iter().sum::<u32>();
    if well && all { Ok(()) } else { Err(format!("not all well: {summary:?}")) }
}

#[test]
fn everything_arrives_once_in_bad_weather() {
    play("everything_arrives_once_in_bad_weather", 150, weather, |scenario, summary| {
        // A replayed Open may begin a session that nobody uses, and that times out; the opener's own ends well.
        let opener = summary.lost.iter().filter(|(side, _)| *side == Side::Opener);
        let all = summary.delivered == scenario.messages.iter().sum::<u32>();
        if all && opener.map(|l| l.1).eq([Lost::Closed]) { Ok(()) } else { Err(format!("{summary:?}")) }
    });
}

#[test]
fn ends_that_die_and_wires_that_are_cut_double_nothing() {
    let seen = RefCell::new(Vec::new());
    play("ends_that_die_and_wires_that_are_cut_double_nothing", 100, disaster, |_, summary| {
        seen.borrow_mut().extend(summary.lost.iter().map(|l| l.1));
        Ok(())
    });
    let all = [Lost::Closed, Lost::Timeout, Lost::Restarted];
    assert!(
        std::env::var_os("MILLRACE_SEED").is_some() || all.iter().all(|lost| seen.borrow().contains(lost))
    );
}

#[test]
fn datagrams_of_an_earlier_session_with_the_same_number_change_nothing() {
    play("datagrams_of_an_earlier_session_with_the_same_number", 60, ghosts, |_, _| Ok(()));
}

#[test]
fn the_longest_messages_go_both_ways_at_once() {
    let scenario = |seed| {
        let mut scenario = weather(seed);
        let both = Config {
            datagram_bytes: if seed.is_multiple_of(2) { 1452 } else { 8192 },
            open_timeout: Nanos::from_secs(1),
            ..Config::default()
        };
        (scenario.opener, scenario.accepter) = (both.clone(), both);
        scenario.longest = super::super::config::MAX_MESSAGE;
        scenario.messages = [6, 6];
        scenario.faults.lose = 0.005;
        scenario
    };
    play("the_longest_messages_go_both_ways_at_once", 2, scenario, all_arrived);
}

#[test]
fn on_a_quiet_network_nothing_is_sent_twice() {
    let scenario = |seed| Scenario { faults: Faults::default(), jitter: Nanos::ZERO, ..weather(seed) };
    play("on_a_quiet_network_nothing_is_sent_twice", 50, scenario, |scenario, summary| {
        all_arrived(scenario, summary)?;
        let calm = summary.lost_packets == 0 && summary.duplicates == 0 && summary.timeouts == 0;
        if calm { Ok(()) } else { Err(format!("{summary:?}")) }
    });
}
