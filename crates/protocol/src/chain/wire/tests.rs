//! Messages and bytes are the same thing, and nothing else is a message; `docs/chain.md` says what the code does.

mod damage;
mod documents;
mod inverse;
mod vectors;

use super::*;
use crate::chain::message::{Refusal, RequestId, Status};
use crate::chain::transaction::{Abort, Change, Condition, Found, Malformed};
use crate::chain::{
    Action, Durability, Entry, Epoch, Gap, Incarnation, Lsn, Member, Order, OrderRefused, OrderReply,
    Outcome, Part, ReplicaAddress, ReplicaId, SessionId, Slots, TraceContext, Transaction, Tuple,
};

const CHAIN: u32 = 0x0102_0304;
const TRACE: TraceContext = TraceContext(Some([7; 24]));
const ID: RequestId = RequestId { session: SessionId(77), sequence: 12 };

fn bytes_of(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    emit(CHAIN, message, &mut bytes);
    bytes
}

/// Gives bytes the sum, magic, version and length of a message, where they are long enough to be one.
fn dress(bytes: &mut [u8]) {
    if bytes.len() < HEADER {
        return;
    }
    bytes[4..6].copy_from_slice(&MAGIC);
    bytes[6] = VERSION;
    let length = (bytes.len() - HEADER) as u32;
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

fn transaction() -> Transaction {
    Transaction {
        conditions: vec![
            (b"a".to_vec(), Condition::Version(7)),
            (b"b".to_vec(), Condition::Exists),
            (b"c".to_vec(), Condition::Value(b"three".to_vec())),
            (b"d".to_vec(), Condition::AtLeast(-10)),
        ],
        reads: vec![b"a".to_vec(), b"e".to_vec()],
        writes: vec![
            (b"a".to_vec(), Change::Put(b"one".to_vec())),
            (b"b".to_vec(), Change::Delete),
            (b"f".to_vec(), Change::Add(-1)),
        ],
        claim: 5,
        trace: TraceContext(None),
    }
}

fn outcome(abort: Option<Abort>) -> Outcome {
    Outcome {
        lsn: Lsn(100),
        abort,
        reads: vec![Some(Found { version: Lsn(7), value: b"nought".to_vec() }), None],
        sums: if abort.is_none() { vec![41] } else { vec![] },
        durability: Durability::PowerLoss,
        copies: 3,
    }
}

fn entry() -> Entry {
    Entry {
        lsn: Lsn(100),
        epoch: Epoch(4),
        committed: Lsn(98),
        session: SessionId(77),
        sequence: 12,
        tuples: vec![
            Tuple { offset: 65_536, data: b"one".to_vec() },
            Tuple { offset: 1 << 33, data: vec![] },
        ],
    }
}

fn configuration() -> Configuration {
    let member = |replica, part| Member { replica: ReplicaId(replica), incarnation: Incarnation(9), part };
    let members = vec![member(2, Part::Serving), member(1, Part::Syncing)];
    Configuration { epoch: Epoch(4), reset: Epoch(3), kept: Lsn(90), members, ..Configuration::default() }
}

fn address(replica: u16) -> ReplicaAddress {
    let at = |port| format!("tcp:10.0.0.{replica}:{port}");
    ReplicaAddress { replica: ReplicaId(replica), peers: at(7411), clients: at(7401) }
}

/// One that an order made: replica 3 is gone.
fn ordered() -> Configuration {
    let left = Member { replica: ReplicaId(3), incarnation: Incarnation(9), part: Part::Serving };
    let unknown = ReplicaAddress { peers: String::new(), clients: String::new(), ..address(2) };
    let order = Order { number: 6, action: Action::Remove(ReplicaId(3), 2) };
    Configuration {
        roster: vec![address(1), unknown],
        left: vec![left],
        ordered: Some(order),
        slots: Slots::new(vec![(0, 99), (200, 200)]).expect("slots"),
        ..configuration()
    }
}

/// Between operators and controllers.
fn with_operators() -> Vec<(&'static str, Message)> {
    use OrderRefused::*;
    let order = |number, action| Message::Order { token: 9, order: Some(Order { number, action }) };
    let refused =
        |why| Message::Ordered { token: 9, reply: OrderReply::Refused(why), configuration: Some(ordered()) };
    let id = ReplicaId(3);
    vec![
        (
            "lead, by an order",
            Message::Lead {
                configuration: ordered(),
                beat: 1000,
                incarnation: Incarnation(9),
                settled: false,
            },
        ),
        ("how is it?", Message::Order { token: 9, order: None }),
        ("so", Message::Ordered { token: 9, reply: OrderReply::Known, configuration: Some(configuration()) }),
        ("add a replica", order(5, Action::Add(address(3)))),
        ("remove one", order(6, Action::Remove(id, 2))),
        (
            "removed",
            Message::Ordered { token: 9, reply: OrderReply::Done(Epoch(4)), configuration: Some(ordered()) },
        ),
        (
            "ask another controller",
            Message::Ordered { token: 9, reply: OrderReply::Refused(NotLeading), configuration: None },
        ),
        ("not begun", refused(NotBegun)),
        ("not now", refused(NotNow)),
        ("late", refused(Late(6))),
        ("no address", refused(BadAddress)),
        ("elsewhere", refused(Elsewhere(id))),
        ("occupied", refused(Occupied(id))),
        ("full", refused(Full(16))),
        ("too few", refused(TooFew(1, 2))),
        ("catching up", refused(CatchingUp(id))),
        ("nobody serves", refused(NobodyServes)),
    ]
}

/// One of each kind of message at least, with something in every field.
fn examples() -> Vec<(&'static str, Message)> {
    [with_clients(), among_members(), with_operators()].concat()
}

/// Between clients and replicas.
fn with_clients() -> Vec<(&'static str, Message)> {
    let id = ID;
    let refused = |why| Message::Refused { id, why };
    let told = |status| Message::Told { id, status };
    vec![
        ("open a session", Message::Open { token: u64::MAX }),
        ("opened", Message::Opened { token: u64::MAX, session: SessionId(77), window: 64 }),
        ("close", Message::Close { session: SessionId(77) }),
        ("a transaction", Message::Request { id, transaction: transaction() }),
        (
            "one that is traced",
            Message::Request { id, transaction: Transaction { trace: TRACE, ..transaction() } },
        ),
        ("done", Message::Reply { id, outcome: outcome(None) }),
        ("a condition does not hold", Message::Reply { id, outcome: outcome(Some(Abort::Condition(3))) }),
        ("adds to no number", Message::Reply { id, outcome: outcome(Some(Abort::NotANumber(2))) }),
        ("adds too much", Message::Reply { id, outcome: outcome(Some(Abort::Overflow(2))) }),
        ("no room", Message::Reply { id, outcome: outcome(Some(Abort::NoRoom)) }),
        ("another claim counts", Message::Reply { id, outcome: outcome(Some(Abort::Claimed)) }),
        ("reads too much", Message::Reply { id, outcome: outcome(Some(Abort::LongReply)) }),
        ("ask that one", refused(Refusal::Elsewhere(Some(ReplicaId(2))))),
        ("ask another", refused(Refusal::Elsewhere(None))),
        ("busy", refused(Refusal::Busy)),
        ("no session", refused(Refusal::NoSession)),
        ("forgotten", refused(Refusal::Forgotten)),
        ("no right", refused(Refusal::Denied("no right to write key k".to_owned()))),
        ("empty", refused(Refusal::Malformed(Malformed::Empty))),
        ("too many operations", refused(Refusal::Malformed(Malformed::TooManyOps(1025)))),
        ("too long", refused(Refusal::Malformed(Malformed::TooLong(1 << 21)))),
        ("no key", refused(Refusal::Malformed(Malformed::BadKey(vec![])))),
        ("long value", refused(Refusal::Malformed(Malformed::LongValue(b"k".to_vec(), 65_537)))),
        ("written twice", refused(Refusal::Malformed(Malformed::WrittenTwice(b"k".to_vec())))),
        ("read twice", refused(Refusal::Malformed(Malformed::ReadTwice(b"k".to_vec())))),
        ("another chain's", refused(Refusal::Malformed(Malformed::OtherChain(b"k".to_vec())))),
        ("what became of it?", Message::Ask { id }),
        ("this", told(Status::Done(outcome(None)))),
        ("nothing yet", told(Status::Unknown)),
        ("cannot be told", told(Status::Forgotten)),
    ]
}

/// Between replicas, and of them and controllers.
fn among_members() -> Vec<(&'static str, Message)> {
    let (epoch, last_epoch) = (Epoch(4), Epoch(3));
    vec![
        (
            "two entries",
            Message::Append { epoch, entries: vec![entry(), Entry { tuples: vec![], ..entry() }] },
        ),
        (
            "committed",
            Message::Ack {
                epoch,
                received: Lsn(100),
                committed: Lsn(99),
                durability: Durability::ProcessCrash,
                copies: 2,
            },
        ),
        ("connect", Message::Connect { epoch, last: Lsn(100), last_epoch, floor: Lsn(98) }),
        ("entries follow", Message::Resume { epoch, from: Lsn(99), from_epoch: last_epoch, image: None }),
        (
            "the image follows",
            Message::Resume { epoch, from: Lsn(99), from_epoch: last_epoch, image: Some(131_072) },
        ),
        (
            "a chunk",
            Message::Chunk {
                epoch,
                offset: 65_536,
                extent: 131_072,
                after: Lsn(100),
                bytes: b"some".to_vec(),
            },
        ),
        ("a chunk again", Message::ChunkAck { epoch, below: 65_536, again: true }),
        ("up to where?", Message::AskCommitted { epoch, token: 5 }),
        ("up to here", Message::Committed { epoch, token: 5, lsn: Lsn(99) }),
        ("a damaged entry", Message::AskEntry { epoch, lsn: Lsn(100) }),
        ("its copy", Message::EntryCopy { epoch, entry: entry() }),
        ("not here", Message::NoEntry { epoch, lsn: Lsn(100), last: Lsn(99) }),
        ("an entry is traced", Message::Trace { epoch, lsn: Lsn(100), context: TRACE }),
        (
            "alive",
            Message::Alive {
                epoch,
                incarnation: Incarnation(u64::MAX),
                beat: 1000,
                last: Lsn(100),
                last_epoch,
                committed: Lsn(95),
                durability: Durability::Volatile,
                born: Incarnation(7),
                whole: false,
                joined: Some(ReplicaId(1)),
                missing: Some(Gap { first: Lsn(98), last: Lsn(99) }),
                stalled_ms: 700,
            },
        ),
        (
            "lead",
            Message::Lead {
                configuration: configuration(),
                beat: 1000,
                incarnation: Incarnation(9),
                settled: true,
            },
        ),
    ]
}
