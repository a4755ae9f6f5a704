//! What a gateway counts of its own; calls and frames are the monitor's, as of any client ([`crate::rpc::metrics`]).

use crate::admin::health::Beat;
use crate::metrics::Page;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

crate::families! { "millrace_gateway_";
    CONNECTIONS gauge "connections" count [] "Connections of gRPC clients open.";
    ACCEPTED counter "connections_accepted" count [] "Connections accepted.";
    REJECTED counter "connections_rejected" count [] "Connections closed at once: all others had calls under way.";
    CONNECTED gauge "server_connected" count [] "Whether the fabric server is connected.";
    CONNECTS counter "server_connects" count [] "Times that the fabric server was connected.";
    LOOKUPS counter "cache_lookups" count [] "Calls of cacheable methods for which the in-network cache was asked first.";
    KEPT counter "cache_hits" count [] "Of these answered with a reply that it kept: the server did not hear of them.";
    PASSED_BY counter "cache_passed_by" count [] "Calls of cacheable methods that went to the server at once: the cache did not answer the last lookup.";
    SILENT gauge "cache_silent" count [] "Whether the cache did not answer the last lookup.";
    REPEATED counter "calls_repeated" count [] "Calls of idempotent methods sent again: the connection to the server broke under them.";
}

/// How a gateway stands; written by its thread, read by its port.
#[derive(Debug, Default)]
pub struct Standing {
    /// Connections open.
    pub open: AtomicU64,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections closed at once.
    pub rejected: AtomicU64,
    /// The fabric server is connected.
    pub is_connected: AtomicBool,
    /// Times that it was.
    pub connects: AtomicU64,
    /// Calls for which the cache was asked.
    pub lookups: AtomicU64,
    /// Calls that it had the reply to.
    pub kept: AtomicU64,
    /// Calls that went past a silent cache.
    pub passed_by: AtomicU64,
    /// The cache does not answer.
    pub is_silent: AtomicBool,
    /// Calls sent again.
    pub repeated: AtomicU64,
    /// The thread turns.
    pub beat: Beat,
}

impl Standing {
    /// Adds what is counted.
    pub fn collect(&self, page: &mut Page) {
        for (family, counter) in [
            (CONNECTIONS, &self.open),
            (ACCEPTED, &self.accepted),
            (REJECTED, &self.rejected),
            (CONNECTS, &self.connects),
            (LOOKUPS, &self.lookups),
            (KEPT, &self.kept),
            (PASSED_BY, &self.passed_by),
            (REPEATED, &self.repeated),
        ] {
            page.add(family, &[], counter.load(Ordering::Relaxed));
        }
        page.add(SILENT, &[], self.is_silent.load(Ordering::Relaxed));
        page.add(CONNECTED, &[], self.is_connected.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;

    #[test]
    fn a_gateway_shows_all_its_families() {
        let mut page = Page::default();
        Standing::default().collect(&mut page);
        let text = page.text();
        lint::hold(&text);
        assert!(FAMILIES.iter().all(|family| text.contains(&format!("# TYPE {} ", family.name))), "{text}");
    }
}
