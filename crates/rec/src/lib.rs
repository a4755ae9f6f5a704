//! Recommendation inference of the DLRM family on one core: embedding tables, memoised reduction, small MLPs.
//!
//! ```text
//!  ids ──▶ memo::Plan::keys ──▶ reduce ──────▶ interaction ──▶ top MLP ──▶ score
//!          fewer rows for the    rows of Table   ▲
//!          same sum              in flight       │
//!  dense features ──▶ bottom MLP ────────────────┘
//! ```
//! A [`Table`] holds rows in a [`RowFormat`]; [`Bags`] say which rows a batch of queries sums; [`reduce()`] sums them with many rows in flight.
//! A [`Model`] puts tables and MLPs together. Nothing here knows sockets or threads, nor a clock but the one that a caller brings to
//! time stages; a caller brings scratch memory too, and gets scores.
//!
//! `docs/design/007-rec.md` says why it is built so and what is promised.

pub mod bags;
pub mod features;
pub mod format;
pub mod kernel;
pub mod lists;
pub mod manifest;
pub mod memo;
pub mod mlp;
pub mod model;
pub mod reduce;
pub mod request;
pub mod synth;
pub mod table;
pub mod tensors;

pub use bags::{Bags, BagsError};
pub use features::{Dictionary, Unknown};
pub use format::RowFormat;
pub use kernel::Kernel;
pub use lists::Lists;
pub use memo::{Plan, Planned};
pub use mlp::{Activation, Layer, Mlp};
pub use model::{
    Access, Batch, InputError, Interaction, LoadError, LoadOptions, Model, Scratch, Sparse, Stage, Stages,
    Synth, load,
};
pub use reduce::{Pooling, Tuning, reduce, reduce_touching, reduce_with};
pub use table::Table;
