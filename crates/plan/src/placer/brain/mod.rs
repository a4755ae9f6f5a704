//! The brain: a machine without clock or socket that is told what a node does, and says which registers to set.
//!
//! ```text
//!   observe ─▶ is it to be gone by? ─▶ what came corrects predictions ─▶ a move under way? ─▶ judge: keep, or back
//!                │ no: ignored                                              │ none
//!                ▼                                                          ▼
//!              a line                                     consider: compare, decide ─▶ decision ─▶ told what became of it
//! ```
//! | file | what it is |
//! |---|---|
//! | `mod` | its state, and what it takes in |
//! | `consider` | what could be chosen, and whether to |
//! | `judge` | what became of a move |
//! | `exchange`, `pairs` | memory between caches, which goes its own way beside moves; between which |
//!
//! Invariants, held by `tests` in a world of faults:
//!
//! 1. No more moves in any minute than the budget, going back included.
//! 2. No setting outside of what the observation says that the register takes.
//! 3. Nothing is decided by an observation that has a fault, is older than `stale_us`, or does not come after the last.
//! 4. Nothing goes to a place that the observation says is full.
//! 5. A service moves again no sooner than `dwell_us`, unless it goes back or its load changed; and forward only for more than the hysteresis.
//! 6. One move of a service at a time: what came can be told apart. Of an exchange of memory misses say it, which no move of a service changes.
//!
//! Bounds: [`SERVICES_MAX`] services, `BARS_MAX` choices of each that are barred.

mod consider;
mod exchange;
mod judge;
mod pairs;

use super::budget::Budget;
use super::choice::Choice;
use super::correct::Corrections;
use super::log::{Cause, Decision, Line, Reason, Tuning};
use super::options::{Options, Policy};
use super::planted::Planted;
use super::predict::{Known, Predict, Prediction};
use super::verdict::Measured;
use crate::observed::{Figure, Observation, SERVICES_MAX, Service};
use exchange::Exchanges;
use protocol::planted::Bugs;
use std::collections::BTreeMap;

/// Choices of a service that are not tried for a while.
const BARS_MAX: usize = 64;
/// Doublings of how long a choice is barred.
const BAR_DOUBLINGS_MAX: u32 = 6;
/// What is this old counts half.
const SMOOTH_HALF_LIFE_US: f64 = 700_000.0;
/// A load that changed by this factor in rate or size is another.
const LOAD_FACTOR: f64 = 1.6;
/// So is one whose methods have changed by this share.
const LOAD_MIX: f64 = 0.2;
/// A service with fewer requests a second is idle: there is nothing to decide by.
const RATE_MIN: f64 = 20.0;
/// At a rate that differs by this factor a choice is not barred for what it did at the other: what was not worth its cores may be when more is asked.
const BAR_FACTOR: f64 = 1.2;
/// Observations before the first decision of a load.
const OBSERVATIONS_MIN: u32 = 2;

/// What tells loads apart.
#[derive(Clone, Debug, PartialEq)]
struct Load {
    rate: f64,
    request_bytes: f64,
    reply_bytes: f64,
    methods: BTreeMap<String, Figure>,
}

impl Load {
    fn of(service: &Service) -> Load {
        Load {
            rate: service.rate.0,
            request_bytes: service.request_bytes.0,
            reply_bytes: service.reply_bytes.0,
            methods: service.methods.clone(),
        }
    }

    /// Whether `now` is another load; `with_rate`: also if its rate alone is another.
    fn differs(&self, now: &Load, with_rate: bool) -> bool {
        let is_other = |one: f64, other: f64| is_other(one, other, LOAD_FACTOR);
        let share = |load: &Load, name: &str| load.methods.get(name).map_or(0.0, |figure| figure.0);
        let names = self.methods.keys().chain(now.methods.keys());
        let mut mix = names.map(|name| (share(self, name) - share(now, name)).abs());
        (with_rate && is_other(self.rate, now.rate))
            || is_other(self.request_bytes, now.request_bytes)
            || is_other(self.reply_bytes, now.reply_bytes)
            || mix.any(|by| by > LOAD_MIX)
    }
}

/// Whether two rates or sizes differ by more than a factor.
fn is_other(one: f64, other: f64, factor: f64) -> bool {
    let (less, more) = (one.min(other).max(1.0), one.max(other).max(1.0));
    more / less > factor
}

/// A choice that is not tried again before this, at about this rate.
#[derive(Clone, Copy, Debug)]
struct Bar {
    until_us: u64,
    times: u32,
    rate: f64,
}

impl Bar {
    /// For `bar_us`, the next time for twice as long.
    fn renew(&mut self, now_us: u64, bar_us: u64) {
        let length_us = bar_us.saturating_mul(1 << self.times.min(BAR_DOUBLINGS_MAX));
        self.until_us = now_us.saturating_add(length_us);
        self.times = self.times.saturating_add(1);
    }
}

/// A move under way: decided, and not judged yet.
#[derive(Clone, Debug)]
struct Running {
    decision: u64,
    from: Choice,
    to: Choice,
    reason: Reason,
    expected: Option<Prediction>,
    before: Measured,
    load: Load,
    /// Since when registers are set; none: not told yet.
    set_us: Option<u64>,
    /// What came since it settled, and over how long.
    sum: Option<(Measured, u64)>,
}

impl Running {
    /// Whether it is stayed at whatever comes: where it came from, or where the operator or the guideline says.
    fn is_final(&self) -> bool {
        matches!(self.reason, Reason::Back | Reason::Fixed | Reason::Greedy)
    }
}

/// What is known of a service.
#[derive(Clone, Debug, Default)]
struct ServiceState {
    /// Where it was last, by an observation or by what was told.
    choice: Option<Choice>,
    /// What is measured, smoothed; of so many observations.
    measured: Measured,
    observations: u32,
    seen_us: u64,
    /// When it was moved, or was to be.
    moved_us: Option<u64>,
    /// Somebody else set its registers: it is left alone until then.
    hands_off_us: u64,
    bars: BTreeMap<Choice, Bar>,
    load: Option<Load>,
    /// Since when it has this load.
    steady_us: u64,
    /// Its load changed since it was moved.
    is_other_load: bool,
}

/// See the head of the file.
#[derive(Debug)]
pub struct Brain<B> {
    options: Options,
    bugs: B,
    budget: Budget,
    corrections: Corrections,
    seats: BTreeMap<String, ServiceState>,
    running: Option<(String, Running)>,
    exchanges: Exchanges,
    sequence: Option<u64>,
    decisions: u64,
    is_frozen: bool,
}

impl<B: Bugs<Planted>> Brain<B> {
    /// One that has made moves at these times of the last minute.
    pub fn new(options: Options, made_us: &[u64]) -> Brain<B> {
        Brain::with_bugs(options, made_us, B::default())
    }

    /// One that makes a mistake.
    pub fn with_bugs(options: Options, made_us: &[u64], bugs: B) -> Brain<B> {
        Brain {
            budget: Budget::new(options.moves_per_minute as usize, made_us),
            options,
            bugs,
            corrections: Corrections::default(),
            seats: BTreeMap::new(),
            running: None,
            exchanges: Exchanges::default(),
            sequence: None,
            decisions: 0,
            is_frozen: false,
        }
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// When the moves of the last minute were made.
    pub fn made_us(&self) -> Vec<u64> {
        self.budget.made_us()
    }

    /// A cache has given memory that no other has yet: who ends now leaves less than there was.
    pub fn owes_memory(&self) -> bool {
        self.exchanges.owes()
    }

    /// While it is frozen it decides nothing, not even to go back.
    pub fn freeze(&mut self, is_frozen: bool) {
        self.is_frozen = is_frozen;
    }

    /// Goes by other limits from now on.
    pub fn tune(&mut self, tuning: &Tuning) {
        let Tuning { moves_per_minute, hysteresis, dwell_us, p99_max_ns } = tuning.clone();
        self.budget.set_moves(moves_per_minute as usize);
        self.options = Options { moves_per_minute, hysteresis, dwell_us, p99_max_ns, ..self.options.clone() };
    }

    /// Moves that are left of the minute's.
    pub fn moves_left(&mut self, now_us: u64) -> usize {
        self.budget.left(now_us)
    }

    /// Bytes that caches may have together; 0 where there are not two.
    pub fn promised(&self) -> u64 {
        self.exchanges.promised()
    }

    /// Caches, and what each may have.
    pub fn limits(&self) -> impl Iterator<Item = (&str, u64)> {
        self.exchanges.limits()
    }

    /// What came divided by what was predicted, of each service where it is: p50, p99, cores.
    pub fn factors(&self, now_us: u64) -> Vec<(String, &'static str, f64)> {
        let of = |(name, at)| {
            let found = self.corrections.factors(now_us, name, at).into_iter();
            found.map(move |(figure, factor)| (name.to_owned(), figure, factor))
        };
        self.choices().flat_map(of).collect()
    }

    /// Where services are, as far as it knows.
    pub fn choices(&self) -> impl Iterator<Item = (&str, &Choice)> {
        self.seats.iter().filter_map(|(name, seat)| Some((&**name, seat.choice.as_ref()?)))
    }

    /// What became of a decision: its registers are set, or one of them was refused, and those before it are as they were.
    pub fn told(&mut self, now_us: u64, decision: u64, refused: Option<&str>) -> Vec<Line> {
        if let Some(lines) = self.told_of_memory(now_us, decision, refused) {
            return lines;
        }
        let Some((name, running)) = &mut self.running else { return Vec::new() };
        if running.decision != decision {
            return Vec::new();
        }
        let Some(why) = refused else {
            running.set_us = Some(now_us);
            if let Some(seat) = self.seats.get_mut(name) {
                seat.choice = Some(running.to.clone());
            }
            return Vec::new();
        };
        let (name, running) = self.running.take().expect("it is there");
        let what = format!("{} could not be set: {why}; it is not tried again for a while", running.to);
        self.bar(&name, &running.to, now_us);
        if let Some(seat) = self.seats.get_mut(&name) {
            // Where it is now the next observation says.
            seat.choice = None;
        }
        vec![Line::Note { now_us, service: name, what }]
    }

    /// Takes in what a node said, and says what follows.
    pub fn observe(&mut self, now_us: u64, seen: &Observation, predictor: &dyn Predict) -> Vec<Line> {
        let sequence = seen.sequence;
        let ignored = |service: Option<&str>, cause: Cause, why: String| Line::Ignored {
            now_us,
            sequence,
            service: service.map(str::to_owned),
            cause,
            why,
        };
        if let Some((cause, why)) = self.unusable(now_us, seen) {
            return vec![ignored(None, cause, why)];
        }
        self.sequence = Some(sequence);
        let mut lines = Vec::new();
        let mut usable = Vec::new();
        for service in seen.services.iter().take(SERVICES_MAX) {
            let wanted = &self.options.services;
            if !(wanted.is_empty() || wanted.contains(&service.name)) {
                continue;
            }
            match service.fault() {
                Some(fault) => lines.push(ignored(Some(&service.name), Cause::Figures, fault.to_string())),
                None => usable.push((service, predictor.of(seen, service))),
            }
        }
        for (service, served) in &usable {
            lines.extend(self.look(now_us, service));
            if let Some(served) = served {
                self.learn(now_us, seen, service, &**served);
            }
        }
        lines.extend(self.look_at_caches(now_us, seen));
        match &self.running {
            Some((name, _)) => {
                let name = name.clone();
                match usable.iter().find(|(service, _)| service.name == name) {
                    Some((service, _)) => lines.extend(self.judge(now_us, seen, service)),
                    None => lines.extend(self.give_up(now_us)),
                }
            }
            None if self.is_frozen => {}
            None => lines.extend(self.consider(now_us, seen, &usable).map(Line::decision)),
        }
        if !self.is_frozen {
            let is_still =
                self.running.is_none() && !lines.iter().any(|line| matches!(line, Line::Decision(_)));
            lines.extend(self.exchange(now_us, seen, is_still));
        }
        lines
    }

    /// Why nothing of an observation is gone by.
    fn unusable(&self, now_us: u64, seen: &Observation) -> Option<(Cause, String)> {
        if let Some(last) = self.sequence.filter(|last| *last >= seen.sequence) {
            let why = format!("it is the {}th observation, and the {last}th was here before", seen.sequence);
            return Some((Cause::Repeated, why));
        }
        let age = now_us.saturating_sub(seen.at_us);
        let is_stale = age > self.options.stale_us || seen.at_us > now_us;
        if is_stale && !self.bugs.has(Planted::StaleUsed) {
            let why = match seen.at_us > now_us {
                true => "it is from the future".to_owned(),
                false => format!("it is {:.1} s old", age as f64 / 1e6),
            };
            return Some((Cause::Stale, why));
        }
        if seen.span_us == 0 {
            return Some((Cause::Empty, "it is over no time".to_owned()));
        }
        seen.fault().map(|fault| (Cause::Figures, fault.to_string()))
    }

    /// Smooths what is measured of a service, and sees whether somebody else moved it or its load changed.
    fn look(&mut self, now_us: u64, service: &Service) -> Vec<Line> {
        let is_running = self.running.as_ref().is_some_and(|(name, _)| *name == service.name);
        let seat = self.seats.entry(service.name.clone()).or_default();
        let (present, load) = (Choice::present(service), Load::of(service));
        let mut lines = Vec::new();
        let is_elsewhere = seat.choice.as_ref().is_some_and(|choice| *choice != present);
        // Between a decision and what is told of it, it may be at either.
        let is_on_its_way = self.running.as_ref().is_some_and(|(name, of)| {
            *name == service.name && of.set_us.is_none() && (of.from == present || of.to == present)
        });
        if is_elsewhere && !is_on_its_way {
            let was = seat.choice.as_ref().map(Choice::to_string).unwrap_or_default();
            let what = format!("somebody else set {was} to {present}: it is left alone for a while");
            lines.push(Line::Note { now_us, service: service.name.clone(), what });
            seat.hands_off_us = now_us.saturating_add(self.options.hands_off_us);
            seat.observations = 0;
            if is_running {
                self.running = None;
            }
        }
        let seat = self.seats.get_mut(&service.name).expect("it is there");
        if seat.choice.as_ref() != Some(&present) {
            seat.choice = Some(present);
        }
        if !is_running && seat.load.as_ref().is_none_or(|last| last.differs(&load, true)) {
            // What was barred was so under another load.
            seat.bars.clear();
            seat.is_other_load = seat.load.is_some();
            (seat.load, seat.observations, seat.steady_us) = (Some(load), 0, now_us);
            // What was measured now is of both.
            return lines;
        }
        smooth(seat, now_us, &of(service));
        lines
    }

    /// Corrects predictions by what came, where a service has stayed for long enough.
    fn learn(&mut self, now_us: u64, seen: &Observation, service: &Service, served: &dyn Known) {
        let Some(seat) = self.seats.get(&service.name) else { return };
        let is_settled = seat
            .moved_us
            .is_none_or(|at| now_us.saturating_sub(at) > self.options.settle_us.saturating_add(seen.span_us));
        if !is_settled || service.rate.0 < RATE_MIN || seat.observations < OBSERVATIONS_MIN {
            return;
        }
        let present = Choice::present(service);
        if let Some(said) = served.predict(&present) {
            self.corrections.learn(now_us, &service.name, &present, &said, &seat.measured);
        }
    }

    /// Has a choice of a service not be tried for a while, the next time for twice as long.
    fn bar(&mut self, name: &str, to: &Choice, now_us: u64) {
        let bar_us = self.options.bar_us;
        let Some(seat) = self.seats.get_mut(name) else { return };
        if seat.bars.len() >= BARS_MAX && !seat.bars.contains_key(to) {
            let first =
                seat.bars.iter().min_by_key(|(_, bar)| bar.until_us).map(|(choice, _)| choice.clone());
            first.and_then(|choice| seat.bars.remove(&choice));
        }
        let rate = seat.measured.rate;
        let bar = seat.bars.entry(to.clone()).or_insert(Bar { until_us: 0, times: 0, rate });
        bar.rate = rate;
        bar.renew(now_us, bar_us);
    }

    /// Counts a move.
    fn spend(&mut self, now_us: u64, is_try: bool) {
        if !self.bugs.has(Planted::BudgetNotCounted) {
            self.budget.count(now_us, is_try);
        }
    }
}

impl Line {
    fn decision(decision: Decision) -> Line {
        Line::Decision(Box::new(decision))
    }
}

/// What is measured of a service now.
fn of(service: &Service) -> Measured {
    Measured {
        rate: service.rate.0,
        p50_ns: service.p50_ns.map(|figure| figure.0),
        p99_ns: service.p99_ns.map(|figure| figure.0),
        cores: service.cores_used(),
    }
}

fn smooth(seat: &mut ServiceState, now_us: u64, now: &Measured) {
    let age = now_us.saturating_sub(seat.seen_us) as f64;
    let weight = if seat.observations == 0 { 1.0 } else { 1.0 - f64::powf(0.5, age / SMOOTH_HALF_LIFE_US) };
    let mix = |was: f64, is: f64| was + weight * (is - was);
    let mix_known = |was: Option<f64>, is: Option<f64>| match (was, is) {
        (Some(was), Some(is)) if seat.observations > 0 => Some(mix(was, is)),
        (_, Some(is)) => Some(is),
        (was, None) if seat.observations > 0 => was,
        _ => None,
    };
    let was = seat.measured;
    seat.measured = Measured {
        rate: mix(was.rate, now.rate),
        p50_ns: mix_known(was.p50_ns, now.p50_ns),
        p99_ns: mix_known(was.p99_ns, now.p99_ns),
        cores: mix(was.cores, now.cores),
    };
    seat.observations = seat.observations.saturating_add(1);
    seat.seen_us = now_us;
}

/// Whether the policy ever moves anything.
fn is_moving(policy: &Policy) -> bool {
    *policy != Policy::Leave
}
