//! How a session or a channel is opened.

use crate::boundary::{Failure, string};
use client::kv::{ClientFiles, ClientTls};
use std::ffi::c_char;
use std::time::Duration;

/// How a session or a channel is opened. Zeros are the defaults.
#[repr(C)]
pub struct OpenOptions {
    /// How long an operation waits for its answer, in milliseconds; 0: a second.
    pub timeout_ms: u32,
    /// For tls: a file of authorities (PEM), one of which must have signed the server's certificate.
    pub tls_ca: *const c_char,
    /// For servers that ask for one: a file with the own certificate (PEM).
    pub tls_cert: *const c_char,
    /// And one with its key.
    pub tls_key: *const c_char,
}

/// The same, checked.
pub(crate) struct Opening {
    pub(crate) timeout: Duration,
    pub(crate) tls: Option<ClientTls>,
}

/// What a timeout of C says; `default` of 0.
pub(crate) fn timeout(ms: u32, default: Duration) -> Duration {
    if ms == 0 { default } else { Duration::from_millis(ms.into()) }
}

/// As options say, which may be null.
///
/// # Safety
/// `options` is null or can be read, and so can its texts.
pub(crate) unsafe fn opening(options: *const OpenOptions) -> Result<Opening, Failure> {
    const TIMEOUT: Duration = Duration::from_secs(1);
    // SAFETY: the caller's promise.
    let Some(options) = (unsafe { options.as_ref() }) else {
        return Ok(Opening { timeout: TIMEOUT, tls: None });
    };
    // SAFETY: the caller's promise.
    let (ca, cert, key) = unsafe {
        (
            string("tls_ca", options.tls_ca)?,
            string("tls_cert", options.tls_cert)?,
            string("tls_key", options.tls_key)?,
        )
    };
    let own = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert.into(), key.into())),
        (None, None) => None,
        _ => return Err(Failure::argument("tls_cert and tls_key are given together")),
    };
    let tls = match ca {
        None if own.is_some() => {
            return Err(Failure::argument("tls_cert without tls_ca: name whom to believe"));
        }
        None => None,
        Some(ca) => {
            let files = ClientFiles { ca: Some(ca.into()), own, is_insecure: false };
            Some(ClientTls::new(&files, &[]).map_err(|error| Failure::argument(error.to_string()))?)
        }
    };
    Ok(Opening { timeout: timeout(options.timeout_ms, TIMEOUT), tls })
}
