//! The side that listens.

use super::TlsError;
use super::files::{Stamp, authorities, certified, provider};
use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often files are looked at, at most.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The oldest version that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2, for clients that have no newer one.
    Tls12,
    /// TLS 1.3.
    #[default]
    Tls13,
}

/// What a listener's certificate is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFiles {
    /// The certificate, and those between it and its authority, in PEM.
    pub cert: PathBuf,
    /// Its key, in PEM. It may be the same file.
    pub key: PathBuf,
    /// Authorities one of which must have signed the certificate of each client; none: clients are not asked for one.
    pub client_ca: Option<PathBuf>,
    /// The oldest version that is spoken.
    pub min_version: MinVersion,
}

impl ServerFiles {
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.cert, &self.key].into_iter().chain(&self.client_ca)
    }

    fn load(&self, alpn: &[&[u8]]) -> Result<ServerConfig, TlsError> {
        let certified = certified(&self.cert, &self.key)?;
        let versions: &[_] = match self.min_version {
            MinVersion::Tls13 => &[&TLS13],
            MinVersion::Tls12 => &[&TLS13, &TLS12],
        };
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .expect("the provider has cipher suites for both versions");
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
                let verifier =
                    verifier.map_err(|error| TlsError::BadCertificate(path.clone(), error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        // Sessions are resumed by tickets alone: nothing is kept here for clients. New files mean new keys for tickets, so that who was let in by
        // authorities of before is asked again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Ticketer::new().expect("the system has random numbers");
        Ok(config)
    }
}

/// TLS of a listener. Files that change are used for handshakes from then on.
pub struct ServerTls {
    files: ServerFiles,
    alpn: &'static [&'static [u8]],
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// Of the files when they were last read.
    stamp: Stamp,
    looked: Instant,
    reloads: u64,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ServerTls {
    /// With the certificate, key and authorities of these files; `alpn` are the protocols that are spoken over it, as clients may name them.
    ///
    /// # Errors
    /// Names the file, and says what is wrong and what to do.
    pub fn new(files: &ServerFiles, alpn: &'static [&'static [u8]]) -> Result<Arc<ServerTls>, TlsError> {
        // First the stamp: what changes while they are read is seen at the next look.
        let stamp = Stamp::of(files.paths());
        let config = Arc::new(files.load(alpn)?);
        let current = Mutex::new(Current { config, stamp, looked: Instant::now(), reloads: 0 });
        Ok(Arc::new(ServerTls { files: files.clone(), alpn, current }))
    }

    /// The same files, for other protocols over TLS.
    ///
    /// # Errors
    /// As [`ServerTls::new`].
    pub fn speaking(&self, alpn: &'static [&'static [u8]]) -> Result<Arc<ServerTls>, TlsError> {
        ServerTls::new(&self.files, alpn)
    }

    /// Where the certificate is.
    pub fn files(&self) -> &ServerFiles {
        &self.files
    }

    /// What the next handshake goes by.
    pub fn config(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= LOOK_INTERVAL {
            self.look(&mut current);
        }
        current.config.clone()
    }

    /// Reads the files again if they have changed; true if they are in use now.
    pub fn reload(&self) -> bool {
        self.look(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How often changed files were taken into use.
    pub fn reloads(&self) -> u64 {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).reloads
    }

    fn look(&self, current: &mut Current) -> bool {
        current.looked = Instant::now();
        let stamp = Stamp::of(self.files.paths());
        if stamp == current.stamp {
            return false;
        }
        // Also if they cannot be used: it is said once for each change.
        current.stamp = stamp;
        match self.files.load(self.alpn) {
            Ok(config) => {
                current.config = Arc::new(config);
                current.reloads += 1;
                log::info!("the certificate in {} is in use now", self.files.cert.display());
                true
            }
            Err(error) => {
                log::warn!(
                    "the certificate that was in use stays, as what replaced its files cannot be used: {error}"
                );
                false
            }
        }
    }
}
