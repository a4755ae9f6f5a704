//! The proof of who wrote a packet: 32 bytes that follow the value, where flag SEALED says so.
//!
//! ```text
//!  0      1    2       4        8          16                32
//!  ├──────┼────┼───────┼────────┼──────────┼─────────────────┤
//!  │ role │ 0  │ id    │ room   │ counter  │ tag             │   then padding
//! ```
//! This file has its bytes; what they mean, who may say what, and which key the tag is made with is
//! [`guard`](crate::coherence::guard)'s business. The packet's checksum does not cover them: the tag covers the packet, and itself shows
//! damage.

use std::fmt;

/// What a sender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Role {
    /// A client; the packet's `client` says which.
    Client = 1,
    /// A box.
    Box = 2,
    /// A home.
    Home = 3,
    /// A controller, by its index.
    Controller = 4,
}

/// Who wrote a packet, for whoever has the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Proof {
    /// What he is.
    pub role: Role,
    /// Which of these; 0 for a client.
    pub id: u16,
    /// Bytes that the original client may be answered with: all ones where he has proven who he is, 0 where the packet is from or to a
    /// client.
    pub room: u32,
    /// Of this sender, never the same twice, and rising: whoever hears it knows a repeated packet by it.
    pub counter: u64,
    /// Over packet, these fields and the receiver.
    pub tag: [u8; 16],
}

impl Proof {
    /// Its bytes.
    pub const BYTES: usize = 32;
    /// Of these, the ones before the tag.
    pub const SAID: usize = 16;

    /// What the tag covers of it.
    pub fn said(&self) -> [u8; Proof::SAID] {
        let mut bytes = [0; Proof::SAID];
        bytes[0] = self.role as u8;
        bytes[2..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.room.to_le_bytes());
        bytes[8..].copy_from_slice(&self.counter.to_le_bytes());
        bytes
    }

    /// As it travels.
    pub fn to_bytes(&self) -> [u8; Proof::BYTES] {
        let mut bytes = [0; Proof::BYTES];
        bytes[..Proof::SAID].copy_from_slice(&self.said());
        bytes[Proof::SAID..].copy_from_slice(&self.tag);
        bytes
    }

    /// None where no sender is such.
    pub fn from_bytes(bytes: &[u8; Proof::BYTES]) -> Option<Proof> {
        let (numbers, rest) = bytes.split_first_chunk::<8>()?;
        let (counter, tag) = rest.split_first_chunk::<8>()?;
        let [role, 0, id @ .., a, b, c, d] = *numbers else { return None };
        let role = match role {
            1 => Role::Client,
            2 => Role::Box,
            3 => Role::Home,
            4 => Role::Controller,
            _ => return None,
        };
        let id = u16::from_le_bytes(id);
        if role == Role::Client && id != 0 {
            return None;
        }
        let room = u32::from_le_bytes([a, b, c, d]);
        Some(Proof { role, id, room, counter: u64::from_le_bytes(*counter), tag: tag.try_into().ok()? })
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} #{}", self.role, self.id, self.counter)
    }
}
