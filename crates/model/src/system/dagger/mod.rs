//! Dagger: a NIC that does the whole RPC stack, in an FPGA of the processor's package.
//!
//! ```text
//!   client threads ═ UPI endpoint ═╦═ NIC ─┐             endpoint, UPI and PCIe
//!   server threads ═     or PCIe  ═╩═ NIC ─┘ loop-back    are shared by both NICs
//! ```
//! A core writes a request of one cache line to a buffer that it shares with the NIC; how the NIC learns of it and gets it is the
//! [`interface`]: MMIO, doorbells and DMA, or the coherent interconnect. All else is the same, which is what the study compares.
//!
//! What bounds it: one thread's work for each request and each batch; then, with more threads, the lines that the endpoint reads in a second.
//!
//! Source: Lazarev, Adit, Xiang, Zhang, Delimitrou: "Dagger: Towards Efficient RPCs in Cloud Microservices with Near-Memory Reconfigurable
//! NICs" (2020).
//!
//! Not modelled: two threads' contention for one core's issue slots (published scaling leaves little of it: 42 Mrps on two cores); bookkeeping of receive
//! buffers; empty polls, which take only what nobody else wants; a network beyond the loop-back.
//!
//! Files: [`interface`] modes, [`machine`] parts and pieces of a request's way, [`echo`] threads that call and reply, [`experiments`] with
//! `scaling.rs` and `sizes.rs`, [`setting()`] for the planner.

pub mod echo;
pub mod experiments;
pub mod interface;
pub mod machine;
mod scaling;
mod setting;
mod sizes;

pub use setting::setting;

/// Of all experiments here.
const PLATFORM: &str = "broadwell-fpga";

#[cfg(test)]
fn platform() -> crate::Platform {
    crate::platform::shipped::shipped(PLATFORM).expect("it is shipped").expect("its file is sound")
}
