//! Pages of HTTP ports, within a time and a length: admin ports, and etcd's JSON gateway.
//!
//! No proxy, no redirect. An answer that is an error of HTTP is an answer. `https:` only with [`Tls`]: nobody's authorities are built in.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use ureq::tls::{ClientCert, PemItem, RootCerts, TlsConfig, parse_pem};

/// Whom this process believes where nothing else is said.
static OF_PROCESS: RwLock<Option<Tls>> = RwLock::new(None);

/// Has admin ports be asked by `https:` from now on, and those be believed that this says.
pub fn believe(tls: Tls) {
    *OF_PROCESS.write().unwrap_or_else(PoisonError::into_inner) = Some(tls);
}

fn believed() -> Option<Tls> {
    OF_PROCESS.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// How an admin port at an address is asked: by `https:` where this process believes somebody ([`believe`]).
pub fn url(address: SocketAddr) -> String {
    format!("{}://{address}", if believed().is_some() { "https" } else { "http" })
}

/// Asks.
#[derive(Clone, Debug)]
pub struct Web {
    agent: ureq::Agent,
    /// Bytes of the longest answer.
    most: u64,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status says that it is what was asked for.
    pub is_there: bool,
    /// The status, as HTTP writes it: `404 Not Found`.
    pub status: String,
    /// What came.
    pub text: String,
}

/// Whose certificates are believed, and which is shown. Its debug form has neither; equal are copies of one.
#[derive(Clone)]
pub struct Tls(Arc<TlsConfig>);

impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Of texts in PEM: certificates of authorities, of which the server's must be; and, where the server asks for one, the own certificate
    /// (with those between it and its authority) and its key. The server's certificate must have its name, or its IP address.
    ///
    /// # Errors
    /// A text has not what it should have. A sentence.
    pub fn new(authorities: &[u8], own: Option<(&[u8], &[u8])>) -> Result<Tls, String> {
        let roots = RootCerts::new_with_certs(&certificates(authorities, "the authorities' file")?);
        let shown = match own {
            Some((chain, key)) => {
                let key = items(key, "the key's file")?.into_iter().find_map(|item| match item {
                    PemItem::PrivateKey(key) => Some(key),
                    _ => None,
                });
                let key = key.ok_or("the key's file has no private key in PEM")?;
                Some(ClientCert::new_with_certs(&certificates(chain, "the certificate's file")?, key))
            }
            None => None,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = TlsConfig::builder().root_certs(roots).client_cert(shown);
        Ok(Tls(Arc::new(config.unversioned_rustls_crypto_provider(provider).build())))
    }
}

fn items(text: &[u8], of: &str) -> Result<Vec<PemItem<'static>>, String> {
    parse_pem(text).collect::<Result<_, _>>().map_err(|error| format!("{of} is no PEM: {error}"))
}

fn certificates(text: &[u8], of: &str) -> Result<Vec<ureq::tls::Certificate<'static>>, String> {
    let found = items(text, of)?.into_iter().filter_map(|item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err(format!("{of} has no certificate in PEM")) } else { Ok(found) }
}

impl Web {
    /// One that waits so long for an answer, and reads so many bytes of it.
    pub fn new(timeout: Duration, most: u64) -> Web {
        Web::with_tls(timeout, most, believed().as_ref())
    }

    /// The same, for `https:`, too.
    pub fn with_tls(timeout: Duration, most: u64, tls: Option<&Tls>) -> Web {
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None);
        if let Some(Tls(tls)) = tls {
            config = config.tls_config(TlsConfig::clone(tls));
        }
        Web { agent: config.build().new_agent(), most }
    }

    /// The page at `url`.
    ///
    /// # Errors
    /// Nobody answers in time, or with too much, or with no text. A sentence.
    pub fn get(&self, url: &str) -> Result<Page, String> {
        self.page(self.agent.get(url).call())
    }

    /// What is answered to a JSON text, from whom this token names, if there is one.
    ///
    /// # Errors
    /// As [`Web::get`].
    pub fn post(&self, url: &str, token: Option<&str>, json: &str) -> Result<Page, String> {
        let header = token.map(|token| ("authorization".to_owned(), token.to_owned()));
        self.post_with(url, header.as_slice(), json)
    }

    /// What is answered to a JSON text that comes with these headers.
    ///
    /// # Errors
    /// As [`Web::get`].
    pub fn post_with(&self, url: &str, headers: &[(String, String)], json: &str) -> Result<Page, String> {
        let request = self.agent.post(url).header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        self.page(request.send(json))
    }

    /// What is answered to a text that an admin port is to take, with its token.
    ///
    /// # Errors
    /// As [`Web::get`].
    pub fn put(&self, url: &str, token: &str, text: &str) -> Result<Page, String> {
        let request = self.agent.put(url).header("authorization", format!("Bearer {token}"));
        self.page(request.header("content-type", "text/plain").send(text))
    }

    fn page(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Page, String> {
        let mut answer = answer.map_err(|error| error.to_string())?;
        let status = answer.status();
        let text = answer.body_mut().with_config().limit(self.most).read_to_string();
        let text = text.map_err(|error| error.to_string())?;
        Ok(Page { is_there: status.is_success(), status: status.to_string(), text })
    }
}

/// Reads what follows `--admin`: a port, which is then on loopback, or ADDR:PORT.
///
/// # Errors
/// It is neither.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |_| format!("'{text}' is neither a port nor ADDR:PORT, such as 9211 or 127.0.0.1:9211");
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => text.replace("localhost:", "127.0.0.1:").parse().map_err(wrong),
    }
}
