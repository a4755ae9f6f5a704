//! An operator's end of orders: adds a replica, waits until it serves, removes another; each as far as it is wanted, and is not so yet.
//!
//! ```text
//!  ask how it is ──▶ ADD ──▶ ask until the new one serves ──▶ REMOVE ──▶ done
//! ```
//! It keeps nothing that matters: what is so already the configuration says, so whoever was interrupted begins again and goes on from there. Which controller
//! leads it finds by asking one after the other.
//!
//! Bounds: one question at a time, asked again when there is no answer.

use super::{
    Action, Configuration, Message, NodeId, Order, OrderRefused, OrderReply, Out, Part, ReplicaAddress,
    ReplicaId,
};
use base::Nanos;

/// Paces that an answer is waited for.
const PATIENCE: u64 = 5;

/// What is to be so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Goal {
    /// This one belongs to the chain, …
    pub add: Option<ReplicaAddress>,
    /// … and serves, …
    pub serves: bool,
    /// … and this one does not belong to it, while at least so many others serve.
    pub remove: Option<(ReplicaId, u16)>,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No controller has answered that leads.
    Asking,
    /// The order to add is given.
    Adding,
    /// The new replica is given what it lacks, or is not heard yet.
    CatchingUp,
    /// The order to remove is given.
    Removing,
    /// All that was wanted is so.
    Done,
    /// It is not, and will not be by waiting.
    Refused(OrderRefused),
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operator {
    controllers: Vec<u16>,
    /// Whom it asks, of these.
    at: usize,
    goal: Goal,
    pace: Nanos,
    /// Of the question that is out.
    token: u64,
    is_waiting: bool,
    due: Nanos,
    /// What was ordered and not answered: asked again, it is the same.
    order: Option<Order>,
    is_added: bool,
    is_removed: bool,
    known: Option<Configuration>,
    trouble: Option<OrderRefused>,
    refused: Option<OrderRefused>,
}

impl Operator {
    /// One that reaches these controllers, and asks no more often than `pace`. `token` is different for each.
    ///
    /// # Panics
    /// Without controllers.
    pub fn new(controllers: &[u16], goal: Goal, pace: Nanos, token: u64, now: Nanos) -> Operator {
        assert!(!controllers.is_empty(), "an operator needs a controller to ask");
        Operator {
            controllers: controllers.to_vec(),
            at: 0,
            is_added: goal.add.is_none(),
            is_removed: goal.remove.is_none(),
            goal,
            pace,
            token,
            is_waiting: false,
            due: now,
            order: None,
            known: None,
            trouble: None,
            refused: None,
        }
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        if let Some(why) = self.refused {
            return Phase::Refused(why);
        }
        match &self.known {
            None => Phase::Asking,
            Some(_) if !self.is_added => Phase::Adding,
            Some(_) if !self.serves() => Phase::CatchingUp,
            Some(_) if !self.is_removed => Phase::Removing,
            Some(_) => Phase::Done,
        }
    }

    /// The configuration, as it was told last.
    pub fn configuration(&self) -> Option<&Configuration> {
        self.known.as_ref()
    }

    /// What it waits for to pass, if that was said.
    pub fn trouble(&self) -> Option<OrderRefused> {
        self.trouble
    }

    /// When [`Operator::tick`] wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        if self.is_over() { Nanos::MAX } else { self.due }
    }

    fn is_over(&self) -> bool {
        matches!(self.phase(), Phase::Done | Phase::Refused(_))
    }

    /// Asks, or asks again, when it is time.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        if self.is_over() || now < self.due {
            return;
        }
        if self.is_waiting {
            self.at = (self.at + 1) % self.controllers.len();
        }
        self.ask(now, out);
    }

    fn ask(&mut self, now: Nanos, out: &mut Out) {
        if self.order.is_none() {
            let last = self.known.as_ref().and_then(|known| known.ordered.as_ref());
            let number = last.map_or(0, |order| order.number) + 1;
            self.order = self.wanted().map(|action| Order { number, action });
        }
        self.token = self.token.wrapping_add(1);
        (self.is_waiting, self.due) = (true, now.plus(Nanos(self.pace.0.saturating_mul(PATIENCE))));
        let order = Message::Order { token: self.token, order: self.order.clone() };
        out.push((NodeId::Controller(self.controllers[self.at]), order));
    }

    /// What is to be ordered next; nothing where it is to be waited.
    fn wanted(&self) -> Option<Action> {
        self.known.as_ref()?;
        match &self.goal {
            Goal { add: Some(at), .. } if !self.is_added => Some(Action::Add(at.clone())),
            Goal { remove: Some((replica, least)), .. } if self.serves() && !self.is_removed => {
                Some(Action::Remove(*replica, *least))
            }
            _ => None,
        }
    }

    /// Whether who was added serves, if that is wanted.
    fn serves(&self) -> bool {
        let Some(at) = self.goal.add.as_ref().filter(|_| self.goal.serves) else { return true };
        let mut serving = self.known.iter().flat_map(Configuration::serving);
        serving.any(|member| member.replica == at.replica)
    }

    /// Takes an answer.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: Message, out: &mut Out) {
        let Message::Ordered { token, reply, configuration } = message else { return };
        if !self.is_waiting
            || token != self.token
            || from != NodeId::Controller(self.controllers[self.at])
            || self.is_over()
        {
            return;
        }
        self.is_waiting = false;
        if let Some(configuration) = configuration {
            self.learn(configuration);
        }
        let later = now.plus(self.pace);
        let ordered = self.order.take();
        match reply {
            OrderReply::Refused(OrderRefused::NotLeading) => {
                self.order = ordered;
                self.at = (self.at + 1) % self.controllers.len();
                self.due = if self.at == 0 { later } else { now };
            }
            OrderReply::Refused(OrderRefused::Late(_)) => self.due = now,
            OrderReply::Refused(why) if why.is_passing() => (self.trouble, self.due) = (Some(why), later),
            OrderReply::Refused(why) => self.refused = Some(why),
            OrderReply::Known => self.due = if self.wanted().is_some() { now } else { later },
            OrderReply::Done(_) => {
                match ordered.map(|order| order.action) {
                    Some(Action::Add(_)) => self.is_added = true,
                    Some(Action::Remove(..)) => self.is_removed = true,
                    None => {}
                }
                (self.trouble, self.due) = (None, now);
            }
        }
        self.tick(now, out);
    }

    fn learn(&mut self, configuration: Configuration) {
        if self.known.as_ref().is_some_and(|known| known.epoch > configuration.epoch) {
            return;
        }
        let Goal { add, remove, .. } = &self.goal;
        self.is_added |= add.as_ref().is_some_and(|at| configuration.address(at.replica) == Some(at));
        let is_out = |(replica, _): &(ReplicaId, u16)| {
            configuration.is_removed(*replica) && configuration.position(*replica).is_none()
        };
        self.is_removed |= remove.as_ref().is_some_and(is_out);
        let is_syncing = configuration.members.iter().any(|member| member.part == Part::Syncing);
        if !is_syncing {
            self.trouble = None;
        }
        self.known = Some(configuration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Epoch, Incarnation, Member};

    const PACE: Nanos = Nanos::from_millis(100);

    fn address(replica: u16) -> ReplicaAddress {
        let peers = format!("tcp:h:{replica}");
        ReplicaAddress { replica: ReplicaId(replica), peers, clients: String::new() }
    }

    fn configuration(epoch: u64, serving: &[u16], ordered: Option<Order>) -> Configuration {
        let member =
            |id: &u16| Member { replica: ReplicaId(*id), incarnation: Incarnation(1), part: Part::Serving };
        let members: Vec<Member> = serving.iter().map(member).collect();
        let roster = if ordered.is_some() { serving.iter().map(|id| address(*id)).collect() } else { vec![] };
        Configuration { epoch: Epoch(epoch), members, roster, ordered, ..Configuration::default() }
    }

    struct Script {
        operator: Operator,
        now: Nanos,
        out: Out,
    }

    impl Script {
        fn new() -> Script {
            let goal = Goal { add: Some(address(4)), serves: true, remove: Some((ReplicaId(1), 3)) };
            let now = Nanos::from_secs(1);
            let mut script =
                Script { operator: Operator::new(&[0, 1], goal, PACE, 7, now), now, out: Out::new() };
            script.operator.tick(now, &mut script.out);
            script
        }

        /// The question that is out: to whom, and what.
        fn asked(&mut self) -> (u16, u64, Option<Order>) {
            match self.out.pop() {
                Some((NodeId::Controller(number), Message::Order { token, order })) => (number, token, order),
                other => panic!("{other:?}"),
            }
        }

        fn answer(&mut self, from: u16, token: u64, reply: OrderReply, configuration: Option<Configuration>) {
            let answer = Message::Ordered { token, reply, configuration };
            self.operator.handle(self.now, NodeId::Controller(from), answer, &mut self.out);
        }

        fn pass(&mut self) {
            self.now = self.operator.next_deadline();
            self.operator.tick(self.now, &mut self.out);
        }
    }

    #[test]
    fn it_finds_who_leads_adds_waits_and_removes() {
        let mut s = Script::new();
        let (to, token, order) = s.asked();
        assert_eq!((to, order), (0, None));
        s.answer(0, token, OrderReply::Refused(OrderRefused::NotLeading), None);
        let (to, token, _) = s.asked();
        assert_eq!(to, 1);
        s.answer(1, token, OrderReply::Known, Some(configuration(5, &[1, 2, 3], None)));
        let (_, token, order) = s.asked();
        let add = Order { number: 1, action: Action::Add(address(4)) };
        assert_eq!(order, Some(add.clone()));
        // No answer: the other one is asked the same, then this one again.
        s.pass();
        let (to, _, order) = s.asked();
        assert_eq!((to, order.as_ref()), (0, Some(&add)));
        s.answer(1, token, OrderReply::Done(Epoch(6)), None);
        assert_eq!(s.operator.phase(), Phase::Adding, "that was the answer to another question");
        s.pass();
        let (_, token, _) = s.asked();
        let added = Configuration {
            roster: [1, 2, 3, 4].map(address).into(),
            ..configuration(6, &[1, 2, 3], Some(add))
        };
        s.answer(1, token, OrderReply::Done(Epoch(6)), Some(added.clone()));
        assert_eq!(s.operator.phase(), Phase::CatchingUp);
        let (_, token, order) = s.asked();
        assert_eq!(order, None);
        s.answer(1, token, OrderReply::Known, Some(added));
        assert!(s.out.is_empty(), "it asks no faster than that");
        s.pass();
        let (_, token, _) = s.asked();
        let serves =
            configuration(8, &[1, 2, 3, 4], Some(Order { number: 1, action: Action::Add(address(4)) }));
        s.answer(1, token, OrderReply::Known, Some(serves));
        let (_, token, order) = s.asked();
        assert_eq!(order, Some(Order { number: 2, action: Action::Remove(ReplicaId(1), 3) }));
        s.answer(1, token, OrderReply::Done(Epoch(9)), None);
        assert_eq!((s.operator.phase(), s.operator.next_deadline()), (Phase::Done, Nanos::MAX));
    }

    #[test]
    fn what_is_so_already_is_not_ordered_and_what_cannot_be_ends_it() {
        let mut s = Script::new();
        let (_, token, _) = s.asked();
        let order = Order { number: 9, action: Action::Remove(ReplicaId(1), 1) };
        s.answer(0, token, OrderReply::Known, Some(configuration(5, &[2, 3, 4], Some(order))));
        assert_eq!(s.operator.phase(), Phase::Done);

        let mut s = Script::new();
        let (_, token, _) = s.asked();
        s.answer(0, token, OrderReply::Known, Some(configuration(5, &[1, 2, 3], None)));
        let (_, token, _) = s.asked();
        s.answer(0, token, OrderReply::Refused(OrderRefused::NotNow), None);
        assert_eq!(s.operator.trouble(), Some(OrderRefused::NotNow));
        s.pass();
        let (_, token, _) = s.asked();
        s.answer(0, token, OrderReply::Refused(OrderRefused::Occupied(ReplicaId(2))), None);
        assert_eq!(s.operator.phase(), Phase::Refused(OrderRefused::Occupied(ReplicaId(2))));
    }
}
