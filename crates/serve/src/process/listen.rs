//! What every server is told of how it may be reached: its certificate, and whether it may do without.

use super::tls::TlsArgs;
use crate::admin::PortAt;
use crate::reach;
use crate::rights::{Access, RightsArgs, RightsPlan};
use crate::shell::ShellError;
use base::tls::{ClientFiles, ClientTls, ServerFiles, ServerTls, TlsError};
use clap::Args;
use fabric::link::TlsOptions;
use std::net::SocketAddr;
use std::sync::Arc;

/// HTTP's name in a TLS handshake.
const HTTP_ALPN: &[&[u8]] = &[b"http/1.1"];

/// Of who is to listen for TLS without one.
pub const NO_CERTIFICATE: &str =
    "listening for TLS wants a certificate: --tls-cert FILE and --tls-key FILE, or [tls] in a config file";

/// See the head of the file.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct ListenArgs {
    #[command(flatten)]
    tls: TlsArgs,

    #[command(flatten)]
    rights: RightsArgs,

    /// Listen beyond loopback although nothing is encrypted and nobody is asked who he is
    #[arg(long, help_heading = "TLS")]
    insecure: bool,
}

impl ListenArgs {
    /// From here on this process listens with its certificate, and where it was told it may.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn apply(&self) -> Result<(), ShellError> {
        reach::set_insecure(self.insecure);
        self.tls.files().map_err(ShellError::Tls)?.as_ref().map_or(Ok(()), use_certificate)
    }

    /// Where operators ask, with the certificate if there is one; and who may do what.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn access(&self, admin: Option<SocketAddr>) -> Result<Access, ShellError> {
        let files = self.tls.files().map_err(ShellError::Tls)?;
        access(admin, files.as_ref(), &self.rights)
    }
}

/// Has fabric links, gRPC and HTTP ports of this process listen with this certificate. Where its clients need one of certain authorities, and nobody said
/// whom it believes itself, it believes these, and shows its own: so members of a chain at `tls:` addresses know each other.
///
/// # Errors
/// It cannot be used.
pub fn use_certificate(files: &ServerFiles) -> Result<(), ShellError> {
    let wrong = |error: TlsError| ShellError::Tls(error.to_string());
    let tls = ServerTls::new(files, &[]).map_err(wrong)?;
    TlsOptions::set_certificate(tls);
    if files.client_ca.is_some() && TlsOptions::of_process().trust.is_none() {
        let own = Some((files.cert.clone(), files.key.clone()));
        let believed = ClientFiles { ca: files.client_ca.clone(), own, is_insecure: false };
        TlsOptions::set_trust(ClientTls::new(&believed, &[]).map_err(wrong)?);
    }
    Ok(())
}

/// The certificate of this process, for these protocols over TLS.
///
/// # Errors
/// It cannot be used any more.
pub fn certificate_for(alpn: &'static [&'static [u8]]) -> Result<Option<Arc<ServerTls>>, TlsError> {
    TlsOptions::of_process().certificate.map(|tls| tls.speaking(alpn)).transpose()
}

/// Where HTTP is spoken, with the certificate of this process if with TLS.
///
/// # Errors
/// There is none, or it cannot be used any more.
pub fn port_at(address: SocketAddr, has_tls: bool) -> Result<PortAt, ShellError> {
    if !has_tls {
        return Ok(address.into());
    }
    match certificate_for(HTTP_ALPN).map_err(|error| ShellError::Tls(error.to_string()))? {
        None => Err(ShellError::Tls(NO_CERTIFICATE.to_owned())),
        tls => Ok(PortAt { address, tls }),
    }
}

/// An admin port at an address, with the certificate of these files; and who may do what.
///
/// # Errors
/// The certificate cannot be used.
pub fn access(
    admin: Option<SocketAddr>,
    files: Option<&ServerFiles>,
    rights: &RightsArgs,
) -> Result<Access, ShellError> {
    let tls = files.filter(|_| admin.is_some()).map(|files| ServerTls::new(files, HTTP_ALPN)).transpose();
    let tls = tls.map_err(|error| ShellError::Tls(error.to_string()))?;
    let asks_certificates = files.is_some_and(|files| files.client_ca.is_some());
    let rights = rights.rights.clone().map(|path| RightsPlan { path, asks_certificates });
    Ok(Access { admin: admin.map(|address| PortAt { address, tls }), rights })
}
