//! Writing and reading are inverse, and lengths are as they are said to be.

use super::*;
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300u64, Just(MAX_NUMBER - 1), 0..MAX_NUMBER]
}

fn lsn() -> impl Strategy<Value = Lsn> {
    number().prop_map(Lsn)
}

fn epoch() -> impl Strategy<Value = Epoch> {
    number().prop_map(Epoch)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..20)
}

fn id() -> impl Strategy<Value = RequestId> {
    (any::<u128>(), number())
        .prop_map(|(session, sequence)| RequestId { session: SessionId(session), sequence })
}

fn durability() -> impl Strategy<Value = Durability> {
    prop::sample::select(vec![Durability::Volatile, Durability::ProcessCrash, Durability::PowerLoss])
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        any::<u64>().prop_map(Condition::Version),
        Just(Condition::Exists),
        bytes().prop_map(Condition::Value),
        any::<i64>().prop_map(Condition::AtLeast),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![bytes().prop_map(Change::Put), Just(Change::Delete), any::<i64>().prop_map(Change::Add)]
}

fn traces() -> impl Strategy<Value = TraceContext> {
    any::<Option<[u8; 24]>>().prop_map(TraceContext)
}

fn transactions() -> impl Strategy<Value = Transaction> {
    let conditions = prop::collection::vec((bytes(), condition()), 0..5);
    let writes = prop::collection::vec((bytes(), change()), 0..5);
    (conditions, prop::collection::vec(bytes(), 0..5), writes, any::<u64>(), traces()).prop_map(
        |(conditions, reads, writes, claim, trace)| Transaction { conditions, reads, writes, claim, trace },
    )
}

fn abort() -> impl Strategy<Value = Abort> {
    prop_oneof![
        any::<u32>().prop_map(Abort::Condition),
        any::<u32>().prop_map(Abort::NotANumber),
        any::<u32>().prop_map(Abort::Overflow),
        Just(Abort::NoRoom),
        Just(Abort::LongReply),
        Just(Abort::Claimed),
    ]
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let found = (lsn(), bytes()).prop_map(|(version, value)| Found { version, value });
    let reads = prop::collection::vec(prop::option::of(found), 0..5);
    let sums = prop::collection::vec(any::<i64>(), 0..5);
    (lsn(), prop::option::of(abort()), reads, sums, durability(), any::<u8>()).prop_map(
        |(lsn, abort, reads, sums, durability, copies)| Outcome {
            lsn,
            abort,
            reads,
            sums,
            durability,
            copies,
        },
    )
}

fn entries() -> impl Strategy<Value = Entry> {
    let tuple = (any::<u64>(), bytes()).prop_map(|(offset, data)| Tuple { offset, data });
    (lsn(), epoch(), lsn(), id(), prop::collection::vec(tuple, 0..5)).prop_map(
        |(lsn, epoch, committed, id, tuples)| Entry {
            lsn,
            epoch,
            committed,
            session: id.session,
            sequence: id.sequence,
            tuples,
        },
    )
}

fn configurations() -> impl Strategy<Value = Configuration> {
    let part = prop::sample::select(vec![Part::Serving, Part::Syncing]);
    let member = || {
        let part = part.clone();
        (any::<u16>(), any::<u64>(), part).prop_map(|(replica, incarnation, part)| Member {
            replica: ReplicaId(replica),
            incarnation: Incarnation(incarnation),
            part,
        })
    };
    let members = (prop::collection::vec(member(), 0..5), prop::collection::vec(member(), 0..2));
    let orders = (prop::collection::vec(addresses(), 0..5), prop::option::of(orders()));
    (epoch(), epoch(), lsn(), members, (orders, 1_u16..100, any::<u16>())).prop_map(
        |(epoch, reset, kept, (members, left), ((roster, ordered), of, at))| Configuration {
            epoch,
            reset,
            kept,
            members,
            roster,
            left,
            ordered,
            slots: Slots::share(usize::from(at % of), usize::from(of)),
        },
    )
}

fn addresses() -> impl Strategy<Value = ReplicaAddress> {
    (any::<u16>(), "\\PC{0,40}", "\\PC{0,40}").prop_map(|(replica, peers, clients)| ReplicaAddress {
        replica: ReplicaId(replica),
        peers,
        clients,
    })
}

fn orders() -> impl Strategy<Value = Order> {
    let action = prop_oneof![
        addresses().prop_map(Action::Add),
        (any::<u16>(), any::<u16>()).prop_map(|(replica, least)| Action::Remove(ReplicaId(replica), least)),
    ];
    (any::<u64>(), action).prop_map(|(number, action)| Order { number, action })
}

/// Kinds whose fields are worth drawing; the others are among the examples.
fn messages() -> impl Strategy<Value = Message> {
    let why = prop_oneof![
        prop::option::of(any::<u16>().prop_map(ReplicaId)).prop_map(Refusal::Elsewhere),
        bytes().prop_map(|key| Refusal::Malformed(Malformed::BadKey(key))),
    ];
    prop_oneof![
        (id(), transactions()).prop_map(|(id, transaction)| Message::Request { id, transaction }),
        (id(), outcomes()).prop_map(|(id, outcome)| Message::Reply { id, outcome }),
        (id(), why).prop_map(|(id, why)| Message::Refused { id, why }),
        (id(), outcomes()).prop_map(|(id, outcome)| Message::Told { id, status: Status::Done(outcome) }),
        (epoch(), prop::collection::vec(entries(), 0..4))
            .prop_map(|(epoch, entries)| Message::Append { epoch, entries }),
        (epoch(), lsn(), epoch(), prop::option::of(any::<u64>()))
            .prop_map(|(epoch, from, from_epoch, image)| Message::Resume { epoch, from, from_epoch, image }),
        (epoch(), any::<u64>(), any::<u64>(), lsn(), bytes()).prop_map(
            |(epoch, offset, extent, after, bytes)| Message::Chunk { epoch, offset, extent, after, bytes }
        ),
        (configurations(), any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
            |(configuration, beat, incarnation, settled)| Message::Lead {
                configuration,
                beat,
                incarnation: Incarnation(incarnation),
                settled,
            }
        ),
        (any::<u64>(), prop::option::of(orders())).prop_map(|(token, order)| Message::Order { token, order }),
        (any::<u64>(), prop::option::of(configurations())).prop_map(|(token, configuration)| {
            Message::Ordered { token, reply: OrderReply::Known, configuration }
        }),
        prop::sample::select(examples()).prop_map(|(_, message)| message),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(chain in any::<u32>(), message in messages(), before in bytes()) {
        let mut out = before.clone();
        emit(chain, &message, &mut out);
        prop_assert!(out.starts_with(&before), "it is appended");
        prop_assert_eq!(parse(&out[before.len()..]), Ok((chain, message)));
    }

    #[test]
    fn what_is_kept_is_found_again(entry in entries(), outcome in outcomes(), configuration in configurations()) {
        let mut out = Vec::new();
        entry.emit_payload(&mut out);
        prop_assert_eq!(out.len(), entry.payload_bytes());
        prop_assert_eq!(Entry::parse_payload(entry.lsn, entry.epoch, &out), Some(entry.clone()));
        let alone = Message::EntryCopy { epoch: entry.epoch, entry: entry.clone() };
        prop_assert_eq!(bytes_of(&alone).len(), HEADER + 8 + entry.bytes());
        out.clear();
        outcome.emit(&mut out);
        prop_assert_eq!(out.len(), outcome.bytes());
        prop_assert_eq!(Outcome::parse(&out), Some(outcome));
        prop_assert_eq!(Configuration::from_bytes(&configuration.to_bytes(CHAIN)), Ok((CHAIN, configuration)));
    }

    /// Whatever is read is written as it came: each value has one form.
    #[test]
    fn what_is_read_is_written(message in messages(), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = bytes_of(&message);
        let at = 7 + cut.index(bytes.len() - 7);
        bytes[at] = byte;
        dress(&mut bytes);
        if let Ok((chain, other)) = parse(&bytes) {
            let mut again = Vec::new();
            emit(chain, &other, &mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}

#[test]
fn every_kind_is_among_the_examples() {
    let kinds: std::collections::BTreeSet<u8> =
        examples().iter().map(|(_, message)| kind_of(message)).collect();
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        KINDS.iter().map(|(code, ..)| *code).collect::<Vec<_>>()
    );
    for (name, message) in examples() {
        assert_eq!(parse(&bytes_of(&message)), Ok((CHAIN, message)), "{name}");
    }
}

#[test]
fn the_longest_transaction_and_reply_fit() {
    use crate::chain::transaction::{MAX_BYTES, MAX_KEY, MAX_OPS, MAX_REPLY, MAX_VALUE};
    let values = MAX_BYTES / (MAX_VALUE + 2);
    let mut writes: Vec<_> =
        (0..values).map(|i| (vec![b'k', i as u8], Change::Put(vec![0; MAX_VALUE]))).collect();
    writes.extend((0..MAX_OPS - values).map(|i| (i.to_string().into_bytes(), Change::Put(vec![0; 3]))));
    let longest = Transaction { writes, ..Transaction::default() };
    assert_eq!(longest.check(), Ok(()));
    let request = Message::Request { id: ID, transaction: longest };
    assert!(bytes_of(&request).len() < MAX_MESSAGE);
    let found = Some(Found { version: Lsn(1), value: vec![0; MAX_VALUE] });
    let reads = vec![found; MAX_REPLY / (MAX_VALUE + 13)];
    let outcome = Outcome { reads, ..outcome(None) };
    assert!(outcome.bytes() <= MAX_REPLY && MAX_REPLY + MAX_KEY < MAX_MESSAGE);
    assert!(bytes_of(&Message::Reply { id: ID, outcome }).len() < MAX_MESSAGE);
}
