//! Replies, written into room that the caller reserved.
//!
//! A [`Reply`] is a cursor over a caller's bytes. Every method has a bound, so that a caller can reserve the room *before*
//! it executes a command and cannot be left with a result it has nowhere to put. Writing past the room is a broken
//! invariant of ours and panics.
//!
//! Bounds: [`LINE_BOUND`] for fixed lines and numbers, [`value_bound`], [`meta_bound`], [`stat_bound`] for the rest.
//!
//! A binary request ([`Reply::to`]) is answered in frames, by the same methods: `binary/reply.rs`.
//!
//! Silence: a classic command with noreply gets no reply whatever happens ([`Command::noreply`]); the caller checks that.
//! The meta methods know the rule of `q` themselves and write nothing where memcached writes nothing: `mg` misses, and
//! nominal results (`HD`, and `VA` of `ma`) of `ms`, `md` and `ma`.
//!
//! Cost: measured by `cargo bench -p millrace-protocol`.
//!
//! [`Command::noreply`]: super::command::Command::noreply

use super::binary::Asked;
use super::lines::Line;
use super::meta::Meta;
use super::number::{Digits, U32_DIGITS, U64_DIGITS};
use super::{KEY_MAX, OPAQUE_MAX};

pub use super::lines::LINE_BOUND;
pub use super::outcome::{MetaCounted, MetaDebug, MetaDeleted, MetaHit, MetaStored};

/// Bytes that hold a `VALUE` reply, its value and the `END` that may follow.
pub const fn value_bound(key_len: usize, value_len: usize) -> usize {
    "VALUE ".len()
        + key_len
        + 1
        + U32_DIGITS
        + 1
        + U32_DIGITS
        + 1
        + U64_DIGITS
        + 2
        + value_len
        + 2
        + "END\r\n".len()
}

/// Bytes that hold any reply to a meta command, with its value.
///
/// `key_len` is the length of the key's text in the request, which is what `k` returns.
pub const fn meta_bound(key_len: usize, value_len: usize) -> usize {
    let status = "VA ".len() + U32_DIGITS;
    let numbers = 4 * (2 + U32_DIGITS) + (2 + U64_DIGITS) + " h1".len();
    let echoes = 1 + OPAQUE_MAX + 2 + key_len + " b".len();
    let debug = META_DEBUG_BOUND;
    let words = status + numbers + echoes + " Z X W".len();
    (if words > debug + key_len { words } else { debug + key_len }) + 2 + value_len + 2
}

/// Bytes of an `ME` line without its key.
const META_DEBUG_BOUND: usize =
    "ME  exp= la= cas= fetch=yes cls= size=".len() + 1 + 3 * U32_DIGITS + 2 * U64_DIGITS;

/// Bytes that hold one `STAT` line.
pub const fn stat_bound(name_len: usize, value_len: usize) -> usize {
    "STAT  \r\n".len() + name_len + if value_len > U64_DIGITS { value_len } else { U64_DIGITS }
}

/// Bytes that hold every reply but those with a value, statistics or a version text.
pub const SMALL_BOUND: usize = {
    let meta = meta_bound(KEY_MAX, U64_DIGITS);
    if meta > LINE_BOUND { meta } else { LINE_BOUND }
};

/// A cursor that writes replies.
#[derive(Debug)]
pub struct Reply<'b> {
    out: &'b mut [u8],
    len: usize,
    /// The binary request that is answered, if it is one.
    asked: Option<Asked>,
}

#[cold]
fn out_of_room() -> ! {
    panic!("a reply outgrew the room reserved for it: reserve by its bound before executing the command")
}

impl<'b> Reply<'b> {
    /// A cursor at the start of `out`.
    #[inline]
    pub fn new(out: &'b mut [u8]) -> Reply<'b> {
        Reply { out, len: 0, asked: None }
    }

    /// The same, for what is said to a request of the binary protocol, if `asked` is one ([`Command::asked`]).
    ///
    /// [`Command::asked`]: super::command::Command::asked
    #[inline]
    pub fn to(out: &'b mut [u8], asked: Option<Asked>) -> Reply<'b> {
        Reply { out, len: 0, asked }
    }

    /// What a reply repeats of the binary request that is answered, if it is one.
    pub(super) fn asked(&self) -> Option<Asked> {
        self.asked
    }

    /// Bytes written so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True where nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of room left.
    #[inline]
    pub fn room(&self) -> usize {
        self.out.len() - self.len
    }

    /// What was written.
    pub fn written(&self) -> &[u8] {
        &self.out[..self.len]
    }

    /// Appends bytes as they are, for example a value after its head.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        match self.out.get_mut(self.len..self.len + bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => out_of_room(),
        }
        self.len += bytes.len();
    }

    /// Appends a fixed line.
    #[inline]
    pub fn line(&mut self, line: Line) {
        self.said(line.bytes());
    }

    /// The same of a line with its end that is not among the fixed ones.
    #[inline]
    pub fn said(&mut self, line: &[u8]) {
        match self.asked {
            None => self.bytes(line),
            Some(asked) => self.binary_line(asked, line),
        }
    }

    /// What follows the value of a hit that the caller copied itself.
    #[inline]
    pub fn value_end(&mut self) {
        if self.asked.is_none() {
            self.bytes(b"\r\n");
        }
    }

    /// The answer to `incr` and `decr`.
    #[inline]
    pub fn number(&mut self, number: u64) {
        self.digits(number);
        self.bytes(b"\r\n");
    }

    /// `VERSION` and the server's version text.
    pub fn version(&mut self, version: &str) {
        if let Some(asked) = self.asked {
            return self.binary_text(asked, version.as_bytes());
        }
        self.bytes(b"VERSION ");
        self.bytes(version.as_bytes());
        self.bytes(b"\r\n");
    }

    /// A hit of a retrieval: head, value and line end. `version` for `gets` and `gats`.
    #[inline]
    pub fn value(&mut self, key: &[u8], flags: u32, version: Option<u64>, value: &[u8]) {
        self.value_head(key, flags, version, value.len());
        self.bytes(value);
        self.bytes(b"\r\n");
    }

    /// The head of [`Reply::value`], for a caller that copies the value itself and then ends it with `\r\n`.
    #[inline]
    pub fn value_head(&mut self, key: &[u8], flags: u32, version: Option<u64>, value_len: usize) {
        self.bytes(b"VALUE ");
        self.bytes(key);
        self.bytes(b" ");
        self.digits(flags.into());
        self.bytes(b" ");
        self.digits(value_len as u64);
        if let Some(version) = version {
            self.bytes(b" ");
            self.digits(version);
        }
        self.bytes(b"\r\n");
    }

    /// One statistic with a text.
    pub fn stat(&mut self, name: &str, value: &str) {
        if let Some(asked) = self.asked {
            return self.binary_stat(asked, name, value.as_bytes());
        }
        self.bytes(b"STAT ");
        self.bytes(name.as_bytes());
        self.bytes(b" ");
        self.bytes(value.as_bytes());
        self.bytes(b"\r\n");
    }

    /// One statistic with a number.
    pub fn stat_number(&mut self, name: &str, value: u64) {
        if let Some(asked) = self.asked {
            return self.binary_stat(asked, name, Digits::of(value).as_bytes());
        }
        self.bytes(b"STAT ");
        self.bytes(name.as_bytes());
        self.bytes(b" ");
        self.number(value);
    }

    /// `mg` found the item.
    #[inline]
    pub fn meta_hit(&mut self, meta: &Meta<'_>, hit: &MetaHit, value: &[u8]) {
        self.meta_hit_head(meta, hit, value.len());
        if meta.flags.has(b'v') {
            self.bytes(value);
            self.value_end();
        }
    }

    /// The head of [`Reply::meta_hit`], for a caller that copies the value itself; only where `v` was asked does a value
    /// and [`Reply::value_end`] follow.
    #[inline]
    pub fn meta_hit_head(&mut self, meta: &Meta<'_>, hit: &MetaHit, value_len: usize) {
        if let Some(asked) = self.asked {
            return self.binary_hit_head(asked, meta, hit, value_len);
        }
        self.value_or_header(meta, value_len);
        let mut ttl = hit.ttl_before;
        for flag in words(meta.flags_text) {
            match flag[0] {
                b'T' | b'N' => ttl = hit.ttl,
                b's' => self.flag(b's', value_len as u64),
                b't' => self.ttl(ttl),
                b'c' => self.flag(b'c', hit.version),
                b'f' => self.flag(b'f', hit.client_flags.into()),
                b'l' => self.flag(b'l', hit.idle_s.into()),
                b'h' => self.flag(b'h', hit.fetched.into()),
                _ => self.echo(meta, flag),
            }
        }
        if hit.win_sent {
            self.bytes(b" Z");
        }
        if hit.stale {
            self.bytes(b" X");
        }
        if hit.won {
            self.bytes(b" W");
        }
        self.bytes(b"\r\n");
    }

    /// `mg` found nothing.
    pub fn meta_miss(&mut self, meta: &Meta<'_>) {
        if let Some(asked) = self.asked {
            return self.binary_miss(asked, meta);
        }
        if !meta.is_quiet() {
            self.status_and_echoes(b"EN", meta);
        }
    }

    /// `ms`; `size` is the length of the value now, which `s` returns.
    pub fn meta_stored(&mut self, meta: &Meta<'_>, stored: MetaStored, size: usize) {
        if let Some(asked) = self.asked {
            return self.binary_stored(asked, stored);
        }
        let (status, version) = match stored {
            MetaStored::Stored { .. } if meta.is_quiet() => return,
            MetaStored::Stored { version } => (b"HD", version),
            MetaStored::NotStored => (b"NS", 0),
            MetaStored::Exists => (b"EX", 0),
            MetaStored::NotFound => (b"NF", 0),
        };
        self.bytes(status);
        for flag in words(meta.flags_text) {
            match flag[0] {
                b'c' => self.flag(b'c', version),
                b's' => self.flag(b's', size as u64),
                _ => self.echo(meta, flag),
            }
        }
        self.bytes(b"\r\n");
    }

    /// `md`.
    pub fn meta_deleted(&mut self, meta: &Meta<'_>, deleted: MetaDeleted) {
        if let Some(asked) = self.asked {
            return self.binary_deleted(asked, deleted);
        }
        match deleted {
            MetaDeleted::Deleted if meta.is_quiet() => {}
            MetaDeleted::Deleted => self.status_and_echoes(b"HD", meta),
            MetaDeleted::Exists => self.status_and_echoes(b"EX", meta),
            MetaDeleted::NotFound => self.status_and_echoes(b"NF", meta),
        }
    }

    /// `ma`.
    pub fn meta_counted(&mut self, meta: &Meta<'_>, counted: MetaCounted) {
        if let Some(asked) = self.asked {
            return self.binary_counted(asked, counted);
        }
        let (number, version, ttl, ttl_before) = match counted {
            MetaCounted::Counted { created: false, .. } if meta.is_quiet() => return,
            MetaCounted::Counted { number, version, ttl, ttl_before, .. } => {
                (number, version, ttl, ttl_before)
            }
            MetaCounted::NotStored => return self.status_and_echoes(b"NS", meta),
            MetaCounted::Exists => return self.status_and_echoes(b"EX", meta),
            MetaCounted::NotFound => return self.status_and_echoes(b"NF", meta),
        };
        let digits = Digits::of(number);
        self.value_or_header(meta, digits.as_bytes().len());
        let mut shown = ttl_before;
        for flag in words(meta.flags_text) {
            match flag[0] {
                b'T' | b'N' => shown = ttl,
                b't' => self.ttl(shown),
                b'c' => self.flag(b'c', version),
                _ => self.echo(meta, flag),
            }
        }
        self.bytes(b"\r\n");
        if meta.flags.has(b'v') {
            self.bytes(digits.as_bytes());
            self.bytes(b"\r\n");
        }
    }

    /// `me` found the item; a miss is [`Line::MetaMiss`].
    pub fn meta_debug(&mut self, meta: &Meta<'_>, item: &MetaDebug) {
        self.bytes(b"ME ");
        self.bytes(meta.key_text);
        self.bytes(b" exp=");
        match item.ttl {
            None => self.bytes(b"-1"),
            // memcached subtracts the other way round.
            Some(0) => self.bytes(b"0"),
            Some(ttl) => {
                self.bytes(b"-");
                self.digits(ttl.into());
            }
        }
        self.bytes(b" la=");
        self.digits(item.idle_s.into());
        self.bytes(b" cas=");
        self.digits(item.version);
        self.bytes(if item.fetched { b" fetch=yes cls=" } else { b" fetch=no cls=" });
        self.digits(item.class.into());
        self.bytes(b" size=");
        self.number(item.size);
    }

    #[inline]
    fn digits(&mut self, number: u64) {
        self.bytes(Digits::of(number).as_bytes());
    }

    /// `VA <size>` where the value is wanted, `HD` otherwise.
    #[inline]
    fn value_or_header(&mut self, meta: &Meta<'_>, value_len: usize) {
        if meta.flags.has(b'v') {
            self.bytes(b"VA ");
            self.digits(value_len as u64);
        } else {
            self.bytes(b"HD");
        }
    }

    fn status_and_echoes(&mut self, status: &[u8; 2], meta: &Meta<'_>) {
        self.bytes(status);
        for flag in words(meta.flags_text) {
            self.echo(meta, flag);
        }
        self.bytes(b"\r\n");
    }

    /// Returns the flags that every reply returns: the opaque and the key.
    #[inline]
    fn echo(&mut self, meta: &Meta<'_>, flag: &[u8]) {
        match flag[0] {
            b'O' => {
                self.bytes(b" ");
                self.bytes(flag);
            }
            b'k' => {
                self.bytes(b" k");
                self.bytes(meta.key_text);
                if meta.is_base64() {
                    self.bytes(b" b");
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn flag(&mut self, letter: u8, number: u64) {
        self.bytes(&[b' ', letter]);
        self.digits(number);
    }

    #[inline]
    fn ttl(&mut self, ttl: Option<u32>) {
        match ttl {
            Some(ttl) => self.flag(b't', ttl.into()),
            None => self.bytes(b" t-1"),
        }
    }
}

/// The words of a meta command's flags.
#[inline]
fn words(flags: &[u8]) -> impl Iterator<Item = &[u8]> {
    flags.split(|&b| b == b' ').filter(|word| !word.is_empty())
}
