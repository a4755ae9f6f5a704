//! Certificates as commands are told of them: `--tls-cert` and its like of whoever listens, `--tls-ca` of whoever connects.

use base::tls::{ClientFiles, ClientTls, MinVersion, ServerFiles, ServerTls};
use clap::Args;
use fabric::link::TlsOptions;
use std::path::PathBuf;
use std::sync::Arc;

/// The names of [`TlsArgs`] in tables of config files.
pub const TLS_KEYS: &[&str] = &["tls_cert", "tls_key", "tls_client_ca", "tls_min_version"];

/// What a server is told.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct TlsArgs {
    /// Listen for TLS (1.3): the certificate, with those between it and its authority, in PEM. Files that change are used from the next handshake on
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    tls_cert: Option<PathBuf>,

    /// Its private key, in PEM, if it is not in the same file
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    tls_key: Option<PathBuf>,

    /// Serve only clients with a certificate of one of these authorities (mutual TLS)
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    tls_client_ca: Option<PathBuf>,

    /// Oldest version of TLS that is spoken: 1.2 or 1.3
    #[arg(long, value_name = "VERSION", value_parser = min_version, help_heading = "TLS")]
    tls_min_version: Option<MinVersion>,
}

fn min_version(text: &str) -> Result<MinVersion, String> {
    match text {
        "1.2" => Ok(MinVersion::Tls12),
        "1.3" => Ok(MinVersion::Tls13),
        _ => Err("1.2 or 1.3".to_owned()),
    }
}

impl TlsArgs {
    /// The files, if there is a certificate.
    ///
    /// # Errors
    /// A flag is there without the one that it belongs to. A sentence.
    pub fn files(&self) -> Result<Option<ServerFiles>, String> {
        let TlsArgs { tls_cert, tls_key, tls_client_ca, tls_min_version } = self;
        match tls_cert {
            Some(cert) => Ok(Some(ServerFiles {
                cert: cert.clone(),
                key: tls_key.as_ref().unwrap_or(cert).clone(),
                client_ca: tls_client_ca.clone(),
                min_version: tls_min_version.unwrap_or_default(),
            })),
            None if tls_key.is_some() || tls_client_ca.is_some() || tls_min_version.is_some() => {
                Err("there is no TLS without a certificate: name it with --tls-cert FILE".to_owned())
            }
            None => Ok(None),
        }
    }

    /// TLS for these protocols over it, if there is a certificate.
    ///
    /// # Errors
    /// As [`TlsArgs::files`]; or a file cannot be used. A sentence.
    pub fn server(&self, alpn: &'static [&'static [u8]]) -> Result<Option<Arc<ServerTls>>, String> {
        let files = self.files()?;
        files.map(|files| ServerTls::new(&files, alpn).map_err(|error| error.to_string())).transpose()
    }
}

/// What a client is told.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct TlsClientArgs {
    /// Authorities of which the certificates of servers must be, in PEM
    #[arg(long, value_name = "FILE", global = true, help_heading = "TLS")]
    tls_ca: Option<PathBuf>,

    /// Certificate to show servers that ask for one, in PEM
    #[arg(long = "tls-cert", value_name = "FILE", global = true, help_heading = "TLS")]
    own_cert: Option<PathBuf>,

    /// Its private key, if it is not in the same file
    #[arg(long = "tls-key", value_name = "FILE", requires = "own_cert", global = true, help_heading = "TLS")]
    own_key: Option<PathBuf>,

    /// Take any certificate: whoever stands between can read and change everything
    #[arg(long, conflicts_with = "tls_ca", global = true, help_heading = "TLS")]
    tls_insecure: bool,
}

impl TlsClientArgs {
    /// The files, if anything is said of TLS.
    pub fn files(&self) -> Option<ClientFiles> {
        let TlsClientArgs { tls_ca, own_cert, own_key, tls_insecure } = self;
        let own = own_cert.as_ref().map(|cert| (cert.clone(), own_key.as_ref().unwrap_or(cert).clone()));
        (*self != TlsClientArgs::default()).then(|| ClientFiles {
            ca: tls_ca.clone(),
            own,
            is_insecure: *tls_insecure,
        })
    }

    /// From here on this process asks admin ports by https, and fabric servers at `tls:` addresses, and believes whom this says; else whom
    /// `MILLRACE_TLS_CA` names, with `MILLRACE_TLS_CERT` and `MILLRACE_TLS_KEY` to be shown to servers that ask. Nothing changes where nothing is said.
    ///
    /// # Errors
    /// A file cannot be used. A sentence.
    pub fn apply(&self) -> Result<(), String> {
        let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let own_key = || named("MILLRACE_TLS_KEY");
        let from_environment = || {
            let cert = named("MILLRACE_TLS_CERT");
            let own = cert.map(|cert| (cert.clone(), own_key().unwrap_or(cert)));
            named("MILLRACE_TLS_CA").map(|ca| ClientFiles { ca: Some(ca), own, is_insecure: false })
        };
        let Some(files) = self.files().or_else(from_environment) else { return Ok(()) };
        TlsOptions::set_trust(ClientTls::new(&files, &[]).map_err(|error| error.to_string())?);
        // Of HTTP's client, which has a form of its own.
        let Some(ca) = &files.ca else { return Ok(()) };
        let read =
            |path: &PathBuf| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let authorities = read(ca)?;
        let own =
            files.own.as_ref().map(|(cert, key)| Ok::<_, String>((read(cert)?, read(key)?))).transpose()?;
        let own = own.as_ref().map(|(cert, key)| (&cert[..], &key[..]));
        ::client::web::believe(::client::web::Tls::new(&authorities, own)?);
        Ok(())
    }

    /// TLS of a client that may speak these protocols over it.
    ///
    /// # Errors
    /// A file cannot be used, or nobody is believed. A sentence.
    pub fn client(&self, alpn: &[&[u8]]) -> Result<ClientTls, String> {
        ClientTls::new(&self.files().unwrap_or_default(), alpn).map_err(|error| error.to_string())
    }
}
