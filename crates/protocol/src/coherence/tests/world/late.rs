//! Homes whose stores take time: what waits in their lines ends in any order that the lines allow, and in any way that they may.

use super::{HomeId, Nanos, NodeId, Out, World};
use crate::coherence::home::items::Tree;
use crate::coherence::home::late::{How, Unknown};
use crate::coherence::{Life, Planted};

/// When something ends next, and how often what ends does not end well.
pub(super) struct Slow {
    at: Nanos,
    failing: f64,
}

impl World {
    /// The homes' stores take time; of what they are asked this part is not done, or nobody knows.
    pub(in super::super) fn slow(mut self, failing: f64) -> World {
        self.slow = Some(Slow { at: Nanos::ZERO, failing });
        let ids: Vec<HomeId> = self.homes.keys().copied().collect();
        for id in ids {
            self.start_home(id, Life::First);
        }
        self
    }

    /// From now on everything is done.
    pub(in super::super) fn fails_no_more(&mut self) {
        if let Some(slow) = &mut self.slow {
            slow.failing = 0.0;
        }
    }

    /// Nothing of what waits at the homes ends before `span` from now.
    pub(in super::super) fn stall(&mut self, span: Nanos) {
        let slow = self.slow.as_mut().expect("they take time");
        slow.at = self.now.plus(span);
    }

    /// The request that waits longest at home 1 ends so.
    pub(in super::super) fn end_first(&mut self, how: How) {
        self.end(HomeId(1), 0, how);
    }

    /// The same of the one behind it, or what is before that in order.
    pub(in super::super) fn end_second(&mut self, how: How) {
        self.end(HomeId(1), 1, how);
    }

    /// The request that waits longest at home 1 is a read, and is done; the home does not hear of it yet.
    pub(in super::super) fn look_first(&mut self) {
        let now = self.clock(NodeId::Home(HomeId(1)));
        self.homes.get_mut(&HomeId(1)).expect("it runs").items_mut().look(now, 0);
    }

    /// Homes hear of reads that are done.
    pub(in super::super) fn tell_looked(&mut self) {
        let ids: Vec<HomeId> = self.homes.keys().copied().collect();
        for id in ids {
            let now = self.clock(NodeId::Home(id));
            let mut out = Out::new();
            self.homes.get_mut(&id).expect("it runs").tell_looked(now, |_| true, &mut out);
            self.send_all(NodeId::Home(id), out);
        }
        self.collect();
        self.check();
    }

    /// What nobody knew of is done now, if it still can be.
    pub(in super::super) fn do_late(&mut self) {
        let now = self.clock(NodeId::Home(HomeId(1)));
        self.homes.get_mut(&HomeId(1)).expect("it runs").items_mut().do_late(now);
        self.check();
    }

    pub(super) fn work_at(&self) -> Option<Nanos> {
        let slow = self.slow.as_ref()?;
        self.homes
            .values()
            .any(|home| home.items().in_line() + home.items().looked() > 0)
            .then(|| slow.at.max(self.now))
    }

    pub(super) fn work(&mut self) {
        let Some(failing) = self.slow.as_ref().filter(|slow| slow.at <= self.now).map(|slow| slow.failing)
        else {
            return;
        };
        let ids: Vec<HomeId> = self.homes.keys().copied().collect();
        for id in ids {
            if self.prng.chance(0.1) {
                let now = self.clock(NodeId::Home(id));
                self.homes.get_mut(&id).expect("it runs").items_mut().do_late(now);
                self.check();
            }
            let in_line = self.homes[&id].items().in_line();
            if in_line == 0 || self.transactions.is_some() && self.prng.chance(0.2) {
                self.tell_looked();
                continue;
            }
            let place = self.prng.below(in_line as u64) as usize;
            if self.transactions.is_some() && self.prng.chance(0.3) {
                let now = self.clock(NodeId::Home(id));
                self.homes.get_mut(&id).expect("it runs").items_mut().look(now, place);
            } else {
                let how = match self.prng.chance(failing) {
                    false => How::Done,
                    true => [
                        How::NotDone,
                        How::Unknown(Unknown::Done),
                        How::Unknown(Unknown::NotDone),
                        How::Unknown(Unknown::Later),
                    ][self.prng.below(4) as usize],
                };
                self.end(id, place, how);
            }
        }
        let longest = if failing > 0.0 && self.prng.chance(0.1) { 3_000_000 } else { 50_000 };
        let wait = Nanos(1 + self.prng.below(longest));
        self.slow.as_mut().expect("they take time").at = self.now.plus(wait);
    }

    fn end(&mut self, id: HomeId, place: usize, how: How) {
        let now = self.clock(NodeId::Home(id));
        let mut out = Out::new();
        let home: &mut crate::coherence::Home<Tree, Option<Planted>> =
            self.homes.get_mut(&id).expect("it runs");
        home.work(now, place, how, &mut out);
        self.send_all(NodeId::Home(id), out);
        self.collect();
        self.check();
    }
}
