//! What methods say of themselves: the options of `millrace/options.proto`, read, and refused where they contradict each other.
//!
//! Shape: [`RawOptions`] is what is written; [`check`] makes [`MethodOptions`] of it, with all messages and the service's other
//! methods in sight: a path becomes field numbers, a method's name its index.
//!
//! Bounds: a key's path has at most [`MAX_KEY_DEPTH`] fields; a reply is kept for [`MAX_TTL_SECONDS`] at most.
//!
//! Errors: [`Contradiction`]; printed, each says what to do.
//!
//! Tests: each contradiction, with its line and column, in `compile/tests/options.rs`.

mod contradiction;

pub use contradiction::Contradiction;

use super::descriptor::{self as raw, Value, each, name};
use super::{Message, Problem, SchemaError};
use crate::table::Kind;
use crate::wire;

/// `(millrace.acc)` in `FieldOptions`.
pub(super) const ACC: u32 = 51234;
const KEY: u32 = 51235;
const CACHEABLE: u32 = 51236;
const IDEMPOTENT: u32 = 51237;
const ORDER: u32 = 51238;
const PLACES: u32 = 51239;
const TRANSACTION: u32 = 51240;
/// `idempotency_level` in `MethodOptions`: protobuf's own.
const LEVEL: u32 = 34;
const NO_SIDE_EFFECTS: i32 = 1;
const LEVEL_IDEMPOTENT: i32 = 2;

/// Fields of a key's path.
pub const MAX_KEY_DEPTH: usize = 8;
/// How long a reply may be kept: 30 days, as memcached's items.
pub const MAX_TTL_SECONDS: u32 = 30 * 24 * 3600;

/// What a method says of itself. The default is what a file says that knows none of this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MethodOptions {
    /// The field of the request that is its key.
    pub key: Option<KeyPath>,
    /// Its replies may be kept.
    pub cacheable: Option<Cacheable>,
    /// Called twice it does what it does once. A cacheable method is.
    pub idempotent: bool,
    /// Which calls run one after the other.
    pub order: Order,
    /// Where it may run.
    pub places: Places,
    /// Its handler runs as one transaction.
    pub transaction: bool,
}

/// The way to a request's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPath {
    /// As in the .proto file: `user.id`.
    pub path: String,
    /// Field numbers: those of sub-messages, and last the key's own. Never empty.
    pub fields: Vec<u32>,
    /// What the key is: an integer, bool, enum, string or bytes.
    pub kind: Kind,
    /// Index in [`Schema::enums`](super::Schema::enums), of an enum.
    pub enumeration: Option<u32>,
}

/// How long a reply may be kept, and what ends that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cacheable {
    /// 1 to [`MAX_TTL_SECONDS`].
    pub ttl_seconds: u32,
    /// Methods of the same service, by their index, in the order of the option.
    pub invalidated_by: Vec<u32>,
}

/// Which calls run one after the other, as they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// None: calls in flight together may overtake each other.
    #[default]
    None,
    /// Those with the same key, of all methods of the service that say so.
    PerKey,
    /// Those of a connection, of all methods that say so.
    PerConnection,
}

/// Where a method may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The thread that owns the connections.
    Edge = 1,
    /// Workers.
    Host = 2,
    /// An engine core.
    Engine = 3,
}

impl Place {
    /// All of them.
    pub const ALL: [Place; 3] = [Place::Edge, Place::Host, Place::Engine];

    /// As register `place.handlers` writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Place::Edge => "edge",
            Place::Host => "host",
            Place::Engine => "engine",
        }
    }
}

/// A set of places; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Places(u8);

impl Places {
    /// Anywhere.
    pub const ANY: Places = Places(0b1110);

    /// These; of none, anywhere.
    pub const fn of(places: &[Place]) -> Places {
        let (mut bits, mut at) = (0, 0);
        while at < places.len() {
            bits |= 1 << places[at] as u8;
            at += 1;
        }
        if bits == 0 { Places::ANY } else { Places(bits) }
    }

    /// Whether a place is among them.
    pub const fn contains(self, place: Place) -> bool {
        self.0 & 1 << place as u8 != 0
    }

    /// What is in both sets, if anything is.
    pub const fn and(self, other: Places) -> Option<Places> {
        if self.0 & other.0 == 0 { None } else { Some(Places(self.0 & other.0)) }
    }

    /// A number for each set, below [`Places::SETS`].
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Numbers of sets are below this.
    pub const SETS: usize = 16;

    /// Those of the set.
    pub fn iter(self) -> impl Iterator<Item = Place> {
        Place::ALL.into_iter().filter(move |&place| self.contains(place))
    }
}

impl Default for Places {
    fn default() -> Places {
        Places::ANY
    }
}

/// The options as they are written.
#[derive(Default)]
pub(crate) struct RawOptions {
    key: Option<String>,
    cacheable: Option<RawCacheable>,
    idempotent: Option<bool>,
    level: i32,
    order: Order,
    places: Vec<Place>,
    transaction: bool,
}

#[derive(Default)]
struct RawCacheable {
    ttl: Option<u64>,
    invalidated_by: Vec<String>,
}

impl RawOptions {
    /// Adds what the bytes of a `MethodOptions` say.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(), SchemaError> {
        each(bytes, |number, value| {
            match (number, value) {
                (KEY, Value::Bytes(b)) => self.key = Some(name(b)?),
                (CACHEABLE, Value::Bytes(b)) => self.cacheable.get_or_insert_default().read(b)?,
                (IDEMPOTENT, Value::Number(n)) => self.idempotent = Some(n != 0),
                (LEVEL, Value::Number(n)) => self.level = n as i32,
                (ORDER, Value::Number(n)) => self.order = order(n as i32)?,
                (PLACES, Value::Number(n)) => self.add_place(n as i32)?,
                (PLACES, Value::Bytes(packed)) => {
                    let mut at = 0;
                    while at < packed.len() {
                        self.add_place(wire::read_varint(packed, &mut at)? as i32)?;
                    }
                }
                (TRANSACTION, Value::Number(n)) => self.transaction = n != 0,
                _ => {}
            }
            Ok(())
        })
    }

    fn add_place(&mut self, number: i32) -> Result<(), SchemaError> {
        let place = Place::ALL.into_iter().find(|&place| place as i32 == number);
        let place = place.ok_or_else(|| Problem::Meaningless("(millrace.places)", number).at(""))?;
        if !self.places.contains(&place) {
            self.places.push(place);
        }
        Ok(())
    }
}

impl RawCacheable {
    fn read(&mut self, bytes: &[u8]) -> Result<(), SchemaError> {
        each(bytes, |number, value| {
            match (number, value) {
                (1, Value::Number(n)) => self.ttl = Some(n),
                (2, Value::Bytes(b)) => self.invalidated_by.push(name(b)?),
                _ => {}
            }
            Ok(())
        })
    }
}

fn order(number: i32) -> Result<Order, SchemaError> {
    match number {
        0 => Ok(Order::None),
        1 => Ok(Order::PerKey),
        2 => Ok(Order::PerConnection),
        _ => Err(Problem::Meaningless("(millrace.order)", number).at("")),
    }
}

/// What the methods of a service say of themselves, in their order; or what is wrong, and with which of them.
pub(super) fn check(
    methods: &[raw::Method],
    inputs: &[u32],
    messages: &[Message],
) -> Result<Vec<MethodOptions>, (usize, Contradiction)> {
    let keys = methods.iter().zip(inputs).enumerate().map(|(at, (method, &input))| {
        let Some(path) = &method.options.key else { return Ok(None) };
        if method.client_streaming {
            return Err((at, Contradiction::KeyOfStream));
        }
        key(path, &messages[input as usize], messages).map(Some).map_err(|wrong| (at, wrong))
    });
    let keys = keys.collect::<Result<Vec<Option<KeyPath>>, _>>()?;
    let made = (0..methods.len()).map(|at| one(methods, &keys, at).map_err(|wrong| (at, wrong)));
    let made = made.collect::<Result<Vec<MethodOptions>, _>>()?;
    together(methods, &made)?;
    Ok(made)
}

/// Methods that are in order with each other run at one place, so there has to be one for all of them.
fn together(methods: &[raw::Method], options: &[MethodOptions]) -> Result<(), (usize, Contradiction)> {
    for order in [Order::PerKey, Order::PerConnection] {
        let (mut common, mut before) = (Places::ANY, 0);
        for (at, own) in options.iter().enumerate().filter(|(_, own)| own.order == order) {
            let name = || methods[before].name.clone();
            common = common.and(own.places).ok_or_else(|| (at, Contradiction::OrderApart(name())))?;
            before = at;
        }
    }
    Ok(())
}

/// The field at a path.
fn key(path: &str, request: &Message, messages: &[Message]) -> Result<KeyPath, Contradiction> {
    let parts: Vec<&str> = path.split('.').collect();
    if parts.len() > MAX_KEY_DEPTH {
        return Err(Contradiction::KeyDepth(path.to_owned()));
    }
    let path = || path.to_owned();
    let (mut message, mut fields) = (request, Vec::new());
    for (depth, part) in parts.iter().enumerate() {
        let field = message.field(part).ok_or_else(|| Contradiction::KeyField {
            path: path(),
            field: (*part).to_owned(),
            message: message.name.clone(),
        })?;
        fields.push(field.number);
        if field.oneof.is_some() {
            return Err(Contradiction::KeyInOneof(path()));
        }
        if depth + 1 == parts.len() {
            let (kind, enumeration) = (field.kind, field.enumeration);
            if field.is_repeated() {
                return Err(Contradiction::KeyRepeated(path()));
            }
            if kind.is_message() || matches!(kind, Kind::Float | Kind::Double) {
                return Err(Contradiction::KeyKind(path(), kind));
            }
            if field.default.is_some() {
                return Err(Contradiction::KeyDefault(path()));
            }
            return Ok(KeyPath { path: path(), fields, kind, enumeration });
        }
        message = match field.message {
            Some(class) if !field.is_repeated() && field.kind == Kind::Message => &messages[class as usize],
            _ => return Err(Contradiction::KeyThrough { path: path(), field: (*part).to_owned() }),
        };
    }
    unreachable!("a path has a part, and its last one returns")
}

/// What one method says, its key found.
fn one(methods: &[raw::Method], keys: &[Option<KeyPath>], at: usize) -> Result<MethodOptions, Contradiction> {
    let (method, key) = (&methods[at], &keys[at]);
    let options = &method.options;
    let streams = method.client_streaming || method.server_streaming;
    let level_says = matches!(options.level, NO_SIDE_EFFECTS | LEVEL_IDEMPOTENT);
    if level_says && options.idempotent == Some(false) {
        return Err(Contradiction::Idempotence);
    }
    if options.order != Order::None && streams {
        return Err(Contradiction::OrderOfStream);
    }
    if options.order == Order::PerKey && key.is_none() {
        return Err(Contradiction::OrderWithoutKey);
    }
    let places = Places::of(&options.places);
    if streams && !places.contains(Place::Edge) {
        return Err(Contradiction::PlacesOfStream);
    }
    if options.transaction && streams {
        return Err(Contradiction::TransactionStreams);
    }
    let cacheable = options.cacheable.as_ref().map(|raw| cacheable(raw, methods, keys, at)).transpose()?;
    Ok(MethodOptions {
        key: key.clone(),
        idempotent: level_says || options.idempotent == Some(true) || cacheable.is_some(),
        cacheable,
        order: options.order,
        places,
        transaction: options.transaction,
    })
}

fn cacheable(
    raw: &RawCacheable,
    methods: &[raw::Method],
    keys: &[Option<KeyPath>],
    at: usize,
) -> Result<Cacheable, Contradiction> {
    let method = &methods[at];
    let ttl =
        raw.ttl.and_then(|ttl| u32::try_from(ttl).ok()).filter(|ttl| (1..=MAX_TTL_SECONDS).contains(ttl));
    let wrong = if method.client_streaming || method.server_streaming {
        Some(Contradiction::CacheableStreams)
    } else if method.options.transaction {
        Some(Contradiction::CacheableTransaction)
    } else if method.options.idempotent == Some(false) {
        Some(Contradiction::CacheableNotIdempotent)
    } else if method.options.level == LEVEL_IDEMPOTENT {
        Some(Contradiction::CacheableSideEffects)
    } else {
        None
    };
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let key = keys[at].as_ref().ok_or(Contradiction::CacheableWithoutKey)?;
    let ttl_seconds = ttl.ok_or(Contradiction::CacheableTime(raw.ttl))?;
    let mut invalidated_by = Vec::new();
    for name in &raw.invalidated_by {
        let writer = writer(name, methods, keys, key)?;
        if invalidated_by.contains(&writer) {
            return Err(Contradiction::WriterTwice(name.clone()));
        }
        invalidated_by.push(writer);
    }
    Ok(Cacheable { ttl_seconds, invalidated_by })
}

/// The method that writes what has the key `ours`.
fn writer(
    name: &str,
    methods: &[raw::Method],
    keys: &[Option<KeyPath>],
    ours: &KeyPath,
) -> Result<u32, Contradiction> {
    let at = methods.iter().position(|method| method.name == name);
    let at = at.ok_or_else(|| Contradiction::WriterUnknown(name.to_owned()))?;
    let method = &methods[at];
    let name = || name.to_owned();
    if method.options.cacheable.is_some() {
        return Err(Contradiction::WriterCacheable(name()));
    }
    if method.options.level == NO_SIDE_EFFECTS {
        return Err(Contradiction::WriterReads(name()));
    }
    if method.client_streaming || method.server_streaming {
        return Err(Contradiction::WriterStreams(name()));
    }
    let theirs = keys[at].as_ref().ok_or_else(|| Contradiction::WriterWithoutKey(name()))?;
    if (theirs.kind, theirs.enumeration) != (ours.kind, ours.enumeration) {
        return Err(Contradiction::WriterKey { name: name(), theirs: theirs.kind, ours: ours.kind });
    }
    Ok(at as u32)
}
