//! `docs/chain-vectors.jsonl`: messages with their fields, and bytes that are no messages, for implementations in other languages.
//! `MILLRACE_BLESS=1 cargo test -p millrace-protocol --lib chain::wire::tests::vectors` writes it anew.

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn good(name: &str, message: &Message) -> String {
    let (kind, fields, bytes) = (kind_of(message), show_fields(message), hex(&bytes_of(message)));
    format!(
        "{{\"name\": \"{name}\", \"chain\": {CHAIN}, \"kind\": {kind}, \"fields\": {fields}, \"bytes\": \"{bytes}\"}}\n"
    )
}

/// An open session's close, changed so that it is none.
fn bad() -> Vec<(&'static str, Vec<u8>)> {
    let good = bytes_of(&Message::ChunkAck { epoch: Epoch(4), below: 65_536, again: true });
    let with = |at: usize, byte: u8, dressed: bool| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        if dressed {
            dress(&mut bytes);
        }
        bytes
    };
    let version = |mut bytes: Vec<u8>| {
        bytes[6] = VERSION + 1;
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    let long = |extra: &[u8], dressed: bool| {
        let mut bytes = [&good[..], extra].concat();
        if dressed {
            dress(&mut bytes);
        }
        bytes
    };
    vec![
        ("nothing", vec![]),
        ("shorter than a header", good[..HEADER - 1].to_vec()),
        ("another magic", with(4, b'X', false)),
        ("a bit was changed", with(HEADER, 5, false)),
        ("cut short", good[..good.len() - 1].to_vec()),
        ("longer than it says", long(&[0], false)),
        ("more fields than its kind has", long(&[0], true)),
        ("another version", version(good.clone())),
        ("an unknown kind", with(7, 200, true)),
        ("a choice that is neither 0 nor 1", with(good.len() - 1, 2, true)),
        ("an epoch that is too large", with(HEADER + 7, 0x40, true)),
    ]
}

#[test]
fn the_vectors_are_the_documents() {
    let mut text: String = examples().iter().map(|(name, message)| good(name, message)).collect();
    for (name, bytes) in bad() {
        assert!(parse(&bytes).is_err(), "{name}");
        text += &format!("{{\"name\": \"{name}\", \"bad\": true, \"bytes\": \"{}\"}}\n", hex(&bytes));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/chain-vectors.jsonl");
    if std::env::var_os("MILLRACE_BLESS").is_some() {
        std::fs::write(path, &text).expect("the document can be written");
    }
    let document = std::fs::read_to_string(path).expect("the document is there");
    assert!(
        document == text,
        "{path} is not what the code writes: run this with MILLRACE_BLESS=1 and look at the difference"
    );
}
