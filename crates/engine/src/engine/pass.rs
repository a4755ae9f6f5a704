//! One pass over all services.

use super::Engine;
use crate::cores::Core;
use crate::settings::{Progress, Settings};
use base::Nanos;

impl<C: Core> Engine<C> {
    /// One pass: admits requests from the ports, within what may be in flight, and does all that can be done without waiting.
    ///
    /// # Panics
    /// When a staged service does that does not answer panics ([`Service::ANSWERS_PANICS`](crate::Service::ANSWERS_PANICS)). The next
    /// pass goes on: after a panic of `touch` with the same requests, untouched; after one of `execute` or `expire` without the port
    /// whose request that was, which is closed, so that no other reply is taken for the missing one.
    pub fn pass(&mut self, settings: &Settings) -> Progress {
        let before = self.common.counters.answered();
        self.common.settings = *settings;
        self.common.read_clock();
        self.common.heartbeat.begin(self.common.now());
        self.common.turn.called.set(false);
        self.scan();
        self.collect();
        self.plan();
        for at in 0..self.plan.len() {
            let (service, share) = self.plan[at];
            self.services[usize::from(service)].pass(&mut self.common, share);
        }
        self.common.heartbeat.end();
        self.progress(before)
    }

    /// Notes which doorbells were rung.
    fn scan(&mut self) {
        let (routes, desks) = (&self.routes, &mut self.common.desks);
        self.tracker.scan(|index, n| {
            let desk = &mut desks[usize::from(routes[index])];
            desk.news.push(index as u32);
            desk.waiting += u64::from(n);
        });
    }

    /// Takes results from host threads.
    fn collect(&mut self) {
        if let Some(host) = self.common.turn.host.get_mut() {
            let desks = &mut self.common.desks;
            host.collect(|task| desks[usize::from(task.service)].resumed.push(task));
        }
    }

    fn progress(&mut self, before: u64) -> Progress {
        let counters = &mut self.common.counters;
        let answered = (counters.answered() - before) as usize;
        counters.passes += u64::from(answered > 0);
        let mut progress = Progress { answered, blocked: 0, more: self.common.turn.called.get() };
        for desk in &self.common.desks {
            progress.blocked += desk.blocked;
            progress.more |= desk.more || !desk.resumed.is_empty();
        }
        progress
    }

    /// Whether the next pass would find something to do now. Blocked ports do not count: their edges say when they made room; nor does
    /// time, see [`Engine::next_deadline`].
    pub fn has_work(&self) -> bool {
        self.tracker.has_news()
            || self.common.desks.iter().any(|desk| desk.more || !desk.resumed.is_empty())
            || self.common.turn.called.get()
            || self.common.turn.host.borrow_mut().as_mut().is_some_and(|host| host.is_ready())
            || self.services.iter().any(|service| service.has_work())
    }

    /// When a pass is due even if [`Engine::has_work`] says no: a task's sleep or deadline ends. [`Nanos::MAX`] for never.
    pub fn next_deadline(&self) -> Nanos {
        self.services.iter().map(|service| service.next_deadline()).min().unwrap_or(Nanos::MAX)
    }

    /// Housekeeping of the services while there is nothing to execute, at most about `budget` small steps of each; true if more is
    /// waiting.
    pub fn idle(&mut self, budget: usize) -> bool {
        let now = self.common.core.now();
        self.services.iter_mut().fold(false, |more, service| service.idle(now, budget) | more)
    }
}
