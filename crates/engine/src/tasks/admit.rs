//! Requests into slots and lines.

use super::{Meta, Stand, Tasks};
use crate::call::CALLS;
use crate::cores::{Core, Work};
use crate::hosted::Common;
use crate::inflight::Slot;
use crate::lines::Lines;
use crate::service::TaskService;
use crate::settings::Order;
use crate::traced::{TracedTask, is_marked, unmarked};
use base::Nanos;
use base::prng::mix64;
use ring::pair::Tag;

impl<S, G, F, L> Tasks<S, G, F, L>
where
    S: TaskService,
    L: Lines,
{
    /// Takes in calls, whoever else waits, and at most `share` requests of edges.
    pub(super) fn admit<C: Core>(&mut self, common: &mut Common<C>, share: usize) {
        if let Some(local) = self.local {
            // The local ring has no more entries, so there is a slot for each.
            self.ports.take_from(local, CALLS as usize, &mut self.admitted);
        }
        let calls = self.admitted.len();
        let desk = &common.desks[self.number];
        let room = share.min(common.free()).min(desk.max_in_flight.saturating_sub(desk.in_flight));
        self.ports.admit(&mut self.admitted, calls + room, common.account.settings.quantum.max(1));
        let requests = self.admitted.len() - calls;
        if calls + requests == 0 {
            return;
        }
        let desk = &mut common.desks[self.number];
        desk.waiting = desk.waiting.saturating_sub(requests as u64);
        desk.in_flight += requests;
        common.in_flight += requests;
        common.core.worked(Work::Admit, calls + requests);
        let deadline = common.account.settings.deadline;
        let now = common.now();
        while let Some(admitted) = self.admitted.pop_front() {
            let submitted = unmarked(admitted.request.at);
            let traced = is_marked(admitted.request.at);
            common.queued.add(now.since(submitted), |span, n| common.account.stages.queued(span, n));
            if deadline > Nanos::ZERO {
                self.next_expiry = self.next_expiry.min(submitted.plus(deadline).plus(Nanos(1)));
            }
            let key = S::key(&admitted.request.body).map(|key| mix64(key) as u32 & self.key_mask);
            let slot = self.slab.claim(admitted.request.body);
            let slot = slot.ok().expect("a slot for each request that may be in flight");
            let generation = self.metas[slot.index()].generation.wrapping_add(1);
            self.metas[slot.index()] = Meta {
                port: admitted.port,
                tag: admitted.tag,
                stand: Stand::BehindPort,
                traced,
                generation,
                key,
                submitted,
                admitted: now,
                until: Nanos::MAX,
                entry: u64::MAX,
            };
            if traced {
                self.trace(slot, admitted.tag, now);
            }
            if !self.has_port_line(admitted.port) || self.port_lines.join(admitted.port, slot) {
                self.join_key(slot);
            }
        }
        common.queued.finish(|span, n| common.account.stages.queued(span, n));
        // What is too late already is never started.
        if self.next_expiry <= now {
            self.expire(common);
        }
    }

    /// A task that leaves spans was admitted.
    #[cold]
    fn trace(&mut self, slot: Slot, tag: Tag, now: Nanos) {
        let Meta { port, submitted, .. } = self.metas[slot.index()];
        let scope = self.ports.of(port).port.take_scope(tag);
        self.traced[slot.index()] = scope.map(|scope| TracedTask::admitted(&scope, submitted, now));
    }

    /// Whether tasks of that port wait for each other. Calls have their callers, who wait for them if they want to.
    pub(super) fn has_port_line(&self, port: u32) -> bool {
        self.order == Order::Port && self.local != Some(port)
    }

    /// Puts a task in the line of its key, if it has one; it is ready when it is the head.
    pub(super) fn join_key(&mut self, slot: Slot) {
        let meta = &mut self.metas[slot.index()];
        if meta.key.is_none_or(|key| self.keys.join(key, slot)) {
            meta.stand = Stand::Ready;
            self.ready.push_back(slot);
        } else {
            meta.stand = Stand::BehindKey;
        }
    }
}
