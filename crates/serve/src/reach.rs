//! Who listens beyond loopback is encrypted, or knows its clients, or was told that it may do without. Every server of this program asks here before it
//! serves.
//!
//! Why refuse: a port that was opened by mistake is found within hours, and whoever opened it does not read logs. `--insecure` is one word for whoever
//! has a network of its own.

use fabric::link::Address;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// `--insecure` was said to this process.
static IS_INSECURE: AtomicBool = AtomicBool::new(false);

/// What stands between a listener and those beyond this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing, and TLS could.
    None,
    /// Passwords, which TLS would hide.
    Passwords,
    /// Nothing, and TLS is for streams.
    Datagrams,
    /// TLS.
    Tls,
}

/// A listener that may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    what: String,
    at: String,
    protection: Protection,
}

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exposed { what, at, protection } = self;
        write!(f, "{what} on {at} could be reached from other machines, and ")?;
        f.write_str(match protection {
            Protection::Passwords => "clients would send it their passwords for all to read: ",
            _ => "would neither be encrypted nor ask clients who they are: ",
        })?;
        f.write_str(match protection {
            Protection::None | Protection::Passwords => {
                "name a certificate (--tls-cert FILE --tls-key FILE), listen on 127.0.0.1, "
            }
            _ => "datagrams have neither here: listen on 127.0.0.1, ",
        })?;
        f.write_str("or say --insecure if only those whom you trust can reach it")
    }
}

impl std::error::Error for Exposed {}

/// What `--insecure` says of this process.
pub fn set_insecure(is_insecure: bool) {
    IS_INSECURE.store(is_insecure, Ordering::Relaxed);
}

/// Whether `what` may be served at `address`. If it may only because this process was told so, that is logged.
///
/// # Errors
/// It may not; with what to do.
pub fn check(what: &str, address: SocketAddr, protection: Protection) -> Result<(), Exposed> {
    match exposed(what, address, protection) {
        None => Ok(()),
        Some(exposed) if IS_INSECURE.load(Ordering::Relaxed) => {
            let what_it_lacks = match exposed.protection {
                Protection::Passwords => "so passwords can be read on the way",
                _ => "and asks nobody who he is",
            };
            log::warn!(
                "--insecure: {} on {} can be reached from other machines, is not encrypted {what_it_lacks}",
                exposed.what,
                exposed.at
            );
            Ok(())
        }
        Some(exposed) => Err(exposed),
    }
}

/// As [`check`], of an address of the fabric. A name that cannot be resolved is no address to listen at, and somebody else says so.
///
/// # Errors
/// As [`check`].
pub fn check_of(what: &str, address: &Address, protection: Protection) -> Result<(), Exposed> {
    match address {
        Address::Udp(endpoint) | Address::Tcp(endpoint) => {
            endpoint.resolve().map_or(Ok(()), |address| check(what, address, protection))
        }
        Address::Tls(_) | Address::Memory(_) | Address::Shm(_) | Address::Unix(_) => Ok(()),
    }
}

fn exposed(what: &str, address: SocketAddr, protection: Protection) -> Option<Exposed> {
    let is_open = protection != Protection::Tls;
    let is_beyond = !address.ip().to_canonical().is_loopback();
    (is_open && is_beyond).then(|| Exposed { what: what.to_owned(), at: address.to_string(), protection })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_not_loopback_wants_protection() {
        let refused = |text: &str, protection| exposed("it", text.parse().expect("an address"), protection);
        for text in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(refused(text, Protection::None), None, "{text}");
        }
        for text in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1"] {
            let said = refused(text, Protection::None).expect(text).to_string();
            assert!(said.starts_with(&format!("it on {text}")) && said.contains("--tls-cert FILE"), "{said}");
            let said = refused(text, Protection::Datagrams).expect(text).to_string();
            assert!(!said.contains("--tls-cert") && said.ends_with("can reach it"), "{said}");
            let said = refused(text, Protection::Passwords).expect(text).to_string();
            assert!(
                said.contains("their passwords for all to read") && said.contains("--tls-cert FILE"),
                "{said}"
            );
            assert_eq!(refused(text, Protection::Tls), None);
        }
    }
}
