//! Where each field of the fixed header lies: the one table that the code, `docs/wire.md` and the dissector are made of or
//! held against.
//!
//! Why a table of offsets, and no structure that is laid over the bytes: the offsets are the protocol, the XDP program's C
//! needs the very same numbers, and a reader of the documents should find them in one place.

/// How a field's bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An unsigned little-endian number.
    Number,
    /// The same, with digits that mean nothing: shown in base 16.
    Pattern,
    /// `length / width` unsigned little-endian numbers of so many bytes.
    Row {
        /// Bytes of each.
        width: usize,
    },
    /// A number in network order, copied as it is from and to a UDP header.
    Network,
    /// Bytes as they stand.
    Bytes,
    /// An IPv6 address, or an IPv4 one mapped into it.
    Address,
}

/// A field of the fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// As documents, dissector and code call it.
    pub name: &'static str,
    /// Bytes before it.
    pub offset: usize,
    /// Its bytes.
    pub length: usize,
    /// How to read it.
    pub form: Form,
    /// What it says, in a few words.
    pub meaning: &'static str,
}

macro_rules! fields {
    ($($constant:ident $name:literal $offset:literal $length:literal $form:expr, $meaning:literal;)*) => {
        /// Offsets, for those who read and write.
        pub(super) mod at {
            $(pub const $constant: usize = $offset;)*
        }

        /// All fields of the fixed header, in order and without gaps.
        pub const FIELDS: &[Field] = &[$(Field {
            name: $name, offset: $offset, length: $length, form: $form, meaning: $meaning,
        },)*];
    };
}

fields! {
    REQUEST "request" 0 2 Form::Number, "chosen by the asker, returned in the reply";
    MAGIC "magic" 2 6 Form::Bytes, "6d 6c 72 69 6e 63 (\"mlrinc\")";
    PROTOCOL "protocol" 8 1 Form::Number, "version of this format: 1";
    OPCODE "opcode" 9 1 Form::Pattern, "what the packet is";
    FLAGS "flags" 10 2 Form::Pattern, "bits, others 0";
    HASH "hash" 12 4 Form::Pattern, "hash of the key";
    CHECKSUM "checksum" 16 8 Form::Pattern, "of everything but itself and the padding";
    VERSION "version" 24 8 Form::Number, "of the item: the home's number for the write that made it";
    CLIENT "client" 32 8 Form::Pattern, "who asked first";
    OPERATION "operation" 40 8 Form::Number, "that client's number of the operation";
    OPERAND "operand" 48 8 Form::Number, "argument or result of arithmetic; a limit or length";
    ROUND "round" 56 8 Form::Number, "of an invalidation, lease, heartbeat, table; session of a write";
    TTL "ttl" 64 8 Form::Number, "ns left to live; all ones: for ever; one less: as before";
    EPOCH "epoch" 72 4 Form::Number, "of the registration table that the sender goes by";
    ITEM_FLAGS "item_flags" 76 4 Form::Pattern, "a memcached client's flags, stored with the value";
    DEADLINE "deadline" 80 4 Form::Number, "\u{b5}s left until nobody waits for the reply; of a reply: of the lease; 0: none";
    INCARNATION "incarnation" 84 4 Form::Pattern, "drawn by a box when it starts";
    VALUE_LEN "value_len" 88 4 Form::Number, "bytes of the value";
    KEY_LEN "key_len" 92 1 Form::Number, "bytes of the key";
    KIND "kind" 93 1 Form::Number, "of value";
    STATUS "status" 94 1 Form::Number, "of a reply";
    HOPS "hops" 95 1 Form::Number, "boxes that have sent it on";
    BOX "box" 96 2 Form::Number, "the box that a message between box and home is from or to";
    HOME "home" 98 2 Form::Number, "the home that is meant or speaks";
    ATTEMPT "attempt" 100 2 Form::Number, "times that this was sent before; a reply returns it";
    PORT "port" 102 2 Form::Network, "the original client's UDP port; 0: not expanded";
    ADDRESS "address" 104 16 Form::Address, "the original client's address";
    SHARER_BOXES "sharer_boxes" 120 8 Form::Row { width: 2 }, "boxes that would keep the reply";
    SHARER_TOKENS "sharer_tokens" 128 32 Form::Row { width: 8 }, "for each of them, the token of its pending fill";
}

/// Bytes of the fixed header; the key begins here.
pub const HEADER: usize = 160;

/// Where the hash's lowest byte is: what chooses among a box's cores reads it before anybody parses the packet.
pub const HASH_AT: usize = at::HASH;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_each_other_and_are_aligned() {
        let mut end = 0;
        for field in FIELDS {
            assert_eq!(field.offset, end, "{}", field.name);
            let width = match field.form {
                Form::Number | Form::Pattern | Form::Network => field.length,
                Form::Row { width } => width,
                Form::Bytes => 1,
                Form::Address => 8,
            };
            assert_eq!((field.offset % width, field.length % width), (0, 0), "{}", field.name);
            end += field.length;
        }
        assert_eq!(end, HEADER);
    }
}
