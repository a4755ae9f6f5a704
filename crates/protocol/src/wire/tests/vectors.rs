//! `docs/wire-vectors.jsonl`: packets with their fields, and bytes that are no packets, for implementations in other languages.
//! `MILLRACE_BLESS=1 cargo test -p millrace-protocol --lib vectors` writes it anew.

use super::fields::{Field, Form, at};
use super::*;
use crate::coherence::NodeId;
use crate::coherence::moved::{Moved, Place};
use std::fmt::Write;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A field as JSON: a number, a row of them, or bytes as they stand.
fn shown(field: &Field, head: &[u8]) -> String {
    let bytes = &head[field.offset..][..field.length];
    match field.form {
        Form::Number | Form::Pattern => little(bytes).to_string(),
        Form::Network => bytes.iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte)).to_string(),
        Form::Bytes | Form::Address => format!("\"{}\"", hex(bytes)),
        Form::Row { width } => {
            let row: Vec<_> = bytes.chunks(width).map(|one| little(one).to_string()).collect();
            format!("[{}]", row.join(", "))
        }
    }
}

fn packet(name: &str, message: &Message) -> String {
    let bytes = bytes_of(message);
    assert_eq!(Packet::parse(&bytes).map(|packet| packet.to_message()), Ok(message.clone()), "{name}");
    let proof = message.proof.map_or(String::new(), |proof| hex(&proof.to_bytes()));
    let fields: Vec<_> =
        FIELDS.iter().map(|field| format!("\"{}\": {}", field.name, shown(field, &bytes))).collect();
    format!(
        "{{\"name\": \"{name}\", \"fields\": {{{}}}, \"key\": \"{}\", \"value\": \"{}\", \"proof\": \"{proof}\", \"padding\": {}, \"packet\": \"{}\"}}\n",
        fields.join(", "),
        hex(&message.key),
        hex(&message.value),
        message.padding,
        hex(&bytes)
    )
}

/// Packets at their bounds: lengths about words, and every field as large as it can be.
fn extremes() -> Vec<(String, Message)> {
    let mut all = Vec::new();
    for length in [1, 7, 8, 9, 15, 16, 250] {
        let key: Vec<u8> = (0..length).map(|i| 255 - i as u8).collect();
        all.push((format!("GET, key of {length}"), Message::request(Verb::Get, &key)));
    }
    for length in [1, 3, 4, 5, 8, 1000] {
        let mut message = Message::request(Verb::Set, b"k").reply(Status::Ok);
        message.value = (0..length).map(|i| i as u8).collect();
        message.padding = length % 5;
        all.push((format!("SET reply, value of {length}, padding of {}", message.padding), message));
    }
    for (name, verb, status) in [
        ("GET reply, of a value too long for a packet", Verb::Get, Status::TooLarge),
        ("APPEND reply, of what would be too long", Verb::Append, Status::NoRoom),
    ] {
        let mut message = Message::request(verb, b"long").reply(status);
        if status == Status::TooLarge {
            (message.header.version, message.header.operand) = (Version(7 << 32), 1 << 20);
        }
        all.push((name.into(), message));
    }
    let mut moved = said(Control::Table);
    let at = |address: &str| address.parse().expect("an address");
    let place = |address, epoch| Place::new(at(address), Epoch(epoch)).expect("somebody's");
    let places = [(HomeId(1), place("10.0.0.9:7104", 0x10_0002)), (HomeId(2), place("[fd00::9]:7104", 3))];
    Moved::from_iter(places).tell(&mut moved);
    all.push(("TABLE, of homes that moved".into(), moved));
    let mut full = Message::request(Verb::Cas, b"full");
    full.header = Header {
        opcode: Opcode::Request(Verb::Cas),
        request: RequestId(u16::MAX),
        flags: Flags::NO_CACHE.with(Flags::FROM_BOX).with(Flags::TRY),
        version: Version(u64::MAX),
        client: ClientId(u64::MAX),
        operation: OpNumber(u64::MAX),
        operand: u64::MAX,
        round: Round(u64::MAX),
        ttl: Ttl::new(Nanos(u64::MAX - 1)),
        epoch: Epoch(u32::MAX),
        item_flags: u32::MAX,
        deadline_us: u32::MAX,
        incarnation: Incarnation(u32::MAX),
        kind: Kind::Table,
        status: Status::Pad,
        hops: u8::MAX,
        at: BoxId(u16::MAX),
        home: HomeId(u16::MAX),
        attempt: u16::MAX,
        origin: Origin::new(SocketAddr::from(([0xffff; 8], u16::MAX))),
        sharers: Sharers::default(),
    };
    for id in 1..=4 {
        assert!(full.header.sharers.push(BoxId(id), Token(u64::MAX)));
    }
    all.push(("CAS, all fields full".into(), full));
    let mut padded = sealed(&request(Verb::Get), NodeId::Client(request(Verb::Get).header.client));
    padded.padding = 9;
    all.push(("GET, sealed and padded".into(), padded));
    all
}

/// What is wrong, and bytes in which only that is wrong.
fn malformed() -> Vec<(&'static str, Vec<u8>)> {
    let good = bytes_of(&request(Verb::Set));
    let with = |offset: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[offset..][..bytes.len()].copy_from_slice(bytes);
        bad
    };
    let dressed = |offset: usize, bytes: &[u8]| {
        let mut bad = with(offset, bytes);
        dress(&mut bad);
        bad
    };
    let mut hash = with(at::HASH, &[0]);
    hash[at::CHECKSUM..][..8].fill(0);
    let sum = extend(0, &hash).wrapping_mul(BASE);
    hash[at::CHECKSUM..][..8].copy_from_slice(&sum.to_le_bytes());
    let mut unknown = bytes_of(&sealed(&request(Verb::Set), NodeId::Client(ClientId(1))));
    let role = unknown.len() - Proof::BYTES;
    unknown[role] = 9;
    let gap = [0, 0, 1, 0];
    let twice = [1, 0, 1, 0];
    vec![
        ("shorter than a header", good[..HEADER - 1].to_vec()),
        ("another magic", with(at::MAGIC, b"M")),
        ("another version of the protocol", with(at::PROTOCOL, &[2])),
        ("shorter than key and value", good[..good.len() - 1].to_vec()),
        ("a value that is too long", with(at::VALUE_LEN, &(MAX_VALUE as u32 + 1).to_le_bytes())),
        ("another checksum", with(at::CHECKSUM, &[0])),
        ("an unknown opcode", dressed(at::OPCODE, &[0x12])),
        ("an unknown reply", dressed(at::OPCODE, &[0x40])),
        ("an unknown flag", dressed(at::FLAGS, &[128, 0])),
        ("a key that the opcode has not", dressed(at::OPCODE, &[Opcode::Request(Verb::Noop).code()])),
        ("a filler that is not 0", dressed(HEADER + 7, &[1])),
        ("the hash of another key", hash),
        ("an unknown kind", dressed(at::KIND, &[7])),
        ("an unknown status", dressed(at::STATUS, &[16])),
        ("an address without a port", dressed(at::ADDRESS, &[1])),
        ("a gap in the sharers", dressed(at::SHARER_BOXES, &gap)),
        ("a sharer twice", dressed(at::SHARER_BOXES, &twice)),
        ("a token in a free place", dressed(at::SHARER_TOKENS, &[1])),
        ("sealed, and too short for a proof", dressed(at::FLAGS, &[32, 0])),
        ("a proof of no sender", unknown),
    ]
}

#[test]
fn the_vectors_are_the_documents() {
    let mut text: String =
        examples().iter().chain(&extremes()).map(|(name, message)| packet(name, message)).collect();
    let mut reasons = std::collections::HashSet::new();
    for (name, bytes) in malformed() {
        let why = Packet::parse(&bytes).expect_err(name);
        reasons.insert(std::mem::discriminant(&why));
        let _ = writeln!(text, "{{\"name\": \"{name}\", \"packet\": \"{}\"}}", hex(&bytes));
    }
    assert_eq!(reasons.len(), 15, "every way to be malformed");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire-vectors.jsonl");
    if std::env::var_os("MILLRACE_BLESS").is_some() {
        std::fs::write(path, &text).expect("the document can be written");
    }
    let same = std::fs::read_to_string(path).is_ok_and(|document| document == text);
    assert!(same, "docs/wire-vectors.jsonl is not what the code makes: run with MILLRACE_BLESS=1");
}
