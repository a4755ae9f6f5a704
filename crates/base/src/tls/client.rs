//! The side that connects.

use super::TlsError;
use super::files::{authorities, certified, provider};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Whose servers a client believes, and what it shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// Authorities one of which must have signed the server's certificate, in PEM. Nobody's are built in.
    pub ca: Option<PathBuf>,
    /// The own certificate (with those between it and its authority) and its key, for servers that ask for one.
    pub own: Option<(PathBuf, PathBuf)>,
    /// Any certificate is taken, and so is whoever stands between: for measurements and first tries.
    pub is_insecure: bool,
}

/// TLS of a client's connections; they resume each other's sessions.
#[derive(Clone)]
pub struct ClientTls {
    pub(super) config: Arc<ClientConfig>,
}

impl PartialEq for ClientTls {
    /// Equal are copies of one.
    fn eq(&self, other: &ClientTls) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl Eq for ClientTls {}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls")
    }
}

impl ClientTls {
    /// As these files say; `alpn` are the protocols that may be spoken over it, and none where any will do.
    ///
    /// # Errors
    /// Names the file, and says what is wrong and what to do.
    pub fn new(files: &ClientFiles, alpn: &[&[u8]]) -> Result<ClientTls, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("the provider has cipher suites for both versions");
        let builder = match &files.ca {
            _ if files.is_insecure => {
                let checks_nothing = Arc::new(ChecksNothing(provider()));
                builder.dangerous().with_custom_certificate_verifier(checks_nothing)
            }
            Some(path) => builder.with_root_certificates(authorities(path)?),
            None => return Err(TlsError::NobodyBelieved),
        };
        let mut config = match &files.own {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let own = SingleCertAndKey::from(certified(cert, key)?);
                builder.with_client_cert_resolver(Arc::new(own))
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Ok(ClientTls { config: Arc::new(config) })
    }

    /// What the next handshake goes by.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// The same without sessions that are resumed: each handshake is a whole one.
    #[must_use]
    pub fn without_resumption(&self) -> ClientTls {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = rustls::client::Resumption::disabled();
        ClientTls { config: Arc::new(config) }
    }
}

/// What a server's certificate must have: the host of HOST:PORT, or a host alone.
///
/// # Errors
/// It is no name, and no address.
pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    // A zone of IPv6 is this machine's, not the server's.
    let bare = bare.split('%').next().expect("a first part");
    ServerName::try_from(bare.to_owned()).map_err(|_| TlsError::BadName(host.to_owned()))
}

/// Takes any certificate, if who shows it has its key.
#[derive(Debug)]
struct ChecksNothing(Arc<CryptoProvider>);

impl ServerCertVerifier for ChecksNothing {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
