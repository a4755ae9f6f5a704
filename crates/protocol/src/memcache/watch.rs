//! What `watch` shows: lines about what a server does, in streams that memcached has words for.

/// Words of memcached 1.6.18 for streams in which nothing ever comes here: what they are about (its own proxy, its own threads) is not there.
const EMPTY: [&[u8]; 5] = [b"rawcmds", b"sysevents", b"proxyreqs", b"proxyevents", b"proxyuser"];

/// A set of streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Streams(u8);

impl Streams {
    /// Items that were looked up.
    pub const FETCHERS: Streams = Streams(1);
    /// Items that were to be stored.
    pub const MUTATIONS: Streams = Streams(2);
    /// Items that made room for others.
    pub const EVICTIONS: Streams = Streams(4);
    /// Connections that came and went.
    pub const CONNEVENTS: Streams = Streams(8);
    /// What commands tell of items.
    pub const OF_ITEMS: Streams = Streams(1 | 2 | 4);

    /// The streams that a word names; none if memcached knows no such word.
    pub fn named(word: &[u8]) -> Option<Streams> {
        Some(match word {
            b"fetchers" => Streams::FETCHERS,
            b"mutations" => Streams::MUTATIONS,
            b"evictions" => Streams::EVICTIONS,
            b"connevents" => Streams::CONNEVENTS,
            _ if EMPTY.contains(&word) => Streams::default(),
            _ => return None,
        })
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: Streams) -> Streams {
        Streams(self.0 | other.0)
    }

    /// Whether one of the others is among them.
    #[inline]
    pub fn has_any(self, others: Streams) -> bool {
        self.0 & others.0 != 0
    }

    /// As a number, for whoever keeps them in an atomic one.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// From [`Streams::bits`].
    pub fn from_bits(bits: u8) -> Streams {
        Streams(bits)
    }
}
