//! Everything that can happen next in a [`State`], and what it does to it: arrivals, crashes, cuts, time.

use super::*;
use protocol::chain::Log;

impl State {
    /// A replica stops; what is on its way to it is lost, and what is not durable there.
    fn crash(&mut self, id: ReplicaId) {
        let node = Arc::make_mut(&mut self.nodes[at(id)]);
        node.lives = false;
        node.machine.log_mut().crash();
        node.hash = hash_of(&(&node.machine, false, node.is_heard));
        self.network.retain(|(_, _, to, _)| *to != NodeId::Replica(id));
        self.faults.crashes -= 1;
        self.unnoticed = true;
    }

    /// A replica and the controller hear nothing of each other any more.
    fn cut_off(&mut self, id: ReplicaId) {
        let node = Arc::make_mut(&mut self.nodes[at(id)]);
        node.is_heard = false;
        node.hash = hash_of(&(&node.machine, node.lives, false));
        self.network.retain(|(_, from, to, _)| (*from, *to) != (NodeId::Controller(0), NodeId::Replica(id)));
        self.faults.cut_offs -= 1;
        self.unnoticed = true;
    }

    /// So much time goes by that the controller takes the silent one for dead. What the others send again because of it is lost.
    fn notice(&mut self) {
        self.unnoticed = false;
        let epoch = self.epoch();
        for _ in 0..20 {
            let kept = self.network.clone();
            self.pass();
            if self.epoch() > epoch {
                return;
            }
            self.network = kept;
        }
        panic!("the controller notices nothing");
    }

    /// Some time goes by: a heartbeat. Who hears the controller has a new lease at once.
    fn pass(&mut self) {
        self.now = self.now.plus(self.config.heartbeat);
        REPLICAS.into_iter().for_each(|id| self.tick(id));
        while let Some(i) = self.network.iter().position(|(_, _, to, message)| {
            matches!((to, &**message), (NodeId::Replica(to), Message::Lead { configuration, .. })
                if configuration.epoch == self.nodes[at(*to)].machine.view().epoch)
        }) {
            let (_, from, to, message) = self.network.remove(i);
            if let NodeId::Replica(id) = to {
                self.with(id, |machine, now, out| {
                    machine.handle(now, from, Arc::unwrap_or_clone(message), out)
                });
            }
        }
    }

    /// All states that come next.
    pub fn next(&self) -> Vec<Result<State, String>> {
        let mut all = Vec::new();
        let mut add = |act: &dyn Fn(&mut State) -> Result<(), String>| {
            let mut next = self.clone();
            let done = act(&mut next).and_then(|()| next.check());
            next.forget_old();
            all.push(done.map(|()| next));
        };
        for i in 0..self.network.len() {
            // Of two that are the same one may as well come first.
            if i > 0 && self.network[i - 1].0 == self.network[i].0 {
                continue;
            }
            add(&|next| next.deliver(i, false));
            if self.faults.doubles > 0 {
                add(&|next| {
                    next.faults.doubles -= 1;
                    next.deliver(i, true)
                });
            }
        }
        for id in REPLICAS {
            let node = &self.nodes[at(id)];
            let log = node.machine.log();
            if node.lives && log.durable() < log.last().0 {
                add(&|next| {
                    next.sync(id);
                    Ok(())
                });
            }
            if node.lives && self.faults.crashes > 0 {
                add(&|next| {
                    next.crash(id);
                    Ok(())
                });
            }
            if node.lives && node.is_heard && self.faults.cut_offs > 0 {
                add(&|next| {
                    next.cut_off(id);
                    Ok(())
                });
            }
        }
        if self.unnoticed {
            add(&|next| {
                next.notice();
                Ok(())
            });
        } else if self.network.is_empty()
            && !self.syncs()
            && !(0..2).any(|c| self.wants_to_ask_again(c))
            && !self.is_good_end()
        {
            // Nothing moves: what was dropped is sent again in time.
            add(&|next| {
                next.waits += 1;
                next.pass();
                Ok(())
            });
        }
        for c in (0..2).filter(|c| self.wants_to_ask_again(*c)) {
            add(&|next| {
                next.ask(c);
                Ok(())
            });
        }
        all
    }

    /// What is of an earlier epoch than its receiver's is dropped when it arrives: it may as well be dropped now.
    fn forget_old(&mut self) {
        if self.planted == Some(Planted::TakeOldEpoch) {
            return;
        }
        let epochs = self.nodes.each_ref().map(|node| node.machine.configuration().epoch);
        let is_old = |to: &NodeId, message: &Message| matches!(to, NodeId::Replica(to) if epoch_of(message).is_some_and(|epoch| epoch < epochs[at(*to)]));
        self.network.retain(|(_, _, to, message)| !is_old(to, message));
    }

    /// Whether a log has something that is not durable.
    fn syncs(&self) -> bool {
        self.living().any(|(_, machine)| machine.log().durable() < machine.log().last().0)
    }

    fn wants_to_ask_again(&self, c: usize) -> bool {
        let script = &self.clients[c];
        let head_lives = self.head().is_some_and(|head| self.nodes[at(head)].lives);
        script.floor.is_some() && head_lives && (script.refused || script.asked_in < self.epoch())
    }
}
