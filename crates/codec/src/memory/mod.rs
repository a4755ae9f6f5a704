//! The two memories.
