//! The soak's keys and values. A value is a row of parts, each the [`load::value`](bench::load::value) of one write: the
//! first of a set, the others of the appends and prepends since. So a value tells by itself which writes made it, and a
//! lost, doubled or torn part shows in the middle as well as at the ends.

use super::ledger::{Part, Seen, State};
use base::prng::mix64;
use bench::load::value::{self, HEADER, Nonce};

/// The shortest part.
pub const SHORTEST: u32 = HEADER as u32;

/// Parts in a value at most; a value with more is none of ours.
const MOST: usize = u16::MAX as usize;

/// Whether `key` holds a number, for incr and decr, and not a row of parts.
pub fn is_counter(key: u32) -> bool {
    key.is_multiple_of(8)
}

/// The name of `key`: 13 to 76 bytes.
pub fn name(key: u32) -> Vec<u8> {
    let mut name = format!("soak-{key:08}").into_bytes();
    let longer = mix64(u64::from(key)) % 64;
    name.extend((0..longer).map(|i| b'a' + (i % 26) as u8));
    name
}

/// The flags of `key`.
pub fn flags(key: u32) -> u32 {
    value::flags_of(u64::from(key))
}

/// Appends the part that write `seq` of `len` bytes puts under `key`.
pub fn write(out: &mut Vec<u8>, key: u32, run: u32, part: Part) {
    value::write(out, u64::from(key), Nonce::new(0, u64::from(part.seq)), run, part.len as usize);
}

/// What `data` with `found_flags`, read under `key`, says.
pub fn read(data: &[u8], key: u32, run: u32, found_flags: u32) -> Seen {
    let damaged = |at: usize| Seen::Damaged { at: at as u32, len: data.len() as u32 };
    if found_flags != flags(key) {
        return damaged(0);
    }
    if is_counter(key) {
        return number(data).map_or(damaged(0), Seen::Number);
    }
    let (mut parts, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let Some(header) = data.get(at..at + HEADER) else { return damaged(at) };
        let len = u32::from_le_bytes(header[16..20].try_into().expect("4 bytes")) as usize;
        let Some(part) = data.get(at..at + len.max(HEADER)) else { return damaged(at) };
        match value::read(part, u64::from(key), run) {
            Ok(value::Value { nonce: Some(nonce), .. }) if parts.len() < MOST => {
                parts.push(Part { seq: nonce.seq() as u32, len: len as u32 });
            }
            Err(value::BadValue::Byte(inside)) => return damaged(at + inside),
            _ => return damaged(at),
        }
        at += len;
    }
    State::Blob(parts).seen()
}

/// The number in `data`: digits, and the spaces that memcached leaves behind a number that became shorter.
fn number(data: &[u8]) -> Option<u64> {
    std::str::from_utf8(data.trim_ascii_end()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_parts_read_back_and_damage_is_found_anywhere() {
        let rows = [Part { seq: 3, len: 32 }, Part { seq: 9, len: 100 }, Part { seq: 5, len: 47 }];
        let mut data = Vec::new();
        rows.iter().for_each(|&part| write(&mut data, 1, 7, part));
        assert_eq!(read(&data, 1, 7, flags(1)), State::Blob(rows.to_vec()).seen());
        assert_ne!(read(&data, 1, 7, flags(1)), State::Blob(rows[..2].to_vec()).seen());
        assert!(matches!(read(&data, 2, 7, flags(2)), Seen::Damaged { .. }), "another key's");
        assert!(matches!(read(&data, 1, 8, flags(1)), Seen::Damaged { .. }), "another run's");
        assert!(matches!(read(&data, 1, 7, flags(1) + 1), Seen::Damaged { .. }), "other flags");
        for at in 0..data.len() {
            let mut bad = data.clone();
            bad[at] ^= 1;
            assert!(matches!(read(&bad, 1, 7, flags(1)), Seen::Damaged { .. }), "byte {at}");
            let cut = read(&data[..at], 1, 7, flags(1));
            let between = [0, 32, 132].contains(&at);
            assert_eq!(matches!(cut, Seen::Damaged { .. }), !between, "cut at {at}");
        }
    }

    #[test]
    fn numbers_may_have_spaces_behind() {
        assert_eq!(read(b"12  ", 8, 1, flags(8)), Seen::Number(12));
        assert!(matches!(read(b"1 2", 8, 1, flags(8)), Seen::Damaged { .. }));
        assert!(matches!(read(b"", 8, 1, flags(8)), Seen::Damaged { .. }));
    }

    #[test]
    fn names_are_plain_and_different() {
        let names: std::collections::HashSet<_> = (0..1000).map(name).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|n| protocol::memcache::client::is_plain_key(n)));
    }
}
