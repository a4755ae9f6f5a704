//! What could be chosen, and whether to: one decision at most.
//!
//! `model`: a choice is gone to if it is better even when all predictions err (low gain over what is required), or, where the limit is broken already, as
//! expected. One that is better as expected is tried: within a third of the budget, and only while the limit is not near.
//! What is required is the hysteresis, the cost of a move over the time that it stays, and how far the figures stray by themselves.
//!
//! Sizes and other values of which the model says nothing (batches, pauses, groups, forms, balancers) are tried as well, one after the other, while nothing
//! else is to be done and a service has had the same load for [`SIZE_AFTER_FACTOR`] times as long as what was no better is not tried again.
//!
//! `greedy`: the fastest choice whose capacity is not full of what comes; else the one with the most. Wei et al., OSDI 2023, §4.2.
//! `fixed`: where the operator says, at once.

use super::super::choice::{Choice, SHARE, alternatives, refusal, sizes, steps};
use super::super::log::{Compared, Decision, Reason};
use super::super::options::Policy;
use super::super::planted::Planted;
use super::super::predict::{Known, Prediction, Range};
use super::super::verdict::{Measured, expected};
use super::{
    BAR_FACTOR, Bar, Brain, Load, OBSERVATIONS_MIN, RATE_MIN, Running, ServiceState, is_moving, is_other,
};
use crate::observed::{Observation, Service};
use protocol::planted::Bugs;

/// From this part of the limit on nothing is tried.
const RISK_SHARE: f64 = 0.8;
/// The guideline's fastest place is full at this part of its capacity.
const GREEDY_FULL: f64 = 0.9;
/// What a move costs: so long a service does nothing, at worst.
const MOVE_COST_US: f64 = 100_000.0;
/// Sizes are tried after so many times `bar_us` of one load.
const SIZE_AFTER_FACTOR: u64 = 2;

/// A choice that is wanted.
struct Proposal {
    to: Choice,
    /// Of all predictions, that of it.
    gain: f64,
    reason: Reason,
    why: String,
}

impl<B: Bugs<Planted>> Brain<B> {
    /// The decision that follows, if one does: of the service that gains most by it.
    pub(super) fn consider(
        &mut self,
        now_us: u64,
        seen: &Observation,
        services: &[(&Service, Option<Box<dyn Known + '_>>)],
    ) -> Option<Decision> {
        if !is_moving(&self.options.policy) || !self.budget.has_room(now_us) {
            return None;
        }
        let mut best: Option<(f64, &Service, Vec<Compared>, Proposal)> = None;
        for (service, served) in services {
            if !self.is_ready(now_us, service) {
                continue;
            }
            let compared = match served {
                Some(served) => self.compare(now_us, seen, service, &**served),
                None => Vec::new(),
            };
            let Some(wanted) = self.want(now_us, seen, service, &compared) else { continue };
            // What is sure goes before what is tried.
            let rank = match wanted.reason {
                Reason::Try => 0.0,
                Reason::Size => -1e3,
                Reason::Better | Reason::Back | Reason::Memory | Reason::Greedy | Reason::Fixed => 1e3,
            };
            let worth = wanted.gain + rank;
            if best.as_ref().is_none_or(|(most, ..)| worth > *most) {
                best = Some((worth, service, compared, wanted));
            }
        }
        let (_, service, compared, wanted) = best?;
        Some(self.decide(now_us, seen, service, compared, wanted))
    }

    /// Whether a service may be moved now.
    fn is_ready(&self, now_us: u64, service: &Service) -> bool {
        let Some(seat) = self.seats.get(&service.name) else { return false };
        if matches!(self.options.policy, Policy::Fixed(_)) {
            return seat.hands_off_us <= now_us;
        }
        let has_stayed = self.bugs.has(Planted::HysteresisOff)
            || seat.is_other_load
            || seat.moved_us.is_none_or(|at| now_us.saturating_sub(at) >= self.options.dwell_us);
        has_stayed
            && seat.hands_off_us <= now_us
            && seat.observations >= OBSERVATIONS_MIN
            && service.rate.0 >= RATE_MIN
    }

    /// Why a service may not go there: a place is full.
    pub(super) fn refused_as_full(
        &self,
        service: &Service,
        to: &Choice,
        seen: &Observation,
    ) -> Option<String> {
        let cores = (seen.cores_used.0, seen.cores.0);
        refusal(service, to, &seen.busy, cores).filter(|_| !self.bugs.has(Planted::FullUsed))
    }

    /// All choices of a service of which something is known, where it is first.
    fn compare(
        &self,
        now_us: u64,
        seen: &Observation,
        service: &Service,
        served: &dyn Known,
    ) -> Vec<Compared> {
        let Some(seat) = self.seats.get(&service.name) else { return Vec::new() };
        let now = seat.measured;
        let present = Choice::present(service);
        let said = |choice: &Choice| {
            let said = served.predict(choice)?;
            let corrected = self.corrections.correct(now_us, &service.name, (choice, &present), said);
            corrected.is_sound().then_some((said, corrected))
        };
        let here = said(&present).map(|(_, corrected)| corrected);
        let capacity = here.map_or(Range::around(now.rate, 1.0), |here| here.capacity);
        let all = alternatives(service, seen.cores.0 as u64, &|pair| steps(&served.shares(pair)));
        let all = all.into_iter().filter_map(|choice| {
            let (predicted, corrected) = said(&choice)?;
            let tried = self.corrections.is_known(now_us, &service.name, &choice);
            let corrected = match here {
                Some(here) if choice != present => anchored(corrected, &here, &now),
                _ => corrected,
            };
            let refused = self.refused(now_us, seen, service, &choice);
            corrected.is_sound().then(|| Compared {
                gain: expected(&corrected, &now, capacity, self.options.p99_max_ns),
                tried,
                choice,
                predicted,
                corrected,
                refused,
            })
        });
        all.collect()
    }

    /// Why a service may not go there now.
    fn refused(&self, now_us: u64, seen: &Observation, service: &Service, to: &Choice) -> Option<String> {
        let is_barred = self.seats.get(&service.name).is_some_and(|seat| {
            let is_about = |bar: &Bar| !is_other(bar.rate, seat.measured.rate, BAR_FACTOR);
            seat.bars.get(to).is_some_and(|bar| bar.until_us > now_us && is_about(bar))
        });
        if is_barred {
            return Some("it was worse than expected lately".to_owned());
        }
        self.refused_as_full(service, to, seen)
    }

    /// Which of them is wanted, by the policy.
    fn want(
        &mut self,
        now_us: u64,
        seen: &Observation,
        service: &Service,
        compared: &[Compared],
    ) -> Option<Proposal> {
        let present = Choice::present(service);
        let free = |one: &Compared| one.refused.is_none() && one.choice != present;
        match self.options.policy.clone() {
            Policy::Leave => None,
            Policy::Fixed(values) => self.fixed(now_us, seen, service, &values),
            Policy::Greedy => greedy(service, compared, &present),
            Policy::Model => {
                let seat = self.seats.get(&service.name)?.clone();
                let candidates: Vec<usize> = (0..compared.len()).filter(|at| free(&compared[*at])).collect();
                let required = self.required(now_us, service, &present);
                self.better(&seat, compared, &candidates, required)
                    .or_else(|| self.worth_trying(now_us, &seat, compared, &candidates, required))
                    .or_else(|| self.size(now_us, seen, service, &seat))
            }
        }
    }

    /// What a move must gain: more than what is measured strays by itself.
    fn required(&self, now_us: u64, service: &Service, present: &Choice) -> f64 {
        if self.bugs.has(Planted::HysteresisOff) {
            return 0.0;
        }
        let has_limit = self.options.p99_max_ns.is_some();
        let strays = self.corrections.strays(now_us, &service.name, present, has_limit);
        self.options.hysteresis + MOVE_COST_US / self.options.dwell_us.max(1) as f64 + strays
    }

    fn is_broken(&self, now: &Measured) -> bool {
        matches!((self.options.p99_max_ns, now.p99_ns), (Some(limit), Some(p99)) if p99 > limit)
    }

    fn better(
        &self,
        seat: &ServiceState,
        compared: &[Compared],
        of: &[usize],
        required: f64,
    ) -> Option<Proposal> {
        let is_broken = self.is_broken(&seat.measured);
        let sure = |one: &Compared| if is_broken { one.gain.mid } else { one.gain.low };
        let best = of.iter().copied().max_by(|a, b| {
            let key = |at: usize| (sure(&compared[at]), compared[at].gain.mid);
            let ((sure_a, mid_a), (sure_b, mid_b)) = (key(*a), key(*b));
            sure_a.total_cmp(&sure_b).then(mid_a.total_cmp(&mid_b))
        })?;
        let gain = sure(&compared[best]);
        (gain > required).then(|| Proposal {
            to: compared[best].choice.clone(),
            gain: compared[best].gain.mid,
            reason: Reason::Better,
            why: match is_broken {
                true => format!("the limit is broken, and it is expected to be {:.0} % better", gain * 100.0),
                false => format!("it is {:.0} % better at worst", gain * 100.0),
            },
        })
    }

    fn worth_trying(
        &mut self,
        now_us: u64,
        seat: &ServiceState,
        compared: &[Compared],
        of: &[usize],
        required: f64,
    ) -> Option<Proposal> {
        if !self.may_try(now_us, seat) {
            return None;
        }
        let may = |at: &usize| compared[*at].gain.mid > required;
        let best = of.iter().copied().filter(may).max_by(|a, b| {
            let (a, b) = (&compared[*a].gain, &compared[*b].gain);
            a.mid.total_cmp(&b.mid).then(a.high.total_cmp(&b.high))
        })?;
        let gain = compared[best].gain;
        let why =
            format!("it may be {:.0} % better, and {:.0} % is expected", gain.high * 100.0, gain.mid * 100.0);
        let to = compared[best].choice.clone();
        Some(Proposal { to, gain: gain.mid, reason: Reason::Try, why })
    }

    /// Whether something may be tried of which too little is known.
    fn may_try(&mut self, now_us: u64, seat: &ServiceState) -> bool {
        let is_near = match (self.options.p99_max_ns, seat.measured.p99_ns) {
            (Some(limit), Some(p99)) => p99 > RISK_SHARE * limit,
            // A limit of which nothing is known is at risk.
            (Some(_), None) => true,
            (None, _) => false,
        };
        self.options.explores && !is_near && self.budget.has_room_to_explore(now_us)
    }

    /// The next value of which the model says nothing, the one that was tried least often; at most one a dwell, and no sooner than what is worth trying by
    /// predictions would be.
    fn size(
        &mut self,
        now_us: u64,
        seen: &Observation,
        service: &Service,
        seat: &ServiceState,
    ) -> Option<Proposal> {
        let steady_us = self.options.bar_us.saturating_mul(SIZE_AFTER_FACTOR);
        if now_us.saturating_sub(seat.steady_us) < steady_us || !self.may_try(now_us, seat) {
            return None;
        }
        let times = |to: &Choice| seat.bars.get(to).map_or(0, |bar| bar.times);
        let all = sizes(service).into_iter();
        let free = all.filter(|to| self.refused(now_us, seen, service, to).is_none());
        let to = free.min_by_key(times)?;
        let why = "the model says nothing of it, and the load is steady".to_owned();
        Some(Proposal { to, gain: 0.0, reason: Reason::Size, why })
    }

    /// What an operator wants needs no prediction.
    fn fixed(
        &self,
        now_us: u64,
        seen: &Observation,
        service: &Service,
        values: &std::collections::BTreeMap<String, String>,
    ) -> Option<Proposal> {
        let present = Choice::present(service);
        let own = |name: &str| match &*service.name {
            "" => Some(name.to_owned()),
            of => Some(name.strip_prefix(of)?.strip_prefix('.')?.to_owned()),
        };
        let wanted: Vec<(String, &str)> =
            values.iter().filter_map(|(name, value)| Some((own(name)?, &**value))).collect();
        let is_there = |choice: &Choice| wanted.iter().all(|(name, value)| choice.value(name) == *value);
        if wanted.is_empty() || is_there(&present) {
            return None;
        }
        // One step at a time: what sets most of what is wanted.
        let set = |one: &Choice| wanted.iter().filter(|(name, value)| one.value(name) == *value).count();
        let share = wanted.iter().find(|(name, _)| name == SHARE).and_then(|(_, share)| share.parse().ok());
        let all = alternatives(service, seen.cores.0 as u64, &|_| share.into_iter().collect());
        let free = all.into_iter().filter(|one| self.refused(now_us, seen, service, one).is_none()).rev();
        let to = free.max_by_key(set)?;
        (set(&to) > set(&present)).then(|| Proposal {
            to,
            gain: 0.0,
            reason: Reason::Fixed,
            why: "the operator wants it there".to_owned(),
        })
    }

    fn decide(
        &mut self,
        now_us: u64,
        seen: &Observation,
        service: &Service,
        compared: Vec<Compared>,
        wanted: Proposal,
    ) -> Decision {
        let Proposal { to, reason, why, .. } = wanted;
        let from = Choice::present(service);
        let expected = compared.iter().find(|one| one.choice == to).map(|one| one.corrected);
        let is_try = matches!(reason, Reason::Try | Reason::Size);
        self.spend(now_us, is_try);
        self.decisions += 1;
        let before = self.seats.get(&service.name).map(|seat| seat.measured).unwrap_or_default();
        let running = Running {
            decision: self.decisions,
            from: from.clone(),
            to: to.clone(),
            reason,
            expected,
            before,
            load: Load::of(service),
            set_us: None,
            sum: None,
        };
        self.begin(now_us, &service.name, running);
        Decision {
            number: self.decisions,
            now_us,
            sequence: seen.sequence,
            service: service.name.clone(),
            reason,
            why,
            settings: to.settings_from(&from),
            from,
            to,
            seen: before,
            compared,
            expected,
            memory: None,
            budget_left: self.budget.left(now_us),
            is_dry_run: self.options.is_dry_run,
        }
    }
}

/// Another choice is as much worse than predicted as where the service is: a node that others disturb disturbs all of its places.
fn anchored(to: Prediction, here: &Prediction, now: &Measured) -> Prediction {
    let off = |measured: Option<f64>, said: f64| {
        let off = measured.map_or(1.0, |measured| measured / said);
        if off.is_finite() && off > 1.0 { off } else { 1.0 }
    };
    let [p50, p99] = [off(now.p50_ns, here.p50_ns.mid), off(now.p99_ns, here.p99_ns.mid)];
    let cores = off(Some(now.cores), here.cores.mid);
    Prediction {
        capacity: to.capacity,
        p50_ns: to.p50_ns.times(p50),
        p99_ns: to.p99_ns.times(p99),
        cores: to.cores.times(cores),
    }
}

/// The guideline: the fastest that is not full.
fn greedy(service: &Service, compared: &[Compared], present: &Choice) -> Option<Proposal> {
    let free = |at: &usize| compared[*at].refused.is_none() || compared[*at].choice == *present;
    let mut order: Vec<usize> = (0..compared.len()).filter(free).collect();
    order.sort_by(|a, b| compared[*a].corrected.p50_ns.mid.total_cmp(&compared[*b].corrected.p50_ns.mid));
    let has_room = |at: &&usize| service.rate.0 < GREEDY_FULL * compared[**at].corrected.capacity.mid;
    let capacity = |at: &usize| compared[*at].corrected.capacity.mid;
    let most = || order.iter().max_by(|a, b| capacity(a).total_cmp(&capacity(b)));
    let at = *order.iter().find(has_room).or_else(most)?;
    (compared[at].choice != *present).then(|| Proposal {
        to: compared[at].choice.clone(),
        gain: compared[at].gain.mid,
        reason: Reason::Greedy,
        why: "it is the fastest that is not full".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that something else disturbs is no reason to move to where nothing is known to be better.
    #[test]
    fn what_disturbs_the_present_disturbs_other_choices() {
        let said = Prediction {
            capacity: Range::around(2e5, 1.25),
            p50_ns: Range::around(1e5, 1.25),
            p99_ns: Range::around(1e6, 1.25),
            cores: Range::around(0.5, 1.25),
        };
        let now = Measured { rate: 1e4, p50_ns: Some(1e5), p99_ns: Some(1e8), cores: 0.5 };
        let limit = Some(2e6);
        let naive = expected(&said, &now, said.capacity, limit);
        assert!(naive.mid > 40.0, "{naive:?}");
        let gain = expected(&anchored(said, &said, &now), &now, said.capacity, limit);
        assert!(gain.mid.abs() < 1e-6 && gain.low <= 0.0, "{gain:?}");
        // One that is predicted to be better stays so.
        let better = Prediction { p99_ns: said.p99_ns.times(0.5), ..said };
        let gain = expected(&anchored(better, &said, &now), &now, said.capacity, limit);
        assert!((gain.mid - 1.0).abs() < 1e-6, "{gain:?}");
        // What is better than predicted makes nothing else worse.
        let early = Measured { p99_ns: Some(1e3), ..now };
        assert_eq!(anchored(said, &said, &early), said);
    }
}
