//! The checker of a [`World`]: what must hold after every event, of every answer, and of a counter at the end.

use super::*;
use crate::coherence::compute::number;
use crate::wire::key_hash;

impl World {
    /// A counter that began at 0, and that nothing but increments changed, counted each of them once: those that were answered,
    /// and of those whose end is not known any number.
    pub(in crate::coherence::tests) fn judge_counter(&mut self, key: &str) {
        let of_it = |(op, _): &(&(usize, OpId), &Result_)| {
            let call = &self.started[*op].0;
            call.key == key.as_bytes() && call.verb == Verb::Incr
        };
        let ends: Vec<_> = self.outcomes.iter().filter(of_it).map(|(_, outcome)| outcome).collect();
        let answered = ends.iter().filter(|end| matches!(end, Ok(a) if a.status == Status::Ok)).count()
            as u64
            + self.ended_at_homes(key, Status::Ok);
        let unknown = ends.iter().filter(|end| **end == &Err(Failed::Unknown)).count() as u64
            + self.ended_at_homes(key, Status::Forgotten);
        let item = self.homes.values().find_map(|home| home.items().peek(key.as_bytes()));
        // The first one stored 0.
        let counted = item.map_or(0, |item| number(&item.value).expect("a counter is a number") + 1);
        if !(answered..=answered + unknown).contains(&counted) {
            self.violations.push(format!("{counted} were counted, {answered} answered, {unknown} unknown"));
        }
    }

    pub(super) fn judge(&mut self, c: usize, op: OpId, outcome: &Result_) {
        let (call, floor) = self.started[&(c, op)].clone();
        if let Ok(answer) = outcome {
            self.judge_version(&call, floor, answer.version, answer.status);
        }
    }

    /// An answer to `call` showed a version; answers before it began had shown `floor`.
    pub(super) fn judge_version(&mut self, call: &Call, floor: Version, showed: Version, status: Status) {
        if showed != Version(0) && showed < floor {
            self.violations.push(format!("{call:?} showed {showed}, after {floor} was seen"));
        }
        let highest = self.floor.entry(call.key.clone()).or_default();
        *highest = showed.max(*highest);
        if call.verb == Verb::Incr && status == Status::Ok && !self.counted.insert((call.key.clone(), showed))
        {
            self.violations.push(format!("{call:?} is one of two that stored {showed}"));
        }
    }

    /// No box answers as the owner of what its home did not give it.
    fn check_owners(&mut self) {
        for (id, machine) in &self.boxes {
            let now = self.clock(NodeId::Box(*id));
            for key in self.keys.iter().filter(|key| machine.owned(key, now).is_some()) {
                let home = self.layout.home_of(key_hash(key));
                let is_quiet = self.quiet_until.get(&home).is_some_and(|until| runs(*until, self.now));
                if !is_quiet && self.homes[&home].owner_of(key) != Some(*id) {
                    let key = String::from_utf8_lossy(key);
                    self.violations.push(format!("box {id} would answer as owner of {key}"));
                }
            }
        }
    }

    /// Nobody would wait for a box that may be stopped, and nothing is left there.
    fn check_drained(&mut self) {
        let drained: Vec<BoxId> =
            self.layout.boxes().filter(|id| self.drain_of(id.0) == Some(Drain::Drained)).collect();
        for id in drained {
            let waits = |id_of: &HomeId| {
                let home = &self.homes[id_of];
                home.is_draining(id) && home.waits_for(id, self.clock(NodeId::Home(*id_of)))
            };
            let waiting: Vec<HomeId> = self.homes.keys().copied().filter(waits).collect();
            for home in waiting {
                self.violations.push(format!("box {id} is drained, and home {home} may wait for it"));
            }
            if let Some(machine) = self.boxes.get(&id).filter(|machine| machine.left() > 0) {
                self.violations.push(format!("box {id} is drained, and has {} left", machine.left()));
            }
        }
    }

    /// No box could answer what is not, at this moment, at the home.
    pub(super) fn check(&mut self) {
        self.check_owners();
        self.check_drained();
        for (id, machine) in &self.boxes {
            let now = self.clock(NodeId::Box(*id));
            for kept in machine.copies().filter(|kept| runs(kept.end(), now)) {
                let home = self.layout.home_of(kept.hash);
                if self.quiet_until.get(&home).is_some_and(|until| runs(*until, self.now)) {
                    continue;
                }
                let home_now = self.clock(NodeId::Home(home));
                let item = self.homes[&home].items().clone().read(&kept.key, home_now);
                let (key, version) = (String::from_utf8_lossy(&kept.key), kept.version);
                match item {
                    Some(item) if item.version == version && item.value == kept.value => {}
                    Some(item) => self
                        .violations
                        .push(format!("box {id} has version {version} of {key}, its home {}", item.version)),
                    None if self.evicts => {}
                    None => self
                        .violations
                        .push(format!("box {id} has version {version} of {key}, its home nothing")),
                }
            }
        }
    }
}
