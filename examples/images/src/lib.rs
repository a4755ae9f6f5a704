//! The secure image service (RPCAcc IV-G to IV-H): a user's picture comes in, is authorised on the host, and goes out compressed and encrypted, by a
//! compute unit while there is one, by the host while there is none.
//!
//! | file | what it is |
//! |---|---|
//! | `service` | the handler, which does not say where its work is done, and its kernels |
//! | `served` | a node that serves it over TCP, shared memory and gRPC |
//! | `client` | a client of it over any of them |
//! | `pictures` | pictures, and whether what came back is one of them |
//! | `check`, `replace`, `cores`, `crossed` | commands: every picture checked; the unit taken away and given back; throughput against host cores; what crosses, beside what crosses alone |

pub mod check;
pub mod client;
pub mod cores;
pub mod crossed;
pub mod pictures;
pub mod replace;
pub mod served;
pub mod service;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    codec::include_proto!("photo");
}
