//! What travels through a member's port: requests and cancels up, outcomes down. The tag is the member's number of the call.
//!
//! ```text
//! request   u64 timeout in ns (all ones: none), u32 bytes of metadata, u16 method, u16 0; metadata; body
//! cancel    nothing
//! outcome   u32 bytes of metadata, u16 status code, u8 lost, u8 0; metadata; body, or the status' text
//! ```
//! Both ends are ours: bytes that do not parse are a bug, not bad input.

use crate::channel::{CallOptions, Method, What};
use crate::port::Packet;
use crate::status::{Code, Status};
use std::time::Duration;

const REQUEST: usize = 16;
const OUTCOME: usize = 8;
const NO_TIMEOUT: u64 = u64::MAX;

/// What a member asks for.
pub(super) enum Ask<'a> {
    Start(Request<'a>),
    Cancel,
}

pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) timeout: Option<Duration>,
    pub(super) metadata: &'a [u8],
    pub(super) body: &'a [u8],
}

#[inline]
pub(super) fn request(tag: u32, method: Method, options: &CallOptions<'_>, body: &[u8]) -> Packet {
    let timeout = options.timeout.map_or(NO_TIMEOUT, |span| {
        // 584 years are no timeout either.
        u64::try_from(span.as_nanos()).unwrap_or(NO_TIMEOUT)
    });
    let mut head = [0; REQUEST];
    head[..8].copy_from_slice(&timeout.to_le_bytes());
    head[8..12].copy_from_slice(&(options.metadata.len() as u32).to_le_bytes());
    head[12..14].copy_from_slice(&method.number().to_le_bytes());
    Packet::new(tag, &[&head, options.metadata, body])
}

pub(super) fn cancel(tag: u32) -> Packet {
    Packet::new(tag, &[])
}

#[inline]
pub(super) fn ask(packet: &Packet) -> Ask<'_> {
    let Some((head, rest)) = packet.bytes().split_first_chunk::<REQUEST>() else { return Ask::Cancel };
    let [t0, t1, t2, t3, t4, t5, t6, t7, m0, m1, m2, m3, number0, number1, _, _] = *head;
    let timeout = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
    let (metadata, body) = rest.split_at(u32::from_le_bytes([m0, m1, m2, m3]) as usize);
    Ask::Start(Request {
        method: Method::unary(u16::from_le_bytes([number0, number1])),
        timeout: (timeout != NO_TIMEOUT).then(|| Duration::from_nanos(timeout)),
        metadata,
        body,
    })
}

/// How a unary call ended.
///
/// # Panics
/// For what is no end of a unary call: the channel hands out none.
#[inline]
pub(super) fn outcome(tag: u32, what: &What<'_>, metadata: &[u8]) -> Packet {
    match what {
        What::Reply(body) => with_head(tag, Code::Ok, false, metadata, body),
        What::Failed(status) => failed_with(tag, status, metadata),
        What::Item(_) | What::End => panic!("a unary call has no items"),
    }
}

/// A failure of the dispatcher's own.
pub(super) fn failed(tag: u32, status: &Status) -> Packet {
    failed_with(tag, status, &[])
}

fn failed_with(tag: u32, status: &Status, metadata: &[u8]) -> Packet {
    with_head(tag, status.code(), status.is_lost(), metadata, status.message().as_bytes())
}

#[inline]
fn with_head(tag: u32, code: Code, lost: bool, metadata: &[u8], body: &[u8]) -> Packet {
    let mut head = [0; OUTCOME];
    head[..4].copy_from_slice(&(metadata.len() as u32).to_le_bytes());
    head[4..6].copy_from_slice(&(code as u16).to_le_bytes());
    head[6] = u8::from(lost);
    Packet::new(tag, &[&head, metadata, body])
}

/// What an outcome says: what happened, and its metadata.
#[inline]
pub(super) fn told(packet: &Packet) -> (What<'_>, &[u8]) {
    let (head, rest) = packet.bytes().split_first_chunk::<OUTCOME>().expect("an outcome has a head");
    let [m0, m1, m2, m3, code0, code1, lost, _] = *head;
    let (metadata, body) = rest.split_at(u32::from_le_bytes([m0, m1, m2, m3]) as usize);
    let what = match Code::of(u16::from_le_bytes([code0, code1])) {
        Code::Ok => What::Reply(body),
        code => What::Failed(status(code, lost != 0, body)),
    };
    (what, metadata)
}

#[cold]
fn status(code: Code, lost: bool, text: &[u8]) -> Status {
    let text = String::from_utf8_lossy(text);
    if lost { Status::lost(text) } else { Status::new(code, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_and_told_comes_through() {
        let options = CallOptions {
            timeout: Some(Duration::from_nanos(7)),
            metadata: b"meta",
            ..CallOptions::default()
        };
        let packet = request(9, Method::unary(3), &options, b"body");
        let Ask::Start(asked) = ask(&packet) else { panic!("a request") };
        assert_eq!((packet.tag(), asked.method.number(), asked.timeout), (9, 3, options.timeout));
        assert_eq!((asked.metadata, asked.body), (&b"meta"[..], &b"body"[..]));
        let forever = CallOptions::within(Duration::MAX);
        let packet = request(9, Method::unary(3), &forever, b"");
        assert!(matches!(ask(&packet), Ask::Start(Request { timeout: None, .. })));
        assert!(matches!(ask(&cancel(9)), Ask::Cancel));

        let whats = [
            What::Reply(b"reply"),
            What::Failed(Status::new(Code::NotFound, "no such key")),
            What::Failed(Status::lost("gone")),
        ];
        for what in whats {
            assert_eq!(told(&outcome(1, &what, b"m")), (what, &b"m"[..]));
        }
    }
}
