//! A packet in the bytes it came in: [`Packet`] is a view, checked once, from which each field is read where it lies.
//!
//! Errors: [`Malformed`] names the first thing that is wrong. Whoever gets such a packet drops it; it is as good as lost.

use super::fields::{HEADER, at};
use super::message::{Header, Message};
use super::opcode::{Flags, KeyRule, Kind, Opcode, Status};
use super::proof::Proof;
use super::sum::{self, key_hash};
use super::types::{
    BoxId, ClientId, Epoch, HomeId, Incarnation, KeyHash, OpNumber, Origin, RequestId, Round, Sharer,
    Sharers, Token, Ttl, Version,
};
use super::{MAGIC, MAX_DATAGRAM, MAX_KEY, MAX_VALUE, PROTOCOL, padded};
use base::Nanos;
use std::fmt;
use std::net::Ipv6Addr;

/// A packet that parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    head: &'a [u8; HEADER],
    key: &'a [u8],
    value: &'a [u8],
    opcode: Opcode,
    kind: Kind,
    status: Status,
    flags: Flags,
    proof: Option<Proof>,
    padding: usize,
}

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than the header.
    Short,
    /// Something else.
    Magic,
    /// A version of the format that is not spoken here.
    Protocol(u8),
    /// Key and value do not fit the datagram, or a datagram.
    Length,
    /// Changed on the way.
    Checksum,
    /// Nothing has this code.
    Opcode(u8),
    /// A bit is set that has no meaning.
    Flags(u16),
    /// A key where none may be, or none where one must be, or too long.
    Key,
    /// Bytes between key, value and end that should be 0.
    Filler,
    /// The hash is not that of the key.
    Hash,
    /// Nothing has this code.
    Kind(u8),
    /// Nothing has this code.
    Status(u8),
    /// An address without a port.
    Origin,
    /// Gaps, remains or a box twice.
    Sharers,
    /// Nobody can have written it: the sender of the proof is none.
    Proof,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Short => write!(f, "shorter than the header's {HEADER} bytes"),
            Malformed::Magic => f.write_str("another magic"),
            Malformed::Protocol(version) => write!(f, "version {version}, where {PROTOCOL} is spoken"),
            Malformed::Length => f.write_str("key and value do not fit the datagram"),
            Malformed::Checksum => f.write_str("the packet was changed on its way"),
            Malformed::Opcode(code) => write!(f, "no opcode is {code:#04x}"),
            Malformed::Flags(bits) => write!(f, "flags {bits:#06x} have bits without meaning"),
            Malformed::Key => f.write_str("no key of this length belongs to this opcode"),
            Malformed::Filler => f.write_str("bytes after key or value are not 0"),
            Malformed::Hash => f.write_str("the hash is not that of the key"),
            Malformed::Kind(code) => write!(f, "no kind of value is {code}"),
            Malformed::Status(code) => write!(f, "no status is {code}"),
            Malformed::Origin => f.write_str("an address without a port"),
            Malformed::Sharers => f.write_str("sharers with gaps, remains or a box twice"),
            Malformed::Proof => f.write_str("a proof of no sender"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Whether these bytes say that they are a packet of ours: for telling it from other traffic. Nothing else was checked.
#[inline]
pub fn is_packet(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER && bytes[at::MAGIC..][..MAGIC.len()] == MAGIC
}

impl<'a> Packet<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// [`Malformed`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let (head, rest) = bytes.split_first_chunk::<HEADER>().ok_or(Malformed::Short)?;
        if head[at::MAGIC..][..MAGIC.len()] != MAGIC {
            return Err(Malformed::Magic);
        }
        if head[at::PROTOCOL] != PROTOCOL {
            return Err(Malformed::Protocol(head[at::PROTOCOL]));
        }
        let key_len = usize::from(head[at::KEY_LEN]);
        let value_len = usize::try_from(u32_at(head, at::VALUE_LEN)).map_err(|_| Malformed::Length)?;
        if bytes.len() > MAX_DATAGRAM || value_len > MAX_VALUE {
            return Err(Malformed::Length);
        }
        let (keyed, rest) = rest.split_at_checked(padded(key_len)).ok_or(Malformed::Length)?;
        let (valued, padding) = rest.split_at_checked(padded(value_len)).ok_or(Malformed::Length)?;
        if u64_at(head, at::CHECKSUM) != checksum(head, &bytes[HEADER..HEADER + keyed.len() + valued.len()]) {
            return Err(Malformed::Checksum);
        }
        Packet::with_fields(head, keyed.split_at(key_len), valued.split_at(value_len), padding)
    }

    #[inline]
    fn with_fields(
        head: &'a [u8; HEADER],
        (key, key_filler): (&'a [u8], &[u8]),
        (value, value_filler): (&'a [u8], &[u8]),
        rest: &[u8],
    ) -> Result<Packet<'a>, Malformed> {
        let code = head[at::OPCODE];
        let opcode = Opcode::from_code(code).ok_or(Malformed::Opcode(code))?;
        let bits = u16_at(head, at::FLAGS);
        let flags = Flags::from_bits(bits).ok_or(Malformed::Flags(bits))?;
        let right_key = match opcode.key_rule() {
            KeyRule::One => (1..=MAX_KEY).contains(&key.len()),
            KeyRule::None => key.is_empty(),
            KeyRule::OneOrAll => key.len() <= MAX_KEY,
        };
        if !right_key {
            return Err(Malformed::Key);
        }
        if key_filler.iter().chain(value_filler).any(|&byte| byte != 0) {
            return Err(Malformed::Filler);
        }
        if u32_at(head, at::HASH) != key_hash(key).0 {
            return Err(Malformed::Hash);
        }
        let kind = Kind::from_code(head[at::KIND]).ok_or(Malformed::Kind(head[at::KIND]))?;
        let status = Status::from_code(head[at::STATUS]).ok_or(Malformed::Status(head[at::STATUS]))?;
        if port(head) == 0 && head[at::ADDRESS..][..16] != [0; 16] {
            return Err(Malformed::Origin);
        }
        if head[at::SHARER_BOXES..] != [0; HEADER - at::SHARER_BOXES] && sharers(head).is_none() {
            return Err(Malformed::Sharers);
        }
        let (proof, padding) = if flags.contains(Flags::SEALED) {
            let (proof, padding) = rest.split_first_chunk().ok_or(Malformed::Length)?;
            (Some(Proof::from_bytes(proof).ok_or(Malformed::Proof)?), padding.len())
        } else {
            (None, rest.len())
        };
        let flags = flags.without(Flags::SEALED);
        Ok(Packet { head, key, value, opcode, kind, status, flags, proof, padding })
    }

    /// What it is.
    #[inline]
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// The key; empty where the opcode has none.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The value; empty where there is none.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    /// What the value is.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How it went; of a reply.
    #[inline]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Bits.
    #[inline]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Boxes that would keep the reply.
    #[inline]
    pub fn sharers(&self) -> Sharers {
        sharers(self.head).expect("it was checked when the packet was parsed")
    }

    /// Who says that he wrote it.
    #[inline]
    pub fn proof(&self) -> Option<Proof> {
        self.proof
    }

    /// Bytes at the end, which say nothing: a request makes room for its reply with them.
    #[inline]
    pub fn padding(&self) -> usize {
        self.padding
    }

    /// See [`RequestId`].
    #[inline]
    pub fn request(&self) -> RequestId {
        RequestId(u16_at(self.head, at::REQUEST))
    }

    /// Of the key; it is the right one.
    #[inline]
    pub fn hash(&self) -> KeyHash {
        KeyHash(u32_at(self.head, at::HASH))
    }

    /// Of the item.
    #[inline]
    pub fn version(&self) -> Version {
        Version(u64_at(self.head, at::VERSION))
    }

    /// Who asked first.
    #[inline]
    pub fn client(&self) -> ClientId {
        ClientId(u64_at(self.head, at::CLIENT))
    }

    /// That client's number for it.
    #[inline]
    pub fn operation(&self) -> OpNumber {
        OpNumber(u64_at(self.head, at::OPERATION))
    }

    /// Argument or result.
    #[inline]
    pub fn operand(&self) -> u64 {
        u64_at(self.head, at::OPERAND)
    }

    /// Of an invalidation, lease, heartbeat; part of a table.
    #[inline]
    pub fn round(&self) -> Round {
        Round(u64_at(self.head, at::ROUND))
    }

    /// Time left.
    #[inline]
    pub fn ttl(&self) -> Ttl {
        Ttl::new(Nanos(u64_at(self.head, at::TTL)))
    }

    /// Of the sender's registration table.
    #[inline]
    pub fn epoch(&self) -> Epoch {
        Epoch(u32_at(self.head, at::EPOCH))
    }

    /// A memcached client's.
    #[inline]
    pub fn item_flags(&self) -> u32 {
        u32_at(self.head, at::ITEM_FLAGS)
    }

    /// Of a request: microseconds until nobody waits for the reply. Of a reply: of the sharers' lease. 0: none.
    #[inline]
    pub fn deadline_us(&self) -> u32 {
        u32_at(self.head, at::DEADLINE)
    }

    /// Of the box.
    #[inline]
    pub fn incarnation(&self) -> Incarnation {
        Incarnation(u32_at(self.head, at::INCARNATION))
    }

    /// Boxes that have sent it on.
    #[inline]
    pub fn hops(&self) -> u8 {
        self.head[at::HOPS]
    }

    /// From or to which box, between box and home.
    #[inline]
    pub fn at(&self) -> BoxId {
        BoxId(u16_at(self.head, at::BOX))
    }

    /// Which home.
    #[inline]
    pub fn home(&self) -> HomeId {
        HomeId(u16_at(self.head, at::HOME))
    }

    /// Times it was sent before.
    #[inline]
    pub fn attempt(&self) -> u16 {
        u16_at(self.head, at::ATTEMPT)
    }

    /// The original client, where a box has expanded the packet.
    #[inline]
    pub fn origin(&self) -> Option<Origin> {
        let octets: [u8; 16] = array_at(self.head, at::ADDRESS);
        Origin::from_parts(Ipv6Addr::from(octets), port(self.head))
    }

    /// All fields as values.
    pub fn header(&self) -> Header {
        Header {
            opcode: self.opcode,
            request: self.request(),
            flags: self.flags,
            version: self.version(),
            client: self.client(),
            operation: self.operation(),
            operand: self.operand(),
            round: self.round(),
            ttl: self.ttl(),
            epoch: self.epoch(),
            item_flags: self.item_flags(),
            deadline_us: self.deadline_us(),
            incarnation: self.incarnation(),
            kind: self.kind,
            status: self.status,
            hops: self.hops(),
            at: self.at(),
            home: self.home(),
            attempt: self.attempt(),
            origin: self.origin(),
            sharers: self.sharers(),
        }
    }

    /// A copy that stands alone.
    pub fn to_message(&self) -> Message {
        Message {
            header: self.header(),
            key: self.key.into(),
            value: self.value.into(),
            proof: self.proof,
            padding: self.padding,
        }
    }
}

/// The checksum of a packet: the sum of its header with the checksum as 0, then key and value with their filler, once more
/// times the base.
#[inline]
pub(super) fn checksum(head: &[u8; HEADER], rest: &[u8]) -> u64 {
    sum::extend(sum::of_header::<{ at::CHECKSUM }>(head), rest).wrapping_mul(sum::BASE)
}

#[inline]
fn sharers(head: &[u8; HEADER]) -> Option<Sharers> {
    Sharers::from_places(std::array::from_fn(|i| Sharer {
        at: BoxId(u16_at(head, at::SHARER_BOXES + 2 * i)),
        token: Token(u64_at(head, at::SHARER_TOKENS + 8 * i)),
    }))
}

#[inline]
fn port(head: &[u8; HEADER]) -> u16 {
    u16::from_be_bytes(array_at(head, at::PORT))
}

#[inline]
fn array_at<const N: usize>(head: &[u8; HEADER], offset: usize) -> [u8; N] {
    head[offset..offset + N].try_into().expect("a field lies in the header")
}

#[inline]
fn u16_at(head: &[u8; HEADER], offset: usize) -> u16 {
    u16::from_le_bytes(array_at(head, offset))
}

#[inline]
fn u32_at(head: &[u8; HEADER], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(head, offset))
}

#[inline]
fn u64_at(head: &[u8; HEADER], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(head, offset))
}
