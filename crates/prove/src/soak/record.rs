//! What a client process tells the soak over its pipe: records of 32 bytes, so that one is never seen half.
//!
//! ```text
//!  0     1      2        4       8       12      16       24       28
//!  | tag | what | parts  | key   | seq   | len   | word   | micros | extra |
//! ```
//! An attempt is written before the request is sent, an answer after the reply was read: whatever a kill cuts off, the
//! ledger knows at least every write that may have happened and at most those that were acknowledged.
//!
//! Invariant: a client writes whole records in writes of at most [`ATOMIC`] bytes, which a pipe takes whole or not at all.

use super::ledger::{Answer, Op, Seen};
use std::fmt;

/// The length of a record.
pub const LEN: usize = 32;

/// A pipe takes as much in one piece (`PIPE_BUF`).
pub const ATOMIC: usize = 4096;

/// One thing that happened in a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Connected, from this local port, and accepted by the server.
    Hello {
        /// The port.
        port: u16,
    },
    /// About to send a write.
    Attempt {
        /// Its key.
        key: u32,
        /// The write.
        op: Op,
    },
    /// The reply to the write of `key` was read.
    Answered {
        /// Its key.
        key: u32,
        /// What the server said.
        answer: Answer,
        /// How long it took, batch and all.
        micros: u32,
    },
    /// A read of `key` was answered.
    Read {
        /// Its key.
        key: u32,
        /// What was there.
        seen: Seen,
        /// How long it took, batch and all.
        micros: u32,
    },
    /// The client ends by itself.
    Bye(Bye),
}

/// Why a client ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bye {
    /// It was told to.
    Told,
    /// The server closed the connection.
    Closed,
    /// The server said that it has no memory for a request, which it closes the connection after.
    NoBuffers,
    /// The server did not answer for too long.
    Silence,
    /// The server's reply made no sense.
    Nonsense,
    /// No connection could be had.
    NoConnection,
}

impl Bye {
    const ALL: [Bye; 6] =
        [Bye::Told, Bye::Closed, Bye::NoBuffers, Bye::Silence, Bye::Nonsense, Bye::NoConnection];
}

impl fmt::Display for Bye {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bye::Told => "was told to end",
            Bye::Closed => "found its connection closed by the server",
            Bye::NoBuffers => "was refused for want of buffers",
            Bye::Silence => "waited for an answer for too long",
            Bye::Nonsense => "was answered with something that is no reply to its request",
            Bye::NoConnection => "could not connect",
        })
    }
}

#[derive(Clone, Copy, Default)]
struct Fields {
    tag: u8,
    what: u8,
    parts: u16,
    key: u32,
    seq: u32,
    len: u32,
    word: u64,
    micros: u32,
    extra: u32,
}

impl Fields {
    fn bytes(self) -> [u8; LEN] {
        let mut out = [0; LEN];
        (out[0], out[1]) = (self.tag, self.what);
        out[2..4].copy_from_slice(&self.parts.to_le_bytes());
        out[4..8].copy_from_slice(&self.key.to_le_bytes());
        out[8..12].copy_from_slice(&self.seq.to_le_bytes());
        out[12..16].copy_from_slice(&self.len.to_le_bytes());
        out[16..24].copy_from_slice(&self.word.to_le_bytes());
        out[24..28].copy_from_slice(&self.micros.to_le_bytes());
        out[28..32].copy_from_slice(&self.extra.to_le_bytes());
        out
    }

    fn of(bytes: &[u8; LEN]) -> Fields {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        Fields {
            tag: bytes[0],
            what: bytes[1],
            parts: u16::from_le_bytes([bytes[2], bytes[3]]),
            key: u32_at(4),
            seq: u32_at(8),
            len: u32_at(12),
            word: u64::from_le_bytes(bytes[16..24].try_into().expect("8 bytes")),
            micros: u32_at(24),
            extra: u32_at(28),
        }
    }
}

impl Record {
    /// The record as bytes.
    pub fn encode(&self) -> [u8; LEN] {
        let fields = match *self {
            Record::Hello { port } => Fields { tag: 1, extra: u32::from(port), ..Fields::default() },
            Record::Attempt { key, op } => attempt(key, op),
            Record::Answered { key, answer, micros } => answered(key, answer, micros),
            Record::Read { key, seen, micros } => read(key, seen, micros),
            Record::Bye(why) => Fields { tag: 5, what: why as u8, ..Fields::default() },
        };
        fields.bytes()
    }

    /// The record in `bytes`; `None` where there is none, which only a broken client writes.
    pub fn decode(bytes: &[u8; LEN]) -> Option<Record> {
        let f = Fields::of(bytes);
        Some(match f.tag {
            1 => Record::Hello { port: u16::try_from(f.extra).ok()? },
            2 => Record::Attempt { key: f.key, op: op_of(&f)? },
            3 => Record::Answered { key: f.key, answer: answer_of(&f)?, micros: f.micros },
            4 => Record::Read { key: f.key, seen: seen_of(&f)?, micros: f.micros },
            5 => Record::Bye(*Bye::ALL.get(f.what as usize)?),
            _ => return None,
        })
    }
}

fn attempt(key: u32, op: Op) -> Fields {
    let (what, seq, len, word) = match op {
        Op::Set { seq, len } => (0, seq, len, 0),
        Op::Append { seq, len } => (1, seq, len, 0),
        Op::Prepend { seq, len } => (2, seq, len, 0),
        Op::Cas { seq, len } => (3, seq, len, 0),
        Op::WrongCas { seq, len } => (4, seq, len, 0),
        Op::Delete => (5, 0, 0, 0),
        Op::SetNumber(n) => (6, 0, 0, n),
        Op::Add(n) => (7, 0, 0, n),
        Op::Take(n) => (8, 0, 0, n),
    };
    Fields { tag: 2, what, key, seq, len, word, ..Fields::default() }
}

fn op_of(f: &Fields) -> Option<Op> {
    let (seq, len) = (f.seq, f.len);
    Some(match f.what {
        0 => Op::Set { seq, len },
        1 => Op::Append { seq, len },
        2 => Op::Prepend { seq, len },
        3 => Op::Cas { seq, len },
        4 => Op::WrongCas { seq, len },
        5 => Op::Delete,
        6 => Op::SetNumber(f.word),
        7 => Op::Add(f.word),
        8 => Op::Take(f.word),
        _ => return None,
    })
}

fn answered(key: u32, answer: Answer, micros: u32) -> Fields {
    let (what, word) = match answer {
        Answer::Done => (0, 0),
        Answer::NotStored => (1, 0),
        Answer::NotFound => (2, 0),
        Answer::Exists => (3, 0),
        Answer::Number(n) => (4, n),
        Answer::NoMemory => (5, 0),
        Answer::TooLarge => (6, 0),
        Answer::Odd => (7, 0),
    };
    Fields { tag: 3, what, key, word, micros, ..Fields::default() }
}

fn answer_of(f: &Fields) -> Option<Answer> {
    Some(match f.what {
        0 => Answer::Done,
        1 => Answer::NotStored,
        2 => Answer::NotFound,
        3 => Answer::Exists,
        4 => Answer::Number(f.word),
        5 => Answer::NoMemory,
        6 => Answer::TooLarge,
        7 => Answer::Odd,
        _ => return None,
    })
}

fn read(key: u32, seen: Seen, micros: u32) -> Fields {
    let fields = Fields { tag: 4, key, micros, ..Fields::default() };
    match seen {
        Seen::Absent => Fields { what: 0, ..fields },
        Seen::Blob { digest, parts, newest, len } => {
            Fields { what: 1, parts, seq: newest, len, word: digest, ..fields }
        }
        Seen::Number(n) => Fields { what: 2, word: n, ..fields },
        Seen::Damaged { at, len } => Fields { what: 3, extra: at, len, ..fields },
    }
}

fn seen_of(f: &Fields) -> Option<Seen> {
    Some(match f.what {
        0 => Seen::Absent,
        1 => Seen::Blob { digest: f.word, parts: f.parts, newest: f.seq, len: f.len },
        2 => Seen::Number(f.word),
        3 => Seen::Damaged { at: f.extra, len: f.len },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Record> {
        let ops = (0u8..9, any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(what, seq, len, word)| {
            op_of(&Fields { what, seq, len, word, ..Fields::default() }).expect("a kind of write")
        });
        let answers = (0u8..8, any::<u64>()).prop_map(|(what, word)| {
            answer_of(&Fields { what, word, ..Fields::default() }).expect("a kind of answer")
        });
        let seen = (0u8..4, any::<[u32; 3]>(), any::<(u16, u64)>()).prop_map(
            |(what, [seq, len, extra], (parts, word))| {
                seen_of(&Fields { what, seq, len, extra, parts, word, ..Fields::default() })
                    .expect("a kind of sight")
            },
        );
        prop_oneof![
            any::<u16>().prop_map(|port| Record::Hello { port }),
            (any::<u32>(), ops).prop_map(|(key, op)| Record::Attempt { key, op }),
            (any::<u32>(), answers, any::<u32>()).prop_map(|(key, answer, micros)| Record::Answered {
                key,
                answer,
                micros
            }),
            (any::<u32>(), seen, any::<u32>()).prop_map(|(key, seen, micros)| Record::Read {
                key,
                seen,
                micros
            }),
            (0..Bye::ALL.len()).prop_map(|at| Record::Bye(Bye::ALL[at])),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(record in records()) {
            prop_assert_eq!(Record::decode(&record.encode()), Some(record));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: [u8; LEN]) {
            let _ = Record::decode(&bytes);
        }
    }
}
