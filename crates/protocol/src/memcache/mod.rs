//! The memcached protocol: text and meta commands.
