//! Parts of machines: each adds its resources to a kernel and says, as steps, what a transfer or a piece of work does to it.
//!
//! A component has no state beside its resources: queueing is the kernel's. Its head comment names its discipline and its sources.

mod cores;
mod memory;
mod network;
mod pcie_link;

pub use cores::Cores;
pub use memory::Memory;
pub use network::Network;
pub use pcie_link::{PcieLink, Towards};
