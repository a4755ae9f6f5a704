//! Two caches, of which it is known what each finds with how much memory: where memory ends, and what an exchange may not do.

use super::super::brain::Brain;
use super::super::log::{Half, Line, Reason, Verdict};
use super::super::options::{Options, Policy};
use super::super::planted::Planted;
use super::{EVERY_US, Nothing, options, register, service};
use crate::observed::{Cache, Figure, Kind, MEMORY, Observation, Service};
use std::collections::BTreeMap;

const MIB: f64 = (1 << 20) as f64;
/// Bytes of an item, and keys that a cache remembers.
const ITEM: f64 = 1024.0;
const ROOM: f64 = 16384.0;

/// The share of gets that so many bytes find.
type Curve = fn(f64) -> f64;

struct Rig {
    brain: Brain<Option<Planted>>,
    caches: Vec<(Service, Curve)>,
    rate: f64,
    looks: u64,
    /// Whether the first may shrink.
    shrinks: bool,
    lines: Vec<Line>,
}

impl Rig {
    fn new(options: Options, curves: [Curve; 2]) -> Rig {
        let of = |(name, curve): (&str, Curve)| {
            let mut one = service(name, Kind::Kv);
            one.registers.push(register(MEMORY, 64 << 20, [8 << 20, 1 << 46], &[]));
            one.cache = Some(Cache { memory: Figure(64.0 * MIB), ..Cache::default() });
            (one, curve)
        };
        let caches = ["a", "b"].into_iter().zip(curves).map(of).collect();
        let brain = Brain::with_bugs(options, &[], None);
        Rig { brain, caches, rate: 2e4, looks: 0, shrinks: true, lines: Vec::new() }
    }

    /// Looks once; whether orders are obeyed, and what is told of them.
    fn look(&mut self, obeys: bool) {
        let observation = self.serve();
        let now_us = observation.at_us;
        let came = self.brain.observe(now_us, &observation, &Nothing);
        for line in &came {
            let Line::Decision(decision) = line else { continue };
            if obeys {
                let value = decision.to.value(MEMORY).parse().expect("bytes");
                self.set(&decision.service, value);
            }
            self.brain.told(now_us + 1000, decision.number, (!obeys).then_some("503: it is busy"));
        }
        self.lines.extend(came);
    }

    /// Serves for a while, and says what that came to.
    fn serve(&mut self) -> Observation {
        self.looks += 1;
        let now_us = self.looks * EVERY_US;
        for (nth, (one, curve)) in self.caches.iter_mut().enumerate() {
            let limit = one.register(MEMORY).expect("its own").number as f64;
            let cache = one.cache.as_mut().expect("a cache");
            let used = cache.memory.0;
            let quarter = |nth: usize| curve(used + nth as f64 * ROOM / 4.0 * ITEM);
            let misses = self.rate * (1.0 - quarter(0));
            let filled = (used + misses * 0.5 * ITEM).min(limit);
            let is_held = nth == 0 && !self.shrinks && used > limit;
            *cache = Cache {
                limit: Figure(limit),
                memory: Figure(if is_held { used } else { filled }),
                items: Figure(used / ITEM),
                hits: Figure(self.rate - misses),
                misses: Figure(misses),
                ghosts: [0, 1, 2, 3].map(|nth| Figure(self.rate * (quarter(nth + 1) - quarter(nth)))),
                ghost_room: Figure(ROOM),
                evicted: Figure(misses),
                bound: cache.bound.clone(),
            };
            one.rate = Figure(self.rate);
        }
        Observation {
            sequence: self.looks,
            at_us: now_us,
            span_us: EVERY_US,
            cores: Figure(4.0),
            cores_used: Figure(0.5),
            others: Figure(0.0),
            busy: BTreeMap::new(),
            services: self.caches.iter().map(|(one, _)| one.clone()).collect(),
        }
    }

    fn set(&mut self, name: &str, bytes: u64) {
        let one = self.caches.iter_mut().find(|(one, _)| one.name == name).expect("it is there");
        let own = one.0.registers.iter_mut().find(|own| own.name == MEMORY).expect("its own");
        own.number = bytes;
    }

    fn limits(&self) -> [u64; 2] {
        [0, 1].map(|nth: usize| self.caches[nth].0.register(MEMORY).expect("its own").number >> 20)
    }

    /// Reasons and halves of what was decided.
    fn decided(&self) -> Vec<(Reason, String, Half)> {
        let decisions = self.lines.iter().filter_map(|line| match line {
            Line::Decision(decision) => Some(decision),
            _ => None,
        });
        let of = |half: &super::super::log::MemoryMove| half.half;
        decisions
            .filter_map(|one| Some((one.reason, one.service.clone(), one.memory.as_ref().map(of)?)))
            .collect()
    }
}

fn only_memory() -> Options {
    Options { explores: false, moves_per_minute: 60, ..options(Policy::Model) }
}

/// Finds all that it is asked with little, and as good as nothing with more of it.
fn small(bytes: f64) -> f64 {
    1.0 - (-bytes / (8.0 * MIB)).exp()
}

/// Finds the more the more it has.
fn large(bytes: f64) -> f64 {
    1.0 - (-bytes / (100.0 * MIB)).exp()
}

/// Finds all with 62 MiB, and a quarter without: what is asked goes round.
fn round(bytes: f64) -> f64 {
    if bytes >= 62.0 * MIB { 1.0 } else { 0.25 }
}

#[test]
fn memory_goes_where_more_is_found_by_it_until_both_find_as_much() {
    let mut rig = Rig::new(only_memory(), [small, large]);
    for _ in 0..2000 {
        rig.look(true);
        assert!(rig.limits().iter().sum::<u64>() <= 128, "{:?}", rig.limits());
    }
    let [a, b] = rig.limits();
    // Slopes are equal at 25 of 128; what is sure, by the hysteresis, stops before that.
    assert!((25..45).contains(&a) && a + b == 128, "{a} {b}");
    let half = rig.decided().len();
    (0..500).for_each(|_| rig.look(true));
    assert_eq!(rig.decided().len(), half, "it stays where it ended");
    let halves: Vec<_> = rig.decided().into_iter().map(|(_, service, half)| (service, half)).collect();
    assert!(
        halves.chunks(2).all(|two| two == [("a".to_owned(), Half::Gives), ("b".to_owned(), Half::Takes)]),
        "{halves:?}"
    );
    let rig = {
        let mut rig = Rig::new(Options { moves_memory: false, ..only_memory() }, [small, large]);
        (0..500).for_each(|_| rig.look(true));
        rig
    };
    assert!(rig.decided().is_empty());
}

/// Whose items are all just wanted misses nothing that it evicted: that is found out by trying, once, and then seldom.
#[test]
fn what_did_not_pay_goes_back() {
    let mut rig = Rig::new(only_memory(), [round, large]);
    (0..600).for_each(|_| rig.look(true));
    let back = rig.decided().into_iter().filter(|(reason, ..)| *reason == Reason::Back).count();
    let verdicts =
        rig.lines.iter().filter(|line| matches!(line, Line::Evaluation(of) if of.verdict == Verdict::Back));
    assert!(back >= 2 && verdicts.count() * 2 == back, "{:?}", rig.decided());
    assert!(rig.decided().len() < 40, "seldom: {:?}", rig.decided().len());
    rig.look(true);
    let sum: u64 = rig.limits().iter().sum();
    assert!((120..=128).contains(&sum), "{:?}", rig.limits());
}

#[test]
fn nothing_is_taken_before_it_has_shrunk_and_who_ends_then_leaves_less() {
    let mut rig = Rig::new(only_memory(), [small, large]);
    rig.shrinks = false;
    (0..40).for_each(|_| rig.look(true));
    assert_eq!((rig.decided().len(), rig.limits()), (1, [58, 64]), "{:?}", rig.decided());
    assert!(rig.brain.owes_memory());
    // Another placer takes what there is for all that there may be.
    rig.brain = Brain::with_bugs(only_memory(), &[], None);
    rig.shrinks = true;
    for _ in 0..600 {
        rig.look(true);
        assert!(rig.limits().iter().sum::<u64>() <= 122, "{:?}", rig.limits());
    }
    assert_eq!(rig.limits().iter().sum::<u64>(), 122);
}

#[test]
fn what_was_refused_is_left_over_for_another_time() {
    let mut rig = Rig::new(only_memory(), [small, large]);
    while rig.decided().len() < 2 {
        // The first half is done, the second is not.
        let obeys = rig.decided().is_empty();
        rig.look(obeys);
    }
    assert_eq!(rig.limits(), [58, 64]);
    (0..40).for_each(|_| rig.look(true));
    assert_eq!(rig.limits().iter().sum::<u64>(), 128, "{:?}", rig.decided());
}

#[test]
fn promises_and_hands_of_others_are_left_alone() {
    let mut rig = Rig::new(only_memory(), [small, large]);
    rig.caches[0].0.cache.as_mut().expect("a cache").bound = Some("it loses nothing (store.mode)".to_owned());
    (0..200).for_each(|_| rig.look(true));
    assert!(rig.decided().is_empty() && rig.lines.is_empty(), "{:?}", rig.lines);
    let mut rig = Rig::new(only_memory(), [small, large]);
    (0..4).for_each(|_| rig.look(true));
    rig.set("b", 96 << 20);
    // As long as hands are off.
    (0..7).for_each(|_| rig.look(true));
    assert!(rig.decided().is_empty(), "{:?}", rig.decided());
    let said = |line: &Line| matches!(line, Line::Note { what, .. } if what.contains("somebody else set store.memory"));
    assert!(rig.lines.iter().any(said), "{:?}", rig.lines);
    (0..1000).for_each(|_| rig.look(true));
    assert_eq!(rig.limits().iter().sum::<u64>(), 160, "what he set is what they may have");
}

/// Who is put back to what he had, in the middle of an exchange, was so by another hand.
#[test]
fn a_half_that_is_undone_is_seen() {
    let mut rig = Rig::new(only_memory(), [small, large]);
    rig.shrinks = false;
    (0..20).for_each(|_| rig.look(true));
    assert_eq!((rig.decided().len(), rig.limits()), (1, [58, 64]));
    rig.set("a", 64 << 20);
    rig.look(true);
    let said = |line: &Line| matches!(line, Line::Note { what, .. } if what.contains("somebody else set"));
    assert!(rig.lines.iter().any(said) && !rig.brain.owes_memory(), "{:?}", rig.lines);
}

/// A miss of the one may cost more than one of the other.
#[test]
fn misses_may_cost_more() {
    let end = |costs: &[(&str, f64)]| {
        let miss_costs = costs.iter().map(|(name, cost)| (name.to_string(), *cost)).collect();
        let mut rig = Rig::new(Options { miss_costs, ..only_memory() }, [large, large]);
        (0..1000).for_each(|_| rig.look(true));
        rig.limits()
    };
    assert_eq!(end(&[]), [64, 64], "they are alike");
    let [a, b] = end(&[("a", 3.0)]);
    assert!(a > 90 && a + b == 128, "{a} {b}");
}

/// Two placers at one node: who sees the other at work leaves it alone, and together they move no more than what is there.
#[test]
fn two_placers_stay_out_of_each_others_way() {
    let mut rig = Rig::new(only_memory(), [small, large]);
    let mut other: Brain<Option<Planted>> = Brain::with_bugs(only_memory(), &[], None);
    let (mut other_moves, mut other_lines) = (0, Vec::new());
    for _ in 0..1000 {
        rig.look(true);
        let observation = rig.serve();
        let now_us = observation.at_us;
        let came = other.observe(now_us, &observation, &Nothing);
        for line in &came {
            let Line::Decision(decision) = line else { continue };
            other_moves += 1;
            rig.set(&decision.service, decision.to.value(MEMORY).parse().expect("bytes"));
            other.told(now_us + 1000, decision.number, None);
        }
        other_lines.extend(came);
        assert!(rig.limits().iter().sum::<u64>() <= 128, "{:?}", rig.limits());
    }
    let is_seen = |lines: &[Line]| {
        let said = |line: &Line| matches!(line, Line::Note { what, .. } if what.contains("somebody else"));
        lines.iter().filter(|line| said(line)).count()
    };
    assert!(is_seen(&other_lines) > 0 && is_seen(&rig.lines) + is_seen(&other_lines) < 400);
    let moves = rig.decided().len() + other_moves;
    assert!((2..200).contains(&moves), "{moves}");
}
