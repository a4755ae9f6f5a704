//! millrace, the program: node wiring, load generator, probe, demo.

pub mod admin;
pub mod demo;
pub mod inc;
pub mod lab;
pub mod load;
pub mod node;
pub mod probe;
pub mod proxy;
pub mod registers;
pub mod report;
pub mod repro;
pub mod rpc;
pub mod shm_client;
pub mod sim;
pub mod soak;
pub mod up;
pub mod wire;
