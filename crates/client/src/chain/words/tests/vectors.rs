//! `docs/txn-vectors.jsonl`: messages of the chain's service with their fields and bytes, for clients in other languages.
//! `MILLRACE_BLESS=1 cargo test -p millrace-client words::tests::vectors` writes it anew.

use super::*;
use crate::chain::info::{Info, Member};
use protocol::chain::{Epoch, Incarnation};
use serde_json::{Value, json};

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encoded<M: Message>(fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>) -> Vec<u8> {
    let arena = Arena::default();
    let mut message = M::new(&arena).expect("memory");
    fill(&mut message).expect("memory");
    M::freeze(message).encode(&mut Encoder::default()).expect("a message").to_vec()
}

fn line(name: &str, message: &str, fields: &Value, bytes: &[u8]) -> String {
    format!("{}\n", json!({ "name": name, "message": message, "fields": fields, "bytes": hex(bytes) }))
}

fn request(name: &str, session: u128, sequence: u64, transaction: &Transaction) -> String {
    let id = RequestId { session: SessionId(session), sequence };
    let condition = |(key, condition): &(Vec<u8>, Condition)| match condition {
        Condition::Version(version) => json!([hex(key), "version", version]),
        Condition::Exists => json!([hex(key), "exists", true]),
        Condition::Value(value) => json!([hex(key), "value", hex(value)]),
        Condition::AtLeast(least) => json!([hex(key), "at_least", least]),
    };
    let change = |(key, change): &(Vec<u8>, Change)| match change {
        Change::Put(value) => json!([hex(key), "put", hex(value)]),
        Change::Delete => json!([hex(key), "delete", true]),
        Change::Add(amount) => json!([hex(key), "add", amount]),
    };
    let none = if session == 0 { String::new() } else { hex(id.session.to_bytes()) };
    let fields = json!({
        "session": none,
        "sequence": sequence,
        "conditions": transaction.conditions.iter().map(condition).collect::<Vec<_>>(),
        "reads": transaction.reads.iter().map(hex).collect::<Vec<_>>(),
        "writes": transaction.writes.iter().map(change).collect::<Vec<_>>(),
    });
    line(
        name,
        "ExecuteRequest",
        &fields,
        &encoded::<proto::ExecuteRequest>(|to| put_request(id, transaction, to)),
    )
}

fn show_outcome(outcome: &Outcome) -> Value {
    let abort = outcome.abort.map(|abort| match abort {
        Abort::Condition(at) => json!(["CONDITION", at]),
        Abort::NotANumber(at) => json!(["NOT_A_NUMBER", at]),
        Abort::Overflow(at) => json!(["OVERFLOW", at]),
        Abort::NoRoom => json!(["NO_ROOM", 0]),
        Abort::LongReply => json!(["LONG_REPLY", 0]),
        Abort::Claimed => json!(["CLAIMED", 0]),
    });
    let found =
        |found: &Option<Found>| found.as_ref().map(|found| json!([found.version.0, hex(&found.value)]));
    json!({
        "lsn": outcome.lsn.0,
        "abort": abort,
        "reads": outcome.reads.iter().map(found).collect::<Vec<_>>(),
        "sums": outcome.sums,
        "durability": match outcome.durability {
            Durability::Volatile => "VOLATILE",
            Durability::ProcessCrash => "PROCESS_CRASH",
            Durability::PowerLoss => "POWER_LOSS",
        },
        "copies": outcome.copies,
    })
}

fn show_refusal(refusal: &Refusal) -> Value {
    let (why, replica) = match refusal {
        Refusal::Elsewhere(replica) => ("ELSEWHERE", replica.map(|replica| replica.0)),
        Refusal::Busy => ("BUSY", None),
        Refusal::Malformed(_) => ("MALFORMED", None),
        Refusal::NoSession => ("NO_SESSION", None),
        Refusal::Forgotten => ("FORGOTTEN", None),
        Refusal::Denied(_) => ("DENIED", None),
    };
    json!({ "why": why, "replica": replica, "text": refusal_text(refusal) })
}

fn answer(name: &str, answer: &Answer) -> String {
    let fields = match answer {
        Ok(outcome) => json!({ "outcome": show_outcome(outcome) }),
        Err(refusal) => json!({ "refusal": show_refusal(refusal) }),
    };
    line(name, "ExecuteReply", &fields, &encoded::<proto::ExecuteReply>(|to| put_answer(answer.as_ref(), to)))
}

fn status(name: &str, answer: &Result<Status, Refusal>) -> String {
    let fields = match answer {
        Ok(Status::Done(outcome)) => json!({ "state": "DONE", "outcome": show_outcome(outcome) }),
        Ok(Status::Unknown) => json!({ "state": "UNKNOWN" }),
        Ok(Status::Forgotten) => json!({ "state": "FORGOTTEN" }),
        Err(refusal) => json!({ "refusal": show_refusal(refusal) }),
    };
    line(name, "StatusReply", &fields, &encoded::<proto::StatusReply>(|to| put_status(answer.as_ref(), to)))
}

fn opened(name: &str, answer: &Result<(SessionId, u64), Refusal>) -> String {
    let fields = match answer {
        Ok((session, window)) => json!({ "session": hex(session.to_bytes()), "window": window }),
        Err(refusal) => json!({ "refusal": show_refusal(refusal) }),
    };
    let bytes = encoded::<proto::OpenReply>(|to| put_opened(answer.as_ref().map(|opened| *opened), to));
    line(name, "OpenReply", &fields, &bytes)
}

fn info() -> String {
    let member = |replica, syncing, address: Option<&str>| Member {
        replica: ReplicaId(replica),
        incarnation: Incarnation(1_763_800_000),
        syncing,
        address: address.map(|address| address.parse().expect("an address")),
    };
    let info = Info {
        chain: 7,
        replica: ReplicaId(2),
        incarnation: Incarnation(1_763_800_000),
        epoch: Epoch(5),
        members: vec![
            member(2, false, Some("tcp:10.0.0.2:7401")),
            member(3, false, None),
            member(1, true, None),
        ],
        is_head: true,
        is_tail: false,
        serves_reads: true,
        last: Lsn(300),
        durable: Lsn(299),
        committed: Lsn(298),
        applied: Lsn(297),
        durability: Durability::PowerLoss,
        media: "file".to_owned(),
        waiting: 1,
        under_way: 2,
        digest: Some(u64::MAX),
        hottest: vec![(b"k".to_vec(), 3)],
        figures: vec![("links_up".to_owned(), 2.0)],
        claim: None,
    };
    let show = |member: &Member| {
        let address = member.address.as_ref().map_or(String::new(), ToString::to_string);
        json!([member.replica.0, member.syncing, address])
    };
    let fields = json!({
        "chain": info.chain, "replica": info.replica.0, "epoch": info.epoch.0,
        "members": info.members.iter().map(show).collect::<Vec<_>>(),
    });
    line("a replica of its chain", "InfoReply", &fields, &encoded::<proto::InfoReply>(|to| info.put(to)))
}

#[test]
fn the_vectors_are_the_documents() {
    let found = Found { version: Lsn(300), value: b"ten\xff".to_vec() };
    let outcome = Outcome {
        lsn: Lsn(301),
        abort: None,
        reads: vec![Some(found), None],
        sums: vec![-1, i64::MAX, i64::MIN],
        durability: Durability::PowerLoss,
        copies: 3,
    };
    let bare = Outcome { lsn: Lsn(9), reads: vec![], sums: vec![], copies: 1, ..outcome.clone() };
    let aborted =
        |abort| Ok(Outcome { abort: Some(abort), durability: Durability::Volatile, ..bare.clone() });
    let everything = Transaction::new()
        .if_version("a", 300)
        .if_missing("b")
        .if_exists("c")
        .if_value("d", b"\x00\xff")
        .if_value("e", "")
        .if_at_least("f", -5)
        .get("a")
        .get("z")
        .put("g", "")
        .put("h", vec![b'v'; 200])
        .delete("i")
        .add("j", i64::MIN)
        .add("k", 0);
    let session = u128::from_be_bytes(*b"0123456789abcdef");
    let text = [
        request("a read", 0, 0, &Transaction::new().get("colour")),
        request("every operation", session, 1, &everything),
        request("a high number", session, u64::MAX, &Transaction::new().put("k", "v")),
        answer("done", &Ok(outcome.clone())),
        answer("nothing to tell", &Ok(bare.clone())),
        answer("a condition does not hold", &aborted(Abort::Condition(300))),
        answer("no number", &aborted(Abort::NotANumber(0))),
        answer("an overflow", &aborted(Abort::Overflow(1))),
        answer("no room", &aborted(Abort::NoRoom)),
        answer("a long reply", &aborted(Abort::LongReply)),
        answer("another claim counts", &aborted(Abort::Claimed)),
        answer("another replica", &Err(Refusal::Elsewhere(Some(ReplicaId(2))))),
        answer("who knows where", &Err(Refusal::Elsewhere(None))),
        answer("busy", &Err(Refusal::Busy)),
        answer("no session", &Err(Refusal::NoSession)),
        answer("forgotten", &Err(Refusal::Forgotten)),
        answer("denied", &Err(Refusal::Denied("no right to write key k".to_owned()))),
        answer("malformed", &Err(Refusal::Malformed(Malformed::LongValue(b"k".to_vec(), 70_000)))),
        status("it was done", &Ok(Status::Done(outcome))),
        status("nothing came of it yet", &Ok(Status::Unknown)),
        status("nobody can tell", &Ok(Status::Forgotten)),
        status("ask the head", &Err(Refusal::Elsewhere(Some(ReplicaId(1))))),
        opened("a session", &Ok((SessionId(session), 64))),
        opened("no session now", &Err(Refusal::Busy)),
        info(),
    ]
    .concat();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/txn-vectors.jsonl");
    if std::env::var_os("MILLRACE_BLESS").is_some() {
        std::fs::write(path, &text).expect("the documents are there");
    }
    let documented = std::fs::read_to_string(path).expect("the documents are there");
    assert!(text == documented, "MILLRACE_BLESS=1 writes {path} anew");
}
