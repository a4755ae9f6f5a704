//! What became of a meta command or of a binary request, as a store says it and a reply needs it.

/// What `mg` found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetaHit {
    /// The client's own 32 bits.
    pub client_flags: u32,
    /// The version.
    pub version: u64,
    /// Seconds to live after this command, `None` for ever.
    pub ttl: Option<u32>,
    /// Seconds to live before this command: what `t` shows where it stands before `T` or `N`.
    pub ttl_before: Option<u32>,
    /// Seconds since the last access before this one.
    pub idle_s: u32,
    /// Fetched before this command.
    pub fetched: bool,
    /// This client shall recache the item.
    pub won: bool,
    /// The item is stale.
    pub stale: bool,
    /// Another client has already won.
    pub win_sent: bool,
}

/// What `ms` did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetaStored {
    /// Stored under this version.
    Stored {
        /// The item's new version.
        version: u64,
    },
    /// The condition of a mode was not met.
    NotStored,
    /// Another version is there.
    Exists,
    /// No item to compare with.
    NotFound,
}

/// What `md` did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetaDeleted {
    /// Deleted, or marked stale.
    Deleted,
    /// Another version is there.
    Exists,
    /// No such key.
    NotFound,
}

/// What `ma` did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetaCounted {
    /// The item holds a new number.
    Counted {
        /// That number.
        number: u64,
        /// The item's new version.
        version: u64,
        /// Seconds to live after this command, `None` for ever.
        ttl: Option<u32>,
        /// Seconds to live before it: what `t` shows where it stands before `T` or `N`.
        ttl_before: Option<u32>,
        /// The item was made by `N`; memcached answers that even where `q` is set.
        created: bool,
    },
    /// The item could not be made.
    NotStored,
    /// Another version is there.
    Exists,
    /// No such key.
    NotFound,
}

/// What `me` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaDebug {
    /// Seconds to live, `None` for ever.
    pub ttl: Option<u32>,
    /// Seconds since the last access.
    pub idle_s: u32,
    /// The version.
    pub version: u64,
    /// Fetched before.
    pub fetched: bool,
    /// The size class.
    pub class: u32,
    /// Bytes that the item takes in all.
    pub size: u64,
}
