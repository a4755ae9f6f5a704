//! Where a device's writes land: in the last-level cache (DDIO, or the TPH bit of a packet) or in memory, and what that costs memory.
//!
//! Rule (ORCA, Sec. III-D, measured there): memory is the destination only when DDIO is off *and* the packet's TPH bit is off.
//!
//! * To memory, each line costs a read and a write: the home agent takes ownership first, and the line's directory bits lie in memory.
//! * To the cache, nothing as long as what is written fits into the ways that devices may allocate; beyond, lines are evicted, one write each.
//!   Evictions come in no order, so that a medium with larger granules than lines writes a whole granule for each.
//!
//! Closed forms: nothing here queues. Sources: ORCA Sec. III-D; Farshin et al., "Reexamining Direct Cache Access" (ATC 2020) for the ways.

use super::LINE;

/// Switches of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// Data Direct I/O, of the processor.
    pub ddio: bool,
    /// TLP processing hints, of the packet.
    pub tph: bool,
}

/// Where it lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// In the last-level cache.
    Cache,
    /// In memory.
    Memory,
}

/// Bytes per second that memory reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Reads.
    pub read: f64,
    /// Writes.
    pub write: f64,
}

impl Inbound {
    /// Where it lands.
    pub fn landing(self) -> Landing {
        if self.ddio || self.tph { Landing::Cache } else { Landing::Memory }
    }
}

/// What memory does when a device writes `rate` bytes per second at random into `window` bytes, and devices may allocate `ways_bytes` of cache.
pub fn memory_traffic(landing: Landing, rate: f64, window: u64, ways_bytes: u64) -> Traffic {
    match landing {
        Landing::Memory => Traffic { read: rate, write: rate },
        Landing::Cache => Traffic { read: 0.0, write: rate * evicted(window, ways_bytes) },
    }
}

/// Bytes that a medium of such granules writes for each byte of messages of `size` at random places.
pub fn write_amplification(landing: Landing, size: u64, granule: u64, window: u64, ways_bytes: u64) -> f64 {
    match landing {
        // As one stretch: whole granules.
        Landing::Memory => (size.div_ceil(granule) * granule) as f64 / size as f64,
        // Line by line, in no order.
        Landing::Cache => {
            let lines = size.div_ceil(LINE);
            (lines * granule.max(LINE)) as f64 / size as f64 * evicted(window, ways_bytes)
        }
    }
}

/// The share of lines written that is evicted before it is written again.
fn evicted(window: u64, ways_bytes: u64) -> f64 {
    if window <= ways_bytes { 0.0 } else { 1.0 - ways_bytes as f64 / window as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_without_both_do_writes_go_to_memory() {
        let lands = |ddio, tph| Inbound { ddio, tph }.landing();
        assert_eq!(lands(false, false), Landing::Memory);
        assert!(
            [(true, false), (false, true), (true, true)].iter().all(|b| lands(b.0, b.1) == Landing::Cache)
        );
    }

    #[test]
    fn small_windows_stay_in_the_cache_and_large_ones_are_amplified() {
        let traffic = |window| memory_traffic(Landing::Cache, 3.5e9, window, 5 << 20);
        assert_eq!(traffic(4 << 20), Traffic::default());
        assert!((traffic(50 << 20).write / 3.15e9 - 1.0).abs() < 1e-9);
        let far = 1 << 40;
        assert!((write_amplification(Landing::Cache, 1024, 256, far, 5 << 20) - 4.0).abs() < 1e-4);
        assert_eq!(write_amplification(Landing::Memory, 1024, 256, far, 5 << 20), 1.0);
        assert_eq!(write_amplification(Landing::Memory, 64, 256, far, 5 << 20), 4.0);
    }
}
