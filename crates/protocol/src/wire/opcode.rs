//! What a packet is, how it went, what its value is.

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant = $code,)* }

        impl $name {
            /// All, by rising code.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// As it travels.
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// By its code.
            pub const fn from_code(code: u8) -> Option<$name> {
                match code {
                    $($code => Some($name::$variant),)*
                    _ => None,
                }
            }

            /// As documents and the dissector call it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// What a client asks for.
    Verb {
        /// The value.
        Get = 0x01 "GET",
        /// Store whatever is there.
        Set = 0x02 "SET",
        /// Store where nothing is.
        Add = 0x03 "ADD",
        /// Store where something is.
        Replace = 0x04 "REPLACE",
        /// Store where `version` is.
        Cas = 0x05 "CAS",
        /// Remove; where `version` is not 0, only that one.
        Delete = 0x06 "DELETE",
        /// Add `operand`, modulo 2^64; where nothing is, a value that the request carries is stored.
        Incr = 0x07 "INCR",
        /// Subtract `operand`, down to 0; where nothing is, as with INCR.
        Decr = 0x08 "DECR",
        /// Store `operand` where nothing or a smaller number is.
        CondPut = 0x09 "COND_PUT",
        /// The smaller of the number and `operand`; where nothing is, `operand`.
        Min = 0x0a "MIN",
        /// The larger; where nothing is, `operand`.
        Max = 0x0b "MAX",
        /// Bitwise or; where nothing is, `operand`.
        Or = 0x0c "OR",
        /// Append the request's value unless more than `operand` bytes would result.
        Append = 0x0d "APPEND",
        /// A new time to live; where `version` is not 0, only for that one.
        Touch = 0x0e "TOUCH",
        /// Forget everything.
        Flush = 0x0f "FLUSH",
        /// Nothing: is somebody there?
        Noop = 0x10 "NOOP",
        /// A session with the home, for writes: the reply's `round` names it.
        Session = 0x11 "SESSION",
    }
}

codes! {
    /// What boxes, homes and the controller say to each other.
    Control {
        /// Home to box: drop the key (no key: everything of this home) where it is older than `version`.
        Invalidate = 0x80 "INVALIDATE",
        /// Box to home: `round` is done.
        InvalidateAck = 0x81 "INVALIDATE_ACK",
        /// Box to home: a key that it owned, and what it did with it; `round` is the token of the grant.
        Return = 0x82 "RETURN",
        /// Home to box: that came, or is not wanted; the same round.
        ReturnAck = 0x83 "RETURN_ACK",
        /// Controller to all: part `round` of `operand` of the registration table of `epoch`.
        Table = 0x86 "TABLE",
        /// Answer to it.
        TableAck = 0x87 "TABLE_ACK",
        /// Controller to all: are you well?
        Heartbeat = 0x88 "HEARTBEAT",
        /// Answer to it.
        HeartbeatAck = 0x89 "HEARTBEAT_ACK",
    }
}

codes! {
    /// How it went.
    Status {
        /// Done.
        Ok = 0 "OK",
        /// Nothing is there.
        Miss = 1 "MISS",
        /// Something is there, or another version.
        Exists = 2 "EXISTS",
        /// The condition does not hold.
        NotStored = 3 "NOT_STORED",
        /// The value does not fit a datagram; `operand` says its length where it is known.
        TooLarge = 4 "TOO_LARGE",
        /// The request makes no sense.
        Bad = 5 "BAD",
        /// Not now.
        Busy = 6 "BUSY",
        /// Another home has this key.
        NotHome = 7 "NOT_HOME",
        /// The sender goes by an old table; `epoch` says which is in force.
        WrongEpoch = 8 "WRONG_EPOCH",
        /// Not here.
        Unsupported = 9 "UNSUPPORTED",
        /// The value is no number.
        NotNumber = 10 "NOT_NUMBER",
        /// No room: in the value for what was to be appended, or in memory.
        NoRoom = 11 "NO_ROOM",
        /// The deadline passed before it was begun: it was not done.
        TooLate = 12 "TOO_LATE",
        /// The operation is so old that the home no longer knows whether it was done. It is not done now.
        Forgotten = 13 "FORGOTTEN",
        /// Only a proven client may ask for this, and the request has no proof. It was not done.
        Unproven = 14 "UNPROVEN",
        /// The reply, of `operand` bytes, is longer than the request, whose sender has not proven who he is: pad it, or seal it.
        Pad = 15 "PAD",
    }
}

codes! {
    /// What a value is.
    Kind {
        /// Any bytes.
        Bytes = 0 "bytes",
        /// A number below 2^64 in decimal digits without leading zeros, as memcached's clients see it.
        Number = 1 "number",
        /// A part of the registration table.
        Table = 2 "table",
        /// Any bytes, out of date: somebody should store anew.
        Stale = 3 "stale",
        /// Any bytes; somebody was told to store anew.
        Claimed = 4 "claimed",
        /// Both.
        StaleClaimed = 5 "stale and claimed",
        /// Homes that have moved, and after them what else is said; of a table its part.
        Homes = 6 "homes that moved",
    }
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// A client's request.
    Request(Verb),
    /// A home's or box's reply to it.
    Reply(Verb),
    /// Between boxes, homes and controller.
    Control(Control),
}

/// Set in the opcode of a reply: a box that answers in place sets one bit.
pub const REPLY: u8 = 0x40;

/// What a packet's key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// 1 to 250 bytes.
    One,
    /// None.
    None,
    /// None means all.
    OneOrAll,
}

impl Opcode {
    /// As it travels.
    pub const fn code(self) -> u8 {
        match self {
            Opcode::Request(verb) => verb.code(),
            Opcode::Reply(verb) => verb.code() | REPLY,
            Opcode::Control(control) => control.code(),
        }
    }

    /// By its code.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Opcode> {
        let verb = Verb::from_code(code & !REPLY);
        match (verb, Control::from_code(code)) {
            (Some(verb), _) if code & REPLY != 0 => Some(Opcode::Reply(verb)),
            (Some(verb), _) => Some(Opcode::Request(verb)),
            (None, Some(control)) => Some(Opcode::Control(control)),
            (None, None) => None,
        }
    }

    /// Whether it has a key.
    #[inline]
    pub const fn key_rule(self) -> KeyRule {
        match self {
            Opcode::Request(Verb::Flush | Verb::Noop | Verb::Session)
            | Opcode::Reply(Verb::Flush | Verb::Noop | Verb::Session) => KeyRule::None,
            Opcode::Request(_) | Opcode::Reply(_) => KeyRule::One,
            Opcode::Control(Control::Invalidate | Control::InvalidateAck) => KeyRule::OneOrAll,
            Opcode::Control(Control::Return | Control::ReturnAck) => KeyRule::One,
            Opcode::Control(_) => KeyRule::None,
        }
    }
}

/// Bits of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// On a way that is not the designated one: nobody keeps the reply.
    pub const NO_CACHE: Flags = Flags(1);
    /// A box answered, not the home.
    pub const FROM_BOX: Flags = Flags(2);
    /// Of a write: not to be done, only answered, and only where it would change nothing. The reply to one that is not
    /// answered so is that to a GET.
    pub const TRY: Flags = Flags(4);
    /// Of a write that is sent for the first time, by way of its client's box: the box may do it, if it owns the key. With
    /// NO_CACHE the home is to do it nevertheless.
    pub const OWNABLE: Flags = Flags(8);
    /// Of a reply to such a write: the box that asked owns the key from now on.
    pub const OWNED: Flags = Flags(16);
    /// A [`Proof`](super::Proof) follows the value. Set by whoever writes the packet; no message has it among its own.
    pub const SEALED: Flags = Flags(32);
    /// Of a home's reply to what came past box `at`, or by way of it: that box is being drained. Its client goes round it.
    pub const DRAINING: Flags = Flags(64);

    /// All that have a meaning, with their names.
    pub const NAMED: &[(Flags, &str)] = &[
        (Flags::NO_CACHE, "NO_CACHE"),
        (Flags::FROM_BOX, "FROM_BOX"),
        (Flags::TRY, "TRY"),
        (Flags::OWNABLE, "OWNABLE"),
        (Flags::OWNED, "OWNED"),
        (Flags::SEALED, "SEALED"),
        (Flags::DRAINING, "DRAINING"),
    ];

    const KNOWN: u16 = 0b1111111;

    /// As they travel.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// None where a bit without meaning is set.
    pub const fn from_bits(bits: u16) -> Option<Flags> {
        if bits & !Flags::KNOWN == 0 { Some(Flags(bits)) } else { None }
    }

    /// Whether all of `others` are set.
    pub const fn contains(self, others: Flags) -> bool {
        self.0 & others.0 == others.0
    }

    /// These and `others`.
    #[must_use]
    pub const fn with(self, others: Flags) -> Flags {
        Flags(self.0 | others.0)
    }

    /// These but for `others`.
    #[must_use]
    pub const fn without(self, others: Flags) -> Flags {
        Flags(self.0 & !others.0)
    }
}
