//! Memory between the caches of a node: what one gives another takes, so that together they have what a person promised them, and never more.
//!
//! ```text
//!   nothing ──▶ one gives: store.memory less ──▶ it has shrunk ──▶ another takes: store.memory more ──▶ it is full ──▶ misses are counted ──▶ stays, or all of
//!      ▲          refused: nothing came of it      (seen)           refused: it is left over                                                it the other way
//!      └── what is left over, of a half that was not done, goes to who gains most by it
//! ```
//! Invariants, held by `tests` in a world of faults:
//!
//! 1. What limits say and stores have, whichever is more, is together never more than what they had when the placer began, or when another hand set one
//!    last. A cache takes only when a look after the other's order has shown that that one has shrunk; whoever is killed in between leaves less.
//! 2. A step is a tenth of the smaller of the two, in whole MiB, and at least one.
//! 3. An exchange is a move of the budget, and exchanges are no more than half of it.
//!
//! **Which two**, and how much: `pairs`.
//!
//! **When**: not before the one that took is full again: until then it has not had as many insertions as the bytes hold, and does not find what it will.
//! Then for `judge_us`, and until there are enough misses to be sure of.

use super::super::choice::Choice;
use super::super::log::{Decision, Evaluation, Half, Line, MemoryMove, Reason, Verdict};
use super::super::marginal::{Window, unsure};
use super::super::options::Policy;
use super::super::planted::Planted;
use super::super::predict::Range;
use super::pairs::{GRAIN, Shown, caches, over};
use super::{Bar, Brain, Load};
use crate::observed::Observation;
use protocol::planted::Bugs;
use std::collections::BTreeMap;

/// Seconds of counts before the first exchange.
const SEEN_MIN_S: f64 = 2.0;
/// A cache that has not shrunk, or cannot be told to take, by then gives up; one that is not full by then is judged as it is.
const PATIENCE_US: u64 = 30_000_000;
/// Misses that a judgement is by, if there are so many in eight times `judge_us`.
const MISSES_MIN: f64 = 1000.0;
const JUDGE_FACTOR: f64 = 8.0;
/// Over which time exchanges are counted.
const MINUTE_US: u64 = super::super::budget::WINDOW_US;

/// What is known of a cache.
#[derive(Clone, Debug, Default)]
struct Known {
    /// What its limit is, as it was last seen or told.
    limit: u64,
    /// What an order of ours may have made of it.
    ordered: Option<u64>,
    /// Since when it may have more than before, and has not filled it.
    fills_us: Option<u64>,
    /// What it did lately with what it has; nothing while it fills.
    lately: Window,
}

impl Known {
    /// It may have so much from now on. What it did with less or more it does not do now.
    fn moved(&mut self, now_us: u64, limit: u64) {
        if self.limit != limit {
            self.lately = Window::default();
            self.fills_us = (limit > self.limit).then_some(now_us);
        }
        self.limit = limit;
    }
}

/// How far an exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The one is told to give; since when it has been, if it is known.
    Gives(Option<u64>),
    /// The other is told to take.
    Takes,
    /// It fills what it took, since then.
    Fills(u64),
    /// Misses are counted.
    Counts,
}

/// An exchange under way.
#[derive(Clone, Debug)]
struct Exchange {
    decision: u64,
    from: String,
    to: String,
    bytes: u64,
    stage: Stage,
    is_back: bool,
    /// What the one gains and the other loses, as predicted.
    slopes: [Range; 2],
    /// Of both: what they were asked, what they did before, and what they did since.
    loads: [Load; 2],
    before: [Window; 2],
    came: [Window; 2],
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// Bytes that all caches may have together.
    promised: Option<u64>,
    caches: BTreeMap<String, Known>,
    open: Option<Exchange>,
    bars: BTreeMap<(String, String), Bar>,
    /// When the last ended, and when those of the last minute began.
    ended_us: Option<u64>,
    begun_us: Vec<u64>,
    hands_off_us: u64,
}

impl Exchanges {
    /// One is under way, or was not done: caches have less than they may have together.
    pub(super) fn owes(&self) -> bool {
        let sum = self.caches.values().map(|known| known.limit).fold(0, u64::saturating_add);
        self.open.is_some() || self.promised.is_some_and(|promised| sum < promised)
    }

    /// Bytes that all may have together; 0 where there are not two.
    pub(super) fn promised(&self) -> u64 {
        self.promised.unwrap_or(0)
    }

    /// Caches, and what each may have.
    pub(super) fn limits(&self) -> impl Iterator<Item = (&str, u64)> {
        self.caches.iter().map(|(name, known)| (&**name, known.limit))
    }

    /// What a cache did lately.
    pub(super) fn lately(&self, name: &str) -> Window {
        self.caches.get(name).map(|known| known.lately).unwrap_or_default()
    }

    /// What an exchange of these two would have to bring to be worth one, if one did not pay lately.
    pub(super) fn bar(&self, from: &str, to: &str) -> Option<&Bar> {
        self.bars.get(&(from.to_owned(), to.to_owned()))
    }

    fn end(&mut self, now_us: u64) {
        (self.open, self.ended_us) = (None, Some(now_us));
    }
}

impl<B: Bugs<Planted>> Brain<B> {
    /// Takes in what caches did, and sees whether somebody else set one.
    pub(super) fn look_at_caches(&mut self, now_us: u64, seen: &Observation) -> Vec<Line> {
        let all = caches(seen, &self.options.services);
        let mut lines = Vec::new();
        let mut note = |service: &str, what: String| {
            lines.push(Line::Note { now_us, service: service.to_owned(), what });
        };
        let exchanges = &mut self.exchanges;
        let is_same = all.len() == exchanges.caches.len()
            && all.iter().all(|(one, _)| exchanges.caches.contains_key(&one.service.name));
        if !is_same {
            exchanges.caches =
                all.iter().map(|(one, _)| (one.service.name.clone(), Known::default())).collect();
            (exchanges.promised, exchanges.open) = (None, None);
        }
        for (one, _) in all.iter().filter(|(_, is_sound)| *is_sound) {
            let known = exchanges.caches.get_mut(&one.service.name).expect("it is there");
            let is_ours = known.ordered.take() == Some(one.limit) || known.limit == one.limit;
            if !is_ours && exchanges.promised.is_some() {
                note(
                    &one.service.name,
                    format!(
                        "somebody else set store.memory to {}: memory is left alone for a while",
                        one.limit
                    ),
                );
                exchanges.hands_off_us = now_us.saturating_add(self.options.hands_off_us);
                (exchanges.promised, exchanges.open) = (None, None);
            }
            known.moved(now_us, one.limit);
            let is_late = |since_us: u64| now_us.saturating_sub(since_us) >= PATIENCE_US;
            // Of the look in which it is full at last, a part is of before.
            let filled = known.fills_us;
            known.fills_us = filled.filter(|since_us| !one.is_full() && !is_late(*since_us));
            match filled {
                Some(_) => known.lately = Window::default(),
                None => known.lately.add(one.cache, seen.span_us, true),
            }
            let open = exchanges.open.iter_mut().filter(|open| open.stage == Stage::Counts);
            for open in open {
                let at = [&open.from, &open.to].iter().position(|name| **name == one.service.name);
                at.into_iter().for_each(|at| open.came[at].add(one.cache, seen.span_us, false));
            }
        }
        if exchanges.promised.is_none() && all.len() > 1 && all.iter().all(|(_, is_sound)| *is_sound) {
            let sum = all.iter().map(|(one, _)| one.limit).fold(0, u64::saturating_add);
            exchanges.promised = Some(sum);
            note("", format!("{} caches may have {sum} bytes together, and never more", all.len()));
        }
        lines
    }

    /// The next that is to be done for the memory of caches, if something is.
    pub(super) fn exchange(&mut self, now_us: u64, seen: &Observation, may_begin: bool) -> Vec<Line> {
        let all = caches(seen, &self.options.services);
        let is_sound = |all: &[(Shown<'_>, bool)]| all.iter().all(|(_, is_sound)| *is_sound);
        let Some(promised) = self.exchanges.promised.filter(|_| is_sound(&all)) else { return Vec::new() };
        let all: Vec<Shown<'_>> = all.into_iter().map(|(one, _)| one).collect();
        let left = promised.saturating_sub(all.iter().map(Shown::most).fold(0, u64::saturating_add));
        let Some(open) = self.exchanges.open.clone() else {
            return if may_begin { self.begin_exchange(now_us, seen, &all, left) } else { Vec::new() };
        };
        let named = |name: &str| all.iter().find(|one| one.service.name == name).copied();
        let (Some(from), Some(to)) = (named(&open.from), named(&open.to)) else { return Vec::new() };
        match open.stage {
            Stage::Gives(None) | Stage::Takes => Vec::new(),
            Stage::Gives(Some(set_us)) => {
                let is_after = seen.at_us >= set_us;
                // What it has given is there for another: by what all have now, and not by what it was told.
                let has_shrunk = left >= open.bytes && from.most() <= from.limit;
                if is_after && has_shrunk && to.takes(to.limit.saturating_add(open.bytes)) {
                    return vec![self.half(now_us, seen, to, open, Half::Takes)];
                }
                self.wait_for(now_us, set_us, &open.from, "has not shrunk")
            }
            Stage::Fills(since_us) => {
                if to.is_full() || now_us.saturating_sub(since_us) >= PATIENCE_US {
                    let open = self.exchanges.open.as_mut().expect("it is there");
                    (open.stage, open.came) = (Stage::Counts, Default::default());
                }
                Vec::new()
            }
            Stage::Counts => self.judge_exchange(now_us, seen, (from, to), &open),
        }
    }

    fn wait_for(&mut self, now_us: u64, since_us: u64, name: &str, what: &str) -> Vec<Line> {
        if now_us.saturating_sub(since_us) < PATIENCE_US {
            return Vec::new();
        }
        self.exchanges.end(now_us);
        let what = format!("it {what} in {} s: the exchange is given up", PATIENCE_US / 1_000_000);
        vec![Line::Note { now_us, service: name.to_owned(), what }]
    }

    /// Whether an exchange may begin now.
    fn may_exchange(&mut self, now_us: u64) -> bool {
        let begun = &mut self.exchanges.begun_us;
        begun.retain(|at| now_us.saturating_sub(*at) < MINUTE_US);
        let is_few = 2 * begun.len() < self.options.moves_per_minute as usize;
        let has_stayed =
            self.exchanges.ended_us.is_none_or(|at| now_us.saturating_sub(at) >= self.options.dwell_us);
        let has_seen = self.exchanges.caches.values().all(|known| known.lately.seconds >= SEEN_MIN_S);
        self.options.policy == Policy::Model
            && self.options.moves_memory
            && (has_stayed || self.bugs.has(Planted::HysteresisOff))
            && (is_few || self.bugs.has(Planted::BudgetNotCounted))
            && has_seen
            && self.exchanges.hands_off_us <= now_us
            && self.budget.has_room(now_us)
    }

    fn begin_exchange(&mut self, now_us: u64, seen: &Observation, all: &[Shown<'_>], left: u64) -> Vec<Line> {
        if all.len() < 2 || !self.may_exchange(now_us) {
            return Vec::new();
        }
        // Of an exchange that was not done something is left over.
        let bytes = left / GRAIN * GRAIN;
        let wants = |one: &&Shown<'_>| one.takes(one.limit.saturating_add(bytes)) && one.most() <= one.limit;
        let gain = |one: &Shown<'_>| self.slopes([one; 2], bytes)[0];
        if bytes > 0 {
            let most = all.iter().filter(wants).max_by(|a, b| gain(a).mid.total_cmp(&gain(b).mid));
            let Some(to) = most.copied() else { return Vec::new() };
            let open = self.opened((to, to), bytes, true);
            self.begun(now_us);
            return vec![self.half(now_us, seen, to, open, Half::Takes)];
        }
        let Some((from, to, bytes)) = self.best_pair(now_us, all) else { return Vec::new() };
        let open = self.opened((from, to), bytes, false);
        self.begun(now_us);
        if self.bugs.has(Planted::GrowsFirst) {
            return vec![self.half(now_us, seen, to, open, Half::Takes)];
        }
        vec![self.half(now_us, seen, from, open, Half::Gives)]
    }

    fn begun(&mut self, now_us: u64) {
        self.exchanges.begun_us.push(now_us);
        self.spend(now_us, false);
    }

    fn opened(&self, (from, to): (Shown<'_>, Shown<'_>), bytes: u64, is_back: bool) -> Exchange {
        let lately = |one: &Shown<'_>| self.exchanges.lately(&one.service.name);
        Exchange {
            decision: 0,
            from: from.service.name.clone(),
            to: to.service.name.clone(),
            bytes,
            stage: Stage::Gives(None),
            is_back,
            slopes: self.slopes([&from, &to], bytes),
            loads: [Load::of(from.service), Load::of(to.service)],
            before: [lately(&from), lately(&to)],
            came: Default::default(),
        }
    }

    /// Decides one half of an exchange.
    fn half(&mut self, now_us: u64, seen: &Observation, one: Shown<'_>, open: Exchange, half: Half) -> Line {
        let bytes =
            if self.bugs.has(Planted::SumGrows) && half == Half::Takes { 2 * open.bytes } else { open.bytes };
        let (wanted, stage) = match half {
            Half::Gives => (one.limit.saturating_sub(bytes), Stage::Gives(None)),
            Half::Takes => (one.limit.saturating_add(bytes), Stage::Takes),
        };
        self.decisions += 1;
        let [gain, loss] = open.slopes;
        let (giver, taker) = (&open.from, &open.to);
        let why = match (open.is_back, half) {
            _ if giver == taker => "it was left over, and nobody gains more by it".to_owned(),
            (true, _) => format!("{giver} gives back what did not pay"),
            (false, Half::Gives) => format!(
                "for {taker}: {:.0} hits a second are expected there for {:.0} here",
                gain.mid, loss.mid
            ),
            (false, Half::Takes) => format!("{giver} has given it"),
        };
        let (from, to) = (Choice::of_memory(one.limit), Choice::of_memory(wanted));
        let name = one.service.name.clone();
        let decision = Decision {
            number: self.decisions,
            now_us,
            sequence: seen.sequence,
            service: name.clone(),
            reason: if open.is_back { Reason::Back } else { Reason::Memory },
            why,
            settings: to.settings_from(&from),
            from,
            to,
            seen: self.seats.get(&name).map(|seat| seat.measured).unwrap_or_default(),
            compared: Vec::new(),
            expected: None,
            memory: Some(MemoryMove { from: giver.clone(), to: taker.clone(), bytes, half, gain, loss }),
            budget_left: self.budget.left(now_us),
            is_dry_run: self.options.is_dry_run,
        };
        if self.options.is_dry_run {
            self.exchanges.end(now_us);
        } else {
            if let Some(known) = self.exchanges.caches.get_mut(&name) {
                known.ordered = Some(wanted);
            }
            self.exchanges.open = Some(Exchange { decision: self.decisions, stage, ..open });
        }
        Line::decision(decision)
    }

    /// What became of an order for memory; none if it was another's.
    pub(super) fn told_of_memory(
        &mut self,
        now_us: u64,
        decision: u64,
        refused: Option<&str>,
    ) -> Option<Vec<Line>> {
        let open = self.exchanges.open.as_mut().filter(|open| open.decision == decision)?;
        let (from, to, bytes) = (open.from.clone(), open.to.clone(), open.bytes);
        let (name, is_done) = match open.stage {
            Stage::Gives(_) => (&from, false),
            _ => (&to, open.is_back),
        };
        let Some(why) = refused else {
            open.stage =
                if open.stage == Stage::Takes { Stage::Fills(now_us) } else { Stage::Gives(Some(now_us)) };
            // From now on another value is another hand's; of what was refused it may be either.
            if let Some(known) = self.exchanges.caches.get_mut(name) {
                let limit = known.ordered.take().unwrap_or(known.limit);
                known.moved(now_us, limit);
            }
            if is_done {
                self.exchanges.end(now_us);
            }
            return Some(Vec::new());
        };
        let what =
            format!("{bytes} bytes of memory could not be moved: {why}; it is not tried again for a while");
        let line = Line::Note { now_us, service: name.clone(), what };
        let net = open.slopes[0].mid - open.slopes[1].mid;
        self.bar_pair(now_us, (from, to), net);
        self.exchanges.end(now_us);
        Some(vec![line])
    }

    fn bar_pair(&mut self, now_us: u64, pair: (String, String), net: f64) {
        let bars = &mut self.exchanges.bars;
        if bars.len() >= super::BARS_MAX && !bars.contains_key(&pair) {
            let first = bars.iter().min_by_key(|(_, bar)| bar.until_us).map(|(pair, _)| pair.clone());
            first.and_then(|pair| bars.remove(&pair));
        }
        let bar = bars.entry(pair).or_insert(Bar { until_us: 0, times: 0, rate: net });
        bar.rate = net;
        bar.renew(now_us, self.options.bar_us);
    }

    /// Holds misses that came against those before, for as many gets as there are now.
    fn judge_exchange(
        &mut self,
        now_us: u64,
        seen: &Observation,
        (from, to): (Shown<'_>, Shown<'_>),
        open: &Exchange,
    ) -> Vec<Line> {
        let [gave, took] = &open.came;
        let judge_s = self.options.judge_us as f64 / 1e6;
        let is_long = gave.seconds.min(took.seconds) >= judge_s;
        let is_enough = gave.misses + took.misses >= MISSES_MIN || took.seconds >= JUDGE_FACTOR * judge_s;
        if !is_long || !is_enough {
            return Vec::new();
        }
        let is_other_load = open.loads[0].differs(&Load::of(from.service), true)
            || open.loads[1].differs(&Load::of(to.service), true);
        let costs = [self.miss_cost(&open.from), self.miss_cost(&open.to)];
        let sum = |windows: &[Window; 2]| -> f64 {
            (0..2).map(|at| costs[at] * open.came[at].gets() * windows[at].miss_share()).sum()
        };
        let misses = [sum(&open.before), sum(&open.came)];
        let gain = over(misses[0], misses[1]);
        let is_worse = gain < -(unsure(&open.before) + unsure(&open.came));
        let verdict = match (is_other_load, is_worse) {
            (true, _) => Verdict::Void,
            (false, true) => Verdict::Back,
            (false, false) => Verdict::Kept,
        };
        let measured = self.seats.get(&open.to).map(|seat| seat.measured).unwrap_or_default();
        let mut lines = vec![Line::Evaluation(Box::new(Evaluation {
            decision: open.decision,
            now_us,
            service: open.to.clone(),
            to: Choice::of_memory(to.limit),
            expected: None,
            before: measured,
            came: measured,
            misses: Some(misses),
            gain,
            verdict,
        }))];
        self.exchanges.end(now_us);
        if verdict != Verdict::Back {
            return lines;
        }
        let net = open.slopes[0].mid - open.slopes[1].mid;
        self.bar_pair(now_us, (open.from.clone(), open.to.clone()), net);
        let is_taken = to.limit.checked_sub(open.bytes).is_some_and(|less| to.takes(less));
        if self.is_frozen || self.budget.left(now_us) == 0 || !is_taken {
            let what = "it would give back what it took, and cannot now".to_owned();
            lines.push(Line::Note { now_us, service: open.to.clone(), what });
            return lines;
        }
        let back = self.opened((to, from), open.bytes, true);
        self.begun(now_us);
        lines.push(self.half(now_us, seen, to, back, Half::Gives));
        lines
    }
}
