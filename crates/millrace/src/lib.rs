//! millrace, the program: node wiring, load generator, probe, demo.

pub mod node;
pub mod registers;
pub mod up;
