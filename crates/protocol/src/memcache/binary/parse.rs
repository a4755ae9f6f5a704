//! One request: from its header to a command, or to how many bytes are still missing.
//!
//! The order of the checks is memcached's, because it decides which of several errors a client sees. Unlike memcached, what is refused for its header is
//! refused without waiting for its key, and what a request has beyond its meaning is dropped, so that the next request is read from its beginning.

use super::super::command::{Command, Stats, TooLarge};
use super::super::exptime::Exptime;
use super::super::login::{LOGIN_MAX, MECHANISM_MAX, SaslRequest};
use super::super::meta::{Meta, MetaArith, MetaDelete, MetaFlags, MetaGet, MetaSet, Numbers, SetMode};
use super::super::{KEY_MAX, Line, VALUE_LEN_MAX};
use super::opcode::*;
use super::{Asks, Binary, HEADER_LEN, REQUEST_MAGIC, Sasl};

/// An expiration that says of `incr` and `decr` that they make no item.
const MAKES_NOTHING: u32 = u32::MAX;

/// What the front of the input is.
pub(in super::super) enum Parsed<'a> {
    /// More is needed: so many bytes in total.
    Incomplete(usize),
    /// A command of `len` bytes, and `rest` bytes of it behind them that nobody wants.
    Command { command: Command<'a>, len: usize, rest: u64 },
    /// The same, and nothing is understood after it.
    Last { command: Command<'a>, len: usize, is_quit: bool },
    /// A request to log in, of `len` bytes, and `rest` bytes of it behind them that nobody wants.
    Sasl { request: SaslRequest<'a>, len: usize, rest: u64 },
    /// No request begins here.
    NotBinary,
}

/// The lengths and the version of a header.
struct Header {
    opcode: u8,
    key: usize,
    extras: usize,
    body: usize,
    cas: u64,
}

impl Header {
    fn of(bytes: &[u8; HEADER_LEN]) -> Header {
        Header {
            opcode: bytes[1],
            key: usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
            extras: usize::from(bytes[4]),
            body: number(&bytes[8..12]) as usize,
            cas: number(&bytes[16..24]),
        }
    }

    /// Whether its body has room for its key and extras.
    fn has_room(&self) -> bool {
        self.key + self.extras <= self.body
    }

    /// Bytes of the value.
    fn value(&self) -> usize {
        self.body - self.extras - self.key
    }
}

/// Whether the body of the request with this header has room for its key and extras.
pub(in super::super) fn has_room(header: &[u8; HEADER_LEN]) -> bool {
    Header::of(header).has_room()
}

/// A big-endian number of at most 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// An expiration time, which has no sign here: all ones are a moment, and not the past as in text.
fn exptime(bytes: &[u8]) -> Exptime {
    Exptime::new((number(bytes) as u32).min(u32::MAX - 1))
}

/// What is asked of a request, beside the key that all have or have not.
enum Shape {
    Get { touches: bool, shows: bool },
    Store(SetMode),
    Delete,
    Arith { decrement: bool },
    Flush,
    Stat,
    Keyless(Asks<'static>),
    Sasl,
    Unknown,
}

fn shape(opcode: u8, has_login: bool) -> Shape {
    match opcode {
        GET | GETQ | GETK | GETKQ => Shape::Get { touches: false, shows: true },
        GAT | GATQ | GATK | GATKQ => Shape::Get { touches: true, shows: true },
        TOUCH => Shape::Get { touches: true, shows: false },
        SET | SETQ => Shape::Store(SetMode::Set),
        ADD | ADDQ => Shape::Store(SetMode::Add),
        REPLACE | REPLACEQ => Shape::Store(SetMode::Replace),
        APPEND | APPENDQ => Shape::Store(SetMode::Append),
        PREPEND | PREPENDQ => Shape::Store(SetMode::Prepend),
        DELETE | DELETEQ => Shape::Delete,
        INCREMENT | INCREMENTQ => Shape::Arith { decrement: false },
        DECREMENT | DECREMENTQ => Shape::Arith { decrement: true },
        FLUSH | FLUSHQ => Shape::Flush,
        STAT => Shape::Stat,
        NOOP => Shape::Keyless(Asks::Noop),
        VERSION => Shape::Keyless(Asks::Version),
        QUIT | QUITQ => Shape::Keyless(Asks::Quit),
        SASL_LIST if has_login => Shape::Keyless(Asks::Sasl(Sasl::Mechanisms)),
        SASL_LIST => Shape::Keyless(Asks::Refused(Line::Error)),
        SASL_AUTH | SASL_STEP => Shape::Sasl,
        _ => Shape::Unknown,
    }
}

impl Shape {
    /// Whether lengths of a request are what memcached takes.
    fn fits(&self, header: &Header) -> bool {
        let Header { key, extras, body, .. } = *header;
        match self {
            Shape::Get { touches: false, .. } | Shape::Delete => extras == 0 && key > 0 && body == key,
            Shape::Get { .. } => extras == 4 && key > 0,
            Shape::Store(SetMode::Append | SetMode::Prepend) => extras == 0 && key > 0,
            Shape::Store(_) => extras == 8 && key > 0,
            Shape::Arith { .. } => extras == 20 && key > 0 && body == key + extras,
            Shape::Flush => key == 0 && body == extras && (extras == 0 || extras == 4),
            Shape::Stat => extras == 0,
            Shape::Keyless(_) => body == 0,
            Shape::Sasl => extras == 0 && key > 0,
            Shape::Unknown => true,
        }
    }
}

/// Understands the request at the front of `input`. A value longer than `max_value` is refused; there is SASL where clients log in.
pub(in super::super) fn parse(input: &[u8], max_value: u64, has_login: bool) -> Parsed<'_> {
    if input[0] != REQUEST_MAGIC {
        return Parsed::NotBinary;
    }
    let Some((bytes, body)) = input.split_first_chunk::<HEADER_LEN>() else {
        return Parsed::Incomplete(HEADER_LEN);
    };
    let header = Header::of(bytes);
    let refused = |line| Command::Binary(Binary { header: bytes, asks: Asks::Refused(line) });
    let last = |line| Parsed::Last { command: refused(line), len: HEADER_LEN, is_quit: false };
    if !header.has_room() {
        return last(Line::Error);
    }
    let shape = shape(header.opcode, has_login);
    if header.key > KEY_MAX || !shape.fits(&header) {
        return last(Line::BadFormat);
    }
    if matches!(shape, Shape::Unknown | Shape::Sasl) {
        if has_login && matches!(shape, Shape::Sasl) {
            return sasl(bytes, &header, body);
        }
        return Parsed::Command { command: refused(Line::Error), len: HEADER_LEN, rest: header.body as u64 };
    }
    let head = header.extras + header.key;
    let takes_value =
        matches!(shape, Shape::Store(_)) && header.value() as u64 <= max_value.min(VALUE_LEN_MAX);
    let wants = if takes_value { header.body } else { head };
    let Some(body) = body.get(..wants) else { return Parsed::Incomplete(HEADER_LEN + wants) };
    let (extras, rest) = body.split_at(header.extras);
    let (key, value) = rest.split_at(header.key);
    let len = HEADER_LEN + wants;
    let rest = (header.body - wants) as u64;
    let request = Request { bytes, header: &header, extras, key, value };
    let command = match shape {
        Shape::Store(mode) if !takes_value => {
            let (meta, drop_old) = (request.meta(b""), matches!(mode, SetMode::Set));
            Command::TooLarge(TooLarge { meta, drop_old, noreply: false })
        }
        Shape::Keyless(asks) => {
            let command = Command::Binary(Binary { header: bytes, asks });
            if asks == Asks::Quit {
                return Parsed::Last { command, len, is_quit: true };
            }
            command
        }
        shape => request.command(&shape),
    };
    Parsed::Command { command, len, rest }
}

/// Understands a request to log in, whose header fits one.
#[cold]
fn sasl<'a>(bytes: &'a [u8; HEADER_LEN], header: &Header, body: &'a [u8]) -> Parsed<'a> {
    let is_step = header.opcode == SASL_STEP;
    if header.key > MECHANISM_MAX {
        let asks = Asks::Refused(Line::BadFormat);
        let command = Command::Binary(Binary { header: bytes, asks });
        return Parsed::Command { command, len: HEADER_LEN, rest: header.body as u64 };
    }
    if header.value() > LOGIN_MAX {
        // By no mechanism: it fails.
        let request = SaslRequest { header: bytes, is_step, mechanism: b"", value: b"" };
        return Parsed::Sasl { request, len: HEADER_LEN, rest: header.body as u64 };
    }
    let len = HEADER_LEN + header.body;
    let Some(body) = body.get(..header.body) else { return Parsed::Incomplete(len) };
    let (mechanism, value) = body.split_at(header.key);
    Parsed::Sasl { request: SaslRequest { header: bytes, is_step, mechanism, value }, len, rest: 0 }
}

/// A request that is there, cut into its parts.
struct Request<'a, 'h> {
    bytes: &'a [u8],
    header: &'h Header,
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
}

impl<'a> Request<'a, '_> {
    /// Its key, with these flags, and that of a version to compare with where it has one.
    fn meta(&self, flags: &[u8]) -> Meta<'a> {
        let flags = MetaFlags::binary(flags, self.header.cas != 0);
        Meta { key_text: self.key, flags_text: self.bytes, flags }
    }

    fn command(&self, shape: &Shape) -> Command<'a> {
        let (cas, extras) = (self.header.cas, self.extras);
        match *shape {
            Shape::Get { touches, shows } => {
                let flags = if shows { b"vT" } else { b"TT" };
                let meta = self.meta(if touches { flags } else { b"v" });
                let numbers = Numbers { ttl: exptime(extras), ..Numbers::default() };
                Command::MetaGet(MetaGet { meta, numbers })
            }
            Shape::Store(mode) => self.store(mode),
            Shape::Delete => {
                let numbers = Numbers { compare: cas, ..Numbers::default() };
                Command::MetaDelete(MetaDelete { meta: self.meta(b""), numbers })
            }
            Shape::Arith { decrement } => {
                let makes = number(&extras[16..]) as u32 != MAKES_NOTHING;
                Command::MetaArith(MetaArith {
                    meta: self.meta(if makes { b"vN" } else { b"v" }),
                    delta: number(&extras[..8]),
                    initial: number(&extras[8..16]),
                    decrement,
                    ttl: Exptime::NEVER,
                    vivify: exptime(&extras[16..]),
                    compare: cas,
                    version: 0,
                })
            }
            Shape::Flush => Command::FlushAll { delay: exptime(extras), noreply: false, header: self.bytes },
            Shape::Stat => {
                let asks = stats(self.key).map_or(Asks::Refused(Line::NotFound), Asks::Stats);
                Command::Binary(Binary { header: self.bytes, asks })
            }
            Shape::Keyless(_) | Shape::Sasl | Shape::Unknown => unreachable!("answered before"),
        }
    }

    fn store(&self, mode: SetMode) -> Command<'a> {
        let joins = matches!(mode, SetMode::Append | SetMode::Prepend);
        let (client_flags, ttl) = match joins {
            true => (0, Exptime::NEVER),
            false => (number(&self.extras[..4]) as u32, exptime(&self.extras[4..])),
        };
        // `add` and `replace` of a version are `cas`.
        let mode = if joins || self.header.cas == 0 { mode } else { SetMode::Set };
        Command::MetaSet(MetaSet {
            meta: self.meta(if joins { b"" } else { b"T" }),
            value: self.value,
            client_flags,
            mode,
            ttl,
            vivify: Exptime::NEVER,
            compare: self.header.cas,
            version: 0,
        })
    }
}

/// The statistics of this name, of which memcached looks at the beginning.
fn stats(name: &[u8]) -> Option<Stats<'static>> {
    Some(match name {
        b"" => Stats::General,
        b"items" => Stats::Items,
        b"slabs" => Stats::Slabs,
        b"sizes" => Stats::Sizes,
        b"sizes_enable" => Stats::SizesEnable,
        b"sizes_disable" => Stats::SizesDisable,
        _ if name.starts_with(b"reset") => Stats::Reset,
        _ if name.starts_with(b"settings") => Stats::Settings,
        _ if name.starts_with(b"detail on") => Stats::DetailOn,
        _ if name.starts_with(b"detail off") => Stats::DetailOff,
        _ if name.starts_with(b"detail dump") => Stats::DetailDump,
        _ => return None,
    })
}
