//! Between SoC and host: path ③ by RDMA, through the NIC, and path ③* by the SoC's DMA engine.
//!
//! | | PCIe1 | PCIe0 |
//! |---|---|---|
//! | ③, N bytes | ⌈N / 512⌉ + ⌈N / 128⌉ packets: in and out again | ⌈N / 512⌉ |
//! | ③* | – | ⌈N / 512⌉ |
//!
//! ③ takes a NIC unit as requester and one as responder. As data go in and out over PCIe1 whichever way they flow, READs and WRITEs together
//! get no more than either alone. Requests to the engine are given by SoC cores; what the host asks of it is passed on to them, so both
//! directions perform alike.
//!
//! Source: Wei et al. (OSDI 2023), §2.3, §3.3, Table 4.

use super::machine::{Machine, Side};
use super::verbs::Verb;
use crate::component::Doorbell;
use crate::kernel::{ProgramId, Step};
use base::Picos;

impl Machine {
    /// A one-sided operation of `from` on the other side's memory, through the NIC; posted with a doorbell for each `batch`.
    pub fn through_nic(&mut self, from: Side, verb: Verb, bytes: u64, batch: u64) -> ProgramId {
        let steps = self.through_nic_steps(from, verb, bytes, batch);
        self.kernel.program("③", steps)
    }

    /// Steps of one.
    pub(super) fn through_nic_steps(&mut self, from: Side, verb: Verb, bytes: u64, batch: u64) -> Vec<Step> {
        let to = from.other();
        let (source, target) = if verb == Verb::Read { (to, from) } else { (from, to) };
        let packets = self.port.packets(bytes);
        let payload = bytes.div_ceil(packets);
        let mut packet = self.fabric.nic_reads(source, payload);
        packet.extend(self.fabric.nic_writes(&mut self.kernel, target, payload));
        let packet = self.kernel.program("packet", packet);
        let mut steps = self.requested(from, batch);
        steps.extend([self.nic.pass(from), self.nic.pass(to), Step::Each(packet, packets as u32)]);
        steps.push(self.nic.pass_by());
        steps.push(Step::Wait(self.poll));
        steps
    }

    /// A message of `from` that the other side's cores answer, through the NIC.
    pub fn message_through_nic(&mut self, from: Side, bytes: u64, batch: u64) -> ProgramId {
        let to = from.other();
        let mut steps = self.requested(from, batch);
        steps.extend(self.fabric.nic_reads(from, bytes));
        steps.extend([self.nic.pass(from), self.nic.pass(to)]);
        steps.extend(self.fabric.nic_writes(&mut self.kernel, to, bytes.max(1)));
        steps.extend(self.answer(to, bytes, (0.0, vec![])));
        steps.extend(self.fabric.nic_writes(&mut self.kernel, from, bytes.max(1)));
        steps.push(Step::Wait(self.poll.plus(self.processor(from).wake)));
        self.kernel.program("③ SEND/RECV", steps)
    }

    /// Posted, and through the requester's context if it has one.
    fn requested(&mut self, from: Side, batch: u64) -> Vec<Step> {
        let mut steps = self.posted_by(from, batch);
        if from == Side::Host {
            let fetch = if Doorbell::fetches(batch) { self.fetch(from) } else { Picos::ZERO };
            steps.extend(self.nic.begin(&mut self.kernel, fetch, batch));
        }
        steps
    }

    /// How long the NIC waits for work requests in that memory when nothing else is there.
    fn fetch(&self, side: Side) -> Picos {
        let span = |step: &Step| match step {
            Step::Use { service, after, .. } | Step::Pick { service, after, .. } => {
                service.mean().plus(*after)
            }
            Step::Wait(span) => *span,
            _ => Picos::ZERO,
        };
        self.fabric
            .nic_reads(side, crate::component::WORK_REQUEST)
            .iter()
            .map(span)
            .fold(Picos::ZERO, Picos::plus)
    }

    /// A copy by the DMA engine: READ from the host's memory into the SoC's, WRITE the other way.
    pub fn by_dma(&mut self, verb: Verb, bytes: u64) -> ProgramId {
        let steps = self.by_dma_steps(verb, bytes);
        self.kernel.program("③*", steps)
    }

    /// Steps of one.
    pub(super) fn by_dma_steps(&mut self, verb: Verb, bytes: u64) -> Vec<Step> {
        let from = if verb == Verb::Read { Side::Host } else { Side::Soc };
        let mut steps = vec![self.processor(Side::Soc).cores.work(self.dma_post)];
        let fabric = self.fabric;
        steps.extend(self.dma.copy(&mut self.kernel, bytes, |k, piece| fabric.copied(k, from, piece)));
        steps.push(Step::Wait(self.poll));
        steps
    }
}
