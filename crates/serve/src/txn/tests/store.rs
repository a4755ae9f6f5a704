//! The library for programs against a chain within this process: keys, transactions, and how it is found again.

use crate::chain::Local;
use ::client::{Cluster, Error, Item, Store, Swap};
use fabric::link::Address;
use protocol::chain::message::{RequestId, Status};
use protocol::chain::transaction::Abort;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn cluster(addresses: &[Address]) -> Cluster {
    Cluster::builder().replicas(addresses.iter().cloned()).connect().expect("a chain that lives")
}

/// Keys of another thread's chain are no business of these.
fn value(item: Option<Item>) -> Option<String> {
    item.map(|item| String::from_utf8(item.value).expect("text"))
}

#[test]
fn operations_on_keys_do_what_they_say() {
    let chain = Local::start(3);
    let mut cluster = cluster(chain.addresses());
    assert_eq!(cluster.get(b"k").expect("an answer"), None);
    assert!(!cluster.delete(b"k").expect("an answer"));
    assert_eq!(cluster.replace(b"k", b"0").expect("an answer"), None);
    let first = cluster.add(b"k", b"1").expect("an answer").expect("nothing is there");
    assert_eq!(cluster.add(b"k", b"2").expect("an answer"), None);
    assert_eq!(cluster.get(b"k").expect("an answer"), Some(Item { value: b"1".into(), version: first }));
    assert_eq!(cluster.cas(b"k", first + 1, b"2").expect("an answer"), Swap::Exists);
    assert_eq!(cluster.cas(b"other", first, b"2").expect("an answer"), Swap::Missing);
    let Swap::Stored(second) = cluster.cas(b"k", first, b"2").expect("an answer") else {
        panic!("it has that version")
    };
    assert!(second > first);
    let third = cluster.set(b"k", b"3").expect("done");
    assert!(third > second && cluster.replace(b"k", b"4").expect("an answer") > Some(third));
    assert!(cluster.delete(b"k").expect("an answer"));
    assert_eq!(cluster.increment(b"n", 5).expect("done"), 5);
    assert_eq!(cluster.decrement(b"n", 7).expect("done"), -2);
    cluster.set(b"text", b"blue").expect("done");
    assert!(matches!(cluster.increment(b"text", 1), Err(Error::NotANumber)));
    cluster.set(b"n", i64::MAX.to_string().as_bytes()).expect("done");
    assert!(matches!(cluster.increment(b"n", 1), Err(Error::Overflow)));
    assert!(matches!(cluster.decrement(b"n", i64::MIN), Err(Error::Overflow)));
    assert!(matches!(cluster.set(b"", b"x"), Err(Error::Refused(_))));
    let many = cluster.store().expect("it has one").get_many(&[b"text", b"k", b"n"]).expect("read");
    let many: Vec<_> = many.into_iter().map(value).collect();
    assert_eq!(many, [Some("blue".to_owned()), None, Some(i64::MAX.to_string())]);
    assert_eq!(cluster.store().expect("it has one").get_many(&[]).expect("nothing is asked"), []);
    cluster.close();
}

#[test]
fn a_transaction_is_put_together_and_committed() {
    let chain = Local::start(2);
    let mut cluster = cluster(chain.addresses());
    let opened = cluster.transaction().put("ann", "10").put("bob", "0").expect_absent("ann").commit();
    let version = opened.expect("done").lsn.0;
    let mut transfer = |by: i64| {
        let asked = cluster.transaction().expect_at_least("ann", by).add("ann", -by).add("bob", by);
        asked.read("ann").commit().expect("an outcome")
    };
    let moved = transfer(4);
    assert_eq!((moved.abort, &moved.sums[..]), (None, &[6, 4][..]));
    assert_eq!(moved.reads[0].as_ref().map(|found| found.version.0), Some(version));
    assert_eq!(transfer(7).abort, Some(Abort::Condition(0)));
    let checked = cluster
        .transaction()
        .expect_exists("ann")
        .expect_value("bob", "4")
        .expect_version("ann", moved.lsn.0)
        .delete("bob")
        .commit();
    assert_eq!(checked.expect("an outcome").abort, None);
    assert_eq!(cluster.get(b"bob").expect("an answer"), None);
}

#[test]
fn a_replica_that_dies_is_not_noticed_and_what_became_of_a_write_is_told() {
    let chain = Local::start(3);
    // Any replica may be the one that is asked next, and a slow machine takes its time to make another the head.
    let patient = Cluster::builder().deadline(Duration::from_secs(60));
    let mut cluster = patient.replicas(chain.addresses()[1..2].iter().cloned()).connect().expect("it lives");
    for n in 1..=10 {
        assert_eq!(cluster.increment(b"n", 1).expect("done"), n);
        if n == 5 {
            chain.kill(1);
        }
    }
    let session = cluster
        .store()
        .expect("it has one")
        .chain_of(b"n")
        .expect("it lives")
        .session()
        .expect("one was opened");
    let told = |store: &mut Store, sequence| store.status(RequestId { session, sequence });
    let Status::Done(outcome) = told(cluster.store().expect("it has one"), 10).expect("an answer") else {
        panic!("it was done")
    };
    assert_eq!(outcome.sums, [10]);
    assert_eq!(told(cluster.store().expect("it has one"), 11).expect("an answer"), Status::Unknown);
}

/// Writes a file of a chain whose replicas are there.
fn say(file: &Path, addresses: &[Address]) {
    let replica = |(id, address)| format!("[[chain.replica]]\nid = {id}\naddress = \"{address}\"\n");
    let replicas: String = (1..).zip(addresses).map(replica).collect();
    std::fs::write(file, format!("[[chain]]\nnumber = 1\n{replicas}")).expect("a file");
}

#[test]
fn a_chain_that_is_elsewhere_now_is_found_where_it_was_found_first() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let file = folder.path().join("cluster.toml");
    let first = Local::start(2);
    let second = Local::start(2);
    let patient = Cluster::builder().deadline(Duration::from_secs(60));
    say(&file, first.addresses());
    let mut cluster = patient.cluster(&file).connect().expect("it lives");
    cluster.set(b"k", b"of the first").expect("done");
    let mut other = self::cluster(second.addresses());
    other.set(b"k", b"of the second").expect("done");
    say(&file, second.addresses());
    drop(first);
    assert_eq!(value(cluster.get(b"k").expect("an answer")), Some("of the second".to_owned()));
    // The session is known there no more than the replicas were here.
    let stored = cluster.set(b"k", b"again");
    assert!(matches!(stored, Ok(_) | Err(Error::Unknown { .. })), "{stored:?}");
    cluster.set(b"k", b"anew").expect("done");
    assert_eq!(value(other.get(b"k").expect("an answer")), Some("anew".to_owned()));
}

#[test]
fn what_is_not_found_is_said_with_what_was_tried() {
    let nothing = Cluster::builder().connect().err().expect("nothing is named").to_string();
    assert!(nothing.contains("no replica is named"), "{nothing}");
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let file = folder.path().join("cluster.toml");
    let nowhere: Address = "memory:store-nobody-is-here".parse().expect("an address");
    say(&file, &[nowhere]);
    let builder = Cluster::builder().connect_timeout(Duration::from_millis(200)).cluster(&file);
    let error = builder.clone().connect().err().expect("nobody is there").to_string();
    assert!(error.contains("memory:store-nobody-is-here"), "{error}");
    let error = builder.chain(9).connect().err().expect("another chain").to_string();
    assert!(error.contains("there is no chain 9; there are 1"), "{error}");
}
