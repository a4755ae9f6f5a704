//! The in-network packet: what clients, boxes, homes and the controller of the cache say to each other in UDP datagrams.
//! `docs/wire.md` is the same for those who write another end, or the C of the XDP program.
//!
//! ```text
//!  0      2       8  9  10    12     16         24             92     96                120       160
//!  ├──────┼───────┼──┼──┼─────┼──────┼──────────┼──────────────┼──────┼─────────────────┼─────────┼─────────┬───────┬─────────
//!  │ id   │ magic │v │op│flags│ hash │ checksum │ numbers      │ u8s  │ box, home,      │ sharers │ key     │ value │ padding
//!  │      │       │  command │      │          │ version, …   │      │ original client │ 4 places│ 0 to 8n │0 to 8n│ any
//! ```
//!
//! The first 16 bytes are the published ones (Source: IncBricks, section 4.1); the rest is ours.
//!
//! * One fixed header for all packets, so that an XDP program reads any field by one load at a constant offset. A row of
//!   four places holds the boxes that would keep a reply, for a list would need a loop.
//! * Little-endian, for every machine this runs on is; a load is then a field. Only the original client's port and
//!   address are as in UDP and IP headers, for they are copied there.
//! * Key and value are filled with 0 to 8 bytes: hash, comparison and checksum run over whole words.
//! * A [`Proof`] may follow the value: who wrote the packet, for whoever has the cluster's key.
//! * Whatever follows is padding, which no sum covers and nobody reads: a client sends as much as it expects the
//!   reply to need, so that the reply fits into the request's buffer.
//!
//! One file per purpose: [`fields`] the table of offsets, `types` and `opcode` what the numbers mean, `sum` hash and
//! checksum, [`packet`] reads, [`message`] writes, `dissector` writes Wireshark's.

mod dissector;
pub mod fields;
pub mod message;
mod opcode;
pub mod packet;
mod proof;
mod sum;
#[cfg(test)]
mod tests;
mod types;

pub use dissector::dissector;
pub use fields::{FIELDS, Field, Form, HASH_AT, HEADER};
pub use message::{Header, Message};
pub use opcode::{Control, Flags, KeyRule, Kind, Opcode, REPLY, Status, Verb};
pub use packet::{Malformed, Packet, is_packet};
pub use proof::{Proof, Role};
pub use sum::{BASE, extend, key_hash, power};
pub use types::{
    BoxId, ClientId, Epoch, HomeId, Incarnation, KeyHash, OpNumber, Origin, RequestId, Round, Sharer,
    Sharers, Token, Ttl, Version,
};

/// Of every packet.
pub const MAGIC: [u8; 6] = *b"mlrinc";
/// The version of the format spoken here.
pub const PROTOCOL: u8 = 1;
/// Bytes of the longest key; memcached's.
pub const MAX_KEY: usize = 250;
/// Bytes of the longest packet with its padding: what UDP over IPv4 carries.
pub const MAX_DATAGRAM: usize = 65_507;
/// Bytes of the longest value, whatever the key. Longer ones are to be had over TCP.
pub const MAX_VALUE: usize = (MAX_DATAGRAM - HEADER - padded(MAX_KEY) - Proof::BYTES) / 8 * 8;
/// Bytes of the longest value that a box's XDP tier answers with, over a request that was padded for it. With a key of 250 the reply is then 1440
/// bytes: a frame of an MTU of 1500.
pub const MAX_FAST_VALUE: usize = 1024;

/// Bytes that so many take with their filler.
pub const fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}

/// Bytes of a packet with a key and a value of these lengths, without proof and padding.
pub const fn length(key_len: usize, value_len: usize) -> usize {
    HEADER + padded(key_len) + padded(value_len)
}
