//! How long the load stood still after each death, beside how long it may.
//!
//! After a death, until the next one: the longest time in which no client's operation was answered; of the client that waited longest, how
//! long; and when boxes answered again as before. What may be is stated by the design (docs/design/004-box.md, "Failure"):
//!
//! | who died | may stand still for |
//! |---|---|
//! | box | lease + retransmission: a write waits for the copies that the box may have, a read for one timeout |
//! | home | until it is back, + lease + retransmission |
//! | link | until it is back, or a lease, whichever is longer, + retransmission |
//! | controller, client | nothing: only the machine's own pauses |
//!
//! Retransmission is the longest pause between two sendings. What a busy machine adds is allowed for with [`ALLOWANCE`].

use super::conduct::Death;
use super::kill::Role;
use super::record::{Class, End};
use base::Nanos;
use protocol::coherence::{Config, NodeId};
use std::collections::BTreeMap;

/// Beyond what the design states: a process that waits for its turn on a busy machine.
pub const ALLOWANCE: Nanos = Nanos::from_millis(250);
/// Hits are counted in spans of this length.
const SPAN: Nanos = Nanos::from_millis(100);
/// Spans before a death that are what was usual.
const USUAL: u64 = 5;

/// A client's life: behind which box, from when, until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its box.
    pub tor: u16,
    /// Since the beginning.
    pub from: Nanos,
    /// When it was killed, or the run's end.
    pub to: Nanos,
}

/// What followed a death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The death.
    pub death: Death,
    /// Nobody's operation was answered for this long.
    pub all: Nanos,
    /// One client's were not for this long.
    pub worst: Nanos,
    /// May be.
    pub bound: Nanos,
    /// Boxes answer again this long after the death; none if they do not, or did not before.
    pub hits: Option<Nanos>,
}

impl Stall {
    /// It was no longer than it may be.
    pub fn is_bounded(&self) -> bool {
        self.worst <= self.bound.plus(ALLOWANCE)
    }
}

/// What may be, as the table in the head says.
fn bound(death: &Death, end: Nanos, config: &Config) -> Nanos {
    let gone = death.back.unwrap_or(end).since(death.at);
    let (lease, again) = (config.lease, config.retransmit_max);
    match death.role {
        Role::Node(NodeId::Box(_)) => lease.plus(again),
        Role::Node(NodeId::Home(_)) => gone.plus(lease).plus(again),
        Role::Node(NodeId::Controller(_) | NodeId::Client(_)) => Nanos(0),
        Role::Link(_) => gone.max(lease).plus(again),
    }
}

/// The longest span from `from` to `to` without one of these moments, which are in order.
pub fn longest(moments: impl Iterator<Item = Nanos>, from: Nanos, to: Nanos) -> Nanos {
    let mut last = from;
    let mut longest = Nanos(0);
    for at in moments.filter(|at| (from..to).contains(at)).chain([to]) {
        longest = longest.max(at.since(last));
        last = at;
    }
    longest
}

/// When boxes answered again, of clients behind `tor`, or all: half as often as before. None if they did not before, or not again.
fn hits_again(
    ends: &[End],
    lives: &BTreeMap<u32, Life>,
    tor: Option<u16>,
    from: Nanos,
    to: Nanos,
) -> Option<Nanos> {
    let is_seen = |end: &&End| {
        matches!(end.class, Class::Hit | Class::ComputeHit)
            && tor.is_none_or(|tor| lives.get(&end.client).is_some_and(|life| life.tor == tor))
    };
    let hits: Vec<Nanos> = ends.iter().filter(is_seen).map(|end| end.at).collect();
    let within = |from: Nanos, to: Nanos| {
        let before = |moment: Nanos| hits.partition_point(|at| *at < moment);
        (before(to) - before(from)) as u64
    };
    let usual = within(Nanos(from.0.saturating_sub(USUAL * SPAN.0)), from);
    if usual == 0 {
        return None;
    }
    let is_lack = |start: Nanos| 2 * USUAL * within(start, start.plus(SPAN)) < usual;
    // Of spans one after the other in which hits are lacking, those that go on for longest.
    let (mut longest, mut lacking, mut again) = (0, 0, Some(Nanos(0)));
    let mut start = from;
    while start < to {
        lacking = if is_lack(start) { lacking + 1 } else { 0 };
        start = start.plus(SPAN);
        if lacking > longest {
            longest = lacking;
            again = (start < to).then(|| start.since(from));
        }
    }
    again
}

/// What followed each death, by what was answered.
pub fn stalls(
    ends: &[End],
    deaths: &[Death],
    lives: &BTreeMap<u32, Life>,
    end: Nanos,
    config: &Config,
) -> Vec<Stall> {
    let until = |number: usize| deaths.get(number + 1).map_or(end, |next| next.at);
    let one = |(number, death): (usize, &Death)| {
        let (from, to) = (death.at, until(number));
        let all = longest(ends.iter().map(|end| end.at), from, to);
        let of_client = |(client, life): (&u32, &Life)| {
            let (from, to) = (from.max(life.from), to.min(life.to));
            let own = ends.iter().filter(|end| end.client == *client).map(|end| end.at);
            if from < to { longest(own, from, to) } else { Nanos(0) }
        };
        let worst = lives.iter().map(of_client).max().unwrap_or(all);
        let tor = match death.role {
            Role::Node(NodeId::Box(id)) if lives.values().any(|life| life.tor == id.0) => Some(id.0),
            _ => None,
        };
        let hits = hits_again(ends, lives, tor, from, to);
        Stall { death: *death, all, worst, bound: bound(death, end, config), hits }
    };
    deaths.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::run::kill::Kill;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn death(text: &str, back: u64) -> Death {
        let Kill { role, at } = Kill::parse(text).expect("a death");
        Death { role, at, back: Some(ms(back)) }
    }

    /// Client 0 behind box 1 has hits every 10 ms but from 1000 to 1450; client 1 behind box 2 all the time.
    fn ends() -> Vec<End> {
        let mut ends = Vec::new();
        for at in (0..3000).step_by(10).map(ms) {
            let end = |client| End { at, client, class: Class::Hit };
            if !(ms(1000)..ms(1450)).contains(&at) {
                ends.push(end(0));
            }
            ends.push(end(1));
        }
        ends
    }

    #[test]
    fn the_client_that_waits_longest_is_found() {
        let life = |tor| Life { tor, from: ms(0), to: ms(3000) };
        let lives = BTreeMap::from([(0, life(1)), (1, life(2))]);
        let deaths = [death("box:1@1s", 1600), death("controller:0@2s", 2100)];
        let config = Config::default();
        let stalls = stalls(&ends(), &deaths, &lives, ms(3000), &config);
        assert_eq!((stalls[0].all, stalls[0].worst), (ms(10), ms(450)));
        assert_eq!(stalls[0].hits, Some(ms(400)), "the end of the last span of lack");
        assert_eq!(stalls[0].bound, config.lease.plus(config.retransmit_max));
        assert_eq!((stalls[1].worst, stalls[1].bound, stalls[1].hits), (ms(10), ms(0), Some(ms(0))));
        assert!(stalls.iter().all(Stall::is_bounded));
    }

    #[test]
    fn who_is_dead_does_not_wait() {
        let life = |tor, from, to| Life { tor, from: ms(from), to: ms(to) };
        let lives = BTreeMap::from([(0, life(1, 0, 1000)), (1, life(2, 0, 3000)), (2, life(1, 1600, 3000))]);
        let mut ends = ends();
        ends.retain(|end| end.client == 1 || end.at < ms(1000));
        let deaths = [death("client:1@1s", 1600)];
        let stalls = stalls(&ends, &deaths, &lives, ms(3000), &Config::default());
        assert_eq!(stalls[0].worst, ms(1400), "the one that came in its place does nothing at all");
        assert!(!stalls[0].is_bounded());
    }

    #[test]
    fn a_home_may_take_its_time() {
        let config = Config::default();
        let home = death("home:1@1s", 2700);
        assert_eq!(bound(&home, ms(9000), &config), ms(1700).plus(config.lease).plus(config.retransmit_max));
        let link = Death { back: None, ..death("link:1@1s", 0) };
        assert_eq!(bound(&link, ms(1200), &config), config.lease.plus(config.retransmit_max));
    }
}
