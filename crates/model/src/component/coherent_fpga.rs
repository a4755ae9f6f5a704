//! The coherent endpoint of an FPGA: a block that turns the FPGA's reads and writes of cache lines into messages of the processors'
//! interconnect, and the link behind it.
//!
//! Discipline: the block takes read requests one after the other, at a rate of its own, and writes likewise beside them; each direction of the link
//! serves lines in order of arrival. Whoever has a line says so after one crossing, so that a read takes two. An endpoint of programmable logic is
//! slower than its link: that is what saturates first (Lazarev et al., 2020, §4: 80 M lines per second where the link would carry 650 M).
//!
//! Not modelled: snoops and acknowledgements as bytes of the link (a few per cent of it), the two PCIe links that share the block's arbiter.

use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::platform::transfer;
use base::Picos;

/// Bytes of a cache line.
pub const LINE: u64 = 64;

/// An endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoherentFpga {
    /// Requests to read. Its units are lines.
    pub reads: ResourceId,
    /// Requests to write. Its units are lines.
    pub writes: ResourceId,
    /// The link's direction to the FPGA. Its units are bytes.
    pub to_fpga: ResourceId,
    /// And to the processor.
    pub to_host: ResourceId,
    /// The block is busy so long with each line that is read.
    pub read_slot: Picos,
    /// And with each that is written.
    pub write_slot: Picos,
    /// Bits per second of a direction.
    pub bits: f64,
    /// One crossing, the block's own time included.
    pub latency: Picos,
}

impl CoherentFpga {
    /// An endpoint.
    pub fn new(
        kernel: &mut Kernel,
        name: &str,
        (read_slot, write_slot): (Picos, Picos),
        bits: f64,
        latency: Picos,
    ) -> CoherentFpga {
        let mut part = |what: &str| kernel.resource(&format!("{name} {what}"), 1);
        let [reads, writes, to_fpga, to_host] = ["reads", "writes", "to FPGA", "to host"].map(&mut part);
        CoherentFpga { reads, writes, to_fpga, to_host, read_slot, write_slot, bits, latency }
    }

    /// The FPGA reads so many lines at once: out, and back with them.
    pub fn read(&self, lines: u64) -> [Step; 2] {
        let [request, data] = self.snatch(lines);
        let Step::Use { at, service, units, .. } = request else { unreachable!("a request uses the block") };
        [Step::Use { at, service, units, after: self.latency }, data]
    }

    /// The same by requests that were on their way before: what they find travels once. So a poll that is always under way sees lines.
    pub fn snatch(&self, lines: u64) -> [Step; 2] {
        [
            Step::Use {
                at: self.reads,
                service: Service::Fixed(Picos(self.read_slot.0 * lines)),
                units: lines,
                after: Picos::ZERO,
            },
            self.carry(self.to_fpga, lines),
        ]
    }

    /// The FPGA writes so many lines: they are there one crossing later.
    pub fn write(&self, lines: u64) -> [Step; 2] {
        [
            Step::Use {
                at: self.writes,
                service: Service::Fixed(Picos(self.write_slot.0 * lines)),
                units: lines,
                after: Picos::ZERO,
            },
            self.carry(self.to_host, lines),
        ]
    }

    /// A core's store takes the FPGA's copy of a line away.
    pub fn invalidate(&self) -> Step {
        Step::Wait(self.latency)
    }

    fn carry(&self, at: ResourceId, lines: u64) -> Step {
        let bytes = lines * LINE;
        let service = Service::Fixed(transfer(bytes, self.bits));
        Step::Use { at, service, units: bytes, after: self.latency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cross_twice_and_their_rate_is_the_blocks() {
        let mut kernel = Kernel::new(1);
        let slots = (Picos::from_nanos(12), Picos::from_nanos(2));
        let fpga = CoherentFpga::new(&mut kernel, "UPI", slots, 512e9, Picos::from_nanos(150));
        let read = kernel.program("read", fpga.read(4));
        let snatch = kernel.program("snatch", fpga.snatch(4));
        let write = kernel.program("write", fpga.write(4));
        let unloaded = |of| kernel.unloaded(of).0 / 1000;
        assert_eq!((unloaded(read), unloaded(snatch), unloaded(write)), (48 + 304, 48 + 154, 8 + 154));
        (0..1000).for_each(|_| kernel.begin(read, 0));
        kernel.run_until(Picos::from_micros(12));
        let usage = kernel.usage(fpga.reads);
        assert_eq!((usage.busy, usage.units), (Picos::from_micros(12), 4000));
    }
}
