//! `get`, `gets`, `gat`, `gats` and `mg`, with memcached's leases.
//!
//! Leases: who misses may have an empty item made (*vivify*) and is to fill it; who finds one about to end (*recache*), or a stale one, is
//! told to store it anew. There is one such winner until somebody stores it: the winning is a write, which marks the item as claimed.

use super::{Decision, Found, Hit, KEPT, Outcome, Write, marked, seconds};
use base::Nanos;
use protocol::coherence::client::Call;
use protocol::wire::Kind;

/// The options of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// A new life for what is there (`gat`, meta T).
    pub touch: Option<Nanos>,
    /// Where nothing is, make an empty item that lives so long, and win (meta N).
    pub vivify: Option<Nanos>,
    /// Win where fewer seconds than this remain (meta R).
    pub recache_below: Option<u32>,
    /// Whether `recache_below` looks at the life that `touch` gives rather than at the one before.
    pub touch_first: bool,
    /// Whether the client can be told that it won (`mg`).
    pub lease: bool,
}

impl Read {
    /// Whether it asks for nothing but what is there.
    pub fn is_plain(&self) -> bool {
        self.touch.is_none() && self.vivify.is_none() && self.recache_below.is_none()
    }

    /// None: the first thing that a read does is to read.
    pub(super) fn direct(&self, _key: &[u8]) -> Option<Call> {
        None
    }

    pub(super) fn decide(&self, found: Option<Found>) -> Decision {
        let Some(found) = found else {
            return match self.vivify {
                Some(life) => Decision::write(empty(life), Outcome::Hit(made(life))),
                None => Decision::nothing(Outcome::Miss),
            };
        };
        let (stale, claimed) = (found.is_stale(), found.is_claimed());
        let life = self.touch.unwrap_or(found.life);
        let seen = if self.touch_first { life } else { found.life };
        let is_ageing = |below| seconds(seen).is_some_and(|left| left < below);
        let won = self.lease && !claimed && (stale || self.recache_below.is_some_and(is_ageing));
        let write = match self.touch {
            _ if won => Some(Write::Put {
                value: found.value.clone(),
                flags: found.flags,
                kind: marked(stale, true),
                life: self.touch.unwrap_or(KEPT),
            }),
            Some(life) => Some(Write::Touch(life)),
            None => None,
        };
        let hit = Hit {
            life,
            life_before: found.life,
            value: found.value,
            flags: found.flags,
            version: found.version,
            won,
            stale,
            claimed,
        };
        Decision { write, outcome: Outcome::Hit(hit) }
    }
}

fn empty(life: Nanos) -> Write {
    Write::Put { value: Vec::new(), flags: 0, kind: Kind::Claimed, life }
}

fn made(life: Nanos) -> Hit {
    Hit {
        value: Vec::new(),
        flags: 0,
        version: 0,
        life,
        life_before: Nanos::MAX,
        won: true,
        stale: false,
        claimed: false,
    }
}
