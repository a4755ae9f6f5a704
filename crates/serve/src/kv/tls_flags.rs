//! memcached's words for TLS, `-Z` and the `ssl_…` of `-o`, beside this program's own.

use crate::process::tls::TlsArgs;
use base::tls::{MinVersion, ServerFiles};
use clap::Args;
use std::path::PathBuf;

/// What is said of TLS, either way.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct TlsFlags {
    #[command(flatten)]
    args: TlsArgs,

    /// Listen for TLS, as memcached's flag: with -o ssl_chain_cert=FILE and what follows it
    #[arg(short = 'Z', long = "enable-ssl", help_heading = "TLS")]
    ssl: bool,
}

impl TlsFlags {
    /// The certificate to listen with, if there is to be one, with what `extended` options say of it.
    ///
    /// # Errors
    /// Something is missing, or not understood. A sentence.
    pub fn files<'a>(
        &self,
        mut extended: impl Iterator<Item = &'a str>,
    ) -> Result<Option<ServerFiles>, String> {
        let own = self.args.files()?;
        if !self.ssl {
            return match extended.next() {
                Some(word) => Err(format!("-o {word} is of no use without -Z")),
                None => Ok(own),
            };
        }
        let mut files = own.unwrap_or_default();
        let mut has_key = !files.key.as_os_str().is_empty();
        let mut verifies = None;
        for word in extended {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "ssl_chain_cert" => files.cert = PathBuf::from(value),
                "ssl_key" => (files.key, has_key) = (PathBuf::from(value), true),
                "ssl_ca_cert" => files.client_ca = Some(PathBuf::from(value)),
                "ssl_verify_mode" => verifies = Some(verify_mode(value)?),
                "ssl_min_version" => files.min_version = min_version(value)?,
                // Tickets are always there, and records are as long as they can be.
                "ssl_session_cache" => {}
                _ => {
                    return Err(format!(
                        "-o {word} is not understood: of memcached's there are ssl_chain_cert, ssl_key, ssl_ca_cert, ssl_verify_mode and \
                         ssl_min_version; ciphers and buffers need no choice, and keys are PEM"
                    ));
                }
            }
        }
        if files.cert.as_os_str().is_empty() {
            return Err("-Z wants a certificate: -o ssl_chain_cert=FILE, or --tls-cert FILE".to_owned());
        }
        if !has_key {
            files.key = files.cert.clone();
        }
        match verifies {
            Some(true) if files.client_ca.is_none() => {
                Err("ssl_verify_mode wants the authorities of clients: -o ssl_ca_cert=FILE".to_owned())
            }
            // memcached does not verify unless it is told to.
            Some(false) | None if self.args == TlsArgs::default() => {
                Ok(Some(ServerFiles { client_ca: None, ..files }))
            }
            _ => Ok(Some(files)),
        }
    }
}

/// memcached's numbers: whether clients must show a certificate.
fn verify_mode(value: &str) -> Result<bool, String> {
    match value {
        "0" => Ok(false),
        "2" | "3" => Ok(true),
        _ => Err(format!(
            "ssl_verify_mode={value}: 0 asks no client for a certificate, 2 all; one that is asked for and not needed proves nothing"
        )),
    }
}

fn min_version(value: &str) -> Result<MinVersion, String> {
    match value {
        "2" => Ok(MinVersion::Tls12),
        "3" => Ok(MinVersion::Tls13),
        _ => Err(format!(
            "ssl_min_version={value}: 2 is TLS 1.2, 3 is TLS 1.3; older ones are broken and not spoken"
        )),
    }
}
