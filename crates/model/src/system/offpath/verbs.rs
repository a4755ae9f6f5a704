//! What a client's RDMA operation does to the machine, step by step: paths ① and ②.
//!
//! * READ: request to the server's NIC; NIC units; PCIe read (the switch is passed twice); reply.
//! * WRITE: data to the NIC, posted towards memory; the acknowledgement leaves when they have passed the switch: one pass, not two.
//!   What memory then does costs it time and delays nobody but later operations.
//! * SEND/RECV: as a WRITE to a receive buffer; a core of that side takes it and posts the answer, which is a SEND back.
//!
//! A message beyond the network's MTU is so many packets under way at once. Requests and acknowledgements are a packet without payload. The
//! operation takes a NIC unit once; for an answer too, as a READ's response does.

use super::machine::{Machine, Side};
use crate::component::{Doorbell, WORK_REQUEST};
use crate::kernel::{ProgramId, Step};

/// One-sided operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// From the responder's memory.
    Read,
    /// Into it.
    Write,
}

impl Verb {
    /// Both.
    pub const ALL: [Verb; 2] = [Verb::Read, Verb::Write];

    /// As the paper writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Read => "READ",
            Verb::Write => "WRITE",
        }
    }
}

impl Machine {
    /// A one-sided operation of a client.
    pub fn one_sided(&mut self, client: usize, verb: Verb, side: Side, bytes: u64) -> ProgramId {
        self.one_sided_batch(client, verb, side, bytes, 1)
    }

    /// The same, posted with a doorbell for each `batch`.
    pub fn one_sided_batch(
        &mut self,
        client: usize,
        verb: Verb,
        side: Side,
        bytes: u64,
        batch: u64,
    ) -> ProgramId {
        let steps = self.one_sided_steps(client, verb, side, bytes, batch);
        self.kernel.program(verb.name(), steps)
    }

    /// Steps of one: for operations that are several of them after each other.
    pub(super) fn one_sided_steps(
        &mut self,
        client: usize,
        verb: Verb,
        side: Side,
        bytes: u64,
        batch: u64,
    ) -> Vec<Step> {
        let client = self.clients[client];
        let packets = self.port.packets(bytes);
        let payload = bytes.div_ceil(packets);
        let mut packet = vec![];
        match verb {
            Verb::Read => {
                packet.extend(self.fabric.nic_reads(side, payload));
                packet.extend([self.port.reply(payload), client.port.reply(payload)]);
            }
            Verb::Write => {
                packet.extend([client.port.send(payload), self.port.send(payload), self.nic.pass(side)]);
                packet.extend(self.fabric.nic_writes(&mut self.kernel, side, payload));
            }
        }
        let packet = Step::Each(self.kernel.program("packet", packet), packets as u32);
        let mut steps = client.post(batch);
        match verb {
            Verb::Read => {
                steps.extend([client.port.send(0), self.port.send(0), self.nic.pass(side), packet]);
            }
            Verb::Write => steps.extend([packet, self.port.reply(0), client.port.reply(0)]),
        }
        steps.extend(client.notice());
        steps
    }

    /// A request of a client that cores of a side answer.
    pub fn two_sided(&mut self, client: usize, side: Side, request: u64, reply: u64) -> ProgramId {
        let steps = self.two_sided_steps(client, side, (request, reply), (0.0, vec![]));
        self.kernel.program("SEND/RECV", steps)
    }

    /// Steps of one; `work` is cycles beside taking it and answering, and steps after them.
    pub(super) fn two_sided_steps(
        &mut self,
        client: usize,
        side: Side,
        (request, reply): (u64, u64),
        work: (f64, Vec<Step>),
    ) -> Vec<Step> {
        let client = self.clients[client];
        let mut steps = client.posts(request);
        steps.extend(self.arrives(side, request));
        steps.extend(self.answer(side, reply, work));
        steps.push(self.port.reply(reply));
        steps.extend(client.takes(reply));
        steps
    }

    /// A message comes over the cable, into that side's memory.
    pub(super) fn arrives(&mut self, side: Side, bytes: u64) -> Vec<Step> {
        let mut steps = vec![self.port.send(bytes), self.nic.pass(side)];
        steps.extend(self.fabric.nic_writes(&mut self.kernel, side, bytes.max(1)));
        steps
    }

    /// A core of that side takes a message, works so many cycles and posts the answer, `then` having been done; up to the NIC having it.
    pub(super) fn answer(&self, side: Side, reply: u64, work: (f64, Vec<Step>)) -> Vec<Step> {
        let mut steps = self.taken(side, work);
        steps.extend(self.departs(side, reply));
        steps
    }

    /// A core of that side takes a message and works so many cycles beside taking and posting, `then` is done.
    pub(super) fn taken(&self, side: Side, (cycles, then): (f64, Vec<Step>)) -> Vec<Step> {
        let processor = self.processor(side);
        let work = processor.cores.work(processor.echo + cycles);
        let mut steps = vec![Step::Wait(self.poll.plus(processor.wake)), work];
        steps.extend(then);
        steps
    }

    /// The NIC is told of an answer of that side, and has it. What fits is written with the request; the NIC reads what does not.
    pub(super) fn departs(&self, side: Side, reply: u64) -> Vec<Step> {
        let mut steps = self.fabric.mmio(side, WORK_REQUEST);
        if reply > WORK_REQUEST {
            steps.extend(self.fabric.nic_reads(side, reply));
        }
        steps.push(self.nic.pass_by());
        steps
    }

    /// A core of that side posts a request of its own, with a doorbell for each `batch`, up to the NIC having it.
    pub(super) fn posted_by(&self, side: Side, batch: u64) -> Vec<Step> {
        let processor = self.processor(side);
        let mut steps = vec![processor.cores.work(processor.doorbell.cycles(batch))];
        steps.extend(self.fabric.mmio(side, WORK_REQUEST));
        if Doorbell::fetches(batch) {
            steps.extend(self.fabric.nic_reads(side, WORK_REQUEST));
        }
        steps
    }
}
