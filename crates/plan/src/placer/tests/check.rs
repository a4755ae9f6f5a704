//! What must hold of decisions, by what really was: the invariants of `brain`, counted once more and by other means.

use super::super::choice::FULL_UTILISATION;
use super::super::log::{Decision, Half, Line, MemoryMove, Reason};
use super::super::options::Options;
use super::world::Answer;
use crate::observed::{Location, Observation};
use std::collections::BTreeMap;

pub(super) struct Checker {
    options: Options,
    pub violations: Vec<String>,
    pub decisions: usize,
    /// Exchanges of memory that began.
    pub exchanges: usize,
    exchange_us: Option<u64>,
    moves_us: Vec<u64>,
    last_us: BTreeMap<String, u64>,
    loads: BTreeMap<String, u64>,
    /// The load at the look before: the figures of this one are of it as well.
    load_before: u64,
    /// Seconds that engine cores had been busy at the look before, and when that was.
    engine_before: Option<(f64, u64)>,
}

impl Checker {
    pub(super) fn new(options: Options) -> Checker {
        Checker {
            options,
            violations: Vec::new(),
            decisions: 0,
            exchanges: 0,
            exchange_us: None,
            moves_us: Vec::new(),
            last_us: BTreeMap::new(),
            loads: BTreeMap::new(),
            load_before: 0,
            engine_before: None,
        }
    }

    /// Holds what came against what the node was.
    pub(super) fn check(&mut self, now_us: u64, seen: &Observation, answer: &Answer, came: &[Line]) {
        let ignored = came.iter().any(|line| matches!(line, Line::Ignored { .. }));
        if (answer.lie.is_some() || answer.late_us > self.options.stale_us) && !ignored {
            let what = answer.lie.clone().unwrap_or_else(|| "a late answer".to_owned());
            self.violations.push(format!("{now_us}: nothing in the log says of {what}"));
        }
        let engine_busy = self
            .engine_before
            .map_or(0.0, |(seconds, at_us)| (answer.engine_s - seconds) * 1e6 / (seen.at_us - at_us) as f64);
        self.engine_before = Some((answer.engine_s, seen.at_us));
        for line in came {
            if let Line::Decision(decision) = line {
                self.decision(now_us, (seen, engine_busy), answer, decision);
            }
        }
        self.load_before = answer.load;
    }

    fn decision(
        &mut self,
        now_us: u64,
        (seen, engine_busy): (&Observation, f64),
        answer: &Answer,
        decision: &Decision,
    ) {
        self.decisions += 1;
        let mut wrong = Vec::new();
        // The second half of an exchange is no move of its own.
        let is_second = |of: &MemoryMove| of.half == Half::Takes && of.from != of.to;
        if !decision.memory.as_ref().is_some_and(is_second) {
            self.moves_us.push(now_us);
        }
        let in_minute = self.moves_us.iter().filter(|at| now_us - **at < 60_000_000).count();
        if in_minute > self.options.moves_per_minute as usize {
            wrong.push(format!("{in_minute} moves within a minute"));
        }
        if answer.late_us > self.options.stale_us {
            wrong.push(format!("decided by what is {} us old", answer.late_us));
        }
        if answer.liar.as_deref().is_some_and(|liar| liar == decision.service) {
            wrong.push(format!("decided by a lie: {:?}", answer.lie));
        }
        let service = seen.services.iter().find(|one| one.name == decision.service).expect("it was seen");
        for setting in &decision.settings {
            let register = service.registers.iter().find(|one| one.name == setting.register);
            if register.is_none_or(|register| register.number_of(&setting.value).is_none()) {
                wrong.push(format!("{setting:?} is none that the register takes"));
            }
        }
        let goes_to =
            |place| decision.to.is_at(service.kind, place) && !decision.from.is_at(service.kind, place);
        if engine_busy >= FULL_UTILISATION + 1e-6 && goes_to(Location::Engine) {
            wrong.push(format!("the engine was {engine_busy} busy"));
        }
        if let Some(memory) = &decision.memory {
            wrong.extend(self.memory(now_us, seen, decision, memory));
        } else if decision.reason != Reason::Back {
            let is_soon =
                self.last_us.get(&decision.service).is_some_and(|at| now_us - at < self.options.dwell_us);
            let is_same_load = self.loads.get(&decision.service) == Some(&answer.load);
            if is_soon && is_same_load {
                wrong.push("it had not stayed for as long as it must".to_owned());
            }
        }
        let gain = decision.compared.iter().find(|one| one.choice == decision.to).map(|one| one.gain);
        let most = match (decision.reason, gain) {
            (Reason::Better, Some(gain)) => Some(gain.mid.max(gain.low)),
            (Reason::Try, Some(gain)) => Some(gain.high.max(gain.mid)),
            _ => None,
        };
        if most.is_some_and(|most| most <= self.options.hysteresis) {
            wrong.push(format!("a gain of {most:?} is not worth a move"));
        }
        if decision.memory.is_none() {
            self.last_us.insert(decision.service.clone(), now_us);
            self.loads.insert(decision.service.clone(), self.load_before);
        }
        let of = format!("{now_us}: decision {} ({} to {})", decision.number, decision.from, decision.to);
        self.violations.extend(wrong.into_iter().map(|what| format!("{of}: {what}")));
    }

    /// Of an exchange: how much, how soon after the last, and for what.
    fn memory(
        &mut self,
        now_us: u64,
        seen: &Observation,
        decision: &Decision,
        memory: &MemoryMove,
    ) -> Vec<String> {
        if decision.reason == Reason::Back || memory.half == Half::Takes {
            return Vec::new();
        }
        let mut wrong = Vec::new();
        self.exchanges += 1;
        let is_soon = self.exchange_us.is_some_and(|at| now_us - at < self.options.dwell_us);
        if is_soon {
            wrong.push("memory had not stayed for as long as it must".to_owned());
        }
        self.exchange_us = Some(now_us);
        let limit = |name: &str| {
            let service = seen.services.iter().find(|one| one.name == *name).expect("it was seen");
            service.register(crate::observed::MEMORY).expect("a cache").number
        };
        let most = (limit(&memory.from).min(limit(&memory.to)) / 10).max(1 << 20);
        if memory.bytes > most {
            wrong.push(format!("a step of {} bytes, and {most} are the most", memory.bytes));
        }
        if memory.gain.low <= memory.loss.high * (1.0 + self.options.hysteresis) {
            wrong.push(format!("{:?} is not worth {:?}", memory.gain, memory.loss));
        }
        wrong
    }
}
