//! The warning for a listener that other machines can reach. Every server of this program says it with these functions.

use fabric::link::Address;
use std::net::SocketAddr;

/// Warns if `address`, where `what` is served, is beyond loopback.
pub fn warn(what: &str, address: SocketAddr) {
    if let Some(warning) = warning(what, address) {
        log::warn!("{warning}");
    }
}

/// As [`warn`], of an address of the fabric.
pub fn warn_of(what: &str, address: &Address) {
    if let Address::Udp(endpoint) | Address::Tcp(endpoint) = address
        && let Ok(address) = endpoint.resolve()
    {
        warn(what, address);
    }
}

fn warning(what: &str, address: SocketAddr) -> Option<String> {
    (!address.ip().to_canonical().is_loopback()).then(|| {
        format!(
            "{what} on {address} can be reached from other machines, and is neither encrypted nor asks clients for a password: bind it to 127.0.0.1, \
             or see to it that only those whom you trust reach it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_not_loopback_is_warned_of() {
        let warned = |text: &str| warning("it", text.parse().expect("an address")).is_some();
        for text in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(!warned(text), "{text}");
        }
        for text in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1"] {
            assert!(warned(text), "{text}");
        }
    }
}
