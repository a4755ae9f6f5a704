//! What a session is allowed to use and how patient it is.

use super::wire::{OVERHEAD, Terms};
use base::units::Nanos;
use std::fmt;

/// The longest message that any configuration may allow.
pub const MAX_MESSAGE: usize = (8 << 20) + (64 << 10);

/// Bounds and times of one end. The two ends may differ.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of the longest datagram (UDP payload); the smaller of both ends' counts. Over loopback larger ones cost
    /// less per byte.
    pub datagram_bytes: usize,
    /// Bytes of the longest message, sent or taken; the peer's own bound counts too.
    pub max_message: usize,
    /// Bytes of messages that were sent and not acknowledged, before `send` says `Full`.
    pub send_bytes: usize,
    /// The same as a number of messages.
    pub send_messages: usize,
    /// Bytes of messages that the peer may have begun and this end's user has not taken.
    pub receive_bytes: usize,
    /// The same as a number of messages.
    pub receive_messages: usize,
    /// Packets between the oldest unacknowledged and the newest.
    pub max_in_flight: usize,
    /// Taken for the round trip until one was measured.
    pub initial_rtt: Nanos,
    /// Never retransmits sooner after a packet than this.
    pub min_timeout: Nanos,
    /// Never waits longer for an answer before it asks again.
    pub max_timeout: Nanos,
    /// How long an acknowledgement may wait for data to travel with.
    pub max_ack_delay: Nanos,
    /// An opened session must be answered, an accepted one used, within this.
    pub open_timeout: Nanos,
    /// After so long a silence the peer is asked for a sign of life.
    pub keep_alive: Nanos,
    /// After so long a silence the session is lost; also how long a close may take.
    pub lost_after: Nanos,
    #[cfg(test)]
    pub(super) planted: Option<super::tests::Planted>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            datagram_bytes: 1452,
            max_message: MAX_MESSAGE,
            send_bytes: 16 << 20,
            send_messages: 16 << 10,
            receive_bytes: 16 << 20,
            receive_messages: 16 << 10,
            max_in_flight: 2048,
            initial_rtt: Nanos::from_millis(5),
            min_timeout: Nanos::from_millis(5),
            max_timeout: Nanos::from_millis(500),
            max_ack_delay: Nanos::from_micros(500),
            open_timeout: Nanos::from_secs(5),
            keep_alive: Nanos::from_secs(2),
            lost_after: Nanos::from_secs(10),
            #[cfg(test)]
            planted: None,
        }
    }
}

/// Why a configuration cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadConfig(&'static str);

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadConfig {}

/// Bytes of the shortest `datagram_bytes`.
pub const MIN_DATAGRAM: usize = 256;
/// Bytes of the longest UDP payload over IPv4.
pub const MAX_DATAGRAM: usize = 65_507;

impl Config {
    /// Whether the bounds agree with each other.
    ///
    /// # Errors
    /// [`BadConfig`], a sentence.
    pub fn check(&self) -> Result<(), BadConfig> {
        let rules = [
            (
                (MIN_DATAGRAM..=MAX_DATAGRAM).contains(&self.datagram_bytes),
                "datagrams have 256 to 65507 bytes",
            ),
            (self.max_message <= MAX_MESSAGE, "messages have at most 8 MiB + 64 KiB"),
            (self.send_bytes >= self.max_message, "the longest message must fit into send_bytes"),
            (self.receive_bytes >= self.max_message, "the longest message must fit into receive_bytes"),
            (self.send_messages > 0 && self.receive_messages > 0, "at least one message must fit"),
            (self.receive_messages <= u32::MAX as usize, "receive_messages has 32 bits"),
            (self.max_in_flight >= 4, "at least four packets must be in flight, or no loss is ever noticed"),
            (
                self.min_timeout > Nanos::ZERO && self.min_timeout <= self.max_timeout,
                "min_timeout must be above 0 and at most max_timeout",
            ),
            (self.keep_alive < self.lost_after, "a peer must be asked before it is given up"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err(BadConfig(why)))
    }

    pub(super) fn terms(&self) -> Terms {
        Terms {
            datagram_bytes: self.datagram_bytes as u32,
            max_message: self.max_message as u32,
            granted_bytes: self.receive_bytes as u64,
            granted_messages: self.receive_messages as u32,
            max_ack_delay_us: u32::try_from(self.max_ack_delay.0 / 1000).unwrap_or(u32::MAX),
        }
    }
}

/// Whether a peer's terms can be worked with.
pub(super) fn are_usable(terms: &Terms) -> bool {
    terms.datagram_bytes as usize >= MIN_DATAGRAM
        && terms.granted_messages > 0
        && terms.granted_bytes >= u64::from(terms.max_message)
}

/// Bytes of a fragment in a session whose datagrams have `datagram_bytes`.
pub(super) fn unit(datagram_bytes: usize) -> u16 {
    u16::try_from(datagram_bytes - OVERHEAD).expect("a datagram is shorter than 64 KiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_works_and_nonsense_is_named() {
        assert_eq!(Config::default().check(), Ok(()));
        let bad = Config { send_bytes: 100, ..Config::default() };
        assert_eq!(bad.check().unwrap_err().to_string(), "the longest message must fit into send_bytes");
        assert!(Config { datagram_bytes: 100, ..Config::default() }.check().is_err());
        assert!(are_usable(&Config::default().terms()));
    }

    #[test]
    fn every_legal_datagram_has_a_unit() {
        assert!(unit(MIN_DATAGRAM) > 0);
        assert_eq!(usize::from(unit(MAX_DATAGRAM)), MAX_DATAGRAM - OVERHEAD);
    }
}
