//! The secret that members of a cluster share, and the tags by which they know each other's messages.
//!
//! ```text
//!   cluster key (a file, 0600) ──derive("chain")──▶ Key ──tag(parts)──▶ 16 bytes
//!                              ──derive("cache/client")──▶ Key that may be given to clients: it says nothing of the others
//! ```
//! Tags are SipHash-2-4 with 128 bits of key and of output: a pseudo-random function made for short messages, 1 ns per byte here. It proves
//! who wrote a message, and hides nothing: TLS is for that.
//!
//! Invariants:
//! 1. A key is never printed: neither `Debug` nor an error shows it.
//! 2. Parts are hashed with their lengths, so that two lists of parts never give the same bytes.
//! 3. Tags are compared in constant time.
//!
//! Errors: [`KeyError`], a sentence that says what to do.
//!
//! Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", 2012; the variant with 128 bits of output by its authors.

use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher as _;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;
/// A key file is 32 hexadecimal digits and a line feed; nothing longer is read.
const FILE_BYTES_MAX: u64 = 256;

/// A shared secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key([u8; KEY_BYTES]);

/// What only a holder of the key can compute of a message.
#[derive(Clone, Copy, Debug)]
pub struct Tag(pub [u8; TAG_BYTES]);

impl PartialEq for Tag {
    fn eq(&self, other: &Tag) -> bool {
        // Every byte is looked at, so that the time says nothing of how many were right.
        self.0.iter().zip(other.0).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

impl Eq for Tag {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

impl Key {
    /// A key from these bytes.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Key {
        Key(bytes)
    }

    /// A key that is written as 32 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Key> {
        bytes_from_hex(text).map(Key)
    }

    /// Whether it is the same key. The time it takes says nothing of how much of it is.
    pub fn is(&self, other: &Key) -> bool {
        Tag(self.0) == Tag(other.0)
    }

    /// A new key from the system's random numbers.
    pub fn generate() -> Key {
        Key(random())
    }

    /// The key as SipHash takes it: for a tier that computes tags itself.
    pub fn words(&self) -> [u64; 2] {
        let (words, _) = self.0.as_chunks::<8>();
        [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
    }

    /// The key for one purpose. Whoever has it can compute neither this one nor that of another purpose.
    pub fn derive(&self, purpose: &str) -> Key {
        Key(self.tag(&[b"derive", purpose.as_bytes()]).0)
    }

    /// The tag of a message that consists of these parts.
    pub fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        Tag(hasher.finish128().as_bytes())
    }

    /// Whether `tag` is that of these parts.
    pub fn verifies(&self, parts: &[&[u8]], tag: Tag) -> bool {
        self.tag(parts) == tag
    }

    /// Reads the key in a file, which nobody but its owner may read.
    ///
    /// # Errors
    /// It is not there, others may read it, or it holds no key.
    pub fn read(path: &Path) -> Result<Key, KeyError> {
        let failed = |cause| KeyError::Io(path.to_owned(), cause);
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(KeyError::NoKey(path.to_owned()));
        }
        if about.mode() & 0o077 != 0 {
            return Err(KeyError::Readable(path.to_owned(), about.mode() & 0o777));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        Key::from_hex(text.trim()).ok_or_else(|| KeyError::NoKey(path.to_owned()))
    }

    /// Writes the key into a new file with mode 0600. It is complete, or not there.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        let failed = |cause| KeyError::Io(path.to_owned(), cause);
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".{}", std::process::id()));
        let part = PathBuf::from(part);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part).map_err(failed)?;
        let text: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let written = file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_all());
        // A link, unlike a rename, does not replace a file that is there.
        let linked = written.and_then(|()| fs::hard_link(&part, path));
        let _ = fs::remove_file(&part);
        linked.map_err(failed)
    }

    /// The key in a file, which is made if it is not there.
    ///
    /// # Errors
    /// Those of [`Key::read`] and [`Key::write_new`].
    pub fn read_or_make(path: &Path) -> Result<Key, KeyError> {
        match Key::read(path) {
            Err(KeyError::Io(_, cause)) if cause.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        match Key::generate().write_new(path) {
            // Another process was quicker: its key counts.
            Err(KeyError::Io(_, cause)) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            written => written?,
        }
        Key::read(path)
    }
}

/// Random bytes of the system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(cause) => panic!("the system gives no random numbers: {cause}"),
        }
    }
    bytes
}

fn bytes_from_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
    if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; KEY_BYTES];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Why there is no key.
#[derive(Debug)]
pub enum KeyError {
    /// The file cannot be read or written.
    Io(PathBuf, io::Error),
    /// Others than its owner may read or write it; its mode.
    Readable(PathBuf, u32),
    /// It holds something else.
    NoKey(PathBuf),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Io(path, cause) => write!(f, "key file {}: {cause}", path.display()),
            KeyError::Readable(path, mode) => {
                let path = path.display();
                write!(f, "key file {path} has mode {mode:04o}, so others can read it: chmod 600 {path}")
            }
            KeyError::NoKey(path) => {
                write!(f, "key file {} must hold 32 hexadecimal digits and nothing else", path.display())
            }
        }
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use tempfile::TempDir;

    /// The authors' vectors: key 00 .. 0f, the empty message and 00 .. 0e; their lengths are not hashed there.
    #[test]
    fn the_function_is_siphash_2_4_128() {
        let key: [u8; 16] = std::array::from_fn(|i| i as u8);
        let of = |message: &[u8]| {
            let mut hasher = SipHasher24::new_with_key(&key);
            hasher.write(message);
            hasher.finish128().as_bytes()
        };
        let empty =
            [0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93];
        let fifteen =
            [0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9];
        assert_eq!(of(&[]), empty);
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(of(&message), fifteen);
    }

    #[test]
    fn parts_purposes_and_keys_give_tags_of_their_own() {
        let (key, other) = (Key::new([1; 16]), Key::new([2; 16]));
        let tag = key.tag(&[b"ab", b"c"]);
        assert!(key.verifies(&[b"ab", b"c"], tag));
        assert!(!key.verifies(&[b"a", b"bc"], tag) && !key.verifies(&[b"abc"], tag));
        assert!(!other.verifies(&[b"ab", b"c"], tag));
        assert_ne!(key.derive("chain"), key.derive("cache"));
        assert_ne!(key.derive("chain"), key);
        for bit in 0..TAG_BYTES * 8 {
            let mut forged = tag;
            forged.0[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(&[b"ab", b"c"], forged));
        }
    }

    #[test]
    fn a_file_is_for_its_owner_alone_and_comes_back() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("cluster.key");
        let key = Key::read_or_make(&path).expect("it is made");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(Key::read_or_make(&path).expect("it is read"), key);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left beside it");
        assert!(matches!(key.write_new(&path), Err(KeyError::Io(..))), "it is never replaced");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("its mode can be set");
        let refused = Key::read(&path).expect_err("others may read it");
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
    }

    #[test]
    fn what_is_no_key_is_refused_with_a_word() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("cluster.key");
        for text in ["", "00", "zz112233445566778899aabbccddeeff", "00112233445566778899aabbccddeeff00"] {
            fs::write(&path, text).expect("a small file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode can be set");
            assert!(matches!(Key::read(&path), Err(KeyError::NoKey(_))), "{text:?}");
        }
        assert!(matches!(Key::read(folder.path()), Err(KeyError::NoKey(_))), "a folder");
        assert!(!format!("{:?}", Key::new([0xab; 16])).contains("ab"), "a key is not printed");
    }
}
