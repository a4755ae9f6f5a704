//! What members and the dispatcher tell each other: requests and cancels one way, outcomes the other, one behind the other in a buffer.
//!
//! ```text
//! letter    u32 bytes behind these three words, u32 member's key, u32 tag: the member's number of the call; then one of
//! request   u64 timeout in ns (all ones: none), u32 bytes of metadata, u16 method, u16 0; metadata; body
//! cancel    nothing
//! outcome   u32 bytes of metadata, u16 status code, u8 lost, u8 0; metadata; body, or the status' text
//! ```
//! All ends are ours: bytes that do not parse are a bug, not bad input.
//!
//! Cost: one copy for each hand that a letter passes through; a whole buffer changes hands by a swap.

use crate::channel::{CallOptions, Method, What};
use crate::port::Packet;
use crate::status::{Code, Status};
use std::time::Duration;

const HEAD: usize = 12;
const REQUEST: usize = 16;
const OUTCOME: usize = 8;
const NO_TIMEOUT: u64 = u64::MAX;
/// Bytes of memory that an empty buffer keeps.
const KEPT: usize = 256 << 10;

/// Letters, in the order in which they were put.
#[derive(Default)]
pub(super) struct Letters {
    bytes: Vec<u8>,
    /// Where the oldest that was not taken begins.
    next: usize,
}

/// One of them.
pub(super) struct Letter<'a> {
    pub(super) key: u32,
    pub(super) tag: u32,
    pub(super) bytes: &'a [u8],
}

impl Letters {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.bytes.len()
    }

    /// Bytes of those that were not taken.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() - self.next
    }

    #[inline]
    pub(super) fn request(
        &mut self,
        (key, tag): (u32, u32),
        method: Method,
        options: &CallOptions<'_>,
        body: &[u8],
    ) {
        self.put((key, tag), request_head(method, options), options.metadata, body);
    }

    pub(super) fn cancel(&mut self, key: u32, tag: u32) {
        self.put((key, tag), [], &[], &[]);
    }

    #[inline]
    pub(super) fn outcome(&mut self, key: u32, tag: u32, what: &What<'_>, metadata: &[u8]) {
        let (head, body) = outcome_head(what, metadata);
        self.put((key, tag), head, metadata, body);
    }

    #[inline]
    fn put<const N: usize>(&mut self, (key, tag): (u32, u32), head: [u8; N], metadata: &[u8], body: &[u8]) {
        let len = N + metadata.len() + body.len();
        self.bytes.reserve(HEAD + len);
        let mut words = [0; HEAD];
        words[..4].copy_from_slice(&(len as u32).to_le_bytes());
        words[4..8].copy_from_slice(&key.to_le_bytes());
        words[8..].copy_from_slice(&tag.to_le_bytes());
        self.bytes.extend_from_slice(&words);
        self.bytes.extend_from_slice(&head);
        if !metadata.is_empty() {
            self.bytes.extend_from_slice(metadata);
        }
        self.bytes.extend_from_slice(body);
    }

    /// Takes the oldest.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Letter<'_>> {
        if self.is_empty() {
            self.clear();
            return None;
        }
        let rest = &self.bytes[self.next..];
        let (&[l0, l1, l2, l3, k0, k1, k2, k3, t0, t1, t2, t3], rest) =
            rest.split_first_chunk::<HEAD>().expect("a letter has a head");
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        self.next += HEAD + len;
        let (key, tag) = (u32::from_le_bytes([k0, k1, k2, k3]), u32::from_le_bytes([t0, t1, t2, t3]));
        Some(Letter { key, tag, bytes: &rest[..len] })
    }

    /// Takes over all of `other`, which is empty afterwards.
    #[inline]
    pub(super) fn append(&mut self, other: &mut Letters) {
        if self.is_empty() {
            self.clear();
            std::mem::swap(self, other);
        } else {
            self.bytes.extend_from_slice(&other.bytes[other.next..]);
            other.clear();
        }
    }

    /// Forgets all, and memory that a long one took.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.next = 0;
        if self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
        }
    }
}

impl Letter<'_> {
    /// Bytes that it takes in a buffer.
    pub(super) fn size(&self) -> usize {
        HEAD + self.bytes.len()
    }
}

/// What is asked for.
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
fn request_head(method: Method, options: &CallOptions<'_>) -> [u8; REQUEST] {
    let timeout = options.timeout.map_or(NO_TIMEOUT, |span| {
        // 584 years are no timeout either.
        u64::try_from(span.as_nanos()).unwrap_or(NO_TIMEOUT)
    });
    let mut head = [0; REQUEST];
    head[..8].copy_from_slice(&timeout.to_le_bytes());
    head[8..12].copy_from_slice(&(options.metadata.len() as u32).to_le_bytes());
    head[12..14].copy_from_slice(&method.number().to_le_bytes());
    head
}

/// A request that travels alone: a future's.
pub(super) fn request(method: Method, options: &CallOptions<'_>, body: &[u8]) -> Packet {
    Packet::new(0, &[&request_head(method, options), options.metadata, body])
}

#[inline]
pub(super) fn ask(bytes: &[u8]) -> Ask<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<REQUEST>() else { return Ask::Cancel };
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

/// How a unary call ended: the head, and what stands behind the metadata.
///
/// # Panics
/// For what is no end of a unary call: the channel hands out none.
#[inline]
fn outcome_head<'a>(what: &'a What<'_>, metadata: &[u8]) -> ([u8; OUTCOME], &'a [u8]) {
    let (code, lost, body) = match what {
        What::Reply(body) => (Code::Ok, false, *body),
        What::Failed(status) => (status.code(), status.is_lost(), status.message().as_bytes()),
        What::Item(_) | What::End => panic!("a unary call has no items"),
    };
    let mut head = [0; OUTCOME];
    head[..4].copy_from_slice(&(metadata.len() as u32).to_le_bytes());
    head[4..6].copy_from_slice(&(code as u16).to_le_bytes());
    head[6] = u8::from(lost);
    (head, body)
}

/// An outcome that travels alone: a future's.
#[inline]
pub(super) fn outcome(what: &What<'_>, metadata: &[u8]) -> Packet {
    let (head, body) = outcome_head(what, metadata);
    Packet::new(0, &[&head, metadata, body])
}

/// As [`outcome`], for a failure of our own.
pub(super) fn failed(status: &Status) -> Packet {
    outcome(&What::Failed(status.clone()), &[])
}

/// What an outcome says: what happened, and its metadata.
#[inline]
pub(super) fn told(bytes: &[u8]) -> (What<'_>, &[u8]) {
    let (head, rest) = bytes.split_first_chunk::<OUTCOME>().expect("an outcome has a head");
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
        let mut letters = Letters::default();
        letters.request((5, 9), Method::unary(3), &options, b"body");
        letters.request((5, 10), Method::unary(3), &CallOptions::within(Duration::MAX), b"");
        letters.cancel(5, 9);
        let bytes = letters.bytes();
        let letter = letters.pop().expect("the first");
        assert_eq!((letter.key, letter.tag), (5, 9));
        let size = letter.size();
        let Ask::Start(asked) = ask(letter.bytes) else { panic!("a request") };
        assert_eq!((asked.method.number(), asked.timeout), (3, options.timeout));
        assert_eq!((asked.metadata, asked.body), (&b"meta"[..], &b"body"[..]));
        assert_eq!(letters.bytes(), bytes - size);
        let letter = letters.pop().expect("the second");
        assert!(matches!(ask(letter.bytes), Ask::Start(Request { timeout: None, .. })));
        let letter = letters.pop().expect("the third");
        assert!(letter.tag == 9 && matches!(ask(letter.bytes), Ask::Cancel));
        assert!(letters.pop().is_none() && letters.is_empty());

        let whats = [
            What::Reply(b"reply"),
            What::Failed(Status::new(Code::NotFound, "no such key")),
            What::Failed(Status::lost("gone")),
        ];
        for what in whats {
            assert_eq!(told(outcome(&what, b"m").bytes()), (what.clone(), &b"m"[..]));
            letters.outcome(1, 2, &what, b"m");
            assert_eq!(told(letters.pop().expect("it").bytes), (what, &b"m"[..]));
        }
    }

    #[test]
    fn buffers_join_in_order_and_keep_no_more_memory_than_they_may() {
        let (mut all, mut other) = (Letters::default(), Letters::default());
        for round in 0..3 {
            other.outcome(0, round, &What::Reply(b"x"), b"");
            other.outcome(0, 10 + round, &What::Reply(&vec![0; KEPT]), b"");
            if round == 1 {
                assert_eq!(other.pop().map(|letter| letter.tag), Some(1));
            }
            all.append(&mut other);
            assert!(other.is_empty());
        }
        let tags: Vec<u32> = std::iter::from_fn(|| all.pop().map(|letter| letter.tag)).collect();
        assert_eq!((tags, all.bytes.capacity()), (vec![0, 10, 11, 2, 12], 0));
    }
}
