//! Certificates and keys, read from PEM files; and what tells that files were changed.

use super::TlsError;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Nothing longer is read; a bundle of all public authorities has a quarter of a megabyte.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Where rustls' operations come from: the one provider of this program.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error| TlsError::Io(path.to_owned(), error);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::TooLong(path.to_owned()));
    }
    Ok(bytes)
}

/// All certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| TlsError::BadPem(path.to_owned(), error.to_string()))?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    Ok(found)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey(path.to_owned()),
        // What the library says of it may quote the text.
        _ => TlsError::BadPem(path.to_owned(), "a damaged line, or an end that does not fit".to_owned()),
    })
}

/// A certificate with those between it and its authority, and its key. Says so in the log if others may read the key.
pub(super) fn certified(cert: &Path, key_file: &Path) -> Result<CertifiedKey, TlsError> {
    let (chain, key) = (certificates(cert)?, key(key_file)?);
    warn_if_readable(key_file);
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::OtherKey(cert.to_owned(), key_file.to_owned()),
        rustls::Error::InvalidCertificate(why) => {
            TlsError::BadCertificate(cert.to_owned(), format!("{why:?}"))
        }
        _ => TlsError::BadKey(key_file.to_owned(), "it is damaged, or of another kind".to_owned()),
    })
}

/// The authorities of a file, each of which can be one.
pub(super) fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store
            .add(certificate)
            .map_err(|error| TlsError::BadCertificate(path.to_owned(), error.to_string()))?;
    }
    Ok(store)
}

fn warn_if_readable(path: &Path) {
    let mode = fs::metadata(path).map(|about| about.mode() & 0o777);
    if let Ok(mode) = mode
        && mode & 0o077 != 0
    {
        log::warn!(
            "the private key {} can be read by others (mode {mode:o}): chmod 600 it, and think of it as known",
            path.display()
        );
    }
}

/// What changes when files do: their identity, length and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp(Vec<Option<[i64; 6]>>);

impl Stamp {
    /// Of these files, now.
    pub(super) fn of<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Stamp {
        let stamp = |path: &PathBuf| {
            let about = fs::metadata(path).ok()?;
            Some([
                about.ino() as i64,
                about.size() as i64,
                about.mtime(),
                about.mtime_nsec(),
                about.ctime(),
                about.ctime_nsec(),
            ])
        };
        Stamp(files.into_iter().map(stamp).collect())
    }
}
