//! Calls of RPC: a channel to a server of the fabric, over shared memory or any other of its transports.

use crate::Status;
use crate::boundary::{Failure, Guarded, opened, place, slice, string};
use crate::options::{OpenOptions, opening, timeout};
use fabric::channel::{CallOptions, Options, Reconnecting, Response};
use fabric::frame::push_metadata;
use fabric::link::{Address, LinkOptions};
use fabric::status::Code;
use std::ffi::{CString, c_char, c_void};
use std::time::Duration;

/// What a channel is to this library.
struct Open {
    channel: Reconnecting,
    timeout: Duration,
    /// Of the last call, until the next.
    response: Response,
    message: CString,
}

/// A channel to a server of the fabric; it connects again when its server comes back. A thread uses it at a time.
pub struct Channel {
    _private: (),
}

/// Something that is said with a call, beside its message.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Metadata {
    /// Its name: small letters, digits, `-`, `_` and `.`.
    pub key: *const c_char,
    /// Its value.
    pub value: *const c_void,
    /// Bytes of the value.
    pub value_len: usize,
}

/// How a call ended. It lies in the channel's memory until the channel's next function.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Reply {
    /// gRPC's status code: 0 is OK.
    pub code: u32,
    /// Not 0: the connection broke, and the call may have taken effect.
    pub is_lost: u32,
    /// Of OK: the message, encoded. Else null.
    pub body: *const u8,
    /// Bytes of `body`.
    pub body_len: usize,
    /// Of others: why, in English. Else empty.
    pub message: *const c_char,
}

const REPLY: Reply =
    Reply { code: 0, is_lost: 0, body: std::ptr::null(), body_len: 0, message: c"".as_ptr() };

/// What C holds as a channel is what is guarded.
fn guarded(channel: *const Channel) -> *const Guarded<Open> {
    channel.cast()
}

/// Opens a channel to the server at an address: `shm:/path`, `unix:/path`, `tcp:HOST:PORT`, `tls:HOST:PORT` or `udp:HOST:PORT`. `options` may be
/// null. On success `*channel` is to be closed with millrace_channel_close; else it is null, and `millrace_channel_error(NULL)` says why.
///
/// # Safety
/// `address` is a string or null; `options` is null or can be read, and so can what it points to; `channel` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_channel_open(
    address: *const c_char,
    options: *const OpenOptions,
    channel: *mut *mut Channel,
) -> Status {
    let open = || {
        // SAFETY: the caller's promise.
        let (address, opening) = unsafe { (string("address", address)?, opening(options)?) };
        let address = address.ok_or_else(|| Failure::argument("address is null"))?;
        let address: Address = address.parse().map_err(|error| Failure::argument(format!("{error}")))?;
        let mut link = LinkOptions { timeout: opening.timeout, ..LinkOptions::default() };
        link.tls.trust = opening.tls.or(link.tls.trust);
        let options = Options { timeout: opening.timeout, link, ..Options::default() };
        let channel = Reconnecting::connect(&address, &options).map_err(|error| Failure {
            status: Status::Unreachable,
            why: format!("cannot reach {address}: {error}; does a server listen there (millrace rpc serve --listen {address})?"),
        })?;
        Ok(Open {
            channel,
            timeout: opening.timeout,
            response: Response::default(),
            message: CString::default(),
        })
    };
    // SAFETY: the caller's promise; what C holds as a channel is what is guarded.
    unsafe { opened(channel.cast(), open) }
}

/// Closes a channel, which may be null. MILLRACE_BUSY: another thread is in it, and it stays open.
///
/// # Safety
/// `channel` is null, or came from millrace_channel_open and was not closed; it is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_channel_close(channel: *mut Channel) -> Status {
    // SAFETY: the caller's promise.
    unsafe { Guarded::close(channel.cast::<Guarded<Open>>()) }
}

/// Why the channel's last function failed, as millrace_error; how a call ended is in its reply.
///
/// # Safety
/// `channel` is null, or came from millrace_channel_open and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_channel_error(channel: *const Channel) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { Guarded::error(guarded(channel)) }
}

/// Calls a unary method, as `/shop.Cart/Add`, with an encoded message and `metadata_count` pairs of metadata, and waits for how it ends, for
/// `timeout_ms` at most (0: as the channel was opened). MILLRACE_OK says that `reply` is written, of whichever code. A call that is lost is not
/// repeated.
///
/// # Safety
/// `channel` is null, or came from millrace_channel_open and was not closed; `method` is a string or null; `body` can be read for `body_len` bytes;
/// `metadata` can be read for its count, and so can what it points to; `reply` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millrace_call(
    channel: *mut Channel,
    method: *const c_char,
    body: *const c_void,
    body_len: usize,
    metadata: *const Metadata,
    metadata_count: usize,
    timeout_ms: u32,
    reply: *mut Reply,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        Guarded::with(guarded(channel), |open| {
            let into = place("reply", reply)?;
            *into = REPLY;
            let method = string("method", method)?.ok_or_else(|| Failure::argument("method is null"))?;
            let body = slice("body", body, body_len)?;
            let metadata = encoded(metadata, metadata_count)?;
            let options =
                CallOptions { metadata: &metadata, ..CallOptions::within(timeout(timeout_ms, open.timeout)) };
            open.call(method, body, &options, into);
            Ok(Status::Ok)
        })
    }
}

/// Metadata as frames have it.
///
/// # Safety
/// `metadata` can be read for `count`, and so can what it points to.
unsafe fn encoded(metadata: *const Metadata, count: usize) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    if count > 0 && metadata.is_null() {
        return Err(Failure::argument("metadata is null, and its count is not 0"));
    }
    for at in 0..count {
        // SAFETY: the caller's promise.
        let (key, value) = unsafe {
            let pair = *metadata.add(at);
            (
                string("a key of metadata", pair.key)?,
                slice("a value of metadata", pair.value, pair.value_len)?,
            )
        };
        let key = key.ok_or_else(|| Failure::argument("a key of metadata is null"))?;
        if !push_metadata(&mut out, key, value) {
            return Err(Failure::argument(format!(
                "{key} is no key of metadata (small letters, digits, - _ .), or all of it is too long"
            )));
        }
    }
    Ok(out)
}

impl Open {
    fn call(&mut self, path: &str, body: &[u8], options: &CallOptions<'_>, into: &mut Reply) {
        use fabric::channel::Caller as _;
        let Some(method) = self.channel.method(path) else {
            return self.failed(
                Code::Unimplemented,
                false,
                format!("the server has no method {path}: see `millrace rpc list`"),
                into,
            );
        };
        match self.channel.call_bytes(method, options, body) {
            Ok(response) => {
                self.response = response;
                (into.body, into.body_len) = (self.response.body.as_ptr(), self.response.body.len());
            }
            Err(status) => self.failed(status.code(), status.is_lost(), status.message().to_owned(), into),
        }
    }

    fn failed(&mut self, code: Code, is_lost: bool, why: String, into: &mut Reply) {
        self.message = CString::new(why.replace('\0', "\\0")).expect("it has no zeros any more");
        (into.code, into.is_lost, into.message) = (code as u32, is_lost.into(), self.message.as_ptr());
    }
}
