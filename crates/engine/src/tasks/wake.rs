//! Who waited long enough is ready; who waited too long is ended.
//!
//! Why sweeps over all slots and no heap: a bound on the memory whatever tasks do (one that sleeps for an hour and is ended leaves
//! nothing behind), and a sweep of 256 slots is about 100 ns, made only when something is due.

use super::{Outcome, Stand, Tasks};
use crate::context::lend;
use crate::cores::Core;
use crate::hosted::Common;
use crate::inflight::Slot;
use crate::lines::Lines;
use crate::service::{Failure, TaskService};
use base::Nanos;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl<S, G, F, L> Tasks<S, G, F, L>
where
    S: TaskService,
    L: Lines,
{
    /// Makes ready whoever was resumed, or waited for a moment or an entry that has come; ends whoever is too late.
    pub(super) fn wake<C: Core>(&mut self, common: &mut Common<C>) {
        let number = self.number;
        for task in common.desks[number].resumed.drain(..) {
            let meta = &mut self.metas[task.slot.index()];
            if meta.generation == task.generation && meta.stand == Stand::Waiting {
                meta.stand = Stand::Ready;
                self.waiting -= 1;
                self.ready.push_back(task.slot);
            }
        }
        let (now, durable) = (common.now(), common.turn.durable.get());
        if self.next_wake <= now || self.next_entry < durable {
            (self.next_wake, self.next_entry) = (Nanos::MAX, u64::MAX);
            for slot in (0..self.metas.len() as u16).map(Slot::new) {
                let meta = &self.metas[slot.index()];
                if meta.stand != Stand::Waiting {
                    continue;
                }
                if meta.until <= now || meta.entry < durable {
                    self.resume(slot);
                } else {
                    self.next_wake = self.next_wake.min(meta.until);
                    self.next_entry = self.next_entry.min(meta.entry);
                }
            }
        }
        if self.next_expiry <= now {
            self.expire(common);
        }
    }

    fn resume(&mut self, slot: Slot) {
        self.metas[slot.index()].stand = Stand::Ready;
        self.waiting -= 1;
        self.ready.push_back(slot);
    }

    /// Ends every task whose deadline has passed, and says so.
    #[cold]
    #[inline(never)]
    pub(super) fn expire<C: Core>(&mut self, common: &mut Common<C>) {
        if self.end_tasks(common, false) {
            self.retire(common);
        }
    }

    /// Ends every task whose deadline has passed, or all; whether there was one. (One loop for both: with another place that drops tasks the compiler
    /// placed them otherwise, which cost 4 ns per task.)
    pub(super) fn end_tasks<C: Core>(&mut self, common: &mut Common<C>, all: bool) -> bool {
        self.next_expiry = Nanos::MAX;
        let deadline = common.account.settings.deadline;
        if deadline == Nanos::ZERO && !all {
            return false;
        }
        (self.next_wake, self.next_entry) = (Nanos::MAX, u64::MAX);
        let mut late = false;
        for slot in (0..self.metas.len() as u16).map(Slot::new) {
            let meta = &self.metas[slot.index()];
            if meta.stand == Stand::Free {
                continue;
            }
            if all || common.is_late(meta.submitted) {
                self.end(common, slot);
                late = true;
            } else {
                self.next_expiry = self.next_expiry.min(meta.submitted.plus(deadline).plus(Nanos(1)));
                if meta.stand == Stand::Waiting {
                    self.next_wake = self.next_wake.min(meta.until);
                    self.next_entry = self.next_entry.min(meta.entry);
                }
            }
        }
        late
    }

    /// Drops a task that is too late and takes it out of wherever it stands.
    fn end<C: Core>(&mut self, common: &mut Common<C>, slot: Slot) {
        match self.metas[slot.index()].stand {
            Stand::Ready => {
                self.ready.retain(|&other| other != slot);
                self.window.retain(|&other| other != slot);
            }
            Stand::Waiting => self.waiting -= 1,
            Stand::BehindPort | Stand::BehindKey | Stand::Free => {}
        }
        self.drop_task(common, slot);
        // Now and not when it is answered: who stands behind it may be too late as well.
        self.leave(slot);
        self.done.push((slot, Outcome::Failed(Failure::Expired)));
    }

    /// Drops the task in a slot. What it waited for learns of that.
    pub(super) fn drop_task<C: Core>(&mut self, common: &mut Common<C>, slot: Slot) {
        if self.metas[slot.index()].traced {
            common.read_clock();
            common.turn.traced.replace(self.traced[slot.index()].take());
        }
        let (service, slab) = (&mut self.service, &mut self.slab);
        // A panic of a destructor is one of its task, which has failed already.
        let _ = catch_unwind(AssertUnwindSafe(|| lend(service, Some(&common.turn), || slab.cancel(slot))));
        if self.metas[slot.index()].traced {
            self.traced[slot.index()] = common.turn.traced.take();
        }
    }
}
