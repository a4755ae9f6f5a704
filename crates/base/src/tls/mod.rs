//! TLS, the same for every listener and client: certificates and keys from files, and the layer between a socket and a protocol.
//!
//! ```text
//!  files (PEM) ──▶ ServerTls / ClientTls ──config()──▶ rustls ──▶ Session (nonblocking sockets), tokio-rustls, ureq
//!                     └ looked at again at a new handshake, once a second at most: a renewed certificate needs no restart
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `files` | certificates and keys read from PEM |
//! | `server` | who listens: its certificate, and whose clients it takes |
//! | `client` | who connects: whose servers it believes, and what it shows of itself |
//! | `names` | who a client is by its certificate |
//! | `session` | one connection, without a socket: bytes of TLS in and out, plain bytes in and out |
//! | `testing` | certificates that tests make (feature `test-certificates`) |
//!
//! TLS 1.3 unless 1.2 is asked for. Early data is not taken: it can be replayed. There is no renegotiation.
//!
//! Invariants:
//! 1. A key is never printed: neither `Debug` nor an error shows it.
//! 2. Files that cannot be used leave the certificate in use as it was, and connections that stand as they are.
//!
//! Errors: [`TlsError`], which names the file and says what to do.

mod client;
mod files;
mod names;
mod server;
mod session;
#[cfg(feature = "test-certificates")]
pub mod testing;
#[cfg(all(test, feature = "test-certificates"))]
mod tests;

pub use client::{ClientFiles, ClientTls};
pub use names::{NAMES_MAX, identities};
pub use server::{MinVersion, ServerFiles, ServerTls};
pub use session::{Received, Session, SessionError};

pub use rustls;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The first two bytes of a client that speaks TLS: a handshake record, of any version since 3.0.
pub const HELLO: [u8; 2] = [0x16, 0x03];

/// Why files give no TLS, and what to do.
#[derive(Debug)]
pub enum TlsError {
    /// The file cannot be read.
    Io(PathBuf, io::Error),
    /// The file is longer than any certificate or key.
    TooLong(PathBuf),
    /// What stands in the file is no PEM.
    BadPem(PathBuf, String),
    /// There is no certificate in it.
    NoCertificate(PathBuf),
    /// There is no private key in it.
    NoKey(PathBuf),
    /// A certificate cannot be used as what it is named for.
    BadCertificate(PathBuf, String),
    /// The key is of a kind that is not known, or damaged.
    BadKey(PathBuf, String),
    /// The key is not that of the certificate: certificate, key.
    OtherKey(PathBuf, PathBuf),
    /// Neither a file of authorities nor the wish not to check.
    NobodyBelieved,
    /// That is no name of a server, and no address.
    BadName(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Io(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            TlsError::TooLong(path) => {
                write!(f, "{} is too long for certificates: is it the file you meant?", path.display())
            }
            TlsError::BadPem(path, why) => {
                write!(
                    f,
                    "{} is no PEM ({why}): it is to have lines -----BEGIN …----- and -----END …-----",
                    path.display()
                )
            }
            TlsError::NoCertificate(path) => {
                write!(f, "{} has no -----BEGIN CERTIFICATE-----: name the file with the certificate, in PEM", path.display())
            }
            TlsError::NoKey(path) => {
                write!(
                    f,
                    "{} has no private key in PEM (-----BEGIN PRIVATE KEY-----); one that is encrypted with a password is not read",
                    path.display()
                )
            }
            TlsError::BadCertificate(path, why) => {
                write!(f, "a certificate in {} cannot be used: {why}", path.display())
            }
            TlsError::BadKey(path, why) => {
                write!(f, "the key in {} cannot be used: {why}; ECDSA (P-256, P-384), Ed25519 and RSA are known", path.display())
            }
            TlsError::OtherKey(cert, key) => {
                let (cert, key) = (cert.display(), key.display());
                write!(f, "{key} is not the key of the first certificate in {cert}: name the two that were made together")
            }
            TlsError::NobodyBelieved => f.write_str(
                "whose certificates are believed? Name the authorities (--tls-ca FILE), or say --tls-insecure to check none",
            ),
            TlsError::BadName(name) => write!(f, "{name:?} is neither a host's name nor an address"),
        }
    }
}

impl std::error::Error for TlsError {}

/// What a handshake's failure means to whoever runs the program, where rustls' words are for who wrote it.
pub fn explain(error: &rustls::Error) -> String {
    use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error, InvalidMessage};
    match error {
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the other side does not speak TLS".to_owned(),
        Error::InvalidCertificate(Certificate::UnknownIssuer) => {
            "its certificate is from an authority that is not believed here: name that authority's file"
                .to_owned()
        }
        Error::InvalidCertificate(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is an authority's own (as `openssl req -x509` makes them): sign one for the server with it".to_owned()
        }
        Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "its certificate has expired: renew it, or set this machine's clock".to_owned()
        }
        Error::InvalidCertificate(Certificate::NotValidYet | Certificate::NotValidYetContext { .. }) => {
            "its certificate is not valid yet: set this machine's clock".to_owned()
        }
        Error::InvalidCertificate(
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
        ) => {
            format!("{error}: connect to a name that its certificate has")
        }
        Error::NoCertificatesPresented => "the client shows no certificate, and one is asked for".to_owned(),
        Error::AlertReceived(Alert::CertificateRequired) => {
            "the server wants a certificate of the client: name one and its key".to_owned()
        }
        Error::AlertReceived(Alert::UnknownCA) => {
            "the other side does not believe the authority of this side's certificate".to_owned()
        }
        Error::AlertReceived(Alert::CertificateExpired) => {
            "the other side says that this side's certificate has expired".to_owned()
        }
        Error::AlertReceived(Alert::ProtocolVersion) => {
            "the other side wants another version of TLS".to_owned()
        }
        other => other.to_string(),
    }
}
