//! The first frames of a link: Hello from the client, Welcome or Refuse from the server.
//!
//! Why: both sides learn the protocol's version, what the server offers (so that a method is a number from then on), whether
//! both mean the same by it (the services' schema hashes), and the bounds that each call machine keeps to.
//!
//! Shape of the bodies (little-endian; a text is a u16 length and UTF-8):
//! ```text
//! Hello    u16 version · u8 flags (1 JOIN: a second link of the connection `token`; 2 EXACT: refuse other schema hashes)
//!          · 16 bytes token (0 unless JOIN) · u32 calls wanted · u16 n · n × (text service · u64 schema hash; 0: any)
//! Welcome  u16 version · 16 bytes token · u64 connection · u32 calls · u32 window
//!          · u16 n · n × (text service · u64 schema hash · u16 m · m × (text method · u16 number · u8 streaming))
//! Refuse   the header's `method` is the status code; the body its text
//! ```
//! Streaming: bit 0 the client streams, bit 1 the server does.
//!
//! Versions: a server answers any version with its own; each side refuses what it does not speak. Fields may be added behind
//! these; what follows them is ignored.
//!
//! Bounds: [`MAX_SERVICES`] and [`MAX_METHODS`] in a Welcome; texts of 255 bytes.

use crate::status::{Code, Status};
use std::fmt;

/// The protocol that this crate speaks.
pub const VERSION: u16 = 1;
/// Services of one server.
pub const MAX_SERVICES: usize = 256;
/// Methods of one server, all services together.
pub const MAX_METHODS: usize = 4096;
/// Bytes of a service's or method's name.
pub const MAX_NAME: usize = 255;

const JOIN: u8 = 1;
const EXACT: u8 = 2;

/// Names a connection to whoever may join it: 128 bits that cannot be guessed.
pub type Token = [u8; 16];

/// What the client says first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Its version.
    pub version: u16,
    /// The connection that this link shall join.
    pub join: Option<Token>,
    /// Refuse when a schema hash differs.
    pub exact: bool,
    /// Calls in flight that it would like.
    pub calls: u32,
    /// Services that it knows, with the hash of their schema (0: not known).
    pub services: Vec<(String, u64)>,
}

/// What the server answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Its version.
    pub version: u16,
    /// For joining a further link.
    pub token: Token,
    /// Its number for the connection, as in its lists and metrics.
    pub connection: u64,
    /// Calls in flight that it takes.
    pub calls: u32,
    /// Items of a stream that may be sent before credit comes.
    pub window: u32,
    /// What it serves.
    pub services: Vec<ServiceInfo>,
}

/// A service as its server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceInfo {
    /// Full name: `shop.Cart`.
    pub name: String,
    /// Hash of its schema; see [`ServiceDescriptor`](crate::service::ServiceDescriptor).
    pub hash: u64,
    /// In the order of the .proto file.
    pub methods: Vec<MethodInfo>,
}

/// A method as its server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodInfo {
    /// Its name alone: `Add`.
    pub name: String,
    /// What frames call it.
    pub number: u16,
    /// The client sends a stream.
    pub client_streaming: bool,
    /// The server sends a stream.
    pub server_streaming: bool,
}

impl Hello {
    /// The body of the frame.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u16(self.version);
        out.u8(if self.join.is_some() { JOIN } else { 0 } | if self.exact { EXACT } else { 0 });
        out.bytes(&self.join.unwrap_or_default());
        out.u32(self.calls);
        out.u16(self.services.len() as u16);
        for (name, hash) in &self.services {
            out.text(name);
            out.u64(*hash);
        }
        out.0
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`BadHandshake`].
    pub fn parse(body: &[u8]) -> Result<Hello, BadHandshake> {
        let mut input = Reader(body);
        let version = input.u16()?;
        let flags = input.u8()?;
        let token = input.array()?;
        let join = (flags & JOIN != 0).then_some(token);
        let calls = input.u32()?;
        let count = input.count(MAX_SERVICES)?;
        let services = (0..count).map(|_| Ok((input.text()?, input.u64()?))).collect::<Result<_, _>>()?;
        Ok(Hello { version, join, exact: flags & EXACT != 0, calls, services })
    }
}

impl Welcome {
    /// The body of the frame.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u16(self.version);
        out.bytes(&self.token);
        out.u64(self.connection);
        out.u32(self.calls);
        out.u32(self.window);
        out.u16(self.services.len() as u16);
        for service in &self.services {
            out.text(&service.name);
            out.u64(service.hash);
            out.u16(service.methods.len() as u16);
            for method in &service.methods {
                out.text(&method.name);
                out.u16(method.number);
                out.u8(u8::from(method.client_streaming) | u8::from(method.server_streaming) << 1);
            }
        }
        out.0
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`BadHandshake`].
    pub fn parse(body: &[u8]) -> Result<Welcome, BadHandshake> {
        let mut input = Reader(body);
        let version = input.u16()?;
        let token = input.array()?;
        let (connection, calls, window) = (input.u64()?, input.u32()?, input.u32()?);
        let count = input.count(MAX_SERVICES)?;
        let mut services = Vec::with_capacity(count);
        let mut left = MAX_METHODS;
        for _ in 0..count {
            let (name, hash) = (input.text()?, input.u64()?);
            let count = input.count(left)?;
            left -= count;
            let mut methods = Vec::with_capacity(count);
            for _ in 0..count {
                let (name, number, streaming) = (input.text()?, input.u16()?, input.u8()?);
                let (client_streaming, server_streaming) = (streaming & 1 != 0, streaming & 2 != 0);
                methods.push(MethodInfo { name, number, client_streaming, server_streaming });
            }
            services.push(ServiceInfo { name, hash, methods });
        }
        Ok(Welcome { version, token, connection, calls, window, services })
    }
}

/// The body of a Hello or Welcome is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHandshake;

impl fmt::Display for BadHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer's first frame is no handshake of this protocol")
    }
}

impl std::error::Error for BadHandshake {}

impl From<BadHandshake> for Status {
    fn from(bad: BadHandshake) -> Status {
        Status::new(Code::FailedPrecondition, bad.to_string())
    }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        assert!(text.len() <= MAX_NAME, "names are checked where services are added");
        self.u16(text.len() as u16);
        self.bytes(text.as_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadHandshake> {
        let (&head, rest) = self.0.split_first_chunk().ok_or(BadHandshake)?;
        self.0 = rest;
        Ok(head)
    }

    fn u8(&mut self) -> Result<u8, BadHandshake> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, BadHandshake> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, BadHandshake> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, BadHandshake> {
        self.array().map(u64::from_le_bytes)
    }

    fn count(&mut self, max: usize) -> Result<usize, BadHandshake> {
        let count = usize::from(self.u16()?);
        if count <= max { Ok(count) } else { Err(BadHandshake) }
    }

    fn text(&mut self) -> Result<String, BadHandshake> {
        let len = usize::from(self.u16()?);
        let (text, rest) = self.0.split_at_checked(len).ok_or(BadHandshake)?;
        self.0 = rest;
        match std::str::from_utf8(text) {
            Ok(text) if len <= MAX_NAME => Ok(text.to_owned()),
            _ => Err(BadHandshake),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn method() -> impl Strategy<Value = MethodInfo> {
        ("[A-Za-z]{1,20}", any::<u16>(), any::<bool>(), any::<bool>()).prop_map(
            |(name, number, client_streaming, server_streaming)| MethodInfo {
                name,
                number,
                client_streaming,
                server_streaming,
            },
        )
    }

    proptest! {
        #[test]
        fn hello_comes_back(
            version: u16, join: Option<Token>, exact: bool, calls: u32, services in vec(("[a-z.]{0,30}", any::<u64>()), 0..5),
        ) {
            let hello = Hello { version, join, exact, calls, services };
            prop_assert_eq!(Hello::parse(&hello.emit()), Ok(hello.clone()));
            // What later versions add behind is ignored.
            prop_assert_eq!(Hello::parse(&[&hello.emit()[..], &[1, 2, 3]].concat()), Ok(hello));
        }

        #[test]
        fn welcome_comes_back(
            version: u16, token: Token, connection: u64, calls: u32, window: u32,
            services in vec(("[a-z.]{1,30}", any::<u64>(), vec(method(), 0..6)), 0..5),
        ) {
            let services = services.into_iter().map(|(name, hash, methods)| ServiceInfo { name, hash, methods }).collect();
            let welcome = Welcome { version, token, connection, calls, window, services };
            prop_assert_eq!(Welcome::parse(&welcome.emit()), Ok(welcome.clone()));
            let bytes = welcome.emit();
            for cut in 0..bytes.len() {
                prop_assert_eq!(Welcome::parse(&bytes[..cut]), Err(BadHandshake));
            }
        }

        #[test]
        fn any_bytes_parse_or_not(bytes in vec(any::<u8>(), 0..200)) {
            let _ = (Hello::parse(&bytes), Welcome::parse(&bytes));
        }
    }
}
