//! What every server is told of how it may be reached: its certificate, and whether it may do without.

use super::tls::TlsArgs;
use crate::admin::AdminAt;
use crate::reach;
use crate::shell::ShellError;
use clap::Args;
use std::net::SocketAddr;

/// HTTP's name in a TLS handshake.
const HTTP_ALPN: &[&[u8]] = &[b"http/1.1"];

/// See the head of the file.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct ListenArgs {
    #[command(flatten)]
    tls: TlsArgs,

    /// Listen beyond loopback although nothing is encrypted and nobody is asked who he is
    #[arg(long, help_heading = "TLS")]
    insecure: bool,
}

impl ListenArgs {
    /// Where operators ask, with the certificate if there is one; from here on this process may listen where it was told it may.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn admin(&self, address: Option<SocketAddr>) -> Result<Option<AdminAt>, ShellError> {
        reach::set_insecure(self.insecure);
        let tls = self.tls.server(HTTP_ALPN).map_err(ShellError::Tls)?;
        Ok(address.map(|address| AdminAt { address, tls }))
    }
}

/// The same of an address, with a certificate that was named elsewhere.
///
/// # Errors
/// The certificate cannot be used.
pub fn admin_with(
    address: SocketAddr,
    files: Option<&base::tls::ServerFiles>,
) -> Result<AdminAt, ShellError> {
    let tls = files.map(|files| base::tls::ServerTls::new(files, HTTP_ALPN)).transpose();
    Ok(AdminAt { address, tls: tls.map_err(|error| ShellError::Tls(error.to_string()))? })
}
