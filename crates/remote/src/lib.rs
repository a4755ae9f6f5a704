//! One-sided access to memory of another process, in the words of the verbs specification.
//!
//! ```text
//!  owner: Regions ── lend(name, Region, Access) ──▶ Key
//!                                                    │ open(name)
//!  peer:  Queue ── post(Work), …, ring ── poll ──▶ Completion, …
//! ```
//! | module | one word |
//! |---|---|
//! | [`regions`] | what an owner lends, and takes back |
//! | [`work`] | works, and what comes of them |
//! | [`queue`] | the contract of all queues, and what they share |
//! | [`shm`] | on the same machine: the peer's processor does it, and no thread of the owner |
//! | [`calls`] | over any link of the fabric: the owner's edge does it |
//! | [`verbs`] | RDMA: cards do it at both ends |
//! | [`wire`] | records of works and results |
//!
//! The contract, which `tests/queues` holds every queue to, stands at the head of [`queue`].

pub mod calls;
pub mod queue;
pub mod regions;
pub mod shm;
pub mod verbs;
pub mod wire;
pub mod work;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    //! Generated.
    include!("../proto/memory.rs");
}

pub use queue::{OpenError, PostError, Queue};
pub use regions::{Access, Info, LendError, Regions};
pub use ring::shm::region::Region;
pub use work::{Address, Completion, Key, Local, Outcome, Verb, Work};
