//! What all servers of memcached's text protocol share: sockets that listen, accepted connections handed out, buffers in and out, counters.
//!
//! | file | what it is |
//! |---|---|
//! | `listen`, `accept` | sockets to listen at; who gets which connection |
//! | `socket`, `handshakes` | a client's stream, plain or with TLS; handshakes under way |
//! | `input`, `output` | bytes that arrived and are not yet read; bytes that a socket did not take yet |
//! | `connections` | which there are |
//! | `login` | who may come in, and in which protocol |
//! | `guest` | who asks, and has no right to it |
//! | `counters` | connections and bytes |

pub(crate) mod accept;
pub mod connections;
pub mod counters;
pub mod guest;
pub(crate) mod handshakes;
pub(crate) mod input;
pub(crate) mod listen;
pub mod login;
pub(crate) mod output;
pub(crate) mod socket;

/// What `version` answers. Clients compare its first numbers with memcached's to learn what a server understands, so they are
/// those of the memcached that this server follows; libmemcached, for one, refuses a major number of 0.
pub const PROTOCOL_VERSION: &str = concat!("1.6.18+millrace.", env!("CARGO_PKG_VERSION"));

/// Hands the names that memcached has for what commands count to a macro, and those that follow after them.
macro_rules! command_counters {
    ($then:ident: $($more:tt)*) => {
        $then! {
            /// Keys asked for.
            cmd_get
            /// Storage commands.
            cmd_set
            /// `flush_all` commands.
            cmd_flush
            /// Keys whose expiry was to be changed.
            cmd_touch
            /// Keys found.
            get_hits
            /// Keys not found.
            get_misses
            /// Deletions that found nothing.
            delete_misses
            /// Deletions.
            delete_hits
            /// Increments that found nothing.
            incr_misses
            /// Increments.
            incr_hits
            /// Decrements that found nothing.
            decr_misses
            /// Decrements.
            decr_hits
            /// Compare-and-set on an absent key.
            cas_misses
            /// Compare-and-set that stored.
            cas_hits
            /// Compare-and-set with another version.
            cas_badval
            /// Expiries changed.
            touch_hits
            /// Expiries to be changed of absent keys.
            touch_misses
            $($more)*
        }
    };
}
pub(crate) use command_counters;

/// What [`command_counters`] counted, as metrics name it: commands, and their outcomes.
macro_rules! outcomes {
    ($counters:expr, |$counter:ident| $read:expr) => {{
        let counters = $counters;
        macro_rules! one {
            ($name:ident) => {{
                let $counter = &counters.$name;
                $read
            }};
        }
        (
            [
                ("get", one!(cmd_get)),
                ("set", one!(cmd_set)),
                ("flush_all", one!(cmd_flush)),
                ("touch", one!(cmd_touch)),
            ],
            [
                ("get", "hit", one!(get_hits)),
                ("get", "miss", one!(get_misses)),
                ("delete", "hit", one!(delete_hits)),
                ("delete", "miss", one!(delete_misses)),
                ("incr", "hit", one!(incr_hits)),
                ("incr", "miss", one!(incr_misses)),
                ("decr", "hit", one!(decr_hits)),
                ("decr", "miss", one!(decr_misses)),
                ("cas", "hit", one!(cas_hits)),
                ("cas", "miss", one!(cas_misses)),
                ("cas", "other_version", one!(cas_badval)),
                ("touch", "hit", one!(touch_hits)),
                ("touch", "miss", one!(touch_misses)),
            ],
        )
    }};
}
pub(crate) use outcomes;
