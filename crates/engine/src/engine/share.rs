//! How much of a pass each service gets, and in which order they have it.
//!
//! Only services with something to do share a pass. With one of them it may fill the engine.
//!
//! Invariants
//! 1. A service with something to do is in every pass, and has a share that is not nothing in one of as many passes as all weights
//!    together.
//! 2. Under [`Scheduler::Weighted`], over many passes in which the same services have something to do, shares are as the weights:
//!    what rounding takes in one pass is given in a later one.

use super::Engine;
use crate::cores::Core;
use crate::settings::Scheduler;

impl<C: Core> Engine<C> {
    /// Sets down which services the pass goes to, and how many requests each may admit.
    pub(super) fn plan(&mut self) {
        self.plan.clear();
        let capacity = self.common.capacity;
        for (number, desk) in self.common.desks.iter().enumerate() {
            let Some(service) = &self.services[number] else { continue };
            let wanted = desk.more
                || desk.blocked > 0
                || desk.in_flight > 0
                || !desk.news.is_empty()
                || !desk.resumed.is_empty()
                || service.next_deadline() <= self.common.now()
                || service.has_work();
            if wanted {
                self.plan.push((number as u16, capacity));
            }
        }
        if self.plan.len() > 1 {
            self.share(capacity);
        }
    }

    #[cold]
    fn share(&mut self, capacity: usize) {
        let Engine { plan, common, turn, scheduler, .. } = self;
        let (desks, n) = (&mut common.desks, plan.len());
        let scheduler = *scheduler;
        if scheduler == Scheduler::ShortestQueue {
            plan.sort_by_key(|&(number, _)| desks[usize::from(number)].waiting);
            let (mut left, least) = (capacity, (capacity / (4 * n)).max(1));
            for (number, share) in plan.iter_mut() {
                *share = left.max(least);
                let waiting = desks[usize::from(*number)].waiting.min(capacity as u64) as usize;
                left = left.saturating_sub(waiting);
            }
            return;
        }
        *turn = turn.wrapping_add(1);
        plan.rotate_left(*turn % n);
        let weight = |weight: u32| if scheduler == Scheduler::Weighted { u64::from(weight) } else { 1 };
        let all: u64 = plan.iter().map(|&(number, _)| weight(desks[usize::from(number)].weight)).sum();
        for (number, share) in plan.iter_mut() {
            let desk = &mut desks[usize::from(*number)];
            let due = capacity as u64 * weight(desk.weight) + desk.carry.min(all);
            desk.carry = due % all;
            *share = (due / all) as usize;
        }
    }
}
