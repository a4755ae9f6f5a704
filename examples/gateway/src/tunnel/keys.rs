//! The secret that two gateways share, and the keys that follow from it: HMAC-SHA256 over the codec's SHA-256.
//!
//! Sources: RFC 2104 (HMAC), checked by RFC 4231's vectors; NIST SP 800-108 (keys by a label and what they are for).

use base::prng::Prng;
use codec::unit::Kernel;
use codec::unit::kernels::Sha256;
use std::fmt;
use std::path::Path;

/// 32 bytes that only the two gateways know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Of 64 hexadecimal digits.
    ///
    /// # Errors
    /// It is none; the sentence says how to make one.
    pub fn parse(text: &str) -> Result<Secret, String> {
        let text = text.trim();
        let wrong = || "a key is 64 hexadecimal digits: `gateway keygen FILE` makes one".to_owned();
        let mut secret = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        for (at, byte) in secret.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Secret(secret))
    }

    /// As a file has it.
    pub fn to_text(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n"
    }

    /// Reads a file that its owner alone may read.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or it has no key.
    pub fn read(path: &Path) -> Result<Secret, String> {
        use std::os::unix::fs::PermissionsExt as _;
        let shown = path.display();
        let failed =
            |error| format!("cannot read the key {shown}: {error}; `gateway keygen {shown}` makes one");
        let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(format!("others may read the key {shown}: chmod 600 {shown}"));
        }
        Secret::parse(&std::fs::read_to_string(path).map_err(failed)?)
            .map_err(|why| format!("{shown}: {why}"))
    }

    /// For tests and laboratories.
    pub fn of_seed(seed: u64) -> Secret {
        let mut secret = [0; 32];
        Prng::new(seed).fill(&mut secret);
        Secret(secret)
    }
}

/// What a session seals and opens with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// The session's, the same on both sides: the `sealer` of its nonces.
    pub id: u32,
    /// For what this side sends.
    pub seal: [u8; 32],
    /// For what the other sends.
    pub open: [u8; 32],
}

/// The keys of the session of two numbers, that of role 0 first, for a side.
pub fn session(secret: &Secret, role: u8, numbers: [&[u8; 16]; 2]) -> Keys {
    let of = |label: &[u8]| mac(secret, &[b"millrace gateway session", label, numbers[0], numbers[1]]);
    let keys = [of(b"0 to 1"), of(b"1 to 0")];
    let id = of(b"number");
    let role = usize::from(role);
    Keys {
        id: u32::from_le_bytes(id[..4].try_into().expect("four bytes")),
        seal: keys[role],
        open: keys[1 - role],
    }
}

/// HMAC-SHA256 of some bytes in a row.
pub fn mac(secret: &Secret, parts: &[&[u8]]) -> [u8; 32] {
    let pad = |with: u8| [&secret.0.map(|byte| byte ^ with)[..], &[with; 32]].concat();
    let inner = hash(&[&pad(0x36)[..], &parts.concat()].concat());
    hash(&[&pad(0x5C)[..], &inner].concat())
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    Sha256.run(bytes, &mut out).expect("32 bytes are what it writes");
    out
}

/// Whether two codes are the same, in a time that does not say where they differ.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_standard_code() {
        // RFC 4231, case 1, whose key is 20 bytes: as HMAC pads it.
        let mut key = [0; 32];
        key[..20].fill(0x0B);
        let code = mac(&Secret(key), &[b"Hi ", b"There"]);
        assert_eq!(code[..8], [0xB0, 0x34, 0x4C, 0x61, 0xD8, 0xDB, 0x38, 0x53]);
        assert_eq!(code[28..], [0x2E, 0x32, 0xCF, 0xF7]);
        assert!(is_same(&code, &code) && !is_same(&code, &code[1..]));
    }

    #[test]
    fn keys_are_read_and_the_wrong_ones_refused() {
        let secret = Secret::of_seed(3);
        assert_eq!(Secret::parse(&secret.to_text()), Ok(secret));
        for wrong in ["", "00", &"g".repeat(64), &"0".repeat(65), &"ä".repeat(32)] {
            assert!(Secret::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    #[test]
    fn directions_and_sessions_have_keys_of_their_own() {
        let secret = Secret::of_seed(1);
        let (a, b) = (session(&secret, 0, [&[1; 16], &[2; 16]]), session(&secret, 1, [&[1; 16], &[2; 16]]));
        let other = session(&secret, 0, [&[1; 16], &[3; 16]]);
        assert_eq!((a.seal, a.open, a.id), (b.open, b.seal, b.id));
        assert!(a.seal != a.open && a.seal != other.seal && a.id != other.id);
    }
}
