//! The machine: cores' threads, the two NICs on one FPGA, and the links between; and the pieces that a request's way is made of.
//!
//! A request is one cache line, or as many as its bytes need. Its way has two kinds of pieces: work of a thread ([`Machine::post`],
//! [`Machine::close`], [`Machine::complete`]) and what hardware does with a batch ([`Machine::cross`]). The simulation ([`super::echo`])
//! and the planner's programs ([`super::setting`]) are made of the same pieces.

use super::interface::{Interface, Mode};
use crate::component::{CoherentFpga, LINE, PcieLink, Towards};
use crate::kernel::{Kernel, ProgramId, ResourceId, Service, Step};
use crate::pcie::{Generation, Link};
use crate::platform::{LoadError, Platform};
use base::{Bytes, Picos};

/// Bytes of an AVX store, and of a doorbell.
const STORE: u64 = 32;
const DOORBELL: u64 = 8;

/// One of the two NICs: what it sends and what it receives are pipelines of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nic {
    /// From the core to the network.
    pub send: ResourceId,
    /// From the network to the core.
    pub receive: ResourceId,
}

/// Who has a thread and a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who calls.
    Client,
    /// Who replies.
    Server,
}

impl Side {
    fn other(self) -> Side {
        if self == Side::Client { Side::Server } else { Side::Client }
    }
}

/// Numbers of the machine, as spans.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    send: Picos,
    receive: Picos,
    more_line: Picos,
    handover: Picos,
    store: Picos,
    fence: Picos,
    memory: Picos,
    mmio: Picos,
    per_line: Picos,
    polling: Picos,
    depth: Picos,
}

/// All of it.
#[derive(Debug)]
pub struct Machine {
    /// Its resources are in here.
    pub kernel: Kernel,
    /// Threads that call, and those that serve: a pair of them shares a connection.
    pub clients: Vec<ResourceId>,
    /// See `clients`.
    pub servers: Vec<ResourceId>,
    /// The callers' NIC and the servers'.
    pub nics: [Nic; 2],
    /// The coherent interconnect, which both NICs share.
    pub endpoint: CoherentFpga,
    /// The PCIe link, which both share.
    pub pcie: PcieLink,
    /// How requests get to NICs.
    pub interface: Interface,
    numbers: Numbers,
}

/// Lines of a message.
pub const fn lines(bytes: u64) -> u64 {
    if bytes <= LINE { 1 } else { bytes.div_ceil(LINE) }
}

impl Machine {
    /// With so many pairs of threads.
    ///
    /// # Errors
    /// The platform lacks a number.
    ///
    /// # Panics
    /// If batches are empty.
    pub fn new(
        platform: &Platform,
        interface: Interface,
        pairs: usize,
        seed: u64,
    ) -> Result<Machine, LoadError> {
        assert!(interface.batch > 0, "a batch has a message");
        let mut kernel = Kernel::new(seed);
        let k = &mut kernel;
        let thread = |k: &mut Kernel, who: &str| {
            (0..pairs).map(|i| k.resource(&format!("{who} thread {i}"), 1)).collect()
        };
        let (clients, servers) = (thread(k, "client"), thread(k, "server"));
        let nics = ["client", "server"].map(|whose| Nic {
            send: k.resource(&format!("{whose} NIC, sending"), 1),
            receive: k.resource(&format!("{whose} NIC, receiving"), 1),
        });
        let slots = (platform.service("upi.read_rate", 1)?, platform.service("upi.write_rate", 1)?);
        // The printed bandwidth is that of both directions.
        let bits = platform.bandwidth("upi.bandwidth")? / 2.0;
        let endpoint = CoherentFpga::new(k, "UPI endpoint", slots, bits, platform.span("upi.latency")?);
        let link = Link {
            generation: Generation::Three,
            lanes: platform.count("pcie.lanes")? as u32,
            max_payload: Bytes(platform.bytes("pcie.max_payload")?),
            max_read_request: Bytes(platform.bytes("pcie.max_read")?),
            completion: Bytes(LINE),
        };
        let pcie = PcieLink::new(k, "PCIe", link, (Picos::ZERO, platform.span("pcie.latency")?));
        let rpc = platform.cycles("core.rpc", "core.clock")?;
        let send = Picos(rpc.0 / 2);
        let numbers = Numbers {
            send,
            receive: rpc.since(send),
            more_line: platform.cycles("core.more_line", "core.clock")?,
            handover: platform.cycles("core.handover", "core.clock")?,
            store: platform.cycles("core.device_store", "core.clock")?,
            fence: platform.cycles("core.fence", "core.clock")?,
            memory: platform.span("host.cache")?,
            mmio: platform.span("pcie.mmio")?,
            per_line: platform.cycles("nic.per_line", "nic.clock")?,
            polling: platform.cycles("nic.polling", "nic.clock")?,
            depth: platform.cycles("nic.depth", "nic.clock")?,
        };
        Ok(Machine { kernel, clients, servers, nics, endpoint, pcie, interface, numbers })
    }

    /// Work of a thread that sends a message.
    pub fn post(&self, bytes: u64) -> Picos {
        let n = &self.numbers;
        let lines = lines(bytes);
        match self.interface.mode {
            Mode::Mmio => n.send.plus(Picos(n.store.0 * lines * (LINE / STORE))),
            _ => n.send.plus(Picos(n.more_line.0 * (lines - 1))),
        }
    }

    /// Further work of the thread for each batch.
    pub fn close(&self) -> Picos {
        let n = &self.numbers;
        match self.interface.mode {
            Mode::Mmio => Picos::ZERO,
            Mode::Doorbell => n.handover.plus(n.fence).plus(n.store),
            Mode::Upi | Mode::UpiDirect => n.handover,
        }
    }

    /// Work of a thread that receives a message.
    pub fn complete(&self, bytes: u64) -> Picos {
        let n = &self.numbers;
        n.receive.plus(Picos(n.more_line.0 * (lines(bytes) - 1)))
    }

    /// What a thread does to have a line taken by the FPGA, without any request in it.
    pub fn hand_over(&self) -> Picos {
        self.numbers.handover
    }

    /// A batch of messages goes from a core's stores to the other's memory.
    pub fn cross(&mut self, from: Side, batch: u64, bytes: u64) -> ProgramId {
        let lines = batch * lines(bytes);
        let mut steps = self.leave(from, lines);
        steps.extend(self.arrive(from.other(), lines));
        let name = if from == Side::Client { "calls" } else { "replies" };
        self.kernel.program(name, steps)
    }

    /// The first half of it: from the core's stores out of its NIC.
    pub fn leave(&mut self, from: Side, lines: u64) -> Vec<Step> {
        let mut steps = self.fetch(lines);
        if let Some(bookkeeping) = self.bookkeeping() {
            steps.push(Step::Fork(self.kernel.program("bookkeeping", bookkeeping)));
        }
        steps.push(self.pipeline(self.nics[from as usize].send, lines));
        steps
    }

    /// The second half: out of the network into the memory that the core polls.
    pub fn arrive(&self, to: Side, lines: u64) -> Vec<Step> {
        let mut steps = vec![self.pipeline(self.nics[to as usize].receive, lines)];
        steps.extend(self.deliver(lines));
        steps
    }

    /// From the last store to the NIC's having all of it.
    fn fetch(&self, lines: u64) -> Vec<Step> {
        let n = &self.numbers;
        let pcie = &self.pcie;
        match self.interface.mode {
            Mode::Mmio => {
                let stores = lines * (LINE / STORE);
                let one = pcie.link.write(STORE).forth;
                let all = crate::pcie::Load { packets: one.packets * stores, bytes: one.bytes * stores };
                vec![pcie.carry(all, Towards::Device), Step::Wait(n.mmio)]
            }
            Mode::Doorbell => {
                let read = pcie.link.read(lines * LINE);
                vec![
                    pcie.carry(pcie.link.write(DOORBELL).forth, Towards::Device),
                    Step::Wait(n.mmio),
                    pcie.carry(read.forth, Towards::Host),
                    Step::Wait(n.memory),
                    pcie.carry(read.back, Towards::Device),
                ]
            }
            Mode::Upi => {
                let [request, data] = self.endpoint.read(lines);
                vec![self.endpoint.invalidate(), request, Step::Wait(n.memory), data]
            }
            Mode::UpiDirect => {
                let mut steps = vec![Step::Wait(Picos(n.polling.0 / 2))];
                steps.extend(self.endpoint.snatch(lines));
                steps
            }
        }
    }

    /// The NIC says which entries it has taken. Where requests were pushed there are none.
    fn bookkeeping(&self) -> Option<Vec<Step>> {
        match self.interface.mode {
            Mode::Mmio => None,
            Mode::Doorbell => Some(vec![self.pcie.carry(self.pcie.link.write(LINE).forth, Towards::Host)]),
            Mode::Upi | Mode::UpiDirect => Some(self.endpoint.write(1).into()),
        }
    }

    fn pipeline(&self, at: ResourceId, lines: u64) -> Step {
        let n = &self.numbers;
        let service = Service::Fixed(Picos(n.per_line.0 * lines));
        Step::Use { at, service, units: lines, after: n.depth }
    }

    /// The NIC writes into the memory that the other core polls.
    fn deliver(&self, lines: u64) -> Vec<Step> {
        if self.interface.mode.coherent() {
            return self.endpoint.write(lines).into();
        }
        vec![self.pcie.carry(self.pcie.link.write(lines * LINE).forth, Towards::Host)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::platform;
    use super::*;
    use proptest::prelude::*;

    fn machine(interface: Interface) -> Machine {
        Machine::new(&platform(), interface, 1, 1).expect("it is complete")
    }

    /// Units that a batch puts on a resource.
    fn units(machine: &mut Machine, batch: u64, bytes: u64, at: fn(&Machine) -> ResourceId) -> u64 {
        let program = machine.cross(Side::Client, batch, bytes);
        let at = at(machine);
        machine.kernel.demand(program).iter().find(|d| d.at == at).map_or(0, |d| d.units)
    }

    #[test]
    fn messages_on_buses_are_those_of_the_table() {
        let to_device = |m: &Machine| m.pcie.to_device;
        let to_host = |m: &Machine| m.pcie.to_host;
        // Two stores; one delivery.
        assert_eq!(units(&mut machine(Interface::MMIO), 1, 64, to_device), 2);
        assert_eq!(units(&mut machine(Interface::MMIO), 1, 64, to_host), 1);
        // Doorbell and completion; request, bookkeeping and delivery.
        assert_eq!(units(&mut machine(Interface::doorbell(1)), 1, 64, to_device), 2);
        assert_eq!(units(&mut machine(Interface::doorbell(1)), 1, 64, to_host), 3);
        // Nothing on PCIe.
        assert_eq!(units(&mut machine(Interface::upi(1)), 1, 64, to_device), 0);
        assert_eq!(units(&mut machine(Interface::upi(4)), 4, 64, |m| m.endpoint.reads), 4);
        assert_eq!(units(&mut machine(Interface::upi(4)), 4, 64, |m| m.endpoint.writes), 5);
    }

    proptest! {
        #[test]
        fn lines_are_conserved(batch in 1u64..64, bytes in 0u64..4096) {
            for interface in [Interface::MMIO, Interface::doorbell(batch), Interface::upi(batch), Interface::upi_direct(batch)] {
                let batch = interface.batch;
                let mut machine = machine(interface);
                let all = batch * lines(bytes);
                prop_assert_eq!(units(&mut machine, batch, bytes, |m| m.nics[0].send), all);
                prop_assert_eq!(units(&mut machine, batch, bytes, |m| m.nics[1].receive), all);
                if interface.mode.coherent() {
                    prop_assert_eq!(units(&mut machine, batch, bytes, |m| m.endpoint.to_fpga), all * LINE);
                    prop_assert_eq!(units(&mut machine, batch, bytes, |m| m.endpoint.to_host), (all + 1) * LINE);
                }
            }
        }

        #[test]
        fn a_larger_batch_never_costs_a_core_more(batch in 1u64..64) {
            for of in [Interface::doorbell, Interface::upi, Interface::upi_direct] {
                let each = |batch: u64| {
                    let machine = machine(of(batch));
                    machine.post(64).as_secs_f64() + machine.close().as_secs_f64() / batch as f64
                };
                prop_assert!(each(batch + 1) <= each(batch));
            }
        }
    }
}
