//! A requester: a machine with cores, a NIC and a cable.
//!
//! What its software does for a request beside the posting itself takes a core, but is done while the request is under way.

use crate::component::{Cores, Doorbell, Network};
use crate::kernel::{Kernel, ProgramId, ResourceId, Service, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use base::Picos;

/// A client machine, or several equal ones as one of so many cores, NICs and cables.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Its cores.
    pub cores: Cores,
    /// Its NIC.
    pub nic: ResourceId,
    /// Its cable.
    pub port: Network,
    doorbell: Doorbell,
    software: ProgramId,
    pcie: Picos,
    nic_latency: Picos,
    nic_unit: Picos,
    poll: Picos,
    receive: Picos,
}

/// What makes so many cables: see [`super::machine::port`].
type Cables = fn(&Platform, &mut Kernel, &str, (&str, u64)) -> Result<Network, LoadError>;

impl Client {
    pub(super) fn new(
        platform: &Platform,
        kernel: &mut Kernel,
        name: &str,
        machines: u64,
        cables: Cables,
    ) -> Result<Client, LoadError> {
        let clock = platform.value("client.clock", Dimension::Frequency)?;
        let cores = platform.count("client.cores")? * machines;
        let cores = Cores::new(kernel, &format!("{name} cores"), cores, clock);
        let software = platform.value("client.software", Dimension::Cycles)?;
        Ok(Client {
            cores,
            nic: kernel.resource(&format!("{name} nic"), machines as usize),
            port: cables(platform, kernel, &format!("{name} port"), ("network.client_bandwidth", machines))?,
            doorbell: Doorbell { build: 0.0, mmio: platform.value("client.post", Dimension::Cycles)? },
            software: kernel.program("client software", [cores.work(software)]),
            pcie: platform.span("client.pcie_latency")?,
            nic_latency: platform.span("client.nic_latency")?,
            nic_unit: platform.service("client.nic_rate", 1)?,
            poll: platform.span("client.poll")?,
            receive: platform.span("client.receive")?,
        })
    }

    /// Posts a request, with a doorbell for each `batch`, up to its NIC having sent it.
    pub(super) fn post(&self, batch: u64) -> Vec<Step> {
        let fetch = if Doorbell::fetches(batch) { Picos(2 * self.pcie.0) } else { Picos::ZERO };
        vec![
            self.cores.work(self.doorbell.cycles(batch)),
            Step::Fork(self.software),
            Step::Wait(self.pcie.plus(fetch)),
            self.through_nic(),
        ]
    }

    /// Posts a message, up to its being on the cable.
    pub(super) fn posts(&self, bytes: u64) -> Vec<Step> {
        let mut steps = self.post(1);
        steps.push(self.port.send(bytes));
        steps
    }

    /// Takes the answer off the cable.
    pub(super) fn takes(&self, bytes: u64) -> Vec<Step> {
        let mut steps = vec![self.port.reply(bytes)];
        steps.extend(self.receive());
        steps
    }

    fn through_nic(&self) -> Step {
        let service = Service::Fixed(self.nic_unit);
        Step::Use { at: self.nic, service, units: 1, after: self.nic_latency }
    }

    /// A response comes in, and the client notices.
    pub(super) fn notice(&self) -> Vec<Step> {
        vec![self.through_nic(), Step::Wait(self.pcie.plus(self.poll))]
    }

    /// A message comes in that a receive was posted for, and the client's software has it.
    pub(super) fn receive(&self) -> Vec<Step> {
        vec![self.through_nic(), Step::Wait(self.pcie.plus(self.poll).plus(self.receive))]
    }
}
