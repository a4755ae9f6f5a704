//! The key-value store.
