//! The model against hand-made descriptor sets, and the table's rules on random schemas.

mod catalog;
mod golden;
mod layout;
mod model;
mod write;

pub(crate) use write::{EnumSpec, FieldSpec, FileSpec, MessageSpec, Syntax, descriptor_set};
