//! The kinds of services, by the word that config files have for each.

use crate::process::table::{Table, Wrong};
use crate::shell::Service;

/// Makes one as its table says; all keys but `kind` are its own.
type Make = fn(&Table<'_>) -> Result<Box<dyn Service>, Wrong>;

/// All of them.
pub const KINDS: &[(&str, Make)] = &[
    ("kv", |table| Ok(Box::new(crate::kv::Kv::of(table)?))),
    #[cfg(feature = "rec")]
    ("rec", |table| Ok(Box::new(crate::rec::Rec::of(table)?))),
    #[cfg(feature = "rpc")]
    ("rpc", |table| Ok(Box::new(crate::rpc::Rpc::of(table)?))),
    #[cfg(feature = "rpc")]
    ("gateway", |table| Ok(Box::new(crate::rpc::gateway::Gateway::of(table)?))),
    ("txn", |table| Ok(Box::new(crate::chain::Serving::of(table)?))),
    ("chain-controller", |table| Ok(Box::new(crate::chain::Controlling::of(table)?))),
    ("cache", |table| Ok(Box::new(crate::inc::Nodes::of(table)?))),
    ("proxy", |table| Ok(Box::new(crate::proxy::Proxying::of(table)?))),
];
