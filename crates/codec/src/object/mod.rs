//! A decoded message in memory, reading it, and writing it.
//!
//! Shape: the layout is [`table::Message`](crate::table::Message)'s. Addresses in host memory are plain pointers, so that
//! the host reads a field with one load, as C++ objects would (RPCAcc III-B item 8: the accelerator translates, not the
//! host). Strings of a borrowed message point into the input.

mod array;
pub mod dynamic;
mod edit;
mod map;
mod raw;
mod reference;
mod slot;
mod view;

pub(crate) use array::grow_in;
pub use dynamic::{Dynamic, DynamicMut};
pub use edit::Edit;
pub use map::{Key, MapEdit, MapSlot};
pub use raw::{Object, Value};
pub use reference::{Addr, Ref};
pub use slot::Slot;
pub use view::{View, bytes_of, view_at};
