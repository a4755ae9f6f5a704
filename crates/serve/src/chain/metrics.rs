//! What a replica's admin port shows (`--admin`): its figures, its registers, whether it serves. The port asks the replica's loop, which answers
//! between two turns, so that nothing is counted twice or behind a lock.
//!
//! A figure of `chain::info` is called as its family, without prefix: `epoch` is `millrace_chain_epoch`.

use super::node::Node;
use super::registers::Shared;
use crate::admin::Routes;
use crate::admin::ask::{Asker, questions};
use crate::metrics::{Family, Page};
use base::Clock;
use protocol::chain::Part;
use std::sync::Arc;

crate::families! { "millrace_chain_";
    EPOCH gauge "epoch" count ["chain", "replica"] "Number of the configuration that the replica goes by.";
    IS_HEAD gauge "is_head" count ["chain", "replica"] "Whether it is the head: takes transactions.";
    IS_TAIL gauge "is_tail" count ["chain", "replica"] "Whether it is the tail: what it has is acknowledged.";
    SERVES_READS gauge "serves_reads" count ["chain", "replica"] "Whether it answers reads: it is a member with a lease.";
    LAST gauge "last_lsn" count ["chain", "replica"] "Last transaction that is in its log, durable or not.";
    DURABLE gauge "durable_lsn" count ["chain", "replica"] "Last transaction that is durable here.";
    COMMITTED gauge "committed_lsn" count ["chain", "replica"] "Last transaction that it knows to be durable everywhere.";
    APPLIED gauge "applied_lsn" count ["chain", "replica"] "Last transaction that its image has.";
    WAITING gauge "transactions_waiting" count ["chain", "replica"] "Transactions that wait at the head for keys or for the window.";
    UNDER_WAY gauge "transactions_under_way" count ["chain", "replica"] "Transactions that are logged and not committed.";
    CONNECTED gauge "connected" count ["chain", "replica"] "Whether its neighbours in the chain are connected.";
    REMOVED gauge "removed" count ["chain", "replica"] "Whether an operator's order took it out of the chain: it serves nobody.";
    COPY_RECEIVED gauge "copy_received" bytes ["chain", "replica"] "Bytes that are here of the image that it is being given; 0 of one that is given none.";
    COPY_EXTENT gauge "copy_extent" bytes ["chain", "replica"] "Bytes that this image has.";
    MISSING gauge "missing_entries" count ["chain", "replica"] "Entries that it lacks, and waits for.";
    RECOVERED_RECORDS gauge "recovered_records" count ["chain", "replica"] "Records that its log had at the start.";
    RECOVERED_BYTES gauge "recovered" bytes ["chain", "replica"] "Bytes that its log had at the start.";
    RECOVERED_TORN gauge "recovered_torn" bytes ["chain", "replica"] "Bytes at the end of the log that were not written whole.";
    RECOVERED_DAMAGED gauge "recovered_damaged" count ["chain", "replica"] "Records that were damaged at the start.";
    RECOVERED_ASIDE gauge "recovered_files_aside" count ["chain", "replica"] "Files that were beyond reading at the start, and were put aside.";
    RECOVERED_BLOCKS gauge "recovered_damaged_blocks" count ["chain", "replica"] "Blocks of the checkpoint that were damaged at the start.";
    RECOVERED_REPLAYED gauge "recovered_replayed" count ["chain", "replica"] "Entries that were replayed at the start.";
    RECOVERY gauge "recovery" seconds ["chain", "replica"] "How long recovery took.";
    LOG_RECORDS counter "log_records" count ["chain", "replica"] "Records appended to the log.";
    LOG_PAYLOAD counter "log_payload" bytes ["chain", "replica"] "Bytes of entries appended to the log.";
    LOG_WRITTEN counter "log_written" bytes ["chain", "replica"] "Bytes written to the log's medium.";
    LOG_PERSISTS counter "log_persists" count ["chain", "replica"] "Times that the medium was told to make something durable.";
    LOG_SYNCS counter "log_syncs" count ["chain", "replica"] "Writes of the log that became durable.";
    LOG_SYNCED counter "log_synced_entries" count ["chain", "replica"] "Entries in these; divided by their number: how many shared one.";
    LOG_SYNC_TIME counter "log_sync" seconds ["chain", "replica"] "Time that these took.";
    LOG_SYNC_MAX gauge "log_sync_max" seconds ["chain", "replica"] "The longest of these.";
    LOG_OUTSTANDING gauge "log_write_outstanding" seconds ["chain", "replica"] "How long the write that is under way has been.";
    LOG_USED gauge "log_used" ratio ["chain", "replica"] "How full the log is, from 0 to 1.";
    LOG_CAPACITY gauge "log_capacity" bytes ["chain", "replica"] "Bytes that the log can have.";
    LOG_FIRST gauge "log_first_lsn" count ["chain", "replica"] "First transaction that the log has.";
    LOG_MARKED gauge "log_marked_lsn" count ["chain", "replica"] "Last transaction that is noted as durable in a second place.";
    IMAGE_ITEMS gauge "image_items" count ["chain", "replica"] "Items.";
    IMAGE_EXTENT gauge "image_extent" bytes ["chain", "replica"] "Bytes of the image that are in use or were.";
    IMAGE_CAPACITY gauge "image_capacity" bytes ["chain", "replica"] "Bytes that the image can have.";
    IMAGE_WRITTEN counter "image_written" bytes ["chain", "replica"] "Bytes that checkpoints wrote.";
    CHECKPOINTS counter "checkpoints" count ["chain", "replica"] "Checkpoints that are complete.";
    LOGGED counter "transactions_logged" count ["chain", "replica"] "Transactions that the head logged.";
    ABORTED counter "transactions_aborted" count ["chain", "replica"] "Transactions whose conditions did not hold, or that found no room.";
    CLAIMED counter "transactions_claimed" count ["chain", "replica"] "Of the aborted, those that did not come by the home that claimed the chain.";
    REMEMBERED counter "replies_remembered" count ["chain", "replica"] "Requests answered with the reply of an earlier time.";
    REPEATED counter "requests_repeated" count ["chain", "replica"] "Requests that were under way already.";
    BUSY counter "requests_busy" count ["chain", "replica"] "Requests told to come later.";
    ELSEWHERE counter "requests_elsewhere" count ["chain", "replica"] "Requests told to go to another replica.";
    READS counter "reads" count ["chain", "replica"] "Reads answered.";
    READS_ASKED counter "reads_asked" count ["chain", "replica"] "Reads for which the tail was asked.";
    TAKEN counter "entries_taken" count ["chain", "replica"] "Entries taken from the replica before.";
    DUPLICATES counter "entries_duplicate" count ["chain", "replica"] "Entries that were there already.";
    REFUSED counter "entries_refused" count ["chain", "replica"] "Entries for which the log had no room.";
    RESENT counter "entries_resent" count ["chain", "replica"] "Entries sent again.";
    OPENED counter "sessions_opened" count ["chain", "replica"] "Sessions of clients opened.";
    EVICTED counter "sessions_evicted" count ["chain", "replica"] "Sessions forgotten to make room.";
    COPIED counter "images_copied" count ["chain", "replica"] "Images copied from another replica.";
    REPAIRED counter "entries_repaired" count ["chain", "replica"] "Damaged entries repaired from a neighbour.";
    OTHER_EPOCHS counter "messages_of_other_epochs" count ["chain", "replica"] "Messages of configurations that are not this one.";
    OUT_OF_PLACE counter "messages_out_of_place" count ["chain", "replica"] "Messages that the replica has no use for in its place.";
    LINKS_UP gauge "links_up" count ["chain", "replica"] "Links to other members that are up.";
    LINKS_MADE counter "links_made" count ["chain", "replica"] "Links made.";
    MESSAGES_SENT counter "messages_sent" count ["chain", "replica"] "Messages sent to members.";
    MESSAGES_RECEIVED counter "messages_received" count ["chain", "replica"] "Messages received from members.";
    MESSAGES_DROPPED counter "messages_dropped" count ["chain", "replica"] "Messages dropped since their link was full or down.";
    MESSAGES_MALFORMED counter "messages_malformed" count ["chain", "replica"] "Messages that could not be read.";
    STRANGERS counter "strangers" count ["chain", "replica"] "Links refused: of another chain, or no member.";
    UNPROVEN counter "unproven_links" count ["chain", "replica"] "Links refused: without the chain's key.";
    SECOND counter "second_processes" count ["chain", "replica"] "Links refused: a live member has one.";
    CALLS_WAITING gauge "calls_waiting" count ["chain", "replica"] "Calls of clients that are not answered.";
    CALLS_ANSWERED counter "calls_answered" count ["chain", "replica"] "Calls of clients answered.";
}

/// What a replica says of itself.
#[derive(Debug)]
pub struct Seen {
    chain: u32,
    replica: u16,
    figures: Vec<(&'static str, f64)>,
    /// Why it serves no clients.
    idle: Option<&'static str>,
}

impl Node {
    /// What operators are shown of it.
    pub fn routes(&mut self) -> Routes {
        let (asker, asked) = questions();
        self.questions = Some(asked);
        let asks = Asker::clone(&asker);
        let name = format!("replica-{}", self.place.id.0);
        Routes::default()
            .registers(Arc::new(Shared(Arc::clone(&self.registers))))
            .metrics(move |page| {
                if let Some(seen) = asker.ask() {
                    add(page, &seen);
                }
            })
            .ready(move || match asks.ask().map(|seen| seen.idle) {
                Some(None) => Ok(()),
                Some(Some(why)) => Err(why.to_owned()),
                None => Err("the replica's loop does not answer".to_owned()),
            })
            .loops([self.beat.pulse(name)])
    }

    /// Answers whoever asked meanwhile.
    pub(super) fn answer_questions(&self) {
        let Some(questions) = &self.questions else { return };
        questions.answer(|| Seen {
            chain: self.place.chain,
            replica: self.place.id.0,
            figures: self.state_figures(),
            idle: self.idle(),
        });
    }

    /// Why it serves no clients, if it does not.
    fn idle(&self) -> Option<&'static str> {
        let view = self.replica.view();
        match view.part {
            None => Some("no member of the chain: it waits for the controller"),
            Some(Part::Syncing) => Some("catching up with the chain"),
            Some(Part::Serving) if Clock::shared().now() >= view.lease_until => {
                Some("its lease has run out: the controller does not answer")
            }
            Some(Part::Serving) => None,
        }
    }

    /// Figures, and where the replica is in the chain.
    fn state_figures(&self) -> Vec<(&'static str, f64)> {
        let info = self.info(None);
        let mut all = vec![
            ("epoch", info.epoch.0 as f64),
            ("is_head", f64::from(u8::from(info.is_head))),
            ("is_tail", f64::from(u8::from(info.is_tail))),
            ("serves_reads", f64::from(u8::from(info.serves_reads))),
            ("last_lsn", info.last.0 as f64),
            ("durable_lsn", info.durable.0 as f64),
            ("committed_lsn", info.committed.0 as f64),
            ("applied_lsn", info.applied.0 as f64),
            ("transactions_waiting", info.waiting as f64),
            ("transactions_under_way", info.under_way as f64),
        ];
        all.extend(self.figures());
        all
    }
}

/// The family of a figure, and what a unit of the figure is there.
fn family(figure: &str) -> Option<(&'static Family, f64)> {
    if figure == "log_percent_used" {
        return Some((LOG_USED, 0.01));
    }
    let name = |family: &Family| family.name.strip_prefix("millrace_chain_") == Some(figure);
    FAMILIES.iter().find(|family| name(family)).map(|family| (*family, 1.0))
}

fn add(page: &mut Page, seen: &Seen) {
    let (chain, replica) = (seen.chain.to_string(), seen.replica.to_string());
    for (name, value) in &seen.figures {
        let Some((family, unit)) = family(name) else {
            debug_assert!(false, "figure {name} has no family");
            continue;
        };
        page.add(family, &[&chain, &replica], value * unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;

    #[test]
    fn figures_have_families_and_their_kinds() {
        let mut page = Page::default();
        let names = FAMILIES.iter().map(|family| family.name.trim_start_matches("millrace_chain_"));
        let names = names.map(|name| if name == "log_used_ratio" { "log_percent_used" } else { name });
        let figures: Vec<_> = names.map(|name| (name, 12.0)).collect();
        add(&mut page, &Seen { chain: 7, replica: 2, figures, idle: None });
        let text = page.text();
        lint::hold(&text);
        for lines in [
            "# TYPE millrace_chain_applied_lsn gauge\nmillrace_chain_applied_lsn{chain=\"7\",replica=\"2\"} 12\n",
            "# TYPE millrace_chain_log_syncs_total counter\nmillrace_chain_log_syncs_total{chain=\"7\",replica=\"2\"} 12\n",
            "millrace_chain_log_used_ratio{chain=\"7\",replica=\"2\"} 0.12\n",
        ] {
            assert!(text.contains(lines), "{lines} in\n{text}");
        }
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), FAMILIES.len());
    }
}
