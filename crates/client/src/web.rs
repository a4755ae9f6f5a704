//! Pages of HTTP ports, within a time and a length: admin ports, and etcd's JSON gateway.
//!
//! Plain HTTP: no TLS, no proxy, no redirect. An answer that is an error of HTTP is an answer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

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

impl Web {
    /// One that waits so long for an answer, and reads so many bytes of it.
    pub fn new(timeout: Duration, most: u64) -> Web {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .new_agent();
        Web { agent, most }
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
        let request = self.agent.post(url).header("content-type", "application/json");
        let request = match token {
            Some(token) => request.header("authorization", token),
            None => request,
        };
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
