//! Requests: each function appends one to `out` and returns what its answer will look like.
//!
//! Invariants: keys are plain (see [`super::is_plain_key`]) or, for the meta commands, base64 with the `b` flag. A key
//! with a space would turn the rest of the stream into other commands, so it is a broken invariant of the caller:
//! asserted in debug builds.
//!
//! Cost: no allocation beyond the growth of `out`.

use super::{Expect, is_plain_key};

/// How [`store`] decides whether to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Always.
    Set,
    /// Only where the key is absent.
    Add,
    /// Only where the key is present.
    Replace,
    /// Behind the bytes that are there.
    Append,
    /// Before the bytes that are there.
    Prepend,
    /// Only where the item still has this unique number.
    Cas(u64),
}

impl Store {
    fn verb(self) -> &'static str {
        match self {
            Store::Set => "set",
            Store::Add => "add",
            Store::Replace => "replace",
            Store::Append => "append",
            Store::Prepend => "prepend",
            Store::Cas(_) => "cas",
        }
    }
}

/// `get` or `gets` (the `verb`) of one or more keys.
pub fn read<'k>(out: &mut Vec<u8>, verb: &str, keys: impl IntoIterator<Item = &'k [u8]>) -> Expect {
    debug_assert!(matches!(verb, "get" | "gets"));
    out.extend_from_slice(verb.as_bytes());
    keys.into_iter().for_each(|key| word(out, key));
    end(out);
    Expect::Values
}

/// `gat` or `gats` (the `verb`): reads the keys and gives them a new expiry, in seconds.
pub fn read_and_touch<'k>(
    out: &mut Vec<u8>,
    verb: &str,
    expiry_s: i64,
    keys: impl IntoIterator<Item = &'k [u8]>,
) -> Expect {
    debug_assert!(matches!(verb, "gat" | "gats"));
    out.extend_from_slice(verb.as_bytes());
    signed(out, expiry_s);
    keys.into_iter().for_each(|key| word(out, key));
    end(out);
    Expect::Values
}

/// `set` with an answer: the everyday form of [`store`].
pub fn set(out: &mut Vec<u8>, key: &[u8], flags: u32, expiry_s: i64, data: &[u8]) -> Expect {
    store_with(out, Store::Set, key, flags, expiry_s, data.len(), false, |body| body.extend_from_slice(data))
}

/// Any of the storing commands. With `quiet` the server does not answer (`noreply`).
pub fn store(
    out: &mut Vec<u8>,
    how: Store,
    key: &[u8],
    flags: u32,
    expiry_s: i64,
    data: &[u8],
    quiet: bool,
) -> Expect {
    store_with(out, how, key, flags, expiry_s, data.len(), quiet, |body| body.extend_from_slice(data))
}

/// As [`store`], with the value written in place by `fill`, which must append exactly `len` bytes.
#[allow(clippy::too_many_arguments)] // They are the fields of one request line, in its order.
pub fn store_with(
    out: &mut Vec<u8>,
    how: Store,
    key: &[u8],
    flags: u32,
    expiry_s: i64,
    len: usize,
    quiet: bool,
    fill: impl FnOnce(&mut Vec<u8>),
) -> Expect {
    out.extend_from_slice(how.verb().as_bytes());
    word(out, key);
    unsigned(out, u64::from(flags));
    signed(out, expiry_s);
    unsigned(out, len as u64);
    if let Store::Cas(unique) = how {
        unsigned(out, unique);
    }
    finish(out, quiet);
    body(out, len, fill);
    if quiet { Expect::Nothing } else { Expect::Line }
}

/// `delete`.
pub fn delete(out: &mut Vec<u8>, key: &[u8], quiet: bool) -> Expect {
    out.extend_from_slice(b"delete");
    word(out, key);
    finish(out, quiet)
}

/// `incr` or, with `down`, `decr` by `by`.
pub fn count(out: &mut Vec<u8>, key: &[u8], by: u64, down: bool, quiet: bool) -> Expect {
    out.extend_from_slice(if down { b"decr" } else { b"incr" });
    word(out, key);
    unsigned(out, by);
    finish(out, quiet)
}

/// `touch`: a new expiry, in seconds.
pub fn touch(out: &mut Vec<u8>, key: &[u8], expiry_s: i64, quiet: bool) -> Expect {
    out.extend_from_slice(b"touch");
    word(out, key);
    signed(out, expiry_s);
    finish(out, quiet)
}

/// `flush_all`, now or after `delay_s` seconds.
pub fn flush_all(out: &mut Vec<u8>, delay_s: Option<u64>, quiet: bool) -> Expect {
    out.extend_from_slice(b"flush_all");
    if let Some(delay) = delay_s {
        unsigned(out, delay);
    }
    finish(out, quiet)
}

/// `version`.
pub fn version(out: &mut Vec<u8>) -> Expect {
    out.extend_from_slice(b"version\r\n");
    Expect::Line
}

/// `stats`, or `stats` of one `family` (`items`, `settings`, …).
pub fn stats(out: &mut Vec<u8>, family: Option<&str>) -> Expect {
    out.extend_from_slice(b"stats");
    if let Some(family) = family {
        word(out, family.as_bytes());
    }
    end(out);
    Expect::Stats
}

/// `mg`: meta get with `flags` such as `"v f c"`. Quiet requests (`q`) answer only until the next [`meta_noop`]: see
/// [`Expect::MetaUntilNoop`].
pub fn meta_get(out: &mut Vec<u8>, key: &[u8], flags: &str) -> Expect {
    meta(out, "mg", key, flags)
}

/// `md`: meta delete.
pub fn meta_delete(out: &mut Vec<u8>, key: &[u8], flags: &str) -> Expect {
    meta(out, "md", key, flags)
}

/// `ma`: meta arithmetic.
pub fn meta_arithmetic(out: &mut Vec<u8>, key: &[u8], flags: &str) -> Expect {
    meta(out, "ma", key, flags)
}

/// `ms`: meta set.
pub fn meta_set(out: &mut Vec<u8>, key: &[u8], flags: &str, data: &[u8]) -> Expect {
    meta_set_with(out, key, flags, data.len(), |body| body.extend_from_slice(data))
}

/// As [`meta_set`], with the value written in place by `fill`, which must append exactly `len` bytes.
pub fn meta_set_with(
    out: &mut Vec<u8>,
    key: &[u8],
    flags: &str,
    len: usize,
    fill: impl FnOnce(&mut Vec<u8>),
) -> Expect {
    out.extend_from_slice(b"ms");
    word(out, key);
    unsigned(out, len as u64);
    meta_flags(out, flags);
    end(out);
    body(out, len, fill);
    Expect::Meta
}

/// `mn`: its answer, `MN`, says that everything asked before it has been answered.
pub fn meta_noop(out: &mut Vec<u8>) -> Expect {
    out.extend_from_slice(b"mn\r\n");
    Expect::Meta
}

fn meta(out: &mut Vec<u8>, verb: &str, key: &[u8], flags: &str) -> Expect {
    out.extend_from_slice(verb.as_bytes());
    word(out, key);
    meta_flags(out, flags);
    end(out);
    Expect::Meta
}

fn meta_flags(out: &mut Vec<u8>, flags: &str) {
    debug_assert!(flags.bytes().all(|b| (b' '..0x7F).contains(&b)), "flags {flags:?} would end the line");
    if !flags.is_empty() {
        out.push(b' ');
        out.extend_from_slice(flags.as_bytes());
    }
}

fn body(out: &mut Vec<u8>, len: usize, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    fill(out);
    assert_eq!(out.len() - start, len, "the value is not as long as its request line says");
    end(out);
}

fn finish(out: &mut Vec<u8>, quiet: bool) -> Expect {
    if quiet {
        out.extend_from_slice(b" noreply");
    }
    end(out);
    if quiet { Expect::Nothing } else { Expect::Line }
}

fn word(out: &mut Vec<u8>, key: &[u8]) {
    debug_assert!(is_plain_key(key), "{:?} cannot travel as a key", String::from_utf8_lossy(key));
    out.push(b' ');
    out.extend_from_slice(key);
}

fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

fn signed(out: &mut Vec<u8>, n: i64) {
    out.push(b' ');
    if n < 0 {
        out.push(b'-');
    }
    decimal(out, n.unsigned_abs());
}

fn unsigned(out: &mut Vec<u8>, n: u64) {
    out.push(b' ');
    decimal(out, n);
}

/// Appends `n` in decimal; `write!` would go through the formatting machinery for every number of every request.
fn decimal(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(build: impl FnOnce(&mut Vec<u8>) -> Expect) -> (String, Expect) {
        let mut out = Vec::new();
        let expect = build(&mut out);
        (String::from_utf8(out).expect("ascii"), expect)
    }

    #[test]
    fn requests_look_as_the_protocol_says() {
        let k: &[u8] = b"key";
        for (got, want) in [
            (text(|o| read(o, "gets", [k, b"b"])), ("gets key b\r\n", Expect::Values)),
            (text(|o| read_and_touch(o, "gat", -1, [k])), ("gat -1 key\r\n", Expect::Values)),
            (text(|o| set(o, k, 7, 60, b"hi")), ("set key 7 60 2\r\nhi\r\n", Expect::Line)),
            (
                text(|o| store(o, Store::Cas(9), k, 0, 0, b"", true)),
                ("cas key 0 0 0 9 noreply\r\n\r\n", Expect::Nothing),
            ),
            (
                text(|o| store(o, Store::Append, k, 0, 0, b"x", false)),
                ("append key 0 0 1\r\nx\r\n", Expect::Line),
            ),
            (text(|o| delete(o, k, false)), ("delete key\r\n", Expect::Line)),
            (text(|o| delete(o, k, true)), ("delete key noreply\r\n", Expect::Nothing)),
            (text(|o| count(o, k, 3, true, false)), ("decr key 3\r\n", Expect::Line)),
            (text(|o| touch(o, k, 5, false)), ("touch key 5\r\n", Expect::Line)),
            (text(|o| flush_all(o, Some(2), false)), ("flush_all 2\r\n", Expect::Line)),
            (text(version), ("version\r\n", Expect::Line)),
            (text(|o| stats(o, Some("items"))), ("stats items\r\n", Expect::Stats)),
            (text(|o| meta_get(o, k, "v c")), ("mg key v c\r\n", Expect::Meta)),
            (text(|o| meta_set(o, k, "T60", b"hi")), ("ms key 2 T60\r\nhi\r\n", Expect::Meta)),
            (text(|o| meta_delete(o, k, "")), ("md key\r\n", Expect::Meta)),
            (text(|o| meta_arithmetic(o, k, "v D4")), ("ma key v D4\r\n", Expect::Meta)),
            (text(meta_noop), ("mn\r\n", Expect::Meta)),
        ] {
            assert_eq!((got.0.as_str(), got.1), want);
        }
    }

    proptest! {
        #[test]
        fn numbers_print_as_the_standard_library_prints_them(n: u64, s: i64) {
            let mut out = Vec::new();
            decimal(&mut out, n);
            signed(&mut out, s);
            prop_assert_eq!(String::from_utf8(out).expect("ascii"), format!("{n} {s}"));
        }
    }
}
