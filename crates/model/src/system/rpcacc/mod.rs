//! The RPC accelerator on a PCIe NIC, and its rivals: Protobuf messages between packets and C++ objects.
//!
//! ```text
//!   network ══ transport ─ deserialisers ─┬─ PCIe ── host memory ── cores, copy engines
//!                        ─ serialisers   ─┤
//!                        ─ compute units ─┴─ off-chip memory
//! ```
//! What decides is how often a message crosses PCIe and in how many transactions: fields one by one or a buffer at a time, pointers
//! followed from afar or by a core near by, and whether a field goes at once to where it is needed.
//!
//! Source: "RPCAcc: A High-Performance and Reconfigurable PCIe-attached RPC Accelerator" (arXiv 2411.07632); ProtoACC (MICRO 2021) for the rival.
//!
//! Files: [`shape`] what a message looks like, [`traffic`] what it makes an accelerator do, [`messages`] the evaluated ones, [`host`] software and its
//! costs, [`accelerator`] ours and the rival that walks, [`onchip`], [`lanes`] of both, [`smartnic`], [`mod@image`] the service, [`experiments`],
//! [`mod@setting`] for the planner.
//!
//! Not modelled: the transport's own limits (its line rate is the network's), the TLB, chunks and their free lists (0.68 % of the time, the authors say),
//! memory bandwidth of host and board.

pub mod accelerator;
pub mod experiments;
pub mod host;
pub mod image;
pub mod lanes;
pub mod mean;
pub mod messages;
pub mod onchip;
pub mod setting;
pub mod shape;
pub mod smartnic;
pub mod traffic;

pub use setting::setting;
