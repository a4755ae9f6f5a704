//! Certificates for tests, made when they run; nothing of them is kept in the repository.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};

/// An authority, and the folder that its files lie in.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    name: &'static str,
}

/// A certificate's file and its key's.
#[derive(Clone, Debug)]
pub struct Made {
    /// The certificate.
    pub cert: PathBuf,
    /// The key, which only its owner may read.
    pub key: PathBuf,
}

fn days_from_now(days: i64) -> OffsetDateTime {
    OffsetDateTime::now_utc() + Duration::days(days)
}

impl Authority {
    /// A new one; its certificate is `NAME.pem` in this folder.
    ///
    /// # Panics
    /// The folder cannot be written.
    pub fn new(folder: &Path, name: &'static str) -> Authority {
        fs::create_dir_all(folder).expect("a folder for certificates");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = days_from_now(-30);
        let key = KeyPair::generate().expect("random numbers");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let made = Authority { issuer, folder: folder.to_owned(), name };
        fs::write(made.file(), made.issuer.pem()).expect("the folder can be written");
        made
    }

    /// The file with its certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.join(format!("{}.pem", self.name))
    }

    /// A certificate for servers and clients on loopback, and its key: `NAME.pem`, `NAME.key`.
    ///
    /// # Panics
    /// The folder cannot be written.
    pub fn issue(&self, name: &str) -> Made {
        self.issue_for(name, &["localhost", "127.0.0.1", "::1"], 30)
    }

    /// The same for these hosts and URIs, good until so many days from now.
    ///
    /// # Panics
    /// The folder cannot be written.
    pub fn issue_for(&self, name: &str, hosts: &[&str], days: i64) -> Made {
        let (uris, hosts): (Vec<&str>, Vec<&str>) =
            hosts.iter().copied().partition(|host| host.contains("://"));
        let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(hosts).expect("names");
        let uri = |uri: &str| SanType::URI(uri.try_into().expect("a URI"));
        params.subject_alt_names.extend(uris.into_iter().map(uri));
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = days_from_now(-20);
        params.not_after = days_from_now(days);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("random numbers");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let place = |ending| self.folder.join(format!("{name}.{ending}"));
        let made = Made { cert: place("pem"), key: place("key") };
        // Beside, and renamed: a server that looks meanwhile finds the old one or the new one.
        write(&made.key, &key.serialize_pem(), 0o600);
        write(&made.cert, &certificate.pem(), 0o644);
        made
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).expect("the folder can be written");
    fs::set_permissions(&beside, fs::Permissions::from_mode(mode)).expect("ours");
    fs::rename(&beside, path).expect("the folder can be written");
}
