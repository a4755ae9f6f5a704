//! Parts of machines: each adds its resources to a kernel and says, as steps, what a transfer or a piece of work does to it.
//!
//! A component has no state beside its resources: queueing is the kernel's. Its head comment names its discipline and its sources.

mod accelerator;
pub mod coherent;
mod coherent_fpga;
mod copy_engine;
mod core_memory;
mod cores;
pub mod ddio;
mod descriptor_dma;
mod device_dma;
mod doorbell;
mod memory;
mod network;
mod network_box;
mod nvm;
mod pcie_link;
mod pipeline;
mod switch;

pub use accelerator::Accelerator;
pub use coherent::Coherent;
pub use coherent_fpga::{CoherentFpga, LINE};
pub use copy_engine::CopyEngine;
pub use core_memory::CoreMemory;
pub use cores::Cores;
pub use descriptor_dma::DescriptorDma;
pub use device_dma::DeviceDma;
pub use doorbell::{Doorbell, WORK_REQUEST};
pub use memory::Memory;
pub use network::Network;
pub use network_box::NetworkBox;
pub use nvm::Nvm;
pub use pcie_link::{PcieLink, Towards};
pub use pipeline::Pipeline;
pub use switch::Switch;
