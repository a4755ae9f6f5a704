//! Arbitrary bytes as an in-network packet: refused, or read and written back as they were, but for the padding's content.
//!
//! The first byte of the input says whether magic, version, hash and sum are made good first, without which nothing else is
//! looked at; the second whether the codes are. `cargo +nightly fuzz run inc_packet`
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::wire::{BASE, FIELDS, HEADER, MAGIC, PROTOCOL, Packet, extend, is_packet, key_hash, length};

/// Bytes of this field.
fn field<'a>(bytes: &'a mut [u8], name: &str) -> &'a mut [u8] {
    let field = FIELDS.iter().find(|field| field.name == name).expect("there is such a field");
    &mut bytes[field.offset..][..field.length]
}

/// Makes bytes worth reading.
fn dress(bytes: &mut [u8], codes: bool) {
    if bytes.len() < HEADER {
        return;
    }
    field(bytes, "magic").copy_from_slice(&MAGIC);
    field(bytes, "protocol")[0] = PROTOCOL;
    if codes {
        field(bytes, "flags")[0] %= 32;
        field(bytes, "flags")[1] = 0;
        field(bytes, "kind")[0] %= 3;
        field(bytes, "status")[0] %= 14;
        field(bytes, "value_len")[1..].fill(0);
    }
    let key_len = usize::from(field(bytes, "key_len")[0]);
    let value_len = u32::from_le_bytes(field(bytes, "value_len").try_into().expect("four bytes")) as usize;
    let end = length(key_len, value_len);
    if end > bytes.len() {
        return;
    }
    let hash = key_hash(&bytes[HEADER..][..key_len]);
    field(bytes, "hash").copy_from_slice(&hash.0.to_le_bytes());
    field(bytes, "checksum").fill(0);
    let sum = extend(0, &bytes[..end]).wrapping_mul(BASE);
    field(bytes, "checksum").copy_from_slice(&sum.to_le_bytes());
}

fuzz_target!(|input: &[u8]| {
    let Some((&[good, codes], bytes)) = input.split_first_chunk::<2>() else { return };
    let mut bytes = bytes.to_vec();
    if good & 1 == 0 {
        dress(&mut bytes, codes & 1 == 0);
    }
    let Ok(packet) = Packet::parse(&bytes) else { return };
    assert!(is_packet(&bytes));
    let message = packet.to_message();
    let mut again = Vec::new();
    message.emit(&mut again);
    let said = bytes.len() - packet.padding();
    assert_eq!(again.len(), bytes.len());
    assert_eq!(again[..said], bytes[..said]);
    let read = Packet::parse(&again).expect("it was written here");
    assert_eq!(read.to_message(), message);
    let _ = format!("{message:?}");
});
