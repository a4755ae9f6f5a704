//! The published systems: how their machines are composed, and their experiments.
//!
//! | module | system |
//! |---|---|
//! | [`offpath`] | off-path SmartNIC study (OSDI 2023): RDMA paths through a NIC with an SoC behind a PCIe switch |

pub mod offpath;
