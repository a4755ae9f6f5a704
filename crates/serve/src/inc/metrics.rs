//! What nodes of the in-network cache counted and how long they took: asked of each node's thread, which answers between two turns.
//!
//! A node that is busy answers after its turn, within 20 ms when idle.

use super::book;
use super::driver::Driver;
use super::machine::{self, Counters, Machine, add_up};
use super::times::Outcome;
use crate::admin::ask::{Asker, ask_all};
use crate::metrics::{Buckets, Family, Page};
use base::{Clock, Nanos};
use protocol::coherence::NodeId;
use protocol::coherence::moved::Moved;
use protocol::wire::BoxId;
use std::sync::Arc;

crate::families! { "millrace_inc_";
    EVENTS counter "events" count ["node", "tier", "event"] "What a node counted, by tier: user (its thread), xdp (its program in the kernel), socket.";
    ITEMS gauge "items" count ["node"] "Items that a home has.";
    XDP_ENTRIES gauge "xdp_entries" count ["node"] "Copies in the table of a box's XDP program.";
    EPOCH gauge "epoch" count ["node"] "Number of the table of live boxes that a controller made last, or a box goes by.";
    LIVE_BOXES gauge "live_boxes" count ["node"] "Boxes that a controller takes for alive.";
    ACTIVE gauge "active" count ["node"] "Whether a controller makes the tables; of several one does.";
    SLOTS gauge "slots" count ["node", "cache"] "Slots of the table that a box or controller goes by whose keys not all boxes may keep: those that only boxes above their client may (cluster), some boxes, and none (nowhere).";
    DRAINING gauge "draining" count ["node"] "Whether a box is to be stopped by the table that it goes by: it keeps nothing, and clients go round it.";
    LEFT gauge "left" count ["node"] "What such a box has left: keys that it owns or that are on their way home, and keys of which boxes below have copies by it.";
    DRAINED gauge "drained" count ["node", "of"] "Of each box that is to be stopped, by the controller that makes the tables, whether it may be: nobody waits for it.";
    MOVED gauge "moved" count ["node", "of", "address"] "Of each home that has moved, by the table that a box or controller goes by, the epoch of the order, and where the home is since.";
    SILENT gauge "silent" seconds ["node", "of"] "How long the controller that makes the tables has heard nothing of a box or home.";
    TIME histogram "datagram" seconds ["node", "tier", "outcome"] "From reading a datagram to sending what it caused; of tier xdp a sample.";
}

/// Counts of machines that go up and down, with their families.
const STATES: [(&str, &Family); 7] = [
    ("draining", DRAINING),
    ("left", LEFT),
    ("items", ITEMS),
    ("epoch", EPOCH),
    ("live boxes", LIVE_BOXES),
    ("active", ACTIVE),
    ("xdp entries", XDP_ENTRIES),
];

/// Of a node, at one moment.
#[derive(Debug)]
pub struct Seen {
    node: NodeId,
    /// Cores that it has; this is of one.
    cores: u8,
    counts: Counters,
    traffic: Counters,
    silences: Vec<(NodeId, Nanos)>,
    drains: Vec<(BoxId, bool)>,
    /// Homes that have moved, of a controller.
    moved: Arc<Moved>,
    /// Why it serves nobody yet.
    silent: Option<&'static str>,
    /// Tier, outcome and spans.
    times: Vec<(&'static str, &'static str, Buckets)>,
}

impl Seen {
    /// Of a node that is driven so.
    pub fn of<M: Machine>(node: NodeId, driver: &Driver<M>) -> Seen {
        let user = Outcome::ALL.iter().map(|(outcome, name)| (name, driver.times().of(*outcome)));
        let user = user.filter(|(_, times)| !times.is_empty());
        let mut times: Vec<_> =
            user.map(|(name, times)| ("user", *name, Buckets::of_histogram(times))).collect();
        times.extend(driver.machine().fast_times().iter().map(|(name, times)| ("xdp", *name, fast(times))));
        let (counts, traffic) = (driver.machine().counters(), driver.traffic().named().into());
        let now = Clock::shared().now();
        let (silences, drains) = (driver.machine().silences(now), driver.machine().drains(now));
        let (cores, silent) = (driver.machine().cores(), driver.machine().silent(now));
        let moved = driver.machine().moved().cloned().unwrap_or_default();
        Seen { node, cores, counts, traffic, silences, drains, moved, silent, times }
    }

    /// Homes that have moved, of a controller.
    pub fn moved(&self) -> &Moved {
        &self.moved
    }

    /// Why it serves nobody yet, if so.
    pub fn silent(&self) -> Option<&'static str> {
        self.silent
    }

    /// With what another core of the same node says.
    fn add(&mut self, other: Seen) {
        add_up(&mut self.counts, &other.counts);
        add_up(&mut self.traffic, &other.traffic);
        for (tier, outcome, buckets) in other.times {
            match self.times.iter_mut().find(|(t, o, _)| (*t, *o) == (tier, outcome)) {
                Some((_, _, sum)) => sum.add(&buckets),
                None => self.times.push((tier, outcome, buckets)),
            }
        }
    }
}

/// At powers of two. What a bucket's samples took is taken for its middle.
fn fast(times: &[u64]) -> Buckets {
    let (mut sum, mut count) = (0.0, 0);
    let bucket = |(bit, samples): (usize, &u64)| {
        sum += *samples as f64 * 1.5 * (1u64 << bit) as f64 / 1e9;
        count += samples;
        (((2u64 << bit) - 1) as f64 / 1e9, count)
    };
    let steps = times.iter().enumerate().map(bucket).collect();
    Buckets { steps, count, sum }
}

/// Adds what these nodes say.
pub fn collect(nodes: &[Asker<Seen>], page: &mut Page) {
    whole(ask_all(nodes)).iter().for_each(|seen| add(page, seen));
}

/// Nodes, the cores of each added up. Without those of which a core does not answer: sums must not fall.
fn whole(seen: Vec<Seen>) -> Vec<Seen> {
    let mut nodes: Vec<(Seen, u8)> = Vec::new();
    for core in seen {
        match nodes.iter_mut().find(|(node, _)| node.node == core.node) {
            Some((node, cores)) => {
                node.add(core);
                *cores += 1;
            }
            None => nodes.push((core, 1)),
        }
    }
    nodes.into_iter().filter(|(node, cores)| *cores == node.cores).map(|(node, _)| node).collect()
}

fn add(page: &mut Page, seen: &Seen) {
    let node = &*book::name(seen.node);
    for (name, count) in &seen.counts {
        if machine::SLOTS.contains(name) {
            page.add(SLOTS, &[node, name.trim_start_matches("slots ")], *count);
            continue;
        }
        match STATES.iter().find(|(state, _)| state == name) {
            Some((_, family)) => page.add(family, &[node], *count),
            None => {
                let tier = if name.starts_with("xdp ") { "xdp" } else { "user" };
                page.add(EVENTS, &[node, tier, &event(name)], *count);
            }
        }
    }
    for (name, count) in &seen.traffic {
        page.add(EVENTS, &[node, "socket", &event(name)], *count);
    }
    for (of, silent) in &seen.silences {
        page.add(SILENT, &[node, &book::name(*of)], silent.0 as f64 / 1e9);
    }
    for (of, is_drained) in &seen.drains {
        page.add(DRAINED, &[node, &book::name(NodeId::Box(*of))], u64::from(*is_drained));
    }
    for (home, place) in seen.moved.iter() {
        let labels = [node, &book::name(NodeId::Home(home)), &place.address.to_string()];
        page.add(MOVED, &labels, u64::from(place.epoch.0));
    }
    for (tier, outcome, times) in &seen.times {
        page.add_buckets(TIME, &[node, tier, outcome], times);
    }
}

/// A count's name as a label.
pub(crate) fn event(name: &str) -> String {
    name.trim_start_matches("xdp ").replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;
    use protocol::coherence::moved::Place;
    use protocol::wire::{Epoch, HomeId};
    use std::net::SocketAddr;

    fn seen(node: NodeId, counts: &[(&'static str, u64)]) -> Seen {
        let mut user = hdrhistogram::Histogram::new_with_bounds(1, 1 << 40, 2).expect("bounds");
        for ns in [1500, 7000, 7000] {
            user.record(ns).expect("it is within");
        }
        let times = vec![("user", "answered", Buckets::of_histogram(&user)), ("xdp", "hit", fast(&[0; 32]))];
        let silences = vec![(NodeId::Box(BoxId(2)), Nanos::from_millis(1500))];
        let drains = vec![(BoxId(2), true)];
        let place = Place::new(SocketAddr::from(([10, 0, 0, 9], 7104)), Epoch(17)).expect("somebody's");
        let (moved, traffic) = (Arc::new(Moved::from_iter([(HomeId(1), place)])), vec![("sent", 4)]);
        Seen { node, cores: 1, counts: counts.into(), traffic, silences, drains, moved, silent: None, times }
    }

    #[test]
    fn several_nodes_are_on_one_page() {
        let mut page = Page::default();
        let counts = [("hits", 3), ("xdp hits", 9), ("xdp entries", 2), ("draining", 1), ("left", 3)];
        add(&mut page, &seen(NodeId::Box(BoxId(1)), &counts));
        add(&mut page, &seen(NodeId::Home(HomeId(1)), &[("hits", 5), ("items", 6)]));
        let states = [("epoch", 7), ("live boxes", 1), ("active", 1), ("slots cluster", 9)];
        add(&mut page, &seen(NodeId::Controller(0), &states));
        let text = page.text();
        lint::hold(&text);
        for sample in [
            "millrace_inc_events_total{node=\"box:1\",tier=\"user\",event=\"hits\"} 3",
            "millrace_inc_events_total{node=\"box:1\",tier=\"xdp\",event=\"hits\"} 9",
            "millrace_inc_events_total{node=\"home:1\",tier=\"socket\",event=\"sent\"} 4",
            "millrace_inc_xdp_entries{node=\"box:1\"} 2",
            "millrace_inc_items{node=\"home:1\"} 6",
            "millrace_inc_epoch{node=\"controller:0\"} 7",
            "millrace_inc_live_boxes{node=\"controller:0\"} 1",
            "millrace_inc_active{node=\"controller:0\"} 1",
            "millrace_inc_slots{node=\"controller:0\",cache=\"cluster\"} 9",
            "millrace_inc_silent_seconds{node=\"controller:0\",of=\"box:2\"} 1.5",
            "millrace_inc_draining{node=\"box:1\"} 1",
            "millrace_inc_left{node=\"box:1\"} 3",
            "millrace_inc_moved{node=\"controller:0\",of=\"home:1\",address=\"10.0.0.9:7104\"} 17",
            "millrace_inc_drained{node=\"controller:0\",of=\"box:2\"} 1",
            "millrace_inc_datagram_seconds_bucket{node=\"box:1\",tier=\"user\",outcome=\"answered\",le=\"2e-06\"} 1",
            "millrace_inc_datagram_seconds_bucket{node=\"box:1\",tier=\"user\",outcome=\"answered\",le=\"1e-05\"} 3",
            "millrace_inc_datagram_seconds_count{node=\"box:1\",tier=\"user\",outcome=\"answered\"} 3",
        ] {
            assert!(text.contains(sample), "{sample} in\n{text}");
        }
        for family in FAMILIES {
            assert!(text.contains(&format!("# TYPE {} ", family.name)), "{} in\n{text}", family.name);
        }
    }

    #[test]
    fn cores_of_a_node_are_added_up_or_left_out() {
        let node = NodeId::Box(BoxId(1));
        let core = |hits, epoch| Seen { cores: 2, ..seen(node, &[("hits", hits), ("epoch", epoch)]) };
        let mut page = Page::default();
        whole(vec![core(3, 7), core(4, 6)]).iter().for_each(|seen| add(&mut page, seen));
        let text = page.text();
        lint::hold(&text);
        for sample in [
            "millrace_inc_events_total{node=\"box:1\",tier=\"user\",event=\"hits\"} 7",
            "millrace_inc_events_total{node=\"box:1\",tier=\"socket\",event=\"sent\"} 8",
            "millrace_inc_epoch{node=\"box:1\"} 7",
            "millrace_inc_datagram_seconds_count{node=\"box:1\",tier=\"user\",outcome=\"answered\"} 6",
        ] {
            assert!(text.contains(sample), "{sample} in\n{text}");
        }
        assert!(whole(vec![core(3, 7)]).is_empty());
    }
}
