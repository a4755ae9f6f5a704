//! What `-vv` logs of a connection: that it is there, what it asks, what it is answered, that it ends. `<` and `>` are memcached's, the number that of
//! `stats conns`.
//!
//! Values are not logged, and what clients write is escaped: a log is for terminals, too.

use crate::kv::service::Request;
use protocol::memcache::binary::{HEADER_LEN, REPLY_MAGIC};

/// Bytes of a reply that are logged.
const REPLY_SHOWN: usize = 300;

/// Whether there is such a log.
pub(super) fn is_on() -> bool {
    log::max_level() >= log::LevelFilter::Trace
}

/// A connection has come.
pub(super) fn came(number: i32) {
    log::trace!("<{number} new client connection");
}

/// A request.
pub(super) fn request(number: i32, request: &Request) {
    log::trace!("<{number} {request}");
}

/// A reply, or its beginning. None where the client wants none.
pub(super) fn reply(number: i32, bytes: &[u8]) {
    match bytes.first_chunk::<HEADER_LEN>() {
        Some(header) if header[0] == REPLY_MAGIC => {
            let status = u16::from_be_bytes([header[6], header[7]]);
            let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
            log::trace!(
                ">{number} binary reply to opcode {:#04x}, status {status:#x}, {body} bytes",
                header[1]
            );
        }
        _ if bytes.is_empty() => {}
        _ => {
            let shown = &bytes[..bytes.len().min(REPLY_SHOWN)];
            let end = shown.iter().position(|&byte| byte == b'\r').unwrap_or(shown.len());
            log::trace!(">{number} {}", shown[..end].escape_ascii());
        }
    }
}

/// It ends.
pub(super) fn ends(number: i32) {
    log::trace!("<{number} connection closed");
}
