//! The server's NIC: units that requests go through, most of them for everybody, a few kept for one responder.
//!
//! Every request takes a unit once, as responder; what the SoC and the host send to each other through the NIC takes one more as requester. The
//! host's own requests also occupy contexts, one for the queue pair of each of its threads: a context takes its next request so long after the
//! one before, which delays nothing when it is idle. It also waits for the work requests of a doorbell batch that it must fetch.
//!
//! Source: Wei et al. (OSDI 2023), §4.1: units "mostly shared, a few reserved", which the authors conclude from 352 Mpps one by one and 195 together.

use super::machine::{Card, Side};
use crate::kernel::{Kernel, ResourceId, Service, Step, Tokens};
use crate::platform::{LoadError, Platform};
use base::Picos;

/// Units and contexts.
#[derive(Clone, Copy, Debug)]
pub struct Nic {
    card: Card,
    shared: ResourceId,
    reserved: [ResourceId; 2],
    contexts: ResourceId,
    free_contexts: Tokens,
    unit: Picos,
    context: Picos,
    /// Through it, beside the unit's time.
    pub latency: Picos,
}

impl Nic {
    pub(super) fn new(platform: &Platform, kernel: &mut Kernel, card: Card) -> Result<Nic, LoadError> {
        let count = |name: &str| platform.count(name).map(|count| count as usize);
        let units = [count("nic.shared_units")?, count("nic.host_units")?, count("nic.soc_units")?];
        let all = units.iter().sum();
        let contexts = platform.count("nic.host_contexts")?;
        let (servers, unit) = match card {
            Card::Rnic => (all, platform.service("nic.rnic_rate", all as u64)?),
            Card::Snic => (units[0], platform.service("nic.unit_rate", 1)?),
        };
        Ok(Nic {
            card,
            shared: kernel.resource("nic units", servers),
            reserved: [
                kernel.resource("nic units, host's", units[1]),
                kernel.resource("nic units, SoC's", units[2]),
            ],
            contexts: kernel.resource("nic contexts, host's", contexts as usize),
            free_contexts: kernel.tokens("nic contexts, host's", contexts),
            unit,
            context: platform.service("nic.host_request_rate", contexts)?,
            latency: platform.span("nic.latency")?,
        })
    }

    /// A request goes through the NIC for this side.
    pub(super) fn pass(&self, side: Side) -> Step {
        let service = Service::Fixed(self.unit);
        match self.card {
            Card::Rnic => Step::Use { at: self.shared, service, units: 1, after: self.latency },
            Card::Snic => Step::Either {
                first: self.reserved[side as usize],
                second: self.shared,
                service,
                units: 1,
                after: self.latency,
            },
        }
    }

    /// A reply leaves, or a response comes in: the same way, its unit having been counted with the request.
    pub(super) fn pass_by(&self) -> Step {
        Step::Wait(self.latency.plus(self.unit))
    }

    /// A request of the host's own begins: the context of its queue pair is taken for its interval and its share of a fetch.
    pub(super) fn begin(&self, kernel: &mut Kernel, fetch: Picos, batch: u64) -> [Step; 2] {
        let service = Service::Fixed(self.context.plus(Picos(fetch.0 / batch.max(1))));
        let interval = Step::Use { at: self.contexts, service, units: 1, after: Picos::ZERO };
        let occupied = kernel.program("context", [interval, Step::Give(self.free_contexts, 1)]);
        [Step::Take(self.free_contexts, 1), Step::Fork(occupied)]
    }
}
