//! Clients against a chain within this process.

mod store;

use super::{Client, Options, TxnError};
use crate::chain::Local;
use fabric::link::Address;
use protocol::chain::client::Reads;
use protocol::chain::message::{Refusal, RequestId, Status};
use protocol::chain::transaction::{Abort, Malformed};
use protocol::chain::{Durability, Outcome, SessionId, Transaction};
use std::collections::BTreeSet;
use std::time::Duration;

fn client(addresses: &[Address]) -> Client {
    Client::connect(addresses, &Options::default()).expect("a chain that lives")
}

fn value(outcome: &Outcome, read: usize) -> Option<&[u8]> {
    outcome.reads[read].as_ref().map(|found| &found.value[..])
}

#[test]
fn a_transaction_is_done_whole_or_not_at_all() {
    let chain = Local::start(3);
    let mut client = client(chain.addresses());
    let opened = client.execute(Transaction::new().put("ann", "10").put("bob", "0")).expect("done");
    assert_eq!((opened.abort, opened.copies, opened.durability), (None, 3, Durability::Volatile));
    let transfer =
        |amount| Transaction::new().if_at_least("ann", amount).add("ann", -amount).add("bob", amount);
    let moved = client.execute(transfer(4)).expect("done");
    assert_eq!(moved.sums, [6, 4]);
    let refused = client.execute(transfer(7)).expect("an abort is an outcome");
    assert_eq!(refused.abort, Some(Abort::Condition(0)));
    let both = client.execute(Transaction::new().get("ann").get("bob").get("eve")).expect("read");
    assert_eq!((value(&both, 0), value(&both, 1), value(&both, 2)), (Some(&b"6"[..]), Some(&b"4"[..]), None));
    client.close();
}

#[test]
fn what_is_no_transaction_is_refused_before_it_is_sent() {
    let chain = Local::start(1);
    let mut client = client(chain.addresses());
    let empty = client.execute(Transaction::new());
    assert_eq!(empty, Err(TxnError::Refused(Refusal::Malformed(Malformed::Empty))));
    let twice = client.start(Transaction::new().put("a", "1").put("a", "2"));
    assert!(matches!(twice, Err(TxnError::Refused(Refusal::Malformed(Malformed::WrittenTwice(_))))));
}

#[test]
fn many_are_under_way_and_each_ends_once() {
    let chain = Local::start(2);
    let mut client = client(chain.addresses());
    let mut under_way = BTreeSet::new();
    let mut sums = BTreeSet::new();
    for _ in 0..200 {
        under_way.insert(client.start(Transaction::new().add("n", 1)).expect("room"));
    }
    while !under_way.is_empty() {
        while let Some((ticket, result)) = client.poll() {
            assert!(under_way.remove(&ticket));
            assert!(sums.insert(result.expect("done").sums[0]));
        }
        client.wait(None);
    }
    assert_eq!(sums, (1..=200).collect());
}

#[test]
fn one_address_is_enough_and_every_replica_reads_what_was_written() {
    let chain = Local::start(3);
    let tail = &chain.addresses()[2..];
    let mut writer = client(tail);
    let spread = Options { reads: Reads::Spread, ..Options::default() };
    let mut reader = Client::connect(tail, &spread).expect("a chain that lives");
    for n in 0..20 {
        writer.execute(Transaction::new().put("k", n.to_string())).expect("done");
        let read = reader.execute(Transaction::new().get("k")).expect("read");
        assert_eq!(value(&read, 0), Some(n.to_string().as_bytes()));
    }
}

#[test]
fn clients_of_many_threads_add_up() {
    let chain = Local::start(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = client(chain.addresses());
                for _ in 0..40 {
                    client.execute(Transaction::new().add("n", 1)).expect("done");
                }
            });
        }
    });
    let read = client(chain.addresses()).execute(Transaction::new().get("n")).expect("read");
    assert_eq!(value(&read, 0), Some(&b"120"[..]));
}

#[test]
fn a_chain_goes_on_without_any_of_its_replicas_and_takes_them_back() {
    for victim in 1..=3 {
        let chain = Local::start(3);
        let mut client = client(chain.addresses());
        let count =
            |client: &mut Client| client.execute(Transaction::new().add("n", 1)).expect("done").sums[0];
        assert_eq!(count(&mut client), 1);
        chain.kill(victim);
        assert_eq!((2..10).map(|_| count(&mut client)).collect::<Vec<_>>(), (2..10).collect::<Vec<_>>());
        chain.restart(victim);
        // It is given everything, and then is one of the copies.
        while client.execute(Transaction::new().add("m", 1)).expect("done").copies < 3 {}
        assert_eq!(count(&mut client), 10);
    }
}

#[test]
fn what_became_of_a_transaction_is_told_to_whoever_asks() {
    let chain = Local::start(2);
    let mut writer = client(chain.addresses());
    let outcome = writer.execute(Transaction::new().put("a", "1")).expect("done");
    let id = RequestId { session: writer.session().expect("one was opened"), sequence: 1 };
    let mut other = client(chain.addresses());
    assert_eq!(other.status(id), Ok(Status::Done(outcome)));
    let later = RequestId { sequence: 2, ..id };
    assert_eq!(other.status(later), Ok(Status::Unknown));
    writer.close();
    let nobodys = RequestId { session: SessionId(77), sequence: 1 };
    assert_eq!(other.status(nobodys), Ok(Status::Forgotten));
}

#[test]
fn who_cannot_be_reached_is_named() {
    let nowhere: Address = "memory:txn-nobody-is-here".parse().expect("an address");
    let Err(TxnError::Nobody(tried)) = Client::connect(std::slice::from_ref(&nowhere), &Options::default())
    else {
        panic!("nobody is there");
    };
    assert_eq!((tried.len(), &tried[0].0), (1, &nowhere));
}

#[test]
fn without_a_chain_an_outcome_is_not_known_and_a_read_is_not_done() {
    let chain = Local::start(1);
    let options = Options { patience: Duration::from_millis(150), ..Options::default() };
    let mut client = Client::connect(chain.addresses(), &options).expect("a chain that lives");
    client.execute(Transaction::new().put("a", "1")).expect("done");
    drop(chain);
    let read = client.execute(Transaction::new().get("a"));
    assert!(matches!(read, Err(TxnError::NotDone(_))), "{read:?}");
    let write = client.execute(Transaction::new().put("a", "2"));
    let Err(TxnError::Unknown { id: Some(id), .. }) = write else { panic!("{write:?}") };
    assert_eq!(id.sequence, 2);
}
