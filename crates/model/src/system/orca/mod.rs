//! ORCA (RAMBDA): a cache-coherent accelerator that serves requests which a plain RDMA NIC writes into rings of host memory, without a core.
//!
//! ```text
//!   clients ══ network ══ NIC ─ PCIe ─ home agent ─ cache, memory, NVM
//!                          └ SoC         │      └── cores
//!                                        └ interconnect ─ coherence controller ─ accelerator ─ (local memory)
//! ```
//! Who serves: host cores (two-sided RPC), the SmartNIC's cores with a cache of the host's data, the accelerator with its data in host memory, in
//! local DDR4 (LD) or in local HBM2 (LH).
//!
//! Source: Yuan et al., "RAMBDA: RDMA-driven Acceleration Framework for Memory-intensive µs-scale Datacenter Applications" (HPCA 2023); ORCA
//! is its name in the review that setups and results are numbered after.
//!
//! Files: [`machine`] the parts and the ways between them, [`serve`] what each server does for a piece of work,
//! [`clients`] instances that keep batches under way, [`transactions`] chains, [`reduction`] embedding rows, [`parts`] for the planner, [`experiments`].

pub mod clients;
pub mod experiments;
pub mod machine;
pub mod parts;
pub mod reduction;
pub mod serve;

pub mod transactions;
