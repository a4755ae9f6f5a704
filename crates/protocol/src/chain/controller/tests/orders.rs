//! Orders: who joins and who leaves as an operator says.

use super::*;
use crate::chain::{Action, Order, OrderRefused, OrderReply};
use Part::{Serving, Syncing};

fn address(replica: u16) -> ReplicaAddress {
    let peers = format!("tcp:h:{replica}");
    ReplicaAddress { replica: ReplicaId(replica), peers, clients: String::new() }
}

fn add(number: u64, replica: u16) -> Order {
    Order { number, action: Action::Add(address(replica)) }
}

fn remove(number: u64, replica: u16, least: u16) -> Order {
    Order { number, action: Action::Remove(ReplicaId(replica), least) }
}

impl Script {
    /// Gives an order; what is answered at once.
    fn order(&mut self, order: Order) -> Option<OrderReply> {
        self.out.clear();
        let message = Message::Order { token: 3, order: Some(order) };
        self.controller.handle(self.now, NodeId::Client(9), message, &mut self.out);
        self.reply()
    }

    /// The answer to an operator that is in `out`.
    fn reply(&self) -> Option<OrderReply> {
        self.out.iter().find_map(|(to, message)| match message {
            Message::Ordered { token: 3, reply, .. } if *to == NodeId::Client(9) => Some(reply.clone()),
            _ => None,
        })
    }

    fn refused(&mut self, order: Order) -> OrderRefused {
        match self.order(order) {
            Some(OrderReply::Refused(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Three that live.
    fn living() -> (Script, [Says; 3]) {
        let mut script = Script::new(Some(three()));
        let all = [says(1, 1), says(2, 1), says(3, 1)];
        script.pass(Nanos::from_millis(700), &all);
        (script, all)
    }

    /// An order that is obeyed and stored.
    fn obeyed(&mut self, order: Order) {
        assert_eq!(self.order(order), None, "the answer comes when it is durable");
        self.store();
        assert!(matches!(self.reply(), Some(OrderReply::Done(_))), "{:?}", self.out);
    }
}

#[test]
fn a_spare_is_let_in_by_an_order_and_serves_when_it_has_caught_up() {
    let (mut script, all) = Script::living();
    script.hear(says(4, 1));
    assert!(script.controller.proposal().is_none(), "nobody joins who does not belong to the chain");
    assert_eq!(script.leads_to(4), [(5, false)], "and it is told how it is");
    script.obeyed(add(1, 4));
    assert_eq!((script.epoch(), script.members().len()), (6, 3));
    script.pass(Nanos::from_millis(100), &[all[0], all[1], all[2], says(4, 1)]);
    assert_eq!(script.members().last(), Some(&(4, 1, Syncing)));
    assert_eq!(script.refused(remove(2, 1, 3)), OrderRefused::CatchingUp(ReplicaId(4)));
    let epoch = script.epoch();
    script.hear_and_store(Says { epoch, joined: Some(4), ..all[2] });
    assert_eq!(script.members().last(), Some(&(4, 1, Serving)));
    // The same once more changes nothing, whoever leads.
    let ordered = script.controller.configuration().cloned();
    assert_eq!(script.order(add(1, 4)), Some(OrderReply::Done(Epoch(script.epoch()))));
    script.controller.lead(script.now, Nanos::MAX, ordered);
    assert_eq!(script.order(add(1, 4)), Some(OrderReply::Done(Epoch(script.epoch()))));
    assert_eq!(script.refused(add(1, 5)), OrderRefused::Late(1));
}

#[test]
fn who_is_left_out_hears_of_it_before_anybody_else() {
    let (mut script, all) = Script::living();
    script.obeyed(remove(1, 1, 2));
    assert_eq!(script.leads_to(1), [(6, false)]);
    assert!(script.leads_to(2).is_empty() && script.leads_to(3).is_empty());
    // Nor do they when they ask, nor is anything else decided meanwhile.
    script.hear(Says { epoch: 5, ..all[1] });
    assert!(script.leads_to(2).is_empty());
    assert_eq!(script.refused(add(2, 4)), OrderRefused::NotNow);
    script.hear(Says { epoch: 6, ..all[0] });
    assert_eq!((script.leads_to(2).len(), script.leads_to(3).len()), (1, 1));
    // It does not come back, and goes on being told.
    script.pass(Nanos::from_secs(1), &all);
    assert_eq!((script.epoch(), script.members()), (6, vec![(2, 1, Serving), (3, 1, Serving)]));
    script.obeyed(add(2, 4));
    script.hear(Says { epoch: 5, ..all[0] });
    assert_eq!(script.leads_to(1), [(7, false)]);
}

#[test]
fn who_is_left_out_and_cannot_be_heard_is_waited_for_as_long_as_a_lease() {
    let (mut script, all) = Script::living();
    script.obeyed(remove(1, 1, 2));
    script.pass_as_they_are(Nanos::from_millis(400), &[Says { epoch: 5, ..all[1] }]);
    assert!(script.leads_to(2).is_empty());
    // Another controller takes over, and knows of no lease.
    let stored = script.controller.configuration().cloned();
    script.controller.lead(script.now, Nanos::MAX, stored);
    script.pass_as_they_are(Nanos::from_millis(450), &[Says { epoch: 5, ..all[1] }]);
    assert!(script.leads_to(2).is_empty());
    script.pass_as_they_are(Nanos::from_millis(150), &[Says { epoch: 5, ..all[1] }]);
    assert!(!script.leads_to(2).is_empty());
}

#[test]
fn a_controller_that_takes_over_does_not_wait_where_the_members_know() {
    let (mut script, all) = Script::living();
    script.obeyed(remove(1, 1, 2));
    let stored = script.controller.configuration().cloned();
    script.controller.lead(script.now, Nanos::MAX, stored);
    script.hear(Says { epoch: 6, ..all[2] });
    assert!(!script.leads_to(3).is_empty());
}

#[test]
fn what_would_lose_something_or_makes_no_sense_is_refused() {
    let (mut script, all) = Script::living();
    assert_eq!(script.refused(remove(1, 1, 3)), OrderRefused::TooFew(2, 3));
    assert_eq!(script.refused(add(1, 0)), OrderRefused::BadAddress);
    assert_eq!(script.order(remove(1, 9, 1)), Some(OrderReply::Done(Epoch(5))), "it is not there");
    script.obeyed(add(1, 4));
    let elsewhere = Action::Add(ReplicaAddress { peers: "tcp:h:44".into(), ..address(4) });
    assert_eq!(script.refused(Order { number: 2, action: elsewhere }), OrderRefused::Elsewhere(ReplicaId(4)));
    let occupied = Action::Add(ReplicaAddress { replica: ReplicaId(5), ..address(4) });
    assert_eq!(script.refused(Order { number: 2, action: occupied }), OrderRefused::Occupied(ReplicaId(4)));
    for (number, id) in (2..).zip(5..=16) {
        script.obeyed(add(number, id));
    }
    assert_eq!(script.refused(add(20, 17)), OrderRefused::Full(16));
    // One of those that would be left has damage in its log, and cannot be heard to have everything.
    let epoch = script.epoch();
    script.hear(Says { epoch, whole: false, ..all[1] });
    assert_eq!(script.refused(remove(20, 1, 2)), OrderRefused::TooFew(1, 2));
    script.pass_without_store(Nanos::from_secs(1), &[all[0]]);
    assert_eq!(script.refused(remove(20, 1, 1)), OrderRefused::NotNow, "the silent ones are left out first");
    let mut deposed = Script::new(Some(three()));
    deposed.controller.resign();
    assert_eq!(deposed.refused(add(1, 4)), OrderRefused::NotLeading);
    assert_eq!(Script::new(None).refused(add(1, 4)), OrderRefused::NotBegun);
}

#[test]
fn another_configuration_in_the_registry_means_that_it_was_not_obeyed() {
    let (mut script, _) = Script::living();
    assert_eq!(script.order(add(1, 4)), None);
    let other = Configuration { epoch: Epoch(6), ..three() };
    script.out.clear();
    script.controller.stored(script.now, Err(Some(other)), &mut script.out);
    assert_eq!(script.reply(), Some(OrderReply::Refused(OrderRefused::NotNow)));
    assert!(script.controller.configuration().is_some_and(|c| c.roster.is_empty()));
}
