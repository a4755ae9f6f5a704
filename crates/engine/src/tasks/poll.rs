//! The window: a group of tasks that are polled in turn, so that the memory of one comes while the others run.

use super::{Outcome, POLLS, Stand, Tasks};
use crate::context::{TaskId, lend};
use crate::cores::{Core, Work};
use crate::hosted::Common;
use crate::inflight::Slot;
use crate::lines::Lines;
use crate::service::{Failure, TaskService};
use crate::settings::MAX_GROUP;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

/// How far a sweep over the window has come.
#[derive(Default)]
struct Sweep {
    /// The next to be polled.
    at: usize,
    /// Those before it that stay in the window, moved to its beginning.
    kept: usize,
    /// The next leaves spans, and the turn knows.
    traced: Option<Slot>,
}

impl<S, G, F, L> Tasks<S, G, F, L>
where
    S: TaskService,
    G: Fn(&'static S::Request) -> F + Send,
    F: Future<Output = S::Output> + Send,
    L: Lines,
{
    /// Polls until every task waits for something other than memory, or has ended.
    pub(super) fn run<C: Core>(&mut self, common: &mut Common<C>) {
        let group = common.account.settings.group.clamp(1, MAX_GROUP);
        let (mut polls, mut ended) = (0, 0);
        while polls < POLLS {
            self.fill(group);
            if self.window.is_empty() {
                break;
            }
            polls += self.window.len();
            common.core.worked(Work::Poll, self.window.len());
            self.sweep(common);
            let touched = common.turn.touched.take();
            if touched > 0 {
                common.core.touched(0, touched);
            }
            if !self.done.is_empty() {
                // A reading waits for the memory that was asked for, so one serves a group's worth of tasks.
                ended += self.done.len();
                if ended >= group {
                    common.read_clock();
                    ended = 0;
                }
                self.retire(common);
            }
        }
        common.executed.finish(|span, n| common.account.stages.executed(span, n));
    }

    /// Takes ready tasks into the window.
    fn fill(&mut self, group: usize) {
        while self.window.len() < group
            && let Some(slot) = self.ready.pop_front()
        {
            self.window.push(slot);
        }
    }

    /// Polls each task of the window once; those that are new start. One that panics has failed, and the sweep goes on behind it.
    fn sweep<C: Core>(&mut self, common: &mut Common<C>) {
        let mut sweep = Sweep::default();
        loop {
            let polled = catch_unwind(AssertUnwindSafe(|| self.poll_from(common, &mut sweep)));
            if let Some(slot) = sweep.traced.take() {
                common.turn.give_back(&mut self.traced[slot.index()]);
            }
            if polled.is_err() {
                let slot = self.window[sweep.at];
                sweep.at += 1;
                self.drop_task(common, slot);
                self.done.push((slot, Outcome::Failed(Failure::Panicked)));
            }
            let Some(&slot) = self.window.get(sweep.at) else { break };
            if self.metas[slot.index()].traced {
                sweep.traced = Some(slot);
                common.turn.trace(common.core.now(), &mut self.traced[slot.index()]);
            }
        }
        self.window.truncate(sweep.kept);
    }

    /// Polls tasks up to the next that leaves spans; or that one alone, which the turn has then.
    fn poll_from<C: Core>(&mut self, common: &Common<C>, sweep: &mut Sweep) {
        let Tasks { service, slab, start, metas, window, done, .. } = self;
        let turn = &common.turn;
        let is_one = sweep.traced.is_some();
        let number = self.number as u16;
        lend(service, Some(turn), || {
            while let Some(&slot) = window.get(sweep.at) {
                let meta = &mut metas[slot.index()];
                if meta.traced && !is_one {
                    return;
                }
                turn.begin(TaskId { service: number, slot, generation: meta.generation });
                if !slab.is_started(slot) {
                    // SAFETY: `start` is `S::handle`, which takes a reference of any lifetime, so that it can keep it nowhere but
                    // in its future.
                    unsafe { slab.start(slot, &*start) };
                }
                if let Poll::Ready(output) = slab.poll(slot) {
                    done.push((slot, Outcome::Output(output)));
                } else {
                    let wait = turn.wait();
                    if wait.yielded || !wait.said {
                        window[sweep.kept] = slot;
                        sweep.kept += 1;
                    } else {
                        meta.stand = Stand::Waiting;
                        (meta.until, meta.entry) = (wait.until, wait.entry);
                        self.next_wake = self.next_wake.min(wait.until);
                        self.next_entry = self.next_entry.min(wait.entry);
                        self.waiting += 1;
                    }
                }
                sweep.at += 1;
                if is_one {
                    return;
                }
            }
        });
    }
}
