//! What a method says of itself, by the options of `millrace/options.proto`: in generated code constants.

pub use codec::schema::{Order, Place, Places};
pub use codec::table::Kind as KeyKind;

use super::key::Key;

/// As [`codec::schema::MethodOptions`], without a schema. What a file says that has none of this is [`MethodOptions::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodOptions {
    /// Where a request has its key: what a balancer goes by that is for keys, and `order` and `cacheable`.
    pub key: Option<Key>,
    /// Replies may be kept.
    pub cacheable: Option<Cacheable>,
    /// A call whose connection broke may be sent again.
    pub idempotent: bool,
    /// Which calls run one after the other.
    pub order: Order,
    /// Where it may run.
    pub places: Places,
    /// Its handler runs as one transaction.
    pub transaction: bool,
}

/// How long a reply may be kept, and what ends that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cacheable {
    /// 1 to [`codec::schema::MAX_TTL_SECONDS`].
    pub ttl_seconds: u32,
    /// Methods of the same service, by their place in it.
    pub invalidated_by: &'static [usize],
}

impl MethodOptions {
    /// Nothing is said.
    pub const NONE: MethodOptions = MethodOptions {
        key: None,
        cacheable: None,
        idempotent: false,
        order: Order::None,
        places: Places::ANY,
        transaction: false,
    };
}
