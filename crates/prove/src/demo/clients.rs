//! Those who use the shop: a thread each, that asks, holds what it sees against the [`Book`], and asks again.
//!
//! A client that could not do something connects anew and goes on; what it could not do is counted.

use super::book::{Book, GOODS, USERS, cart, good, picture, text_key, user};
use super::shop::key;
use super::shop::proto::shop::{
    PicturesClient, Profile, ProfileRequest, RankRequest, Ranking, SHOP, ShopClient,
};
use super::tally::{Exchange, Tally};
use crate::lab::run::load::Pace;
use crate::lab::run::record::now;
use crate::soak::link::Link;
use base::zipf::Zipf;
use base::{Nanos, Prng};
use bench::grpc::Grpc;
use client::cache::{self, Topology};
use client::replies::Cached;
use codec::decode::{Decoder, Limits};
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::typed::{Message, MessageView, Owned};
use codec::unit::Kernel;
use codec::unit::kernels::Lz4Decompress;
use fabric::channel::{CallOptions, Channel, Options, Reconnecting};
use fabric::link::Address;
use fabric::monitor::Monitor;
use fabric::status::Code;
use fabric::stub::Status;
use protocol::memcache::client::{MetaStatus, Reply, request};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a call may take: longer than a death is noticed and mended.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// How unequal users are, by Zipf's law: some are asked for much more often than others.
const SKEW: f64 = 0.99;
/// After a failure, before the next attempt.
const AFTER_FAILURE: Duration = Duration::from_millis(5);

/// Kinds of requests, in the order of all tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A text, by memcached's protocol.
    Get,
    /// A cart, stored.
    Set,
    /// A text, by a client behind a box.
    InNetwork,
    /// A profile, by the shop, if no box has the reply.
    Profile,
    /// The same, by the shop's gateway.
    GrpcProfile,
    /// The same, stored: whoever has a reply about it gives it up.
    SetProfile,
    /// A transaction.
    Order,
    /// An inference.
    Rank,
    /// A picture, packed by the accelerator; a memcached client stores it, and one behind a box reads it again.
    Pack,
}

impl Kind {
    /// All.
    pub const ALL: [Kind; 9] = [
        Kind::Get,
        Kind::Set,
        Kind::InNetwork,
        Kind::Profile,
        Kind::GrpcProfile,
        Kind::SetProfile,
        Kind::Order,
        Kind::Rank,
        Kind::Pack,
    ];

    /// For people: what is asked, and how.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Get => "get, memcached",
            Kind::Set => "set, memcached",
            Kind::InNetwork => "get, in-network",
            Kind::Profile => "GetProfile, fabric",
            Kind::GrpcProfile => "GetProfile, gRPC",
            Kind::Order => "PlaceOrder, fabric",
            Kind::Rank => "Rank, gRPC",
            Kind::SetProfile => "SetProfile, fabric",
            Kind::Pack => "Pack, fabric",
        }
    }

    /// The name of a request's own span at the node, where it is traced.
    pub const fn span(self) -> Option<&'static str> {
        match self {
            Kind::Get => Some("mg"),
            Kind::Set => Some("ms"),
            Kind::InNetwork => None,
            Kind::Profile | Kind::GrpcProfile => Some("/shop.Shop/GetProfile"),
            Kind::Order => Some("/shop.Shop/PlaceOrder"),
            Kind::Rank => Some("/shop.Shop/Rank"),
            Kind::SetProfile => Some("/shop.Shop/SetProfile"),
            Kind::Pack => Some("/shop.Pictures/Pack"),
        }
    }
}

/// Where all of it is.
#[derive(Debug)]
pub struct Places {
    /// Memcached's, the fabric's, and gRPC's of the node.
    pub memcached: SocketAddr,
    /// The shop's.
    pub fabric: Address,
    /// Its gateway's.
    pub grpc: SocketAddr,
    /// Of pictures.
    pub media: Address,
    /// The rack.
    pub topology: Topology,
    /// Calls of some clients that are traced from there on.
    pub monitor: Monitor,
}

/// A client of one kind.
trait Client {
    /// Its next request.
    fn ask(&mut self, user: usize, turn: u64) -> Result<Exchange, String>;
}

/// A client that works until it is over.
pub struct Work<'a> {
    /// What it asks.
    pub kind: Kind,
    /// The how many-th of its kind.
    pub number: u32,
    /// Where.
    pub places: &'a Places,
    /// What may be read.
    pub book: &'a Book,
    /// How often it asks.
    pub pace: Pace,
    /// It ends then.
    pub over: &'a AtomicBool,
    /// For pages: what it did so far.
    pub shown: &'a std::sync::Mutex<Tally>,
}

impl Work<'_> {
    /// Until it is over.
    pub fn run(self) {
        let mut client: Option<Box<dyn Client + '_>> = None;
        let mut random = Prng::for_entity(1, self.number.into(), self.kind as u64);
        let popular = Zipf::new(USERS as u64, SKEW);
        let (mut next, mut turn) = (Nanos(0), 0);
        while !self.over.load(Ordering::Relaxed) {
            next = self.pace.wait(next);
            let outcome = match &mut client {
                Some(client) => {
                    turn += 1;
                    // Whoever writes writes all alike.
                    let user = if matches!(self.kind, Kind::Set | Kind::SetProfile) {
                        random.below(USERS as u64)
                    } else {
                        popular.sample(&mut random)
                    };
                    client.ask(user as usize, turn)
                }
                none => match self.connect() {
                    Ok(connected) => {
                        *none = Some(connected);
                        continue;
                    }
                    Err(why) => Err(why),
                },
            };
            let failed = outcome.is_err();
            self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner).record(outcome);
            if failed {
                client = None;
                std::thread::sleep(AFTER_FAILURE);
            }
        }
    }

    fn connect(&self) -> Result<Box<dyn Client + '_>, String> {
        let Places { memcached, fabric, grpc, media, topology, monitor } = self.places;
        let (book, tor) = (self.book, 1 + (self.number % crate::cluster::BOXES) as u16);
        let behind = || cache::Client::init(topology, Some(tor)).map_err(|error| error.to_string());
        Ok(match self.kind {
            Kind::Get => Box::new(Getter { link: open(*memcached)?, book }),
            Kind::Set => Box::new(Setter { link: open(*memcached)?, book }),
            Kind::InNetwork => Box::new(Behind { client: behind()?, book }),
            Kind::GrpcProfile | Kind::Rank => {
                let (grpc, kind) = (Grpc::connect(*grpc)?, self.kind);
                let (encoder, decoder) = (Encoder::default(), Decoder::new(Limits::default()));
                Box::new(OverGrpc { grpc, kind, encoder, decoder, book })
            }
            Kind::Profile => {
                let caller = Reconnecting::connect(fabric, &Options::default());
                let caller = caller.map_err(|error| error.to_string())?;
                let said = |status: Status| status.to_string();
                let cached = Cached::new(caller, behind()?, &SHOP).map_err(said)?;
                let shop = ShopClient::new(&cached).map_err(|error| error.to_string())?;
                Box::new(ByCache { cached, shop, book })
            }
            Kind::SetProfile | Kind::Order => {
                let (channel, shop) = call(fabric, Some(monitor))?;
                Box::new(OverFabric { channel, shop, kind: self.kind, book })
            }
            Kind::Pack => {
                let channel =
                    Channel::connect(media, &Options::default()).map_err(|error| error.to_string())?;
                let pictures = PicturesClient::new(&channel).map_err(|error| error.to_string())?;
                Box::new(Packing { channel, pictures, link: open(*memcached)?, behind: behind()? })
            }
        })
    }
}

/// A connection of memcached's protocol.
pub fn open(memcached: SocketAddr) -> Result<Link, String> {
    Link::open(&memcached.to_string()).map_err(|bye| format!("memcached client: it {bye}"))
}

/// A channel to the shop, which tells the monitor of its calls, if there is one.
pub fn call(fabric: &Address, monitor: Option<&Monitor>) -> Result<(Channel, ShopClient), String> {
    let options = Options { monitor: monitor.cloned(), ..Options::default() };
    let channel = Channel::connect(fabric, &options).map_err(|error| error.to_string())?;
    let shop = ShopClient::new(&channel).map_err(|error| error.to_string())?;
    Ok((channel, shop))
}

/// The bytes of an item, by memcached's protocol.
pub fn get(link: &mut Link, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let expect = request::meta_get(&mut link.out, key, "v");
    link.expect(expect);
    let mut found = Err("the node gave no value, and said not that there is none".to_owned());
    let each = |reply: Reply<'_>, _: bool| match reply {
        Reply::Meta { status: MetaStatus::Value, data: Some(data), .. } => found = Ok(Some(data.to_vec())),
        Reply::Meta { status: MetaStatus::Miss, .. } => found = Ok(None),
        other => found = Err(format!("{other:?}")),
    };
    link.exchange(each, || ()).map_err(|bye| format!("it {bye}"))?;
    found
}

/// Stores an item.
pub fn set(link: &mut Link, key: &[u8], value: &[u8]) -> Result<(), String> {
    let expect = request::meta_set(&mut link.out, key, "", value);
    link.expect(expect);
    let mut stored = Err("the node did not say that it is stored".to_owned());
    let each = |reply: Reply<'_>, _: bool| match reply {
        Reply::Meta { status: MetaStatus::Done, .. } => stored = Ok(()),
        other => stored = Err(format!("{other:?}")),
    };
    link.exchange(each, || ()).map_err(|bye| format!("it {bye}"))?;
    stored
}

/// A user's profile, or cart.
fn either(user: usize, turn: u64) -> usize {
    if turn.is_multiple_of(2) { user } else { cart(user) }
}

struct Getter<'a> {
    link: Link,
    book: &'a Book,
}

impl Client for Getter<'_> {
    fn ask(&mut self, user: usize, turn: u64) -> Result<Exchange, String> {
        let text = either(user, turn);
        let (key, before, begun) = (text_key(text), self.book.before(text), now());
        let found = get(&mut self.link, &key)?;
        let (took, received) = (now().since(begun), found.as_ref().map_or(0, Vec::len));
        let verdict = self.book.check(before, found.as_deref());
        Ok(Exchange { took, sent: key.len(), received, from_box: false, verdict })
    }
}

struct Setter<'a> {
    link: Link,
    book: &'a Book,
}

impl Client for Setter<'_> {
    fn ask(&mut self, user: usize, _: u64) -> Result<Exchange, String> {
        let cart = cart(user);
        let (number, text) = self.book.next_profile(cart);
        let (key, begun) = (text_key(cart), now());
        set(&mut self.link, &key, &text)?;
        let took = now().since(begun);
        self.book.stored(cart, number);
        Ok(Exchange { took, sent: key.len() + text.len(), received: 0, from_box: false, verdict: Ok(()) })
    }
}

struct Behind<'a> {
    client: cache::Client,
    book: &'a Book,
}

impl Client for Behind<'_> {
    fn ask(&mut self, user: usize, turn: u64) -> Result<Exchange, String> {
        let text = either(user, turn);
        let (key, before, begun) = (text_key(text), self.book.before(text), now());
        let found = self.client.get(&key).map_err(|error| error.to_string())?;
        let took = now().since(begun);
        let from_box = found.as_ref().is_some_and(|item| item.from_box);
        let value = found.map(|item| item.value);
        let (received, verdict) =
            (value.as_ref().map_or(0, Vec::len), self.book.check(before, value.as_deref()));
        Ok(Exchange { took, sent: key.len(), received, from_box, verdict })
    }
}

struct OverFabric<'a> {
    channel: Channel,
    shop: ShopClient,
    kind: Kind,
    book: &'a Book,
}

impl Client for OverFabric<'_> {
    fn ask(&mut self, number: usize, turn: u64) -> Result<Exchange, String> {
        match self.kind {
            Kind::Order => self.order(number, turn),
            _ => self.store(number),
        }
    }
}

impl OverFabric<'_> {
    fn store(&mut self, number: usize) -> Result<Exchange, String> {
        let (user, (version, text), begun) = (user(number), self.book.next_profile(number), now());
        let options = CallOptions::within(TIMEOUT);
        let reply = self.shop.set_profile(&mut self.channel, &options, |profile| {
            profile.set_user(&user)?;
            profile.set_text(&text)
        });
        let took = now().since(begun);
        reply.map_err(|status| status.to_string())?;
        self.book.stored(number, version);
        let sent = user.len() + text.len();
        Ok(Exchange { took, sent, received: 8, from_box: false, verdict: Ok(()) })
    }

    fn order(&mut self, number: usize, turn: u64) -> Result<Exchange, String> {
        let (user, good, begun) = (user(number), good(turn as usize % GOODS), now());
        let options = CallOptions::within(TIMEOUT);
        let reply = self.shop.place_order(&mut self.channel, &options, |order| {
            order.set_count(1 + turn as u32 % 3);
            order.set_user(&user)?;
            order.set_item(&good)
        });
        let took = now().since(begun);
        let reply = reply.map_err(|status| self.not_ordered(number, &status))?;
        let receipt = reply.view();
        let verdict = match (receipt.taken(), receipt.left()) {
            (true, 0..) => self.book.ordered(number, receipt.orders()),
            (true, left) => Err(format!("{good}: {left} are left in stock")),
            (false, _) => Err(format!("{good}: an order was refused, though there are enough")),
        };
        Ok(Exchange { took, sent: user.len() + good.len(), received: 8, from_box: false, verdict })
    }

    fn not_ordered(&self, number: usize, status: &Status) -> String {
        // What the shop says was not done was not; of all else nobody knows.
        if status.code() != Code::Unavailable || status.message().contains("not known") {
            self.book.maybe_ordered(number);
        }
        status.to_string()
    }
}

/// Asks the cache for a kept reply, and then the shop.
struct ByCache<'a> {
    cached: Cached,
    shop: ShopClient,
    book: &'a Book,
}

impl Client for ByCache<'_> {
    fn ask(&mut self, number: usize, _: u64) -> Result<Exchange, String> {
        let (user, before, hits) = (user(number), self.book.before(number), self.cached.hits());
        let (options, begun) = (CallOptions::within(TIMEOUT), now());
        let reply = self.shop.get_profile(&mut self.cached, &options, |request| request.set_user(&user));
        let took = now().since(begun);
        let reply = reply.map_err(|status| status.to_string())?;
        let text = reply.view().text();
        let (from_box, verdict) = (self.cached.hits() > hits, self.book.check(before, Some(text)));
        Ok(Exchange { took, sent: user.len(), received: text.len(), from_box, verdict })
    }
}

struct Packing {
    channel: Channel,
    pictures: PicturesClient,
    link: Link,
    behind: cache::Client,
}

impl Client for Packing {
    fn ask(&mut self, number: usize, turn: u64) -> Result<Exchange, String> {
        let (user, pixels, begun) = (user(number), picture(number, turn), now());
        let options = CallOptions::within(TIMEOUT);
        let reply = self.pictures.pack(&mut self.channel, &options, |picture| {
            picture.set_user(&user)?;
            picture.set_pixels(&pixels)
        });
        let took = now().since(begun);
        let reply = reply.map_err(|status| status.to_string())?;
        let (packed, key) = (reply.view().packed(), key("picture", &user));
        set(&mut self.link, &key, packed)?;
        let stored = self.behind.get(&key).map_err(|error| error.to_string())?;
        let mut unpacked = vec![0; pixels.len()];
        let verdict = match stored {
            None => Err(format!("{user}: the picture is not there")),
            Some(stored) => match Lz4Decompress.run(&stored.value, &mut unpacked) {
                Ok(len) if unpacked[..len] == pixels => Ok(()),
                Ok(_) => Err(format!("{user}: the picture is not what was packed")),
                Err(error) => Err(format!("{user}: the picture cannot be unpacked: {error}")),
            },
        };
        let sent = user.len() + pixels.len();
        Ok(Exchange { took, sent, received: packed.len(), from_box: reply.view().by_unit(), verdict })
    }
}

struct OverGrpc<'a> {
    grpc: Grpc,
    kind: Kind,
    encoder: Encoder,
    decoder: Decoder,
    book: &'a Book,
}

impl Client for OverGrpc<'_> {
    fn ask(&mut self, number: usize, _: u64) -> Result<Exchange, String> {
        let arena = Arena::default();
        let (user, before) = (user(number), self.book.before(number));
        let full = |_| "no memory for a request".to_owned();
        let (method, body) = match self.kind {
            Kind::Rank => {
                let mut request = RankRequest::new(&arena).map_err(full)?;
                request.set_user(&user).map_err(full)?;
                for at in 0..GOODS {
                    request.push_items(&format!("{}{user}", good(at))).map_err(full)?;
                }
                let frozen = RankRequest::freeze(request);
                ("/shop.Shop/Rank", frozen.encode(&mut self.encoder).map_err(|error| error.to_string())?)
            }
            _ => {
                let mut request = ProfileRequest::new(&arena).map_err(full)?;
                request.set_user(&user).map_err(full)?;
                let frozen = ProfileRequest::freeze(request);
                (
                    "/shop.Shop/GetProfile",
                    frozen.encode(&mut self.encoder).map_err(|error| error.to_string())?,
                )
            }
        };
        let begun = now();
        let reply = self.grpc.call(method, body, None, TIMEOUT)?;
        let took = now().since(begun);
        let odd = |error: codec::decode::DecodeError| error.to_string();
        let verdict = match self.kind {
            Kind::Rank => {
                let ranking = Owned::<Ranking>::decode(&mut self.decoder, &reply).map_err(odd)?;
                self.book.scored(number, ranking.view().scores())
            }
            _ => {
                let profile = Owned::<Profile>::decode(&mut self.decoder, &reply).map_err(odd)?;
                self.book.check(before, Some(profile.view().text()))
            }
        };
        Ok(Exchange { took, sent: body.len(), received: reply.len(), from_box: false, verdict })
    }
}
