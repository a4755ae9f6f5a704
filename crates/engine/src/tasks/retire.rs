//! Tasks that have ended: replies, slots given back, lines moved on.
//!
//! Why a reply without room leaves its slot: a port whose edge does not read then takes none of the tasks that may be in flight, and
//! nothing more of it is admitted. Its output waits at the port, and the lines of its key and port move on: a reply only reads.

use super::{Outcome, Stand, Stuck, Tasks};
use crate::cores::Core;
use crate::hosted::Common;
use crate::inflight::Slot;
use crate::lines::Lines;
use crate::port::Stamped;
use crate::ports::{Attached, Ports};
use crate::service::{Failure, TaskService};
use crate::settings::Counters;
use base::Nanos;
use base::trace::OK;
use ring::pair::Tag;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl<S, G, F, L> Tasks<S, G, F, L>
where
    S: TaskService,
    L: Lines,
{
    /// Answers all that is done.
    pub(super) fn retire<C: Core>(&mut self, common: &mut Common<C>) {
        let now = common.now();
        let mut done = std::mem::take(&mut self.done);
        for (slot, mut outcome) in done.drain(..) {
            let meta = self.metas[slot.index()];
            let port = meta.port as usize;
            if meta.traced {
                self.end_trace(common, slot, &outcome);
            }
            let request = self.slab.request(slot);
            let waits = !self.stuck[port].is_empty();
            let answered = !waits
                && answer(&self.service, &mut self.ports, meta.port, (meta.tag, request), &mut outcome, now);
            let request = self.slab.release(slot);
            if answered {
                self.ports.replied(meta.port);
                count(&mut common.account.counters, &outcome);
            } else {
                self.stick(meta.port, Stuck { tag: meta.tag, request, outcome });
                common.account.counters.blocked += u64::from(!waits);
            }
            common.executed.add(now.since(meta.admitted), |span, n| common.account.stages.executed(span, n));
            if meta.stand != Stand::Free {
                self.leave(slot);
            }
            if self.local != Some(meta.port) {
                common.in_flight -= 1;
                common.desks[self.number].in_flight -= 1;
            }
        }
        self.done = done;
    }

    /// Records the span of a task that leaves spans, unless that was over before.
    #[cold]
    fn end_trace<C: Core>(&mut self, common: &mut Common<C>, slot: Slot, outcome: &Outcome<S>) {
        let outcome = match outcome {
            Outcome::Output(_) => OK,
            Outcome::Failed(Failure::Expired) => "expired",
            Outcome::Failed(Failure::Panicked) => "panicked",
        };
        if let Some(task) = self.traced[slot.index()].take() {
            task.end(common.core.now(), outcome);
        }
    }

    /// Frees a slot's standing, and makes ready who stood behind it.
    pub(super) fn leave(&mut self, slot: Slot) {
        let meta = &mut self.metas[slot.index()];
        let (key, port) = (meta.key, meta.port);
        let stand = std::mem::replace(&mut meta.stand, Stand::Free);
        // One that was ended behind its port has not joined the line of its key.
        if stand != Stand::BehindPort
            && let Some(key) = key
            && let Some(next) = self.keys.leave(key, slot)
        {
            self.metas[next.index()].stand = Stand::Ready;
            self.ready.push_back(next);
        }
        if self.has_port_line(port)
            && let Some(next) = self.port_lines.leave(port, slot)
            && self.metas[next.index()].stand == Stand::BehindPort
        {
            self.join_key(next);
        }
    }

    #[cold]
    fn stick(&mut self, port: u32, stuck: Stuck<S>) {
        let waiting = &mut self.stuck[port as usize];
        if waiting.is_empty() {
            self.stuck_ports.push(port);
            self.ports.pause(port);
        }
        waiting.push_back(stuck);
    }

    /// Tries again what had no room, oldest first, of each port.
    pub(super) fn retry<C: Core>(&mut self, common: &mut Common<C>) {
        if self.stuck_ports.is_empty() {
            return;
        }
        let now = common.now();
        let Tasks { service, ports, stuck, stuck_ports, .. } = self;
        stuck_ports.retain(|&port| {
            let waiting = &mut stuck[port as usize];
            while let Some(Stuck { tag, request, outcome }) = waiting.front_mut() {
                if !answer(service, ports, port, (*tag, request), outcome, now) {
                    ports.replied(port);
                    return true;
                }
                count(&mut common.account.counters, outcome);
                waiting.pop_front();
            }
            if ports.find(port).is_some() {
                ports.resume(port);
            }
            false
        });
    }
}

/// Writes the reply to a task that has ended; false where there is no room for it. A panic over it is a failure of the task; one over
/// the reply to that closes the port, since the request would have no reply.
fn answer<S: TaskService>(
    service: &S,
    ports: &mut Ports<S>,
    at: u32,
    (tag, request): (Tag, &S::Request),
    outcome: &mut Outcome<S>,
    now: Nanos,
) -> bool {
    let Some(Attached { port, .. }) = ports.find(at) else { return true };
    let mut write = |outcome: &Outcome<S>| {
        catch_unwind(AssertUnwindSafe(|| match outcome {
            Outcome::Output(output) => service.reply(request, output, port.out()),
            Outcome::Failed(why) => service.failed(request, *why, port.out()),
        }))
    };
    let reply = write(outcome).or_else(|_| {
        *outcome = Outcome::Failed(Failure::Panicked);
        write(outcome)
    });
    match reply {
        Ok(Some(body)) => port.reply(tag, Stamped { at: now, body }),
        Ok(None) => return false,
        Err(_) => ports.close(at),
    }
    true
}

fn count<S: TaskService>(counters: &mut Counters, outcome: &Outcome<S>) {
    *(match outcome {
        Outcome::Output(_) => &mut counters.executed,
        Outcome::Failed(Failure::Expired) => &mut counters.expired,
        Outcome::Failed(Failure::Panicked) => &mut counters.panicked,
    }) += 1;
}
