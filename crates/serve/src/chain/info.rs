//! What a replica says of itself: the answer to `Txn.Info`, and its figures, which metrics say too.

use super::links::Counts;
use super::node::Node;
use crate::txn::info::{Info, Member};
use base::Clock;
use protocol::chain::replica::Stats;
use protocol::chain::{Lsn, NodeId, Part, Space, claim};

impl Node {
    /// Everything, with a checksum as of a transaction if there is one.
    pub(super) fn info(&self, digest: Option<(Lsn, u64)>) -> Info {
        let (view, now) = (self.replica.view(), Clock::shared().now());
        let configuration = self.replica.configuration();
        let members = configuration.members.iter().map(|member| {
            let address = match member.replica {
                me if me == self.place.id => Some(&*self.place.serves),
                // What it says itself is newer than what an order said of it.
                other => self.links.serves(NodeId::Replica(other)).or_else(|| {
                    let ordered = configuration.address(other).map(|at| &*at.clients);
                    ordered.filter(|clients| !clients.is_empty())
                }),
            };
            Member {
                replica: member.replica,
                incarnation: member.incarnation,
                syncing: member.part == Part::Syncing,
                address: address.and_then(|text| text.parse().ok()),
            }
        });
        let hottest = self.replica.locks().map_or(Vec::new(), |locks| {
            let keys = locks.hottest().into_iter().filter(|(key, _)| key.space == Space::User);
            keys.map(|(key, waiting)| (key.bytes.clone(), waiting as u64)).collect()
        });
        Info {
            chain: self.place.chain,
            replica: self.place.id,
            incarnation: self.place.incarnation,
            epoch: view.epoch,
            members: members.collect(),
            is_head: view.is_head,
            is_tail: view.is_tail,
            serves_reads: view.part == Some(Part::Serving)
                && now < view.lease_until
                && (view.settled || !view.is_tail),
            last: view.last,
            durable: view.durable,
            committed: view.committed,
            applied: digest.map_or(view.applied, |(lsn, _)| lsn),
            durability: view.class,
            media: self.place.media.to_string(),
            waiting: view.waiting as u64,
            under_way: view.under_way as u64,
            digest: digest.map(|(_, digest)| digest),
            hottest,
            claim: claim::of(self.replica.image()),
            figures: self.figures().into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    /// Counts and sizes, by name; those that end in `_total` only grow.
    pub(super) fn figures(&self) -> Vec<(&'static str, f64)> {
        let view = self.replica.view();
        let mut figures = self.place.found.figures();
        figures.push(("connected", f64::from(u8::from(view.connected))));
        figures.push(("removed", f64::from(u8::from(view.removed))));
        figures.push(("copy_received_bytes", view.copied.0 as f64));
        figures.push(("copy_extent_bytes", view.copied.1 as f64));
        figures.push(("missing_entries", view.missing as f64));
        figures.extend(self.replica.log().figures());
        figures.extend(self.replica.image().figures());
        figures.extend(named(&self.replica.stats()).map(|(name, count)| (name, count as f64)));
        let mut all = Counts::default();
        let mut up = 0;
        for (_, is_up, counts) in self.links.peers() {
            up += u64::from(is_up);
            all.add(&counts);
        }
        let links = [
            ("links_up", up),
            ("links_made_total", all.links),
            ("messages_sent_total", all.sent),
            ("messages_received_total", all.received),
            ("messages_dropped_total", all.dropped),
            ("messages_malformed_total", all.malformed),
            ("strangers_total", self.links.refused().strangers),
            ("unproven_links_total", self.links.refused().unproven),
            ("second_processes_total", self.links.refused().twice),
            ("calls_waiting", self.desk.waiting() as u64),
            ("calls_answered_total", self.desk.answered()),
        ];
        figures.extend(links.map(|(name, count)| (name, count as f64)));
        figures
    }

    /// A sentence for the line that says that it is ready, or has ended.
    pub(super) fn state(&self) -> String {
        let view = self.replica.view();
        format!("epoch {}, last transaction {}, applied {}", view.epoch.0, view.last.0, view.applied.0)
    }
}

/// What the machine counted.
fn named(stats: &Stats) -> [(&'static str, u64); 19] {
    [
        ("transactions_logged_total", stats.logged),
        ("transactions_aborted_total", stats.aborted),
        ("transactions_claimed_total", stats.claimed),
        ("replies_remembered_total", stats.remembered),
        ("requests_repeated_total", stats.repeated),
        ("requests_busy_total", stats.busy),
        ("requests_elsewhere_total", stats.elsewhere),
        ("reads_total", stats.reads),
        ("reads_asked_total", stats.asked),
        ("entries_taken_total", stats.taken),
        ("entries_duplicate_total", stats.duplicates),
        ("entries_refused_total", stats.full),
        ("entries_resent_total", stats.resent),
        ("sessions_opened_total", stats.opened),
        ("sessions_evicted_total", stats.evicted),
        ("images_copied_total", stats.copied),
        ("entries_repaired_total", stats.repaired),
        ("messages_of_other_epochs_total", stats.other_epoch),
        ("messages_out_of_place_total", stats.dropped),
    ]
}
