//! The filter's rules in Rust: who is counted, how sights fade, and what a frame looks like that is sent on.

use super::{ETHERNET, IP, Reference, UDP, internet_sum};
use crate::layout::SIGHTS;
use protocol::wire::{KeyHash, Opcode, Packet, Verb};
use std::net::SocketAddrV4;

/// Counts of keys, as [`layout::Sights`](crate::layout::Sights) has them.
#[derive(Clone, Debug)]
pub struct Sketch {
    /// Window and count of each cell.
    cells: Vec<(u32, u32)>,
}

impl Sketch {
    /// Of so many lines, a power of two.
    pub fn new(lines: usize) -> Sketch {
        assert!(lines.is_power_of_two(), "a mask chooses the line");
        Sketch { cells: vec![(0, 0); lines * SIGHTS] }
    }

    /// One more sight of a key in a window; how many there are lately.
    pub fn see(&mut self, hash: KeyHash, window: u32) -> u32 {
        let mixed = u64::from(hash.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let lines = self.cells.len() / SIGHTS;
        let first = ((mixed >> 40) as usize & (lines - 1)) * SIGHTS;
        let one = (mixed >> 36) as usize % SIGHTS;
        let other = one ^ (SIGHTS / 2 + (mixed >> 32) as usize % (SIGHTS / 2));
        let counts = [one, other].map(|cell| {
            let (since, count) = self.cells[first + cell];
            let count = (count.checked_shr(window - since).unwrap_or(0) + 1).min(255);
            self.cells[first + cell] = (window, count);
            count
        });
        counts[0].min(counts[1])
    }
}

impl Reference<'_> {
    /// The key of a frame that the filter decides about: a client's own plain GET of what is not here, without a VLAN tag.
    pub fn is_screened(&self, frame: &[u8]) -> Option<KeyHash> {
        let link = self.recognise(frame).filter(|link| *link == ETHERNET)?;
        let packet =
            Packet::parse(&frame[link + IP + UDP..]).ok().filter(|packet| self.is_plain_read(packet))?;
        let is_get = packet.opcode() == Opcode::Request(Verb::Get);
        (is_get && self.entries.find(packet.key()).is_none()).then(|| packet.hash())
    }
}

/// The frame as it is sent on to a home, from and to these hardware addresses.
pub fn sent_on(frame: &[u8], home: SocketAddrV4, from: [u8; 6], to: [u8; 6]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    let ip = &mut frame[ETHERNET..];
    ip[8] -= 1;
    ip[16..20].copy_from_slice(&home.ip().octets());
    ip[10..12].fill(0);
    let sum = !internet_sum(&ip[..IP]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip[22..24].copy_from_slice(&home.port().to_be_bytes());
    ip[26..28].fill(0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sights_add_up_and_fade_by_half() {
        let mut sketch = Sketch::new(256);
        let key = KeyHash(77);
        assert_eq!((sketch.see(key, 1), sketch.see(key, 1), sketch.see(key, 1)), (1, 2, 3));
        assert_eq!((sketch.see(key, 2), sketch.see(key, 4)), (2, 1));
        (0..300).for_each(|_| {
            sketch.see(key, 5);
        });
        assert_eq!(sketch.see(key, 5), 255);
        assert_eq!(sketch.see(key, 100), 1);
    }

    #[test]
    fn few_keys_are_taken_for_others() {
        let mut sketch = Sketch::new(256);
        let wrong =
            (0..1000u32).filter(|i| sketch.see(protocol::wire::key_hash(&i.to_le_bytes()), 1) > 1).count();
        assert!(wrong < 100, "{wrong} of 1000 that were seen once, in 4096 cells");
    }
}
