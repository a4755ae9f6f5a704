//! The first frame of a link, and the one that breaks silence: which chain, who, and where it serves clients.
//!
//! Layout, little-endian: `MRCG`, version u8 (1), role u8 (0 replica, 1 controller), number u16, chain u32, 4 bytes of 0, then the
//! address as text; none for who serves no clients or does not know how others reach it.

use protocol::chain::{NodeId, ReplicaId};

const MAGIC: [u8; 4] = *b"MRCG";
const VERSION: u8 = 1;
/// Bytes before the address.
const HEAD: usize = 16;
/// Bytes of the longest address.
const MOST: usize = 300;

/// Who is at an end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) chain: u32,
    /// No client.
    pub(super) node: NodeId,
    /// Where it serves clients.
    pub(super) serves: String,
}

impl Greeting {
    pub(super) fn emit(&self) -> Vec<u8> {
        let (role, number) = match self.node {
            NodeId::Replica(ReplicaId(number)) => (0, number),
            NodeId::Controller(number) => (1, number),
            NodeId::Client(_) => unreachable!("clients come by the service"),
        };
        let mut bytes = Vec::with_capacity(HEAD + self.serves.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, role]);
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&self.chain.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        if self.serves.len() <= MOST {
            bytes.extend_from_slice(self.serves.as_bytes());
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Greeting> {
        let (head, serves) = bytes.split_first_chunk::<HEAD>()?;
        let number = u16::from_le_bytes([head[6], head[7]]);
        let node = match (head[4], head[5]) {
            (VERSION, 0) => NodeId::Replica(ReplicaId(number)),
            (VERSION, 1) => NodeId::Controller(number),
            _ => return None,
        };
        let chain = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let serves = std::str::from_utf8(serves).ok().filter(|text| text.len() <= MOST)?.to_owned();
        (head[..4] == MAGIC && head[12..] == [0; 4]).then_some(Greeting { chain, node, serves })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_greeting_reads_as_it_was_written_and_nothing_else_does(
            chain: u32, number: u16, controller: bool, serves in "[a-z:/.0-9]{0,80}", at in 0..HEAD, flip in 1u8..,
        ) {
            let node =
                if controller { NodeId::Controller(number) } else { NodeId::Replica(ReplicaId(number)) };
            let greeting = Greeting { chain, node, serves };
            let mut bytes = greeting.emit();
            prop_assert_eq!(Greeting::parse(&bytes), Some(greeting.clone()));
            bytes[at] ^= flip;
            prop_assert_ne!(Greeting::parse(&bytes), Some(greeting));
            prop_assert_eq!(Greeting::parse(&bytes[..at]), None);
        }
    }
}
