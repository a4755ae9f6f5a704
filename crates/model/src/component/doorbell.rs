//! Posting work requests to a NIC: what it costs a core, and what the NIC fetches.
//!
//! A request alone is written into the device by the core (one MMIO write carries it: "BlueFlame"). With a doorbell for `batch` requests the core
//! leaves them in memory, chained, and writes once; the NIC then reads them by DMA. So a batch saves MMIO, and costs a trip from NIC to
//! memory before anything happens: much where MMIO is dear (an SoC), nothing to win where the NIC is what is slow.
//!
//! Sources: Kalia et al., "Design guidelines for high performance RDMA systems" (USENIX ATC 2016), §3; Wei et al. (OSDI 2023), §3.3, Advice #4.
//!
//! Not modelled: waiting until a batch is full: the requests of a batch are there at once.

/// Bytes of a work request: a basic block of the queue.
pub const WORK_REQUEST: u64 = 64;

/// What posting costs a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Doorbell {
    /// Cycles to build a request and to see its completion.
    pub build: f64,
    /// Cycles of an MMIO write.
    pub mmio: f64,
}

impl Doorbell {
    /// Cycles for each of the requests of a batch.
    pub fn cycles(&self, batch: u64) -> f64 {
        self.build + self.mmio / batch.max(1) as f64
    }

    /// Whether the NIC must fetch the requests of such a batch.
    pub const fn fetches(batch: u64) -> bool {
        batch > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_saves_mmio_and_no_more() {
        let soc = Doorbell { build: 150.0, mmio: 600.0 };
        assert_eq!((soc.cycles(1), soc.cycles(4)), (750.0, 300.0));
        assert!(soc.cycles(1 << 20) > soc.build && !Doorbell::fetches(1) && Doorbell::fetches(2));
    }
}
