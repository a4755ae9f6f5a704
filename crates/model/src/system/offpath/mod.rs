//! The off-path SmartNIC: NIC units, a PCIe switch, a host behind it by PCIe and an SoC by an internal link.
//!
//! ```text
//!   client ══ network ══ NIC units ─ PCIe1 ─ switch ─ PCIe0 ─ host
//!                                              └─ internal link ─ SoC
//! ```
//! Paths: ① client and host, ② client and SoC. An RNIC is the same without switch and SoC.
//!
//! Source: Wei, Cheng, Liu, Chen, Chen: "Characterizing Off-path SmartNIC for Accelerating Distributed Systems" (OSDI 2023).
//!
//! Files: [`machine`] the parts, [`verbs`] what an RDMA operation does to them, [`experiments`].

pub mod experiments;
pub mod machine;
pub mod verbs;

/// Its platform.
pub const PLATFORM: &str = include_str!("../../../platforms/bluefield2-ib.toml");
