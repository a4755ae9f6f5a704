//! Ownership: for a while one box alone may change a key. What both ends agree on; the box's part is in [`super::boxes`], the home's in
//! [`super::home`], and why it is linearizable in `docs/design/004-box.md`.
//!
//! ```text
//!  client ──write, OWNABLE──▶ box ──the same, its token──▶ home     it may give the key away with its reply: OWNED, lease, [`Grant`]
//!         ◀────────────────── box ◀──reply, Grant──────────
//!         ◀──write, reply───▶ box                                   until half of the lease is over, or the home asks for it
//!                             box ──RETURN, [`Returned`]──▶ home    repeated until it is acknowledged, or nobody can wait for it
//! ```
//!
//! A grant says what the home has begun, a return what the owner has done: so each of the two knows of every write whether the other
//! did it. What no grant says and no record has is new, for the number of an operation belongs to one key for ever.
//!
//! Layout: words of 8 bytes, little-endian, then the value; as `docs/wire.md` has it.

use super::home::sessions;
use crate::wire::{ClientId, Message, OpNumber, Round, Status, Verb, Version};

pub use sessions::Answer;

/// Writes that an owner does before it gives the key back: what it must remember, and so many versions it is given.
pub const MOST_RECORDS: usize = 512;
/// Sessions that a grant tells of, so that it fits an Ethernet frame.
pub const MOST_SESSIONS: usize = 32;
/// Numbers of a session that a grant tells apart.
const TOLD: u64 = 64;

/// Whether an owner may do it: it leaves an item its life, makes it a number, and its answer is small.
pub const fn is_ownable(verb: Verb) -> bool {
    matches!(verb, Verb::Incr | Verb::Decr | Verb::CondPut | Verb::Min | Verb::Max | Verb::Or)
}

/// What the home has begun in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// Which.
    pub session: Round,
    /// Whose.
    pub client: ClientId,
    /// The highest number that was begun.
    pub highest: OpNumber,
    /// Bit i: the number i below it was begun, or is so old that the home does not know.
    pub begun: u64,
}

impl Told {
    /// What the home knows of a session, as `begun` says by number.
    pub fn new(session: Round, client: ClientId, highest: OpNumber, begun: impl Fn(u64) -> bool) -> Told {
        let bit = |i: u64| highest.0.checked_sub(i).is_none_or(&begun);
        let begun = (0..TOLD).filter(|i| bit(*i)).fold(0, |bits, i| bits | 1 << i);
        Told { session, client, highest, begun }
    }

    /// Whether the home had certainly not begun this one.
    pub fn is_new(&self, operation: OpNumber) -> bool {
        let below = self.highest.0.checked_sub(operation.0);
        below.is_none_or(|below| below < TOLD && self.begun >> below & 1 == 0)
    }

    /// This one is begun. Those between it and the highest before are not.
    pub fn begin(&mut self, operation: OpNumber) {
        match operation.0.checked_sub(self.highest.0) {
            None | Some(0) => {
                let below = self.highest.0 - operation.0;
                self.begun |= if below < TOLD { 1 << below } else { 0 };
            }
            Some(above) => {
                self.begun = 1 | if above < TOLD { self.begun << above } else { 0 };
                self.highest = operation;
            }
        }
    }
}

/// What a home tells the box that it gives a key to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The number of the home's next round: this grant came after those below it, and before this one.
    pub before: Round,
    /// The first of [`MOST_RECORDS`] versions, which the home gives nothing else.
    pub next: Version,
    /// The sessions whose writes the owner may do.
    pub sessions: Vec<Told>,
    /// What is there.
    pub value: Vec<u8>,
}

/// A write that an owner did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// In which session.
    pub session: Round,
    /// Its number there.
    pub operation: OpNumber,
    /// What was answered.
    pub answer: Answer,
}

/// What an owner tells the home when it gives a key back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// All that it did.
    pub records: Vec<Record>,
    /// What is there now.
    pub value: Vec<u8>,
}

impl Grant {
    /// As it travels.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, [self.before.0, self.next.0, self.sessions.len() as u64]);
        for told in &self.sessions {
            put(&mut bytes, [told.session.0, told.client.0, told.highest.0, told.begun]);
        }
        bytes.extend(&self.value);
        bytes
    }

    /// None where it is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Grant> {
        let ([before, next], bytes) = take(bytes)?;
        let (rows, value) = take_rows(bytes, MOST_SESSIONS)?;
        let told = |[session, client, highest, begun]: [u64; 4]| Told {
            session: Round(session),
            client: ClientId(client),
            highest: OpNumber(highest),
            begun,
        };
        let sessions = rows.into_iter().map(told).collect();
        Some(Grant { before: Round(before), next: Version(next), sessions, value: value.into() })
    }
}

impl Returned {
    /// As it travels.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, [self.records.len() as u64]);
        for Record { session, operation, answer } in &self.records {
            let status = u64::from(answer.status.code());
            put(&mut bytes, [session.0, operation.0, status, answer.version.0, answer.number]);
        }
        bytes.extend(&self.value);
        bytes
    }

    /// None where it is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Returned> {
        let (rows, value) = take_rows(bytes, MOST_RECORDS)?;
        let record = |[session, operation, status, version, number]: [u64; 5]| {
            let status = Status::from_code(u8::try_from(status).ok()?)?;
            let answer = Answer { status, version: Version(version), number };
            Some(Record { session: Round(session), operation: OpNumber(operation), answer })
        };
        let records = rows.into_iter().map(record).collect::<Option<_>>()?;
        Some(Returned { records, value: value.into() })
    }
}

/// The reply to a write.
pub(super) fn outcome_of(request: &Message, answer: Answer) -> Message {
    let mut reply = request.reply(answer.status);
    reply.header.round = request.header.round;
    reply.header.version = answer.version;
    reply.header.operand = answer.number;
    reply
}

fn put<const N: usize>(bytes: &mut Vec<u8>, words: [u64; N]) {
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
}

fn take<const N: usize>(mut bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let mut words = [0; N];
    for word in &mut words {
        let (first, rest) = bytes.split_first_chunk()?;
        (*word, bytes) = (u64::from_le_bytes(*first), rest);
    }
    Some((words, bytes))
}

/// A count, at most `most`, and so many rows.
fn take_rows<const N: usize>(bytes: &[u8], most: usize) -> Option<(Vec<[u64; N]>, &[u8])> {
    let ([count], mut bytes) = take(bytes)?;
    let count = usize::try_from(count).ok().filter(|count| *count <= most)?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let (row, rest) = take(bytes)?;
        rows.push(row);
        bytes = rest;
    }
    Some((rows, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HEADER, MAX_VALUE, padded};
    use proptest::prelude::*;

    #[test]
    fn what_was_not_begun_is_new() {
        let begun = [100u64, 98, 60];
        let told = Told::new(Round(1), ClientId(2), OpNumber(100), |n| begun.contains(&n) || n < 50);
        for (number, is_new) in
            [(101, true), (100, false), (99, true), (98, false), (60, false), (50, true), (49, false)]
        {
            assert_eq!(told.is_new(OpNumber(number)), is_new, "{number}");
        }
        // What lies further back than is told, and what was never there.
        assert!(!told.is_new(OpNumber(36)) && !told.is_new(OpNumber(0)));
        let first = Told::new(Round(1), ClientId(2), OpNumber(0), |_| false);
        assert!(first.is_new(OpNumber(1)));
    }

    #[test]
    fn the_largest_fit() {
        let told = Told { session: Round(1), client: ClientId(2), highest: OpNumber(3), begun: 4 };
        let sessions = vec![told; MOST_SESSIONS];
        let grant = Grant { before: Round(1), next: Version(1), sessions, value: vec![b'9'; 20] };
        // Ethernet's 1500, less the headers of IPv6 and UDP; a key of 100 bytes.
        assert!(HEADER + padded(100) + padded(grant.to_bytes().len()) <= 1500 - 48);
        let answer = Answer { status: Status::Ok, version: Version(1), number: 2 };
        let record = Record { session: Round(1), operation: OpNumber(2), answer };
        let returned = Returned { records: vec![record; MOST_RECORDS], value: vec![b'9'; 20] };
        assert!(returned.to_bytes().len() <= MAX_VALUE);
        assert_eq!(Returned::from_bytes(&returned.to_bytes()), Some(returned));
    }

    #[test]
    fn what_is_begun_is_new_no_more() {
        let mut told = Told::new(Round(1), ClientId(2), OpNumber(100), |n| n < 90);
        for number in [101u64, 95, 104, 200] {
            assert!(told.is_new(OpNumber(number)), "{number}");
            told.begin(OpNumber(number));
            assert!(!told.is_new(OpNumber(number)), "{number}");
        }
        assert!(told.is_new(OpNumber(199)) && told.is_new(OpNumber(137)));
        assert!(!told.is_new(OpNumber(136)), "too far below to be told");
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(next: u64, rows: Vec<[u64; 4]>, value in prop::collection::vec(any::<u8>(), 0..30)) {
            let told = |row: &[u64; 4]| Told {
                session: Round(row[0]), client: ClientId(row[1]), highest: OpNumber(row[2]), begun: row[3],
            };
            let sessions: Vec<_> = rows.iter().take(MOST_SESSIONS).map(told).collect();
            let grant = Grant { before: Round(!next), next: Version(next), sessions, value: value.clone() };
            prop_assert_eq!(Grant::from_bytes(&grant.to_bytes()), Some(grant));
            let record = |row: &[u64; 4]| Record {
                session: Round(row[0]),
                operation: OpNumber(row[1]),
                answer: Answer { status: Status::ALL[row[2] as usize % Status::ALL.len()], version: Version(row[3]), number: row[0] },
            };
            let returned = Returned { records: rows.iter().map(record).collect(), value };
            prop_assert_eq!(Returned::from_bytes(&returned.to_bytes()), Some(returned));
        }

        #[test]
        fn whatever_arrives_is_refused_or_said_again(mut bytes in prop::collection::vec(any::<u8>(), 0..200), small: bool) {
            // A count that may be right.
            if small && bytes.len() >= 16 {
                bytes[0] %= 4;
                bytes[1..8].fill(0);
                let last = bytes.len().min(24);
                bytes[16..last].fill(0);
            }
            if let Some(grant) = Grant::from_bytes(&bytes) {
                prop_assert_eq!(grant.to_bytes(), bytes.clone());
            }
            if let Some(returned) = Returned::from_bytes(&bytes) {
                prop_assert_eq!(returned.to_bytes(), bytes);
            }
        }
    }
}
