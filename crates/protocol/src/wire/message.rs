//! A packet as values: [`Message`] is what machines exchange, [`Header`] what stands before key and value.
//!
//! Length, hash and checksum are not among the fields: writing derives them, so that they cannot be wrong.

use super::fields::{HEADER, at};
use super::opcode::{Flags, KeyRule, Kind, Opcode, Status, Verb};
use super::packet::checksum;
use super::proof::Proof;
use super::sum::key_hash;
use super::types::{
    BoxId, ClientId, Epoch, HomeId, Incarnation, KeyHash, OpNumber, Origin, RequestId, Round, Sharers, Ttl,
    Version,
};
use super::{MAGIC, MAX_DATAGRAM, MAX_KEY, MAX_VALUE, PROTOCOL, length, padded};
use std::fmt;

/// The fixed fields; [`Header::new`] has them all at 0 but the time to live, which is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What it is.
    pub opcode: Opcode,
    /// What the asker matches the reply by.
    pub request: RequestId,
    /// Bits.
    pub flags: Flags,
    /// Of the item; of a CAS or DELETE the one that must be there; of an INVALIDATE the oldest that may stay.
    pub version: Version,
    /// Who asked first.
    pub client: ClientId,
    /// That client's number for it.
    pub operation: OpNumber,
    /// Argument or result of arithmetic, limit of an APPEND, length of a value that is too large, parts of a table.
    pub operand: u64,
    /// Of an invalidation, lease, heartbeat; part of a table; the session of a write.
    pub round: Round,
    /// Time left to the item or lease.
    pub ttl: Ttl,
    /// Of the sender's registration table.
    pub epoch: Epoch,
    /// A memcached client's flags.
    pub item_flags: u32,
    /// Of a request: microseconds until nobody waits for the reply; 0: no such time. Of a reply: for so many may the
    /// sharers keep it, counted from when they gave their tokens; 0: not at all.
    pub deadline_us: u32,
    /// Of the box `at`.
    pub incarnation: Incarnation,
    /// What the value is.
    pub kind: Kind,
    /// How it went; OK in what is no reply.
    pub status: Status,
    /// Boxes that have sent it on.
    pub hops: u8,
    /// From or to which box, between box and home.
    pub at: BoxId,
    /// Which home is meant or speaks.
    pub home: HomeId,
    /// Times that it was sent before; a reply returns the request's.
    pub attempt: u16,
    /// The original client, where a box has expanded the packet.
    pub origin: Option<Origin>,
    /// Boxes that would keep the reply.
    pub sharers: Sharers,
}

impl Header {
    /// With nothing said but this.
    pub fn new(opcode: Opcode) -> Header {
        Header {
            opcode,
            request: RequestId::default(),
            flags: Flags::NONE,
            version: Version::default(),
            client: ClientId::default(),
            operation: OpNumber::default(),
            operand: 0,
            round: Round::default(),
            ttl: Ttl::NEVER,
            epoch: Epoch::default(),
            item_flags: 0,
            deadline_us: 0,
            incarnation: Incarnation::default(),
            kind: Kind::Bytes,
            status: Status::Ok,
            hops: 0,
            at: BoxId::NONE,
            home: HomeId::default(),
            attempt: 0,
            origin: None,
            sharers: Sharers::default(),
        }
    }

    /// Of a reply to the request that this is: who asked, for what, by which way.
    ///
    /// # Panics
    /// Where this is no request.
    #[must_use]
    pub fn reply(&self, status: Status) -> Header {
        let Opcode::Request(verb) = self.opcode else { panic!("{:?} is no request", self.opcode) };
        Header {
            request: self.request,
            client: self.client,
            operation: self.operation,
            epoch: self.epoch,
            home: self.home,
            attempt: self.attempt,
            origin: self.origin,
            sharers: self.sharers,
            status,
            ..Header::new(Opcode::Reply(verb))
        }
    }

    /// Appends the packet with this key and value, with a proof if there is one, and `padding` bytes after them, all 0.
    ///
    /// # Panics
    /// Where it does not fit ([`length`] says), or the opcode has another idea of a key ([`Opcode::key_rule`]).
    pub fn emit(
        &self,
        key: &[u8],
        value: &[u8],
        (proof, padding): (Option<&Proof>, usize),
        out: &mut Vec<u8>,
    ) {
        let right_key = match self.opcode.key_rule() {
            KeyRule::One => (1..=MAX_KEY).contains(&key.len()),
            KeyRule::None => key.is_empty(),
            KeyRule::OneOrAll => key.len() <= MAX_KEY,
        };
        assert!(right_key, "{:?} with a key of {} bytes", self.opcode, key.len());
        let end = length(key.len(), value.len());
        let proven = end + proof.map_or(0, |_| Proof::BYTES);
        assert!(
            value.len() <= MAX_VALUE && padding <= MAX_DATAGRAM - proven,
            "{} + {padding} bytes",
            value.len()
        );
        let start = out.len();
        out.resize(start + proven + padding, 0);
        if let Some(proof) = proof {
            out[start + end..start + proven].copy_from_slice(&proof.to_bytes());
        }
        let (head, rest) =
            out[start..start + end].split_first_chunk_mut::<HEADER>().expect("it was made so long");
        self.write(head);
        let sealed = if proof.is_some() { Flags::SEALED } else { Flags::NONE };
        put(head, at::FLAGS, self.flags.with(sealed).bits().to_le_bytes());
        head[at::KEY_LEN] = key.len() as u8;
        put(head, at::VALUE_LEN, (value.len() as u32).to_le_bytes());
        put(head, at::HASH, key_hash(key).0.to_le_bytes());
        let (keyed, valued) = rest.split_at_mut(padded(key.len()));
        keyed[..key.len()].copy_from_slice(key);
        valued[..value.len()].copy_from_slice(value);
        let sum = checksum(head, rest);
        put(head, at::CHECKSUM, sum.to_le_bytes());
    }

    fn write(&self, head: &mut [u8; HEADER]) {
        put(head, at::REQUEST, self.request.0.to_le_bytes());
        put(head, at::MAGIC, MAGIC);
        head[at::PROTOCOL] = PROTOCOL;
        head[at::OPCODE] = self.opcode.code();
        put(head, at::VERSION, self.version.0.to_le_bytes());
        put(head, at::CLIENT, self.client.0.to_le_bytes());
        put(head, at::OPERATION, self.operation.0.to_le_bytes());
        put(head, at::OPERAND, self.operand.to_le_bytes());
        put(head, at::ROUND, self.round.0.to_le_bytes());
        put(head, at::TTL, self.ttl.nanos().0.to_le_bytes());
        put(head, at::EPOCH, self.epoch.0.to_le_bytes());
        put(head, at::ITEM_FLAGS, self.item_flags.to_le_bytes());
        put(head, at::DEADLINE, self.deadline_us.to_le_bytes());
        put(head, at::INCARNATION, self.incarnation.0.to_le_bytes());
        head[at::KIND] = self.kind.code();
        head[at::STATUS] = self.status.code();
        head[at::HOPS] = self.hops;
        put(head, at::BOX, self.at.0.to_le_bytes());
        put(head, at::HOME, self.home.0.to_le_bytes());
        put(head, at::ATTEMPT, self.attempt.to_le_bytes());
        if let Some(origin) = self.origin {
            put(head, at::PORT, origin.port().to_be_bytes());
            put(head, at::ADDRESS, origin.address().octets());
        }
        for (i, sharer) in self.sharers.places().iter().enumerate() {
            put(head, at::SHARER_BOXES + 2 * i, sharer.at.0.to_le_bytes());
            put(head, at::SHARER_TOKENS + 8 * i, sharer.token.0.to_le_bytes());
        }
    }
}

fn put<const N: usize>(head: &mut [u8; HEADER], offset: usize, bytes: [u8; N]) {
    head[offset..offset + N].copy_from_slice(&bytes);
}

/// A packet that stands alone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// The fixed fields.
    pub header: Header,
    /// The key; empty where the opcode has none.
    pub key: Vec<u8>,
    /// The value; empty where there is none.
    pub value: Vec<u8>,
    /// Who wrote it.
    pub proof: Option<Proof>,
    /// Bytes after that: a request makes room for its reply with them.
    pub padding: usize,
}

impl Message {
    /// With nothing said but this.
    pub fn new(opcode: Opcode, key: &[u8]) -> Message {
        Message { header: Header::new(opcode), key: key.into(), value: Vec::new(), proof: None, padding: 0 }
    }

    /// A request for `key`.
    pub fn request(verb: Verb, key: &[u8]) -> Message {
        Message::new(Opcode::Request(verb), key)
    }

    /// A reply to the request that this is, without a value.
    ///
    /// # Panics
    /// Where this is no request.
    #[must_use]
    pub fn reply(&self, status: Status) -> Message {
        let header = self.header.reply(status);
        Message { header, key: self.key.clone(), value: Vec::new(), proof: None, padding: 0 }
    }

    /// Bytes of its packet.
    pub fn length(&self) -> usize {
        let proof = self.proof.map_or(0, |_| Proof::BYTES);
        length(self.key.len(), self.value.len()) + proof + self.padding
    }

    /// Of the key.
    pub fn hash(&self) -> KeyHash {
        key_hash(&self.key)
    }

    /// Appends the packet.
    ///
    /// # Panics
    /// As [`Header::emit`].
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.header.emit(&self.key, &self.value, (self.proof.as_ref(), self.padding), out);
    }
}

/// Opcode, key, and what differs from [`Header::new`]: a message in a trace is read by people.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (h, plain) = (&self.header, Header::new(self.header.opcode));
        write!(f, "{:?}({:?}", h.opcode, String::from_utf8_lossy(&self.key))?;
        macro_rules! said {
            ($($field:ident)*) => {$(
                if h.$field != plain.$field {
                    write!(f, " {}={:?}", stringify!($field), h.$field)?;
                }
            )*};
        }
        said!(status request client operation attempt version operand round ttl epoch item_flags deadline_us);
        said!(at incarnation home hops flags kind origin sharers);
        if !self.value.is_empty() {
            write!(f, " {} bytes", self.value.len())?;
        }
        if let Some(proof) = &self.proof {
            write!(f, " proof={proof:?}")?;
        }
        f.write_str(")")
    }
}
