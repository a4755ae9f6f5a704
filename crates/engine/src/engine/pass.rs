//! One pass, over all services or of one.

use super::{Engine, Handle};
use crate::cores::Core;
use crate::service::Messages;
use crate::settings::Progress;
use base::Nanos;

impl<C: Core> Engine<C> {
    /// One pass: admits requests from the ports, within what may be in flight, and does all that can be done without waiting.
    ///
    /// # Panics
    /// When a staged service does that does not answer panics ([`Service::ANSWERS_PANICS`](crate::Service::ANSWERS_PANICS)). The next
    /// pass goes on: after a panic of `touch` with the same requests, untouched; after one of `execute` or `expire` without the port
    /// whose request that was, which is closed, so that no other reply is taken for the missing one.
    pub fn pass(&mut self) -> Progress {
        self.begin();
        self.common.turn.called.set(false);
        self.plan();
        let mut progress = Progress::default();
        for at in 0..self.plan.len() {
            let (number, share) = self.plan[at];
            self.run(number, share, &mut progress);
        }
        self.common.heartbeat.end();
        progress.more = self.common.turn.called.get();
        for desk in &self.common.desks {
            progress.blocked += desk.blocked;
            progress.more |= desk.is_busy();
        }
        progress
    }

    /// A pass of one service, which may fill the engine; the others are where they were. What is announced to them, and comes back to
    /// them, is kept for their passes. Of the progress everything is this service's.
    ///
    /// # Panics
    /// As [`Engine::pass`]; or the handle is another engine's, or of a service that was removed.
    pub fn pass_of<S: Messages>(&mut self, of: Handle<S>) -> Progress {
        let number = self.number(of);
        self.begin();
        let mut progress = Progress::default();
        self.run(number as u16, self.common.capacity, &mut progress);
        self.common.heartbeat.end();
        let desk = &self.common.desks[number];
        Progress { blocked: desk.blocked, more: desk.is_busy(), ..progress }
    }

    fn begin(&mut self) {
        self.common.read_clock();
        self.common.heartbeat.begin(self.common.now());
        self.scan();
        self.collect();
    }

    fn run(&mut self, number: u16, share: usize, progress: &mut Progress) {
        let Engine { services, common, .. } = self;
        let Some(service) = &mut services[usize::from(number)] else { return };
        common.serve(usize::from(number));
        let before = common.account.counters.answered();
        service.pass(common, share);
        let counters = &mut common.account.counters;
        let answered = (counters.answered() - before) as usize;
        if answered > 0 {
            counters.passes += 1;
            progress.answered += answered;
            progress.services |= 1 << number;
        }
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

    /// Whether the next pass would find something to do now. Blocked ports do not count: their edges say when they made room; nor does
    /// time, see [`Engine::next_deadline`].
    pub fn has_work(&self) -> bool {
        self.tracker.has_news()
            || self.common.desks.iter().any(|desk| desk.is_busy())
            || self.common.turn.called.get()
            || self.common.turn.host.borrow_mut().as_mut().is_some_and(|host| host.is_ready())
            || self.services.iter().flatten().any(|service| service.has_work())
    }

    /// When a pass is due even if [`Engine::has_work`] says no: a task's sleep or deadline ends. [`Nanos::MAX`] for never.
    pub fn next_deadline(&self) -> Nanos {
        self.services.iter().flatten().map(|service| service.next_deadline()).min().unwrap_or(Nanos::MAX)
    }

    /// Housekeeping of the services while there is nothing to execute, at most about `budget` small steps of each; true if more is
    /// waiting.
    pub fn idle(&mut self, budget: usize) -> bool {
        let now = self.common.core.now();
        self.services.iter_mut().flatten().fold(false, |more, service| service.idle(now, budget) | more)
    }

    /// Housekeeping of one service.
    ///
    /// # Panics
    /// When the handle is another engine's, or of a service that was removed.
    pub fn idle_of<S: Messages>(&mut self, of: Handle<S>, budget: usize) -> bool {
        let (number, now) = (self.number(of), self.common.core.now());
        self.hosted(number).idle(now, budget)
    }
}
