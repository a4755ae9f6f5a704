//! How each value is written and read: numbers little-endian, byte strings after their length, lists after their count, choices after their code.

use crate::chain::message::{Refusal, RequestId, Status};
use crate::chain::order::MAX_ADDRESS;
use crate::chain::transaction::{Abort, Change, Condition, Found, Malformed};
use crate::chain::{
    Action, Configuration, Durability, Entry, Epoch, Gap, Incarnation, Lsn, Member, Order, OrderRefused,
    OrderReply, Outcome, Part, ReplicaAddress, ReplicaId, SessionId, Transaction,
};

/// Places in the order, epochs and sequence numbers are below this.
pub const MAX_NUMBER: u64 = 1 << 62;

/// A value with one form.
pub(super) trait Field: Sized {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads it; `None` where there is none.
    fn take(from: &mut Reader<'_>) -> Option<Self>;

    /// Appends it as JSON, for test vectors.
    #[cfg(test)]
    fn show(&self, out: &mut String);
}

/// Bytes that are left to read.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `len` bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}

macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Reader<'_>) -> Option<$type> {
                let (bytes, rest) = from.0.split_first_chunk()?;
                from.0 = rest;
                Some($type::from_le_bytes(*bytes))
            }

            #[cfg(test)]
            fn show(&self, out: &mut String) {
                out.push_str(&self.to_string());
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 u128 i64 }

/// A number in another type; `$is_good` says which there are.
macro_rules! wrapped {
    ($($type:ident $inner:ident $is_good:expr,)*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            fn take(from: &mut Reader<'_>) -> Option<$type> {
                $inner::take(from).filter($is_good).map($type)
            }

            #[cfg(test)]
            fn show(&self, out: &mut String) {
                self.0.show(out);
            }
        }
    )*};
}

/// Whether a number that others count on from is one.
fn is_number(number: &u64) -> bool {
    *number < MAX_NUMBER
}

wrapped! {
    Lsn u64 is_number,
    Epoch u64 is_number,
    SessionId u128 |_| true,
    Incarnation u64 |_| true,
    ReplicaId u16 |_| true,
}

impl Field for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<usize> {
        usize::try_from(u64::take(from)?).ok()
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
}

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Option<bool> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Option<Option<T>> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        match self {
            Some(value) => value.show(out),
            None => out.push_str("null"),
        }
    }
}

/// The bytes that a length announces.
pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(bytes.len()).expect("a byte string is shorter than 4 GiB");
    len.put(out);
    out.extend_from_slice(bytes);
}

pub(super) fn take_bytes<'a>(from: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = u32::take(from)?;
    from.bytes(len as usize)
}

impl Field for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self, out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Vec<u8>> {
        take_bytes(from).map(<[u8]>::to_vec)
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        let hex: String = self.iter().map(|byte| format!("{byte:02x}")).collect();
        out.push_str(&format!("\"{hex}\""));
    }
}

/// An address: text, of so many bytes at most.
impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn take(from: &mut Reader<'_>) -> Option<String> {
        let bytes = take_bytes(from).filter(|bytes| bytes.len() <= MAX_ADDRESS)?;
        String::from_utf8(bytes.to_vec()).ok()
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        out.push_str(&format!("{self:?}"));
    }
}

/// What comes in lists.
pub(super) trait Element: Field {}

impl Element for Vec<u8> {}
impl Element for i64 {}
impl Element for Member {}
impl Element for ReplicaAddress {}
impl Element for Entry {}
impl Element for Option<Found> {}
impl<T: Field> Element for (Vec<u8>, T) {}

impl<T: Element> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        self.iter().for_each(|element| element.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Option<Vec<T>> {
        // The count is not believed: the vector grows with what is found.
        (0..u16::take(from)?).map(|_| T::take(from)).collect()
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        out.push('[');
        for (i, element) in self.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            element.show(out);
        }
        out.push(']');
    }
}

pub(super) fn put_count(count: usize, out: &mut Vec<u8>) {
    u16::try_from(count).expect("a list has at most 65,535 elements").put(out);
}

impl<T: Field> Field for (Vec<u8>, T) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<(Vec<u8>, T)> {
        Some((Field::take(from)?, T::take(from)?))
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        out.push('[');
        self.0.show(out);
        out.push_str(", ");
        self.1.show(out);
        out.push(']');
    }
}

/// One field after the other.
macro_rules! structs {
    ($($type:ident { $first:ident $(, $field:ident)* })*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                self.$first.put(out);
                $(self.$field.put(out);)*
            }

            fn take(from: &mut Reader<'_>) -> Option<$type> {
                Some($type { $first: Field::take(from)? $(, $field: Field::take(from)?)* })
            }

            #[cfg(test)]
            fn show(&self, out: &mut String) {
                out.push_str(concat!("{\"", stringify!($first), "\": "));
                self.$first.show(out);
                $(
                    out.push_str(concat!(", \"", stringify!($field), "\": "));
                    self.$field.show(out);
                )*
                out.push('}');
            }
        }
    )*};
}

structs! {
    Member { replica, incarnation, part }
    Gap { first, last }
    ReplicaAddress { replica, peers, clients }
    Order { number, action }
    Configuration { epoch, reset, kept, members, roster, left, ordered, slots }
    Transaction { conditions, reads, writes, claim, trace }
    Found { version, value }
    Outcome { lsn, abort, reads, sums, durability, copies }
}

/// A code, then what belongs to it.
macro_rules! choices {
    ($($type:ident { $($code:literal $name:ident $(($first:ident $(, $more:ident)*))?,)* })*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {$(
                    $type::$name $(($first $(, $more)*))? => {
                        out.push($code);
                        $($first.put(out); $($more.put(out);)*)?
                    }
                )*}
            }

            fn take(from: &mut Reader<'_>) -> Option<$type> {
                Some(match u8::take(from)? {
                    $($code => $type::$name $(({
                        let $first = Field::take(from)?;
                        $first
                    } $(, {
                        let $more = Field::take(from)?;
                        $more
                    })*))?,)*
                    _ => return None,
                })
            }

            #[cfg(test)]
            fn show(&self, out: &mut String) {
                match self {$(
                    $type::$name $(($first $(, $more)*))? => {
                        out.push_str(concat!("[\"", stringify!($name), "\""));
                        $(
                            out.push_str(", ");
                            $first.show(out);
                            $(
                                out.push_str(", ");
                                $more.show(out);
                            )*
                        )?
                        out.push(']');
                    }
                )*}
            }
        }

        #[cfg(test)]
        impl $type {
            /// Codes and names, for the document.
            pub(super) const CODES: &[(u8, &str)] = &[$(($code, stringify!($name)),)*];
        }
    )*};
}

choices! {
    Durability { 0 Volatile, 1 ProcessCrash, 2 PowerLoss, }
    Part { 0 Serving, 1 Syncing, }
    Action { 0 Add(at), 1 Remove(replica, least), }
    OrderReply { 0 Known, 1 Done(epoch), 2 Refused(why), }
    OrderRefused {
        0 NotLeading, 1 NotBegun, 2 NotNow, 3 Late(last), 4 BadAddress, 5 Elsewhere(replica), 6 Occupied(replica),
        7 Full(most), 8 TooFew(left, least), 9 CatchingUp(replica), 10 NobodyServes,
    }
    Condition { 0 Version(version), 1 Exists, 2 Value(value), 3 AtLeast(least), }
    Change { 0 Put(value), 1 Delete, 2 Add(by), }
    Abort { 0 Condition(place), 1 NotANumber(place), 2 Overflow(place), 3 NoRoom, 4 LongReply, 5 Claimed, }
    Refusal { 0 Elsewhere(replica), 1 Busy, 2 Malformed(why), 3 NoSession, 4 Forgotten, 5 Denied(what), }
    Status { 0 Done(outcome), 1 Unknown, 2 Forgotten, }
    Malformed {
        0 Empty, 1 TooManyOps(count), 2 TooLong(bytes), 3 BadKey(key), 4 LongValue(key, bytes), 5 WrittenTwice(key),
        6 ReadTwice(key), 7 OtherChain(key),
    }
}

impl Field for RequestId {
    fn put(&self, out: &mut Vec<u8>) {
        self.session.put(out);
        self.sequence.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<RequestId> {
        let session = SessionId::take(from)?;
        Some(RequestId { session, sequence: u64::take(from).filter(is_number)? })
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        out.push_str(&format!("{{\"session\": {}, \"sequence\": {}}}", self.session.0, self.sequence));
    }
}

impl Field for Entry {
    fn put(&self, out: &mut Vec<u8>) {
        self.lsn.put(out);
        self.epoch.put(out);
        self.put_payload(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Entry> {
        let (lsn, epoch) = (Lsn::take(from)?, Epoch::take(from)?);
        Entry::take_payload(lsn, epoch, from)
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        let (lsn, epoch, committed) = (self.lsn.0, self.epoch.0, self.committed.0);
        out.push_str(&format!("{{\"lsn\": {lsn}, \"epoch\": {epoch}, \"committed\": {committed}, "));
        out.push_str(&format!("\"session\": {}, \"sequence\": {}, ", self.session.0, self.sequence));
        out.push_str("\"tuples\": [");
        for (i, tuple) in self.tuples.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            out.push_str(&format!("{comma}{{\"offset\": {}, \"data\": ", tuple.offset));
            tuple.data.show(out);
            out.push('}');
        }
        out.push_str("]}");
    }
}

impl Entry {
    /// What a log keeps beside the LSN and the epoch.
    pub(super) fn put_payload(&self, out: &mut Vec<u8>) {
        self.committed.put(out);
        self.session.put(out);
        self.sequence.put(out);
        put_count(self.tuples.len(), out);
        for tuple in &self.tuples {
            u32::try_from(tuple.data.len()).expect("a tuple is shorter than 4 GiB").put(out);
            tuple.offset.put(out);
            out.extend_from_slice(&tuple.data);
        }
    }

    pub(super) fn take_payload(lsn: Lsn, epoch: Epoch, from: &mut Reader<'_>) -> Option<Entry> {
        let committed = Lsn::take(from)?;
        let id = RequestId::take(from)?;
        let tuple = |from: &mut Reader<'_>| {
            let len = u32::take(from)?;
            let offset = u64::take(from)?;
            Some(crate::chain::Tuple { offset, data: from.bytes(len as usize)?.to_vec() })
        };
        let tuples = (0..u16::take(from)?).map(|_| tuple(from)).collect::<Option<_>>()?;
        Some(Entry { lsn, epoch, committed, session: id.session, sequence: id.sequence, tuples })
    }
}

/// Kinds of messages with their fields, in the order in which they are written.
macro_rules! messages {
    ($($code:literal $name:ident { $($field:ident),+ })*) => {
        /// Each kind's code, name and fields.
        pub const KINDS: &[(u8, &str, &[&str])] = &[$(($code, stringify!($name), &[$(stringify!($field)),+]),)*];

        fn kind_of(message: &Message) -> u8 {
            match message { $(Message::$name { .. } => $code,)* }
        }

        fn put_fields(message: &Message, out: &mut Vec<u8>) {
            match message { $(Message::$name { $($field),+ } => { $($field.put(out);)+ })* }
        }

        fn take_fields(kind: u8, from: &mut Reader<'_>) -> Option<Message> {
            Some(match kind {
                $($code => Message::$name { $($field: Field::take(from)?),+ },)*
                _ => return None,
            })
        }

        /// The fields as JSON, for test vectors.
        #[cfg(test)]
        fn show_fields(message: &Message) -> String {
            let mut out = String::new();
            match message {$(
                Message::$name { $($field),+ } => {$(
                    out.push_str(if out.is_empty() { "{" } else { ", " });
                    out.push_str(concat!("\"", stringify!($field), "\": "));
                    $field.show(&mut out);
                )+}
            )*}
            out.push('}');
            out
        }
    };
}

pub(super) use messages;
