//! The brain in a world of faults, from a seed: a node that serves, lies, answers late, with garbage or not at all, whose registers refuse or are set by
//! another hand; and a checker that knows what really was.
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | the loop, as the driver has it, and the tests |
//! | `world` | the node, its pages, its faults |
//! | `check` | what must hold, whatever the node does |
//! | `caches` | memory between two caches whose curves are known |

mod caches;
mod check;
mod world;

use super::brain::Brain;
use super::log::{Line, Tuning, replay};
use super::options::{Options, Policy};
use super::planted::Planted;
use super::predict::{Predict, Predictor};
use crate::observed::Difference;
use crate::observed::Reading;
use crate::observed::{Figure, Kind, Register, Service};
use check::Checker;
use proptest::prelude::*;
use std::collections::BTreeMap;
use world::World;

/// A register that may be set.
pub(super) fn register(name: &str, number: u64, range: [u64; 2], choices: &[&str]) -> Register {
    let choices = choices.iter().map(|word| word.to_string()).collect();
    Register { name: name.to_owned(), number, range, choices, live: true }
}

/// The registers of a service of a kind, as a node has them at its start.
fn registers(kind: Kind) -> Vec<Register> {
    match kind {
        Kind::Kv => vec![
            register("engine.form", 1, [0, 2], &["plain", "staged", "coroutine"]),
            register("engine.group", 16, [1, 64], &[]),
            register("engine.mode", 0, [0, 1], &["shared", "dedicated"]),
        ],
        Kind::Rpc => vec![
            register("place.handlers", 0, [0, 3], &["auto", "edge", "host", "engine"]),
            register("place.other", 0, [0, 2], &["edge", "host", "engine"]),
            register("place.share", 0, [0, 100], &[]),
            register("workers.count", 0, [0, 256], &[]),
            register(
                "workers.balancer",
                1,
                [0, 4],
                &["static", "round_robin", "key_hash", "two_choices", "shortest_queue"],
            ),
        ],
        Kind::Rec => vec![
            register("rec.batch", 64, [1, 4096], &[]),
            register("rec.linger", 0, [0, 1_000_000], &[]),
            register("place.rec.preprocess", 0, [0, 2], &["edge", "engine", "host"]),
        ],
    }
}

/// A service that nobody asks anything.
pub(super) fn service(name: &str, kind: Kind) -> Service {
    Service {
        name: name.to_owned(),
        kind,
        registers: registers(kind),
        rate: Figure(0.0),
        refused: Figure(0.0),
        request_bytes: Figure(0.0),
        reply_bytes: Figure(0.0),
        methods: BTreeMap::new(),
        p50_ns: None,
        p99_ns: None,
        stages: BTreeMap::new(),
        cores: BTreeMap::new(),
        together: Figure(1.0),
        load: crate::observed::Load::default(),
        connections: BTreeMap::new(),
        stored_bytes: Figure(0.0),
        cache: None,
        doubts: Vec::new(),
    }
}

/// The model of the shipped host.
pub(super) fn predictor() -> Predictor {
    let shipped = model::platform::shipped::SHIPPED.iter().find(|(name, _)| *name == "this-host");
    Predictor::new(shipped.expect("it is shipped").1, "this-host.toml").expect("it is sound")
}

/// What a run came to.
struct Played {
    log: String,
    violations: Vec<String>,
    decisions: usize,
    /// Exchanges of memory among them.
    exchanges: usize,
}

/// Before this look an operator sets what may be set.
const TUNED_AT: u64 = 150;
/// Between two looks.
const EVERY_US: u64 = 500_000;

fn options(policy: Policy) -> Options {
    Options {
        policy,
        p99_max_ns: Some(2e6),
        moves_per_minute: 5,
        dwell_us: 2_000_000,
        settle_us: 300_000,
        judge_us: 900_000,
        bar_us: 5_000_000,
        hands_off_us: 4_000_000,
        ..Options::default()
    }
}

/// Plays so many looks, with a mistake if there is one.
fn play(seed: u64, looks: u32, options: &Options, planted: Option<Planted>) -> Played {
    let predictor = predictor();
    let mut brain: Brain<Option<Planted>> = Brain::with_bugs(options.clone(), &[], planted);
    let mut world = World::new(seed);
    let mut difference = Difference::default();
    let mut checker = Checker::new(options.clone());
    let mut log = vec![Line::Setup {
        options: options.clone(),
        made_us: Vec::new(),
        platform: predictor.text().to_owned(),
        modelled: None,
    }];
    let mut last_us = 0;
    for _ in 0..looks {
        // Whoever waits for a late answer asks later.
        let asked_us = last_us + EVERY_US;
        let answer = world.answer(asked_us);
        let now_us = asked_us + answer.late_us;
        last_us = now_us + 2000;
        let reading = answer.pages.as_ref().map_err(Clone::clone);
        let reading = reading.and_then(|(metrics, registers)| Reading::of(asked_us, metrics, registers));
        let reading = match reading {
            Ok(reading) => reading,
            Err(why) => {
                log.push(Line::Missed { now_us, why });
                continue;
            }
        };
        let Some(observation) = difference.add(reading, world::CORES) else { continue };
        if observation.sequence == TUNED_AT {
            // Less than before, so that what is checked still holds.
            let tuning = Tuning {
                moves_per_minute: options.moves_per_minute - 1,
                hysteresis: options.hysteresis * 1.5,
                dwell_us: options.dwell_us + EVERY_US,
                p99_max_ns: options.p99_max_ns,
            };
            brain.tune(&tuning);
            log.push(Line::Tuned(tuning));
        }
        let came = brain.observe(now_us, &observation, &predictor);
        checker.check(now_us, &observation, &answer, &came);
        log.push(Line::Seen { now_us, observation });
        let decisions: Vec<_> = came
            .iter()
            .filter_map(|line| match line {
                Line::Decision(decision) => Some(decision.clone()),
                _ => None,
            })
            .collect();
        log.extend(came);
        for decision in decisions {
            let refused = world.set(&decision.service, &decision.settings, &decision.from).err();
            let now_us = now_us + 1000;
            let came = brain.told(now_us, decision.number, refused.as_deref());
            log.push(Line::Told { now_us, decision: decision.number, refused });
            log.extend(came);
        }
    }
    let log = log.iter().map(|line| line.text() + "\n").collect();
    let violations = checker.violations.into_iter().chain(world.violations).collect();
    Played { log, violations, decisions: checker.decisions, exchanges: checker.exchanges }
}

/// Seeds that are played in every run.
const SEEDS: u64 = 40;
/// Looks of each: some minutes.
const LOOKS: u32 = 400;

#[test]
fn whatever_the_node_does_the_placer_keeps_its_promises() {
    let (mut decisions, mut exchanges) = (0, 0);
    for seed in 0..SEEDS {
        let policy = if seed % 4 == 3 { Policy::Greedy } else { Policy::Model };
        let played = play(seed, LOOKS, &options(policy), None);
        assert!(played.violations.is_empty(), "seed {seed}: {:#?}", &played.violations[..1]);
        decisions += played.decisions;
        exchanges += played.exchanges;
    }
    // A placer that never moves would keep all of them.
    assert!(decisions > 5 * SEEDS as usize, "{decisions} decisions");
    assert!(exchanges > SEEDS as usize, "{exchanges} exchanges of memory");
}

#[test]
fn every_planted_mistake_is_found() {
    for planted in Planted::ALL {
        let finds = |seed: &u64| {
            let played = play(*seed, LOOKS, &options(Policy::Model), Some(planted));
            !played.violations.is_empty()
        };
        assert!((0..SEEDS).any(|seed| finds(&seed)), "{planted:?} is not found in {SEEDS} seeds");
    }
}

#[test]
fn a_log_played_again_decides_the_same_byte_for_byte() {
    for seed in 0..12 {
        let policy = if seed % 4 == 3 { Policy::Greedy } else { Policy::Model };
        let played = play(seed, LOOKS, &options(policy), None);
        let again = replay(&played.log).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(
            (again.decisions as usize, again.observations > 200),
            (played.decisions, true),
            "seed {seed}"
        );
        // What is killed in the middle of a line can be played as far as it goes.
        let half = &played.log[..played.log.len() * 2 / 3];
        assert!(half.is_char_boundary(half.len()) && replay(half).is_ok(), "seed {seed}");
    }
}

#[test]
fn a_log_that_somebody_changed_is_told_from_what_comes() {
    let played = play(1, LOOKS, &options(Policy::Model), None);
    let at = played.log.find("\"line\":\"decision\"").expect("it decides something");
    let mut changed = played.log.clone();
    let end = changed[at..].find("\"sequence\":").expect("it says by what") + at + "\"sequence\":".len();
    changed.insert(end, '9');
    let error = replay(&changed).expect_err("another decision");
    assert!(error.to_string().contains("and now it would be"), "{error}");
    let error = replay("{\"line\":\"frozen\",\"is_frozen\":true}\n").expect_err("no setup");
    assert!(error.to_string().contains("begins with its setup"), "{error}");
    assert!(replay("garbage\n").is_err_and(|error| error.to_string().starts_with("line 1 ")));
}

#[test]
fn who_leaves_or_is_frozen_decides_nothing() {
    assert_eq!(play(1, LOOKS, &options(Policy::Leave), None).decisions, 0);
    let mut brain: Brain<Option<Planted>> = Brain::with_bugs(options(Policy::Model), &[], None);
    brain.freeze(true);
    let (mut world, mut difference) = (World::new(1), Difference::default());
    for look in 1..200 {
        let answer = world.answer(look * EVERY_US);
        let Ok((metrics, registers)) = answer.pages else { continue };
        let Ok(reading) = Reading::of(look * EVERY_US, &metrics, &registers) else { continue };
        let Some(observation) = difference.add(reading, world::CORES) else { continue };
        let came = brain.observe(look * EVERY_US + answer.late_us, &observation, &predictor());
        assert!(!came.iter().any(|line| matches!(line, Line::Decision(_))), "{came:?}");
    }
}

/// Knows nothing of any service.
struct Nothing;

impl Predict for Nothing {
    fn of<'a>(
        &'a self,
        _: &crate::observed::Observation,
        _: &'a Service,
    ) -> Option<Box<dyn super::predict::Known + 'a>> {
        None
    }
}

/// Groups of 32 take `less` of a core than others, and nothing else changes what a request takes. Where it ends from groups of `group`, and how often it was
/// moved.
fn sized(options: &Options, looks: u64, (group, less): (u64, f64)) -> (super::choice::Choice, usize) {
    let mut brain: Brain<Option<Planted>> = Brain::with_bugs(options.clone(), &[], None);
    let mut one = service("cache", Kind::Kv);
    one.rate = Figure(1e4);
    one.p50_ns = Some(Figure(5e4));
    one.p99_ns = Some(Figure(1e5));
    let mut moves = 0;
    let begin = one.registers.iter_mut().find(|of| of.name == "engine.group").expect("its own");
    begin.number = group;
    for look in 1..=looks {
        let now_us = look * EVERY_US;
        let group = one.registers.iter().find(|of| of.name == "engine.group").expect("its own").number;
        let cores = if group == 32 { 0.6 * (1.0 - less) } else { 0.6 };
        one.cores.insert(crate::observed::Location::Edge, Figure(cores));
        let observation = crate::observed::Observation {
            sequence: look,
            at_us: now_us,
            span_us: EVERY_US,
            cores: Figure(4.0),
            cores_used: Figure(cores),
            others: Figure(0.0),
            busy: BTreeMap::new(),
            services: vec![one.clone()],
        };
        for line in brain.observe(now_us, &observation, &Nothing) {
            let Line::Decision(decision) = line else { continue };
            moves += 1;
            for setting in &decision.settings {
                let register = one.registers.iter_mut().find(|of| of.name == setting.register);
                let register = register.expect("its own");
                register.number = register.number_of(&setting.value).expect("it takes it");
            }
            brain.told(now_us, decision.number, None);
        }
    }
    (super::choice::Choice::present(&one), moves)
}

#[test]
fn sizes_are_tried_while_the_load_is_steady_and_the_better_one_stays() {
    let options = options(Policy::Model);
    // Not before the load has been the same for a while.
    assert_eq!(sized(&options, 15, (16, 0.3)).1, 0);
    let (choice, moves) = sized(&options, 2000, (16, 0.3));
    assert_eq!((choice.value("engine.group"), choice.value("engine.form")), ("32", "staged"), "{choice}");
    // What is no better is tried less and less often.
    let (_, more) = sized(&options, 4000, (16, 0.3));
    assert!(moves > 4 && more - moves < moves, "{moves} and {more}");
    // It must be worth the whole hysteresis, also from a size that the placer would not choose itself.
    let (choice, _) = sized(&options, 2000, (20, 0.07));
    assert_eq!(choice.value("engine.group"), "20", "{choice}");
    assert_eq!(sized(&Options { explores: false, ..options.clone() }, 2000, (16, 0.3)).1, 0);
    let near = Options { p99_max_ns: Some(1.1e5), ..options };
    assert_eq!(sized(&near, 2000, (16, 0.3)).1, 0, "nothing is tried near the limit");
}

#[test]
fn what_is_fixed_is_gone_to_and_stayed_at() {
    let values = BTreeMap::from([("cache.engine.mode".to_owned(), "dedicated".to_owned())]);
    let options = Options { services: vec!["cache".into()], ..options(Policy::Fixed(values)) };
    let played = play(3, 100, &options, None);
    let decision = played.log.lines().find(|line| line.contains("\"line\":\"decision\"")).expect("one");
    assert!(decision.contains("\"reason\":\"fixed\"") && decision.contains("dedicated"), "{decision}");
    assert!(!played.log.contains("\"reason\":\"try\""));
}

/// Two placers that want the opposite: each leaves a service alone for a while that the other has set, so they do not undo each other look by look.
#[test]
fn two_placers_undo_each_other_seldom() {
    let wanting = |mode: &str| {
        let values = BTreeMap::from([("cache.engine.mode".to_owned(), mode.to_owned())]);
        let many = Options { moves_per_minute: 600, ..options(Policy::Fixed(values)) };
        Brain::<Option<Planted>>::with_bugs(many, &[], None)
    };
    let mut placers = [wanting("dedicated"), wanting("shared")];
    let (mut one, mut moves) = (service("cache", Kind::Kv), 0);
    one.rate = Figure(1e4);
    for look in 1..=240u64 {
        let now_us = look * EVERY_US / 2;
        let placer = &mut placers[look as usize % 2];
        let observation = crate::observed::Observation {
            sequence: look,
            at_us: now_us,
            span_us: EVERY_US,
            cores: Figure(4.0),
            cores_used: Figure(0.5),
            others: Figure(0.0),
            busy: BTreeMap::new(),
            services: vec![one.clone()],
        };
        for line in placer.observe(now_us, &observation, &Nothing) {
            let Line::Decision(decision) = line else { continue };
            moves += 1;
            let mode = decision.to.value("engine.mode").to_owned();
            let own = one.registers.iter_mut().find(|of| of.name == "engine.mode").expect("its own");
            own.number = own.number_of(&mode).expect("a word");
            placer.told(now_us, decision.number, None);
        }
    }
    // A minute, in which hands are off for four seconds after each: without that it would be hundreds.
    assert!((10..=20).contains(&moves), "{moves}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any figures at all in place of a node's: no panic, and nothing that the checker minds.
    #[test]
    fn any_figures_are_borne(
        figures in proptest::collection::vec((any::<f64>(), any::<f64>(), any::<f64>(), any::<u32>()), 1..60),
    ) {
        let mut brain: Brain<Option<Planted>> = Brain::with_bugs(options(Policy::Model), &[], None);
        let predictor = predictor();
        let (mut now_us, mut sequence, mut moves) = (0u64, 0, 0);
        for (rate, time, cores, gap) in figures {
            now_us += u64::from(gap % 900_000);
            sequence += u64::from(gap % 3 > 0);
            let mut one = service("cache", Kind::Kv);
            (one.rate, one.p99_ns) = (Figure(rate), Some(Figure(time)));
            one.stages.insert("execute".into(), Figure(time));
            one.cores.insert(crate::observed::Location::Edge, Figure(cores));
            let observation = crate::observed::Observation {
                sequence,
                at_us: now_us,
                span_us: u64::from(gap),
                cores: Figure(2.0),
                cores_used: Figure(cores),
                others: Figure(0.0),
                busy: BTreeMap::new(),
                services: vec![one],
            };
            for line in brain.observe(now_us, &observation, &predictor) {
                if let Line::Decision(decision) = line {
                    moves += 1;
                    brain.told(now_us, decision.number, None);
                }
            }
        }
        prop_assert!(moves <= 5 * (now_us / 60_000_000 + 1));
    }

    /// Whatever stands on a node's pages is read or refused.
    #[test]
    fn any_page_is_borne(
        metrics in "(process_cpu_seconds_total|process_start_time_seconds|process_thread_cpu_seconds_total|millrace_kv_requests_total\
                    |millrace_kv_stage_seconds_bucket|\\{|\\}|service=|le=|thread=|\"a\"|\"edge-0\"|,| |1|-|NaN|\\+Inf|\n){0,80}",
        registers in "(\\[|\\]|\\{|\\}|\"name\"|:|,|\"a.engine.mode\"|\"number\"|1|\"range\"|\"live\"|true){0,40}",
    ) {
        let mut difference = Difference::default();
        let whole = format!("process_cpu_seconds_total 1\nprocess_start_time_seconds 1\n{metrics}");
        let rows = "[{\"name\":\"a.engine.mode\",\"number\":0,\"range\":[0,1],\"choices\":[\"shared\",\"dedicated\"],\"live\":true}]";
        for (page, list) in [(&metrics, &*registers), (&whole, rows), (&whole, &*registers)] {
            let Ok(reading) = Reading::of(1, page, list) else { continue };
            if let Some(observation) = difference.add(reading, 2.0) {
                let _ = (observation.fault(), observation.services.first().map(Service::fault));
            }
        }
    }
}
