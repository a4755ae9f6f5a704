//! What an item of a reply holds.
//!
//! ```text
//!  'R' 'k' · u32 n · name (n bytes) · u32 m · request (m bytes) · reply       a reply
//!  'R' 'c' · u64 token                                                       somebody computes one
//!  'R' 'w' · token (u64) of each writer, 1 to 64, none twice                  being written
//!  'R' 'n'                                                                   nothing
//! ```
//! Little-endian. What is none of these was stored by somebody else, and is left alone.

/// Writers of one item at a time.
pub const MOST_WRITERS: usize = 64;

/// See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// The reply to this request, for this name.
    Kept {
        /// See [`Item::name`](super::Item::name).
        name: &'a [u8],
        /// As it was sent.
        request: &'a [u8],
        /// As it was answered.
        reply: &'a [u8],
    },
    /// Somebody computes a reply.
    Claimed(u64),
    /// These write.
    Marked(Vec<u64>),
    /// Nothing, after a write.
    Nothing,
}

impl<'a> Entry<'a> {
    /// Reads one; nothing if it is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Entry<'a>> {
        let rest = bytes.strip_prefix(b"R")?;
        let (&kind, rest) = rest.split_first()?;
        match kind {
            b'k' => {
                let (name, rest) = text(rest)?;
                let (request, reply) = text(rest)?;
                Some(Entry::Kept { name, request, reply })
            }
            b'c' => Some(Entry::Claimed(u64::from_le_bytes(rest.try_into().ok()?))),
            b'w' => {
                let (tokens, []) = rest.as_chunks() else { return None };
                let tokens: Vec<u64> = tokens.iter().map(|token| u64::from_le_bytes(*token)).collect();
                let is_once = |(at, token): (usize, &u64)| !tokens[..at].contains(token);
                let is_right = (1..=MOST_WRITERS).contains(&tokens.len());
                (is_right && tokens.iter().enumerate().all(is_once)).then_some(Entry::Marked(tokens))
            }
            b'n' if rest.is_empty() => Some(Entry::Nothing),
            _ => None,
        }
    }

    /// As it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Entry::Kept { name, request, reply } => {
                let [n, m] = [name, request].map(|text| (text.len() as u32).to_le_bytes());
                [b"Rk", &n[..], name, &m, request, reply].concat()
            }
            Entry::Claimed(token) => [b"Rc", &token.to_le_bytes()[..]].concat(),
            Entry::Marked(tokens) => {
                let tokens = tokens.iter().flat_map(|token| token.to_le_bytes());
                b"Rw".iter().copied().chain(tokens).collect()
            }
            Entry::Nothing => b"Rn".to_vec(),
        }
    }
}

/// A length and so many bytes, and what is behind.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)
}
