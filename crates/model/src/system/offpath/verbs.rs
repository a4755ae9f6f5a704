//! What an RDMA operation does to the machine, step by step.
//!
//! * READ: request to the server's NIC; NIC units; PCIe read (the switch is passed twice); reply.
//! * WRITE: data to the NIC, posted towards memory; the acknowledgement leaves when they have passed the switch: one pass, not two.
//!   What memory then does costs it time and delays nobody but later operations.
//!
//! A message beyond the network's MTU is so many packets under way at once; each takes a NIC unit. Requests and acknowledgements are a packet
//! without payload.

use super::machine::{Machine, Side};
use crate::kernel::{ProgramId, Step};

/// One-sided operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// From the server's memory.
    Read,
    /// Into it.
    Write,
}

impl Verb {
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
        let client = self.clients[client];
        let packets = self.port.packets(bytes);
        let payload = bytes.div_ceil(packets);
        let packet = match verb {
            Verb::Read => {
                let mut steps = self.nic_reads(side, payload);
                steps.extend([self.port.reply(payload), client.port.reply(payload)]);
                steps
            }
            Verb::Write => {
                let (mut steps, memory) = (vec![], self.nic_writes(side, payload));
                steps.extend([client.port.send(payload), self.port.send(payload), self.nic(side)]);
                steps.extend(memory.0);
                let memory = self.kernel.program("memory", memory.1);
                steps.push(Step::Fork(memory));
                steps
            }
        };
        let packet = self.kernel.program(verb.name(), packet);
        let mut steps = self.post(&client).to_vec();
        match verb {
            Verb::Read => {
                steps.extend([client.port.send(0), self.port.send(0), self.nic(side)]);
                steps.push(Step::Each(packet, packets as u32));
            }
            Verb::Write => {
                steps.push(Step::Each(packet, packets as u32));
                steps.extend([self.port.reply(0), client.port.reply(0)]);
            }
        }
        steps.extend([self.client_nic(&client), self.notice()]);
        self.kernel.program(verb.name(), steps)
    }
}
