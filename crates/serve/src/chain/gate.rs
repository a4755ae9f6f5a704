//! Who may do what by service `Txn`: each key of a transaction is asked for. Sessions need no rights of their own: their numbers cannot be guessed, and
//! whoever has one has opened it.

use crate::txn::proto::millrace::ExecuteRequest;
use crate::txn::words::take_request;
use base::rights::{Ask, Denied, Peer, ServiceRights};
use codec::decode::Decoder;
use codec::memory::Arena;
use codec::typed::Message as _;
use fabric::server::{Gate, denied};
use fabric::status::Status;
use protocol::chain::Transaction;
use protocol::chain::transaction::Change;

/// The gate of a replica's service: who calls a method must be allowed to, and to read and write the keys.
pub fn gate(rights: ServiceRights) -> Gate {
    Gate::new(rights).examining(|peer, path, message| match path {
        "millrace.Txn/Execute" => execute(peer, message),
        "millrace.Txn/Export" => asked(peer, Ask::ReadAll),
        _ => Ok(()),
    })
}

fn asked(peer: &mut Peer, what: Ask<'_>) -> Result<(), Status> {
    peer.may(what).map_err(|Denied| denied(what))
}

/// What cannot be read is refused by the handler, too.
fn execute(peer: &mut Peer, message: &[u8]) -> Result<(), Status> {
    let (arena, mut decoder) = (Arena::default(), Decoder::default());
    let Ok(request) = ExecuteRequest::decode(&mut decoder, message, &arena) else { return Ok(()) };
    match take_request(request) {
        Ok((_, transaction)) => keys(peer, &transaction),
        Err(_) => Ok(()),
    }
}

/// A condition tells of its key, and a sum what is there.
fn keys(peer: &mut Peer, transaction: &Transaction) -> Result<(), Status> {
    let Transaction { conditions, reads, writes, .. } = transaction;
    let summed = writes.iter().filter(|(_, change)| matches!(change, Change::Add(_))).map(|(key, _)| key);
    let read = conditions.iter().map(|(key, _)| key).chain(reads).chain(summed);
    read.map(|key| Ask::Read(key))
        .chain(writes.iter().map(|(key, _)| Ask::Write(key)))
        .try_for_each(|what| asked(peer, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rights::{Patterns, Rights, Rule, Rules};
    use proptest::prelude::*;
    use protocol::chain::transaction::Condition;

    fn peer(read: &[&str], write: &[&str]) -> Peer {
        let prefixes = |all: &[&str]| Patterns::of_prefixes(all.iter().map(|prefix| prefix.as_bytes()));
        let who = vec![base::rights::Identity::Anybody];
        let rule = Rule { who, read: prefixes(read), write: prefixes(write), ..Rule::default() };
        Rights::new(Rules { rules: vec![rule], tokens: None }).of(None).peer(Vec::new())
    }

    #[test]
    fn each_key_of_a_transaction_is_asked_for() {
        let mut peer = peer(&["a:", "b:"], &["a:"]);
        let key = |text: &str| text.as_bytes().to_vec();
        let allowed = Transaction {
            conditions: vec![(key("b:1"), Condition::Exists)],
            reads: vec![key("a:1")],
            writes: vec![(key("a:2"), Change::Add(1)), (key("a:3"), Change::Delete)],
            ..Transaction::default()
        };
        assert_eq!(keys(&mut peer, &allowed), Ok(()));
        for (wrong, what) in [
            (
                Transaction { conditions: vec![(key("c"), Condition::Exists)], ..allowed.clone() },
                "read key c",
            ),
            (Transaction { reads: vec![key("a:1"), key("c")], ..allowed.clone() }, "read key c"),
            (
                Transaction { writes: vec![(key("b:1"), Change::Put(vec![]))], ..allowed.clone() },
                "write key b:1",
            ),
            (Transaction { writes: vec![(key("c"), Change::Add(1))], ..allowed.clone() }, "read key c"),
        ] {
            let error = keys(&mut peer, &wrong).expect_err(what).to_string();
            assert!(error.starts_with("PERMISSION_DENIED") && error.contains(what), "{error}");
        }
    }

    proptest! {
        #[test]
        fn nothing_beyond_a_prefix_passes(
            reads in prop::collection::vec("[ab]{1,3}", 0..4),
            conditions in prop::collection::vec("[ab]{1,3}", 0..4),
            writes in prop::collection::vec(("[ab]{1,3}", any::<bool>()), 0..4),
        ) {
            let bytes = |text: &String| text.as_bytes().to_vec();
            let change = |adds: bool| if adds { Change::Add(1) } else { Change::Delete };
            let transaction = Transaction {
                conditions: conditions.iter().map(|key| (bytes(key), Condition::Exists)).collect(),
                reads: reads.iter().map(bytes).collect(),
                writes: writes.iter().map(|(key, adds)| (bytes(key), change(*adds))).collect(),
                ..Transaction::default()
            };
            let expected = reads.iter().chain(&conditions).all(|key| key.starts_with('a'))
                && writes.iter().all(|(key, adds)| key.starts_with("ab") && (!adds || key.starts_with('a')));
            prop_assert_eq!(keys(&mut peer(&["a"], &["ab"]), &transaction).is_ok(), expected);
        }
    }
}
