//! An endpoint of a cache-coherent interconnect (UPI, CXL.cache): its controller, the link, and what it hears of others' writes.
//!
//! ```text
//!   accelerator ── controller (issue, depth) ══ link, each way ══ home agent ── cache or memory
//! ```
//!
//! Discipline: the controller issues one line after the other, so many cycles apart, and keeps so many requests under way; its depth is latency.
//! Each direction of the link serves in order of arrival. A *signal* is what the endpoint hears when somebody else takes a line that it holds:
//! a snoop, which is all that cpoll needs, where polling needs a read.
//!
//! Why issue is one resource: soft controllers serialise their requests, which binds an accelerator long before its link does (ORCA, Sec. VI-D).
//!
//! Sources: ORCA (HPCA 2023), Sec. III-B, V, VI-A, VI-D. Not modelled: conflicts at the home agent, retries, a local cache that hits.

use super::LINE;
use crate::kernel::{Kernel, ResourceId, Service, Step, Tokens};
use crate::platform::{LoadError, Platform, transfer};
use base::Picos;

/// Lines that hold `bytes`.
pub fn lines(bytes: u64) -> u64 {
    bytes.div_ceil(LINE).max(1)
}

/// An endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coherent {
    /// Its controller, as lines are issued.
    pub controller: ResourceId,
    /// The link's direction to the home agent.
    pub to_home: ResourceId,
    /// And to the endpoint.
    pub to_device: ResourceId,
    /// Between two lines.
    pub issue: Picos,
    /// Through the controller, one way.
    pub depth: Picos,
    /// Over the link, one way.
    pub link: Picos,
    /// From a snoop to the accelerator's knowing of it, beside `depth`.
    pub check: Picos,
    header: u64,
    bits: f64,
    in_flight: Tokens,
}

impl Coherent {
    /// Of a platform's section `interconnect`.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(kernel: &mut Kernel, platform: &Platform) -> Result<Coherent, LoadError> {
        let cycles = |name: &str| platform.cycles(&format!("interconnect.{name}"), "interconnect.clock");
        Ok(Coherent {
            controller: kernel.resource("coherence controller", 1),
            to_home: kernel.resource("interconnect to home", 1),
            to_device: kernel.resource("interconnect to device", 1),
            issue: cycles("issue")?,
            depth: cycles("depth")?,
            link: platform.span("interconnect.link_latency")?,
            check: cycles("check")?,
            header: platform.bytes("interconnect.header")?,
            bits: platform.bandwidth("interconnect.bandwidth")?,
            in_flight: kernel.tokens("requests of the endpoint", platform.count("interconnect.in_flight")?),
        })
    }

    /// Reads `bytes`, which the home agent gets by `home`.
    pub fn read(&self, bytes: u64, home: &[Step]) -> Vec<Step> {
        let count = lines(bytes);
        let mut steps = vec![Step::Take(self.in_flight, 1), self.issued(count)];
        steps.push(self.carry(self.to_home, count * self.header));
        steps.extend(home);
        steps.push(self.carry(self.to_device, count * (self.header + LINE)));
        steps.extend([Step::Wait(self.depth), Step::Give(self.in_flight, 1)]);
        steps
    }

    /// Writes `bytes`; the last step is the home agent's having them.
    pub fn write(&self, bytes: u64) -> Vec<Step> {
        let count = lines(bytes);
        vec![self.issued(count), self.carry(self.to_home, count * (self.header + LINE))]
    }

    /// The home agent takes a line away from the endpoint, whose checker tells.
    pub fn signal(&self) -> [Step; 2] {
        [self.carry(self.to_device, self.header), Step::Wait(self.depth.plus(self.check))]
    }

    /// A write's way and its acknowledgement: what a store fence waits for.
    pub fn round_trip(&self) -> Picos {
        let one_way = self.depth.plus(self.link);
        one_way.plus(one_way)
    }

    /// Alone, from request to data that the home agent has after `home`.
    pub fn read_latency(&self, home: Picos) -> Picos {
        let bytes = 2 * self.header + LINE;
        self.issue.plus(self.round_trip()).plus(transfer(bytes, self.bits)).plus(home)
    }

    /// One line every so long, when requests do not wait for each other.
    pub fn interval(&self) -> Picos {
        self.issue.max(transfer(LINE + self.header, self.bits))
    }

    /// What so many lines read cost controller and link, for a reader whose time is counted elsewhere.
    pub fn charge(&self, lines: u64) -> [Step; 2] {
        let service = Service::Fixed(Picos(self.issue.0 * lines));
        let issued = Step::Use { at: self.controller, service, units: lines, after: Picos::ZERO };
        [issued, self.carry(self.to_device, lines * (self.header + LINE))]
    }

    fn issued(&self, lines: u64) -> Step {
        let service = Service::Fixed(Picos(self.issue.0 * lines));
        Step::Use { at: self.controller, service, units: lines, after: self.depth }
    }

    fn carry(&self, at: ResourceId, bytes: u64) -> Step {
        let service = Service::Fixed(transfer(bytes, self.bits));
        Step::Use { at, service, units: bytes, after: self.link }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Loop, closed};
    use crate::platform::shipped::shipped;
    use crate::sim::Sim;

    fn endpoint(issue: f64) -> (Kernel, Coherent) {
        let mut kernel = Kernel::new(1);
        let platform = shipped("harp-upi").expect("it is shipped").expect("it is right");
        let platform = platform.with("interconnect.issue", issue);
        let endpoint = Coherent::new(&mut kernel, &platform).expect("it is complete");
        (kernel, endpoint)
    }

    #[test]
    fn a_read_alone_takes_what_its_steps_say() {
        let (mut kernel, endpoint) = endpoint(1.0);
        let home = Picos::from_nanos(90);
        let read = kernel.program("read", endpoint.read(64, &[Step::Wait(home)]));
        assert!(kernel.unloaded(read).0.abs_diff(endpoint.read_latency(home).0) < 10, "but for rounding");
    }

    #[test]
    fn the_slower_of_controller_and_link_binds() {
        for (issue, nanos) in [(1.0, 3.46), (4.0, 10.0)] {
            let (mut kernel, endpoint) = endpoint(issue);
            let read = kernel.program("read", endpoint.read(64, &[Step::Wait(Picos::from_nanos(90))]));
            let sim = Sim::new(kernel);
            let clients = Loop { mix: read.into(), window: 400, arguments: 1 };
            let seen = &closed(&sim, 1, &[clients], Picos::from_micros(10), Picos::from_micros(50))[0];
            assert!((seen.rate() * nanos * 1e-9 - 1.0).abs() < 0.01, "{issue}: {}", seen.rate());
        }
    }
}
