//! A server with an accelerator before its handlers, and the same server without: every reply is the same, and every call has one outcome.

mod moves;
mod outcomes;
mod replies;
mod rig;
mod traces;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
mod proto {
    include!("../generated/picture.rs");
}
