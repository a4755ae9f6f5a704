//! Bytes that are made worth reading: what nobody looks at further when it is wrong is made good. Shared by targets.

#![allow(dead_code)]

use protocol::chain;
use protocol::wire::{BASE, FIELDS, HEADER, MAGIC, PROTOCOL, extend, key_hash, length};

/// The input, a number at a time; zeros when it is used up.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (these, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        these
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes some bytes of the input over others.
pub fn scribble(input: &mut Input, over: &mut [u8]) {
    for _ in 0..input.byte() % 6 {
        let at = usize::from(input.byte()) | usize::from(input.byte() & 3) << 8;
        let byte = input.byte();
        if let Some(place) = over.get_mut(at) {
            *place = byte;
        }
    }
}

/// A message of a chain: magic, version, kind, length and sum are good.
pub fn chain_message(bytes: &mut [u8]) {
    use chain::wire;
    if bytes.len() < wire::HEADER {
        return;
    }
    bytes[4..6].copy_from_slice(&wire::MAGIC);
    bytes[6] = wire::VERSION;
    bytes[7] %= wire::STORED_CONFIGURATION + 1;
    let length = (bytes.len() - wire::HEADER) as u32;
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Bytes of this field of an in-network packet.
fn field<'a>(bytes: &'a mut [u8], name: &str) -> &'a mut [u8] {
    let field = FIELDS.iter().find(|field| field.name == name).expect("there is such a field");
    &mut bytes[field.offset..][..field.length]
}

/// An in-network packet: magic, version, hash and sum are good, and the codes too if that is wanted.
pub fn packet(bytes: &mut [u8], codes: bool) {
    if bytes.len() < HEADER {
        return;
    }
    field(bytes, "magic").copy_from_slice(&MAGIC);
    field(bytes, "protocol")[0] = PROTOCOL;
    if codes {
        field(bytes, "flags")[0] %= 64;
        field(bytes, "flags")[1] = 0;
        field(bytes, "kind")[0] %= 3;
        field(bytes, "status")[0] %= 16;
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
