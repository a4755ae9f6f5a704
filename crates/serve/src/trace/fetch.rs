//! Requests to an admin port, and why there is nothing to show.

use crate::admin::{parse_address, token_file, token_for};
use ::client::web::{Web, url};
use serde::Deserialize;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer at most.
const ANSWER_MAX: u64 = 256 << 20;
/// Bytes of what is said to an order.
const REFUSAL_MAX: u64 = 1 << 16;

/// Where an admin port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(SocketAddr);

impl From<SocketAddr> for Port {
    fn from(address: SocketAddr) -> Port {
        Port(address)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Port, String> {
        let bare = text.split_once("://").map_or(text, |(_, bare)| bare);
        parse_address(bare.strip_suffix('/').unwrap_or(bare)).map(Port)
    }
}

/// A register, as far as it matters here.
#[derive(Deserialize)]
struct Register {
    name: String,
    number: u64,
}

impl Port {
    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        self.0.ip().is_loopback()
    }

    /// The body of what it answers to `GET path`.
    ///
    /// # Errors
    /// Nobody answers, or not with that. A sentence.
    pub fn get(&self, path: &str) -> Result<String, String> {
        self.get_within(path, TIMEOUT, ANSWER_MAX)
    }

    /// The same, if it answers within `timeout`, with `bytes_max` bytes at most.
    ///
    /// # Errors
    /// As [`Port::get`].
    pub fn get_within(&self, path: &str, timeout: Duration, bytes_max: u64) -> Result<String, String> {
        let page = Web::new(timeout, bytes_max).get(&format!("{}{path}", url(self.0)));
        let page = page.map_err(|cause| {
            format!(
                "no admin port answers at {}: {cause}; give what stands behind --admin of the server",
                self.0
            )
        })?;
        match &page.status[..3] {
            "200" => Ok(page.text),
            "404" => Err(format!("the server at {} has no {path}: GET / says what it has", self.0)),
            _ => Err(format!("GET {path} of {}: {}: {}", self.0, page.status, page.text.trim())),
        }
    }

    /// Has it take `text` for `path`, with the token that a server of this machine has, or that MILLRACE_ADMIN_TOKEN names.
    ///
    /// # Errors
    /// There is no token, nobody answers, or it is refused: what the server says of it. A sentence.
    pub fn put(&self, path: &str, text: &str, timeout: Duration) -> Result<(), String> {
        let token = token_for(self.0)?;
        let page = Web::new(timeout, REFUSAL_MAX).put(&format!("{}{path}", url(self.0)), &token, text)?;
        if page.is_there { Ok(()) } else { Err(format!("{}: {}", page.status, page.text.trim())) }
    }

    /// Whether there is a token for [`Port::put`].
    ///
    /// # Errors
    /// There is none: where it was looked for.
    pub fn token(&self) -> Result<(), String> {
        token_for(self.0).map(drop)
    }

    /// Why it has no traces, and what to do.
    pub(super) fn why_nothing(&self) -> String {
        let registers = self.get("/registers").unwrap_or_default();
        let all: Vec<Register> = serde_json::from_str(&registers).unwrap_or_default();
        let samples = all
            .iter()
            .filter(|register| register.name == "trace.sample" || register.name.ends_with(".trace.sample"));
        explain(self.0, samples)
    }
}

fn explain<'r>(address: SocketAddr, samples: impl Iterator<Item = &'r Register>) -> String {
    let samples: Vec<&Register> = samples.collect();
    if let Some(on) = samples.iter().find(|register| register.number > 0) {
        let Register { name, number } = on;
        return format!(
            "there are no traces yet: {name} samples one request of {number}, and none came since"
        );
    }
    let Some(off) = samples.first() else {
        return "there are no traces: this server has no register trace.sample".to_owned();
    };
    let names: Vec<&str> = samples.iter().map(|register| &*register.name).collect();
    let token = token_file(address);
    format!(
        "there are no traces: sampling is off ({} = 0). Switch it on, for one request of 100, with\n  curl -X PUT -d 100 -H \"Authorization: Bearer \
         $(cat {})\" {}/registers/{}\nor send requests with a sampled traceparent (HTTP, the fabric, gRPC)",
        names.join(", "),
        token.display(),
        url(address),
        off.name,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(name: &str, number: u64) -> Register {
        Register { name: name.to_owned(), number }
    }

    #[test]
    fn it_is_said_what_to_do() {
        let address: SocketAddr = "127.0.0.1:9211".parse().expect("an address");
        let off = [register("cache.trace.sample", 0), register("rank.trace.sample", 0)];
        let told = explain(address, off.iter());
        assert!(told.contains("sampling is off (cache.trace.sample, rank.trace.sample = 0)"), "{told}");
        assert!(told.contains("http://127.0.0.1:9211/registers/cache.trace.sample"), "{told}");
        let on = [register("cache.trace.sample", 0), register("rank.trace.sample", 64)];
        assert!(explain(address, on.iter()).contains("rank.trace.sample samples one request of 64"));
        assert!(explain(address, [].iter()).contains("has no register trace.sample"));
    }

    #[test]
    fn a_port_is_given_as_servers_print_it() {
        for text in ["9211", "127.0.0.1:9211", "http://127.0.0.1:9211", "http://localhost:9211/"] {
            assert_eq!(text.parse::<Port>().map(|port| port.0.to_string()), Ok("127.0.0.1:9211".to_owned()));
        }
        assert!("port".parse::<Port>().is_err_and(|why| why.contains("neither a port nor ADDR:PORT")));
    }
}
