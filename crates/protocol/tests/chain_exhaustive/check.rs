//! What must hold in every state.

use super::state::{State, at};
use protocol::chain::{Image, Log, Lsn, Part};

impl State {
    /// All of it.
    pub fn check(&self) -> Result<(), String> {
        self.check_chain()?;
        self.check_logs()?;
        self.check_answers()
    }

    /// Neighbours that agree in an epoch: applied ≤ committed ≤ committed below ≤ durable below ≤ received below ≤ durable.
    fn check_chain(&self) -> Result<(), String> {
        for (id, machine) in self.living() {
            let view = machine.view();
            let is_sure = view.part != Some(Part::Serving) || view.committed <= view.durable;
            if view.broken || view.applied > view.committed || !is_sure {
                return Err(format!("replica {} has {view:?}", id.0));
            }
            let configuration = machine.configuration();
            let place = configuration.position(id);
            let below = place.and_then(|place| configuration.serving().nth(place + 1));
            let Some(below) = below.map(|below| &self.nodes[at(below.replica)]).filter(|below| below.lives)
            else {
                continue;
            };
            let other = below.machine.view();
            if other.epoch != view.epoch || !other.connected {
                continue;
            }
            if !(view.committed <= other.committed && other.last <= view.durable) {
                return Err(format!("replica {} has {view:?}, its successor {other:?}", id.0));
            }
        }
        let mut heads = self
            .living()
            .map(|(_, machine)| machine.view())
            .filter(|view| view.is_head)
            .map(|view| view.epoch)
            .collect::<Vec<_>>();
        heads.sort();
        if heads.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("two lead in one of the epochs {heads:?}"));
        }
        Ok(())
    }

    /// What is committed is the same in all logs, and images that have the same are the same.
    fn check_logs(&self) -> Result<(), String> {
        for (a, one) in self.living() {
            for (b, other) in self.living().filter(|(b, _)| *b > a) {
                let both = one.view().committed.min(other.view().committed);
                for lsn in (1..=both.0).map(Lsn) {
                    if let (Some(one), Some(other)) = (one.log().read(lsn), other.log().read(lsn))
                        && one != other
                    {
                        return Err(format!("replica {} has {one:?}, replica {} {other:?}", a.0, b.0));
                    }
                }
                let (one, other) = (one.image(), other.image());
                if one.applied() == other.applied() && one.digest() != other.digest() {
                    return Err(format!("images of {} and {} differ", a.0, b.0));
                }
            }
        }
        Ok(())
    }

    /// Sums follow the order, and what was answered is durable at every living replica that serves by the configuration in force.
    fn check_answers(&self) -> Result<(), String> {
        let sums: Vec<i64> = self.answered.values().flat_map(|(_, sums)| sums.iter().copied()).collect();
        if sums.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(format!("sums {sums:?} do not follow the order"));
        }
        let Some(configuration) = self.controller.configuration() else { return Ok(()) };
        for member in configuration.serving() {
            let node = &self.nodes[at(member.replica)];
            if !node.lives || node.machine.incarnation() != member.incarnation {
                continue;
            }
            for (lsn, (id, _)) in &self.answered {
                let entry = node
                    .machine
                    .log()
                    .read(*lsn)
                    .filter(|entry| (entry.session, entry.sequence) == (id.session, id.sequence));
                if entry.is_none() || node.machine.log().durable() < *lsn {
                    return Err(format!(
                        "{id:?} was answered, and replica {} does not have it",
                        member.replica.0
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether all is answered.
    pub fn is_good_end(&self) -> bool {
        self.clients.iter().all(|client| client.floor.is_none() && client.begun == client.steps.len())
    }
}
