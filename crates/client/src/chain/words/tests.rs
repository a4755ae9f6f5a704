//! What was put and encoded is taken as it was; what says nothing is refused.

mod vectors;

use super::*;
use codec::decode::Decoder;
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::typed::{Message, MessageView};
use proptest::prelude::*;

/// What arrives of a message: filled, encoded, decoded.
fn sent<M: Message, T>(
    fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    take: impl FnOnce(M::View<'_>) -> T,
) -> T {
    let arena = Arena::default();
    let mut message = M::new(&arena).expect("memory");
    fill(&mut message).expect("memory");
    let mut encoder = Encoder::default();
    let bytes = M::freeze(message).encode(&mut encoder).expect("a message").to_vec();
    let arena = Arena::default();
    take(M::decode(&mut Decoder::default(), &bytes, &arena).expect("what was encoded"))
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..20)
}

fn transaction() -> impl Strategy<Value = Transaction> {
    let condition = prop_oneof![
        any::<u64>().prop_map(Condition::Version),
        Just(Condition::Version(0)),
        Just(Condition::Exists),
        bytes().prop_map(Condition::Value),
        any::<i64>().prop_map(Condition::AtLeast),
    ];
    let change = prop_oneof![
        bytes().prop_map(Change::Put),
        Just(Change::Delete),
        any::<i64>().prop_map(Change::Add),
        Just(Change::Add(0)),
    ];
    let conditions = proptest::collection::vec((bytes(), condition), 0..5);
    let writes = proptest::collection::vec((bytes(), change), 0..5);
    (conditions, proptest::collection::vec(bytes(), 0..5), writes, any::<u64>()).prop_map(
        |(conditions, reads, writes, claim)| Transaction {
            conditions,
            reads,
            writes,
            claim,
            ..Transaction::default()
        },
    )
}

fn durability() -> impl Strategy<Value = Durability> {
    prop_oneof![Just(Durability::Volatile), Just(Durability::ProcessCrash), Just(Durability::PowerLoss)]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let abort = prop_oneof![
        any::<u32>().prop_map(Abort::Condition),
        any::<u32>().prop_map(Abort::NotANumber),
        any::<u32>().prop_map(Abort::Overflow),
        Just(Abort::NoRoom),
        Just(Abort::LongReply),
        Just(Abort::Claimed),
    ];
    let found = (1u64.., bytes()).prop_map(|(version, value)| Found { version: Lsn(version), value });
    let reads = proptest::collection::vec(proptest::option::of(found), 0..5);
    let sums = proptest::collection::vec(any::<i64>(), 0..5);
    (any::<u64>(), proptest::option::of(abort), reads, sums, durability(), any::<u8>()).prop_map(
        |(lsn, abort, reads, sums, durability, copies)| Outcome {
            lsn: Lsn(lsn),
            abort,
            reads,
            sums,
            durability,
            copies,
        },
    )
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let malformed = prop_oneof![
        Just(Malformed::Empty),
        any::<usize>().prop_map(Malformed::TooManyOps),
        any::<usize>().prop_map(Malformed::TooLong),
        bytes().prop_map(Malformed::BadKey),
        (bytes(), any::<usize>()).prop_map(|(key, count)| Malformed::LongValue(key, count)),
        bytes().prop_map(Malformed::WrittenTwice),
        bytes().prop_map(Malformed::ReadTwice),
        bytes().prop_map(Malformed::OtherChain),
    ];
    prop_oneof![
        proptest::option::of(any::<u16>().prop_map(ReplicaId)).prop_map(Refusal::Elsewhere),
        Just(Refusal::Busy),
        malformed.prop_map(Refusal::Malformed),
        Just(Refusal::NoSession),
        Just(Refusal::Forgotten),
        "[ -~]{0,40}".prop_map(Refusal::Denied),
    ]
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![outcome().prop_map(Status::Done), Just(Status::Unknown), Just(Status::Forgotten)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_request_arrives_as_it_was(session: u128, sequence: u64, transaction in transaction()) {
        let id = RequestId { session: SessionId(session), sequence };
        let taken = sent::<proto::ExecuteRequest, _>(|to| put_request(id, &transaction, to), take_request);
        prop_assert_eq!(taken, Ok((id, transaction)));
    }

    #[test]
    fn an_answer_arrives_as_it_was(answer in prop_oneof![outcome().prop_map(Ok), refusal().prop_map(Err)]) {
        let taken = sent::<proto::ExecuteReply, _>(|to| put_answer(answer.as_ref(), to), take_answer);
        prop_assert_eq!(taken, Ok(answer));
    }

    #[test]
    fn a_status_arrives_as_it_was(answer in prop_oneof![status().prop_map(Ok), refusal().prop_map(Err)]) {
        let taken = sent::<proto::StatusReply, _>(|to| put_status(answer.as_ref(), to), take_status);
        prop_assert_eq!(taken, Ok(answer));
    }

    #[test]
    fn a_session_arrives_as_it_was(session in 1u128.., window in 1u64.., refusal in proptest::option::of(refusal())) {
        let answer = refusal.map_or(Ok((SessionId(session), window)), Err);
        let taken = sent::<proto::OpenReply, _>(
            |to| put_opened(answer.as_ref().map(|opened| *opened), to),
            take_opened,
        );
        prop_assert_eq!(taken, Ok(answer));
    }
}

#[test]
fn what_says_nothing_is_refused_with_its_place() {
    let said = |fill: fn(&mut proto::TransactionMut<'_, '_>) -> Result<(), OutOfMemory>| {
        let taken = sent::<proto::Transaction, _>(fill, take_transaction);
        let status = taken.expect_err("it says nothing");
        assert_eq!(status.code(), Code::InvalidArgument);
        status.message().to_owned()
    };
    assert!(said(|to| to.push_conditions()?.set_key(b"k")).contains("condition 0"));
    let not_absent = said(|to| {
        to.push_conditions()?.set_version(3);
        to.push_conditions()?.set_exists(false);
        Ok(())
    });
    assert!(not_absent.contains("condition 1"));
    assert!(said(|to| to.push_writes()?.set_key(b"k")).contains("write 0"));

    let empty = sent::<proto::ExecuteRequest, _>(|_| Ok(()), take_request);
    assert_eq!(empty.expect_err("no transaction").code(), Code::InvalidArgument);
    assert!(sent::<proto::ExecuteReply, _>(|_| Ok(()), take_answer).is_err());
    assert!(sent::<proto::OpenReply, _>(|_| Ok(()), take_opened).is_err());
    assert!(sent::<proto::StatusReply, _>(|_| Ok(()), take_status).is_err());
}

#[test]
fn words_of_a_newer_version_are_refused() {
    let outcome = |fill: fn(&mut proto::OutcomeMut<'_, '_>) -> Result<(), OutOfMemory>| {
        sent::<proto::Outcome, _>(fill, take_outcome)
    };
    let worse = outcome(|to| {
        to.set_durability(proto::Durability(9));
        Ok(())
    });
    assert!(worse.is_err());
    let copies = outcome(|to| {
        to.set_copies(256);
        Ok(())
    });
    assert!(copies.is_err());
    let abort = outcome(|to| {
        to.abort_mut()?.set_why(proto::abort::Why(77));
        Ok(())
    });
    assert!(abort.is_err());
    let elsewhere = sent::<proto::Refusal, _>(
        |to| {
            to.set_why(proto::refusal::Why::WHY_ELSEWHERE);
            to.set_replica(1 << 16);
            Ok(())
        },
        take_refusal,
    );
    assert!(elsewhere.is_err());
}

/// The largest transactions there can be are decoded within [`REQUEST`]; eight mebibytes of empty operations, which took the head's thread for more
/// than a second, are not, and neither is a mebibyte of them.
#[test]
fn a_request_takes_what_a_transaction_may_and_no_more() {
    let decode = |bytes: &[u8]| {
        let arena = Arena::default();
        proto::ExecuteRequest::decode(&mut Decoder::new(REQUEST), bytes, &arena).map(drop)
    };
    let encoded = |transaction: &Transaction| {
        let arena = Arena::default();
        let mut message = proto::ExecuteRequest::new(&arena).expect("memory");
        let session = SessionId(u128::MAX);
        put_request(RequestId { session, sequence: u64::MAX }, transaction, &mut message).expect("memory");
        let mut encoder = Encoder::default();
        proto::ExecuteRequest::freeze(message).encode(&mut encoder).expect("a message").to_vec()
    };
    let key = |n: usize| format!("{n:0250}").into_bytes();
    let many = Transaction {
        writes: (0..MAX_OPS).map(|n| (key(n), Change::Put(vec![1; MAX_BYTES / MAX_OPS - 250]))).collect(),
        ..Transaction::default()
    };
    let conditions = Transaction {
        conditions: (0..MAX_OPS)
            .map(|n| (key(n), Condition::Value(vec![1; MAX_BYTES / MAX_OPS - 250])))
            .collect(),
        ..Transaction::default()
    };
    let numbers = Transaction {
        writes: (0..MAX_OPS).map(|n| (n.to_string().into_bytes(), Change::Add(i64::MIN))).collect(),
        ..Transaction::default()
    };
    let long = Transaction {
        writes: (0..16).map(|n| (vec![n], Change::Put(vec![1; (64 << 10) - 1]))).collect(),
        ..Transaction::default()
    };
    for largest in [many, conditions, numbers, long] {
        largest.check().expect("within its bounds");
        assert_eq!(decode(&encoded(&largest)), Ok(()));
    }
    for empties in [4 << 20, 1 << 20, 100_000] {
        // A transaction of nothing but writes that say nothing.
        let writes = [0x1a, 0x00].repeat(empties / 2);
        let mut bytes = vec![0x1a];
        let mut length = writes.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend(writes);
        assert!(decode(&bytes).is_err(), "{empties} bytes of empty writes");
    }
}
