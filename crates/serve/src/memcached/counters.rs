//! What edges of a node, or workers of a proxy, count. One relaxed add per turn and counter; readers see a recent value.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// Counters of connections and bytes, shared by all edges.
        #[derive(Debug, Default)]
        pub struct NetCounters { $($(#[$doc])* pub $name: Counter),* }

        /// [`NetCounters`] at one moment.
        #[derive(Clone, Copy, Debug, Default, Serialize)]
        pub struct NetSnapshot { $($(#[$doc])* pub $name: u64),* }

        impl NetCounters {
            /// The values now.
            pub fn snapshot(&self) -> NetSnapshot {
                NetSnapshot { $($name: self.$name.read()),* }
            }
        }
    };
}

counters! {
    /// Connections open now.
    curr_connections
    /// Connections accepted since the start.
    total_connections
    /// Connections turned away because too many were open.
    rejected_connections
    /// Connections closed because they were silent for too long.
    idle_kicks
    /// Connections closed because they read their replies too slowly for the buffer limit.
    slow_reader_kicks
    /// Connections closed after a protocol error that leaves the stream unreadable.
    protocol_kicks
    /// Values refused because arriving values filled the buffer limit.
    buffer_refusals
    /// Bytes read from clients.
    bytes_read
    /// Bytes written to clients.
    bytes_written
    /// Read system calls.
    reads
    /// Write system calls.
    writes
    /// Times an edge woke up with something to do.
    wakeups
    /// Requests submitted to the engine.
    requests
    /// Times a pipeline was cut so that others had their turn.
    conn_yields
    /// UDP replies refused by the amplification cap.
    udp_refusals
    /// Shared-memory connections refused because their segments together would pass `shm.memory`.
    shm_refusals
    /// TLS handshakes that were completed.
    tls_handshakes
    /// Of these, handshakes that resumed a session of before.
    tls_resumed
    /// Connections closed because their TLS was none, or was not believed.
    tls_failures
    /// Connections closed because their handshake took too long, or others came while too many handshakes were under way.
    tls_timeouts
    /// Logins of clients.
    auth_cmds
    /// Of these, with another password than the user's.
    auth_errors
    /// Shared-memory connections open now.
    shm_connections
}

/// One counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `n` more.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// As [`Counter::add`]; whether these are the first.
    pub fn add_first(&self, n: u64) -> bool {
        self.0.fetch_add(n, Ordering::Relaxed) == 0
    }

    /// Counts one less; for gauges.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    /// The value now.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Back to zero.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
