//! Which cache is to give how much memory to which.
//!
//! **Which two**: by [`super::super::marginal`], where what the one gains, at worst, is more than what the other loses, at worst, by the hysteresis, and is
//! worth a thousandth of all gets. What that does not see (a cache whose items are all just wanted) the judgement does: by misses that came, not by what was
//! missed of ghosts, for these are what it was chosen by.

use super::super::planted::Planted;
use super::super::predict::Range;
use super::super::verdict::GAIN_MAX;
use super::{Bar, Brain, LOAD_FACTOR};
use crate::observed::{Cache, MEMORY, Observation, SERVICES_MAX, Service};
use protocol::planted::Bugs;

/// Bytes of a step are whole ones of these.
pub(super) const GRAIN: u64 = 1 << 20;
/// A step is this part of the smaller of two caches.
const STEP_PART: u64 = 10;
/// What an exchange must bring, as a share of all gets.
const WORTH_SHARE: f64 = 1e-3;

/// A cache as a look shows it.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub service: &'a Service,
    pub cache: &'a Cache,
    /// What it may have: the more of what its register says and what its store goes by.
    pub limit: u64,
}

impl Shown<'_> {
    /// What it may have or has, whichever is more.
    pub(super) fn most(&self) -> u64 {
        self.limit.max(self.cache.memory.0 as u64)
    }

    /// Whether it has what it may have: but for two grains, as a store takes memory.
    pub(super) fn is_full(&self) -> bool {
        self.cache.memory.0 as u64 >= self.limit.saturating_sub(2 * GRAIN)
    }

    /// Whether its register takes this now.
    pub(super) fn takes(&self, bytes: u64) -> bool {
        self.service.register(MEMORY).is_some_and(|own| own.number_of(&bytes.to_string()).is_some())
    }
}

/// Services that are caches, whose memory is nobody's promise, and whether their figures can be gone by.
pub(super) fn caches<'a>(seen: &'a Observation, wanted: &[String]) -> Vec<(Shown<'a>, bool)> {
    let services = seen.services.iter().take(SERVICES_MAX);
    let found =
        services.filter(|one| wanted.is_empty() || wanted.contains(&one.name)).filter_map(|service| {
            let cache = service.cache.as_ref().filter(|cache| cache.bound.is_none())?;
            let limit = service.register(MEMORY)?.number.max(cache.limit.0 as u64);
            Some((Shown { service, cache, limit }, service.fault().is_none()))
        });
    found.collect()
}

/// Bytes of a step between two.
fn step(one: u64, other: u64) -> u64 {
    (one.min(other) / STEP_PART / GRAIN * GRAIN).max(GRAIN)
}

/// How much more one is than the other, as a share.
pub(super) fn over(more: f64, less: f64) -> f64 {
    let gain = if less > 0.0 {
        more / less - 1.0
    } else if more > 0.0 {
        GAIN_MAX
    } else {
        0.0
    };
    gain.clamp(-1.0, GAIN_MAX)
}

impl<B: Bugs<Planted>> Brain<B> {
    /// Of what a miss costs where another costs 1.
    pub(super) fn miss_cost(&self, name: &str) -> f64 {
        self.options.miss_costs.get(name).copied().unwrap_or(1.0)
    }

    /// What the second of two gains, and the first loses, by so many bytes, times what misses of them cost.
    pub(super) fn slopes(&self, [from, to]: [&Shown<'_>; 2], bytes: u64) -> [Range; 2] {
        let lately = |one: &Shown<'_>| self.exchanges.lately(&one.service.name);
        let cost = |one: &Shown<'_>| self.miss_cost(&one.service.name);
        [
            lately(to).gain(to.cache, bytes as f64).times(cost(to)),
            lately(from).loss(from.cache, bytes as f64).times(cost(from)),
        ]
    }

    /// Who is to give how much to whom.
    pub(super) fn best_pair<'a>(
        &self,
        now_us: u64,
        all: &[Shown<'a>],
    ) -> Option<(Shown<'a>, Shown<'a>, u64)> {
        let gets = |one: &Shown<'_>| {
            self.miss_cost(&one.service.name) * self.exchanges.lately(&one.service.name).gets()
        };
        let worth = WORTH_SHARE * all.iter().map(gets).sum::<f64>();
        let required = if self.bugs.has(Planted::HysteresisOff) { -1.0 } else { self.options.hysteresis };
        let mut best: Option<(f64, Shown<'a>, Shown<'a>, u64)> = None;
        let pairs = all.iter().flat_map(|from| all.iter().map(move |to| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from.service.name != to.service.name) {
            let bytes = match self.bugs.has(Planted::StepUnbounded) {
                true => from.limit / 2,
                false => step(from.limit, to.limit),
            };
            let (Some(less), Some(more)) = (from.limit.checked_sub(bytes), to.limit.checked_add(bytes))
            else {
                continue;
            };
            if !from.takes(less) || !to.takes(more) {
                continue;
            }
            let [gain, loss] = self.slopes([from, to], bytes);
            let net = gain.mid - loss.mid;
            let is_sure = gain.low - loss.high > worth && over(gain.low, loss.high) > required;
            // What did not pay may when much more is to be had by it.
            let is_barred = |bar: &Bar| bar.until_us > now_us && net < LOAD_FACTOR * bar.rate;
            let bar = self.exchanges.bar(&from.service.name, &to.service.name);
            let is_free = !bar.is_some_and(is_barred);
            if is_sure && is_free && best.as_ref().is_none_or(|(most, ..)| net > *most) {
                best = Some((net, *from, *to, bytes));
            }
        }
        best.map(|(_, from, to, bytes)| (from, to, bytes))
    }
}
