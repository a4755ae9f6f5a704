//! The off-path SmartNIC: NIC units, a PCIe switch, a host behind it by PCIe and an SoC by an internal link.
//!
//! ```text
//!   client ══ network ══ NIC units ─ PCIe1 ─ switch ─ PCIe0 ─ host
//!                                              └─ internal link ─ SoC, its DMA engine
//! ```
//! Paths: ① client and host, ② client and SoC, ③ SoC and host through the NIC, ③* SoC and host by the DMA engine. An RNIC is the same
//! without switch and SoC.
//!
//! Source: Wei, Cheng, Liu, Chen, Chen: "Characterizing Off-path SmartNIC for Accelerating Distributed Systems" (OSDI 2023).
//!
//! Files: [`machine`] puts together [`client`], [`nic`] and [`fabric`]; [`verbs`] what an operation of a client does to them, [`internal`] what one
//! between SoC and host does; [`disaggregated`] and [`replication`] two services and the ways to serve them, [`parts`] any other by messages;
//! [`experiments`].

pub mod client;
pub mod disaggregated;
pub mod experiments;
pub mod fabric;
pub mod internal;
pub mod machine;
pub mod nic;
pub mod parts;
pub mod replication;
pub mod verbs;
